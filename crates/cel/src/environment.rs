//! What an expression may name: variables and their types.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::checker::check;
use crate::declaration::DeclType;
use crate::error::CompileError;
use crate::library::regex::RegexCache;
use crate::parser::{Dialect, parse};
use crate::program::{Program, plan};
use crate::regexp::PatternMemory;
use crate::source::describe;
use crate::types::Type;

/// A variable.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: SmolStr,
    pub(crate) ty: Type,
    pub(crate) decl: Option<Arc<DeclType>>,
}

/// What expressions may name, with the libraries of Kubernetes 1.36. Cheap to clone; variables are numbered in the order
/// in which they are added, and an [`Activation`](crate::Activation) gives them values.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, DeclField, DeclType, Environment, Type};
/// use holdfast_value::{Limits, json};
/// use std::sync::Arc;
///
/// // The schema of an object with two integers, one of which is named by a word of the language.
/// let schema = Arc::new(DeclType::object(
///     [
///         DeclField::new("replicas", DeclType::int(), true),
///         DeclField::new("namespace", DeclType::string(Some(63)), false),
///     ]
///     .into_iter()
///     .flatten(),
/// ));
/// let environment = Environment::new().with_object("self", schema.clone());
///
/// let rule = environment.compile("self.replicas <= 5 || self.__namespace__ == 'big'", &[Type::Bool])?;
/// assert!(rule.estimate_cost().max < 1_000);
///
/// let object = json::parse(br#"{"replicas": 7, "namespace": "big"}"#, &Limits::default())?;
/// let activation = Activation::new(&environment).with("self", CelValue::typed(&object, &schema)?);
/// let answer = rule.evaluate(&activation, &mut Budget::default())?;
/// assert_eq!(answer.as_bool(), Some(true));
///
/// let refused = environment.compile("self.replica <= 5", &[Type::Bool]);
/// assert!(refused.is_err_and(|error| error.to_string().contains("undefined field 'replica'")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub(crate) variables: Vec<Variable>,
    pub(crate) regexes: Arc<RegexCache>,
    /// Whether `JSONPatch`, `Object` and the functions for them are there.
    pub(crate) mutation: bool,
    bindings: bool,
}

impl Environment {
    /// No variables, all libraries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the variable `name` of type `ty`. A variable of that name that is there gets the new type.
    #[must_use]
    pub fn with_variable(self, name: &str, ty: Type) -> Self {
        self.with(name, ty, None)
    }

    /// Adds the variable `name` of values of `decl`. Objects in it are named as the reference names them in errors
    /// (`selfType` and a number, then the path).
    #[must_use]
    pub fn with_object(self, name: &str, decl: Arc<DeclType>) -> Self {
        let ty = Type::declared(&decl, &format!("selfType{}", self.variables.len() + 1));
        self.with(name, ty, Some(decl))
    }

    /// The same, where objects in it are named `type_name` in errors, then by their path.
    #[must_use]
    pub fn with_named_object(self, name: &str, type_name: &str, decl: Arc<DeclType>) -> Self {
        let ty = Type::declared(&decl, type_name);
        self.with(name, ty, Some(decl))
    }

    /// Adds `oldSelf` beside `self`: of the same type, or optional (`optionalOldSelf: true`).
    #[must_use]
    pub fn with_old_self(self, optional: bool) -> Self {
        let Some(own) = self.variables.iter().find(|variable| variable.name == "self").cloned() else {
            return self;
        };
        if optional {
            let ty = Type::optional(own.ty);
            return self.with("oldSelf", ty, own.decl);
        }
        self.with("oldSelf", own.ty, own.decl)
    }

    /// Takes the variable `name` out of reach. Those after it keep their places, so that programs of both environments are
    /// evaluated with one [`Activation`](crate::Activation).
    #[must_use]
    pub fn without_variable(mut self, name: &str) -> Self {
        if let Some(variable) = self.variables.iter_mut().find(|variable| variable.name == name) {
            variable.name = SmolStr::default();
        }
        self
    }

    /// Has regular expressions compiled into `memory` once that pays. Without it they match step by step.
    #[must_use]
    pub fn with_pattern_memory(mut self, memory: &PatternMemory) -> Self {
        self.regexes = Arc::new(RegexCache::sharing(memory.clone()));
        self
    }

    /// Turns on what mutating policies have: `JSONPatch{…}`, `Object{…}` and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.mutation = true;
        self
    }

    /// Turns on `cel.bind`, which device selectors have and rules and policies do not.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    fn with(mut self, name: &str, ty: Type, decl: Option<Arc<DeclType>>) -> Self {
        let variable = Variable {
            name: SmolStr::new(name),
            ty,
            decl,
        };
        match self.variables.iter_mut().find(|other| other.name == name) {
            Some(other) => *other = variable,
            None => self.variables.push(variable),
        }
        self
    }

    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.name == name)
    }

    /// Compiles `expression`, which must have one of the types `expected` (any type will do where there is none).
    ///
    /// # Errors
    /// When it does not parse, does not check, has another type, or has a part that is known ahead and fails.
    pub fn compile(&self, expression: &str, expected: &[Type]) -> Result<Program, CompileError> {
        let issues = |issues| CompileError::Issues(describe(expression, issues));
        let dialect = match self.bindings {
            true => Dialect::WithBindings,
            false => Dialect::Standard,
        };
        let parsed = parse(expression, dialect).map_err(issues)?;
        let checked = check(self, parsed).map_err(issues)?;
        let actual = checked.type_of(checked.root.id);
        if !expected.is_empty() && !expected.contains(&actual) {
            return Err(CompileError::Output {
                expected: expected.to_vec(),
                actual,
            });
        }
        plan(self, checked).map_err(CompileError::Instantiation)
    }
}
