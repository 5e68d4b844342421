//! What holds for the metadata of every kind, and the forms of text that it shares with the fields of kinds.

pub mod formats;
pub mod labels;
mod name;
mod validation;

pub use validation::{validate_field_manager, validate_metadata, validate_metadata_update};
