//! CSIStorageCapacities: <https://kubernetes.io/docs/concepts/storage/storage-capacity/>.

use holdfast_resource::metadata::formats::dns_subdomain;
use holdfast_resource::metadata::labels::validate_label_selector;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::resources::validate_amount;
use crate::validation::{Errors, immutable, immutable_selector, report};

/// What only CSIStorageCapacities do.
pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let class = root.child("storageClassName");
        report(&class, dns_subdomain(class.text()), &mut errors);
        validate_label_selector(&root.child("nodeTopology"), &mut errors);
        validate_amount("storage", &root.child("capacity"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = self.validate(context, object);
        immutable_selector(&root.child("nodeTopology"), &old.child("nodeTopology"), &mut errors);
        immutable(
            &root.child("storageClassName"),
            &old.child("storageClassName"),
            &mut errors,
        );
        errors
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
