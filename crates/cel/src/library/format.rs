//! Named formats: `format.dns1123Label().validate(text)` returns none for a valid text, otherwise the errors.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use crate::error::EvaluationError::NoSuchOverload;
use crate::extension::format::Format;
use crate::functions::{Cost, Function};
use crate::library::url::is_request_uri;
use crate::time::Timestamp;
use crate::value::{CelValue, Outcome};

macro_rules! formats {
    ($($constant:ident $name:literal $check:expr;)+) => {
        $(static $constant: Format = Format { name: $name, check: $check };)+

        /// All formats.
        static FORMATS: &[&Format] = &[$(&$constant),+];

        pub(crate) const FUNCTIONS: &[Function] = &[
            $(Function {
                name: concat!("format.", $name),
                call: |_, _| Ok(CelValue::Format(&$constant)),
                cost: Cost::Fixed(1),
                signatures: &["() format"],
            },)+
            Function {
                name: "format.named",
                call: |_, args| named(args),
                cost: Cost::Fixed(1),
                signatures: &["(string) optional(format)"],
            },
            Function {
                name: "validate",
                call: |_, args| validate(args),
                cost: Cost::Validate,
                signatures: &["format.(string) optional(list(string))"],
            },
        ];
    };
}

formats! {
    DNS1123_LABEL "dns1123Label" dns1123_label;
    DNS1123_SUBDOMAIN "dns1123Subdomain" dns1123_subdomain;
    DNS1035_LABEL "dns1035Label" dns1035_label;
    QUALIFIED_NAME "qualifiedName" qualified_name;
    DNS1123_LABEL_PREFIX "dns1123LabelPrefix" |text| dns1123_label(&masked(text));
    DNS1123_SUBDOMAIN_PREFIX "dns1123SubdomainPrefix" |text| dns1123_subdomain(&masked(text));
    DNS1035_LABEL_PREFIX "dns1035LabelPrefix" |text| dns1035_label(&masked(text));
    LABEL_VALUE "labelValue" label_value;
    URI "uri" |text| messages(is_request_uri(text), "does not match the URI format");
    UUID "uuid" |text| messages(is_uuid(text), "does not match the UUID format");
    BYTE "byte" |text| messages(is_base64(text), "invalid base64");
    DATE "date" |text| messages(Timestamp::parse_date(text).is_some(), "invalid date");
    DATETIME "datetime" |text| messages(Timestamp::parse(text).is_some(), "invalid datetime");
}

fn named(args: &[CelValue]) -> Outcome {
    let name = args[0].as_str().ok_or(NoSuchOverload)?;
    let found = FORMATS.iter().find(|format| format.name == name);
    Ok(found.map_or(CelValue::NONE, |format| CelValue::some(CelValue::Format(format))))
}

fn validate(args: &[CelValue]) -> Outcome {
    let [CelValue::Format(format), CelValue::String(text)] = args else {
        return Err(NoSuchOverload);
    };
    let errors = (format.check)(text);
    if errors.is_empty() {
        return Ok(CelValue::NONE);
    }
    Ok(CelValue::some(CelValue::list(
        errors.into_iter().map(CelValue::text).collect(),
    )))
}

fn messages(valid: bool, message: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![message.to_owned()] }
}

/// Returns the text for validation. A prefix for generated names may end with a dash, which is replaced by a letter.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(start) if !start.is_empty() => format!("{start}a"),
        _ => text.to_owned(),
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                         must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
                          used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                         with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and \
                         '/' (e.g. 'example.com/MyName')";

/// True if `text` begins and ends with letters or digits of `edge` and contains only `edge` and `inner`.
fn framed(text: &str, edge: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|byte| edge(*byte) || inner.contains(byte))
        }
        _ => false,
    }
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn bounded(text: &str, most: usize, valid: bool, message: &str) -> Vec<String> {
    let long = (text.len() > most).then(|| format!("must be no more than {most} bytes"));
    long.into_iter().chain((!valid).then(|| message.to_owned())).collect()
}

fn dns1123_label(text: &str) -> Vec<String> {
    bounded(text, 63, framed(text, lower, b"-"), LABEL)
}

fn dns1123_subdomain(text: &str) -> Vec<String> {
    let valid = text.split('.').all(|label| framed(label, lower, b"-"));
    bounded(text, 253, valid, SUBDOMAIN)
}

fn dns1035_label(text: &str) -> Vec<String> {
    let valid = framed(text, lower, b"-") && text.starts_with(|first: char| first.is_ascii_lowercase());
    bounded(text, 63, valid, LABEL_1035)
}

fn label_value(text: &str) -> Vec<String> {
    bounded(text, 63, text.is_empty() || framed(text, alphanumeric, b"-_."), VALUE)
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => return vec![QUALIFIED.to_owned()],
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            errors.extend(
                dns1123_subdomain(prefix)
                    .into_iter()
                    .map(|error| format!("prefix part {error}")),
            );
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !framed(name, alphanumeric, b"-_.") {
        errors.push(NAME.to_owned());
    }
    errors
}

fn is_uuid(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-').count();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    digits == 32
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
        && (groups == [8, 4, 4, 4, 12] || groups == [32])
}

fn is_base64(text: &str) -> bool {
    use base64::Engine;
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_same_texts_as_kubernetes() {
        let cases = [
            ("dns1123Label", "my-name", true),
            ("dns1123Label", "My", false),
            ("dns1123LabelPrefix", "my-", true),
            ("dns1123Subdomain", "a.b-c.d", true),
            ("dns1123Subdomain", "a..b", false),
            ("dns1035Label", "1a", false),
            ("qualifiedName", "example.com/Name", true),
            ("qualifiedName", "a/b/c", false),
            ("labelValue", "", true),
            ("labelValue", "-", false),
            ("uri", "https://a/b", true),
            ("uri", "x", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("byte", "aGk=", true),
            ("byte", "a", false),
            ("date", "2024-02-30", false),
            ("datetime", "2024-02-03T00:00:00Z", true),
        ];
        for (name, text, valid) in cases {
            let format = FORMATS.iter().find(|format| format.name == name);
            let errors = format.map(|format| (format.check)(text));
            assert_eq!(errors.map(|errors| errors.is_empty()), Some(valid), "{name} {text}");
        }
    }
}
