//! Input of an evaluation: values of the variables, and a budget.

use std::sync::atomic::{AtomicBool, Ordering};

use smol_str::SmolStr;

use crate::environment::Environment;
use crate::limits::{PER_CALL, PER_REQUEST};
use crate::value::CelValue;

/// Values of the variables of an [`Environment`], for programs of that environment, or of one derived from it by adding
/// variables at the end.
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

/// Maximum depth of the trees of nested variables, all together.
const MAX_NESTED: u16 = 400;

/// Cost limits of evaluations: for each one, and for all that share the budget.
///
/// ```
/// use holdfast_cel::{Activation, Budget, Environment, EvaluationError, Type};
///
/// let environment = Environment::new();
/// let program = environment.compile("[1, 2, 3].all(x, x > 0)", &[Type::Bool])?;
/// let outcome = program.evaluate(&Activation::new(&environment), &mut Budget::new(5, 100));
/// assert!(matches!(outcome, Err(EvaluationError::CostLimitExceeded)));
/// # Ok::<(), holdfast_cel::CompileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budget<'a> {
    per_call: u64,
    remaining: u64,
    exhausted: bool,
    /// Depth of the evaluations that wait for the current one.
    depth: u16,
    interrupt: Option<&'a AtomicBool>,
}

impl Default for Budget<'_> {
    /// Returns the reference's limits for the rules of one request.
    fn default() -> Self {
        Self::new(PER_CALL, PER_REQUEST)
    }
}

impl<'a> Budget<'a> {
    /// Creates a budget of `per_call` for one evaluation and `total` for all.
    pub fn new(per_call: u64, total: u64) -> Self {
        Self {
            per_call,
            remaining: total,
            exhausted: false,
            depth: 0,
            interrupt: None,
        }
    }

    /// Stops evaluations soon after `flag` is set.
    #[must_use]
    pub fn interrupted_by(mut self, flag: &'a AtomicBool) -> Self {
        self.interrupt = Some(flag);
        self
    }

    /// Returns the remaining total budget.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// True if evaluations have exceeded the total budget.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub(crate) fn per_call(&self) -> u64 {
        self.per_call
    }

    pub(crate) fn spend(&mut self, cost: u64) {
        self.exhausted |= cost > self.remaining;
        self.remaining = self.remaining.saturating_sub(cost);
    }

    /// Reserves stack for a nested evaluation; returns false if there is too little.
    pub(crate) fn enter(&mut self, depth: u16) -> bool {
        self.depth = self.depth.saturating_add(depth);
        self.depth <= MAX_NESTED
    }

    /// Releases the stack that [`enter`](Self::enter) reserved.
    pub(crate) fn leave(&mut self, depth: u16) {
        self.depth = self.depth.saturating_sub(depth);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
