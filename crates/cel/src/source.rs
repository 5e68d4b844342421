//! The text of an expression and places in it, as compile errors show them.

use std::fmt::Write;

/// The text of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Source<'a> {
    text: &'a str,
}

/// The place of an error that stands nowhere in the text.
pub(crate) const NOWHERE: usize = usize::MAX;

/// A line longer than this is not repeated below an error.
const MAX_SNIPPET: usize = 16_384;

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// `ERROR: <input>:LINE:COLUMN: message`, the line, and a mark below the place. Columns count characters from one.
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
