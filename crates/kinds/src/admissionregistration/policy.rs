//! Validation that both kinds of admission policies share, and their bindings.

use std::cell::RefCell;
use std::collections::HashSet;

use holdfast_admission::policies::environment::Compiler;
use holdfast_authorization::{AccessTarget, Attributes, MASTERS, ResourceTarget, User};
use holdfast_cel::{CompileError, PatternMemory, is_reserved};
use holdfast_resource::WriteContext;
use holdfast_resource::table::{NamedCell, items, scalar_text};
use holdfast_schema::metadata::formats::{dns_label_1035, dns_subdomain, path_segment, qualified_name};
use holdfast_schema::metadata::labels::validate_label_selector;
use holdfast_schema::{Check, Field, FieldError, GroupKind, GroupVersion, Part, Rules};
use holdfast_value::Value;

use super::rules::OperationRules;
use crate::rules::PolicyBindingRule;
use crate::validation::{Errors, report, same};

/// Maximum number of match conditions.
const CONDITIONS: usize = 64;

/// Returns a compiler for the expressions of a policy.
pub(super) fn compiler(policy: &Value) -> RefCell<Compiler> {
    let spec = Field::root(policy);
    RefCell::new(Compiler::for_policy(&spec.child("spec"), &PatternMemory::default()))
}

/// upstream: pkg/apis/admissionregistration/validation#validateMatchResources
pub(super) fn validate_constraints(spec: &Part<'_, '_>, check: &mut Check<'_>) {
    let constraints = spec.child("matchConstraints");
    if !constraints.is_set() {
        check.errors.push(constraints.required(""));
        return;
    }
    check.field(spec, "matchConstraints", &OperationRules);
    let rules = constraints.child("resourceRules");
    if rules.is_empty() {
        check.errors.push(rules.required(""));
    }
}

/// Reports an expression that does not compile.
pub(super) fn report_error(expression: &Field<'_, '_>, message: Option<CompileError>, errors: &mut Errors) {
    errors.extend(message.map(|error| error_of(expression, expression.text(), &error)));
}

/// Returns the error of an expression, shown as `text`. The reference reports an invalid constant as an internal error.
pub(crate) fn error_of(expression: &Field<'_, '_>, text: &str, error: &CompileError) -> FieldError {
    match error {
        CompileError::Instantiation(_) => FieldError::internal(&expression.path(), error.to_string()),
        _ => expression.invalid_as(text, error.to_string()),
    }
}

/// Validates the match conditions of policies and webhooks.
///
/// upstream: pkg/apis/admissionregistration/validation#validateMatchConditions
pub(super) fn validate_match_conditions(conditions: &Field<'_, '_>, compiler: &mut Compiler, errors: &mut Errors) {
    if conditions.len() > CONDITIONS {
        errors.push(conditions.too_many(CONDITIONS));
    }
    let mut names = HashSet::new();
    // The reference compiles any number of conditions. Compilation is slow, so only this many are validated here.
    for condition in conditions.items().take(2 * CONDITIONS) {
        let expression = condition.child("expression");
        match expression.text().trim() {
            "" => errors.push(expression.required("")),
            text => errors.extend(
                compiler
                    .condition(text)
                    .err()
                    .map(|error| error_of(&expression, text, &error)),
            ),
        }
        let name = condition.child("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
            continue;
        }
        report(&name, qualified_name(name.text()), errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateVariable
pub(super) fn validate_variables(variables: &Field<'_, '_>, compiler: &mut Compiler, errors: &mut Errors) {
    let mut messages = compiler.add_variables(variables).into_iter().peekable();
    for (at, variable) in variables.items().enumerate() {
        let (name, expression) = (variable.child("name"), variable.child("expression"));
        if name.text().trim().is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(name.text()) {
            errors.push(name.invalid("must be a valid CEL identifier"));
        }
        if expression.text().trim().is_empty() {
            errors.push(expression.required("expression is not specified"));
        }
        let message = messages.next_if(|(of, _)| *of == at).map(|(_, error)| error);
        report_error(&expression, message, errors);
    }
}

fn is_identifier(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
        && !is_reserved(name)
}

/// upstream: pkg/apis/admissionregistration/validation#validateParamKind
pub(super) fn validate_parameter_kind(kind: &Field<'_, '_>, errors: &mut Errors) {
    if !kind.is_set() {
        return;
    }
    let (version, name) = (kind.child("apiVersion"), kind.child("kind"));
    match (version.text(), version.text().split('/').collect::<Vec<_>>().as_slice()) {
        ("", _) => errors.push(version.required("")),
        ("/", _) => errors.push(version.invalid("version must be specified")),
        (_, [only]) => validate_version(&version, only, errors),
        (_, [group, number]) => {
            if !group.is_empty() {
                let messages = dns_subdomain(group);
                if !messages.is_empty() {
                    errors.push(version.invalid_as(*group, messages.join(",")));
                }
            }
            validate_version(&version, number, errors);
        }
        (text, _) => errors.push(version.invalid(format!("unexpected GroupVersion string: {text}"))),
    }
    if name.text().is_empty() {
        errors.push(name.required(""));
        return;
    }
    let messages = dns_label_1035(&name.text().to_lowercase());
    if !messages.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            messages.join(",")
        );
        errors.push(name.invalid(detail));
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateParamKind
fn validate_version(field: &Field<'_, '_>, version: &str, errors: &mut Errors) {
    if version.is_empty() {
        errors.push(field.invalid("version must be specified"));
        return;
    }
    let messages = dns_label_1035(version);
    if !messages.is_empty() {
        errors.push(field.invalid_as(version, messages.join(",")));
    }
}

/// Rejects a policy with parameters that its writer may not read.
///
/// upstream: pkg/registry/admissionregistration/validatingadmissionpolicy#validatingAdmissionPolicyStrategy.authorize
/// upstream: pkg/registry/admissionregistration/mutatingadmissionpolicy#mutatingAdmissionPolicyStrategy.authorize
pub(super) fn check_parameter_kind(
    context: &WriteContext<'_>,
    spec: &Field<'_, '_>,
    old: Option<&Value>,
    errors: &mut Errors,
) {
    let kind = spec.child("paramKind");
    let before = old.and_then(|old| old.at(&["spec", "paramKind"]));
    if !errors.is_empty() || !kind.is_set() || before.is_some() && same(kind.value(), before) {
        return;
    }
    if !may_read(context, kind.value(), "*", "*") {
        errors.push(kind.forbidden(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(context.user),
            kind.child("kind").text(),
            kind.child("apiVersion").text()
        )));
    }
}

fn may_read(context: &WriteContext<'_>, kind: Option<&Value>, namespace: &str, name: &str) -> bool {
    if context.user.is_in(MASTERS) {
        return true;
    }
    let text = |field: &str| kind.and_then(|kind| kind.str_at(&[field])).unwrap_or_default();
    let version = kind.and_then(|_| GroupVersion::parse(text("apiVersion")));
    let (group, number) = match &version {
        Some(version) => (version.group.as_str(), version.version.as_str()),
        None => ("*", "*"),
    };
    let resource = context.lookup.resource_of(&GroupKind {
        group: group.into(),
        kind: text("kind").into(),
    });
    let attributes = Attributes {
        verb: "get",
        target: AccessTarget::Resource(ResourceTarget {
            group,
            version: number,
            resource: resource.map_or("*", |found| found.plural.as_str()),
            subresource: "",
            namespace,
            name,
            field_selector: &[],
            label_selector: "",
        }),
    };
    context.access.authorizer.authorize(context.user, &attributes).allows()
}

/// Formats a user as the reference prints one.
fn shown(user: &User) -> String {
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key}:[{}]", values.join(" ")))
        .collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        user.name,
        user.uid,
        user.groups.join(" "),
        extra.join(" ")
    )
}

/// Validation rules of both kinds of bindings that validation tags do not cover.
pub(super) struct BindingRules;

impl<'v> Rules<'v> for BindingRules {
    type Rule = PolicyBindingRule;

    fn rule(&self, rule: PolicyBindingRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PolicyBindingRule::Reference => validate_reference(part, &mut check.errors),
            PolicyBindingRule::Operation(rule) => OperationRules.rule(rule, part, check),
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateParamRef
fn validate_reference(reference: &Field<'_, '_>, errors: &mut Errors) {
    let (name, selector) = (reference.child("name"), reference.child("selector"));
    let both = !name.text().is_empty() && selector.is_set();
    let exclusive = "name and selector are mutually exclusive";
    if !name.text().is_empty() {
        report(&name, path_segment(name.text()), errors);
    }
    if both {
        errors.push(name.forbidden(exclusive));
    }
    validate_label_selector(&selector, errors);
    if both {
        errors.push(selector.forbidden(exclusive));
    }
    if name.text().is_empty() && !selector.is_set() {
        errors.push(reference.required("one of name or selector must be specified"));
    }
}

/// Rejects a binding with parameters that its writer may not read. `policies` is the resource of the policies.
///
/// upstream: pkg/registry/admissionregistration/validatingadmissionpolicybinding#validatingAdmissionPolicyBindingStrategy.authorize
/// upstream: pkg/registry/admissionregistration/mutatingadmissionpolicybinding#mutatingAdmissionPolicyBindingStrategy.authorize
pub(super) fn check_reference(
    context: &WriteContext<'_>,
    policies: &'static str,
    spec: &Field<'_, '_>,
    old: Option<&Value>,
    errors: &mut Errors,
) {
    let reference = spec.child("paramRef");
    let before = |path: &[&str]| old.and_then(|old| old.at(path));
    let unchanged = before(&["spec", "paramRef"]).is_some()
        && same(reference.value(), before(&["spec", "paramRef"]))
        && same(spec.child("policyName").value(), before(&["spec", "policyName"]));
    if !errors.is_empty() || !reference.is_set() || unchanged {
        return;
    }
    let resource = holdfast_schema::GroupResource {
        group: "admissionregistration.k8s.io".into(),
        resource: policies.into(),
    };
    let policy = context.lookup.get(&resource, "", spec.child("policyName").text());
    let kind = policy.as_ref().and_then(|policy| policy.at(&["spec", "paramKind"]));
    let (namespace, name) = (reference.child("namespace").text(), reference.child("name").text());
    if !may_read(context, kind, namespace, name) {
        errors.push(reference.forbidden(format!(
            "user {} does not have \"get\" permission on the object referenced by paramRef",
            shown(context.user)
        )));
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("parameter-kind", |object, _| parameter_kind(object)),
    ("parameter-reference", |object, _| parameter_reference(object)),
];

fn parameter_kind(policy: &Value) -> Value {
    let text = |field| policy.str_at(&["spec", "paramKind", field]);
    match (text("apiVersion"), text("kind")) {
        (None, None) => "<unset>".into(),
        (version, kind) => format!("{}/{}", version.unwrap_or_default(), kind.unwrap_or_default()).into(),
    }
}

fn parameter_reference(binding: &Value) -> Value {
    let Some(reference) = binding.at(&["spec", "paramRef"]).filter(|found| !found.is_null()) else {
        return "<unset>".into();
    };
    let text = |field| reference.str_at(&[field]).filter(|text| !text.is_empty());
    match (text("name"), reference.get("selector")) {
        (Some(name), _) => format!("{}/{name}", text("namespace").unwrap_or("*")).into(),
        (None, Some(selector)) => selector_as_go(selector).into(),
        (None, None) => "<unset>".into(),
    }
}

/// Formats a label selector as Go prints the struct. Clients see this form only here.
fn selector_as_go(selector: &Value) -> String {
    let labels: String = selector
        .get("matchLabels")
        .and_then(Value::as_map)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", scalar_text(value)))
        .collect();
    let expression = |requirement: &Value| {
        let text = |field| requirement.str_at(&[field]).unwrap_or_default();
        let values: Vec<String> = items(requirement, &["values"]).iter().map(scalar_text).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text("key"),
            text("operator"),
            values.join(" ")
        )
    };
    let expressions: String = items(selector, &["matchExpressions"]).iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
