//! Errors of merging a patch, in the reference's words.

use std::fmt::{self, Display, Formatter};

use holdfast_value::text::{Plain, PlainList};
use holdfast_value::{List, Value};

/// Reason why a patch cannot be merged. The texts are those that clients of the reference see.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The patch or the patched value is not a map.
    #[error("invalid JSON document")]
    BadDocument,
    /// `$retainKeys` is not a list, or the patch sets keys that it does not name.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// `$deleteFromPrimitiveList` names no field.
    #[error("invalid patch format of primitive list")]
    BadDeleteList,
    /// `$setElementOrder` names no field.
    #[error("invalid patch format of setElementOrder list")]
    BadOrderList,
    /// A list that is to be merged holds lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The value of `$patch` is unknown.
    #[error("unknown patch type: {} in map: {}", GoString(directive), Plain(map))]
    UnknownDirective {
        /// Value of the directive.
        directive: Value,
        /// Map that contains it.
        map: Value,
    },
    /// `$patch: merge` in a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    /// An item of a list lacks the merge key.
    #[error("map: {} does not contain declared merge key: {key}", Plain(map))]
    NoMergeKey {
        /// The item.
        map: Value,
        /// The key.
        key: String,
    },
    /// A list of maps is to be merged, and its field declares no merge key.
    #[error("cannot merge lists without merge key for struct")]
    NoDeclaredKey,
    /// A list that is to be merged holds items of several types.
    #[error("list element types are not identical: [{} {}]", PlainList(there), PlainList(patch))]
    MixedList {
        /// The existing items.
        there: List,
        /// The items of the patch.
        patch: List,
    },
    /// The patch holds items that the order lacks, or holds them in another order.
    #[error(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        PlainList(patch),
        PlainList(order)
    )]
    OrderMismatch {
        /// The items of the patch.
        patch: List,
        /// The order.
        order: List,
    },
    /// A value is of another type than the value to merge it with.
    #[error("expected a {expected}, but received a {received}")]
    WrongType {
        /// Expected type, in the reference's words.
        expected: &'static str,
        /// Type that was received.
        received: &'static str,
    },
    /// An item of the list that gives the order is not a map, although the ordered items are.
    #[error("value for key {0} is not a map")]
    NoMap(usize),
    /// The type has no such field.
    #[error("unable to find api field in struct {of} for the json field {field:?}")]
    UnknownField {
        /// The type.
        of: String,
        /// The field.
        field: String,
    },
}

/// Kind of response to a rejected patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// 400.
    BadRequest,
    /// 422 without causes.
    Unprocessable,
    /// 500: the reference's response to patches whose errors it does not distinguish.
    Internal,
}

impl PatchError {
    /// Returns the kind of response to the patch.
    pub fn kind(&self) -> PatchErrorKind {
        match self {
            Self::BadDocument | Self::BadRetainKeys | Self::BadDeleteList | Self::BadOrderList => {
                PatchErrorKind::BadRequest
            }
            Self::ListOfLists => PatchErrorKind::Unprocessable,
            _ => PatchErrorKind::Internal,
        }
    }
}

/// Returns `value` as a list, or the reference's error if it is not one.
pub(super) fn list_of(value: &Value) -> Result<&List, PatchError> {
    value.as_list().ok_or_else(|| wrong_type("[]interface {}", value))
}

pub(super) fn wrong_type(expected: &'static str, value: &Value) -> PatchError {
    PatchError::WrongType {
        expected,
        received: go_type(value),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        // Go decodes numbers beyond signed 64 bits as floats.
        Value::UInt(_) => "float64",
        value => value.go_type(),
    }
}

/// Formats a value for which the reference uses Go's `%s`: a value that is not a string is marked with its type.
struct GoString<'a>(&'a Value);

/// Formats a value within a list or a map, where Go has its own form of nil.
fn nested(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        other => GoString(other).to_string(),
    }
}

impl Display for GoString<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => out.write_str("%!s(<nil>)"),
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
                write!(out, "%!s({}={})", go_type(self.0), Plain(self.0))
            }
            Value::String(text) => out.write_str(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(nested).collect();
                write!(out, "[{}]", items.join(" "))
            }
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{key}:{}", nested(value)));
                write!(out, "map[{}]", entries.collect::<Vec<_>>().join(" "))
            }
        }
    }
}
