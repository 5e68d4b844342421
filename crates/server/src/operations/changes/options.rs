//! Options that diffs and transactions have in common.

use holdfast_schema::FieldPath;
use holdfast_schema::metadata::validate_field_manager;
use holdfast_writes::FieldValidation;

use super::document::{Fields, invalid};
use crate::http::ApiError;

/// Returns the field manager of a request.
///
/// # Errors
/// 400 if it is missing or invalid.
pub(super) fn field_manager(spec: &Fields<'_>) -> Result<String, ApiError> {
    let manager = spec.required_text("fieldManager")?;
    let mut errors = Vec::new();
    validate_field_manager(|| FieldPath::new("fieldManager"), manager, &mut errors);
    match errors.first() {
        Some(error) => Err(invalid("spec", error)),
        None => Ok(manager.to_owned()),
    }
}

/// Returns the handling of unknown fields in the objects of a request.
///
/// # Errors
/// 400 if it is no known one.
pub(super) fn field_validation(spec: &Fields<'_>) -> Result<FieldValidation, ApiError> {
    let text = spec.text("fieldValidation")?;
    let found = FieldValidation::NAMES.iter().find(|(name, _)| *name == text);
    let validation = found.map(|(_, validation)| *validation);
    validation.ok_or_else(|| invalid(&spec.path("fieldValidation"), "it must be Ignore, Warn or Strict"))
}
