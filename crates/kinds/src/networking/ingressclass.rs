//! IngressClasses: <https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-class>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::{dns_label, domain_prefixed_path};
use holdfast_schema::{AnyRules, Check, Field, FieldError, NoRules, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use super::ingress::validate_reference;
use crate::cells::default_class;
use crate::kind::kind;
use crate::rules::IngressClassRule;
use crate::validation::Errors;

/// Strategy of IngressClasses.
pub(crate) struct IngressClass;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(IngressClass)
        .cells(CELLS)
        .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for IngressClass {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/networking/ingressclass#ingressClassStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = context.check_changes(object, old, &NoRules);
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(self.validate(context, object));
        errors
    }
}

impl<'v> Rules<'v> for IngressClass {
    type Rule = IngressClassRule;

    fn rule(&self, rule: IngressClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            IngressClassRule::Path => {
                let controller = part.child("controller");
                if !controller.text().is_empty() {
                    let messages = domain_prefixed_path(&controller.path(), controller.text());
                    check.errors.extend(messages);
                }
            }
            IngressClassRule::Parameters => validate_parameters(&part.child("parameters"), &mut check.errors),
        }
    }
}

/// upstream: pkg/apis/networking/validation#validateIngressClassParametersReference
fn validate_parameters(parameters: &Field<'_, '_>, errors: &mut Errors) {
    if !parameters.is_set() {
        return;
    }
    validate_reference(parameters, errors);
    let (scope, namespace) = (parameters.child("scope"), parameters.child("namespace"));
    match scope.text() {
        "" if !scope.is_set() => errors.push(scope.required("")),
        "Namespace" if !namespace.is_set() => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        "Namespace" => crate::validation::report(&namespace, dns_label(namespace.text()), errors),
        "Cluster" if namespace.is_set() => {
            errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        "Cluster" => {}
        _ => errors.push(scope.not_supported(&["Cluster", "Namespace"])),
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("class-parameters", |object, _| class_parameters(object)),
    ("default-ingress-class", |object, _| {
        default_class(object, &["ingressclass.kubernetes.io/is-default-class"])
    }),
];

fn class_parameters(class: &Value) -> Value {
    let text = |field| class.str_at(&["spec", "parameters", field]).unwrap_or_default();
    match (text("kind"), text("apiGroup")) {
        ("", _) => "<none>".into(),
        (kind, "") => format!("{kind}/{}", text("name")).into(),
        (kind, group) => format!("{kind}.{group}/{}", text("name")).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn class(spec: &str) -> String {
        format!("{{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {{name: c}}, spec: {{{spec}}}}}")
    }

    #[test]
    fn a_controller_stays_and_is_checked_all_the_same() {
        let harness = Harness::new();
        assert_eq!(
            harness.update_errors(&class("controller: acme.io/a"), &class("")),
            [
                r#"spec.controller: Invalid value: "": field is immutable"#,
                "spec.controller: Required value"
            ]
        );
    }

    #[test]
    fn parameters_name_a_scope_that_there_is() {
        let parameters = |more: &str| {
            Harness::new().errors(&class(&format!(
                "controller: acme.io/a, parameters: {{kind: K, name: p{more}}}"
            )))
        };
        assert!(parameters(", scope: Cluster").is_empty());
        assert!(parameters("").is_empty(), "the scope has a default");
        assert_eq!(
            parameters(", scope: ''"),
            [r#"spec.parameters.scope: Unsupported value: "": supported values: "Cluster", "Namespace""#]
        );
    }
}
