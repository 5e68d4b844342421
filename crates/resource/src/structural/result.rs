use crate::FieldError;

/// What a validation comes to: its errors, and how much of the value was right, by which the reference chooses the failure
/// that it tells of `anyOf` and `oneOf`.
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

    pub(super) fn count(&mut self) {
        self.right += 1;
    }
}
