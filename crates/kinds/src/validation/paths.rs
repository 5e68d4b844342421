//! File system paths.

use holdfast_schema::Field;

use super::Errors;

/// Reports a path with `..` in it.
pub(crate) fn no_back_steps(field: &Field<'_, '_>, errors: &mut Errors) {
    if field.text().split('/').any(|part| part == "..") {
        errors.push(field.invalid("must not contain '..'"));
    }
}

/// Reports a path that is absolute or has `..` in it.
pub(crate) fn descending(field: &Field<'_, '_>, errors: &mut Errors) {
    if field.text().starts_with('/') {
        errors.push(field.invalid("must be a relative path"));
    }
    no_back_steps(field, errors);
}

/// Reports a path that is absolute, contains `..`, or starts with two dots, which are reserved for the writer of the
/// volume.
pub(crate) fn descending_not_reserved(field: &Field<'_, '_>, errors: &mut Errors) {
    descending(field, errors);
    if field.text().starts_with("..") && !field.text().starts_with("../") {
        errors.push(field.invalid("must not start with '..'"));
    }
}
