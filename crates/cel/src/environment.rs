//! Variables that an expression may use, and their types.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::declaration::DeclType;
use crate::regex_cache::RegexCache;
use crate::regexp::PatternMemory;
use crate::types::Type;

/// Declared variable.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: SmolStr,
    pub(crate) ty: Type,
    pub(crate) decl: Option<Arc<DeclType>>,
}

/// Variables that expressions may use, with the libraries of Kubernetes 1.36. Cheap to clone. Variables are numbered in
/// the order in which they are added, and an [`Activation`](crate::Activation) sets their values.
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
/// let rejected = environment.compile("self.replica <= 5", &[Type::Bool]);
/// assert!(rejected.is_err_and(|error| error.to_string().contains("undefined field 'replica'")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub(crate) variables: Vec<Variable>,
    pub(crate) regexes: Arc<RegexCache>,
    /// True if `JSONPatch`, `Object` and their functions are available.
    pub(crate) mutation: bool,
    /// True if `cel.bind` is available.
    pub(crate) bindings: bool,
    /// True if fields are found by the names that they escape: `a__dot__b` by `a.b`.
    pub(crate) unescapes_fields: bool,
}

impl Environment {
    /// Creates an environment with all libraries and without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the variable `name` of type `ty`, or changes the type of an existing one.
    #[must_use]
    pub fn with_variable(self, name: &str, ty: Type) -> Self {
        self.with(name, ty, None)
    }

    /// Adds the variable `name` with values of `decl`. Its objects are named in errors as by the reference (`selfType`
    /// and a number, then the path).
    #[must_use]
    pub fn with_object(self, name: &str, decl: Arc<DeclType>) -> Self {
        let ty = Type::declared(&decl, &format!("selfType{}", self.variables.len() + 1));
        self.with(name, ty, Some(decl))
    }

    /// Adds a variable like [`with_object`](Self::with_object), whose objects are named `type_name` in errors, followed
    /// by their path.
    #[must_use]
    pub fn with_named_object(self, name: &str, type_name: &str, decl: Arc<DeclType>) -> Self {
        let ty = Type::declared(&decl, type_name);
        self.with(name, ty, Some(decl))
    }

    /// Adds `oldSelf` with the type of `self`, or an optional of it (`optionalOldSelf: true`).
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

    /// Hides the variable `name`. Later variables keep their slots, so that programs of both environments can be
    /// evaluated with one [`Activation`](crate::Activation).
    #[must_use]
    pub fn without_variable(mut self, name: &str) -> Self {
        if let Some(variable) = self.variables.iter_mut().find(|variable| variable.name == name) {
            variable.name = SmolStr::default();
        }
        self
    }

    /// Enables the compilation of frequent regular expressions, with memory from `memory`. Otherwise they are always
    /// matched step by step.
    #[must_use]
    pub fn with_pattern_memory(mut self, memory: &PatternMemory) -> Self {
        self.regexes = Arc::new(RegexCache::sharing(memory.clone()));
        self
    }

    /// Enables the features of mutating policies: `JSONPatch{…}`, `Object{…}` and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.mutation = true;
        self
    }

    /// Enables `cel.bind`, which device selectors may use, but not rules and policies.
    ///
    /// ```
    /// use holdfast_cel::{Environment, Type};
    ///
    /// let text = "cel.bind(x, 2, x * x) == 4";
    /// assert!(Environment::new().compile(text, &[Type::Bool]).is_err());
    /// assert!(Environment::new().with_bindings().compile(text, &[Type::Bool]).is_ok());
    /// ```
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    /// Finds fields without a declaration by the names that they escape, so that `claims.a__dot__b` is the member `a.b`
    /// of `claims`.
    #[must_use]
    pub fn with_unescaped_fields(mut self) -> Self {
        self.unescapes_fields = true;
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
}
