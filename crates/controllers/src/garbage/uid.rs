//! Uids as keys: sixteen bytes for a UUID, which nearly all uids are.

use smol_str::SmolStr;

/// Uid of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Uid {
    /// A UUID in the usual form: lower-case letters and hyphens.
    Uuid([u8; 16]),
    /// Any other text.
    Text(SmolStr),
}

impl Uid {
    /// Creates the uid from `text`.
    pub(super) fn new(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }
}

/// Returns the bytes of a UUID in the usual form; other texts could not be restored from the bytes.
#[expect(clippy::indexing_slicing, reason = "the form has 32 digits, two to a byte")]
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] |= digit << (4 * (1 - digits % 2));
        digits += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_are_different_uids() {
        let texts = [
            "11111111-2222-3333-4444-55555555abcd",
            "11111111-2222-3333-4444-55555555ABCD",
            "11111111-2222-3333-4444-55555555abc",
            "11111111022220333304444055555555abcd",
            "x",
            "",
        ];
        let mut uids: Vec<Uid> = texts.into_iter().map(Uid::new).collect();
        assert!(matches!(uids[0], Uid::Uuid(bytes) if bytes[15] == 0xcd && bytes[0] == 0x11));
        assert!(uids[1..].iter().all(|uid| matches!(uid, Uid::Text(_))));
        uids.dedup();
        assert_eq!(uids.len(), texts.len());
    }
}
