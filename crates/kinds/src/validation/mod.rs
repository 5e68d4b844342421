//! Validation that many kinds share, with the messages that clients see.

pub(crate) mod addresses;
pub(crate) mod numbers;
pub(crate) mod paths;
pub(crate) mod ports;
pub mod resources;
pub(crate) mod signers;
pub(crate) mod template_metadata;

use holdfast_schema::metadata::formats::Messages;
pub(crate) use holdfast_schema::same;
use holdfast_schema::{Field, FieldError, FieldErrorKind};
use holdfast_value::{Limits, Value, json};

/// Validation errors of an object, in the order of the checks.
pub type Errors = Vec<FieldError>;

/// Reports each error of the text at `field`.
pub(crate) fn report(field: &Field<'_, '_>, messages: Messages, errors: &mut Errors) {
    errors.extend(messages.into_iter().map(|message| field.invalid_text(message)));
}

/// Reports a missing text, or else its errors.
pub(crate) fn required_text(field: &Field<'_, '_>, form: impl Fn(&str) -> Messages, errors: &mut Errors) {
    match field.text() {
        "" => errors.push(field.required("")),
        text => report(field, form(text), errors),
    }
}

/// Reports the errors of an optional text.
pub(crate) fn optional_text(field: &Field<'_, '_>, form: impl Fn(&str) -> Messages, errors: &mut Errors) {
    match field.text() {
        "" => {}
        text => report(field, form(text), errors),
    }
}

/// Reports each of `fields` that is empty.
pub(crate) fn required_fields(parent: &Field<'_, '_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        let field = parent.child(field);
        if field.text().is_empty() && field.is_empty() {
            errors.push(field.required(""));
        }
    }
}

/// Reports a text that is missing or not in `supported`.
pub(crate) fn one_of(field: &Field<'_, '_>, supported: &[&str], errors: &mut Errors) {
    match field.text() {
        "" => errors.push(field.required("")),
        text if supported.contains(&text) => {}
        _ => errors.push(field.not_supported(supported)),
    }
}

/// Reports a text that is set but not in `supported`. The field is a pointer in the reference, so that a missing text
/// is valid and an empty one is not.
pub(crate) fn set_one_of(field: &Field<'_, '_>, supported: &[&str], errors: &mut Errors) {
    if field.is_set() && !supported.contains(&field.text()) {
        errors.push(field.not_supported(supported));
    }
}

/// Returns the error for a duplicate item. `shown` is the reference's internal type of the item as Go prints it.
pub(crate) fn repeated(field: &Field<'_, '_>, shown: String) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Duplicate,
        field: field.path(),
        value: None,
        detail: shown,
    }
}

/// Parses the JSON in an annotation.
pub fn read_json(text: &str) -> Result<Value, String> {
    json::parse(text.as_bytes(), &Limits::default()).map_err(|error| error.to_string())
}

/// Reports a changed field.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateImmutableField
pub(crate) fn immutable(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    if !same(new.value(), old.value()) {
        errors.push(new.invalid("field is immutable"));
    }
}

/// Reports a changed text; the error has the value `""` if there is none.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateImmutableField
pub(crate) fn immutable_text(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    if new.text() != old.text() {
        errors.push(new.invalid_text("field is immutable"));
    }
}
