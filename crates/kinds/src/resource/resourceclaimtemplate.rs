//! ResourceClaimTemplates: what claims are made of for Pods.

use holdfast_resource::{Field, FieldError, NoRules, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use super::admin_access;
use super::requests::{default_devices, prepare_spec, validate_devices};
use crate::validation::Errors;
use crate::validation::template_metadata::validate_template_metadata;

/// What only ResourceClaimTemplates do.
pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn default_fields(&self, version: &str, object: &mut Value) {
        if let Some(devices) = object.at_mut(&["spec", "spec", "devices"]) {
            default_devices(version, devices);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        prepare_spec(object, &["spec", "spec"]);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        prepare_spec(object, &["spec", "spec"]);
        Ok(())
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let of_claims = spec.child("spec");
        let devices = of_claims.child("devices");
        let mut errors = Errors::new();
        admin_access::validate_requests(context, &devices, &mut errors);
        validate_template_metadata(&spec.child("metadata"), context.empties, &mut errors);
        validate_devices(&devices, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.check_changes(object, old, &NoRules));
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
        let fields = |metadata: &str| {
            let errors = Harness::new().errors(&template(&format!("metadata: {{{metadata}}}, {ONE}")));
            errors
                .iter()
                .filter_map(|error| Some(error.split_once(':')?.0.to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            fields("labels: {a: '-'}, annotations: {'-': a}, uid: a, finalizers: [a/b]"),
            [
                "spec.metadata.annotations",
                "spec.metadata.labels",
                "spec.metadata.uID",
                "spec.metadata.finalizers",
            ]
        );
        let other = template(&ONE.replace("name: r", "name: s"));
        assert_eq!(Harness::new().update_errors(&template(ONE), &other).len(), 1);
    }
}
