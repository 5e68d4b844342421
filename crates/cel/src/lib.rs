#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The Kubernetes CEL environment: rules of custom resources, match conditions and admission policies.
//!
//! An [`Environment`] declares the variables of expressions. [`Environment::compile`] turns a text into a [`Program`]
//! with its type and an estimate of its cost, which is evaluated with an [`Activation`] and a [`Budget`]. Values are
//! those of the object tree, interpreted by a schema ([`DeclType`]) without conversion.
//!
//! The parser, checker, cost estimator and evaluator are our own; their messages, figures and functions are those of
//! cel-go and kube-apiserver 1.36 (<https://kubernetes.io/docs/reference/using-api/cel/>).

mod activation;
mod budget;
mod checked;
mod checker;
mod compile;
mod composition;
mod cost;
mod declaration;
mod environment;
mod error;
mod escaping;
mod evaluate;
mod extension;
mod functions;
mod inference;
mod lexer;
mod library;
pub mod limits;
mod netip;
mod node;
mod operate;
mod operators;
mod parser;
mod plain;
mod program;
mod recovery;
mod regex_cache;
mod regexp;
mod selection;
mod source;
mod syntax;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod validators;
mod value;

pub use activation::Activation;
pub use budget::Budget;
pub use composition::{Composition, CompositionBuilder};
pub use cost::Range as CostRange;
pub use declaration::{DeclField, DeclType, ListType};
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use escaping::{escape, is_reserved, unescape};
pub use extension::authorizer::{Authorizer, AuthorizerValue, Decision, Question, ResourceSubject, Subject};
pub use extension::cidr::Cidr;
pub use extension::format::Format;
pub use extension::semver::Version;
pub use holdfast_gotext::quantity::ExactQuantity;
pub use holdfast_gotext::url::Url;
pub use plain::PlainExpr;
pub use program::Program;
pub use regexp::{Pattern, PatternMemory, check_pattern};
pub use selection::selects_field;
pub use time::Timestamp;
pub use types::{ObjectType, Type};
pub use value::{CelValue, LazyFields, ListValue, MapKey, MapValue, StructValue};
