//! Port numbers and port names.

use holdfast_schema::Field;
use holdfast_schema::metadata::formats::Messages;
use holdfast_value::Value;

use super::{Errors, report};

const NAME_LENGTH: usize = 15;

/// Reports an invalid port number; a missing number counts as 0.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidPortNum
pub(crate) fn port_number(field: &Field<'_, '_>, errors: &mut Errors) {
    let number = field.number().unwrap_or_default();
    if !(1..=65535).contains(&number) {
        errors.push(field.invalid_as(number, "must be between 1 and 65535, inclusive"));
    }
}

/// Reports a value that is neither the number nor the name of a port.
pub(crate) fn port_number_or_name(field: &Field<'_, '_>, errors: &mut Errors) {
    match field.value() {
        Some(Value::String(name)) => report(field, port_name(name), errors),
        _ => port_number(field, errors),
    }
}

/// Returns the errors of a port name (an IANA service name, RFC 6335).
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidPortName
pub(crate) fn port_name(name: &str) -> Messages {
    let mut messages = Messages::new();
    if name.len() > NAME_LENGTH {
        messages.push("must be no more than 15 characters".into());
    }
    let allowed = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || !name.bytes().all(allowed) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".into());
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_hold_a_letter() {
        assert!(port_name("http-1").is_empty());
        assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
        assert_eq!(
            port_name("TooLong-name-here"),
            [
                "must be no more than 15 characters",
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            ]
        );
        assert_eq!(
            port_name("-a--b"),
            [
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen"
            ]
        );
    }
}
