//! Where keys lie in etcd: the state's begin with `/registry/`, those in etcd with whatever `--etcd-prefix` says.

use bytes::Bytes;

use crate::key::{Key, end_of_prefix};

/// What the keys of the state begin with.
const OWN: &[u8] = b"/registry/";

/// What keys begin with in etcd, ending in `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(Vec<u8>);

impl Prefix {
    /// By what a flag says: one `/` before it and one behind, whether they are written or not.
    pub(crate) fn new(flag: &str) -> Self {
        let name = flag.trim_matches('/');
        Self(match name {
            "" => b"/".to_vec(),
            name => format!("/{name}/").into_bytes(),
        })
    }

    /// The key in etcd of a key of the state; none where that does not lie under the state's prefix.
    pub(crate) fn stored(&self, key: &Key) -> Option<Bytes> {
        let rest = key.strip_prefix(OWN)?;
        Some([&self.0[..], rest].concat().into())
    }

    /// The key of the state for one in etcd; none for those that are no objects'.
    pub(crate) fn key(&self, stored: &[u8]) -> Option<Key> {
        let rest = stored.strip_prefix(&self.0[..])?;
        // What is no object has one segment only.
        rest.contains(&b'/').then(|| [OWN, rest].concat().into())
    }

    /// All keys that begin so: from where to where.
    pub(crate) fn range(&self) -> (Bytes, Bytes) {
        // A prefix that ends in `/` has an end.
        let end = end_of_prefix(&self.0).unwrap_or_else(|| vec![0]);
        (self.0.clone().into(), end.into())
    }

    /// A key beside those of objects.
    pub(crate) fn beside(&self, name: &str) -> Bytes {
        [&self.0[..], name.as_bytes()].concat().into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_below_the_prefix_of_the_flag() {
        for flag in ["/registry", "registry", "registry/"] {
            let prefix = Prefix::new(flag);
            let key = Key::from("/registry/pods/default/web");
            assert_eq!(prefix.stored(&key).unwrap(), "/registry/pods/default/web");
            assert_eq!(prefix.key(b"/registry/pods/default/web"), Some(key));
        }
        let prefix = Prefix::new("/a/b");
        assert_eq!(prefix.stored(&"/registry/pods/x".into()).unwrap(), "/a/b/pods/x");
        assert_eq!(prefix.key(b"/a/b/pods/x"), Some("/registry/pods/x".into()));
        assert_eq!(prefix.key(b"/a/bc/pods/x"), None);
        assert_eq!(prefix.key(b"/a/b/health"), None);
        assert_eq!(prefix.stored(&"/elsewhere/x".into()), None);
        assert_eq!(prefix.range(), ("/a/b/".into(), "/a/b0".into()));
    }
}
