#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Structural schemas: the schemas of custom objects in a CRD
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>).
//!
//! A [`Node`] is one schema, read once from its JSON. Walks over an object follow the nodes: `Node::prune` drops
//! unspecified fields, `Node::with_defaults` fills in defaults, `Node::validate` and `Node::list_duplicates` return
//! errors. Each keeps unchanged parts shared. [`CustomType`] combines them for the objects of one version, with
//! metadata, which every object has, read by the table of built-in types.
//!
//! Built-in kinds are decoded into types that were known when the server was built ([`holdfast_schema::types`]): there a
//! value of the wrong type cannot be decoded at all. Here it can, and is reported as a validation error, which is why
//! these are two walks and not one.

mod check_defaults;
mod correlation;
mod custom_type;
mod declare;
mod defaults;
mod duplicates;
mod embedded;
mod formats;
mod merge;
mod node;
mod numbers;
mod pattern;
mod prune;
mod prune_defaults;
mod result;
mod rule;
mod rules;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod validate;
mod value_path;

pub use custom_type::{CustomSchema, CustomType, ReadObject, SchemaSource, VersionSchema, has_unpruned_defaults};
pub use embedded::read_embedded_defaults;
pub use formats::unknown_formats;
pub use node::{Additional, Checks, JsonType, Limit, Node};
pub use pattern::{Pattern, PatternError};
pub use rule::Rule;
pub use rules::{
    CompileContext, CompiledRule, Notation, RULE_BUCKETS, RuleBudget, RuleEnvironment, RuleTimings, Rules,
};
pub use validate::Ratchet;
