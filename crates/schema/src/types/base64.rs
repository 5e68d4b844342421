//! Bytes in base64, read as Go reads them: line breaks are skipped, and an error names the offset of the wrong byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns true if the text equals the encoding of its bytes.
#[expect(clippy::indexing_slicing, reason = "base64 has at most two characters of padding")]
pub(super) fn is_canonical(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return false;
    }
    let digits = bytes.strip_suffix(b"==").or(bytes.strip_suffix(b"=")).unwrap_or(bytes);
    let padding = bytes.len() - digits.len();
    // Those bits of the last digit that belong to no byte must be zero.
    let unused = [0, 0b11, 0b1111][padding];
    digits.iter().all(|byte| digit(*byte).is_some())
        && digits
            .last()
            .and_then(|last| digit(*last))
            .is_none_or(|last| last & unused == 0)
}

/// Returns the decoded bytes; an error is the offset of the wrong character.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let mut at = 0;
    let next = |at: &mut usize| -> Option<u8> {
        while let Some(byte) = bytes.get(*at) {
            *at += 1;
            if !matches!(byte, b'\n' | b'\r') {
                return Some(*byte);
            }
        }
        None
    };
    loop {
        let (mut group, mut digits) = (0u32, 0usize);
        while digits < 4 {
            let Some(byte) = next(&mut at) else {
                return if digits == 0 { Ok(out) } else { Err(at - digits) };
            };
            if let Some(value) = digit(byte) {
                group = group << 6 | u32::from(value);
                digits += 1;
                continue;
            }
            if byte != b'=' || digits < 2 {
                return Err(at - 1);
            }
            if digits == 2 {
                match next(&mut at) {
                    None => return Err(bytes.len()),
                    Some(b'=') => {}
                    Some(_) => return Err(at - 2),
                }
            }
            let [_, first, second, _] = (group << (6 * (4 - digits))).to_be_bytes();
            out.push(first);
            if digits == 3 {
                out.push(second);
            }
            return match next(&mut at) {
                None => Ok(out),
                Some(_) => Err(at - 1),
            };
        }
        out.extend_from_slice(&group.to_be_bytes()[1..]);
    }
}

/// Returns the text of the bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_canonical_and_decodes() {
        for length in 0..20u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(97)).collect();
            let text = encode(&bytes);
            assert!(is_canonical(&text));
            assert_eq!(decode(&text), Ok(bytes));
        }
    }

    #[test]
    fn line_breaks_and_stray_bits_are_read_and_not_canonical() {
        for (text, bytes) in [("YW\nJj\r\n", "abc"), ("YR==", "a"), ("YWJ=\n", "ab")] {
            assert!(!is_canonical(text));
            assert_eq!(decode(text), Ok(bytes.as_bytes().to_vec()));
        }
    }

    #[test]
    fn the_wrong_byte_is_named() {
        for (text, at) in [
            ("!", 0),
            ("abc", 0),
            ("ab c", 2),
            ("YWJ", 0),
            ("YQ=", 3),
            ("YQ==x", 4),
            ("YQ=x", 2),
            ("=", 0),
            ("abcdef", 4),
        ] {
            assert_eq!(decode(text), Err(at), "{text}");
            assert!(!is_canonical(text));
        }
    }
}
