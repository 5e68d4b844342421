//! Admission policies, compiled and ready to be evaluated
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/>,
//! <https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/>).
//!
//! [`Policies`] watches the stored policies and bindings through [`Followed`](holdfast_resource::Followed): a policy is
//! compiled once when its spec changes, and a write gets the current policies with one atomic load. An index by
//! resource name selects the policies that may match a write, so that a write that no policy matches costs one table
//! lookup.
//!
//! [`environment`] declares the variables of expressions, [`request`] provides their values for a write,
//! [`constraints`] matches writes, and [`parameters`] finds the `params`. [`validating`] and [`mutating`] evaluate the
//! policies of a write one after the other.

pub mod authorizer;
pub mod conditions;
pub mod constraints;
pub mod environment;
pub mod expression;
mod followed;
pub mod mutating;
pub mod parameters;
pub mod reinvocation;
pub mod request;
#[cfg(test)]
mod tests;
pub mod type_checking;
pub mod validating;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use holdfast_cel::{Activation, Composition, PatternMemory};
use holdfast_resource::{Registry, Resource};
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value};

use conditions::Conditions;
use constraints::Constraints;
use environment::Compiler;
pub use followed::{Active, Followed, Hook};
use mutating::Mutations;
use parameters::{ParameterKind, ParameterReference};
use request::Scene;
use validating::Validations;

/// All admission policies with their bindings.
#[derive(Default)]
pub struct Policies {
    /// Policies that may reject writes.
    pub validating: Followed<Validations>,
    /// Policies that may change objects.
    pub mutating: Followed<Mutations>,
}

impl Policies {
    /// Creates an empty set; the regular expressions of policies are compiled into `patterns`.
    pub fn new(patterns: &PatternMemory) -> Self {
        Self {
            validating: Followed::new(patterns.clone()),
            mutating: Followed::new(patterns.clone()),
        }
    }
}

impl Policies {
    /// Returns the active policies.
    pub fn now(&self) -> CurrentPolicies {
        CurrentPolicies {
            validating: self.validating.now(),
            mutating: self.mutating.now(),
        }
    }
}

/// The policies that are active at one time.
pub struct CurrentPolicies {
    /// Policies that may reject writes.
    pub validating: Guard<Arc<Active<Validations>>>,
    /// Policies that may change objects.
    pub mutating: Guard<Arc<Active<Mutations>>>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("validating", &self.validating.now().len())
            .field("mutating", &self.mutating.now().len())
            .finish()
    }
}

/// A compiled policy with the body `B`.
#[derive(Debug)]
pub struct Policy<B> {
    /// Name.
    pub name: SmolStr,
    constraints: Constraints,
    parameters: Option<ParameterKind>,
    conditions: Conditions,
    variables: Composition,
    /// Empty activation for the expressions.
    blank: Activation,
    needs: Needs,
    fails_open: bool,
    body: B,
}

/// Costly variables that the expressions of a policy use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) request: bool,
    pub(crate) namespace: bool,
    pub(crate) authorizer: bool,
}

/// The part of a policy that is specific to its kind.
pub trait Body: Sized + Send + Sync + 'static {
    /// Compiles it from the spec of a policy.
    fn compile(spec: &Field<'_, '_>, compiler: &mut Compiler) -> Self;
}

impl<B: Body> Policy<B> {
    /// Compiles a validated policy, and its regular expressions into `patterns`. An expression that does not compile
    /// after all fails when it is evaluated.
    pub fn new(name: &str, spec: &Field<'_, '_>, patterns: &PatternMemory) -> Self {
        let mut compiler = Compiler::for_policy(spec, patterns);
        compiler.add_variables(&spec.child("variables"));
        let conditions = Conditions::compile(&spec.child("matchConditions"), &mut compiler);
        let body = B::compile(spec, &mut compiler);
        let (blank, variables, needs) = compiler.finish();
        let kind = spec.child("paramKind");
        Self {
            name: name.into(),
            constraints: Constraints::from_field(&spec.child("matchConstraints")),
            parameters: kind.is_set().then(|| ParameterKind::from_field(&kind)),
            conditions,
            variables,
            blank,
            needs,
            fails_open: spec.child("failurePolicy").text() == "Ignore",
            body,
        }
    }
}

impl<B> Policy<B> {
    /// Returns the kind of the parameters and its resource, if the policy has parameters.
    ///
    /// # Errors
    /// If the kind is not served.
    fn parameter_resource<'p>(
        &'p self,
        registry: &'p Registry,
    ) -> Result<Option<(&'p ParameterKind, &'p Arc<Resource>)>, String> {
        let kind = self.parameters.as_ref();
        kind.map(|kind| Ok((kind, kind.resource(registry)?))).transpose()
    }
}

/// A binding of a policy to resources and parameters.
#[derive(Debug)]
pub struct Binding {
    /// Name.
    pub name: SmolStr,
    policy: SmolStr,
    constraints: Option<Constraints>,
    parameters: Option<ParameterReference>,
    actions: Vec<Action>,
}

/// Action of a binding for a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reject the write.
    Deny,
    /// Warn the client.
    Warn,
    /// Add the failure to the audit event.
    Audit,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "Deny" => Some(Self::Deny),
            "Warn" => Some(Self::Warn),
            "Audit" => Some(Self::Audit),
            _ => None,
        }
    }
}

impl Binding {
    /// Returns true if the binding itself matches a write that results in `object`.
    ///
    /// # Errors
    /// If the constraints cannot be evaluated.
    fn covers(&self, scene: &Scene<'_>, object: Option<&Value>) -> Result<bool, String> {
        let Some(constraints) = &self.constraints else {
            return Ok(true);
        };
        Ok(constraints.invocation(scene, object)?.is_some())
    }

    /// Reads the spec of a binding, which was validated.
    pub fn from_spec(name: &str, spec: &Field<'_, '_>) -> Self {
        let (constraints, parameters) = (spec.child("matchResources"), spec.child("paramRef"));
        let actions = spec.child("validationActions");
        Self {
            name: name.into(),
            policy: spec.child("policyName").text().into(),
            constraints: constraints.is_set().then(|| Constraints::from_field(&constraints)),
            parameters: parameters.is_set().then(|| ParameterReference::from_field(&parameters)),
            actions: actions
                .items()
                .filter_map(|action| Action::named(action.text()))
                .collect(),
        }
    }
}

/// Result of one expression of a policy, for metrics.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name of the policy.
    pub policy: SmolStr,
    /// Name of the binding.
    pub binding: SmolStr,
    /// Duration of the evaluation.
    pub elapsed: Duration,
    /// Error of the expression itself: `no_error`, `compile_error`, `out_of_budget` or `invalid_error`.
    pub error: &'static str,
    /// Resulting action: `allow`, `deny`, `warn` or `audit`.
    pub action: &'static str,
}

/// Returns the class of an error by its message, as the reference counts it.
fn sort_of_error(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with(expression::OUT_OF_BUDGET) {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}
