//! MutatingAdmissionPolicies and their bindings
//! (<https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/mutating-admission-policy-v1/>).

use std::cell::RefCell;

use holdfast_admission::policies::environment::Compiler;
use holdfast_cel::Type;
use holdfast_resource::WriteContext;
use holdfast_schema::{Check, Field, Part, Rules};
use holdfast_value::Value;

use super::policy::{
    BindingRules, check_parameter_kind, check_reference, compiler, error_of, validate_constraints,
    validate_match_conditions, validate_parameter_kind, validate_variables,
};
use crate::rules::MutatingPolicyRule;
use crate::validation::Errors;

/// Operations that a mutating policy may match. A deletion has nothing to change.
const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Validates a binding.
pub(super) fn binding_errors(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = context.check(object, &BindingRules);
    let root = Field::root(object);
    let spec = root.child("spec");
    validate_operations(&spec.child("matchResources"), &mut errors);
    check_reference(context, "mutatingadmissionpolicies", &spec, old, &mut errors);
    errors
}

/// Validates a policy.
pub(super) fn policy_errors(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = context.check(object, &PolicyRules(compiler(object)));
    check_parameter_kind(context, &Field::root(object).child("spec"), old, &mut errors);
    errors
}

struct PolicyRules(RefCell<Compiler>);

impl<'v> Rules<'v> for PolicyRules {
    type Rule = MutatingPolicyRule;

    fn rule(&self, rule: MutatingPolicyRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            MutatingPolicyRule::Operations => validate_operations(&part.child("matchConstraints"), &mut check.errors),
            MutatingPolicyRule::Patch => validate_patch(part, &mut self.0.borrow_mut(), &mut check.errors),
            MutatingPolicyRule::ParameterKind => validate_parameter_kind(&part.child("paramKind"), &mut check.errors),
            MutatingPolicyRule::Constraints => validate_constraints(part, check),
            MutatingPolicyRule::Conditions => {
                let conditions = part.child("matchConditions");
                validate_match_conditions(&conditions, &mut self.0.borrow_mut(), &mut check.errors);
            }
            MutatingPolicyRule::Variables => {
                validate_variables(&part.child("variables"), &mut self.0.borrow_mut(), &mut check.errors);
            }
        }
    }
}

/// Validates the operations of match rules. The reported path has no index, as in the reference.
///
/// upstream: pkg/apis/admissionregistration/validation#validateMutatingAdmissionPolicySpec
fn validate_operations(constraints: &Field<'_, '_>, errors: &mut Errors) {
    let rules = constraints.child("resourceRules");
    for rule in rules.items() {
        for operation in rule.child("operations").items() {
            if !OPERATIONS.contains(&operation.text()) {
                let path = rules.path().child("operations").to_string();
                errors.push(Field::placed(operation.value(), &path).not_supported(&OPERATIONS));
            }
        }
    }
}

/// Patch types with the field of each.
const PATCHES: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];

/// upstream: pkg/apis/admissionregistration/validation#validateMutation
fn validate_patch(mutation: &Field<'_, '_>, compiler: &mut Compiler, errors: &mut Errors) {
    let patch_type = mutation.child("patchType");
    let Some((name, own)) = PATCHES.into_iter().find(|(name, _)| *name == patch_type.text()) else {
        return;
    };
    let patch = mutation.child(own);
    if patch.is_set() {
        let expected = if name == "JSONPatch" {
            Type::json_patches()
        } else {
            Type::apply_object()
        };
        validate_expression(&patch.child("expression"), expected, compiler, errors);
    } else {
        errors.push(patch.required(format!("must be specified when patchType is {name}")));
    }
    for (_, field) in PATCHES.into_iter().filter(|(other, _)| *other != name) {
        let other = mutation.child(field);
        if other.is_set() {
            let detail = format!("must not be specified when patchType is {name}");
            errors.push(other.invalid_as(format!("{{{field}}}"), detail));
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateMutation
fn validate_expression(expression: &Field<'_, '_>, expected: Type, compiler: &mut Compiler, errors: &mut Errors) {
    match expression.text().trim() {
        "" => errors.push(expression.required("")),
        text => errors.extend(
            compiler
                .mutation(text, &[expected])
                .err()
                .map(|error| error_of(expression, text, &error)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const FINE: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: a}, spec: {\
        matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}, \
        reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{}'}}]}}";

    fn errors(from: &str, to: &str) -> Vec<String> {
        assert!(FINE.contains(from), "{from}");
        Harness::new().errors(&FINE.replace(from, to))
    }

    #[test]
    fn a_mutation_has_what_its_type_asks_for_and_nothing_else() {
        assert_eq!(Harness::new().errors(FINE), Vec::<String>::new());
        let unknown = errors("'Object{}'", "variables.foo");
        assert!(
            unknown[0].contains("<input>:1:10: undefined field 'foo'"),
            "{unknown:?}"
        );
        assert_eq!(
            errors("'Object{}'", "' 1 '"),
            [
                "spec.mutations[0].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got int"
            ]
        );
        assert_eq!(
            errors("'Object{}'", "' '"),
            ["spec.mutations[0].applyConfiguration.expression: Required value"]
        );
        assert_eq!(
            errors("patchType: ApplyConfiguration", "patchType: JSONPatch"),
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
            ]
        );
        let messages = errors(
            "reinvocationPolicy: Never",
            "variables: [{name: made, expression: 'Object{}'}], reinvocationPolicy: Never",
        );
        assert!(
            messages[0].starts_with("spec.variables[0].expression: Invalid value"),
            "{messages:?}"
        );
    }

    #[test]
    fn mutating_policy_for_delete_is_rejected() {
        assert_eq!(
            errors("[CREATE]", "[DELETE]"),
            [
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\""
            ]
        );
        assert_eq!(
            errors("reinvocationPolicy: Never, ", ""),
            ["spec.reinvocationPolicy: Required value"]
        );
    }
}
