//! The input of an evaluation: values for the variables, and a budget.

use std::sync::atomic::{AtomicBool, Ordering};

use smol_str::SmolStr;

use crate::environment::Environment;
use crate::limits::{PER_CALL, PER_REQUEST};
use crate::value::CelValue;

/// Values for the variables of an [`Environment`]. Programs of that environment, or of one that was made from it by adding
/// variables at the end, are evaluated with it.
#[derive(Debug, Clone)]
pub struct Activation {
    names: Vec<SmolStr>,
    values: Vec<Option<CelValue>>,
}

impl Activation {
    /// No variable set.
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

    /// Sets the variable `name`; a name that the environment does not have is passed over.
    #[must_use]
    pub fn with(mut self, name: &str, value: CelValue) -> Self {
        self.set(name, value);
        self
    }

    /// Sets the variable `name`; a name that the environment does not have is passed over.
    #[expect(
        clippy::indexing_slicing,
        reason = "slots are numbered by the environment, which sizes the values"
    )]
    pub fn set(&mut self, name: &str, value: CelValue) {
        if let Some(slot) = self.names.iter().position(|other| other == name) {
            self.values[slot] = Some(value);
        }
    }

    /// The value of the variable in `slot`, or the name of the one that is not set.
    pub(crate) fn get(&self, slot: usize) -> Result<&CelValue, &str> {
        let value = self.values.get(slot).and_then(Option::as_ref);
        value.ok_or_else(|| self.names.get(slot).map_or("", SmolStr::as_str))
    }
}

/// How deep the trees of variables that use one another may be, all together.
const MAX_NESTED: u16 = 400;

/// What evaluations may cost: each by itself, and all that share the budget together.
#[derive(Debug, Clone)]
pub struct Budget<'a> {
    per_call: u64,
    remaining: u64,
    exhausted: bool,
    /// The depth of the evaluations that wait for the one that runs.
    depth: u16,
    interrupt: Option<&'a AtomicBool>,
}

impl Default for Budget<'_> {
    /// The limits of the reference for the rules of one request.
    fn default() -> Self {
        Self::new(PER_CALL, PER_REQUEST)
    }
}

impl<'a> Budget<'a> {
    /// At most `per_call` for one evaluation and `total` for all.
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

    /// What is left for further evaluations.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether evaluations have cost more than all together may.
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

    /// Makes room on the stack for an evaluation within another; `false` where there is none.
    pub(crate) fn enter(&mut self, depth: u16) -> bool {
        self.depth = self.depth.saturating_add(depth);
        self.depth <= MAX_NESTED
    }

    /// Gives back what [`enter`](Self::enter) took.
    pub(crate) fn leave(&mut self, depth: u16) {
        self.depth = self.depth.saturating_sub(depth);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
