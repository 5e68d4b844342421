//! Checksums as hexadecimal text.

use std::fmt::Write as _;

use sha2::{Digest, Sha256, Sha512};

/// Returns the SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Returns the SHA-512 of bytes, which the index of envtest uses.
pub(crate) fn sha512(bytes: &[u8]) -> String {
    hexadecimal(&Sha512::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writes to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea"));
        assert!(sha512(b"abc").starts_with("ddaf35a193617aba"));
    }
}
