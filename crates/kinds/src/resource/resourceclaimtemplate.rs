//! ResourceClaimTemplates: templates from which claims are created for Pods.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, at_creation, in_order};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::validate_metadata;
use holdfast_schema::{Check, CreationChecks, Field, FieldError, NoRules, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use super::admin_access;
use super::requests::{RequestRules, default_devices, prepare_spec};
use crate::config::Config;
use crate::kind::kind;
use crate::rules::ClaimTemplateRule;
use crate::validation::Errors;
use crate::validation::template_metadata::validate_template_metadata;

/// Strategy of ResourceClaimTemplates.
pub(crate) struct ResourceClaimTemplate;

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ResourceClaimTemplate)
        .raw(
            &[&["spec", "spec", "devices", "config", "opaque", "parameters"]],
            Some("spec"),
        )
        .read_by(super::at_rest::template)
        .converts_by(config, super::GROUP, super::versions::TEMPLATES)
        .metadata_checks(in_order(
            UpdateOrder::ObjectFirst,
            at_creation(COMMON_CHECKS, CreationChecks::Own),
        ))
        .done()
}

impl Strategy for ResourceClaimTemplate {
    /// upstream: pkg/apis/resource/v1#SetDefaults_ExactDeviceRequest
    /// upstream: pkg/apis/resource/v1#SetDefaults_DeviceSubRequest
    fn default_fields(&self, version: &str, object: &mut Value) {
        if let Some(devices) = object.at_mut(&["spec", "spec", "devices"]) {
            default_devices(version, devices);
        }
    }

    /// upstream: pkg/registry/resource/resourceclaimtemplate#resourceClaimTemplateStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        prepare_spec(object, &["spec", "spec"]);
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceclaimtemplate#resourceClaimTemplateStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        _old: &Value,
    ) -> Result<(), Rejection> {
        prepare_spec(object, &["spec", "spec"]);
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceclaimtemplate#resourceClaimTemplateStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let devices = object.at(&["spec", "spec", "devices"]);
        let mut errors = Errors::new();
        admin_access::validate_requests(context, &Field::placed(devices, ""), &mut errors);
        errors.extend(validate_metadata(&context.resource.metadata_rules(), object));
        errors.extend(context.check(object, &TemplateRules(RequestRules::new(devices))));
        errors
    }

    /// upstream: pkg/registry/resource/resourceclaimtemplate#resourceClaimTemplateStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        // Admin access needs no check here, since the spec is immutable.
        let devices = object.at(&["spec", "spec", "devices"]);
        let mut errors = context.check(object, &TemplateRules(RequestRules::new(devices)));
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

/// Hand-written checks of `validateResourceClaimTemplateSpec`.
struct TemplateRules<'v>(RequestRules<'v>);

impl<'v> Rules<'v> for TemplateRules<'v> {
    type Rule = ClaimTemplateRule;

    fn rule(&self, rule: ClaimTemplateRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ClaimTemplateRule::Metadata => {
                validate_template_metadata(&part.child("metadata"), check.provenance, &mut check.errors)
            }
            ClaimTemplateRule::DeviceRequest(rule) => self.0.rule(rule, part, check),
        }
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
        let admin = template(&ONE.replace("c.example.com", "c.example.com, adminAccess: true"));
        assert_eq!(Harness::new().update_errors(&template(ONE), &admin).len(), 1);
    }
}
