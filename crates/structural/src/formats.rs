//! The formats of texts in schemas (`format`), as the reference checks them. Formats that are not in the table are not
//! checked.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;

use holdfast_gotext::address::{lenient_address, without_leading_zeros};
use holdfast_gotext::duration;
use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};
use holdfast_value::{SmolStr, Value};
use regex::Regex;

type Check = fn(&str) -> bool;

/// The names of text formats, without hyphens, and their checks.
const FORMS: [(&str, Check); 26] = [
    ("bsonobjectid", |text| text.len() == 24 && is_hex(text)),
    ("byte", is_base64),
    ("cidr", is_cidr),
    ("creditcard", is_credit_card),
    ("date", is_date),
    ("datetime", is_date_time),
    ("duration", is_duration),
    ("email", is_email),
    ("hexcolor", |text| {
        let digits = text.strip_prefix('#').unwrap_or(text);
        matches!(digits.len(), 3 | 6) && is_hex(digits)
    }),
    ("hostname", is_host_name),
    ("ipv4", |text| text.contains('.') && lenient_address(text).is_some()),
    ("ipv6", |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok()),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("k8slongname", |text| dns_subdomain(text).is_empty()),
    ("k8sshortname", |text| dns_label(text).is_empty()),
    ("mac", is_mac),
    ("password", |_| true),
    ("rgbcolor", is_rgb_color),
    ("ssn", is_social_security_number),
    ("uri", is_uri),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some('3'))),
    ("uuid4", |text| is_uuid(text, Some('4'))),
    ("uuid5", |text| is_uuid(text, Some('5'))),
];

/// Returns the formats in a JSON schema that are not checked for values of their type, each once, in the order of the
/// schema.
pub fn unknown_formats(schema: &Value) -> Vec<SmolStr> {
    let mut found = Vec::new();
    find_unknown(schema, 0, &mut found);
    found
}

/// Returns true if values of the type `of` are checked for the format. Without a type, the formats of texts apply.
pub(super) fn is_known_for(of: &str, format: &str) -> bool {
    match of {
        "string" | "" => check_of(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Maximum depth of schemas; deeper ones are rejected before.
const MAX_DEPTH: usize = 130;

fn find_unknown(schema: &Value, depth: usize, found: &mut Vec<SmolStr>) {
    if depth > MAX_DEPTH {
        return;
    }
    let format = schema.str_at(&["format"]).unwrap_or_default();
    let schema_type = schema.str_at(&["type"]).unwrap_or_default();
    if !format.is_empty() && !is_known_for(schema_type, format) && !found.iter().any(|known| known == format) {
        found.push(SmolStr::new(format));
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(below) = schema.get(keyword) {
            find_unknown(below, depth + 1, found);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let choices = schema.get(keyword).and_then(Value::as_list);
        for below in choices.into_iter().flat_map(|list| list.iter()) {
            find_unknown(below, depth + 1, found);
        }
    }
    let properties = schema.get("properties").and_then(Value::as_map);
    for (_, below) in properties.into_iter().flatten() {
        find_unknown(below, depth + 1, found);
    }
}

/// Returns true if the text has the format; any text has an unknown format.
pub(super) fn has_form(name: &str, text: &str) -> bool {
    check_of(name).is_none_or(|check| check(text))
}

#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
fn check_of(name: &str) -> Option<Check> {
    let plain = name.replace('-', "");
    let at = FORMS.binary_search_by(|(known, _)| (*known).cmp(&plain)).ok()?;
    Some(FORMS[at].1)
}

fn matches(regex: &'static OnceLock<Option<Regex>>, pattern: &str, text: &str) -> bool {
    let regex = regex.get_or_init(|| Regex::new(pattern).ok());
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Returns true for a block in CIDR notation, whose numbers may have leading zeros.
fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match lenient_address(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    let bits = without_leading_zeros(bits);
    let digits = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit());
    digits && bits.parse::<u16>().is_ok_and(|bits| bits <= most)
}

fn is_credit_card(text: &str) -> bool {
    static NUMBER: OnceLock<Option<Regex>> = OnceLock::new();
    const PATTERN: &str = concat!(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}",
        r"|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}",
        r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}",
        r"|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$",
    );
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(at, digit): (usize, u8)| match (at % 2, u32::from(digit - b'0')) {
        (0, digit) => digit,
        (_, digit) => digit * 2 - if digit > 4 { 9 } else { 0 },
    };
    matches(&NUMBER, PATTERN, &digits) && digits.bytes().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

#[expect(clippy::indexing_slicing, reason = "the length is looked at first")]
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| {
        let part = &bytes[range];
        let digits = part.iter().all(u8::is_ascii_digit);
        digits.then(|| part.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    static TIME: OnceLock<Option<Regex>> = OnceLock::new();
    const PATTERN: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})$";
    let split = text.split_once(['T', 't']);
    split.is_some_and(|(date, time)| is_date(date) && matches(&TIME, PATTERN, time))
}

/// Returns true for a duration in Go's format, or numbers with words such as `3 days`.
fn is_duration(text: &str) -> bool {
    static WORDS: OnceLock<Option<Regex>> = OnceLock::new();
    const WORDS_PATTERN: &str =
        r"(?i)[0-9]+\s*(ns\b|nano|us\b|µs|micro|ms\b|milli|s\b|sec|m\b|min|h\b|hr\b|hour|d\b|day|w\b|wk\b|week)";
    duration::parse(text).is_ok() || matches(&WORDS, WORDS_PATTERN, text)
}

/// Returns true for an email address, with or without a display name.
fn is_email(text: &str) -> bool {
    static ADDRESS: OnceLock<Option<Regex>> = OnceLock::new();
    const PATTERN: &str = r#"^([^<>@]*<)?([^\s<>@",;:\\()\[\]]+|"[^"]+")@([^\s<>@",;:\\()\[\]]+|\[[^\]]+\])>?$"#;
    let text = text.trim();
    let address = text.rsplit_once('<').map_or(text, |(_, address)| address);
    let local = address.split('@').next().unwrap_or_default();
    text.contains('<') == text.ends_with('>')
        && matches(&ADDRESS, PATTERN, text)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && !address.trim_end_matches('>').ends_with('.')
}

/// Returns true if the text is one label, or several of which the last has only letters. The reference's pattern has
/// two branches, of which the first accepts a hyphen as the second character and nowhere else.
fn is_host_name(text: &str) -> bool {
    static NAME: OnceLock<Option<Regex>> = OnceLock::new();
    const PATTERN: &str = concat!(
        r"^(?:[a-zA-Z0-9\p{S}\p{L}](?:-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?",
        r"|(?:[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?\.)+[a-zA-Z\p{L}]{2,63})$",
    );
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&NAME, PATTERN, text)
}

fn is_isbn10(text: &str) -> bool {
    let plain = text.replace(['-', ' '], "");
    let digit = |(at, letter): (usize, char)| match letter {
        'X' if at == 9 => Some(10),
        other => other.to_digit(10),
    };
    let digits: Option<Vec<u32>> = plain.chars().enumerate().map(digit).collect();
    digits.is_some_and(|digits| {
        digits.len() == 10 && digits.iter().zip((1..=10).rev()).map(|(a, b)| a * b).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let plain = text.replace(['-', ' '], "");
    let digits: Option<Vec<u32>> = plain.chars().map(|letter| letter.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let weighted = digits.iter().zip([1, 3].into_iter().cycle()).map(|(a, b)| a * b);
        digits.len() == 13 && weighted.sum::<u32>() % 10 == 0
    })
}

/// Returns true for six, eight or twenty octets, with colons or hyphens between octets, or dots between pairs.
fn is_mac(text: &str) -> bool {
    let split = |separator: char, letters: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let whole = parts.iter().all(|part| part.len() == letters && is_hex(part));
        (whole, parts.len() * letters / 2)
    };
    // Without separators it is one group of all digits.
    let whole = (is_hex(text) && text.len().is_multiple_of(2), text.len() / 2);
    [split(':', 2), split('-', 2), split('.', 4), whole]
        .iter()
        .any(|(whole, octets)| *whole && matches!(octets, 6 | 8 | 20))
}

fn is_rgb_color(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or_default();
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

fn is_social_security_number(text: &str) -> bool {
    static NUMBER: OnceLock<Option<Regex>> = OnceLock::new();
    matches(&NUMBER, "^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$", text)
}

/// Returns true for an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    static SCHEME: OnceLock<Option<Regex>> = OnceLock::new();
    let clean = !text.chars().any(|letter| letter.is_ascii_control() || letter == ' ');
    let escapes = text.match_indices('%').all(|(at, _)| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    clean && escapes && (text.starts_with('/') || matches(&SCHEME, "^[A-Za-z][A-Za-z0-9+.-]*:.", text))
}

/// Returns true for a UUID with or without hyphens, of the given version if there is one.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let (mut rest, mut plain) = (text, String::with_capacity(32));
    for length in [8, 4, 4, 4, 12] {
        let Some(part) = rest.get(..length).filter(|part| is_hex(part)) else {
            return false;
        };
        plain.push_str(part);
        rest = &rest[length..];
        if length != 12 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
    }
    let letter = |at: usize| plain[at..].chars().next();
    let variant = || matches!(letter(16), Some('8' | '9' | 'a' | 'b' | 'A' | 'B'));
    rest.is_empty()
        && match version {
            None => true,
            Some('3') => letter(12) == Some('3'),
            version => letter(12) == version && variant(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_stand_in_the_order_of_their_names() {
        assert!(FORMS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn texts_have_their_forms_or_not() {
        for (name, good, bad) in [
            ("byte", "aGk=", "not base64!"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2020-01-01T10:00:00.5+02:00", "2020-01-01 10:00"),
            ("duration", "1h 30m", "three"),
            ("duration", "1.5h", "h"),
            ("duration", "3 days", "days"),
            ("email", "a@example.com", "nobody"),
            ("hexcolor", "#ff00aa", "#ff0"[..3].trim()),
            ("hostname", "a.example.com", "-a"),
            ("hostname", "a-", "a.b"),
            ("hostname", "A1", "1.2.3.4"),
            ("hostname", "x.com", "x_y.com"),
            ("email", "a@b.c", "a@b.c."),
            ("mac", "001122334455", "00112233445"),
            ("isbn10", "080442957X", "080442957x"),
            ("creditcard", "4111-1111-1111-1111", "1234567812345670"),
            ("ssn", "111 22 3333", "111223333"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv4", "010.1.2.3", "010.1.2.256"),
            ("ipv4", "::ffff:010.1.2.3", "::ffff:a01"),
            ("cidr", "010.0.0.0/08", "010.0.0.0/033"),
            ("cidr", "::ffff:010.0.0.0/0104", "010.0.0.0/"),
            ("ipv6", "::1", "1.2.3.4"),
            ("ipv6", "::ffff:10.1.2.3", "::ffff:010.1.2.3"),
            ("isbn10", "0-306-40615-2", "0-306-40615-3"),
            ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
            ("mac", "00:00:5e:00:53:01", "00:00"),
            ("rgbcolor", "rgb(1, 2, 3)", "rgb(1,2)"),
            ("ssn", "111-22-3333", "1112"),
            ("uri", "https://example.com/a", "no uri"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "not-a-uuid"),
            (
                "uuid4",
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            ("k8s-short-name", "a-b", "a.b"),
        ] {
            assert!(has_form(name, good), "{name} {good}");
            assert!(!has_form(name, bad), "{name} {bad}");
        }
        assert!(has_form("anything", "at all") && !is_known_for("string", "anything"));
        assert!(is_known_for("", "date") && !is_known_for("boolean", "date") && !is_known_for("number", "int32"));
    }
}
