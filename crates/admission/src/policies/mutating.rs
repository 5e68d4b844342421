//! MutatingAdmissionPolicies: how they change an object
//! (<https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/>).

use std::sync::Arc;

use holdfast_cel::{Activation, Budget, CelValue, EvaluationError, ListValue, MapValue, StructValue, Type};
use holdfast_limits::Stopwatch;
use holdfast_schema::{Field, GroupVersionKind};
use holdfast_value::{Error as ValueError, Growth, Map, SmolStr, Value, json_patch};

use super::conditions::ConditionCheck;
use super::environment::{Compiler, compiled};
use super::expression::{Expression, Failure};
use super::reinvocation::Reinvocation;
use super::request::{Request, Scene, in_version};
use super::{Active, Binding, Body, Check, Policy, sort_of_error};
use crate::webhooks::matching::Invocation;

/// Mutations of a policy.
#[derive(Debug)]
pub struct Mutations {
    mutations: Vec<Mutation>,
    reinvoked: bool,
}

#[derive(Debug)]
struct Mutation {
    patch_type: PatchType,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Apply,
    Json,
}

impl Body for Mutations {
    fn compile(spec: &Field<'_, '_>, compiler: &mut Compiler) -> Self {
        let list = spec.child("mutations");
        let mutations = list.items().map(|mutation| {
            let (patch_type, field, expected) = match mutation.child("patchType").text() {
                "JSONPatch" => (PatchType::Json, "jsonPatch", Type::json_patches()),
                _ => (PatchType::Apply, "applyConfiguration", Type::apply_object()),
            };
            let patch = mutation.child(field);
            let text = patch.child("expression").text();
            Mutation {
                patch_type,
                expression: compiled(text, compiler.mutation(text, &[expected])),
            }
        });
        Self {
            mutations: mutations.collect(),
            reinvoked: spec.child("reinvocationPolicy").text() == "IfNeeded",
        }
    }
}

/// Types of the objects that policies change.
pub trait ObjectTypes {
    /// Merges an apply configuration into an object of that kind; both are complete.
    ///
    /// # Errors
    /// If it cannot be merged; the error is the reference's message.
    fn merge(&self, kind: &GroupVersionKind, object: &Value, configuration: Value) -> Result<Value, String>;

    /// Converts a changed object of that kind to its type and adds the defaults of missing fields.
    ///
    /// # Errors
    /// If it does not match its type.
    fn conform(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, MutationError>;
}

/// Error of a changed object.
#[derive(Clone, Debug, PartialEq)]
pub enum MutationError {
    /// It does not match its type.
    Misfit(String),
    /// It is too large.
    Overgrown(ValueError),
}

impl From<String> for MutationError {
    fn from(why: String) -> Self {
        Self::Misfit(why)
    }
}

impl From<ValueError> for MutationError {
    fn from(error: ValueError) -> Self {
        Self::Overgrown(error)
    }
}

/// Key of an invocation: names of the policy and the binding, and namespace and name of the parameter.
pub type Key = (SmolStr, SmolStr, Option<(SmolStr, SmolStr)>);

/// Outcome of all policies for a write.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rejections of the write: all causes. The first one provides the message, and the reason if it has a specific
    /// one.
    pub rejections: Vec<MutationRejection>,
    /// Error that ends the write.
    pub error: Option<MutationError>,
    /// True if the object changed.
    pub changed: bool,
    /// Evaluations to count in metrics.
    pub checks: Vec<Check>,
    /// Evaluations of match conditions to count in metrics.
    pub conditions: Vec<ConditionCheck>,
}

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutationRejection {
    /// Message.
    pub message: String,
    /// True if the cause is the expression (reason `Invalid`), not the matching of the policy.
    pub invalid: bool,
}

/// Lets the policies that match a write change the object.
pub fn mutate(
    active: &Active<Mutations>,
    request: &Request<'_>,
    object: &mut Value,
    types: &dyn ObjectTypes,
    rounds: &mut Reinvocation<Key>,
) -> Outcome {
    rounds.begin(Some(object));
    let mut mutating = Mutating {
        scene: Scene::new(request),
        types,
        object,
        rounds,
        outcome: Outcome::default(),
        patched: false,
    };
    // Policies match the object as it was before any of them changed it.
    let calls = mutating.calls(active);
    for call in calls {
        mutating.carry_out(&call);
        if mutating.outcome.error.is_some() {
            break;
        }
    }
    let Mutating { outcome, patched, .. } = mutating;
    if patched {
        rounds.patched();
    }
    rounds.end(Some(object));
    outcome
}

/// A policy that matches the write, with one binding and one parameter.
struct PolicyCall<'a> {
    policy: &'a Policy<Mutations>,
    binding: &'a Binding,
    invocation: Invocation,
    parameter: Option<Value>,
}

impl PolicyCall<'_> {
    fn key(&self) -> Key {
        let parameter = self.parameter.as_ref().map(|parameter| {
            let text = |field: &str| SmolStr::new(parameter.str_at(&["metadata", field]).unwrap_or_default());
            (text("namespace"), text("name"))
        });
        (self.policy.name.clone(), self.binding.name.clone(), parameter)
    }
}

struct Mutating<'a, 'o> {
    scene: Scene<'a>,
    types: &'a dyn ObjectTypes,
    object: &'o mut Value,
    rounds: &'o mut Reinvocation<Key>,
    outcome: Outcome,
    /// True if any mutation was applied, even without effect on the object.
    patched: bool,
}

impl<'a> Mutating<'a, '_> {
    fn calls<'p>(&mut self, active: &'p Active<Mutations>) -> Vec<PolicyCall<'p>> {
        let mut calls = Vec::new();
        for hook in active.concerning(self.scene.request.resource) {
            self.calls_of(&hook.policy, &hook.bindings, &mut calls);
        }
        calls
    }

    fn calls_of<'p>(
        &mut self,
        policy: &'p Policy<Mutations>,
        bindings: &'p [Arc<Binding>],
        calls: &mut Vec<PolicyCall<'p>>,
    ) {
        let invocation = match policy.constraints.invocation(&self.scene, Some(self.object)) {
            Ok(Some(invocation)) => invocation,
            Ok(None) => return,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        let request: &'a Request<'a> = self.scene.request;
        let resource = match policy.parameter_resource(request.registry) {
            Ok(resource) => resource,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        for binding in bindings {
            match binding.covers(&self.scene, Some(self.object)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            }
            let call = |parameter| PolicyCall {
                policy,
                binding,
                invocation: invocation.clone(),
                parameter,
            };
            let (Some((kind, resource)), Some(reference)) = (resource, &binding.parameters) else {
                calls.push(call(None));
                continue;
            };
            match reference.collect(kind, resource, request) {
                Ok(parameters) => calls.extend(parameters.into_iter().map(|parameter| call(Some(parameter)))),
                Err(why) => self.misconfigured(policy, Some(binding), &why),
            }
        }
    }

    fn misconfigured(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.reject(policy, binding, &format!("failed to configure {what}: {why}"), false);
    }

    fn reject(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str, invalid: bool) {
        if policy.fails_open {
            return;
        }
        let message = match binding {
            Some(binding) => format!(
                "policy '{}' with binding '{}' denied request: {why}",
                policy.name, binding.name
            ),
            None => format!("policy {:?} denied request: {why}", policy.name.as_str()),
        };
        self.outcome.rejections.push(MutationRejection { message, invalid });
    }

    fn carry_out(&mut self, call: &PolicyCall<'_>) {
        let (policy, binding) = (call.policy, call.binding);
        let activation = match self.activation(call) {
            Ok(activation) => activation,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        match policy
            .conditions
            .hold(&policy.name, &activation, &mut self.outcome.conditions)
        {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) if policy.fails_open => return,
            Err(why) => return self.reject(policy, Some(binding), &why, true),
        }
        let key = call.key();
        if !self.rounds.is_due(&key) {
            return;
        }
        let before = self.object.clone();
        for mutation in &policy.body.mutations {
            let begun = Stopwatch::start();
            let outcome = self.change(call, mutation);
            let error = match &outcome {
                Ok(()) => "no_error",
                Err(Trouble::Error(_)) => "invalid_error",
                Err(Trouble::Failed(why)) => sort_of_error(why),
            };
            self.outcome.checks.push(Check {
                policy: policy.name.clone(),
                binding: binding.name.clone(),
                elapsed: begun.elapsed(),
                error,
                action: if outcome.is_ok() { "allow" } else { "deny" },
            });
            match outcome {
                Ok(()) => self.patched = true,
                Err(Trouble::Error(error)) => {
                    self.outcome.error = Some(error);
                    return;
                }
                Err(Trouble::Failed(why)) => self.reject(policy, Some(binding), &why, true),
            }
        }
        let changed = before != *self.object;
        self.outcome.changed |= changed;
        self.rounds.invoked(key, changed, policy.body.reinvoked);
    }

    fn activation(&self, call: &PolicyCall<'_>) -> Result<Activation, String> {
        let policy = call.policy;
        let mut activation = self.scene.activation(
            &policy.blank,
            policy.needs,
            &call.invocation,
            Some(self.object),
            call.parameter.as_ref(),
        )?;
        policy.variables.bind(&mut activation);
        Ok(activation)
    }

    /// Applies a mutation to the object, including the changes of earlier mutations.
    fn change(&mut self, call: &PolicyCall<'_>, mutation: &Mutation) -> Result<(), Trouble> {
        let activation = self.activation(call)?;
        let value = mutation
            .expression
            .evaluate(&activation, &mut Budget::default())
            .map_err(Failure::message)?;
        let kind = &call.invocation.kind;
        let resource = self.scene.request.resource;
        let own = SmolStr::new(self.object.str_at(&["apiVersion"]).unwrap_or_default());
        let object = in_version(resource, self.object, &kind.group_version)?;
        let patched = match mutation.patch_type {
            PatchType::Apply => {
                let configuration = configuration(&value, &object)?;
                let merged = self.types.merge(kind, &object, configuration);
                merged.map_err(|why| format!("error applying patch: {why}"))?
            }
            PatchType::Json => {
                let operations = operations(&value)?;
                let patch = json_patch::Patch::from_value(&operations).map_err(|error| error.to_string())?;
                match patch.apply(&object, &json_patch::Bounds::default()) {
                    Ok(patched) => patched,
                    Err(ValueError::PatchOperation { message, .. }) if is_failed_test(&message) => return Ok(()),
                    Err(error) => return Err(Trouble::Failed(format!("JSON Patch: {error}"))),
                }
            }
        };
        let conforming = self.types.conform(kind, patched).map_err(Trouble::Error)?;
        let version = holdfast_schema::GroupVersion::parse(&own);
        *self.object = match version {
            Some(version) => in_version(resource, &conforming, &version)?,
            None => conforming,
        };
        Ok(())
    }
}

/// Error of a mutation.
enum Trouble {
    /// The policy failed.
    Failed(String),
    /// The result is not an object of the kind.
    Error(MutationError),
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Returns true if an operation of a patch failed because it was a test: then the patch is not for this object.
fn is_failed_test(message: &str) -> bool {
    message.starts_with("testing value ") && message.ends_with(": test failed")
}

/// Returns the operations of a list of `JSONPatch{}` values.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch#jsonPatcher.evaluatePatchExpression
fn operations(value: &CelValue) -> Result<Value, Trouble> {
    let CelValue::List(ListValue::Built(items)) = value else {
        let why = "type mismatch: JSONPatchType.expression should evaluate to array";
        return Err(why.to_owned().into());
    };
    for item in items.iter() {
        if let CelValue::Struct(operation) = item
            && let Some(CelValue::Struct(object)) = operation.fields.get("value")
        {
            check_names(object)?;
        }
    }
    let operations = value.to_value(&mut Growth::default());
    operations.map(with_op_and_path).map_err(|error| match error {
        EvaluationError::TooLarge(error) => Trouble::Error(error.into()),
        error => format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}").into(),
    })
}

/// Adds an empty kind and an empty path to operations that lack them.
fn with_op_and_path(operations: Value) -> Value {
    let Value::List(operations) = operations else {
        return operations;
    };
    let complete = |operation: &Value| {
        let mut operation = operation.clone();
        for field in ["op", "path"] {
            if operation.get(field).is_none() {
                operation.set_at(&[field], "".into());
            }
        }
        operation
    };
    operations.iter().map(complete).collect::<Vec<_>>().into()
}

/// Returns the apply configuration of an `Object{}` value for `object`.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch#applyConfigPatcher.Patch
fn configuration(value: &CelValue, object: &Value) -> Result<Value, Trouble> {
    let CelValue::Struct(made) = value else {
        let found = value.type_name();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}").into());
    };
    check_names(made)?;
    let evaluated = value.to_value(&mut Growth::default()).map_err(|error| match error {
        EvaluationError::TooLarge(error) => Trouble::Error(error.into()),
        error => error.to_string().into(),
    })?;
    let mut configuration = without_nulls(evaluated).unwrap_or_else(Value::empty_map);
    for field in ["apiVersion", "kind"] {
        if let Some(of) = object.get(field) {
            configuration.set_at(&[field], of.clone());
        }
    }
    Ok(configuration)
}

/// Removes the fields that are `null` from a configuration: they have no effect and remove nothing. `None` if nothing
/// is left.
fn without_nulls(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Map(map) if !map.is_empty() => {
            let entries = map.into_entries().into_iter();
            let said: Vec<(SmolStr, Value)> = entries
                .filter_map(|(name, value)| Some((name, without_nulls(value)?)))
                .collect();
            (!said.is_empty()).then(|| Value::Map(Map::from_sorted(said)))
        }
        other => Some(other),
    }
}

/// Checks the type names in an object, which are field paths: `Object.spec{}` is only valid at `spec`.
///
/// upstream: k8s.io/apiserver/pkg/cel/mutation/dynamic#ObjectVal.CheckTypeNamesMatchFieldPathNames
fn check_names(object: &StructValue) -> Result<(), String> {
    let mut errors = Vec::new();
    let mut place = vec![object.type_name.clone()];
    check_fields(object, &mut place, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("type mismatch: {}", errors.join("\n")))
}

/// upstream: k8s.io/apiserver/pkg/cel/mutation/dynamic#ObjectVal.CheckTypeNamesMatchFieldPathNames
fn check_fields(object: &StructValue, place: &mut Vec<SmolStr>, errors: &mut Vec<String>) {
    for (name, value) in &object.fields {
        place.push(name.clone());
        check_value(value, place, errors);
        place.pop();
    }
}

/// upstream: k8s.io/apiserver/pkg/cel/mutation/dynamic#typeCheck
fn check_value(value: &CelValue, place: &mut Vec<SmolStr>, errors: &mut Vec<String>) {
    match value {
        CelValue::Struct(object) => {
            let expected = place.join(".");
            if object.type_name != expected {
                errors.push(format!(
                    "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
                    object.type_name.as_str()
                ));
            }
            check_fields(object, place, errors);
        }
        CelValue::List(ListValue::Built(items)) => {
            items.iter().for_each(|item| check_value(item, place, errors));
        }
        CelValue::Map(MapValue::Built(entries)) => {
            entries.values().for_each(|entry| check_value(entry, place, errors));
        }
        CelValue::Optional(Some(inner)) => check_value(inner, place, errors),
        _ => {}
    }
}
