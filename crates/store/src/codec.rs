//! The encoding of values in an engine.

use bytes::Bytes;

use crate::entry::{StoredForm, Value};

/// Converts values between the form in which they are served and the form in which an engine stores them.
///
/// The embedded engine stores the served form and needs no conversion. An engine with shared storage uses the form of
/// the other servers.
pub trait Codec: Send + Sync + 'static {
    /// Returns the bytes to store for `value` under `key`, without the value's revision. `old` is the stored value that
    /// it replaces, if there is one.
    ///
    /// # Errors
    /// If the value cannot be stored under this key.
    fn encode(&self, key: &[u8], value: &Value, old: Option<&Bytes>) -> Result<Bytes, CodecError>;

    /// Returns the bytes to store, as [`Codec::encode`] does, and their form.
    ///
    /// # Errors
    /// If the value cannot be stored under this key.
    fn encode_in_form(
        &self,
        key: &[u8],
        value: &Value,
        old: Option<&Bytes>,
    ) -> Result<(Bytes, StoredForm), CodecError> {
        Ok((self.encode(key, value, old)?, StoredForm::PLAIN))
    }

    /// Returns the form in which a value of `key` would be stored now.
    fn form_of(&self, _key: &[u8]) -> StoredForm {
        StoredForm::PLAIN
    }

    /// Decodes `stored`, the value of `key`, and finds the offset of its revision.
    ///
    /// # Errors
    /// If the bytes have no known format. The store reports such an entry by its key and keeps it as a
    /// [`CodecError::placeholder`].
    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, CodecError>;

    /// Returns the time to live of the value of `key`.
    fn time_to_live(&self, key: &[u8]) -> TimeToLive;
}

/// Time to live of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// Until it is deleted.
    Unlimited,
    /// The engine's configured time to live of events.
    Event,
    /// This number of seconds after its last write.
    Seconds(u16),
}

/// Error of encoding or decoding a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct CodecError {
    /// Key of the value.
    pub key: String,
    /// Description of the error.
    pub why: String,
    /// True if the bytes could not be transformed, such as decrypted or encrypted.
    pub untransformable: bool,
}

/// Prefix of the placeholder of an undecodable entry.
const UNDECODABLE: &str = "undecodable: ";
/// Prefix of the placeholder of an entry that cannot be transformed.
const UNTRANSFORMABLE: &str = "untransformable: ";

impl CodecError {
    /// Creates the error of the value under `key`.
    pub fn new(key: &[u8], why: impl ToString) -> Self {
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            why: why.to_string(),
            untransformable: false,
        }
    }

    /// Creates the error of the value under `key` whose bytes cannot be transformed.
    ///
    /// upstream: k8s.io/apiserver/pkg/storage/etcd3#store.GetList
    pub fn untransformable(key: &[u8], why: impl ToString) -> Self {
        let name = String::from_utf8_lossy(key);
        let why = format!("unable to transform key {name:?}: {}", why.to_string());
        Self {
            untransformable: true,
            ..Self::new(key, why)
        }
    }

    /// Returns the value that represents an unreadable entry in the state. It is not JSON: a reader of its key gets the
    /// error, and lists and watches omit it if it is undecodable. The placeholder of an entry that cannot be
    /// transformed contains `stored`, so that it can be transformed later.
    pub fn placeholder(&self, stored: &[u8], revision_at: Option<u32>) -> Value {
        if !self.untransformable {
            return Value::plain(format!("{UNDECODABLE}{}", self.why));
        }
        let offset = revision_at.map(|at| at.to_string()).unwrap_or_default();
        let head = format!("{UNTRANSFORMABLE}{}\0{offset}\0", self.why.replace('\0', " "));
        Value::plain([head.as_bytes(), stored].concat()).with_form(StoredForm::UNREADABLE)
    }

    /// Returns the error if `value` is a [`CodecError::placeholder`].
    pub fn of_placeholder(value: &[u8]) -> Option<&str> {
        match value.strip_prefix(UNDECODABLE.as_bytes()) {
            Some(why) => std::str::from_utf8(why).ok(),
            None => Self::of_untransformable(value),
        }
    }

    /// Returns the error if `value` is the [`CodecError::placeholder`] of an entry that cannot be transformed.
    pub fn of_untransformable(value: &[u8]) -> Option<&str> {
        UntransformableValue::from_placeholder(value).map(|value| value.why)
    }
}

/// Stored value that could not be transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntransformableValue<'a> {
    /// Error of the last attempt.
    pub why: &'a str,
    /// Stored bytes.
    pub stored: &'a [u8],
    /// Offset of the revision in the plain bytes, if the engine stores it separately.
    pub revision_at: Option<u32>,
}

impl<'a> UntransformableValue<'a> {
    /// Reads the [`CodecError::placeholder`] of an entry that cannot be transformed; `None` if `value` is another value.
    pub fn from_placeholder(value: &'a [u8]) -> Option<Self> {
        let mut parts = value
            .strip_prefix(UNTRANSFORMABLE.as_bytes())?
            .splitn(3, |byte| *byte == 0);
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let (why, offset) = (text()?, text()?);
        Some(Self {
            why,
            revision_at: offset.parse().ok(),
            stored: parts.next()?,
        })
    }
}

/// Codec that stores values as they are served, with an empty revision: for storage that no other server reads. Events
/// have a limited time to live.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsServed;

/// The bytes before the offset of the revision.
const REVISION: &[u8] = br#""resourceVersion":""#;

impl Codec for AsServed {
    fn encode(&self, _key: &[u8], value: &Value, _old: Option<&Bytes>) -> Result<Bytes, CodecError> {
        Ok(value.bytes().clone())
    }

    fn decode(&self, _key: &[u8], stored: &[u8]) -> Result<Value, CodecError> {
        let bytes = Bytes::copy_from_slice(stored);
        let at = stored
            .windows(REVISION.len() + 1)
            .position(|window| window.starts_with(REVISION) && window.ends_with(b"\""))
            .and_then(|at| u32::try_from(at + REVISION.len()).ok());
        Ok(match at {
            Some(at) => Value::object(bytes, at),
            None => Value::plain(bytes),
        })
    }

    fn time_to_live(&self, key: &[u8]) -> TimeToLive {
        match key.starts_with(b"/registry/events/") {
            true => TimeToLive::Event,
            false => TimeToLive::Unlimited,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn stored_as_served_value_keeps_revision_offset() {
        for value in [
            Value::object(br#"{"metadata":{"name":"a","resourceVersion":""}}"#.to_vec(), 43),
            Value::plain(&b"no object"[..]),
        ] {
            let stored = AsServed.encode(b"/registry/pods/a/b", &value, None).unwrap();
            assert_eq!(AsServed.decode(b"/registry/pods/a/b", &stored).unwrap(), value);
        }
    }

    #[test]
    fn an_entry_that_cannot_be_decoded_is_reported_by_its_key() {
        let error = CodecError::new(b"/registry/pods/a/b", "unexpected EOF");
        assert_eq!(error.to_string(), "/registry/pods/a/b: unexpected EOF");
        let placeholder = error.placeholder(b"stored", None);
        assert_eq!(placeholder.bytes(), "undecodable: unexpected EOF");
        assert_eq!(CodecError::of_placeholder(placeholder.bytes()), Some("unexpected EOF"));
        assert_eq!(CodecError::of_untransformable(placeholder.bytes()), None);
        assert_eq!(CodecError::of_placeholder(b"{}"), None);
    }

    #[test]
    fn placeholder_keeps_bytes_that_cannot_be_transformed() {
        let error = CodecError::untransformable(b"/registry/secrets/a/b", "no key");
        let why = "unable to transform key \"/registry/secrets/a/b\": no key";
        for revision_at in [None, Some(7)] {
            let placeholder = error.placeholder(b"\0stored\0", revision_at);
            assert_eq!(CodecError::of_placeholder(placeholder.bytes()), Some(why));
            let stored = b"\0stored\0";
            let expected = UntransformableValue {
                why,
                stored,
                revision_at,
            };
            assert_eq!(
                UntransformableValue::from_placeholder(placeholder.bytes()),
                Some(expected)
            );
        }
    }
}
