//! Text formats that many fields share: DNS names, qualified names, label values, keys of configuration.
//!
//! Each function returns the errors of a text, in the words that clients see; nothing if it is well-formed. See
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

use std::borrow::Cow;

use holdfast_gotext::quote::quote;

use crate::field_error::{FieldError, FieldPath};

/// Validation errors of a text; empty if it is valid.
pub type Messages = Vec<Cow<'static, str>>;

const UNDERSCORED_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

const DNS_LABEL_LENGTH: usize = 63;
const DNS_SUBDOMAIN_LENGTH: usize = 253;
const NAME_PART_LENGTH: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD_SUBDOMAIN: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
     must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
     '*.example.com', regex used for validation is \
     '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const TWO_SLASHES: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
     is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const DOMAIN_PREFIXED: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
const HTTP_PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Validates a DNS label of RFC 1123: lower case letters, digits and inner hyphens, at most 63.
pub fn dns_label(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_LABEL_LENGTH {
        messages.push("must be no more than 63 characters".into());
    }
    if !is_label(text.as_bytes()) {
        // A subdomain where a label is expected is an error of its own.
        messages.push(
            if is_subdomain(text) {
                "must not contain dots"
            } else {
                LABEL
            }
            .into(),
        );
    }
    messages
}

/// Validates a DNS label of RFC 1035: like [`dns_label`], but beginning with a letter.
pub fn dns_label_1035(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_LABEL_LENGTH {
        messages.push("must be no more than 63 characters".into());
    }
    if !is_label(text.as_bytes()) || text.starts_with(|first: char| first.is_ascii_digit()) {
        messages.push(LABEL_1035.into());
    }
    messages
}

/// Validates a DNS subdomain of RFC 1123: DNS labels with dots between them, at most 253 characters.
pub fn dns_subdomain(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_SUBDOMAIN_LENGTH {
        messages.push("must be no more than 253 characters".into());
    }
    if !is_subdomain(text) {
        messages.push(SUBDOMAIN.into());
    }
    messages
}

/// Validates a DNS subdomain whose labels may begin with `_` and contain it.
pub fn underscored_subdomain(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_SUBDOMAIN_LENGTH {
        messages.push("must be no more than 253 characters".into());
    }
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label).as_bytes();
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        ends(label.first()) && ends(label.last()) && label.iter().all(inner)
    };
    if !text.split('.').all(is_label) {
        messages.push(UNDERSCORED_SUBDOMAIN.into());
    }
    messages
}

/// Validates a DNS subdomain after `*.`.
pub fn wildcard_subdomain(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_SUBDOMAIN_LENGTH {
        messages.push("must be no more than 253 characters".into());
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(WILDCARD_SUBDOMAIN.into());
    }
    messages
}

/// Validates a qualified name such as `example.com/MyName` or `MyName`: the keys of labels and annotations, taints,
/// conditions.
pub fn qualified_name(text: &str) -> Messages {
    let mut messages = Messages::new();
    let slash = text.bytes().position(|byte| byte == b'/');
    let name = match slash.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        None => text,
        Some((_, name)) if name.bytes().any(|byte| byte == b'/') => return vec![TWO_SLASHES.into()],
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".into());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > DNS_SUBDOMAIN_LENGTH {
                messages.push("prefix part must be no more than 253 bytes".into());
            }
            if !is_subdomain(prefix) {
                messages.push(format!("prefix part {SUBDOMAIN}").into());
            }
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".into());
    } else if name.len() > NAME_PART_LENGTH {
        messages.push("name part must be no more than 63 bytes".into());
    }
    if !is_name_part(name.as_bytes()) {
        messages.push(NAME_PART.into());
    }
    messages
}

/// Validates the value of a label: empty, or like the name part of a qualified name.
pub fn label_value(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > NAME_PART_LENGTH {
        messages.push("must be no more than 63 bytes".into());
    }
    if !text.is_empty() && !is_name_part(text.as_bytes()) {
        messages.push(LABEL_VALUE.into());
    }
    messages
}

/// Validates a key of a ConfigMap or Secret, which can be the name of a file.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsConfigMapKey
pub fn config_key(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > DNS_SUBDOMAIN_LENGTH {
        messages.push("must be no more than 253 characters".into());
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.as_bytes().iter().all(allowed) {
        messages.push(CONFIG_KEY.into());
    }
    match text {
        "." => messages.push("must not be '.'".into()),
        ".." => messages.push("must not be '..'".into()),
        _ if text.starts_with("..") => messages.push("must not start with '..'".into()),
        _ => {}
    }
    messages
}

/// Validates a name that can be a segment of a path.
pub fn path_segment(text: &str) -> Messages {
    let mut messages = Messages::new();
    match text {
        "." => return vec!["may not be '.'".into()],
        ".." => return vec!["may not be '..'".into()],
        _ => {}
    }
    if text.contains('/') {
        messages.push("may not contain '/'".into());
    }
    if text.contains('%') {
        messages.push("may not contain '%'".into());
    }
    messages
}

/// Rejects names under which no object can be stored: an empty name, or one with a meaning in paths.
///
/// upstream: k8s.io/apiserver/pkg/registry/generic/registry#NamespaceKeyFunc
///
/// # Errors
/// If the name is rejected, in the words of the reference.
pub fn check_key(namespaced: bool, namespace: &str, name: &str) -> Result<(), String> {
    if namespaced && namespace.is_empty() {
        return Err("Namespace parameter required.".to_owned());
    }
    if name.is_empty() {
        return Err("Name parameter required.".to_owned());
    }
    match path_segment(name).as_slice() {
        [] => Ok(()),
        messages => Err(format!(
            "Name parameter invalid: {}: {}",
            quote(name),
            messages.join(";")
        )),
    }
}

/// Validates a path below a domain, such as `acme.io/foo`.
pub fn domain_prefixed_path(field: &FieldPath, text: &str) -> Vec<FieldError> {
    if text.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let parts = text
        .split_once('/')
        .filter(|(domain, path)| !domain.is_empty() && !path.is_empty());
    let Some((domain, path)) = parts else {
        return vec![FieldError::invalid(field, text, DOMAIN_PREFIXED)];
    };
    let messages = dns_subdomain(domain).into_iter();
    let mut errors: Vec<_> = messages
        .map(|message| FieldError::invalid(field, domain, message))
        .collect();
    let of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(of_path) {
        errors.push(FieldError::invalid(field, path, HTTP_PATH));
    }
    errors
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &[u8]) -> bool {
    let ([first, .., last] | [first @ last]) = text else {
        return false;
    };
    is_lower_alphanumeric(*first)
        && is_lower_alphanumeric(*last)
        && text.iter().all(|&byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    // Names are short: checking each byte costs less than a search.
    text.as_bytes().split(|byte| *byte == b'.').all(is_label)
}

fn is_name_part(text: &[u8]) -> bool {
    let ([first, .., last] | [first @ last]) = text else {
        return false;
    };
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && text.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_a_domain_has_both() {
        let message = |text: &str| {
            let errors = domain_prefixed_path(&FieldPath::new("key"), text);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(message("acme.io/a/b%2F~x"), "");
        assert_eq!(message(""), "key: Required value");
        for text in ["reason", "/a", "acme.io/"] {
            assert_eq!(
                message(text),
                format!("key: Invalid value: {text:?}: {DOMAIN_PREFIXED}")
            );
        }
        assert_eq!(message("A/b"), format!("key: Invalid value: \"A\": {SUBDOMAIN}"));
        assert_eq!(message("a.b/c d"), format!("key: Invalid value: \"c d\": {HTTP_PATH}"));
    }

    #[test]
    fn labels_and_subdomains_are_distinguished() {
        assert!(dns_label("my-name-1").is_empty());
        assert!(dns_label("1").is_empty());
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns_label("Bad_"), [LABEL]);
        assert_eq!(dns_label(""), [LABEL]);
        assert_eq!(dns_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert!(dns_subdomain("a.b-c.d").is_empty());
        assert_eq!(dns_subdomain("a..b"), [SUBDOMAIN]);
        assert_eq!(dns_subdomain("-a"), [SUBDOMAIN]);
        assert_eq!(dns_label_1035("1a"), [LABEL_1035]);
        assert!(wildcard_subdomain("*.example.com").is_empty());
        assert_eq!(wildcard_subdomain("*"), [WILDCARD_SUBDOMAIN]);
    }

    #[test]
    fn qualified_names_have_one_prefix_and_a_name() {
        for good in ["MyName", "example.com/MyName", "a", "a_b.c-d"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        assert_eq!(qualified_name(""), ["name part must be non-empty", NAME_PART]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("a/b/c"), [TWO_SLASHES]);
        assert_eq!(qualified_name("Bad_/a"), [format!("prefix part {SUBDOMAIN}")]);
        assert_eq!(qualified_name("a b"), [NAME_PART]);
        assert_eq!(
            qualified_name(&"a".repeat(64)),
            ["name part must be no more than 63 bytes"]
        );
    }

    #[test]
    fn keys_of_configuration_can_be_files() {
        for good in ["a", ".hidden", "A_b-c.d", "..."] {
            assert_eq!(config_key(good).is_empty(), good != "...", "{good}");
        }
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(config_key("bad key"), [CONFIG_KEY]);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }
}
