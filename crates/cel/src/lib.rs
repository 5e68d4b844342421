#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The Kubernetes CEL environment: rules of custom resources, match conditions and admission policies.
//!
//! An [`Environment`] says what expressions may name; [`Environment::compile`] turns a text into a [`Program`], which
//! knows its type and what it may cost and is evaluated with an [`Activation`] and a [`Budget`]. Values are those of the
//! object tree, taken as a schema ([`DeclType`]) says, without conversion.
//!
//! The parser, the checker, the estimate of cost and the evaluator are our own; their words, figures and functions are
//! those of cel-go and kube-apiserver 1.36 (<https://kubernetes.io/docs/reference/using-api/cel/>). Of time zones,
//! `UTC` and offsets are known.

mod activation;
mod checker;
mod composition;
mod cost;
mod declaration;
mod environment;
mod error;
mod escaping;
mod evaluate;
mod fold;
mod functions;
mod inference;
mod lexer;
mod library;
pub mod limits;
mod macros;
mod operate;
mod operators;
mod parser;
mod plain;
mod program;
mod recovery;
mod regexp;
mod source;
mod syntax;
mod time;
mod types;
mod validators;
mod value;

pub use activation::{Activation, Budget};
pub use composition::{Composition, CompositionBuilder};
pub use cost::Range as CostRange;
pub use declaration::{DeclField, DeclType, ListType};
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use escaping::{escape, is_reserved};
pub use holdfast_gotext::quantity::ExactQuantity;
pub use library::authorizer::{Authorizer, AuthorizerValue, Decision, Question, ResourceSubject, Subject};
pub use library::format::Format;
pub use library::ip::Cidr;
pub use library::semver::Version;
pub use library::url::Url;
pub use plain::PlainExpr;
pub use program::Program;
pub use regexp::{Pattern, PatternMemory, check_pattern};
pub use time::Timestamp;
pub use types::{ObjectType, Type};
pub use value::{CelValue, LazyFields, ListValue, MapKey, MapValue, StructValue};
