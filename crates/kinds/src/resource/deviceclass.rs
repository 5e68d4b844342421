//! DeviceClasses: sets of devices that a request refers to by one name.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, generating_any_name, in_order};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::{Check, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use super::requests::{RequestRules, Stored};
use crate::config::Config;
use crate::kind::kind;
use crate::rules::DeviceClassRule;
use crate::validation::same;

/// Strategy of DeviceClasses.
pub(crate) struct DeviceClass;

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(DeviceClass)
        .raw(&[&["spec", "config", "opaque", "parameters"]], None)
        .converts_by(config, super::GROUP, super::versions::CLASSES)
        .metadata_checks(generating_any_name(in_order(UpdateOrder::WholeFirst, COMMON_CHECKS)))
        .done()
}

impl Strategy for DeviceClass {
    /// upstream: pkg/registry/resource/deviceclass#deviceClassStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &ClassRules(RequestRules::new(None)))
    }

    /// upstream: pkg/registry/resource/deviceclass#deviceClassStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let stored = |part: &str| match same(object.at(&["spec", part]), old.at(&["spec", part])) {
            true => Stored::Yes,
            false => Stored::No,
        };
        let rules = RequestRules {
            selectors: stored("selectors"),
            configurations: stored("config"),
            ..RequestRules::new(None)
        };
        context.check(object, &ClassRules(rules))
    }
}

/// Hand-written checks of `validateDeviceClassSpec`.
struct ClassRules<'v>(RequestRules<'v>);

impl<'v> Rules<'v> for ClassRules<'v> {
    type Rule = DeviceClassRule;

    /// upstream: pkg/apis/resource/validation#validateDeviceClassSpec
    fn rule(&self, rule: DeviceClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            DeviceClassRule::Extended => {
                let name = part.child("extendedResourceName");
                if name.is_set() && !is_extended(name.text()) {
                    check
                        .errors
                        .push(name.invalid("must be a valid extended resource name"));
                }
            }
            DeviceClassRule::DeviceRequest(rule) => self.0.rule(rule, part, check),
        }
    }
}

/// Returns true if the name is that of an extended resource such as `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else {
        return false;
    };
    let own = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    !own && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn errors(spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: a}}, spec: {{{spec}}}}}"
        ))
    }

    #[test]
    fn selectors_hold_an_expression() {
        assert_eq!(errors("selectors: [{}]"), ["spec.selectors[0].cel: Required value"]);
        let empty = errors("selectors: [{cel: {expression: ''}}]");
        let message = r#"spec.selectors[0].cel.expression: Invalid value: "": compilation failed: ERROR: <input>:1:0: Syntax error: "#;
        assert!(empty.len() == 1 && empty[0].starts_with(message), "{empty:?}");
        assert!(errors("selectors: [{cel: {expression: 'true'}}]").is_empty());
    }

    #[test]
    fn an_extended_resource_has_a_domain_of_its_own() {
        for name in ["bad", "kubernetes.io/a", "a.kubernetes.io/b"] {
            assert_eq!(errors(&format!("extendedResourceName: {name}")).len(), 1, "{name}");
        }
        assert!(errors("extendedResourceName: example.com/gpu").is_empty());
    }
}
