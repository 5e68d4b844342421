//! Durations of rules, for metrics.

use std::sync::Arc;
use std::time::Duration;

use holdfast_cel::PatternMemory;

use crate::durations::{DurationCounts, Durations};

/// The longest time in seconds that counts for each bucket, as the reference has them.
pub const RULE_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Durations of compiling and evaluating rules.
#[derive(Debug, Default)]
pub struct RuleTimings {
    compilations: Durations<{ RULE_BUCKETS.len() }>,
    evaluations: Durations<{ RULE_BUCKETS.len() }>,
}

impl RuleTimings {
    /// Notes that the rules of one schema were compiled, without those below it.
    pub fn compiled(&self, took: Duration) {
        self.compilations.observe(&RULE_BUCKETS, took);
    }

    /// Notes that all rules of an object were evaluated.
    pub fn evaluated(&self, took: Duration) {
        self.evaluations.observe(&RULE_BUCKETS, took);
    }

    /// The compilations.
    pub fn compilations(&self) -> DurationCounts<{ RULE_BUCKETS.len() }> {
        self.compilations.read()
    }

    /// The evaluations.
    pub fn evaluations(&self) -> DurationCounts<{ RULE_BUCKETS.len() }> {
        self.evaluations.read()
    }
}

/// Shared state for the compilation of all schemas.
#[derive(Clone, Debug, Default)]
pub struct CompileContext {
    /// Cache of compiled regular expressions.
    pub patterns: PatternMemory,
    /// Recorder of the durations of rules.
    pub timings: Arc<RuleTimings>,
}
