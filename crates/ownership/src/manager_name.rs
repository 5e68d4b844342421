//! Name of the field manager of a write.

use holdfast_resource::{FieldError, FieldPath};
use holdfast_value::SmolStr;

use holdfast_gotext::quote::is_printable;

/// Maximum length of a field manager's name in bytes.
pub const MANAGER_NAME_LIMIT: usize = 128;

/// Returns the manager of a write other than apply: the parameter `fieldManager`, or if it is empty the part of the
/// User-Agent before its first slash. Empty if both are; entries then name it `unknown`.
///
/// ```
/// use holdfast_ownership::manager_name;
///
/// assert_eq!(manager_name("", "kubectl/v1.36.0 (linux/amd64)"), "kubectl");
/// assert_eq!(manager_name("argocd", "kubectl/v1.36.0"), "argocd");
/// ```
pub fn manager_name(field_manager: &str, user_agent: &str) -> SmolStr {
    if !field_manager.is_empty() {
        return SmolStr::new(field_manager);
    }
    let agent = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in agent.chars().filter(|character| is_printable(*character)) {
        if name.len() + character.len_utf8() <= MANAGER_NAME_LIMIT {
            name.push(character);
        }
    }
    SmolStr::from(name)
}

/// Validates the parameter `fieldManager`. An empty one counts as missing.
pub fn validate_manager_name(field_manager: &str, field: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if field_manager.len() > MANAGER_NAME_LIMIT {
        errors.push(FieldError::too_long(field, MANAGER_NAME_LIMIT));
    }
    for (at, character) in field_manager.char_indices() {
        if !is_printable(character) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
            errors.push(FieldError::invalid(field, field_manager, detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_beats_the_user_agent() {
        for (parameter, agent, expected) in [
            ("tool", "kubectl/v1.36.2", "tool"),
            ("", "kubectl/v1.36.2 (linux/amd64) kubernetes/abc", "kubectl"),
            ("", "my-controller", "my-controller"),
            ("", "/leading", ""),
            ("", "", ""),
            ("", "a\u{7}b\u{200b}c d/1", "abc d"),
        ] {
            assert_eq!(manager_name(parameter, agent), expected);
        }
    }

    #[test]
    fn a_long_user_agent_is_cut() {
        let agent = "é".repeat(100);
        assert_eq!(manager_name("", &agent).len(), 128);
    }

    #[test]
    fn names_are_bounded_and_printable() {
        let field = FieldPath::new("fieldManager");
        let messages = |name: &str| -> Vec<String> {
            validate_manager_name(name, &field)
                .iter()
                .map(FieldError::message)
                .collect()
        };
        assert_eq!(messages("Müller & Söhne/ops v2"), Vec::<String>::new());
        assert_eq!(messages(&"m".repeat(128)), Vec::<String>::new());
        assert_eq!(messages(&"m".repeat(129)), ["Too long: may not be more than 128 bytes"]);
        assert_eq!(
            messages("tab\there"),
            ["Invalid value: \"tab\\there\": invalid character U+0009 (at position 3)"]
        );
    }
}
