//! Words and quoted texts in the lines of a table of types.
//!
//! A text with blanks or commas is quoted as in JSON: `+required("must be set")`.

use holdfast_value::{Limits, SmolStr, Value, json};

/// Splits a text at the first `separator` outside of quotes. The second part is empty if there is none.
pub(super) fn next_word(text: &str, separator: char) -> (&str, &str) {
    let (word, rest) = text.split_once(separator).unwrap_or((text, ""));
    if !word.contains('"') {
        return (word, rest);
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|letter: char| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match letter {
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => return letter == separator && !is_quoted,
        }
        false
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + separator.len_utf8()..]))
}

/// Returns the items of a list with commas, which may be quoted.
pub(super) fn items(list: &str) -> Result<Vec<SmolStr>, &'static str> {
    let mut found = Vec::new();
    let mut rest = list;
    loop {
        let (item, after) = next_word(rest, ',');
        found.push(unquoted(item)?);
        if item.len() == rest.len() {
            return Ok(found);
        }
        rest = after;
    }
}

/// Returns a text without its quotes, if it has any.
pub(super) fn unquoted(text: &str) -> Result<SmolStr, &'static str> {
    if !text.starts_with('"') {
        return Ok(SmolStr::new(text));
    }
    match json::parse(text.as_bytes(), &Limits::TRUSTED) {
        Ok(Value::String(text)) => Ok(SmolStr::new(text.as_str())),
        _ => Err("no text in quotes"),
    }
}
