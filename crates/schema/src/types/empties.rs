//! Fields that a request gives as empty and whose type leaves out empty values. Trees do not hold them. The reference's
//! structs do until they are stored: errors report them, and comparisons include them.

use holdfast_value::{List, Map, Value};

use crate::field_error::FieldPath;

/// A field that a request gives as empty, and that the object therefore does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyField {
    /// Path of the field.
    pub path: FieldPath,
    /// Form of the empty value.
    pub kind: EmptyKind,
}

/// Forms of empty values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyKind {
    /// A list that its type leaves out.
    List,
    /// A map that its type leaves out.
    Map,
    /// The text of Go's zero time. The reference distinguishes a time that was read from a text from an unset one.
    Time,
}

impl EmptyField {
    /// Returns the given value.
    pub fn value(&self) -> Value {
        match self.kind {
            EmptyKind::List => Value::List(List::new()),
            EmptyKind::Map => Value::Map(Map::new()),
            EmptyKind::Time => Value::Null,
        }
    }
}

impl EmptyKind {
    /// Returns the form of an empty `value` in a request that was decoded to `read`.
    pub(crate) fn from_value(value: &Value, read: &Value) -> Option<Self> {
        match value {
            Value::List(list) if list.is_empty() => Some(Self::List),
            Value::Map(map) if map.is_empty() => Some(Self::Map),
            Value::String(_) if read.is_null() => Some(Self::Time),
            _ => None,
        }
    }
}
