//! YAML writer with the format of `sigs.k8s.io/yaml`: block style, sorted keys, lists not indented under their key,
//! lines folded from 80 columns on.

use super::order::in_natural_order;
use super::scalar::is_text;
use holdfast_gotext::number::general;

use crate::json;
use crate::number::whole_as_integer;
use crate::tree::{Entry, Value};

const INDENT: usize = 2;
/// Text is folded at the first blank beyond this column.
const WIDTH: usize = 80;
/// Longer keys, in bytes, get a line of their own after a question mark.
const MAX_SIMPLE_KEY_BYTES: usize = 128;

/// Appends the YAML form of `value` to `out`, with a trailing line break.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    let mut writer = Writer { out, column: 0 };
    match value {
        Value::Map(map) if !map.is_empty() => writer.mapping(map, 0, false),
        Value::List(list) if !list.is_empty() => writer.sequence(list, 0, false),
        scalar => {
            writer.scalar(scalar, INDENT);
            writer.line_break();
        }
    }
}

/// Returns the YAML form of `value`.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    // The writer produces only UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Style of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Number of characters since the last line break.
    column: usize,
}

impl Writer<'_> {
    /// Writes the entries at `indent`; the first one on the current line if `compact`.
    fn mapping(&mut self, entries: &[Entry], indent: usize, compact: bool) {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        // Both orders agree for letters; other characters are rare enough to sort again.
        if !entries
            .iter()
            .all(|(key, _)| key.bytes().all(|byte| byte.is_ascii_alphabetic()))
        {
            sorted = in_natural_order(&sorted);
        }
        for (at, (key, value)) in sorted.into_iter().enumerate() {
            if at > 0 || !compact {
                self.blanks(indent);
            }
            if key.len() > MAX_SIMPLE_KEY_BYTES || key.contains(is_break) {
                self.put("? ");
                self.text(key, indent + INDENT, false);
                self.line_break();
                self.blanks(indent);
            } else {
                self.text(key, indent + INDENT, true);
            }
            self.put(":");
            match value {
                Value::Map(map) if !map.is_empty() => {
                    self.line_break();
                    self.mapping(map, indent + INDENT, false);
                }
                Value::List(list) if !list.is_empty() => {
                    self.line_break();
                    self.sequence(list, indent, false);
                }
                scalar => {
                    self.put(" ");
                    self.scalar(scalar, indent + INDENT);
                    self.line_break();
                }
            }
        }
    }

    /// Writes the items at `indent`; the first one on the current line if `compact`.
    fn sequence(&mut self, items: &[Value], indent: usize, compact: bool) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !compact {
                self.blanks(indent);
            }
            self.put("- ");
            match item {
                Value::Map(map) if !map.is_empty() => self.mapping(map, indent + INDENT, true),
                Value::List(list) if !list.is_empty() => self.sequence(list, indent + INDENT, true),
                scalar => {
                    self.scalar(scalar, indent + INDENT);
                    self.line_break();
                }
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.text(text, indent, false),
            Value::Float(float) => match whole_as_integer(*float) {
                Value::Float(float) => self.put(&general(float)),
                whole => self.put(&json::to_string(&whole)),
            },
            other => self.put(&json::to_string(other)),
        }
    }

    /// Writes text; its further lines, if any, are indented by `indent`.
    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        match style(text, is_key) {
            Style::Plain if is_key || !text.contains(' ') => self.put(text),
            Style::Plain => self.folded(text, indent, is_key, |writer, character| writer.push(character)),
            Style::SingleQuoted => {
                self.put("'");
                self.folded(text, indent, is_key, |writer, character| match character {
                    '\'' => writer.put("''"),
                    other => writer.push(other),
                });
                self.put("'");
            }
            Style::DoubleQuoted => self.double_quoted(text, indent, is_key),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// Writes text with a line break instead of a single blank beyond the width.
    fn folded(&mut self, text: &str, indent: usize, is_key: bool, mut put: impl FnMut(&mut Self, char)) {
        let mut after_blank = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let is_inside = at > 0 && next.is_some();
            if character == ' ' && !is_key && !after_blank && self.column > WIDTH && is_inside && next != Some(' ') {
                self.line_break();
                self.blanks(indent);
            } else {
                put(self, character);
            }
            after_blank = character == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, is_key: bool) {
        self.put("\"");
        let mut after_blank = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let is_inside = at > 0 && next.is_some();
            if character == ' ' && !is_key && !after_blank && self.column > WIDTH && is_inside {
                self.line_break();
                self.blanks(indent);
                if next == Some(' ') {
                    self.put("\\");
                }
            } else if needs_escape(character) {
                self.escape(character);
            } else {
                self.push(character);
            }
            after_blank = character == ' ';
        }
        self.put("\"");
    }

    fn escape(&mut self, character: char) {
        let short = match character {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            other => {
                let code = u32::from(other);
                let escaped = match code {
                    0..0x100 => format!("\\x{code:02X}"),
                    0x100..0x1_0000 => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                return self.put(&escaped);
            }
        };
        self.push('\\');
        self.push(short);
    }

    /// Writes text line by line without changes.
    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        // Leading blanks would count as indentation, so a header states the indentation.
        if text.starts_with([' ', '\n']) {
            self.put("2");
        }
        match (text.ends_with('\n'), text.ends_with("\n\n") || text == "\n") {
            (false, _) => self.put("-"),
            (true, true) => self.put("+"),
            (true, false) => {}
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.line_break();
            if !line.is_empty() {
                self.blanks(indent);
                self.put(line);
            }
        }
    }

    fn blanks(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, b' ');
        self.column += count;
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.column += if text.is_ascii() {
            text.len()
        } else {
            text.chars().count()
        };
    }

    fn push(&mut self, character: char) {
        self.out
            .extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    fn line_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }
}

/// Returns the style of a text: plain if it reads back as the same text.
fn style(text: &str, is_key: bool) -> Style {
    if is_plain_word(text) {
        return if is_text(text) {
            Style::Plain
        } else {
            Style::DoubleQuoted
        };
    }
    let traits = Traits::from_text(text);
    let wanted = match text {
        _ if text.contains('\n') => Style::Literal,
        _ if is_text(text) && !is_base_60(text) => Style::Plain,
        _ => Style::DoubleQuoted,
    };
    let is_multiline = text.contains(is_break);
    match wanted {
        Style::Literal | Style::Plain if is_key && is_multiline => Style::DoubleQuoted,
        Style::Literal if traits.allows_block => Style::Literal,
        Style::Plain if traits.allows_plain => Style::Plain,
        Style::Plain if traits.allows_single_quotes => Style::SingleQuoted,
        _ => Style::DoubleQuoted,
    }
}

/// True if a text consists only of letters, digits and a few signs, as most texts do. It is written plain if plain text
/// reads back as a string.
fn is_plain_word(text: &str) -> bool {
    let is_sign = |byte: u8| matches!(byte, b'.' | b'/' | b'_' | b'-');
    let starts_plain = text
        .as_bytes()
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'/');
    starts_plain && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_sign(byte))
}

/// Properties of a text that restrict its style.
struct Traits {
    allows_plain: bool,
    allows_single_quotes: bool,
    allows_block: bool,
}

impl Traits {
    fn from_text(text: &str) -> Self {
        let mut has_indicator = text.starts_with("---") || text.starts_with("...");
        let mut has_special = false;
        let mut has_blank_before_break = false;
        let mut has_break_before_blank = false;
        let mut before: Option<char> = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let blank_follows = characters.peek().is_none_or(|next| is_blank_or_break(*next));
            has_indicator |= match (character, before) {
                ('#', Some(before)) => is_blank_or_break(before),
                (
                    ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
                    None,
                ) => true,
                (':', _) | ('?' | '-', None) => blank_follows,
                _ => false,
            };
            // Readers disagree about line breaks other than line feeds.
            has_special |= !is_printable(character) || (is_break(character) && character != '\n');
            has_blank_before_break |= before == Some(' ') && is_break(character);
            has_break_before_blank |= before.is_some_and(is_break) && character == ' ';
            before = Some(character);
        }
        let starts_with_space = text.starts_with(|first| first == ' ' || is_break(first));
        let ends_with_space = text.ends_with(|last| last == ' ' || is_break(last));
        let is_strange = has_special || has_blank_before_break;
        Self {
            allows_plain: !(has_indicator
                || is_strange
                || has_break_before_blank
                || starts_with_space
                || ends_with_space
                || text.contains(is_break)),
            allows_single_quotes: !is_strange && !has_break_before_blank,
            allows_block: !is_strange
                && !text.ends_with(' ')
                && !text.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}']),
        }
    }
}

/// True if other YAML 1.1 readers parse the text as a number in base 60, like `1:30`.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((first, rest)) = unsigned.split_once(':') else {
        return false;
    };
    let (rest, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let is_digit = |character: char| character.is_ascii_digit() || character == '_';
    first.starts_with(|first: char| first.is_ascii_digit())
        && first.chars().all(is_digit)
        && fraction.chars().all(is_digit)
        && rest.split(':').all(|part| match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [b'0'..=b'5', digit] => digit.is_ascii_digit(),
            _ => false,
        })
}

fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank_or_break(character: char) -> bool {
    matches!(character, ' ' | '\t') || is_break(character)
}

/// True for characters that need no escape. The reference escapes all characters beyond U+FFFF.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && character != '\u{feff}'
}

fn needs_escape(character: char) -> bool {
    !is_printable(character) || is_break(character) || matches!(character, '"' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::yaml;

    fn written(json: &str) -> String {
        to_string(&json::parse(json.as_bytes(), &Limits::default()).unwrap())
    }

    #[test]
    fn trees_are_written_in_block_style() {
        assert_eq!(
            written(r#"{"kind":"List","items":[{"b":[1,[2,[]]],"a":{}},"x",[{"c":null}]],"f:x":{".":{},"f:y":true}}"#),
            "f:x:\n  .: {}\n  f:y: true\nitems:\n- a: {}\n  b:\n  - 1\n  - - 2\n    - []\n- x\n- - c: null\nkind: List\n"
        );
        assert_eq!(written("{}"), "{}\n");
        assert_eq!(written("[]"), "[]\n");
        assert_eq!(written("\"a\""), "a\n");
    }

    #[test]
    fn text_is_quoted_where_it_would_be_read_as_something_else() {
        let cases = [
            ("", r#""""#),
            ("a", "a"),
            ("yes", r#""yes""#),
            ("n", r#""n""#),
            ("on", r#""on""#),
            ("1", r#""1""#),
            ("0x1", r#""0x1""#),
            ("1e3", r#""1e3""#),
            ("1_000", r#""1_000""#),
            ("~", r#""~""#),
            ("null", r#""null""#),
            (".inf", r#"".inf""#),
            ("1:30", r#""1:30""#),
            ("2004-01-01T01:01:01Z", r#""2004-01-01T01:01:01Z""#),
            ("<<", r#""<<""#),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("-", "'-'"),
            ("*a", "'*a'"),
            ("it's", "it's"),
            ("'it's", "'''it''s'"),
            ("{a}", "'{a}'"),
            (" a", "' a'"),
            ("a ", "'a '"),
            ("---", "'---'"),
            ("a\tb", r#""a\tb""#),
            ("a\"\u{1}\\", r#""a\"\x01\\""#),
            ("é\u{a0}", "é\u{a0}"),
            ("🚀", r#""\U0001F680""#),
            ("a\u{2028}b", r#""a\Lb""#),
        ];
        for (text, expected) in cases {
            assert_eq!(to_string(&Value::from(text)), format!("{expected}\n"), "{text:?}");
        }
    }

    #[test]
    fn lines_are_kept_in_literal_style() {
        assert_eq!(written(r#"{"a":"x\ny\n"}"#), "a: |\n  x\n  y\n");
        assert_eq!(written(r#"{"a":"x\ny"}"#), "a: |-\n  x\n  y\n");
        assert_eq!(written(r#"{"a":"x\n\n y\n\n"}"#), "a: |+\n  x\n\n   y\n\n");
        assert_eq!(written(r#"{"a":" x\ny"}"#), "a: |2-\n   x\n  y\n");
        assert_eq!(written(r#"{"a":"x \ny"}"#), "a: \"x \\ny\"\n");
        assert_eq!(written(r#"{"a\nb":"x"}"#), "? |-\n  a\n  b\n: x\n");
    }

    #[test]
    fn numbers_are_written_so_that_they_read_back() {
        assert_eq!(
            written("[1,1.5,1e6,1e21,1e-7,18446744073709551615]"),
            "- 1\n- 1.5\n- 1000000\n- 1e+21\n- 1e-07\n- 18446744073709551615\n"
        );
    }

    #[test]
    fn long_text_is_folded_at_blanks() {
        let words = vec!["word"; 30].join(" ");
        let text = written(&format!(r#"{{"a":{{"b":"{words}"}}}}"#));
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [2, 84, 73]);
        assert_eq!(
            yaml::parse(text.as_bytes(), &Limits::default())
                .unwrap()
                .str_at(&["a", "b"]),
            Some(&*words)
        );
    }
}
