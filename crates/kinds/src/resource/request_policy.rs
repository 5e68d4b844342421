//! Request policies: the amounts of a shared capacity that each request may consume.

use holdfast_gotext::quantity::Quantity;
use holdfast_schema::Field;

use super::names::validate_set;
use crate::validation::Errors;
use crate::validation::resources::quantity;

/// Maximum number of valid values.
const VALUES: usize = 10;
/// Maximum number of digits of a quantity that the reference stores as a 64-bit number and a power of ten.
const SHORT: usize = 18;

/// An amount as a number and as its text.
struct Amount<'v> {
    quantity: Quantity,
    text: &'v str,
}

impl<'v> Amount<'v> {
    fn from_field(field: &Field<'v, '_>) -> Option<Self> {
        let quantity = quantity(field)?;
        Some(Self {
            quantity,
            text: field.text(),
        })
    }

    /// Returns the amount in whole units as the reference uses it for steps: `Quantity.Value`. It keeps 64 bits of a
    /// number with many digits, and returns zero for a short one that does not fit.
    fn value(&self) -> i64 {
        let digits = self.text.bytes().filter(u8::is_ascii_digit).count();
        let units = self.quantity.whole_units();
        i64::try_from(units).unwrap_or(if digits > SHORT { units as i64 } else { 0 })
    }
}

/// Reports the errors in the request policy of a capacity.
///
/// upstream: pkg/apis/resource/validation#validateRequestPolicy
pub(super) fn validate_request_policy(capacity: &Field<'_, '_>, errors: &mut Errors) {
    let policy = capacity.child("requestPolicy");
    let (values, range) = (policy.child("validValues"), policy.child("validRange"));
    let default = policy.child("default");
    let Some(most) = Amount::from_field(&capacity.child("value")) else {
        return;
    };
    let default_amount = Amount::from_field(&default);
    match (!values.is_empty(), range.is_set(), default_amount) {
        (true, true, _) => errors.push(policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        )),
        (true, false, None) => errors.push(default.required("required when validValues is defined")),
        (false, true, None) => errors.push(default.required("required when validRange is defined")),
        (true, false, Some(default)) => validate_values(&values, &default, &most, errors),
        (false, true, Some(default)) => validate_range(&range, &default, &most, errors),
        (false, false, _) => {}
    }
}

/// upstream: pkg/apis/resource/validation#validateRequestPolicyValidValues
#[expect(clippy::indexing_slicing, reason = "windows of two")]
fn validate_values(values: &Field<'_, '_>, default: &Amount<'_>, most: &Amount<'_>, errors: &mut Errors) {
    let amounts: Vec<Field<'_, '_>> = values.items().collect();
    for pair in amounts.windows(2) {
        if quantity(&pair[0]) > quantity(&pair[1]) {
            errors.push(pair[1].invalid("values must be sorted in ascending order"));
        }
    }
    let within = |value: &Field<'_, '_>, errors: &mut Errors| {
        if quantity(value).is_some_and(|value| value > most.quantity) {
            errors.push(value.invalid(format!("option is larger than capacity value: {}", most.text)));
        }
    };
    validate_set(values, VALUES, errors, within, |value| {
        let units = Amount::from_field(value)
            .map(|amount| amount.value())
            .unwrap_or_default();
        units.to_string().into()
    });
    let listed = amounts.len() <= VALUES && amounts.iter().any(|value| quantity(value) == Some(default.quantity));
    if !listed {
        errors.push(values.invalid_as(
            default.text,
            "default value is not valid according to the requestPolicy",
        ));
    }
}

/// upstream: pkg/apis/resource/validation#validateRequestPolicyRange
fn validate_range(range: &Field<'_, '_>, default: &Amount<'_>, capacity: &Amount<'_>, errors: &mut Errors) {
    let (min_field, max_field) = (range.child("min"), range.child("max"));
    let Some(min) = Amount::from_field(&min_field) else {
        errors.push(min_field.required("required when validRange is defined"));
        return;
    };
    if min.quantity > capacity.quantity {
        errors.push(min_field.invalid(format!("min is larger than capacity value: {}", capacity.text)));
    }
    if default.quantity < min.quantity {
        errors.push(min_field.invalid_as(default.text, format!("default is less than min: {}", min.text)));
    }
    let max = Amount::from_field(&max_field);
    if let Some(max) = &max {
        if min.quantity > max.quantity {
            errors.push(max_field.invalid_as(min.text, format!("min is larger than max: {}", max.text)));
        }
        if max.quantity > capacity.quantity {
            errors.push(max_field.invalid(format!("max is larger than capacity value: {}", capacity.text)));
        }
        if default.quantity > max.quantity {
            errors.push(max_field.invalid_as(default.text, format!("default is more than max: {}", max.text)));
        }
    }
    let step_field = range.child("step");
    if let Some(step) = Amount::from_field(&step_field) {
        let first = min.quantity.plus(step.quantity);
        if first > capacity.quantity {
            let why = format!("one step {first} is larger than capacity value: {}", capacity.text);
            errors.push(step_field.invalid(why));
        }
        for value in [Some(default), max.as_ref()].into_iter().flatten() {
            validate_step(&step_field, value, &min, &step, errors);
        }
    }
}

/// Reports a value that no number of steps reaches. For a step of zero the reference divides by zero and panics; here
/// no value is reachable.
///
/// upstream: pkg/apis/resource/validation#validateRequestPolicyRangeStep
fn validate_step(at: &Field<'_, '_>, value: &Amount<'_>, min: &Amount<'_>, step: &Amount<'_>, errors: &mut Errors) {
    let distance = value.value().wrapping_sub(min.value());
    let reached = step.value() != 0 && distance.wrapping_rem(step.value()) == 0;
    if !reached {
        let (step, min) = (step.text, min.text);
        let why = format!("value is not a multiple of a given step ({step}) from ({min})");
        errors.push(at.invalid_as(value.text, why));
    }
}
