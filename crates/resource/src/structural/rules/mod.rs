//! Rules of custom resources in CEL (`x-kubernetes-validations`;
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>).
//!
//! A [`Rule`] is what a schema says. [`RuleEnvironment`] compiles the rules of one schema: where a definition is checked, to
//! see whether they compile and what they may cost, and once more when objects are first checked, into [`Rules`], which
//! follow the schema as far as there are rules in it. Values are read in place: a rule sees the object itself.

mod compile;
mod field_path;
mod rule;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests;
mod timings;

pub use compile::{CompiledRule, RuleEnvironment, Rules};
pub use field_path::Notation;
pub use rule::Rule;
pub use run::RuleBudget;
pub use timings::{CompileContext, RULE_BUCKETS, RuleTimings};
