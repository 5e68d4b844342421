//! Text of an expression, with positions as compile errors display them.

use std::fmt::Write;

/// Text of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Source<'a> {
    text: &'a str,
}

/// Offset of an error without a position in the text.
pub(crate) const NOWHERE: usize = usize::MAX;

/// Maximum length of a line that is repeated below an error.
const MAX_SNIPPET: usize = 16_384;

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// Formats `ERROR: <input>:LINE:COLUMN: message`, the line, and a marker below the position. Columns count
    /// characters from one.
    pub(crate) fn describe(&self, offset: usize, message: &str) -> String {
        if offset == NOWHERE {
            return format!("ERROR: <input>:-1:0: {message}");
        }
        if self.text.is_empty() {
            // Without a line there is no column, which the reference counts as the one before the first.
            return format!("ERROR: <input>:1:0: {message}");
        }
        let before = &self.text[..offset.min(self.text.len())];
        let line_number = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = self.text[start..before.len()].chars().count();
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        let mut shown = format!("ERROR: <input>:{line_number}:{}: {message}", column + 1);
        if line.len() <= MAX_SNIPPET {
            let line = line.replace('\t', " ");
            let mut characters = line.chars();
            let mut mark = String::new();
            for character in characters.by_ref().take(column) {
                mark.push(if character.len_utf8() > 1 { '．' } else { '.' });
            }
            mark.push(match characters.next() {
                Some(character) if character.len_utf8() > 1 => '＾',
                _ => '^',
            });
            let _ = write!(shown, "\n | {line}\n | {mark}");
        }
        shown
    }
}

/// Maximum number of reported errors.
pub(crate) const MAX_ISSUES: usize = 100;

/// Error with its position.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Prefix of syntax errors.
const SYNTAX: &str = "Syntax error: ";

impl Issue {
    pub(crate) fn from_syntax(offset: usize, message: &str) -> Self {
        Self {
            offset,
            message: format!("{SYNTAX}{message}"),
        }
    }

    pub(crate) fn is_of_syntax(&self) -> bool {
        self.message.starts_with(SYNTAX)
    }

    /// Creates an error about the whole text.
    pub(crate) fn nowhere(message: String) -> Self {
        Self {
            offset: NOWHERE,
            message,
        }
    }
}

/// Formats all issues as one text, ordered by position.
pub(crate) fn describe(text: &str, mut issues: Vec<Issue>) -> String {
    let source = Source::new(text);
    // An issue without a position comes first.
    issues.sort_by_key(|issue| issue.offset.wrapping_add(1));
    let shown: Vec<String> = issues
        .iter()
        .take(MAX_ISSUES)
        .map(|issue| source.describe(issue.offset, &issue.message))
        .collect();
    shown.join("\n")
}
