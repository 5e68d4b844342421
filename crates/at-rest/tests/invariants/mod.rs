//! Invariants of any bytes in etcd, whichever program wrote them.

use holdfast_at_rest::StorageCodec;

/// Reads `stored` at `key`, which must succeed or return an error; an object that was read must be unchanged after it
/// is written again. Returns true if it could be read.
pub(crate) fn entry(codec: &StorageCodec, key: &[u8], stored: &[u8]) -> bool {
    let Ok(served) = codec.from_rest(key, stored) else {
        return false;
    };
    // Each write of an object empties its link, as in the reference.
    const LINK: &[u8] = br#""selfLink":"#;
    if served.bytes().windows(LINK.len()).any(|part| part == LINK) {
        return true;
    }
    for old in [None, Some(&served.bytes()[..])] {
        let Ok(written) = codec.to_rest(key, &served, old) else {
            continue;
        };
        let again = codec.from_rest(key, &written).map_err(|error| error.to_string());
        assert_eq!(
            again.as_ref(),
            Ok(&served),
            "{}: {}",
            key.escape_ascii(),
            stored.escape_ascii()
        );
    }
    true
}
