//! RuntimeClasses: <https://kubernetes.io/docs/concepts/containers/runtime-class/>.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::metadata::labels::validate_labels;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::{Value, json};

use crate::core::pod_spec::validate_tolerations;
use crate::validation::resources::validate_overhead;
use crate::validation::{Errors, immutable, required_text};

/// What only RuntimeClasses do.
pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        required_text(&root.child("handler"), dns_label, &mut errors);
        let fixed = root.child("overhead").child("podFixed").value();
        // The reference leaves out the name of the field within.
        validate_overhead(&Field::placed(fixed, "overhead"), &mut errors);
        let scheduling = root.child("scheduling");
        validate_labels(&scheduling.child("nodeSelector"), &mut errors);
        let tolerations = scheduling.child("tolerations");
        validate_tolerations(&tolerations, &mut errors);
        let mut seen = HashSet::new();
        for toleration in tolerations.items() {
            if !seen.insert(toleration.value().map(json::to_string)) {
                errors.push(toleration.duplicate());
            }
        }
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        immutable(&root.child("handler"), &old.child("handler"), &mut errors);
        errors
    }
}
