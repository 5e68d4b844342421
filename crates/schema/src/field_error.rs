//! Validation errors of fields, in the form that clients see as the causes of a 422.

use std::fmt::{self, Write as _};

use holdfast_gotext::errors::aggregate;
use holdfast_gotext::number::general;
use holdfast_gotext::quote::quote;
use holdfast_value::Value;

/// Path of a field in an object, in the form of the reference: `spec.containers[0].ports[1].name`, and `data[key]` for
/// the key of a map. The empty path is the object itself and is displayed as `<nil>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// Creates the path of a top-level field, or of a dotted path of fields.
    pub fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Returns the path of the field `name` below this one.
    pub fn child(&self, name: &str) -> Self {
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(&self.0);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        Self(path)
    }

    /// Returns the path of the item `index` of this list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns the path of the entry `key` of this map.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns the text of the path; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kinds of field errors; each is a `reason` of a cause and the start of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// `FieldValueRequired`: missing or empty.
    Required,
    /// `FieldValueInvalid`: not a valid value of the field.
    Invalid,
    /// `FieldValueNotSupported`: none of the supported values.
    NotSupported,
    /// `FieldValueDuplicate`: twice in a list.
    Duplicate,
    /// `FieldValueForbidden`: may not be set or changed.
    Forbidden,
    /// `FieldValueNotFound`: refers to something that does not exist.
    NotFound,
    /// `FieldValueTooLong`: more bytes or characters than allowed.
    TooLong,
    /// `FieldValueTooMany`: more items than allowed.
    TooMany,
    /// `FieldValueTypeInvalid`: of another type than the field.
    TypeInvalid,
    /// `InternalError`: the check itself failed.
    Internal,
}

impl FieldErrorKind {
    /// Returns the `reason` of a cause, and the beginning of its message.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Required => ("FieldValueRequired", "Required value"),
            Self::Invalid => ("FieldValueInvalid", "Invalid value"),
            Self::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            Self::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
            Self::Forbidden => ("FieldValueForbidden", "Forbidden"),
            Self::NotFound => ("FieldValueNotFound", "Not found"),
            Self::TooLong => ("FieldValueTooLong", "Too long"),
            Self::TooMany => ("FieldValueTooMany", "Too many"),
            Self::TypeInvalid => ("FieldValueTypeInvalid", "Invalid value"),
            Self::Internal => ("InternalError", "Internal error"),
        }
    }
}

/// A validation error of one field.
#[derive(Clone, Debug)]
pub struct FieldError {
    /// The kind of the error.
    pub kind: FieldErrorKind,
    /// Path of the field.
    pub field: FieldPath,
    /// The field's value, if the message contains it.
    pub value: Option<Value>,
    /// Supported values, or the reason for the error. May be empty.
    pub detail: String,
}

impl FieldError {
    /// Returns the error that a required field is missing or empty.
    pub fn required(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Required,
            field: field.clone(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns the error that a field has an invalid value.
    pub fn invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Invalid,
            field: field.clone(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// Returns the error that a field has an invalid value; `text` is its text, for values whose members have an
    /// order.
    pub fn invalid_text(field: &FieldPath, mut text: String, detail: &str) -> Self {
        if !detail.is_empty() {
            text.push_str(": ");
            text.push_str(detail);
        }
        Self {
            kind: FieldErrorKind::Invalid,
            field: field.clone(),
            value: None,
            detail: text,
        }
    }

    /// Returns the error that a field has an invalid text, which the reference reports by its pointer: it is formatted
    /// as JSON.
    pub fn invalid_pointer(field: &FieldPath, text: &str, detail: &str) -> Self {
        Self::invalid_text(field, Value::from(text).to_string(), detail)
    }

    /// Returns the error that a field has none of its supported values; `supported` is listed in the given order.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/validation/field#NotSupported
    pub fn not_supported(field: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let mut detail = String::from("supported values: ");
        for (at, name) in supported.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            let _ = write!(detail, "{separator}{}", quote(name));
        }
        Self {
            kind: FieldErrorKind::NotSupported,
            field: field.clone(),
            value: Some(value.into()),
            detail,
        }
    }

    /// Returns the same error; `text` is the text of the value, for values whose members have an order.
    pub fn not_supported_text(field: &FieldPath, text: &str, supported: &[&str]) -> Self {
        let mut error = Self::not_supported(field, Value::Null, supported);
        (error.value, error.detail) = (None, format!("{text}: {}", error.detail));
        error
    }

    /// Returns the error that a list has an item for the second time.
    pub fn duplicate(field: &FieldPath, value: impl Into<Value>) -> Self {
        let (kind, value) = (FieldErrorKind::Duplicate, Some(value.into()));
        Self {
            kind,
            field: field.clone(),
            value,
            detail: String::new(),
        }
    }

    /// Returns the error that a field may not be set or changed here.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/validation/field#Forbidden
    pub fn forbidden(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Forbidden,
            field: field.clone(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns the error that a field refers to something that does not exist.
    pub fn not_found(field: &FieldPath, value: impl Into<Value>) -> Self {
        let (kind, value) = (FieldErrorKind::NotFound, Some(value.into()));
        Self {
            kind,
            field: field.clone(),
            value,
            detail: String::new(),
        }
    }

    /// Returns the error that a text is longer than `max` bytes.
    pub fn too_long(field: &FieldPath, max: usize) -> Self {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        Self {
            kind: FieldErrorKind::TooLong,
            field: field.clone(),
            value: None,
            detail,
        }
    }

    /// Returns the error that a list has `actual` items and only `max` are allowed.
    pub fn too_many(field: &FieldPath, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let (kind, value) = (FieldErrorKind::TooMany, Some(Value::Int(actual as i64)));
        Self {
            kind,
            field: field.clone(),
            value,
            detail: format!("must have at most {max} {items}"),
        }
    }

    /// Returns the error that the check itself failed; `detail` is the reason.
    pub fn internal(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Internal,
            field: field.clone(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns the same error with a detail text.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Returns the `reason` of this error as a cause of a `Status`.
    pub fn reason(&self) -> &'static str {
        self.kind.texts().0
    }

    /// Returns the `message` of this error as a cause of a `Status`: without the field.
    pub fn message(&self) -> String {
        let mut message = String::from(self.kind.texts().1);
        match &self.value {
            Some(Value::String(text)) => {
                let _ = write!(message, ": {}", quote(text));
            }
            Some(Value::Float(number)) => {
                let _ = write!(message, ": {}", general(*number));
            }
            Some(value) => {
                let _ = write!(message, ": {value}");
            }
            None => {}
        }
        if !self.detail.is_empty() {
            let _ = write!(message, ": {}", self.detail);
        }
        message
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

/// Field errors in one text: a single one unchanged, several in brackets, without repeated texts.
pub struct Aggregate<'a>(pub &'a [FieldError]);

impl fmt::Display for Aggregate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = MESSAGE_BYTES;
        let mut texts: Vec<String> = self
            .0
            .iter()
            .map(FieldError::to_string)
            .take_while(|text| fits_in_message(&mut left, text))
            .collect();
        let left_out = self.0.len() - texts.len();
        if left_out > 0 {
            texts.push(format!("{left_out} more errors"));
        }
        match texts.is_empty() {
            true => f.write_str("<nil>"),
            false => f.write_str(&aggregate(&texts)),
        }
    }
}

/// Limit of the error texts in a response: the errors of one object may repeat large parts of it many times.
pub const MESSAGE_BYTES: usize = 2 << 20;

/// Returns true if there is room for `text`; the first text always fits.
pub fn fits_in_message(left: &mut usize, text: &str) -> bool {
    let first = *left == MESSAGE_BYTES;
    let room = text.len() <= *left;
    *left = left.saturating_sub(text.len().max(1));
    first || room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_reads_as_the_reference_writes_it() {
        let path = FieldPath::new("spec")
            .child("containers")
            .index(0)
            .child("env")
            .key("a/b");
        assert_eq!(path.to_string(), "spec.containers[0].env[a/b]");
        assert_eq!(FieldPath::default().to_string(), "<nil>");
    }

    #[test]
    fn message_shows_value_and_detail() {
        let field = FieldPath::new("spec.type");
        let cases = [
            (FieldError::required(&field, ""), "spec.type: Required value"),
            (
                FieldError::invalid(&field, 3, "too small"),
                "spec.type: Invalid value: 3: too small",
            ),
            (
                FieldError::not_supported(&field, "x", &["A", "B"]),
                r#"spec.type: Unsupported value: "x": supported values: "A", "B""#,
            ),
            (
                FieldError::not_supported(&field, Value::Null, &[r#"{"a":1}"#]),
                r#"spec.type: Unsupported value: null: supported values: "{\"a\":1}""#,
            ),
            (
                FieldError::invalid(&field, Value::Float(-1e11), "odd"),
                "spec.type: Invalid value: -1e+11: odd",
            ),
            (
                FieldError::invalid(&field, "<a>", "odd"),
                r#"spec.type: Invalid value: "<a>": odd"#,
            ),
            (
                FieldError::invalid(&field, "\u{7}\n\0", "odd"),
                r#"spec.type: Invalid value: "\a\n\x00": odd"#,
            ),
            (
                FieldError::invalid_pointer(&field, "\u{7}\n\0", "odd"),
                r#"spec.type: Invalid value: "\u0007\n\u0000": odd"#,
            ),
            (
                FieldError::invalid_text(&field, "[1]".to_owned(), ""),
                "spec.type: Invalid value: [1]",
            ),
            (FieldError::duplicate(&field, "x"), r#"spec.type: Duplicate value: "x""#),
            (
                FieldError::too_many(&field, 4, 3),
                "spec.type: Too many: 4: must have at most 3 items",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
