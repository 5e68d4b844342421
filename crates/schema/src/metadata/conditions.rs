//! Conditions of the type that all groups share: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/>.

use std::collections::HashSet;

use crate::field::Field;
use crate::field_error::FieldError;
use crate::metadata::labels::validate_label_name;

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON: usize = 1024;
const MESSAGE: usize = 32 * 1024;
const NO_REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
     'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
     '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates a list of conditions.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateConditions
pub fn validate_conditions(conditions: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut types = HashSet::new();
    for condition in conditions.items() {
        let type_field = condition.child("type");
        if !types.insert(type_field.text()) {
            errors.push(type_field.duplicate());
        }
        validate_label_name(&type_field, errors);
        validate_condition(&condition, errors);
    }
}

/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateCondition
fn validate_condition(condition: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    let status = condition.child("status");
    if !STATUSES.contains(&status.text()) {
        errors.push(status.not_supported(&STATUSES));
    }
    let generation = condition.child("observedGeneration");
    if generation.number().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    let since = condition.child("lastTransitionTime");
    if since.text().is_empty() {
        errors.push(since.required(""));
    }
    let reason = condition.child("reason");
    match reason.text() {
        "" => errors.push(reason.required("")),
        text if !is_reason(text) => errors.push(reason.invalid(NO_REASON)),
        _ => {}
    }
    for (part, most) in [("reason", REASON), ("message", MESSAGE)] {
        let part = condition.child(part);
        if part.text().len() > most {
            errors.push(part.too_long(most));
        }
    }
}

/// Returns true if the text matches `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`.
fn is_reason(text: &str) -> bool {
    let word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    let (first, last) = (text.bytes().next(), text.bytes().next_back());
    first.is_some_and(|byte| byte.is_ascii_alphabetic())
        && last.is_some_and(word)
        && text.bytes().all(|byte| word(byte) || matches!(byte, b',' | b':'))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, Value, yaml};

    use super::*;

    fn errors(conditions: &str) -> Vec<String> {
        let value = yaml::parse(conditions.as_bytes(), &Limits::default()).unwrap_or(Value::Null);
        let mut errors = Vec::new();
        validate_conditions(&Field::placed(Some(&value), "c"), &mut errors);
        errors
            .iter()
            .map(|error| format!("{} {}", error.field, error.reason()))
            .collect()
    }

    const GOOD: &str = "{type: A, status: 'True', reason: R, lastTransitionTime: '2020-01-01T00:00:00Z'}";

    #[test]
    fn a_condition_has_type_status_reason_and_time() {
        assert!(errors(&format!("[{GOOD}]")).is_empty());
        let missing = ["type", "type", "status", "lastTransitionTime", "reason"];
        let fields: Vec<String> = errors("[{}]").iter().map(|detail| detail[5..].to_owned()).collect();
        let names: Vec<&str> = fields.iter().filter_map(|field| field.split(' ').next()).collect();
        assert_eq!(names, missing);
        assert_eq!(errors(&format!("[{GOOD}, {GOOD}]")), ["c[1].type FieldValueDuplicate"]);
        let odd = GOOD.replace("reason: R", "reason: x y, observedGeneration: -1");
        assert_eq!(
            errors(&format!("[{odd}]")),
            [
                "c[0].observedGeneration FieldValueInvalid",
                "c[0].reason FieldValueInvalid"
            ]
        );
    }
}
