//! Texts of entries. A large text from the disk is kept packed until it is requested: of the entries at a start, such
//! as CRDs and their previous versions, most are never read, or read once by an informer.

use std::sync::OnceLock;

use bytes::Bytes;
use lz4_flex::block::{compress, decompress};

/// Minimum length of packed texts in bytes. Most objects, including those in lists, are much smaller.
const LARGE: usize = 16 << 10;

/// Text of an entry.
pub(crate) enum Text {
    /// Uncompressed bytes.
    Plain(Bytes),
    /// Text that may never be read.
    Packed(Box<Packed>),
}

/// A text that was not requested when it was packed.
pub(crate) struct Packed {
    packed: Box<[u8]>,
    length: usize,
    /// The unpacked text, after it was requested.
    shared: OnceLock<Bytes>,
}

impl Text {
    /// Creates a text that may never be read. It stays plain if packing does not halve it.
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

    /// Returns the text and keeps it unpacked from now on.
    pub(crate) fn bytes(&self) -> &Bytes {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Packed(packed) => packed.shared.get_or_init(|| packed.unpacked()),
        }
    }

    /// Returns the text for a single use.
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
        // The data was packed here, so unpacking succeeds.
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
