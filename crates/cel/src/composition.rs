//! The `variables` of a policy: named expressions, each of which may use those before it, evaluated when they are first
//! asked for and once for each request.

use std::sync::{Arc, Mutex, PoisonError};

use smol_str::SmolStr;

use crate::activation::{Activation, Budget};
use crate::environment::Environment;
use crate::error::{CompileError, EvaluationError};
use crate::program::Program;
use crate::types::Type;
use crate::value::{CelValue, LazyFields};

/// The compiled variables of a policy.
#[derive(Debug, Clone, Default)]
pub struct Composition {
    programs: Arc<Vec<(SmolStr, Program)>>,
}

/// Compiles variables in the order in which a policy names them.
#[derive(Debug)]
pub struct CompositionBuilder {
    environment: Environment,
    programs: Vec<(SmolStr, Program)>,
    types: Vec<(SmolStr, Type)>,
}

impl CompositionBuilder {
    /// Begins with the variables that `environment` has; `variables` is added to it.
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
    /// When the expression does not compile. Later expressions then see the variable as of any type, so that they are not
    /// blamed for it.
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

    /// The environment for the expressions of the policy, and the variables to evaluate them with.
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
    /// Whether any of the variables names the variable `name`.
    pub fn uses(&self, name: &str) -> bool {
        self.programs.iter().any(|(_, program)| program.uses(name))
    }

    /// Adds `variables` to `activation`: each is evaluated with what is set there.
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

/// The value of a variable, once it was read.
type Kept = Mutex<Option<Result<CelValue, EvaluationError>>>;

#[derive(Debug)]
struct Lazy {
    composition: Composition,
    /// Without `variables`, which would hold itself.
    activation: Activation,
    values: Arc<[Kept]>,
    /// How many of the variables may be seen: those before the one that asks.
    lengths: usize,
}

impl LazyFields for Lazy {
    #[expect(
        clippy::indexing_slicing,
        reason = "as many values as programs, and callers look up the place of a program"
    )]
    fn field(&self, name: &str, budget: &mut Budget<'_>) -> Option<Result<CelValue, EvaluationError>> {
        let programs = &self.composition.programs[..self.lengths];
        let at = programs.iter().position(|(other, _)| other == name)?;
        let kept = |value: &Kept| value.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
