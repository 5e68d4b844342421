//! Regular expressions in the syntax of Go, run by the crate `regex`.
//!
//! Both are automata without backtracking; they differ in how patterns are written. `\d`, `\w`, `\s` and `\b` mean ASCII
//! in Go, `\Q…\E` quotes, `\z` ends a text, and `\C` is refused by neither: it is taken as any character.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;
use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        call: find,
        cost: Cost::Find,
        signatures: &["string.(string) string"],
    },
    Function {
        name: "findAll",
        call: find_all,
        cost: Cost::Find,
        signatures: &["string.(string) list(string)", "string.(string, int) list(string)"],
    },
];

/// How many patterns are kept compiled.
const KEPT: usize = 256;

/// The most memory that one compiled pattern may take, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// Compiled patterns. Each is compiled once; when too many gather, all are forgotten.
#[derive(Debug, Default)]
pub(crate) struct RegexCache {
    compiled: Mutex<HashMap<SmolStr, Arc<Regex>>>,
}

impl RegexCache {
    /// The compiled `pattern`.
    pub(crate) fn get(&self, pattern: &str) -> Outcome<Arc<Regex>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = compiled.get(pattern) {
            return Ok(found.clone());
        }
        let regex = Arc::new(compile(pattern).map_err(EvaluationError::failed)?);
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(SmolStr::new(pattern), regex.clone());
        Ok(regex)
    }
}

/// Compiles a pattern of Go. The error is told as Go tells it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    compile_pattern(pattern, PATTERN_SIZE)
}

/// Compiles a regular expression in Go's syntax, as schemas and expressions have them. It may take up to `most` bytes.
///
/// # Errors
/// Why it cannot be read, in the words of Go (`error parsing regexp: …`).
pub fn compile_pattern(pattern: &str, most: usize) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    regex::RegexBuilder::new(&translated)
        .size_limit(most)
        .dfa_size_limit(most)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("error parsing regexp: expression nests too deeply: `{pattern}`")
            }
            _ => format!("error parsing regexp: {}: `{pattern}`", reason(pattern)),
        })
}

/// What Go would most likely say is wrong with a pattern.
fn reason(pattern: &str) -> &'static str {
    let (mut parens, mut in_class, mut escaped) = (0_i32, false, false);
    for character in pattern.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => parens += 1,
            ')' if !in_class => parens -= 1,
            _ => {}
        }
    }
    match (parens, in_class, escaped) {
        (_, _, true) => "trailing backslash at end of expression",
        (_, true, _) => "missing closing ]",
        (1.., ..) => "missing closing )",
        (..=-1, ..) => "unexpected )",
        _ if pattern.starts_with(['*', '+', '?']) => "missing argument to repetition operator",
        _ => "invalid escape sequence",
    }
}

/// From Go's syntax to that of the crate.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut characters = pattern.char_indices().peekable();
    let mut in_class = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                let Some((_, escaped)) = characters.next() else {
                    return Err(format!(
                        "error parsing regexp: trailing backslash at end of expression: `{pattern}`"
                    ));
                };
                match escaped {
                    'd' if in_class => out.push_str("0-9"),
                    'd' => out.push_str("[0-9]"),
                    'D' => out.push_str("[^0-9]"),
                    'w' if in_class => out.push_str("0-9A-Za-z_"),
                    'w' => out.push_str("[0-9A-Za-z_]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' if in_class => out.push_str(r"\t\n\f\r "),
                    's' => out.push_str(r"[\t\n\f\r ]"),
                    'S' => out.push_str(r"[^\t\n\f\r ]"),
                    'b' => out.push_str(r"(?-u:\b)"),
                    // The ASCII form of the crate may split characters; this one says the same between characters.
                    'B' => out.push_str(r"\B"),
                    'C' => out.push_str("(?s:.)"),
                    'Q' => {
                        let rest = &pattern[at + 2..];
                        let (quoted, length) = match rest.find("\\E") {
                            Some(end) => (&rest[..end], end + 2),
                            None => (rest, rest.len()),
                        };
                        out.push_str(&regex::escape(quoted));
                        while characters.next_if(|(next, _)| *next < at + 2 + length).is_some() {}
                    }
                    other => {
                        out.push('\\');
                        out.push(other);
                    }
                }
            }
            '[' if in_class => {
                // A bracket within a class is itself, unless it opens a named class.
                if pattern[at..].starts_with("[:") {
                    out.push('[')
                } else {
                    out.push_str("\\[")
                }
                if pattern[at..].starts_with("[:") {
                    let end = pattern[at..].find(":]").map_or(at, |length| at + length + 1);
                    while let Some((_, inner)) = characters.next_if(|(next, _)| *next <= end) {
                        out.push(inner);
                    }
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if let Some((_, caret)) = characters.next_if(|(_, next)| *next == '^') {
                    out.push(caret);
                }
                // The first bracket of a class is itself.
                if characters.next_if(|(_, next)| *next == ']').is_some() {
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // The crate gives these a meaning within classes that Go does not.
            '&' | '~' | '-' if in_class && pattern[at + 1..].starts_with(character) => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

fn subject_and_pattern(args: &[CelValue]) -> Outcome<(&str, &str)> {
    match args {
        [CelValue::String(subject), CelValue::String(pattern), ..] => Ok((subject, pattern)),
        _ => Err(NoSuchOverload),
    }
}

/// `subject.matches(pattern)`.
pub(crate) fn matches(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    Ok(CelValue::Bool(context.regexes.get(pattern)?.is_match(subject)))
}

fn find(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    let found = regex.find(subject).map_or("", |found| found.as_str());
    Ok(CelValue::String(SmolStr::new(found)))
}

fn find_all(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let most = match args.get(2) {
        None => usize::MAX,
        // A negative bound is none.
        Some(CelValue::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => return Err(NoSuchOverload),
    };
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    let found = regex.find_iter(subject).take(most);
    Ok(CelValue::list(
        found
            .map(|found| CelValue::String(SmolStr::new(found.as_str())))
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w$", "ä", false),
            (r"\bcat\b", "a cat", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[\w.]+$", "a.b", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[]a]+$", "]a", true),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[a&&b]+$", "&", true),
            (r"b\b", "ab!", true),
            (r"^[a[]+$", "[a", true),
            (r"^\C$", "x", true),
            (r"(?i)ABC", "abc", true),
            (r"^a\z", "a", true),
        ];
        for (pattern, subject, expected) in cases {
            let regex = compile(pattern);
            assert_eq!(
                regex.map(|regex| regex.is_match(subject)),
                Ok(expected),
                "{pattern} {subject}"
            );
        }
    }

    #[test]
    fn patterns_that_are_none_are_told_and_large_ones_refused() {
        for pattern in ["(", "[a", "a)", "*a", "\\", "(?=a)", r"\1", "((a{1000}){1000}){1000}"] {
            let told = compile(pattern).err().unwrap_or_default();
            assert!(told.starts_with("error parsing regexp: "), "{pattern}: {told}");
        }
    }
}
