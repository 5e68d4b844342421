//! How values lie in an engine.

use bytes::Bytes;

use crate::entry::Value;

/// Turns values from the form in which they are served into that in which an engine keeps them, and back.
///
/// The embedded engine keeps what is served and needs none. An engine whose storage others share keeps what these write.
pub trait Codec: Send + Sync + 'static {
    /// The bytes to keep for `value` under `key`, where it takes the place of `old`, if that is there. They do not hold the
    /// value's revision.
    ///
    /// # Errors
    /// Where the value is nothing that may stand there.
    fn encode(&self, key: &[u8], value: &Value, old: Option<&Bytes>) -> Result<Bytes, CodecError>;

    /// The value that `stored` is under `key`, with the place of its revision.
    ///
    /// # Errors
    /// Where the bytes have no known form. Such an entry is reported by its key and is not dropped:
    /// [`CodecError::placeholder`] stands for it.
    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, CodecError>;

    /// How long the value of `key` stays.
    fn time_to_live(&self, key: &[u8]) -> TimeToLive;
}

/// How long a stored value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// Until it is deleted.
    Unlimited,
    /// As long as the engine's settings say for events.
    Event,
    /// So many seconds after its last write.
    Seconds(u16),
}

/// Why a value has no other form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct CodecError {
    /// The key that the value is kept under.
    pub key: String,
    /// What is wrong with it.
    pub why: String,
}

/// What the placeholder of an entry begins with.
const UNDECODABLE: &str = "undecodable: ";

impl CodecError {
    /// The error of the value under `key`.
    pub fn new(key: &[u8], why: impl ToString) -> Self {
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            why: why.to_string(),
        }
    }

    /// What stands in the state for an entry that cannot be decoded: no JSON, so that a reader of its key gets
    /// why it cannot be read, and lists and watches leave it out.
    pub fn placeholder(&self) -> Value {
        Value::plain(format!("{UNDECODABLE}{}", self.why))
    }

    /// What is wrong with the entry that `value` stands for, if it is a [`CodecError::placeholder`].
    pub fn of_placeholder(value: &[u8]) -> Option<&str> {
        std::str::from_utf8(value.strip_prefix(UNDECODABLE.as_bytes())?).ok()
    }
}

/// Values lie as they are served, with an empty revision: for storage that no other server reads. What is an event goes after a
/// while.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsServed;

/// What stands before the place of the revision.
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
    fn what_is_stored_as_served_finds_the_place_of_its_revision_again() {
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
