//! RuntimeClasses: <https://kubernetes.io/docs/concepts/containers/runtime-class/>.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::metadata::labels::validate_labels;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::{Value, json};

use crate::core::pod_spec::{deprecated_node_label, validate_tolerations};
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

    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        let scheduling = root.child("scheduling");
        let selector = scheduling.child("nodeSelector");
        // The reference leaves out which label it is.
        let texts = selector.entries().filter_map(|(label, _)| deprecated_node_label(label));
        texts.map(|text| format!("{}: {text}", selector.path())).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn deprecated_labels_of_nodes_are_told() {
        let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, scheduling: \
                     {nodeSelector: {a: b, beta.kubernetes.io/os: linux}}}";
        assert_eq!(
            Harness::new().warnings(class),
            [r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead"#]
        );
    }
}
