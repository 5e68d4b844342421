//! Regular expressions of schemas: Go's syntax, read by a crate whose syntax differs in a few places.

use std::sync::OnceLock;

use holdfast_value::SmolStr;
use regex::{Regex, RegexBuilder};

/// How large a compiled expression may be, in bytes.
const MAX_SIZE: usize = 4 << 20;

/// A regular expression, compiled when it is first asked for.
#[derive(Debug)]
pub struct Pattern {
    text: SmolStr,
    compiled: OnceLock<Option<Regex>>,
}

/// Why a regular expression cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// The expression `text`.
    pub fn new(text: &str) -> Self {
        Self {
            text: SmolStr::new(text),
            compiled: OnceLock::new(),
        }
    }

    /// The expression as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the expression matches anywhere in `text`. One that cannot be read matches nothing.
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| compile(&self.text).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// Whether the expression can be read.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(text: &str) -> Result<(), PatternError> {
        compile(text).map(drop)
    }
}

fn compile(text: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(&translate(text))
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_SIZE)
        .build()
        .map_err(|error| PatternError(format!("error parsing regexp: {}", reason(&error))))
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
        error => error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .replace("error: ", ""),
    }
}

/// Go's classes `\d`, `\s`, `\w` and the boundary `\b` know ASCII alone; `\Q…\E` quotes; `\C` is not there; `\z` is.
fn translate(text: &str) -> String {
    let (mut out, mut letters) = (String::with_capacity(text.len() + 8), text.chars().peekable());
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(class @ ('d' | 's' | 'w' | 'D' | 'S' | 'W')) => out.push_str(ascii_class(class, in_class)),
                Some(bound @ ('b' | 'B')) if !in_class => {
                    out.push_str("(?-u:\\");
                    out.push(bound);
                    out.push(')');
                }
                Some('Q') => quote(&mut letters, &mut out),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if letters.peek() == Some(&'^') {
                    out.push('^');
                    letters.next();
                }
                // A bracket that stands first is a letter of the class.
                if letters.peek() == Some(&']') {
                    out.push_str("\\]");
                    letters.next();
                }
            }
            '[' if letters.peek() == Some(&':') => out.push('['),
            // Within a class these mean nothing to Go.
            '[' => out.push_str("\\["),
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(letter);
            }
            '-' if in_class && letters.peek() == Some(&'-') => out.push_str("\\-"),
            ']' if in_class => {
                in_class = out.ends_with(':') && out.rfind("[:").is_some_and(|at| !out[at + 2..].contains(']'));
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

fn ascii_class(class: char, in_class: bool) -> &'static str {
    match (class, in_class) {
        ('d', true) => "0-9",
        ('d', false) => "[0-9]",
        ('s', true) => "\\t\\n\\f\\r ",
        ('s', false) => "[\\t\\n\\f\\r ]",
        ('w', true) => "0-9A-Za-z_",
        ('w', false) => "[0-9A-Za-z_]",
        ('D', _) => "[^0-9]",
        ('S', _) => "[^\\t\\n\\f\\r ]",
        _ => "[^0-9A-Za-z_]",
    }
}

fn quote(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut quoted = String::new();
    while let Some(letter) = letters.next() {
        if letter == '\\' && letters.peek() == Some(&'E') {
            letters.next();
            break;
        }
        quoted.push(letter);
    }
    out.push_str(&regex::escape(&quoted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+%$", "10%", true),
            (r"^\d+%$", "ten", false),
            (r"^\d$", "٣", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a[]+$", "[", true),
            (r"^[a&&b]+$", "&", true),
            (r"b\b", "ab!", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_and_matches_nothing() {
        assert!(Pattern::check("a(").is_err());
        assert!(Pattern::check("(?:a{1000}){1000}").is_err());
        assert!(!Pattern::new("a(").matches("a("));
    }
}
