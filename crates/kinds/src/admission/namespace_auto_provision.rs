use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::Operation;

/// Objects are made in namespaces that are not there; these are made first, by the server.
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
