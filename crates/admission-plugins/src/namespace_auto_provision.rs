use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::Operation;

/// Plugin that creates missing namespaces before the objects in them.
pub(super) struct NamespaceAutoProvision;

impl AdmissionPlugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        &[]
    }

    fn provides_namespaces(&self) -> bool {
        true
    }
}
