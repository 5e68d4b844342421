//! What holds for the metadata of every kind, and the forms of text that it shares with the fields of kinds.

pub mod formats;
pub mod labels;
mod name;
mod validation;

pub(crate) use validation::validate_embedded_metadata;
pub use validation::{
    validate_annotations, validate_field_manager, validate_managed_fields, validate_metadata, validate_metadata_update,
};
