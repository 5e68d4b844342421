use std::collections::HashSet;

use holdfast_schema::{FieldError, FieldErrorKind};

/// Result of a validation: its errors, and the number of valid parts, by which the reference chooses the failure that
/// it reports for `anyOf` and `oneOf`.
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

    /// Merges another result, without repeating errors of both.
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
