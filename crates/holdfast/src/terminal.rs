//! Texts from elsewhere on a terminal.
//!
//! Messages of servers, names of managers and manifests may contain characters that move the cursor, change colors, or
//! reverse the direction of the text. What a person reads would then differ from what is there.

/// Returns true if the character changes the terminal or the direction of text.
///
/// Direction marks: <https://www.unicode.org/reports/tr9/>.
fn is_unprintable(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text in one line, with a question mark for each character that cannot be printed.
pub(crate) fn printable_line(text: &str) -> String {
    text.replace(is_unprintable, "?")
}

/// Returns the text with its line breaks and tabs, and a question mark for each other character that cannot be printed.
pub(crate) fn printable_text(text: &str) -> String {
    text.replace(
        |character| !matches!(character, '\n' | '\t') && is_unprintable(character),
        "?",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_change_the_terminal_are_replaced() {
        let text = "a\x1b[31m\r\n\tb\u{9b}\u{202e}c\u{2066}é";
        assert_eq!(printable_text(text), "a?[31m?\n\tb??c?é");
        assert_eq!(printable_line(text), "a?[31m???b??c?é");
    }
}
