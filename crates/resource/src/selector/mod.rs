//! Label and field selectors: reading them, their text, and whether an object matches.
//!
//! See <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/> and
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/>.

mod fields;
mod label_parser;
mod labels;

pub use fields::{FieldSelector, selectable_fields};
pub use labels::{LabelOperator, LabelRequirement, LabelSelector};

/// Why the text of a selector cannot be read; the message is what clients see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);
