//! Why an apply fails.

use std::fmt;

use crate::entry::DecodeError;

/// Why an apply fails. The texts are the messages of the reference's Status.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// 409: others own what the apply would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// 400: the configuration is of another kind or version than its address.
    #[error("invalid object type: {0}")]
    WrongKind(String),
    /// 400: the configuration has `metadata.managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfiguration,
    /// 500: the live object's `managedFields` cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Decode(#[from] DecodeError),
    /// 500: the configuration or the live object does not fit its type, or cannot be converted.
    #[error("{0}")]
    Failed(String),
}

/// A field that the apply would change and that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it: `"tool" with subresource "scale" using apps/v1`.
    pub manager: String,
    /// The path of the field: `.spec.replicas`.
    pub path: String,
}

impl Conflict {
    /// The message of the cause that stands for this conflict in a Status.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All conflicts of an apply, those of one manager side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub(crate) Vec<Conflict>);

impl Conflicts {
    /// The conflicts one by one, in the order of a Status' causes.
    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }
}

/// The message of the Status.
impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            let Conflict { manager, path } = conflict;
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
