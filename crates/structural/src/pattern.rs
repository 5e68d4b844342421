//! Regular expressions of schemas.

use std::sync::OnceLock;

use holdfast_cel::PatternMemory;
use holdfast_value::SmolStr;

/// A regular expression, compiled on first use.
#[derive(Debug)]
pub struct Pattern {
    text: SmolStr,
    memory: PatternMemory,
    compiled: OnceLock<Result<holdfast_cel::Pattern, PatternError>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Syntax error in a regular expression.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Creates the expression `text`, which is compiled into `memory`.
    pub fn new(text: &str, memory: &PatternMemory) -> Self {
        Self {
            text: SmolStr::new(text),
            memory: memory.clone(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns the expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the expression matches anywhere in `text`. An invalid expression matches nothing.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled().as_ref().is_ok_and(|regex| regex.is_match(text))
    }

    /// Returns the syntax error of the expression, if it has one. Only stored CRDs have such expressions.
    pub fn error(&self) -> Option<&PatternError> {
        self.compiled().as_ref().err()
    }

    fn compiled(&self) -> &Result<holdfast_cel::Pattern, PatternError> {
        self.compiled
            .get_or_init(|| holdfast_cel::Pattern::compile(&self.text, &self.memory).map_err(PatternError))
    }

    /// Checks the syntax of an expression without compiling it.
    ///
    /// # Errors
    /// If the expression is invalid.
    pub fn check(text: &str) -> Result<(), PatternError> {
        holdfast_cel::check_pattern(text).map_err(PatternError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_go_and_match_anywhere() {
        for (pattern, text, matches) in [
            (r"^\d+%$", "10%", true),
            (r"^\d+%$", "ten", false),
            (r"^\d$", "٣", false),
            (r"b\b", "ab!", true),
        ] {
            assert_eq!(
                Pattern::new(pattern, &PatternMemory::default()).matches(text),
                matches,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn invalid_pattern_is_reported_and_matches_nothing() {
        assert!(Pattern::check("a(").is_err());
        assert!(Pattern::check("(?:a{1000}){1000}").is_err());
        assert!(Pattern::check(r"\pL{1000}(?:[^a]{500}){2}").is_ok());
        assert!(!Pattern::new("a(", &PatternMemory::default()).matches("a("));
    }
}
