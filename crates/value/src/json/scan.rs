//! Where tokens and values of a JSON text stand, without reading them.

use super::read::plain_run;

/// Whether JSON has no blanks between its tokens.
pub fn is_compact(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at).unwrap_or(text.len()),
            b' ' | b'\t' | b'\n' | b'\r' => return false,
            _ => at += 1,
        }
    }
    true
}

/// Where the value ends that begins at byte `at` of a JSON text, found by quotes and brackets alone; `None` where it does not
/// end.
pub fn end_of_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                if depth == 0 {
                    return Some(at);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return end_of_scalar(text, at),
            _ => {}
        }
        at += 1;
    }
}

/// Where the string ends whose first quote stands at `at`.
pub fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += plain_run(text.get(at..)?);
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn end_of_scalar(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start..)?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
    (length > 0).then_some(start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_texts_are_no_blanks_between_tokens() {
        const COMPACT: &str = r#"{"b":[1,{"c":"x,{\"\\"},[],{}],"a":{"d":null,"e":[true]},"f":""}"#;
        assert!(is_compact(COMPACT.as_bytes()) && is_compact(br#"{"a \" b":" \\"}"#));
        assert!(!is_compact(br#"{"a":"\\", "b":1}"#) && !is_compact(b"[1,\n2]"));
    }

    #[test]
    fn values_end_where_their_quotes_and_brackets_do() {
        for (text, end) in [
            (r#""a\"b", 1"#, Some(6)),
            (r#"{"a":"}","b":[{}]},"#, Some(18)),
            ("-1.5e+3,", Some(7)),
            ("true}", Some(4)),
            ("[1,2", None),
            ("]", None),
            (",", None),
            (r#""a"#, None),
        ] {
            assert_eq!(end_of_value(text.as_bytes(), 0), end, "{text}");
        }
    }
}
