//! A codec whose stored bytes are encrypted.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_store::{Codec, CodecError, StoredForm, TimeToLive, Transformed, Value};

use super::encryption::Encryption;

/// Prefix of the keys of a store's state.
const STATE_PREFIX: &[u8] = b"/registry/";

/// Codec of an etcd that encrypts what another codec encodes.
pub struct EncryptedCodec {
    codec: Arc<dyn Codec>,
    encryption: Arc<Encryption>,
    /// Prefix of keys in etcd, which are authenticated. It replaces the prefix of the state.
    prefix: Vec<u8>,
}

impl EncryptedCodec {
    /// Creates a codec around `codec` for an etcd whose keys begin with `prefix`, the value of `--etcd-prefix`.
    pub fn new(codec: Arc<dyn Codec>, encryption: Arc<Encryption>, prefix: &str) -> Self {
        let name = prefix.trim_matches('/');
        let prefix = match name {
            "" => "/".to_owned(),
            name => format!("/{name}/"),
        };
        Self {
            codec,
            encryption,
            prefix: prefix.into_bytes(),
        }
    }

    /// Returns the key in etcd of a key of the state.
    fn path(&self, key: &[u8]) -> Vec<u8> {
        match key.strip_prefix(STATE_PREFIX) {
            Some(rest) => [&self.prefix, rest].concat(),
            None => key.to_vec(),
        }
    }
}

impl Codec for EncryptedCodec {
    fn encode(&self, key: &[u8], value: &Value, old: Option<&Bytes>) -> Result<Bytes, CodecError> {
        Ok(self.encode_in_form(key, value, old)?.0)
    }

    fn encode_in_form(
        &self,
        key: &[u8],
        value: &Value,
        old: Option<&Bytes>,
    ) -> Result<(Bytes, StoredForm), CodecError> {
        let plain = self.codec.encode(key, value, old)?;
        let sealed = self.encryption.seal(key, || self.path(key), &plain)?;
        Ok(match sealed {
            Some(Transformed { bytes, form }) => (bytes.into(), form),
            None => (plain, StoredForm::PLAIN),
        })
    }

    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, CodecError> {
        Ok(match self.encryption.open(key, || self.path(key), stored)? {
            Some(Transformed { bytes, form }) => self.codec.decode(key, &bytes)?.with_form(form),
            None => self.codec.decode(key, stored)?,
        })
    }

    fn form_of(&self, key: &[u8]) -> StoredForm {
        self.encryption.form(key)
    }

    fn time_to_live(&self, key: &[u8]) -> TimeToLive {
        self.codec.time_to_live(key)
    }
}
