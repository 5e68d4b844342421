//! How values lie in an engine that others read as well: the seam between the store and the codec of stored bytes.
//!
//! The state holds objects as they are served: JSON of the storage version, with a place for their revision. In etcd they
//! lie as kube-apiserver writes them: protobuf in its envelope for built-in kinds, JSON for custom ones. The store knows
//! neither, so whoever opens an engine on etcd brings the codec along.

use bytes::Bytes;

use crate::entry::Value;

/// Encodes and decodes what lies in etcd. Both directions know what kind of object it is by its key, which begins with
/// `/registry/` whatever the prefix in etcd is.
pub trait AtRest: Send + Sync + 'static {
    /// The bytes to store for a value as it is served.
    ///
    /// # Errors
    /// Where the value cannot be written so; nothing is stored then.
    fn encode(&self, key: &[u8], value: &Value) -> Result<Bytes, AtRestError>;

    /// The value of stored bytes, whoever wrote them, with the place of its revision.
    ///
    /// # Errors
    /// Where the bytes cannot be read: the key is told of, and stays as it is.
    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, AtRestError>;
}

/// Why a value cannot be encoded, or stored bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AtRestError(pub String);

/// Values lie as they are served, with an empty revision: for stores that nobody else reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsServed;

/// What stands before the place of the revision.
const REVISION: &[u8] = br#""resourceVersion":""#;

impl AtRest for AsServed {
    fn encode(&self, _key: &[u8], value: &Value) -> Result<Bytes, AtRestError> {
        Ok(value.bytes().clone())
    }

    fn decode(&self, _key: &[u8], stored: &[u8]) -> Result<Value, AtRestError> {
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
            let stored = AsServed.encode(b"/registry/pods/a/b", &value).unwrap();
            assert_eq!(AsServed.decode(b"/registry/pods/a/b", &stored).unwrap(), value);
        }
    }
}
