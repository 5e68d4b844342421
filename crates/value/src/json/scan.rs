//! Positions of tokens and values in a JSON text, found without reading them.

use wide::u8x16;

use super::read::plain_run;

/// True if the JSON has no blanks between its tokens.
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

/// Returns the end of the value that begins at byte `at` of a JSON text, found by quotes and brackets only; `None` if
/// it does not end.
pub fn end_of_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => end_of_string(text, at),
        // Brackets without content are frequent, and scanning a block for the closing one costs more.
        b'{' if text.get(at + 1) == Some(&b'}') => Some(at + 2),
        b'[' if text.get(at + 1) == Some(&b']') => Some(at + 2),
        b'{' | b'[' => end_of_open_container(text, at + 1),
        _ => end_of_scalar(text, at),
    }
}

/// Returns the end of the container whose opening bracket is before `at`. Scans the text in blocks, each as four bit
/// sets of bytes. A block with too few closing brackets to end the container is skipped without matching them.
pub(super) fn end_of_open_container(text: &[u8], at: usize) -> Option<usize> {
    let mut scan = Scan::default();
    let mut depth = 1_u32;
    let mut place = at;
    let mut rest = text.get(at..)?;
    while !rest.is_empty() {
        let block = match rest.split_first_chunk() {
            Some((block, behind)) => {
                rest = behind;
                scan.brackets(block)
            }
            None => {
                let mut block = [b' '; BLOCK];
                block.get_mut(..rest.len())?.copy_from_slice(rest);
                rest = &[];
                scan.brackets(&block)
            }
        };
        let closed = block.closing.count_ones();
        if depth > closed {
            depth = depth - closed + block.opening.count_ones();
        } else {
            let mut brackets = block.opening | block.closing;
            while brackets != 0 {
                let lowest = brackets & brackets.wrapping_neg();
                if block.opening & lowest != 0 {
                    depth += 1;
                } else {
                    depth -= 1;
                }
                if depth == 0 {
                    return Some(place + lowest.trailing_zeros() as usize + 1);
                }
                brackets ^= lowest;
            }
        }
        place += BLOCK;
    }
    None
}

/// Number of bytes that are scanned together, with one bit each in a set.
const BLOCK: usize = 64;

/// Brackets of a block outside of strings.
struct Brackets {
    opening: u64,
    closing: u64,
}

/// State that a block inherits from the blocks before it.
#[derive(Default)]
struct Scan {
    /// All bits set if the block begins within a string.
    in_string: u64,
    /// True if the first byte of the block is escaped.
    escapes: bool,
}

impl Scan {
    fn brackets(&mut self, block: &[u8; BLOCK]) -> Brackets {
        let (mut quotes, mut backslashes, mut opening, mut closing) = (0, 0, 0, 0);
        let (quarters, _) = block.as_chunks();
        for (at, quarter) in quarters.iter().enumerate() {
            let bytes = u8x16::new(*quarter);
            // Square and curly brackets differ only in this bit.
            let curly = bytes | u8x16::splat(0x20);
            let set = |of: u8x16, byte: u8| (of.cmp_eq(u8x16::splat(byte)).move_mask() as u64) << (at * 16);
            quotes |= set(bytes, b'"');
            backslashes |= set(bytes, b'\\');
            opening |= set(curly, b'{');
            closing |= set(curly, b'}');
        }
        if backslashes != 0 || self.escapes {
            quotes &= !self.escaped(backslashes);
        }
        let in_string = parity(quotes) ^ self.in_string;
        self.in_string = if in_string >> 63 == 1 { u64::MAX } else { 0 };
        Brackets {
            opening: opening & !in_string,
            closing: closing & !in_string,
        }
    }

    /// Returns the escaped bytes: those after an odd number of backslashes. Adding the start of a run to the run
    /// carries into the bit after the run, which marks its end.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslashes = backslashes & !u64::from(self.escapes);
        let behind = backslashes << 1 | u64::from(self.escapes);
        let odd_starts = backslashes & !EVEN & !behind;
        let (sum, carries) = odd_starts.overflowing_add(backslashes);
        self.escapes = carries;
        (EVEN ^ (sum << 1)) & behind
    }
}

/// True if the text has no other escapes than those of quotes.
pub fn escapes_only_quotes(text: &str) -> bool {
    const SIZE: usize = 16;
    let (blocks, rest) = text.as_bytes().as_chunks::<SIZE>();
    let mut last = [0; SIZE];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    let mut ends_with_backslash = 0;
    for block in blocks.iter().chain([&last]) {
        let bytes = u8x16::new(*block);
        let set = |byte: u8| bytes.cmp_eq(u8x16::splat(byte)).move_mask() as u32;
        let backslashes = set(b'\\');
        let behind = backslashes << 1 | ends_with_backslash;
        ends_with_backslash = behind >> SIZE;
        if behind & !set(b'"') & 0xFFFF != 0 {
            return false;
        }
    }
    // The last block ends with a zero, so no backslash is left.
    true
}

/// Sets each bit for which the number of set bits up to and including it is odd.
fn parity(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

/// Returns the end of the string whose opening quote is at `at`.
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blanks_in_texts_are_no_blanks_between_tokens() {
        const COMPACT: &str = r#"{"b":[1,{"c":"x,{\"\\"},[],{}],"a":{"d":null,"e":[true]},"f":""}"#;
        assert!(is_compact(COMPACT.as_bytes()) && is_compact(br#"{"a \" b":" \\"}"#));
        assert!(!is_compact(br#"{"a":"\\", "b":1}"#) && !is_compact(b"[1,\n2]"));
    }

    #[test]
    fn escapes_of_other_characters_are_found_anywhere() {
        for length in 0..40 {
            let text = "a".repeat(length);
            assert!(escapes_only_quotes(&text));
            assert!(escapes_only_quotes(&format!(r#"{text}\""#)), "{length}");
            assert!(escapes_only_quotes(&format!(r#"{text}\""\"x"#)), "{length}");
            for odd in [r"\n", r"\\", r"\", r#"\\""#, r#"\"\u0041"#] {
                assert!(!escapes_only_quotes(&format!("{text}{odd}")), "{length} {odd}");
                assert!(!escapes_only_quotes(&format!("{text}{odd}{text}")), "{length} {odd}");
            }
        }
    }

    /// Finds the end of a container byte by byte.
    fn end_by_bytes(text: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// Brackets, and strings of any length with brackets and escapes.
    fn tokens() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            4 => "[\\{\\}\\[\\],:]",
            2 => "\"([a{}\\[\\]é]|\\\\[\"\\\\n]){0,90}\"",
            1 => "[0-9]{1,70}",
        ];
        proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn block_scan_finds_same_end_as_byte_scan(tokens in tokens(), cut in 0..4000_usize) {
            let object = format!("{{{tokens}");
            let text = object.as_bytes().get(..cut).unwrap_or(object.as_bytes());
            prop_assume!(!text.is_empty());
            prop_assert_eq!(end_of_value(text, 0), end_by_bytes(text));
        }
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
