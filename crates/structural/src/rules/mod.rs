//! CEL rules of custom resources (`x-kubernetes-validations`;
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>).
//!
//! A [`Rule`](crate::Rule) is the rule in a schema. [`RuleEnvironment`] compiles the rules of one schema: when a CRD is
//! validated, to check that they compile and to estimate their cost, and again when objects are first validated, into
//! [`Rules`], which mirror the schema as far as it contains rules. Values are not copied: a rule reads the object
//! itself.

mod compile;
mod field_path;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests;
mod timings;

pub use compile::{CompiledRule, RuleEnvironment, Rules};
pub use field_path::Notation;
pub use run::RuleBudget;
pub use timings::{CompileContext, RULE_BUCKETS, RuleTimings};
