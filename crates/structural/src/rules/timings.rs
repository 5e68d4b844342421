//! Durations of rules, for metrics.

use std::sync::Arc;
use std::time::Duration;

use holdfast_cel::PatternMemory;
use holdfast_schema::durations::{DurationCounts, Durations};

/// Upper bounds of the buckets in seconds, equal to the reference's.
pub const RULE_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Durations of compiling and evaluating rules.
#[derive(Debug, Default)]
pub struct RuleTimings {
    compilations: Durations<{ RULE_BUCKETS.len() }>,
    evaluations: Durations<{ RULE_BUCKETS.len() }>,
}

impl RuleTimings {
    /// Records the compilation of the rules of one schema, without those below it.
    pub fn compiled(&self, took: Duration) {
        self.compilations.observe(&RULE_BUCKETS, took);
    }

    /// Records the evaluation of all rules of an object.
    pub fn evaluated(&self, took: Duration) {
        self.evaluations.observe(&RULE_BUCKETS, took);
    }

    /// Returns the durations of compilations.
    pub fn compilations(&self) -> DurationCounts<{ RULE_BUCKETS.len() }> {
        self.compilations.read()
    }

    /// Returns the durations of evaluations.
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
