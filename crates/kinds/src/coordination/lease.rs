//! Leases: <https://kubernetes.io/docs/concepts/architecture/leases/>.

use holdfast_resource::{Refusal, Strategy, WriteContext};
use holdfast_value::Value;

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
}

/// Coordinated leader election is off unless asked for.
fn drop_gated(lease: &mut Value) {
    for part in ["strategy", "preferredHolder"] {
        lease.remove_at(&["spec", part]);
    }
}
