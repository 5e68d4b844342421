//! The `variables` of a policy: named expressions that may use earlier ones, each evaluated on first use and once per
//! request.

use std::sync::{Arc, Mutex, PoisonError};

use smol_str::SmolStr;

use crate::activation::Activation;
use crate::budget::Budget;
use crate::environment::Environment;
use crate::error::{CompileError, EvaluationError};
use crate::program::Program;
use crate::types::Type;
use crate::value::{CelValue, LazyFields};

/// Compiled variables of a policy.
///
/// ```
/// use holdfast_cel::{CompositionBuilder, Environment, Type};
///
/// let mut builder = CompositionBuilder::new(&Environment::new().with_variable("namespaceObject", Type::Dyn));
/// builder.add("owner", "namespaceObject.metadata.labels.owner")?;
/// let (_, variables) = builder.finish();
/// assert!(variables.uses("namespaceObject") && !variables.uses("object"));
/// # Ok::<(), holdfast_cel::CompileError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Composition {
    programs: Arc<Vec<(SmolStr, Program)>>,
}

/// Compiler of variables in the order of the policy.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CompositionBuilder, Environment, Type};
///
/// let mut builder = CompositionBuilder::new(&Environment::new());
/// builder.add("limit", "2 + 3")?;
/// let (environment, variables) = builder.finish();
/// let program = environment.compile("variables.limit > 4", &[Type::Bool])?;
/// let mut activation = Activation::new(&environment);
/// variables.bind(&mut activation);
/// assert_eq!(program.evaluate(&activation, &mut Budget::default())?.as_bool(), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CompositionBuilder {
    environment: Environment,
    programs: Vec<(SmolStr, Program)>,
    types: Vec<(SmolStr, Type)>,
}

impl CompositionBuilder {
    /// Starts with the variables of `environment` and adds `variables` to it.
    pub fn new(environment: &Environment) -> Self {
        Self {
            environment: environment.clone().with_variable("variables", variables_type(&[])),
            programs: Vec::new(),
            types: Vec::new(),
        }
    }

    /// Adds `variables.name`.
    ///
    /// # Errors
    /// Fails if the expression does not compile. For later expressions the variable then has any type, so that they
    /// cause no further errors.
    pub fn add(&mut self, name: &str, expression: &str) -> Result<(), CompileError> {
        let compiled = self.environment.compile(expression, &[]);
        let ty = compiled
            .as_ref()
            .map_or(Type::Dyn, |program| program.output_type().clone());
        self.types.push((SmolStr::new(name), ty));
        let environment = std::mem::take(&mut self.environment);
        self.environment = environment.with_variable("variables", variables_type(&self.types));
        self.programs.push((SmolStr::new(name), compiled?));
        Ok(())
    }

    /// Returns the environment for the expressions of the policy, and the variables for their evaluation.
    pub fn finish(self) -> (Environment, Composition) {
        let composition = Composition {
            programs: Arc::new(self.programs),
        };
        (self.environment, composition)
    }
}

fn variables_type(types: &[(SmolStr, Type)]) -> Type {
    Type::object("kubernetes.variables", types.iter().cloned())
}

impl Composition {
    /// True if one of the variables uses the variable `name`.
    pub fn uses(&self, name: &str) -> bool {
        self.programs.iter().any(|(_, program)| program.uses(name))
    }

    /// Adds `variables` to `activation`: each is evaluated with the values that are set there.
    pub fn bind(&self, activation: &mut Activation) {
        let lazy = Lazy {
            composition: self.clone(),
            activation: activation.clone(),
            values: self.programs.iter().map(|_| Mutex::new(None)).collect(),
            lengths: self.programs.len(),
        };
        activation.set("variables", CelValue::Lazy(Arc::new(lazy)));
    }
}

/// Cached value of a variable, once it was read.
type CachedValue = Mutex<Option<Result<CelValue, EvaluationError>>>;

#[derive(Debug)]
struct Lazy {
    composition: Composition,
    /// Values without `variables`, which would contain itself.
    activation: Activation,
    values: Arc<[CachedValue]>,
    /// Number of visible variables: those before the one under evaluation.
    lengths: usize,
}

impl LazyFields for Lazy {
    #[expect(
        clippy::indexing_slicing,
        reason = "there are as many values as programs, and callers look up the index of a program"
    )]
    fn field(&self, name: &str, budget: &mut Budget<'_>) -> Option<Result<CelValue, EvaluationError>> {
        let programs = &self.composition.programs[..self.lengths];
        let at = programs.iter().position(|(other, _)| other == name)?;
        let kept = |value: &CachedValue| value.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = kept(&self.values[at]) {
            return Some(known);
        }
        let mut activation = self.activation.clone();
        let before = Lazy {
            composition: self.composition.clone(),
            activation: self.activation.clone(),
            values: self.values.clone(),
            lengths: at,
        };
        activation.set("variables", CelValue::Lazy(Arc::new(before)));
        let program = &programs[at].1;
        let evaluated = if budget.enter(program.depth()) {
            program.evaluate(&activation, budget)
        } else {
            Err(EvaluationError::failed("variables are nested too deeply"))
        };
        budget.leave(program.depth());
        let outcome = evaluated.map_err(|error| {
            if error.stops() {
                return error;
            }
            EvaluationError::failed(format!("composited variable \"{name}\" fails to evaluate: {error}"))
        });
        *self.values[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.clone());
        Some(outcome)
    }
}
