//! Numbers and percentages.

use std::borrow::Cow;

use holdfast_schema::Field;
use holdfast_value::Value;

use super::Errors;

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
     used for validation is '[0-9]+%')";

/// Reports a negative number.
pub(crate) fn not_negative(field: &Field<'_, '_>, errors: &mut Errors) {
    if field.number().is_some_and(|number| number < 0) {
        errors.push(field.invalid(NOT_NEGATIVE));
    }
}

/// Reports a value that is neither a non-negative integer nor a percentage.
pub(crate) fn number_or_percent(field: &Field<'_, '_>, errors: &mut Errors) {
    match field.value() {
        Some(Value::String(text)) => {
            if let Some(message) = percent_error(text) {
                errors.push(field.invalid(message));
            }
        }
        _ => not_negative(field, errors),
    }
}

/// Reports a percentage above 100.
pub(crate) fn at_most_all(field: &Field<'_, '_>, errors: &mut Errors) {
    if percent(field).is_some_and(|percent| percent > 100) {
        errors.push(field.invalid("must not be greater than 100%"));
    }
}

/// Returns the number or the percentage in the field, or 0. A number in a text counts, although it is invalid.
pub(crate) fn count(field: &Field<'_, '_>) -> i64 {
    let text = || field.text().parse().ok();
    percent(field).or(field.number()).or_else(text).unwrap_or_default()
}

/// Returns the percentage in the field, if it is one.
pub(crate) fn percent(field: &Field<'_, '_>) -> Option<i64> {
    let digits = field.text().strip_suffix('%')?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().unwrap_or(i64::MAX))
}

fn percent_error(text: &str) -> Option<Cow<'static, str>> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let well_formed = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (!well_formed).then(|| PERCENT.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(check: impl Fn(&Field<'_, '_>, &mut Errors), value: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&Field::placed(Some(&value), "n"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn percentages_and_numbers_stand_for_each_other() {
        assert!(texts(number_or_percent, "25%".into()).is_empty());
        assert!(texts(number_or_percent, Value::Int(3)).is_empty());
        assert_eq!(
            texts(number_or_percent, Value::Int(-1)),
            ["n: Invalid value: -1: must be greater than or equal to 0"]
        );
        for odd in ["x", "%", "1.5%", "-1%"] {
            assert_eq!(
                texts(number_or_percent, odd.into()),
                [format!("n: Invalid value: \"{odd}\": {PERCENT}")]
            );
        }
        assert_eq!(
            texts(at_most_all, "101%".into()),
            ["n: Invalid value: \"101%\": must not be greater than 100%"]
        );
        assert!(texts(at_most_all, Value::Int(101)).is_empty());
        let counts = ["80", "80%", "x"].map(|text| count(&Field::placed(Some(&text.into()), "n")));
        assert_eq!(counts, [80, 80, 0]);
    }
}
