use holdfast_gotext::quantity::QuantityError;
use holdfast_value::SmolStr;

/// Why bytes are no object; as far as clients see them, in the words of the reference.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// There are no bytes at all.
    #[error("empty data")]
    Empty,
    /// The bytes do not begin with the magic number.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// Nothing follows the magic number.
    #[error("empty body")]
    EmptyBody,
    /// The bytes end in the middle of something, or a length leads beyond their end.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint has more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is negative.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A field has the number zero, or one beyond what protobuf allows.
    #[error("proto: {of}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// The type of the message.
        of: SmolStr,
        /// The number as 32 bits with a sign.
        number: i32,
        /// The whole tag, which the reference gives for the wire type.
        tag: u64,
    },
    /// The end of a group stands where a field should.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(SmolStr),
    /// A field has a wire type that protobuf does not know.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    /// A field has another wire type than its type is written with.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type.
        wire: u8,
        /// The field by its name in the reference's struct.
        field: SmolStr,
    },
    /// The input has more bytes than the limits allow.
    #[error("the input has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The size of the input.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Messages are nested deeper than the limits allow.
    #[error("exceeded max depth")]
    TooDeep,
    /// There are more values than the limits allow.
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
    /// A time has no text: its year is not one of 0000 to 9999.
    #[error("Time.MarshalJSON: year outside of range [0,9999]")]
    TimeOutOfRange,
    /// A value that is neither number nor text.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// A number that JSON has no form for.
    #[error("json: unsupported value: {0}")]
    NotFinite(f64),
    /// The type of the message has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoMessage(SmolStr),
}

/// Why a tree has no protobuf form. None of these can happen to a tree in the form of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A value of another kind than its type asks for, or outside of its range.
    #[error("a value of type {expected} was expected, not {found}")]
    Mismatch {
        /// The type.
        expected: &'static str,
        /// What stands there: `string`, `number`, `array`…
        found: &'static str,
    },
    /// The type has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoMessage(SmolStr),
}
