use holdfast_proto::{DecodeError, EncodeError};
use holdfast_resource::schema;
use holdfast_value::SmolStr;

/// Why an object has no other form.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// What is stored is neither protobuf nor JSON.
    #[error(transparent)]
    Protobuf(#[from] DecodeError),
    /// The JSON or CBOR cannot be read.
    #[error(transparent)]
    Json(#[from] holdfast_value::Error),
    /// The JSON does not fit its type.
    #[error(transparent)]
    Shape(#[from] schema::DecodeError),
    /// The object does not say what it is.
    #[error("Object '{0}' is missing")]
    Unidentified(&'static str),
    /// The kind is unknown in that version.
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )]
    UnknownKind {
        /// The version.
        api_version: SmolStr,
        /// The kind.
        kind: SmolStr,
    },
    /// An object of another kind stands there.
    #[error("an object of kind {found} stands among those of kind {expected}")]
    OtherKind {
        /// What stands there.
        found: SmolStr,
        /// What belongs there.
        expected: SmolStr,
    },
    /// The object has no protobuf form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
