use std::collections::HashSet;

use crate::{FieldError, FieldErrorKind};

/// The result of a validation: its errors, and how much of the value was right, by which the reference chooses the failure
/// that it reports for `anyOf` and `oneOf`.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<FieldError>,
    pub(super) right: u32,
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.errors.extend(other.errors);
        self.right += other.right;
    }

    /// The same, where both may have the same error: it stays once.
    pub(super) fn merge_distinct(&mut self, mut other: Outcome) {
        if !self.errors.is_empty() && !other.errors.is_empty() {
            let known: HashSet<_> = self.errors.iter().map(identity).collect();
            other.errors.retain(|error| !known.contains(&identity(error)));
        }
        self.merge(other);
    }

    pub(super) fn count(&mut self) {
        self.right += 1;
    }
}

/// Returns the identity of an error for deduplication: the parts of its text, except the value.
fn identity(error: &FieldError) -> (FieldErrorKind, &str, &str) {
    (error.kind, error.field.as_str(), &error.detail)
}
