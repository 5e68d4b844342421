//! Strategy of the kinds that make up admission policies: both kinds of policies, and their bindings.

use std::sync::Arc;

use holdfast_admission::policies::Policies;
use holdfast_resource::{Followed, Strategy, WriteContext};
use holdfast_schema::FieldError;
use holdfast_value::Value;

use super::static_names::StaticNames;
use crate::validation::Errors;

/// A kind whose objects are validated, and whose changes update the admission policies.
pub(super) struct FollowedKind {
    pub(super) policies: Arc<Policies>,
    /// Function that validates an object, with the old one on update.
    pub(super) errors: fn(&WriteContext<'_>, &Value, Option<&Value>) -> Errors,
    /// Function that stores the object of the given name in the policies; `None` removes it.
    pub(super) set: fn(&Policies, &str, Option<&Value>),
    /// Treatment of names that are reserved for manifest files.
    pub(super) static_names: StaticNames,
}

impl Strategy for FollowedKind {
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = (self.errors)(context, object, None);
        errors.extend(self.static_names.errors(object));
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
