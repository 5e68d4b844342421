//! ValidatingAdmissionPolicies: they reject writes or add warnings
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/>).

use holdfast_cel::{Activation, Budget, CelValue, Type};
use holdfast_limits::Stopwatch;
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value, json};

use super::conditions::ConditionCheck;
use super::environment::{Compiler, compiled};
use super::expression::{Expression, Failure};
use super::request::{Request, Scene};
use super::{Action, Active, Binding, Body, Check, Policy, sort_of_error};
use crate::webhooks::matching::Invocation;

/// Maximum length of a message expression's result, in bytes.
const MESSAGE_BYTES: usize = 5 << 10;

/// Validations of a policy.
#[derive(Debug)]
pub struct Validations {
    validations: Vec<Validation>,
    /// Audit annotations: keys and their values.
    annotations: Vec<(SmolStr, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: Box<str>,
    message_expression: Option<Expression>,
    reason: SmolStr,
}

impl Body for Validations {
    fn compile(spec: &Field<'_, '_>, compiler: &mut Compiler) -> Self {
        let validations = spec.child("validations");
        let annotations = spec.child("auditAnnotations");
        Self {
            validations: validations
                .items()
                .map(|validation| Validation::compile(&validation, compiler))
                .collect(),
            annotations: annotations
                .items()
                .map(|annotation| {
                    let expression = annotation.child("valueExpression");
                    let text = expression.text();
                    let expression = compiled(text, compiler.expression(text, &[Type::String, Type::Null]));
                    (annotation.child("key").text().into(), expression)
                })
                .collect(),
        }
    }
}

impl Validation {
    fn compile(validation: &Field<'_, '_>, compiler: &mut Compiler) -> Self {
        let expression = validation.child("expression").text();
        let message = validation.child("messageExpression").text();
        let reason = validation.child("reason").text();
        Self {
            expression: compiled(expression, compiler.expression(expression, &[Type::Bool])),
            message: validation.child("message").text().trim().into(),
            message_expression: (!message.trim().is_empty()).then(|| compiled(message, compiler.message(message))),
            reason: if reason.is_empty() { INVALID } else { reason.into() },
        }
    }

    /// Returns the message for an object that fails the validation.
    fn message(&self, activation: &Activation, budget: &mut Budget<'_>) -> Result<String, Failure> {
        let made = match &self.message_expression {
            Some(expression) => match expression.evaluate(activation, budget) {
                Ok(value) => value.as_str().map(|text| text.trim().to_owned()),
                Err(Failure::OutOfBudget) => return Err(Failure::OutOfBudget),
                Err(Failure::Failed(_)) => None,
            },
            None => None,
        };
        let fit = |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES && !text.contains('\n');
        Ok(match made.filter(fit) {
            Some(message) => message,
            None if !self.message.is_empty() => self.message.to_string(),
            None => format!("failed expression: {}", self.expression.text().trim()),
        })
    }
}

const INVALID: SmolStr = SmolStr::new_static("Invalid");

/// Outcome of all policies for a write.
#[derive(Debug, Default)]
pub struct ValidationResult {
    /// First rejection.
    pub denial: Option<Denial>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Evaluations to count in metrics.
    pub checks: Vec<Check>,
    /// Evaluations of match conditions to count in metrics.
    pub conditions: Vec<ConditionCheck>,
    /// Audit annotations of the write: keys and values. The first value of a key is used.
    pub annotations: Vec<(String, String)>,
}

/// Annotation of a failure that a binding reports in the audit log.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Maximum length of the value of an annotation, in bytes.
const ANNOTATION_BYTES: usize = 10 << 10;

/// Values of the annotations of one policy, by key, without duplicates.
type Annotations = Vec<(SmolStr, Vec<String>)>;

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Message.
    pub message: String,
    /// Reason of the status: `Invalid`, `Forbidden`, `Unauthorized` or `RequestEntityTooLarge`.
    pub reason: SmolStr,
}

/// Failure found by one evaluation of a policy.
struct Finding {
    /// Index of the validation in the policy.
    index: usize,
    message: String,
    reason: SmolStr,
    /// True if the evaluation failed; false if the object is invalid.
    error: bool,
    elapsed: std::time::Duration,
}

/// Evaluates the policies that match a write that results in `object`.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#dispatcher.Dispatch
pub fn check(active: &Active<Validations>, request: &Request<'_>, object: Option<&Value>) -> ValidationResult {
    let mut checking = Checking {
        scene: Scene::new(request),
        object,
        result: ValidationResult::default(),
    };
    for hook in active.concerning(request.resource) {
        checking.policy(&hook.policy, &hook.bindings);
    }
    checking.result
}

struct Checking<'a> {
    scene: Scene<'a>,
    object: Option<&'a Value>,
    result: ValidationResult,
}

impl Checking<'_> {
    fn policy(&mut self, policy: &Policy<Validations>, bindings: &[std::sync::Arc<Binding>]) {
        let invocation = match policy.constraints.invocation(&self.scene, self.object) {
            Ok(Some(invocation)) => invocation,
            Ok(None) => return,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        let request = self.scene.request;
        let resource = match policy.parameter_resource(request.registry) {
            Ok(resource) => resource,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        let mut annotations = Annotations::new();
        for binding in bindings {
            match binding.covers(&self.scene, self.object) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            }
            let (Some((kind, resource)), Some(reference)) = (resource, &binding.parameters) else {
                self.evaluate(policy, binding, &invocation, None, &mut annotations);
                continue;
            };
            match reference.collect(kind, resource, request) {
                Ok(parameters) => {
                    for parameter in &parameters {
                        self.evaluate(policy, binding, &invocation, Some(parameter), &mut annotations);
                    }
                }
                Err(why) => self.misconfigured(policy, Some(binding), &why),
            }
        }
        let named = annotations
            .into_iter()
            .map(|(key, values)| (format!("{}/{key}", policy.name), values.join(", ")));
        self.result.annotations.extend(named);
    }

    fn misconfigured(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, why: &str) {
        if policy.fails_open {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.deny(policy, binding, &format!("failed to configure {what}: {why}"), INVALID);
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#dispatcher.Dispatch
    fn deny(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, message: &str, reason: SmolStr) {
        self.result.denial.get_or_insert_with(|| {
            let with = binding.map_or_else(String::new, |binding| format!(" with binding '{}'", binding.name));
            Denial {
                message: format!(
                    "ValidatingAdmissionPolicy '{}'{with} denied request: {message}",
                    policy.name
                ),
                reason,
            }
        });
    }

    fn evaluate(
        &mut self,
        policy: &Policy<Validations>,
        binding: &Binding,
        invocation: &Invocation,
        parameter: Option<&Value>,
        annotations: &mut Annotations,
    ) {
        let prepared = self
            .scene
            .activation(&policy.blank, policy.needs, invocation, self.object, parameter);
        let mut activation = match prepared {
            Ok(activation) => activation,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        policy.variables.bind(&mut activation);
        match policy
            .conditions
            .hold(&policy.name, &activation, &mut self.result.conditions)
        {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) if policy.fails_open => return,
            Err(message) => return self.found(policy, binding, Finding::failed(message, Stopwatch::start())),
        }
        for finding in policy.body.findings(&activation) {
            self.found(policy, binding, finding);
        }
        for finding in policy.body.annotate(&activation, policy.fails_open, annotations) {
            self.count(policy, binding, &finding, "deny");
            self.deny(policy, Some(binding), &finding.message, INVALID);
        }
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#dispatcher.Dispatch
    fn found(&mut self, policy: &Policy<Validations>, binding: &Binding, finding: Finding) {
        if finding.error && policy.fails_open {
            self.count(policy, binding, &finding, "allow");
            return;
        }
        for action in &binding.actions {
            match action {
                Action::Deny => {
                    self.count(policy, binding, &finding, "deny");
                    self.deny(policy, Some(binding), &finding.message, finding.reason.clone());
                }
                Action::Warn => {
                    self.count(policy, binding, &finding, "warn");
                    self.result.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, finding.message
                    ));
                }
                Action::Audit => {
                    self.count(policy, binding, &finding, "audit");
                    let failure = finding.failure(policy, binding);
                    self.result.annotations.push((FAILURE.to_owned(), failure));
                }
            }
        }
    }

    fn count(&mut self, policy: &Policy<Validations>, binding: &Binding, finding: &Finding, action: &'static str) {
        self.result.checks.push(Check {
            policy: policy.name.clone(),
            binding: binding.name.clone(),
            elapsed: finding.elapsed,
            error: if finding.error {
                sort_of_error(&finding.message)
            } else {
                "no_error"
            },
            action,
        });
    }
}

impl Finding {
    /// Returns the audit annotation of the failure: a list, in which the reference never puts more than one item.
    fn failure(&self, policy: &Policy<Validations>, binding: &Binding) -> String {
        let text = |text: &str| json::to_string(&Value::from(text));
        let actions: Vec<Value> = binding.actions.iter().map(|action| action.name().into()).collect();
        format!(
            "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{},\"validationActions\":{}}}]",
            text(&self.message),
            text(&policy.name),
            text(&binding.name),
            self.index,
            json::to_string(&actions.into())
        )
    }

    fn failed(message: String, begun: Stopwatch) -> Self {
        Self {
            index: 0,
            message,
            reason: INVALID,
            error: true,
            elapsed: begun.elapsed(),
        }
    }
}

impl Validations {
    fn findings(&self, activation: &Activation) -> Vec<Finding> {
        let mut budget = Budget::default();
        let mut findings = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            let begun = Stopwatch::start();
            let outcome = validation.expression.evaluate(activation, &mut budget);
            let message = match outcome {
                Ok(CelValue::Bool(true)) => continue,
                Ok(_) => validation.message(activation, &mut budget).map_err(|failure| {
                    let failure = failure.message();
                    Failure::Failed(format!("failed messageExpression: {failure}"))
                }),
                Err(Failure::OutOfBudget) => {
                    // Then there are no other results.
                    return vec![Finding::failed(Failure::OutOfBudget.message(), begun)];
                }
                Err(failure) => Err(failure),
            };
            findings.push(match message {
                Ok(message) => Finding {
                    index,
                    message,
                    reason: validation.reason.clone(),
                    error: false,
                    elapsed: begun.elapsed(),
                },
                Err(failure) => Finding {
                    index,
                    ..Finding::failed(failure.message(), begun)
                },
            });
        }
        findings
    }

    /// Adds the audit annotations of a policy to `annotations`, and returns their errors.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#validator.Validate
    fn annotate(&self, activation: &Activation, fails_open: bool, annotations: &mut Annotations) -> Vec<Finding> {
        let mut budget = Budget::default();
        let mut errors = Vec::new();
        for (key, annotation) in &self.annotations {
            let begun = Stopwatch::start();
            let failure = match annotation.evaluate(activation, &mut budget) {
                Ok(CelValue::Null) => continue,
                Ok(CelValue::String(value)) => {
                    add_annotation(annotations, key, &value);
                    continue;
                }
                Ok(other) => {
                    let text = annotation.text();
                    let message = format!(
                        "valueExpression '{text}' resulted in unsupported return type: {}. Return type must be either string or null.",
                        other.type_name()
                    );
                    errors.push(Finding::failed(message, begun));
                    continue;
                }
                Err(failure) => failure,
            };
            if !fails_open {
                let ends = failure == Failure::OutOfBudget;
                errors.push(Finding::failed(failure.message(), begun));
                if ends {
                    break;
                }
            }
        }
        errors
    }
}

/// Adds a value unless it is empty or a duplicate.
fn add_annotation(annotations: &mut Annotations, key: &SmolStr, value: &str) {
    let value = value.trim();
    if value.is_empty() {
        return;
    }
    let (value, _) = value.split_at(value.floor_char_boundary(ANNOTATION_BYTES));
    match annotations.iter_mut().find(|(known, _)| known == key) {
        Some((_, values)) if values.iter().any(|known| known == value) => {}
        Some((_, values)) => values.push(value.to_owned()),
        None => annotations.push((key.clone(), vec![value.to_owned()])),
    }
}
