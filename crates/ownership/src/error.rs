//! Errors of an apply.

use std::fmt;

use holdfast_value::{SmolStr, Value};

use crate::entry::{DecodeError, Operation};

/// Error of an apply, with the message of the reference's Status.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// 409: other managers own fields that the apply would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// 400: the configuration has another kind or version than the request.
    #[error("invalid object type: {0}")]
    WrongKind(String),
    /// 400: the configuration has `metadata.managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfiguration,
    /// 400: a field cannot be unset.
    #[error("{0}")]
    Unset(String),
    /// 500: items of the configuration have the same key.
    #[error(transparent)]
    Duplicates(Box<DuplicateItems>),
    /// 500: the existing object's `managedFields` cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Decode(#[from] DecodeError),
    /// 500: the configuration or the existing object does not fit its type, or cannot be converted.
    #[error("{0}")]
    Failed(String),
}

/// Items of a configuration that have the same key in an associative list, so that nobody can own them separately.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct DuplicateItems {
    /// Message of the reference.
    pub message: String,
    /// Keys that occur more than once.
    pub collisions: Vec<Collision>,
    /// Configuration with the first of the items of each key.
    pub smallest: Value,
}

/// Items with the same key.
#[derive(Clone, Debug, PartialEq)]
pub struct Collision {
    /// Path of the items: `.spec.ports[port=53,protocol="TCP"]`.
    pub path: String,
    /// Positions of the items in the list.
    pub positions: Vec<usize>,
    /// The items.
    pub items: Vec<Value>,
    /// Managers that own the existing item with this key, as messages name them.
    pub managers: Vec<String>,
}

/// Field that the apply would change and that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Owner as messages name it: `"tool" with subresource "scale" using apps/v1`.
    pub manager: String,
    /// Path of the field: `.spec.replicas`.
    pub path: String,
    /// Owner and values of the field, if [`ApplyOptions`](crate::ApplyOptions) requests them.
    pub details: Option<Box<ConflictDetails>>,
}

/// Owner and values of a field that conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictDetails {
    /// Name of the manager that owns the field.
    pub manager: SmolStr,
    /// Operation by which it became the owner.
    pub operation: Operation,
    /// Subresource through which it writes; empty for the object itself.
    pub subresource: SmolStr,
    /// Version in which it writes, and in which path and values are.
    pub api_version: SmolStr,
    /// Time of its last change to its fields, as RFC 3339, if known.
    pub time: Option<SmolStr>,
    /// Existing value of the field.
    pub stored: Option<Value>,
    /// Value that the apply requests. `None` if it removes the field.
    pub requested: Option<Value>,
}

impl Conflict {
    /// Returns the message of this conflict's cause in a Status.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Conflicts of an apply, grouped by manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub(crate) Vec<Conflict>);

impl FromIterator<Conflict> for Conflicts {
    fn from_iter<I: IntoIterator<Item = Conflict>>(conflicts: I) -> Self {
        Self(conflicts.into_iter().collect())
    }
}

impl Conflicts {
    /// Iterates over the conflicts in the order of a Status' causes.
    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }
}

/// Formats the message of the Status.
impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            let Conflict { manager, path, .. } = conflict;
            return write!(out, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(out, "Apply failed with {} conflicts:", self.0.len())?;
        for (at, of_manager) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            let separator = if at == 0 { ' ' } else { '\n' };
            let manager = of_manager.first().map_or("", |conflict| &conflict.manager);
            write!(out, "{separator}conflicts with {manager}:")?;
            for conflict in of_manager {
                write!(out, "\n- {}", conflict.path)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
