//! ResourceClaimTemplates: what claims are made of for Pods.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::requests::{default_devices, validate_devices};
use crate::validation::{Errors, immutable};

/// What only ResourceClaimTemplates do.
pub(crate) struct ResourceClaimTemplate;

/// Metadata that a template may set.
const OF_TEMPLATES: [&str; 2] = ["annotations", "labels"];

impl Strategy for ResourceClaimTemplate {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if let Some(devices) = object.at_mut(&["spec", "spec", "devices"]) {
            default_devices(devices);
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let metadata = spec.child("metadata");
        let mut errors = Errors::new();
        for (name, _) in metadata.entries() {
            let field = metadata.child(name);
            if field.is_set() && !OF_TEMPLATES.contains(&name) {
                errors.push(field.forbidden("cannot be set"));
            }
        }
        let of_claims = spec.child("spec");
        validate_devices(&of_claims.child("devices"), &mut errors);
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        immutable(
            &Field::root(object).child("spec"),
            &Field::root(old).child("spec"),
            &mut errors,
        );
        errors
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn template(spec: &str) -> String {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {{name: a}}, spec: {{{spec}}}}}"
        )
    }

    const ONE: &str = "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c.example.com}}]}}";

    #[test]
    fn templates_default_and_check_what_claims_do() {
        let object = Harness::new().create(&template(ONE));
        assert_eq!(at(&object, "spec.spec.devices.requests.0.exactly.count"), "1");
        let bad = ONE.replace("name: r", "name: Bad_");
        assert!(Harness::new().errors(&template(&bad))[0].starts_with("spec.spec.devices.requests[0].name: "));
    }

    #[test]
    fn templates_give_labels_but_no_name_and_never_change() {
        assert_eq!(
            Harness::new().errors(&template(&format!("metadata: {{name: x, labels: {{a: b}}}}, {ONE}"))),
            ["spec.metadata.name: Forbidden: cannot be set"]
        );
        let other = template(&ONE.replace("name: r", "name: s"));
        assert_eq!(Harness::new().update_errors(&template(ONE), &other).len(), 1);
    }
}
