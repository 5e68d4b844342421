//! Input of an evaluation: values of the variables.

use smol_str::SmolStr;

use crate::environment::Environment;
use crate::value::CelValue;

/// Values of the variables of an [`Environment`], for programs of that environment, or of one derived from it by adding
/// variables at the end.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, EvaluationError, Type};
///
/// let environment = Environment::new().with_variable("count", Type::Int);
/// let program = environment.compile("count > 2", &[Type::Bool])?;
/// let activation = Activation::new(&environment).with("count", CelValue::Int(3));
/// assert_eq!(program.evaluate(&activation, &mut Budget::default())?.as_bool(), Some(true));
///
/// let unset = program.evaluate(&Activation::new(&environment), &mut Budget::default());
/// assert!(matches!(unset, Err(EvaluationError::NoSuchAttribute(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Activation {
    names: Vec<SmolStr>,
    values: Vec<Option<CelValue>>,
}

impl Activation {
    /// Creates an activation in which no variable is set.
    pub fn new(environment: &Environment) -> Self {
        Self {
            names: environment
                .variables
                .iter()
                .map(|variable| variable.name.clone())
                .collect(),
            values: vec![None; environment.variables.len()],
        }
    }

    /// Sets the variable `name`; ignores a name that the environment does not have.
    #[must_use]
    pub fn with(mut self, name: &str, value: CelValue) -> Self {
        self.set(name, value);
        self
    }

    /// Sets the variable `name`; ignores a name that the environment does not have.
    #[expect(
        clippy::indexing_slicing,
        reason = "slots are numbered by the environment, which sizes the values"
    )]
    pub fn set(&mut self, name: &str, value: CelValue) {
        if let Some(slot) = self.names.iter().position(|other| other == name) {
            self.values[slot] = Some(value);
        }
    }

    /// Returns the value of the variable in `slot`, or the name of an unset one.
    pub(crate) fn get(&self, slot: usize) -> Result<&CelValue, &str> {
        let value = self.values.get(slot).and_then(Option::as_ref);
        value.ok_or_else(|| self.names.get(slot).map_or("", SmolStr::as_str))
    }
}
