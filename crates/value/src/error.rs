use std::fmt;

/// Errors of reading or patching a tree.
///
/// The texts are the reference's (Go's `encoding/json` and its YAML and JSON patch libraries), because clients see them
/// in `Status` messages. [`Error::position`] returns the position of the error in the input.
///
/// ```
/// use holdfast_value::{Error, Limits, json};
///
/// let error = json::parse(b"{", &Limits::REQUEST).unwrap_err();
/// assert!(matches!(error, Error::Json { .. }));
/// assert_eq!(error.to_string(), "unexpected end of JSON input");
///
/// let deep = json::parse(b"[[[]]]", &Limits { max_depth: 2, ..Limits::REQUEST });
/// assert!(matches!(deep, Err(Error::TooDeep { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input is not JSON.
    #[error("{message}")]
    Json {
        /// Message of Go's `encoding/json`.
        message: String,
        /// Position of the error.
        position: Position,
    },
    /// The input is not YAML, or it is YAML without a JSON form.
    #[error("{message}")]
    Yaml {
        /// The reference's message: usually `yaml: line N: …`, without the line number on the first line.
        message: String,
        /// Position of the error.
        position: Position,
    },
    /// The input is not CBOR, or it is CBOR without a JSON form.
    #[error("{message}")]
    Cbor {
        /// Message of the reference's library.
        message: String,
    },
    /// The input exceeds [`Limits::max_bytes`](crate::Limits::max_bytes), directly or by expanding YAML aliases.
    #[error("the input has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The size of the input.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Lists and maps are nested deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("{message}")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// The reference's message for input beyond its own limit.
        message: String,
        /// Position of the first list or map beyond the limit.
        position: Position,
    },
    /// There are more values than [`Limits::max_nodes`](crate::Limits::max_nodes). Each YAML alias counts the values of
    /// its anchor again.
    #[error("more than {limit} values")]
    TooManyNodes {
        /// The limit.
        limit: usize,
        /// Position of the first value beyond the limit.
        position: Position,
    },
    /// A JSON pointer does not begin with a slash, or has a `~` that is not followed by `0` or `1`.
    #[error("invalid JSON pointer {0:?}")]
    Pointer(String),
    /// A JSON patch has more operations than kube-apiserver allows.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {count}")]
    TooManyOperations {
        /// Number of operations in the patch.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The copy operations of a JSON patch grow the document beyond the limit.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}"
    )]
    CopiesTooLarge {
        /// Bytes of JSON copied so far, this copy included.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// An operation of a JSON patch failed.
    #[error("{message}")]
    PatchOperation {
        /// Index of the operation, from 0.
        index: usize,
        /// Message of the reference's library.
        message: String,
    },
    /// A step grows a tree beyond its limit ([`Growth`](crate::Growth)).
    #[error("limit is {limit}")]
    Overgrown {
        /// The limit, in bytes of JSON.
        limit: usize,
    },
    /// A JSON patch nests the document deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("the patched document exceeds the depth of {limit}")]
    PatchTooDeep {
        /// The limit.
        limit: usize,
    },
    /// A patch, or the document to patch, is not of the required JSON type.
    #[error("{0}")]
    PatchShape(String),
}

impl Error {
    /// Returns the position of the error in the input, or `None` if it has no single position.
    pub fn position(&self) -> Option<Position> {
        match self {
            Error::Json { position, .. }
            | Error::Yaml { position, .. }
            | Error::TooDeep { position, .. }
            | Error::TooManyNodes { position, .. } => Some(*position),
            _ => None,
        }
    }
}

/// Position in a text.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let error = json::parse(b"{\"a\": 1,\n \"b\": ?}", &Limits::REQUEST).unwrap_err();
/// let position = error.position().unwrap();
/// assert_eq!((position.line, position.column), (2, 7));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// Returns the position of the byte at `offset` of `text`.
    #[expect(clippy::indexing_slicing, reason = "the part is within the scanned text")]
    pub(crate) fn at_offset(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            // Continuation bytes of a character do not count as columns.
            column: 1 + before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
