//! Keys and their tables.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A position in the history of the whole store: one counter for all keys, like etcd's `revision`.
///
/// An empty store is at revision 1. 0 is not a revision: as the modification revision of a key it means "absent".
pub type Revision = u64;

/// A key such as `/registry/deployments/default/web`: bytes ordered bytewise, cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// Returns the length of the part of `prefix` that names its table, by the layout of kube-apiserver's keys:
/// `/ROOT/RESOURCE/`, or `/ROOT/GROUP/RESOURCE/` if the second segment is a group (it has a dot) or `services`, whose
/// `specs` and `endpoints` are one level deeper.
///
/// 0 if `prefix` ends before its table is known; such a prefix spans tables.
#[expect(clippy::indexing_slicing, reason = "the places were found in this very key")]
pub fn table_by_segments(prefix: &[u8]) -> usize {
    let mut ends = prefix
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    if prefix.first() != Some(&b'/') {
        return 0;
    }
    let (Some(root), Some(first)) = (ends.next(), ends.next()) else {
        return 0;
    };
    let segment = &prefix[root + 1..first];
    if segment == b"services" || segment.contains(&b'.') {
        return ends.next().map_or(0, |second| second + 1);
    }
    first + 1
}

/// Returns the smallest byte string greater than all that begin with `prefix`; `None` if there is no such string.
#[expect(clippy::indexing_slicing, reason = "the places were found in this very key")]
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_follow_the_layout_of_kube_apiserver() {
        for (key, table) in [
            ("/registry/pods/default/web-0", "/registry/pods/"),
            ("/registry/namespaces/default", "/registry/namespaces/"),
            ("/registry/services/specs/default/web", "/registry/services/specs/"),
            (
                "/registry/services/endpoints/default/web",
                "/registry/services/endpoints/",
            ),
            (
                "/registry/stable.example.com/crontabs/default/c",
                "/registry/stable.example.com/crontabs/",
            ),
            ("/registry/pods/", "/registry/pods/"),
            ("/registry/pods", ""),
            ("/registry/services/", ""),
            ("/registry/", ""),
            ("/", ""),
            ("", ""),
            ("pods/a/b/c/d", ""),
        ] {
            assert_eq!(&key[..table_by_segments(key.as_bytes())], table, "{key}");
        }
    }

    #[test]
    fn end_of_a_prefix_carries_over_bytes_that_cannot_grow() {
        assert_eq!(end_of_prefix(b"/a/"), Some(b"/a0".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
