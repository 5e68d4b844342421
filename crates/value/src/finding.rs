use std::fmt;

use smol_str::SmolStr;

/// Maximum number of findings for one input, as in the reference.
pub(crate) const MAX_FINDINGS: usize = 100;

/// Defect of an input that does not prevent reading it, but that strict field validation rejects.
///
/// The printed form is the text of kube-apiserver's warning and of the parts of its `strict decoding error`.
///
/// ```
/// use holdfast_value::{Finding, Limits, yaml};
///
/// let parsed = yaml::parse_with_findings(b"a: 1\na: 2\n", &Limits::REQUEST)?;
/// assert!(matches!(parsed.findings[0], Finding::DuplicateKey { line: 2, .. }));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A JSON object has a key twice. The path has the form `spec.containers[0].name`.
    DuplicateField {
        /// Keys joined by dots, indices in brackets, from the root.
        path: String,
    },
    /// A field is unknown.
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

/// Tree with the findings made while reading it, in the order of the text.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let parsed = json::parse_with_findings(br#"{"a": 1}"#, &Limits::REQUEST)?;
/// assert!(parsed.findings.is_empty());
/// assert_eq!(parsed.value.to_string(), r#"{"a":1}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The tree.
    pub value: crate::tree::Value,
    /// Findings that strict validation rejects: at most 100, without repetition.
    pub findings: Vec<Finding>,
}

/// Treatment of a repeated key.
///
/// ```
/// use holdfast_value::{Duplicates, Limits, json};
///
/// let read = |duplicates| json::parse_with(br#"{"a": {"b": 1}, "a": {"c": 2}}"#, &Limits::REQUEST, duplicates);
/// assert_eq!(read(Duplicates::Replace)?.value.to_string(), r#"{"a":{"c":2}}"#);
/// assert_eq!(read(Duplicates::Merge)?.value.to_string(), r#"{"a":{"b":1,"c":2}}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The last value replaces earlier ones, as when the reference decodes into untyped maps (custom resources).
    #[default]
    Replace,
    /// Maps are merged and other values are replaced, as when the reference decodes into structs (built-in kinds).
    Merge,
}
