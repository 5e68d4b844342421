//! Leases: <https://kubernetes.io/docs/concepts/architecture/leases/>.

use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, numbers};

/// What only Leases do.
pub(crate) struct Lease;

impl Strategy for Lease {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        drop_gated(object);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        drop_gated(object);
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let duration = spec.child("leaseDurationSeconds");
        if duration.number().is_some_and(|seconds| seconds <= 0) {
            errors.push(duration.invalid("must be greater than 0"));
        }
        numbers::not_negative(&spec.child("leaseTransitions"), &mut errors);
        errors
    }
}

/// Coordinated leader election is off unless asked for.
fn drop_gated(lease: &mut Value) {
    for part in ["strategy", "preferredHolder"] {
        lease.remove_at(&["spec", part]);
    }
}
