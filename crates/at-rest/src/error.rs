use holdfast_proto::{DecodeError, EncodeError};
use holdfast_schema::types;
use holdfast_value::SmolStr;

/// Error of converting an object.
#[derive(Debug, thiserror::Error)]
pub enum AtRestError {
    /// The stored bytes are neither protobuf nor JSON.
    #[error(transparent)]
    Protobuf(#[from] DecodeError),
    /// The JSON or CBOR cannot be read.
    #[error(transparent)]
    Json(#[from] holdfast_value::Error),
    /// The JSON does not fit its type.
    #[error(transparent)]
    Shape(#[from] types::DecodeError),
    /// The object has no kind or version.
    #[error("Object '{0}' is missing")]
    Unidentified(&'static str),
    /// The kind is unknown in that version.
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )]
    UnknownKind {
        /// Version of the object.
        api_version: SmolStr,
        /// Kind of the object.
        kind: SmolStr,
    },
    /// The object has another kind than its key requires.
    #[error("an object of kind {found} is stored at a key of kind {expected}")]
    OtherKind {
        /// Kind of the object.
        found: SmolStr,
        /// Required kind.
        expected: SmolStr,
    },
    /// The object has no protobuf form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
