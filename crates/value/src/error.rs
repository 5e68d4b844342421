use std::fmt;

/// Everything that reading or patching a tree can fail with.
///
/// The texts are those of the reference (Go's `encoding/json`, its YAML and JSON patch libraries), since clients see them
/// in `Status` messages. [`Error::position`] says where in the input the trouble is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input is no JSON.
    #[error("{message}")]
    Json {
        /// What is wrong, in the words of Go's `encoding/json`.
        message: String,
        /// Where it is.
        position: Position,
    },
    /// The input is no YAML, or YAML that has no JSON form.
    #[error("{message}")]
    Yaml {
        /// What is wrong, in the words of the reference: `yaml: line N: …` for most, without the line on the first.
        message: String,
        /// Where it is.
        position: Position,
    },
    /// The input is no CBOR, or CBOR that has no JSON form.
    #[error("{message}")]
    Cbor {
        /// What is wrong, in the words of the reference's library.
        message: String,
    },
    /// The input has more bytes than [`Limits::max_bytes`](crate::Limits::max_bytes), or YAML aliases make it so.
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
        /// What the reference says of what goes beyond its own limit.
        message: String,
        /// Where the first list or map too deep begins.
        position: Position,
    },
    /// There are more values than [`Limits::max_nodes`](crate::Limits::max_nodes); in YAML, aliases count again each time.
    #[error("more than {limit} values")]
    TooManyNodes {
        /// The limit.
        limit: usize,
        /// Where the first value too many begins.
        position: Position,
    },
    /// A JSON pointer does not begin with a slash, or has a `~` without `0` or `1` behind it.
    #[error("invalid JSON pointer {0:?}")]
    Pointer(String),
    /// A JSON patch has more operations than kube-apiserver allows.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {count}")]
    TooManyOperations {
        /// The operations of the patch.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The copies of a JSON patch make the document grow beyond the limit.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}"
    )]
    CopiesTooLarge {
        /// Bytes of JSON copied so far, this copy included.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// An operation of a JSON patch cannot be done.
    #[error("{message}")]
    PatchOperation {
        /// Which operation, from 0.
        index: usize,
        /// Why, in the words of the reference's library.
        message: String,
    },
    /// A step makes a tree larger than there is room for ([`Growth`](crate::Growth)).
    #[error("limit is {limit}")]
    Overgrown {
        /// The limit, in bytes of JSON.
        limit: usize,
    },
    /// A JSON patch makes the document deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("the patched document exceeds the depth of {limit}")]
    PatchTooDeep {
        /// The limit.
        limit: usize,
    },
    /// A patch, or what it is for, is a value of another kind than is needed.
    #[error("{0}")]
    PatchShape(String),
}

impl Error {
    /// Where in the input the trouble is; `None` if it is not in one place.
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

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The place of the byte at `offset` of `text`.
    #[expect(
        clippy::indexing_slicing,
        reason = "the part lies within the text that was looked through"
    )]
    pub(crate) fn of(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            // Bytes that continue a character are no column of their own.
            column: 1 + before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
