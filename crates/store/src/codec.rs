//! How values lie in an engine.

use bytes::Bytes;

use crate::entry::Value;

/// Turns values from the form in which they are served into that in which an engine keeps them, and back.
///
/// The embedded engine keeps what is served and needs none. An engine whose storage others share keeps what these write.
pub trait Codec: Send + Sync + 'static {
    /// The bytes to keep for `value` under `key`. They do not hold the value's revision.
    ///
    /// # Errors
    /// Where the value is nothing that may stand there.
    fn encode(&self, key: &[u8], value: &Value) -> Result<Bytes, CodecError>;

    /// The value that `stored` is under `key`, with the place of its revision.
    ///
    /// # Errors
    /// Where the bytes are nothing that anybody may have kept there. Such an entry is told by its key and is not dropped:
    /// [`CodecError::placeholder`] stands for it.
    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, CodecError>;

    /// Whether what is kept under `key` goes by itself after a while.
    fn expires(&self, key: &[u8]) -> bool;
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

impl CodecError {
    /// The error of the value under `key`.
    pub fn new(key: &[u8], why: impl ToString) -> Self {
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            why: why.to_string(),
        }
    }

    /// What stands in the state for an entry that cannot be decoded: no JSON, so that whoever asks for it by its key is told
    /// why it cannot be read, and lists and watches leave it out.
    pub fn placeholder(&self) -> Value {
        Value::plain(format!("undecodable: {}", self.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_decoded_is_told_by_its_key() {
        let error = CodecError::new(b"/registry/pods/a/b", "unexpected EOF");
        assert_eq!(error.to_string(), "/registry/pods/a/b: unexpected EOF");
        assert_eq!(error.placeholder().bytes(), "undecodable: unexpected EOF");
    }
}
