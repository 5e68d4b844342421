//! CSIStorageCapacities: <https://kubernetes.io/docs/concepts/storage/storage-capacity/>.

use holdfast_resource::metadata::formats::dns_subdomain;
use holdfast_resource::metadata::labels::validate_label_selector;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::resources::validate_amount;
use crate::validation::{Errors, immutable, report};

/// What only CSIStorageCapacities do.
pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let class = root.child("storageClassName");
        report(&class, dns_subdomain(class.text()), &mut errors);
        validate_label_selector(&root.child("nodeTopology"), &mut errors);
        for part in ["capacity", "maximumVolumeSize"] {
            validate_amount("storage", &root.child(part), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = self.validate(context, object);
        for part in ["nodeTopology", "storageClassName"] {
            immutable(&root.child(part), &old.child(part), &mut errors);
        }
        errors
    }
}
