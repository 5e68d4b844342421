//! Encoding of the values: etcd holds a text, and the served form is the revision in angle brackets before it.

use bytes::Bytes;
use holdfast_store::{Codec, CodecError, Revision, TimeToLive, Value};

/// Prefix of the keys whose values expire.
pub(super) const EVENTS: &str = "/registry/events/";

/// Bytes before the text in a value without its revision.
const BRACKETS: &[u8] = b"<>";

pub(super) struct TextCodec;

impl Codec for TextCodec {
    fn encode(&self, key: &[u8], value: &Value, _old: Option<&Bytes>) -> Result<Bytes, CodecError> {
        let stripped = value.bytes().strip_prefix(BRACKETS);
        let text = stripped.ok_or_else(|| CodecError::new(key, "the value has no place for its revision"))?;
        Ok(Bytes::copy_from_slice(text))
    }

    fn decode(&self, _key: &[u8], stored: &[u8]) -> Result<Value, CodecError> {
        Ok(Value::object([BRACKETS, stored].concat(), 1))
    }

    fn time_to_live(&self, key: &[u8]) -> TimeToLive {
        match key.starts_with(EVENTS.as_bytes()) {
            true => TimeToLive::Event,
            false => TimeToLive::Unlimited,
        }
    }
}

/// Returns the value of a text, for a write.
pub(super) fn value(text: &str) -> Value {
    Value::object([BRACKETS, text.as_bytes()].concat(), 1)
}

/// Returns the bytes that readers get for a stored text.
pub(super) fn served(text: &[u8], revision: Revision) -> Vec<u8> {
    [format!("<{revision}>").as_bytes(), text].concat()
}
