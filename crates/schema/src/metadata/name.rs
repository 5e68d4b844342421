//! The names of objects, by the rule of their resource.

use std::borrow::Cow;

use super::formats::{self, Messages};

/// Rule for the names of the objects of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), at most 253 characters: the rule of most kinds.
    Subdomain,
    /// A DNS label (RFC 1123), at most 63 characters.
    Label,
    /// A DNS label that begins with a letter (RFC 1035), at most 63 characters.
    Label1035,
    /// A DNS subdomain of at most 253 bytes, in the words of declarative validation.
    LongName,
    /// Any path segment: neither `.` nor `..`, without `/` and `%`.
    PathSegment,
    /// Names that the kind's own validation accepts.
    Own,
}

impl NameRule {
    /// Validates `name` as the name of an object.
    ///
    /// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateNameFunc
    pub fn check(self, name: &str) -> Messages {
        match self {
            NameRule::Subdomain => formats::dns_subdomain(name),
            NameRule::LongName => {
                let errors = formats::dns_subdomain(name).into_iter();
                errors
                    .map(|error| match &*error {
                        "must be no more than 253 characters" => "must be no more than 253 bytes".into(),
                        _ => error,
                    })
                    .collect()
            }
            NameRule::Label => formats::dns_label(name),
            NameRule::Label1035 => formats::dns_label_1035(name),
            NameRule::PathSegment => formats::path_segment(name),
            NameRule::Own => Messages::new(),
        }
    }

    /// Validates `prefix` as the beginning of a name, from `generateName`: a dash at the end is allowed, since a letter
    /// or a digit follows.
    ///
    /// upstream: k8s.io/apimachinery/pkg/api/validation#maskTrailingDash
    pub fn check_prefix(self, prefix: &str) -> Messages {
        if self == NameRule::PathSegment {
            return match prefix {
                "." | ".." => Messages::new(),
                _ => self.check(prefix),
            };
        }
        self.check(&without_dash(prefix))
    }
}

/// Returns the beginning of a name in the form that name rules check: the reference replaces a dash at the end,
/// together with the byte before it, by one letter, whatever that byte is.
pub(super) fn without_dash(prefix: &str) -> Cow<'_, str> {
    match prefix.as_bytes().strip_suffix(b"-").and_then(<[u8]>::split_last) {
        Some((_, head)) => format!("{}a", String::from_utf8_lossy(head)).into(),
        None => prefix.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_may_be_cut_at_a_dash() {
        assert!(NameRule::Subdomain.check_prefix("pre-").is_empty());
        assert!(!NameRule::Subdomain.check("pre-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("Bad_").is_empty());
        assert!(NameRule::Subdomain.check_prefix("G-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("Good-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("-").is_empty());
        assert!(NameRule::PathSegment.check_prefix("system:node-").is_empty());
        assert!(!NameRule::PathSegment.check_prefix("%-").is_empty());
        assert_eq!(
            NameRule::LongName.check(&"a".repeat(254)),
            ["must be no more than 253 bytes"]
        );
    }
}
