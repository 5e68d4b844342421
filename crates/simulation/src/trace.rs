//! Record of a simulation: a hash of all steps, and the text of the last ones.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

/// Number of steps whose text is kept.
const KEPT_STEPS: usize = 80;

/// Record of the steps of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    steps: u64,
    last: VecDeque<String>,
}

impl Trace {
    /// Records a choice, which is part of the hash only.
    pub(crate) fn choice(&mut self, number: u64) {
        self.hasher.write_u64(number);
    }

    /// Records a step at a simulated time.
    pub(crate) fn step(&mut self, time: Duration, text: String) {
        self.hasher.write_u128(time.as_nanos());
        self.hasher.write(text.as_bytes());
        self.steps += 1;
        if self.last.len() == KEPT_STEPS {
            self.last.pop_front();
        }
        self.last.push_back(format!("{:>10.3}s {text}", time.as_secs_f64()));
    }

    /// Returns the hash of all steps and choices so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Returns the number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the texts of the last steps.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}
