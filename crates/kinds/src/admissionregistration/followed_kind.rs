//! The kinds that make up admission policies: policies of both kinds, and their bindings.

use std::sync::Arc;

use holdfast_admission::policies::Policies;
use holdfast_resource::{FieldError, Followed, Strategy, WriteContext};
use holdfast_value::Value;

use super::static_names::StaticNames;
use crate::validation::Errors;

/// A kind whose objects are checked, and followed by what admits writes.
pub(super) struct FollowedKind {
    pub(super) policies: Arc<Policies>,
    /// What is wrong with an object that takes the place of another, or of none.
    pub(super) errors: fn(&WriteContext<'_>, &Value, Option<&Value>) -> Errors,
    /// Takes note of the object of that name; `None` where it is gone.
    pub(super) set: fn(&Policies, &str, Option<&Value>),
    /// What becomes of names that files of the server have.
    pub(super) static_names: StaticNames,
}

impl Strategy for FollowedKind {
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = (self.errors)(context, object, None);
        errors.extend(self.static_names.faults(object));
        errors
    }

    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        self.static_names.warnings(object, old)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        (self.errors)(context, object, Some(old))
    }
}

impl Followed for FollowedKind {
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(object) = new.or(old) {
            let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
            (self.set)(&self.policies, name, new);
        }
    }
}
