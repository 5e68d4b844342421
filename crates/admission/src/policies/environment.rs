//! Variables of the expressions of policies and match conditions
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#validation-expression>).

use std::sync::LazyLock;

use holdfast_cel::{
    Activation, CompileError, Composition, CompositionBuilder, Environment, PatternMemory, Program, Type,
};
use holdfast_schema::Field;
use holdfast_value::SmolStr;

use super::Needs;
use super::expression::Expression;

/// The new object; `null` for deletions.
pub const OBJECT: &str = "object";
/// The old object; `null` for creations.
pub const OLD_OBJECT: &str = "oldObject";
/// The namespace of the object; `null` for cluster-scoped resources.
pub const NAMESPACE_OBJECT: &str = "namespaceObject";
/// Attributes of the request.
pub const REQUEST: &str = "request";
/// The parameter of the policy.
pub const PARAMS: &str = "params";
/// Authorization checks for the user.
pub const AUTHORIZER: &str = "authorizer";
/// Authorization checks for the user and the resource of the request.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// Variables of match conditions of webhooks, and of policies without parameters.
static WITHOUT_PARAMETERS: LazyLock<Environment> = LazyLock::new(|| environment(false));
static WITH_PARAMETERS: LazyLock<Environment> = LazyLock::new(|| environment(true));

fn environment(parameters: bool) -> Environment {
    let environment = Environment::new()
        .with_variable(OBJECT, Type::Dyn)
        .with_variable(OLD_OBJECT, Type::Dyn)
        .with_variable(NAMESPACE_OBJECT, namespace())
        .with_variable(REQUEST, request());
    let environment = if parameters {
        environment.with_variable(PARAMS, Type::Dyn)
    } else {
        environment
    };
    environment
        .with_variable(AUTHORIZER, Type::authorizer())
        .with_variable(REQUEST_RESOURCE, Type::resource_check())
}

fn object(name: &str, fields: &[(&'static str, Type)]) -> Type {
    let fields = fields.iter().cloned();
    Type::object(name, fields.map(|(name, ty)| (SmolStr::new_static(name), ty)))
}

/// Returns the type of `request`: an AdmissionRequest without its objects.
pub fn request() -> Type {
    let texts = || Type::list(Type::String);
    let kind = || {
        let fields = ["group", "version", "kind"].map(|name| (name, Type::String));
        object("kubernetes.GroupVersionKind", &fields)
    };
    let resource = || {
        let fields = ["group", "version", "resource"].map(|name| (name, Type::String));
        object("kubernetes.GroupVersionResource", &fields)
    };
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", Type::String),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

/// Returns the type of `namespaceObject`: the fields of a namespace that the reference exposes.
pub fn namespace() -> Type {
    let texts = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", texts()),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let status = [("conditions", Type::list(condition)), ("phase", Type::String)];
    object(
        "kubernetes.Namespace",
        &[
            ("metadata", metadata),
            ("spec", object("kubernetes.NamespaceSpec", &[("finalizers", texts())])),
            ("status", object("kubernetes.NamespaceStatus", &status)),
        ],
    )
}

/// Compiles the expressions of one policy, so that all are evaluated with one [`Activation`].
#[derive(Debug)]
pub struct Compiler {
    /// Environment without `variables`, which match conditions cannot use.
    plain: Environment,
    composed: Environment,
    composition: Composition,
    /// True if the policy declares variables.
    has_variables: bool,
    needs: Needs,
}

impl Compiler {
    /// Creates a compiler for a policy of this spec, without its variables. Regular expressions are compiled into
    /// `patterns`.
    pub fn for_policy(spec: &Field<'_, '_>, patterns: &PatternMemory) -> Self {
        let base: &Environment = match spec.child("paramKind").is_set() {
            true => &WITH_PARAMETERS,
            false => &WITHOUT_PARAMETERS,
        };
        let environment = base.clone().with_pattern_memory(patterns);
        Self {
            plain: environment.clone(),
            composed: environment,
            composition: Composition::default(),
            has_variables: false,
            needs: Needs::default(),
        }
    }

    /// Adds the `variables` of this list. Returns the error of each that does not compile. Variables without an
    /// expression are skipped.
    pub fn add_variables(&mut self, variables: &Field<'_, '_>) -> Vec<(usize, CompileError)> {
        if variables.is_empty() {
            return Vec::new();
        }
        self.has_variables = true;
        let mut builder = CompositionBuilder::new(&self.plain);
        let mut errors = Vec::new();
        for (at, variable) in variables.items().enumerate() {
            let (name, expression) = (variable.child("name"), variable.child("expression"));
            if expression.text().trim().is_empty() {
                continue;
            }
            if let Err(error) = builder.add(name.text(), expression.text()) {
                errors.push((at, error));
            }
        }
        (self.composed, self.composition) = builder.finish();
        for name in [REQUEST, NAMESPACE_OBJECT, AUTHORIZER, REQUEST_RESOURCE] {
            if self.composition.uses(name) {
                self.note(name);
            }
        }
        errors
    }

    /// Compiles a match condition.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn condition(&mut self, text: &str) -> Result<Program, CompileError> {
        let program = self.plain.compile(text, &[Type::Bool])?;
        Ok(self.noted(program))
    }

    /// Compiles an expression that can use all variables.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn expression(&mut self, text: &str, expected: &[Type]) -> Result<Program, CompileError> {
        let program = self.composed.compile(text, expected)?;
        Ok(self.noted(program))
    }

    /// Compiles a message expression, which cannot use the authorizer.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn message(&mut self, text: &str) -> Result<Program, CompileError> {
        let environment = self
            .composed
            .clone()
            .without_variable(AUTHORIZER)
            .without_variable(REQUEST_RESOURCE);
        let program = environment.compile(text, &[Type::String])?;
        Ok(self.noted(program))
    }

    /// Compiles an expression that creates a patch.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn mutation(&mut self, text: &str, expected: &[Type]) -> Result<Program, CompileError> {
        let compiled = self.composed.clone().with_mutation().compile(text, expected);
        let program = compiled.map_err(|error| self.error_with_variables(text, expected).unwrap_or(error))?;
        Ok(self.noted(program))
    }

    /// Returns the compile error of an expression that creates a patch with `variables` declared: it can use them even
    /// if the policy declares none.
    fn error_with_variables(&self, text: &str, expected: &[Type]) -> Option<CompileError> {
        if self.has_variables {
            return None;
        }
        let (declared, _) = CompositionBuilder::new(&self.composed).finish();
        declared.with_mutation().compile(text, expected).err()
    }

    /// Returns the evaluation context of the expressions: the empty activation, the variables, and the values that must
    /// be set.
    pub(super) fn finish(self) -> (Activation, Composition, Needs) {
        (Activation::new(&self.composed), self.composition, self.needs)
    }

    fn noted(&mut self, program: Program) -> Program {
        for name in [REQUEST, NAMESPACE_OBJECT, AUTHORIZER, REQUEST_RESOURCE] {
            if program.uses(name) {
                self.note(name);
            }
        }
        program
    }

    fn note(&mut self, name: &str) {
        match name {
            REQUEST => self.needs.request = true,
            NAMESPACE_OBJECT => self.needs.namespace = true,
            _ => self.needs.authorizer = true,
        }
    }
}

/// Creates an expression from its text and the result of its compilation.
pub(super) fn compiled(text: &str, program: Result<Program, CompileError>) -> Expression {
    Expression::new(text, program)
}
