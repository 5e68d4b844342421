//! ValidatingAdmissionPolicies and their bindings
//! (<https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/validating-admission-policy-v1/>).

use std::cell::RefCell;
use std::collections::HashSet;

use holdfast_admission::policies::environment::Compiler;
use holdfast_cel::Type;
use holdfast_resource::WriteContext;
use holdfast_schema::metadata::conditions::validate_conditions;
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::{Check, Field, Part, Rules};
use holdfast_value::Value;

use super::json_path;
use super::policy::{
    BindingRules, check_parameter_kind, check_reference, compiler, report_error, validate_constraints,
    validate_match_conditions, validate_parameter_kind, validate_variables,
};
use crate::rules::ValidatingPolicyRule;
use crate::validation::Errors;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// Maximum number of audit annotations, and maximum length of the expression of one in bytes.
const ANNOTATIONS: usize = 20;
const ANNOTATION_BYTES: usize = 5 << 10;

/// Validates a binding.
pub(super) fn binding_errors(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = context.check(object, &BindingRules);
    let root = Field::root(object);
    let spec = root.child("spec");
    validate_actions(&spec.child("validationActions"), &mut errors);
    check_reference(context, "validatingadmissionpolicies", &spec, old, &mut errors);
    errors
}

/// Validates a policy.
pub(super) fn policy_errors(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
    if old.is_some() && context.subresource == Some("status") {
        return validate_status(object);
    }
    let rules = PolicyRules {
        compiler: compiler(object),
        name: context.name,
    };
    let mut errors = context.check(object, &rules);
    check_parameter_kind(context, &Field::root(object).child("spec"), old, &mut errors);
    errors
}

struct PolicyRules<'a> {
    compiler: RefCell<Compiler>,
    /// Name of the policy.
    name: &'a str,
}

impl<'v> Rules<'v> for PolicyRules<'_> {
    type Rule = ValidatingPolicyRule;

    /// upstream: pkg/apis/admissionregistration/validation#validateValidatingAdmissionPolicySpec
    fn rule(&self, rule: ValidatingPolicyRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            ValidatingPolicyRule::Content => {
                let (validations, annotations) = (part.child("validations"), part.child("auditAnnotations"));
                if validations.is_empty() && annotations.is_empty() {
                    let detail = "validations or auditAnnotations must contain at least one item";
                    errors.push(validations.required(detail));
                    errors.push(annotations.required(detail));
                }
            }
            ValidatingPolicyRule::Validation => validate_validation(part, &mut self.compiler.borrow_mut(), errors),
            ValidatingPolicyRule::Annotations => {
                let annotations = part.child("auditAnnotations");
                validate_annotations(&annotations, self.name, &mut self.compiler.borrow_mut(), errors);
            }
            ValidatingPolicyRule::ParameterKind => validate_parameter_kind(&part.child("paramKind"), errors),
            ValidatingPolicyRule::Constraints => validate_constraints(part, check),
            ValidatingPolicyRule::Conditions => {
                let conditions = part.child("matchConditions");
                validate_match_conditions(&conditions, &mut self.compiler.borrow_mut(), errors);
            }
            ValidatingPolicyRule::Variables => {
                validate_variables(&part.child("variables"), &mut self.compiler.borrow_mut(), errors);
            }
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateValidation
fn validate_validation(validation: &Field<'_, '_>, compiler: &mut Compiler, errors: &mut Errors) {
    let expression = validation.child("expression");
    if expression.text().trim().is_empty() {
        errors.push(expression.required("expression is not specified"));
    } else {
        let detail = compiler.expression(expression.text(), &[Type::Bool]).err();
        report_error(&expression, detail, errors);
    }
    let message = validation.child("messageExpression");
    if !message.text().is_empty() {
        if message.text().trim().is_empty() {
            errors.push(message.invalid("must be non-empty if specified"));
        } else {
            report_error(&message, compiler.message(message.text()).err(), errors);
        }
    }
    let message = validation.child("message");
    let trimmed = message.text().trim();
    if !message.text().is_empty() && trimmed.is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if trimmed.contains(['\n', '\r']) {
        errors.push(message.invalid("must not contain line breaks"));
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateAuditAnnotation
fn validate_annotations(annotations: &Field<'_, '_>, name: &str, compiler: &mut Compiler, errors: &mut Errors) {
    if annotations.len() > ANNOTATIONS {
        errors.push(annotations.invalid(format!("must not have more than {ANNOTATIONS} auditAnnotations")));
    }
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        let key = annotation.child("key");
        if name.is_empty() {
            errors.push(key.invalid_text("requires metadata.name be non-empty"));
        } else {
            let qualified = format!("{name}/{}", key.text());
            let details = qualified_name(&qualified).into_iter();
            errors.extend(details.map(|detail| key.invalid_as(qualified.as_str(), detail)));
        }
        let expression = annotation.child("valueExpression");
        match expression.text().trim() {
            "" => errors.push(expression.required("valueExpression is not specified")),
            text if text.len() > ANNOTATION_BYTES => {
                errors.push(expression.required(format!("must not exceed {ANNOTATION_BYTES} bytes in length")));
            }
            text => {
                let detail = compiler.expression(text, &[Type::String, Type::Null]).err();
                report_error(&expression, detail, errors);
            }
        }
        if !keys.insert(key.text()) {
            errors.push(key.duplicate());
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateValidationActions
fn validate_actions(actions: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        if !ACTIONS.contains(&action.text()) {
            errors.push(action.not_supported(&ACTIONS));
        }
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.push(actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ));
    }
    if seen.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateValidatingAdmissionPolicyStatus
fn validate_status(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(object);
    let status = root.child("status");
    let checking = status.child("typeChecking");
    for warning in checking.child("expressionWarnings").items() {
        let (text, place) = (warning.child("warning"), warning.child("fieldRef"));
        if text.text().is_empty() {
            errors.push(text.required(""));
        }
        let path = place.text().trim();
        if path.is_empty() {
            errors.push(place.required(""));
        } else if let Some(why) = json_path::error(path) {
            errors.push(place.invalid_as(path, format!("invalid JSONPath: {why}")));
        }
    }
    validate_conditions(&status.child("conditions"), &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const FINE: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {\
        matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}, \
        validations: [{expression: 'true'}]}}";
    const BINDING: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, \
        spec: {policyName: p, validationActions: [Deny]}}";

    fn errors(from: &str, to: &str) -> Vec<String> {
        assert!(FINE.contains(from), "{from}");
        Harness::new().errors(&FINE.replace(from, to))
    }

    #[test]
    fn expressions_must_compile_to_what_their_place_takes() {
        assert_eq!(Harness::new().errors(FINE), Vec::<String>::new());
        assert_eq!(
            errors("'true'", "object.x, messageExpression: '1', message: ' '"),
            [
                "spec.validations[0].expression: Invalid value: \"object.x\": must evaluate to bool but got dyn",
                "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
                "spec.validations[0].message: Invalid value: \" \": must be non-empty if specified",
            ]
        );
        let messages = errors(
            "'true'",
            "authorizer.path('/x').check('get').allowed(), messageExpression: string(authorizer)",
        );
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].contains("messageExpression") && messages[0].contains("undeclared reference to 'authorizer'")
        );
        let constant = "validations[0].expression: Internal error: program instantiation failed: type conversion error from 'string' to 'int'";
        assert_eq!(errors("'true'", "'int(\"x\") == 1'"), [format!("spec.{constant}")]);
        let messages = errors("'true'", "params == null");
        assert!(messages[0].contains("undeclared reference to 'params'"), "{messages:?}");
    }

    #[test]
    fn variables_are_seen_by_what_comes_after_them() {
        let variables = "validations: [{expression: variables.b == 1}], variables: [{name: a, expression: '1'}, {name: b, expression: variables.a}]";
        assert_eq!(
            errors("validations: [{expression: 'true'}]", variables),
            Vec::<String>::new()
        );
        let messages = errors(
            "validations: [{expression: 'true'}]",
            "validations: [{expression: 'true'}], variables: [{name: a-b, expression: variables.b}, {name: b, expression: ''}, {expression: '1'}]",
        );
        assert_eq!(
            messages[0],
            "spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier"
        );
        assert!(
            messages[1]
                .starts_with("spec.variables[0].expression: Invalid value: \"variables.b\": compilation failed:")
        );
        assert_eq!(
            messages[2],
            "spec.variables[1].expression: Required value: expression is not specified"
        );
        assert_eq!(
            messages[3],
            "spec.variables[2].name: Required value: name is not specified"
        );
        let condition = "validations: [{expression: 'true'}], variables: [{name: a, expression: '1'}], matchConditions: [{name: c, expression: variables.a == 1}]";
        let messages = errors("validations: [{expression: 'true'}]", condition);
        assert!(
            messages[0].contains("undeclared reference to 'variables'"),
            "{messages:?}"
        );
    }

    #[test]
    fn kinds_of_parameters_and_annotations_have_forms() {
        assert_eq!(
            errors(
                "validations:",
                "paramKind: {apiVersion: a/b/c, kind: A_B}, validations:"
            ),
            [
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "spec.paramKind.kind: Invalid value: \"A_B\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ]
        );
        assert_eq!(
            errors(
                "validations:",
                "auditAnnotations: [{key: k, valueExpression: ''}, {key: k, valueExpression: \"'x'\"}], validations:"
            ),
            [
                "spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
                "spec.auditAnnotations[1].key: Duplicate value: \"k\"",
            ]
        );
    }

    #[test]
    fn constraints_are_checked() {
        assert_eq!(
            errors("resources: [pods]", "resources: [pods], resourceNames: [a/b, c, c]"),
            [
                "spec.matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
                "spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: \"c\"",
            ]
        );
        assert_eq!(
            errors("matchConstraints: {", "matchConstraints: {matchPolicy: Odd, "),
            [
                "spec.matchConstraints.matchPolicy: Unsupported value: \"Odd\": supported values: \"Equivalent\", \"Exact\""
            ]
        );
    }

    #[test]
    fn a_status_reports_types_by_path_and_conditions() {
        let with = |status: &str| FINE.replace("spec: {", &format!("status: {status}, spec: {{"));
        let errors = |status: &str| Harness::new().subresource_errors(Some("status"), FINE, &with(status));
        let fine = "{typeChecking: {expressionWarnings: [{fieldRef: 'spec.validations[0].expression', warning: w}]}, \
                     conditions: [{type: A, status: 'True', reason: R, lastTransitionTime: '2020-01-01T00:00:00Z'}]}";
        assert_eq!(errors(fine), Vec::<String>::new());
        assert_eq!(
            errors(
                "{typeChecking: {expressionWarnings: [{fieldRef: ' -a '}]}, conditions: [{type: A, status: odd, reason: R}]}"
            ),
            [
                "status.typeChecking.expressionWarnings[0].warning: Required value",
                "status.typeChecking.expressionWarnings[0].fieldRef: Invalid value: \"-a\": invalid JSONPath: cannot parse number -",
                "status.conditions[0].status: Unsupported value: \"odd\": supported values: \"False\", \"True\", \"Unknown\"",
                "status.conditions[0].lastTransitionTime: Required value",
            ]
        );
    }

    #[test]
    fn a_binding_chooses_parameters_and_what_comes_of_failures() {
        let errors = |from: &str, to: &str| Harness::new().errors(&BINDING.replace(from, to));
        assert_eq!(errors("", ""), Vec::<String>::new());
        assert_eq!(
            errors("[Deny]", "[Deny, Odd, Deny]"),
            [
                "spec.validationActions[1]: Unsupported value: \"Odd\": supported values: \"Audit\", \"Deny\", \"Warn\"",
                "spec.validationActions[2]: Duplicate value: \"Deny\"",
            ]
        );
        assert_eq!(
            errors(
                "policyName: p",
                "policyName: p, paramRef: {name: a, selector: {}, parameterNotFoundAction: Odd}"
            ),
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Unsupported value: \"Odd\": supported values: \"Deny\", \"Allow\"",
            ]
        );
        assert_eq!(
            errors("policyName: p", "policyName: p, matchResources: {matchPolicy: Odd}"),
            [
                "spec.matchResources.matchPolicy: Unsupported value: \"Odd\": supported values: \"Equivalent\", \"Exact\""
            ]
        );
    }
}
