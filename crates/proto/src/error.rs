use holdfast_gotext::quantity::QuantityError;
use holdfast_value::SmolStr;

/// Decoding error. Errors that clients see have the reference's message.
///
/// ```
/// use holdfast_proto::{DecodeError, Envelope};
///
/// assert!(matches!(Envelope::read(b""), Err(DecodeError::Empty)));
/// assert!(matches!(Envelope::read(b"{\"kind\":\"Pod\"}"), Err(DecodeError::NoMagic)));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The input is empty.
    #[error("empty data")]
    Empty,
    /// The bytes do not begin with the magic number.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// Nothing follows the magic number.
    #[error("empty body")]
    EmptyBody,
    /// The bytes end within an element, or a length exceeds them.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint has more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is negative.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A field number is zero or above protobuf's limit.
    #[error("proto: {of}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// Type of the message.
        of: SmolStr,
        /// Number as a signed 32-bit integer.
        number: i32,
        /// Whole tag, which the reference reports as the wire type.
        tag: u64,
    },
    /// A field is expected, but a group ends.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(SmolStr),
    /// A field has an unknown wire type.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    /// A field has another wire type than its type requires.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type.
        wire: u8,
        /// Name of the field in the reference's struct.
        field: SmolStr,
    },
    /// The input exceeds the limit on bytes.
    #[error("the input has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The size of the input.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Messages exceed the limit on nesting.
    #[error("exceeded max depth")]
    TooDeep,
    /// The input exceeds the limit on values.
    #[error("more than {limit} values")]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// JSON within a message cannot be read.
    #[error(transparent)]
    Json(#[from] holdfast_value::Error),
    /// Not a quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A time has no text form because its year is not within 0000 to 9999.
    #[error("Time.MarshalJSON: year outside of range [0,9999]")]
    TimeOutOfRange,
    /// A value is neither number nor text.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// A number has no JSON form.
    #[error("json: unsupported value: {0}")]
    NotFinite(f64),
    /// The type of the message has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoMessage(SmolStr),
}

/// Encoding error. None of these can happen to a tree that fits its type.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_proto::{EncodeError, Messages};
/// use holdfast_value::{Limits, json};
///
/// let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
/// let config_map = messages.types().id("io.k8s.api.core.v1.ConfigMap").unwrap();
/// let value = json::parse(br#"{"data":"a text"}"#, &Limits::REQUEST)?;
/// let outcome = messages.encode(config_map, &value, &mut Vec::new());
/// assert!(matches!(outcome, Err(EncodeError::Mismatch { found: "string", .. })));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A value has another JSON type than required, or is out of range.
    #[error("a value of type {expected} was expected, not {found}")]
    Mismatch {
        /// Required type.
        expected: &'static str,
        /// Actual type: `string`, `number`, `array`…
        found: &'static str,
    },
    /// The type has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoMessage(SmolStr),
}
