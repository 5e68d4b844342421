//! Admission policies, compiled and ready to be evaluated
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/>,
//! <https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/>).
//!
//! [`Policies`] follows the stored policies and bindings by
//! [`Followed`](holdfast_resource::Followed): a policy is compiled once when its spec changes, and a write
//! takes what there is then with one atomic load. An index by the names of resources says which policies may concern a
//! write, so that one that none concerns costs one look into a table.
//!
//! [`environment`] says what expressions may name, [`request`] what a write shows them, [`constraints`] which writes a policy
//! sees, [`parameters`] what its `params` are. [`validating`] and [`mutating`] evaluate the policies of a write in turn.

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

use holdfast_cel::{Activation, Composition, PatternMemory};
use holdfast_resource::{Field, Registry, Resource};
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
    /// Those that may refuse writes.
    pub validating: Followed<Validations>,
    /// Those that may change objects.
    pub mutating: Followed<Mutations>,
}

impl Policies {
    /// None yet; their regular expressions are compiled into `patterns`.
    pub fn new(patterns: &PatternMemory) -> Self {
        Self {
            validating: Followed::new(patterns.clone()),
            mutating: Followed::new(patterns.clone()),
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("validating", &self.validating.now().len())
            .field("mutating", &self.mutating.now().len())
            .finish()
    }
}

/// A compiled policy, with `B` as what it does.
#[derive(Debug)]
pub struct Policy<B> {
    /// The name.
    pub name: SmolStr,
    constraints: Constraints,
    parameters: Option<ParameterKind>,
    conditions: Conditions,
    variables: Composition,
    /// What expressions are evaluated with, with nothing set yet.
    blank: Activation,
    needs: Needs,
    fails_open: bool,
    body: B,
}

/// Which variables that cost something to make any expression of a policy names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) request: bool,
    pub(crate) namespace: bool,
    pub(crate) authorizer: bool,
}

/// What a policy does, beside what all policies have.
pub trait Body: Sized + Send + Sync + 'static {
    /// Compiles it from the spec of a policy.
    fn compile(spec: &Field<'_, '_>, compiler: &mut Compiler) -> Self;
}

impl<B: Body> Policy<B> {
    /// Compiles a policy, which was validated, and its regular expressions into `patterns`. What does not compile after all
    /// fails when it is evaluated.
    pub fn of(name: &str, spec: &Field<'_, '_>, patterns: &PatternMemory) -> Self {
        let mut compiler = Compiler::of(spec, patterns);
        compiler.add_variables(&spec.child("variables"));
        let conditions = Conditions::compile(&spec.child("matchConditions"), &mut compiler);
        let body = B::compile(spec, &mut compiler);
        let (blank, variables, needs) = compiler.finish();
        let kind = spec.child("paramKind");
        Self {
            name: name.into(),
            constraints: Constraints::of(&spec.child("matchConstraints")),
            parameters: kind.is_set().then(|| ParameterKind::of(&kind)),
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
    /// The kind of the parameters and its resource, where the policy has parameters.
    ///
    /// # Errors
    /// That the kind is not served.
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
    /// The name.
    pub name: SmolStr,
    policy: SmolStr,
    constraints: Option<Constraints>,
    parameters: Option<ParameterReference>,
    actions: Vec<Action>,
}

/// The actions of a binding for a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The write is refused.
    Deny,
    /// The client is warned.
    Warn,
    /// The failure is added to the audit event.
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
    /// Whether the binding itself covers a write that leaves `object`.
    ///
    /// # Errors
    /// Why the constraints cannot be evaluated.
    fn covers(&self, scene: &Scene<'_>, object: Option<&Value>) -> Result<bool, String> {
        let Some(constraints) = &self.constraints else {
            return Ok(true);
        };
        Ok(constraints.invocation(scene, object)?.is_some())
    }

    /// Reads the spec of a binding, which was validated.
    pub fn of(name: &str, spec: &Field<'_, '_>) -> Self {
        let (constraints, parameters) = (spec.child("matchResources"), spec.child("paramRef"));
        let actions = spec.child("validationActions");
        Self {
            name: name.into(),
            policy: spec.child("policyName").text().into(),
            constraints: constraints.is_set().then(|| Constraints::of(&constraints)),
            parameters: parameters.is_set().then(|| ParameterReference::of(&parameters)),
            actions: actions
                .items()
                .filter_map(|action| Action::named(action.text()))
                .collect(),
        }
    }
}

/// The outcome of one expression of a policy, to be counted.
#[derive(Clone, Debug)]
pub struct Check {
    /// The name of the policy.
    pub policy: SmolStr,
    /// The name of the binding.
    pub binding: SmolStr,
    /// How long the expression ran.
    pub elapsed: Duration,
    /// What went wrong with the expression itself: `no_error`, `compile_error`, `out_of_budget` or `invalid_error`.
    pub error: &'static str,
    /// What came of it: `allow`, `deny`, `warn` or `audit`.
    pub action: &'static str,
}

/// The class of an error by its words, as the reference counts it.
fn sort_of_error(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with(expression::OUT_OF_BUDGET) {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}
