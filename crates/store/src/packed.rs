//! Texts of entries. A large one that comes from the disk is kept packed until it is requested: of what there is at a start,
//! such as definitions and the versions before them, most is never read, or read once by who follows it.

use std::sync::OnceLock;

use bytes::Bytes;
use lz4_flex::block::{compress, decompress};

/// From which length on a text is packed. Most objects are far below, and are what lists are made of.
const LARGE: usize = 16 << 10;

/// The text of an entry.
pub(crate) enum Text {
    /// Uncompressed bytes.
    Plain(Bytes),
    /// One that may never be read.
    Packed(Box<Packed>),
}

/// A text that was not requested when it was packed.
pub(crate) struct Packed {
    packed: Box<[u8]>,
    length: usize,
    /// The text from the time on when it is requested.
    shared: OnceLock<Bytes>,
}

impl Text {
    /// A text that may never be read. One that packing does not halve stays as it is.
    pub(crate) fn unread(bytes: Bytes) -> Self {
        if bytes.len() < LARGE {
            return Self::Plain(bytes);
        }
        let packed = compress(&bytes);
        if packed.len() > bytes.len() / 2 {
            return Self::Plain(bytes);
        }
        Self::Packed(Box::new(Packed {
            // A copy of the exact length: the maximum packed length, which is allocated first, is longer.
            packed: packed.as_slice().into(),
            length: bytes.len(),
            shared: OnceLock::new(),
        }))
    }

    /// The text, which is kept as it is from now on.
    pub(crate) fn bytes(&self) -> &Bytes {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Packed(packed) => packed.shared.get_or_init(|| packed.unpacked()),
        }
    }

    /// The text, for one who reads it once.
    pub(crate) fn bytes_once(&self) -> Bytes {
        match self {
            Self::Plain(bytes) => bytes.clone(),
            Self::Packed(packed) => packed.shared.get().cloned().unwrap_or_else(|| packed.unpacked()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Packed(packed) => packed.length,
        }
    }
}

impl Packed {
    fn unpacked(&self) -> Bytes {
        // What was packed here can be unpacked.
        decompress(&self.packed, self.length).unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_packed(text: &Text) -> bool {
        matches!(text, Text::Packed(packed) if packed.shared.get().is_none())
    }

    #[test]
    fn a_large_text_is_packed_until_it_is_read() {
        let bytes = Bytes::from("{\"type\":\"string\"},".repeat(2000));
        let text = Text::unread(bytes.clone());
        assert_eq!((text.len(), text.bytes_once()), (bytes.len(), bytes.clone()));
        assert!(is_packed(&text));
        assert_eq!(text.bytes(), &bytes);
        assert!(!is_packed(&text));
        assert_eq!(text.bytes_once().as_ptr(), text.bytes().as_ptr());
    }

    #[test]
    fn small_or_incompressible_bytes_stay_plain() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(2 * LARGE)
        .collect();
        for bytes in [vec![b' '; LARGE - 1], noise] {
            let text = Text::unread(bytes.clone().into());
            assert!(!is_packed(&text));
            assert_eq!(text.bytes(), &bytes);
        }
    }
}
