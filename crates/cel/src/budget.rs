//! Cost limits of evaluations.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::{PER_CALL, PER_REQUEST};

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
