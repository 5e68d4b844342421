use std::fmt;

use crate::SmolStr;

/// The reference keeps no more findings than this for one input.
pub(crate) const MAX_FINDINGS: usize = 100;

/// Something about an input that does not keep it from being read, and that strict field validation refuses.
///
/// The printed form is the text of kube-apiserver's warning, and of the parts of its `strict decoding error`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A JSON object has a key twice: the path of the field, like `spec.containers[0].name`.
    DuplicateField {
        /// Keys joined by dots, indices in brackets, from the root.
        path: String,
    },
    /// An unknown field, by its path.
    UnknownField {
        /// Keys joined by dots, indices in brackets, from the root.
        path: String,
    },
    /// A YAML mapping has a key twice.
    DuplicateKey {
        /// The line of the later key, from 1.
        line: usize,
        /// The key as Go prints it: strings in quotes, numbers and booleans bare.
        key: SmolStr,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::DuplicateField { path } => write!(f, "duplicate field \"{path}\""),
            Finding::UnknownField { path } => write!(f, "unknown field \"{path}\""),
            Finding::DuplicateKey { line, key } => write!(f, "line {line}: key {key} already set in map"),
        }
    }
}

/// A tree and what was found while reading it, in the order of the text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The tree.
    pub value: crate::Value,
    /// What strict validation would refuse, at most 100, none twice.
    pub findings: Vec<Finding>,
}

/// What a repeated key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The last value replaces those before it, as where the reference reads into untyped maps (custom resources).
    #[default]
    Replace,
    /// Maps are merged, anything else is replaced, as where the reference reads into structs (built-in kinds).
    Merge,
}
