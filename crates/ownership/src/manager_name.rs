//! Name of the field manager of a write.

use holdfast_gotext::quote::is_printable;
use holdfast_schema::metadata::FIELD_MANAGER_MAX_BYTES;
use holdfast_value::SmolStr;

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
        if name.len() + character.len_utf8() <= FIELD_MANAGER_MAX_BYTES {
            name.push(character);
        }
    }
    SmolStr::from(name)
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
}
