//! Label selectors: parsing, formatting and matching
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>).

mod label_parser;
mod labels;

pub use labels::{LabelOperator, LabelRequirement, LabelSelector};

/// Syntax error in the text of a selector; clients see the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);
