//! The names of objects, by the rule of their resource.

use super::formats::{self, Faults};
use crate::NameRule;

impl NameRule {
    /// What is wrong with `name` as the name of an object.
    pub fn check(self, name: &str) -> Faults {
        match self {
            NameRule::Subdomain => formats::dns_subdomain(name),
            NameRule::LongName => {
                let faults = formats::dns_subdomain(name).into_iter();
                faults
                    .map(|fault| match &*fault {
                        "must be no more than 253 characters" => "must be no more than 253 bytes".into(),
                        _ => fault,
                    })
                    .collect()
            }
            NameRule::Label => formats::dns_label(name),
            NameRule::Label1035 => formats::dns_label_1035(name),
            NameRule::PathSegment => formats::path_segment(name),
            NameRule::Own => Faults::new(),
        }
    }

    /// What is wrong with `prefix` as the beginning of a name, as `generateName` holds it: a dash at the end is fine,
    /// since a letter or a digit follows.
    pub fn check_prefix(self, prefix: &str) -> Faults {
        match prefix.strip_suffix('-') {
            Some(head) if !head.is_empty() => self.check(&format!("{head}a")),
            _ if self == NameRule::PathSegment && matches!(prefix, "." | "..") => Faults::new(),
            _ => self.check(prefix),
        }
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
        assert!(NameRule::PathSegment.check_prefix("system:node-").is_empty());
        assert_eq!(
            NameRule::LongName.check(&"a".repeat(254)),
            ["must be no more than 253 bytes"]
        );
    }
}
