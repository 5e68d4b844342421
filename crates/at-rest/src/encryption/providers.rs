//! Providers of a resource: the first one writes, all of them read. A prefix of the stored bytes names the provider and
//! its key.

use std::sync::Arc;

use holdfast_gotext::errors::aggregate;
use holdfast_store::{ENCRYPTED_WITHOUT_PROVIDER, StoredForm, Transformed, is_encrypted};

use super::aes::{Cbc, Gcm};
use super::cipher::Cipher;
use super::configuration::{Key, KmsConfiguration, ProviderConfiguration};
use super::forms::Forms;
use super::kms::KmsProvider;
use super::secretbox::Secretbox;
use super::validation::decode_secret;

const AESCBC: &str = "k8s:enc:aescbc:v1:";
const AESGCM: &str = "k8s:enc:aesgcm:v1:";
const SECRETBOX: &str = "k8s:enc:secretbox:v1:";
const KMS_V2: &str = "k8s:enc:kms:v2:";

/// Error of a plugin of version 1, which the reference disables by default.
const KMS_V1_DISABLED: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 \
                               instead.";

const NO_PROVIDER: &str = "no matching prefix found";
const NO_AES_KEY: &str = "no matching key was found for the provided AES transformer";
const NO_SECRETBOX_KEY: &str = "no matching key was found for the provided Secretbox transformer";
const NOT_AN_OBJECT: &str = "the decrypted data is not an object, so another key encrypted it";

/// First bytes of stored objects: JSON, protobuf and CBOR.
const OBJECT_PREFIXES: [&[u8]; 3] = [b"{\"", b"k8s\0", b"\xd9\xd9\xf7"];

/// Providers in their order.
///
/// upstream: k8s.io/apiserver/pkg/storage/value#NewPrefixTransformers
#[derive(Clone, Default)]
pub(super) struct Providers(Vec<Arc<Provider>>);

/// One provider and the prefix of what it has stored.
pub(super) struct Provider {
    prefix: Vec<u8>,
    method: Method,
}

enum Method {
    Identity,
    Keys {
        keys: Vec<NamedKey>,
        missing: &'static str,
        is_authenticated: bool,
    },
    Kms(Arc<KmsProvider>),
}

/// A key and the prefix of what it has encrypted, which is its name and a colon.
struct NamedKey {
    prefix: Vec<u8>,
    cipher: Box<dyn Cipher>,
    form: StoredForm,
}

type NewCipher = fn(&[u8]) -> Result<Box<dyn Cipher>, String>;

/// A kind of local provider.
struct LocalKind {
    prefix: &'static str,
    missing: &'static str,
    /// True if the cipher detects a wrong key.
    is_authenticated: bool,
    new_cipher: NewCipher,
}

const GCM_KIND: LocalKind = LocalKind {
    prefix: AESGCM,
    missing: NO_AES_KEY,
    is_authenticated: true,
    new_cipher: |key| Ok(Box::new(Gcm::new(key)?)),
};
const CBC_KIND: LocalKind = LocalKind {
    prefix: AESCBC,
    missing: NO_AES_KEY,
    is_authenticated: false,
    new_cipher: |key| Ok(Box::new(Cbc::new(key)?)),
};
const SECRETBOX_KIND: LocalKind = LocalKind {
    prefix: SECRETBOX,
    missing: NO_SECRETBOX_KEY,
    is_authenticated: true,
    new_cipher: |key| Ok(Box::new(Secretbox::new(key)?)),
};

impl LocalKind {
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#aesPrefixTransformer
    fn provider(&self, keys: &[Key], forms: &Forms) -> Result<Provider, String> {
        let named = |key: &Key| {
            let secret = decode_secret(&key.secret).ok_or("illegal base64 data")?;
            let prefix = format!("{}:", key.name).into_bytes();
            Ok::<_, String>(NamedKey {
                form: forms.intern(&[self.prefix.as_bytes(), &prefix, &secret]),
                cipher: (self.new_cipher)(&secret)?,
                prefix,
            })
        };
        let (missing, is_authenticated) = (self.missing, self.is_authenticated);
        let keys = keys.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Provider {
            prefix: self.prefix.as_bytes().to_vec(),
            method: Method::Keys {
                keys,
                missing,
                is_authenticated,
            },
        })
    }
}

/// Function that connects to a plugin.
pub(super) type ConnectKms<'a> = dyn FnMut(&KmsConfiguration) -> Result<Arc<KmsProvider>, String> + 'a;

impl Provider {
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#prefixTransformersAndProbes
    fn new(configuration: &ProviderConfiguration, forms: &Forms, connect: &mut ConnectKms<'_>) -> Result<Self, String> {
        let ProviderConfiguration {
            aesgcm,
            aescbc,
            secretbox,
            kms,
            ..
        } = configuration;
        let locals = [(aesgcm, GCM_KIND), (aescbc, CBC_KIND), (secretbox, SECRETBOX_KIND)];
        for (keys, kind) in &locals {
            if let Some(keys) = keys {
                return kind.provider(keys, forms);
            }
        }
        match kms {
            Some(kms) if kms.api_version == "v1" => Err(KMS_V1_DISABLED.to_owned()),
            Some(kms) => Ok(Self {
                prefix: format!("{KMS_V2}{}:", kms.name).into_bytes(),
                method: Method::Kms(connect(kms)?),
            }),
            None => Ok(Self {
                prefix: Vec::new(),
                method: Method::Identity,
            }),
        }
    }

    /// Returns the plain bytes of a value whose prefix was removed; `None` if they are `data`.
    fn open(&self, path: &[u8], data: &[u8]) -> Result<Option<Transformed>, String> {
        match &self.method {
            Method::Identity if is_encrypted(data) => Err(ENCRYPTED_WITHOUT_PROVIDER.to_owned()),
            Method::Identity => Ok(None),
            Method::Kms(kms) => kms.decrypt(path, data).map(Some),
            Method::Keys {
                keys,
                missing,
                is_authenticated,
            } => {
                let mut errors = Vec::new();
                for key in keys {
                    let Some(data) = data.strip_prefix(&key.prefix[..]) else {
                        continue;
                    };
                    match key.cipher.decrypt(path, data) {
                        // With a wrong key, one in 256 values has a valid padding.
                        Ok(bytes) if !is_authenticated && !is_object(&bytes) => errors.push(NOT_AN_OBJECT.to_owned()),
                        Ok(bytes) => return Ok(Some(Transformed { bytes, form: key.form })),
                        Err(error) => errors.push(error),
                    }
                }
                Err(combined(&errors, missing))
            }
        }
    }

    /// Returns the bytes to store; `None` if they are the plain ones.
    fn seal(&self, path: &[u8], plain: &[u8]) -> Result<Option<Transformed>, String> {
        let (name, sealed, form) = match &self.method {
            Method::Identity => return Ok(None),
            Method::Kms(kms) => {
                let Transformed { bytes, form } = kms.encrypt(path, plain)?;
                (&[][..], bytes, form)
            }
            Method::Keys { keys, missing, .. } => {
                let key = keys.first().ok_or(*missing)?;
                (&key.prefix[..], key.cipher.encrypt(path, plain)?, key.form)
            }
        };
        Ok(Some(Transformed {
            bytes: [&self.prefix, name, &sealed].concat(),
            form,
        }))
    }

    fn form(&self) -> StoredForm {
        match &self.method {
            Method::Identity => StoredForm::PLAIN,
            Method::Kms(kms) => kms.form(),
            Method::Keys { keys, .. } => keys.first().map_or(StoredForm::PLAIN, |key| key.form),
        }
    }
}

impl Providers {
    pub(super) fn new(
        configurations: &[ProviderConfiguration],
        forms: &Forms,
        connect: &mut ConnectKms<'_>,
    ) -> Result<Self, String> {
        let providers = configurations
            .iter()
            .map(|configuration| Provider::new(configuration, forms, connect).map(Arc::new));
        providers.collect::<Result<_, _>>().map(Self)
    }

    /// Adds the providers of a later rule for the same resource.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns the plain bytes of a stored value; `None` if it is plain.
    pub(super) fn open(&self, path: &[u8], stored: &[u8]) -> Result<Option<Transformed>, String> {
        let mut errors = Vec::new();
        for provider in &self.0 {
            let Some(data) = stored.strip_prefix(&provider.prefix[..]) else {
                continue;
            };
            match provider.open(path, data) {
                Ok(opened) => return Ok(opened),
                // A later provider may decrypt what the identity cannot read.
                Err(_) if provider.prefix.is_empty() => {}
                Err(error) => errors.push(error),
            }
        }
        Err(combined(&errors, NO_PROVIDER))
    }

    /// Returns the bytes to store; `None` if they are the plain ones.
    pub(super) fn seal(&self, path: &[u8], plain: &[u8]) -> Result<Option<Transformed>, String> {
        self.0.first().map_or(Ok(None), |provider| provider.seal(path, plain))
    }

    /// Returns the form in which a value would be stored now.
    pub(super) fn form(&self) -> StoredForm {
        self.0.first().map_or(StoredForm::PLAIN, |provider| provider.form())
    }
}

/// Returns true if the bytes begin like a stored object.
fn is_object(bytes: &[u8]) -> bool {
    OBJECT_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix))
}

/// Returns the text of several errors, or of their absence.
fn combined(errors: &[String], none: &str) -> String {
    match errors.is_empty() {
        true => none.to_owned(),
        false => aggregate(errors),
    }
}
