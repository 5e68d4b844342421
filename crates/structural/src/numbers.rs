//! Ranges of number types, and the comparison and form of numbers in errors.

use holdfast_gotext::number::general;
use holdfast_value::Value;

use crate::node::{JsonType, Node, float};
use crate::value_path::ValuePath;

/// Range of numbers of a type and a format in a schema.
pub(super) struct Range<'a> {
    pub(super) node: &'a Node,
    pub(super) format: &'a str,
    pub(super) place: &'a ValuePath<'a>,
}

impl Range<'_> {
    /// Returns the error of `IsValueValidAgainstRange` for a number outside the range of its type; `what` names the
    /// number.
    ///
    /// upstream: k8s.io/kube-openapi/pkg/validation/validate#IsValueValidAgainstRange
    pub(super) fn error(&self, what: &str, value: &Value) -> Option<String> {
        // Together with a named type, `x-kubernetes-int-or-string` makes it one of two types, which does not bound
        // numbers.
        let integer = self.node.kind == Some(JsonType::Integer) && !self.node.int_or_string;
        let fits = match (value, self.format) {
            (Value::Int(number), "int32") if integer => i32::try_from(*number).is_ok(),
            (Value::Int(_), _) if integer => true,
            (_, "int32") if integer => float(value)
                .is_some_and(|number| number.fract() == 0.0 && (-2f64.powi(31)..2f64.powi(31)).contains(&number)),
            // The least 64-bit number, written with the fewest digits that identify it, exceeds 64 bits when the
            // reference reads it again.
            _ if integer => float(value).is_some_and(|number| number.fract() == 0.0 && number.abs() < 2f64.powi(63)),
            (_, "float" | "float32") => float(value).is_some_and(|number| (number as f32).is_finite()),
            _ => true,
        };
        if fits {
            return None;
        }
        let number_type = self.node.kind.map(JsonType::name).unwrap_or_default();
        let form = match self.format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        Some(format!(
            "{what} value must be of type {number_type} {form} in {}",
            self.place.text()
        ))
    }
}

/// Returns true if a number exceeds a bound. The reference compares whole numbers with the whole part of the bound.
pub(super) fn exceeds(
    value: &Value,
    bound: f64,
    exclusive: bool,
    whole: impl Fn(i64, i64) -> bool,
    any: impl Fn(f64, f64) -> bool,
) -> bool {
    match value {
        Value::Int(number) => {
            let bound = bound as i64;
            whole(*number, bound) || exclusive && *number == bound
        }
        other => float(other).is_some_and(|number| any(number, bound) || exclusive && number == bound),
    }
}

/// Returns a bound in the form in which the reference reports it with a number.
pub(super) fn shown_limit(value: &Value, bound: f64) -> Value {
    match value {
        Value::Int(_) => Value::Int(bound as i64),
        _ => Value::Float(bound),
    }
}

/// Formats a number like Go's `%v`.
pub(super) fn shown(number: &Value) -> String {
    match number {
        Value::Float(number) => general(*number),
        other => other.to_string(),
    }
}

pub(super) fn is_whole(value: &Value) -> bool {
    match value {
        Value::Float(number) => is_whole_number(*number),
        Value::Int(_) => true,
        // A number beyond signed 64 bits is a float that is too large.
        _ => false,
    }
}

/// Returns true if a float is a whole number that every JSON reader preserves.
pub(super) fn is_whole_number(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0
}
