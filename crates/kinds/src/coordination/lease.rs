//! Leases: <https://kubernetes.io/docs/concepts/architecture/leases/>.

use holdfast_resource::{Field, FieldError, NoRules, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use super::leasecandidate::validate_strategy;
use crate::features::{Feature, Features};

/// What only Leases do.
pub(crate) struct Lease {
    /// The features that are on.
    pub(crate) features: Features,
}

impl Strategy for Lease {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        self.drop_gated(object);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        self.drop_gated(object);
        Ok(())
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = context.check(object, &NoRules);
        let root = Field::root(object);
        let spec = root.child("spec");
        let (strategy, holder) = (spec.child("strategy"), spec.child("preferredHolder"));
        if strategy.is_set() {
            validate_strategy(&strategy, &mut errors);
        }
        if !holder.text().is_empty() && strategy.text().is_empty() {
            errors.push(holder.forbidden("may only be specified if `strategy` is defined"));
        }
        errors
    }
}

impl Lease {
    /// Drops what comes with coordinated leader election, unless that is on.
    fn drop_gated(&self, lease: &mut Value) {
        if self.features.has(Feature::CoordinatedLeaderElection) {
            return;
        }
        for part in ["strategy", "preferredHolder"] {
            lease.remove_at(&["spec", part]);
        }
    }
}
