//! Streaming indentation of compact JSON: one member per line, in the order of the text.

/// Indents compact JSON that arrives in pieces of any length. Each level is indented by two spaces; empty maps and
/// lists are unchanged, like in Go's `json.Indent`.
///
/// The text must be JSON without blanks between its tokens; for other input the output is meaningless.
///
/// ```
/// use holdfast_value::json::Indenter;
///
/// let (mut indenter, mut out) = (Indenter::default(), Vec::new());
/// // A piece may end anywhere.
/// indenter.write(br#"{"a":[1"#, &mut out);
/// indenter.write(br#"]}"#, &mut out);
/// assert_eq!(out, b"{\n  \"a\": [\n    1\n  ]\n}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Indenter {
    depth: usize,
    /// A container was opened and is still empty.
    opened: bool,
    in_string: bool,
    /// The previous byte was a backslash that escapes the next one.
    escaped: bool,
}

impl Indenter {
    /// Appends the indented form of the next piece to `out`.
    pub fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        out.reserve(piece.len() * 2);
        for byte in piece {
            if self.in_string {
                out.push(*byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            if closes {
                self.depth = self.depth.saturating_sub(1);
            }
            if std::mem::take(&mut self.opened) != closes {
                self.start_line(out);
            }
            out.push(*byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.opened = true;
                }
                b',' => self.start_line(out),
                b':' => out.push(b' '),
                b'"' => self.in_string = true,
                _ => {}
            }
        }
    }

    fn start_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        for _ in 0..self.depth {
            out.extend_from_slice(b"  ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::limits::Limits;

    const COMPACT: &str = r#"{"b":[1,{"c":"x,{\"\\"},[],{}],"a":{"d":null,"e":[true]},"f":""}"#;

    #[test]
    fn text_is_indented_in_its_own_order() {
        let mut out = Vec::new();
        Indenter::default().write(COMPACT.as_bytes(), &mut out);
        let expected = r#"{
  "b": [
    1,
    {
      "c": "x,{\"\\"
    },
    [],
    {}
  ],
  "a": {
    "d": null,
    "e": [
      true
    ]
  },
  "f": ""
}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn it_does_not_matter_where_pieces_are_cut() {
        let mut whole = Vec::new();
        Indenter::default().write(COMPACT.as_bytes(), &mut whole);
        for size in 1..COMPACT.len() {
            let (mut indenter, mut out) = (Indenter::default(), Vec::new());
            for piece in COMPACT.as_bytes().chunks(size) {
                indenter.write(piece, &mut out);
            }
            assert_eq!(out, whole, "pieces of {size}");
        }
    }

    #[test]
    fn sorted_text_becomes_what_the_writer_makes() {
        let value = json::parse(COMPACT.as_bytes(), &Limits::TRUSTED).unwrap();
        let (mut indented, mut written) = (Vec::new(), Vec::new());
        Indenter::default().write(&json::to_vec(&value), &mut indented);
        json::write_pretty(&value, "  ", &mut written);
        assert_eq!(indented, written);
    }
}
