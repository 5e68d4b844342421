//! Layout of a JSON text: the white space between its tokens and the characters that JSON within HTML escapes. A text is
//! its compact form and its layout, and a list of layouts is written as white space, which may follow any JSON value.

use super::html_safe;

/// Maximum length of layouts written as white space.
pub const MAX_LAYOUT_BYTES: usize = 1 << 18;

/// Number of white-space characters that write a byte.
const BLANKS_PER_BYTE: usize = 8;

/// Length of an escape that [`html_safe`] writes, such as `\u003c`.
const ESCAPE_BYTES: usize = 6;

/// Difference between a text and its compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edit {
    /// Number of bytes of the compact form since the previous edit.
    gap: usize,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// An escaped character is not escaped in the text.
    Unescape,
    /// The text has this white-space character so many times.
    Blanks(u8, usize),
}

/// The white-space characters of JSON, in the order of their codes.
const BLANKS: [u8; 4] = [b' ', b'\t', b'\n', b'\r'];

/// Layout of one JSON text.
///
/// ```
/// use holdfast_value::json::Layout;
///
/// let (_, layout) = Layout::split(br#"{ "a": 1 }"#);
/// let blanks = Layout::write_all(&[layout]);
/// assert!(blanks.iter().all(u8::is_ascii_whitespace));
/// let layouts = Layout::read_all(&blanks, 1).unwrap();
/// assert_eq!(layouts[0].join(br#"{"a":1}"#), br#"{ "a": 1 }"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    edits: Vec<Edit>,
}

impl Layout {
    /// Splits a valid JSON text into its compact form, in which characters are escaped as within HTML, and its layout.
    ///
    /// ```
    /// use holdfast_value::json::Layout;
    ///
    /// let (compact, layout) = Layout::split(br#"{"a": "<"}"#);
    /// assert_eq!(compact, br#"{"a":"\u003c"}"#);
    /// assert_eq!(layout.join(&compact), br#"{"a": "<"}"#);
    /// ```
    pub fn split(text: &[u8]) -> (Vec<u8>, Self) {
        let (mut compact, mut edits) = (Vec::with_capacity(text.len()), Vec::new());
        let (mut at, mut last, mut in_string) = (0, 0, false);
        while let Some(&byte) = text.get(at) {
            if !in_string && BLANKS.contains(&byte) {
                let rest = text.get(at..).unwrap_or_default();
                let count = rest.iter().take_while(|next| **next == byte).count();
                edits.push(Edit {
                    gap: compact.len() - last,
                    change: Change::Blanks(byte, count),
                });
                last = compact.len();
                at += count;
                continue;
            }
            let length = match byte {
                b'\\' if in_string => 2,
                0xE2 => 3,
                _ => 1,
            };
            let end = (at + length).min(text.len());
            let character = text.get(at..end).unwrap_or_default();
            let written = html_safe(character.to_vec());
            if written.len() != character.len() {
                edits.push(Edit {
                    gap: compact.len() - last,
                    change: Change::Unescape,
                });
                last = compact.len() + written.len();
            }
            compact.extend_from_slice(&written);
            in_string ^= byte == b'"';
            at = end;
        }
        (compact, Self { edits })
    }

    /// Returns the text with this layout. Parts of the layout that do not fit the compact form are ignored.
    pub fn join(&self, compact: &[u8]) -> Vec<u8> {
        let (mut text, mut rest) = (Vec::with_capacity(compact.len()), compact);
        for edit in &self.edits {
            let (same, after) = rest.split_at(edit.gap.min(rest.len()));
            text.extend_from_slice(same);
            rest = after;
            match edit.change {
                Change::Blanks(blank, count) => text.extend(std::iter::repeat_n(blank, count)),
                Change::Unescape => {
                    let (escape, after) = rest.split_at(ESCAPE_BYTES.min(rest.len()));
                    match unescaped(escape) {
                        Some(character) => text.extend_from_slice(character.as_bytes()),
                        None => text.extend_from_slice(escape),
                    }
                    rest = after;
                }
            }
        }
        text.extend_from_slice(rest);
        text
    }

    /// Writes layouts as white space; empty if that would be longer than [`MAX_LAYOUT_BYTES`].
    pub fn write_all(layouts: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for layout in layouts {
            write_number(layout.edits.len(), &mut bytes);
            for edit in &layout.edits {
                match edit.change {
                    Change::Unescape => write_number(edit.gap * (BLANKS.len() + 1), &mut bytes),
                    Change::Blanks(blank, count) => {
                        let code = BLANKS.iter().position(|other| *other == blank).unwrap_or_default() + 1;
                        write_number(edit.gap * (BLANKS.len() + 1) + code, &mut bytes);
                        write_number(count, &mut bytes);
                    }
                }
            }
        }
        if bytes.len() * BLANKS_PER_BYTE > MAX_LAYOUT_BYTES {
            return Vec::new();
        }
        let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        bits.map(|bit| if bit == 0 { b' ' } else { b'\t' }).collect()
    }

    /// Reads `count` layouts from the white space that [`Layout::write_all`] wrote; `None` if it is other white space.
    pub fn read_all(blanks: &[u8], count: usize) -> Option<Vec<Self>> {
        if blanks.is_empty() || blanks.len() > MAX_LAYOUT_BYTES || !blanks.len().is_multiple_of(BLANKS_PER_BYTE) {
            return None;
        }
        let byte = |bits: &[u8]| {
            let bits = bits.iter().enumerate();
            bits.fold(0, |byte, (bit, blank)| byte | u8::from(*blank == b'\t') << bit)
        };
        let bytes: Vec<u8> = blanks.chunks(BLANKS_PER_BYTE).map(byte).collect();
        let mut rest = bytes.iter().copied();
        let mut layouts = Vec::new();
        for _ in 0..count {
            let edits = (0..read_number(&mut rest)?).map(|_| {
                let head = read_number(&mut rest)?;
                let change = match (head % (BLANKS.len() + 1)).checked_sub(1) {
                    None => Change::Unescape,
                    Some(code) => Change::Blanks(*BLANKS.get(code)?, read_number(&mut rest)?.min(MAX_BLANKS)),
                };
                let gap = head / (BLANKS.len() + 1);
                Some(Edit { gap, change })
            });
            layouts.push(Self {
                edits: edits.collect::<Option<_>>()?,
            });
        }
        rest.next().is_none().then_some(layouts)
    }
}

/// Maximum number of equal white-space characters in a row that are read.
const MAX_BLANKS: usize = 1 << 21;

/// Returns the character of an escape that [`html_safe`] writes.
fn unescaped(escape: &[u8]) -> Option<&'static str> {
    Some(match escape {
        b"\\u003c" => "<",
        b"\\u003e" => ">",
        b"\\u0026" => "&",
        b"\\u2028" => "\u{2028}",
        b"\\u2029" => "\u{2029}",
        _ => return None,
    })
}

/// Writes a number in groups of seven bits, the lowest first.
fn write_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..35).step_by(7) {
        let byte = bytes.next()?;
        number |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    const TEXTS: [&str; 7] = [
        r#"{"a":1}"#,
        "{\n  \"a\" : [ 1, 2 ],\r\n\t\"b\": \"x y\"\n}",
        r#"{"a":"<b> & \u003c \"< \\"}"#,
        " {} ",
        "{\"\u{2028}\": \"\u{20ac}\u{2029}\"}",
        r#"[ "\\" , "\"" ]"#,
        "\"  \"",
    ];

    #[test]
    fn text_is_its_compact_form_and_layout() {
        for text in TEXTS {
            let (compact, layout) = Layout::split(text.as_bytes());
            assert!(
                super::super::is_compact(&compact) && html_safe(compact.clone()) == compact,
                "{text}"
            );
            assert_eq!(String::from_utf8(layout.join(&compact)).unwrap(), text);
        }
    }

    #[test]
    fn layouts_are_written_as_white_space() {
        let layouts: Vec<Layout> = TEXTS.iter().map(|text| Layout::split(text.as_bytes()).1).collect();
        let blanks = Layout::write_all(&layouts);
        assert!(blanks.iter().all(|blank| matches!(blank, b' ' | b'\t')));
        assert_eq!(Layout::read_all(&blanks, layouts.len()), Some(layouts.clone()));
        assert_eq!(Layout::read_all(&blanks, layouts.len() + 1), None);
        assert_eq!(Layout::read_all(&blanks[1..], layouts.len()), None);
        assert_eq!(Layout::read_all(b"", 0), None);
    }

    #[test]
    fn long_layout_is_left_out() {
        let text = format!("[{}]", "1, ".repeat(100_000));
        assert!(Layout::write_all(&[Layout::split(text.as_bytes()).1]).is_empty());
    }

    #[test]
    fn layout_of_other_text_is_harmless() {
        let (_, layout) = Layout::split(br#"{"a": "<<<<<<<<<<<"}"#);
        assert_eq!(layout.join(b"{}"), b"{} ");
    }
}
