//! Leases: <https://kubernetes.io/docs/concepts/architecture/leases/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{Field, FieldError, NoRules};
use holdfast_value::Value;

use super::leasecandidate::validate_strategy;
use crate::kind::kind;

/// Strategy of Leases.
pub(crate) struct Lease;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(Lease).metadata_checks(of_apimachinery(0, 1)).done()
}

impl Strategy for Lease {
    /// upstream: pkg/registry/coordination/lease#leaseStrategy.Validate
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
