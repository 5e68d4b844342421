//! The encoding of values in an engine.

use bytes::Bytes;

use crate::entry::Value;

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
}

/// Prefix of the placeholder of an undecodable entry.
const UNDECODABLE: &str = "undecodable: ";

impl CodecError {
    /// Creates the error of the value under `key`.
    pub fn new(key: &[u8], why: impl ToString) -> Self {
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            why: why.to_string(),
        }
    }

    /// Returns the value that represents an undecodable entry in the state. It is not JSON: a reader of its key gets
    /// the decoding error, and lists and watches omit it.
    pub fn placeholder(&self) -> Value {
        Value::plain(format!("{UNDECODABLE}{}", self.why))
    }

    /// Returns the decoding error if `value` is a [`CodecError::placeholder`].
    pub fn of_placeholder(value: &[u8]) -> Option<&str> {
        std::str::from_utf8(value.strip_prefix(UNDECODABLE.as_bytes())?).ok()
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
        assert_eq!(error.placeholder().bytes(), "undecodable: unexpected EOF");
        assert_eq!(
            CodecError::of_placeholder(error.placeholder().bytes()),
            Some("unexpected EOF")
        );
        assert_eq!(CodecError::of_placeholder(b"{}"), None);
    }
}
