//! ValidatingAdmissionPolicies and their bindings
//! (<https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/validating-admission-policy-v1/>).

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_cel::Type;
use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::policy::{check_parameter_kind, check_reference, report_fault, validate_binding, validate_policy};
use crate::policies::Policies;
use crate::policies::environment::Compiler;
use crate::validation::{Errors, optional_one_of};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// The most annotations of the audit log, and the longest expression of one in bytes.
const ANNOTATIONS: usize = 20;
const ANNOTATION_BYTES: usize = 5 << 10;

/// Policies are checked, and what writes are asked of follows them.
pub(super) struct ValidatingPolicy(pub(super) Arc<Policies>);

impl Strategy for ValidatingPolicy {
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validate(context, object, None)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return validate_status(object);
        }
        validate(context, object, Some(old))
    }

    fn observes(&self) -> bool {
        true
    }

    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(object) = new.or(old) {
            let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
            self.0.validating.set_policy(name, new);
        }
    }

    fn observe_anew(&self) {
        self.0.validating.forget_policies();
    }
}

/// Bindings are checked, and what writes are asked of follows them.
pub(super) struct ValidatingPolicyBinding(pub(super) Arc<Policies>);

impl ValidatingPolicyBinding {
    fn errors(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(object);
        let spec = root.child("spec");
        // The reference leaves out a letter.
        validate_binding(&spec, "spec.matchResouces", &mut errors);
        validate_actions(&spec.child("validationActions"), &mut errors);
        check_reference(context, "validatingadmissionpolicies", &spec, old, &mut errors);
        errors
    }
}

impl Strategy for ValidatingPolicyBinding {
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        Self::errors(context, object, None)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        Self::errors(context, object, Some(old))
    }

    fn observes(&self) -> bool {
        true
    }

    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(object) = new.or(old) {
            let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
            self.0.validating.set_binding(name, new);
        }
    }

    fn observe_anew(&self) {
        self.0.validating.forget_bindings();
    }
}

fn validate(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(object);
    let spec = root.child("spec");
    let mut compiler = validate_policy(&spec, &mut errors);
    let (validations, annotations) = (spec.child("validations"), spec.child("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(validations.required(detail));
        errors.push(annotations.required(detail));
    }
    for validation in validations.items() {
        validate_validation(&validation, &mut compiler, &mut errors);
    }
    validate_annotations(&annotations, context.name, &mut compiler, &mut errors);
    check_parameter_kind(context, &spec, old, &mut errors);
    errors
}

fn validate_validation(validation: &Field<'_, '_>, compiler: &mut Compiler, errors: &mut Errors) {
    let expression = validation.child("expression");
    if expression.text().trim().is_empty() {
        errors.push(expression.required("expression is not specified"));
    } else {
        let fault = compiler.expression(expression.text(), &[Type::Bool]).err();
        report_fault(&expression, fault, errors);
    }
    let message = validation.child("messageExpression");
    if !message.text().is_empty() {
        if message.text().trim().is_empty() {
            errors.push(message.invalid("must be non-empty if specified"));
        } else {
            report_fault(&message, compiler.message(message.text()).err(), errors);
        }
    }
    let message = validation.child("message");
    let trimmed = message.text().trim();
    if !message.text().is_empty() && trimmed.is_empty() {
        errors.push(message.invalid("message must be non-empty if specified"));
    } else if trimmed.contains(['\n', '\r']) {
        errors.push(message.invalid("message must not contain line breaks"));
    }
    optional_one_of(&validation.child("reason"), &REASONS, errors);
}

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
            let faults = qualified_name(&qualified).into_iter();
            errors.extend(faults.map(|fault| key.invalid_as(qualified.as_str(), fault)));
        }
        let expression = annotation.child("valueExpression");
        match expression.text().trim() {
            "" => errors.push(expression.required("valueExpression is not specified")),
            text if text.len() > ANNOTATION_BYTES => {
                errors.push(expression.required(format!("must not exceed {ANNOTATION_BYTES} bytes in length")));
            }
            text => {
                let fault = compiler.expression(text, &[Type::String, Type::Null]).err();
                report_fault(&expression, fault, errors);
            }
        }
        if !keys.insert(key.text()) {
            errors.push(key.duplicate());
        }
    }
}

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

fn validate_status(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(object);
    let status = root.child("status");
    let checking = status.child("typeChecking");
    for warning in checking.child("expressionWarnings").items() {
        for field in ["warning", "fieldRef"] {
            let text = warning.child(field);
            if text.text().trim().is_empty() {
                errors.push(text.required(""));
            }
        }
    }
    errors
}
