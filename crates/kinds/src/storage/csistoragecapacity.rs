//! CSIStorageCapacities: <https://kubernetes.io/docs/concepts/storage/storage-capacity/>.

use holdfast_resource::{Check, Part, Rules, Strategy};

use crate::validation::resources::validate_amount;

/// What only CSIStorageCapacities do.
pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn rules<'v>(&self) -> &dyn Rules<'v> {
        self
    }
}

impl<'v> Rules<'v> for CsiStorageCapacity {
    fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match name {
            "capacity" => validate_amount("storage", &part.child(name), &mut check.errors),
            _ => check.unknown_rule(name, part),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn the_topology_stays_and_is_shown_labels_first() {
        let old = "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: c}";
        let selector = "{matchExpressions: [{key: k, operator: Exists}], matchLabels: {a: b}}";
        let new = old.replace(
            "storageClassName",
            &format!("nodeTopology: {selector}, storageClassName"),
        );
        assert_eq!(
            Harness::new().update_errors(old, &new),
            [
                "nodeTopology: Invalid value: {\"matchLabels\":{\"a\":\"b\"},\"matchExpressions\":[{\"key\":\"k\",\
                 \"operator\":\"Exists\"}]}: field is immutable"
            ]
        );
    }
}
