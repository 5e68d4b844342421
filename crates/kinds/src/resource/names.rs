//! Names that the device kinds share, and lists and maps of bounded size.

use std::borrow::Cow;
use std::collections::HashSet;

use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use crate::validation::Errors;

const DRIVER_NAME: usize = 63;
/// Maximum length of an attribute name without its domain.
const IDENTIFIER: usize = 32;
/// Maximum length of the key of an attribute or a capacity.
pub(super) const QUALIFIED_NAME: usize = DRIVER_NAME + 1 + IDENTIFIER;

const NOT_AN_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
     alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
     '[A-Za-z_][A-Za-z0-9_]*')";
const NORMALIZED: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
     hexadecimal characters";

/// Reports an invalid driver name at `at`.
///
/// upstream: pkg/apis/core/validation#ValidateCSIDriverName
fn validate_driver_name(at: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    if name.len() > DRIVER_NAME {
        errors.push(at.too_long(DRIVER_NAME));
    }
    let messages = dns_subdomain(&name.to_lowercase());
    errors.extend(messages.into_iter().map(|message| at.invalid_as(name, message)));
}

/// Reports an attribute name that is invalid or has no domain.
///
/// upstream: pkg/apis/resource/validation#validateFullyQualifiedName
pub(super) fn validate_attribute_name(name: &Field<'_, '_>, errors: &mut Errors) {
    let text = name.text();
    validate_qualified_name(name, text, errors);
    if !text.contains('/') {
        errors.push(name.invalid("a fully qualified name must be a domain and a name separated by a slash"));
    }
}

/// Reports the errors in the name of an attribute or a capacity, a C identifier with an optional domain. The reference
/// accepts any name with more than one slash.
///
/// upstream: pkg/apis/resource/validation#validateQualifiedName
pub(super) fn validate_qualified_name(at: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    let Some((domain, identifier)) = name.split_once('/') else {
        validate_identifier(at, name, errors);
        return;
    };
    if identifier.contains('/') {
        return;
    }
    match domain {
        "" => errors.push(at.invalid_as("", "the domain must not be empty")),
        domain => validate_driver_name(at, domain, errors),
    }
    match identifier {
        "" => errors.push(at.invalid_as("", "the name must not be empty")),
        identifier => validate_identifier(at, identifier, errors),
    }
}

/// upstream: pkg/apis/resource/validation#validateCIdentifier
fn validate_identifier(at: &Field<'_, '_>, identifier: &str, errors: &mut Errors) {
    if identifier.len() > IDENTIFIER {
        errors.push(at.too_long(IDENTIFIER));
    }
    let letter = |byte: u8| byte == b'_' || byte.is_ascii_alphabetic();
    let begins = identifier.bytes().next().is_some_and(letter);
    if !begins || !identifier.bytes().all(|byte| letter(byte) || byte.is_ascii_digit()) {
        errors.push(at.invalid_as(identifier, NOT_AN_IDENTIFIER));
    }
}

/// Reports a text that is not a lowercase UUID.
///
/// upstream: pkg/apis/resource/validation#validateUID
pub(super) fn validate_uid(uid: &Field<'_, '_>, errors: &mut Errors) {
    let text = uid.text();
    let message = match uuid_error(text) {
        Some(message) => Cow::from(format!("error validating uid: {message}")),
        None if text.len() != 36 || text.bytes().any(|byte| byte.is_ascii_uppercase()) => NORMALIZED.into(),
        None => return,
    };
    errors.push(uid.invalid_text(message));
}

/// Returns the reason why a text is not a UUID in any of its forms.
fn uuid_error(text: &str) -> Option<Cow<'static, str>> {
    const FORM: &str = "invalid UUID format";
    const URN: &str = "urn:uuid:";
    let bare = match text.len() {
        36 => text,
        45 => match text.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case(URN) => &text[9..],
            prefix => return Some(format!("invalid urn prefix: {:?}", prefix.unwrap_or_default()).into()),
        },
        38 => match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(bare) => bare,
            None => return Some("invalid bracketed UUID format".into()),
        },
        32 => {
            let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            return (!hexadecimal).then(|| FORM.into());
        }
        other => return Some(format!("invalid UUID length: {other}").into()),
    };
    let fits = bare.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (!fits).then(|| FORM.into())
}

/// Reports a list of more than `most` items. Returns true if it reports one.
pub(super) fn exceeds(list: &Field<'_, '_>, most: usize, errors: &mut Errors) -> bool {
    let exceeds = list.len() > most;
    if exceeds {
        errors.push(list.too_many(most));
    }
    exceeds
}

/// Validates the items of a list unless there are too many, and reports duplicate keys.
///
/// upstream: pkg/apis/resource/validation#validateSet
pub(super) fn validate_set(
    list: &Field<'_, '_>,
    most: usize,
    errors: &mut Errors,
    check: impl Fn(&Field<'_, '_>, &mut Errors),
    key: impl Fn(&Field<'_, '_>) -> Value,
) {
    if exceeds(list, most, errors) {
        return;
    }
    list.items().for_each(|item| check(&item, errors));
    let mut seen = HashSet::new();
    for item in list.items() {
        let key = key(&item);
        if !seen.insert(key.to_string()) {
            errors.push(FieldError::duplicate(&item.path(), key));
        }
    }
}

/// Returns the key of an item that is a text.
pub(super) fn own_text(item: &Field<'_, '_>) -> Value {
    item.text().into()
}

/// Validates the keys and entries of a map. Error paths show at most `shown` bytes of a key.
///
/// upstream: pkg/apis/resource/validation#validateMap
pub(super) fn validate_map(
    map: &Field<'_, '_>,
    shown: usize,
    errors: &mut Errors,
    check_key: impl Fn(&Field<'_, '_>, &str, &mut Errors),
    check: impl Fn(&Field<'_, '_>, &mut Errors),
) {
    for (key, entry) in map.entries() {
        check_key(map, key, errors);
        if key.len() <= shown {
            check(&entry, errors);
        } else {
            let place = map.path().key(&shortened(key, shown));
            check(&Field::placed(entry.value(), place.as_str()), errors);
        }
    }
}

/// Returns a text without its middle if it is too long: `truncateIfTooLong`.
#[expect(
    clippy::indexing_slicing,
    reason = "what remains is less than the length of the text"
)]
fn shortened(text: &str, most: usize) -> String {
    let remaining = most.saturating_sub(3);
    let head = &text.as_bytes()[..remaining.div_ceil(2)];
    let tail = &text.as_bytes()[text.len() - remaining / 2..];
    format!("{}...{}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail))
}

/// Reports incompatible binding conditions: the checks of `validateDeviceBindingParameters` across conditions.
///
/// upstream: pkg/apis/resource/validation#validateDeviceBindingParameters
pub(super) fn validate_binding_conditions(parent: &Field<'_, '_>, errors: &mut Errors) {
    let (conditions, failures) = (
        parent.child("bindingConditions"),
        parent.child("bindingFailureConditions"),
    );
    let mut awaited = HashSet::new();
    for condition in conditions.items() {
        if !awaited.insert(condition.text()) {
            errors.push(condition.duplicate());
        }
    }
    let mut failing = HashSet::new();
    for condition in failures.items() {
        if !failing.insert(condition.text()) {
            errors.push(condition.duplicate());
        }
        if awaited.contains(condition.text()) {
            errors.push(condition.invalid("bindingFailureConditions must not overlap with bindingConditions"));
        }
    }
    match (conditions.is_empty(), failures.is_empty()) {
        (true, false) => {
            errors.push(conditions.invalid("bindingConditions are required to use bindingFailureConditions"));
        }
        (false, true) => {
            errors.push(failures.invalid("bindingFailureConditions are required to use bindingConditions"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(check: impl Fn(&Field<'_, '_>, &mut Errors), text: &str) -> Vec<String> {
        let (value, mut errors) = (Value::from(text), Errors::new());
        check(&Field::placed(Some(&value), "x"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_qualified_name_is_an_identifier_behind_a_domain() {
        let errors_for = |name: &str| texts(|at, errors| validate_qualified_name(at, name, errors), name);
        for name in ["a", "_A1", "example.com/a", "a/b/c"] {
            assert!(errors_for(name).is_empty(), "{name}: {:?}", errors_for(name));
        }
        assert_eq!(
            errors_for("/a"),
            [r#"x: Invalid value: "": the domain must not be empty"#]
        );
        assert_eq!(
            errors_for("a/"),
            [r#"x: Invalid value: "": the name must not be empty"#]
        );
        assert_eq!(errors_for("a-b").len(), 1);
        assert_eq!(
            errors_for(&"a".repeat(33)),
            ["x: Too long: may not be more than 32 bytes"]
        );
        assert_eq!(texts(validate_attribute_name, "").len(), 2);
    }

    #[test]
    fn a_uid_is_a_uuid_in_lower_case() {
        let errors_for = |uid: &str| texts(validate_uid, uid);
        assert!(errors_for("00000000-0000-4000-8000-00000000000a").is_empty());
        assert_eq!(
            errors_for("x"),
            [r#"x: Invalid value: "x": error validating uid: invalid UUID length: 1"#]
        );
        for normal in [
            "00000000-0000-4000-8000-00000000000A",
            "{00000000-0000-4000-8000-00000000000a}",
            "urn:uuid:00000000-0000-4000-8000-00000000000a",
            &"0".repeat(32),
        ] {
            assert!(errors_for(normal)[0].ends_with(NORMALIZED), "{normal}");
        }
        for (odd, message) in [
            ("00000000x0000-4000-8000-00000000000a", "invalid UUID format"),
            (
                "(00000000-0000-4000-8000-00000000000a)",
                "invalid bracketed UUID format",
            ),
        ] {
            assert!(errors_for(odd)[0].ends_with(message), "{odd}");
        }
    }

    #[test]
    fn a_long_key_is_shown_without_its_middle() {
        assert_eq!(shortened(&"0123456789".repeat(3), 16), "0123456...456789");
    }
}
