//! Names of keys in etcd: keys of the state begin with `/registry/`, those in etcd with the value of `--etcd-prefix`.

use bytes::Bytes;

use crate::key::{Key, end_of_prefix};

/// Prefix of the keys of the state.
const OWN: &[u8] = b"/registry/";

/// Mapping of the keys of one store to those in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Prefix in etcd, ending in `/`.
    below: Vec<u8>,
    /// Prefix, after `below`, of all keys of this store.
    only: Vec<u8>,
    /// Prefixes, after `below`, of keys in other stores.
    without: Vec<Vec<u8>>,
}

impl Prefix {
    /// Creates a prefix from the value of a flag, adding the `/` before and after it if they are missing.
    pub(crate) fn new(flag: &str) -> Self {
        let name = flag.trim_matches('/');
        let below = match name {
            "" => b"/".to_vec(),
            name => format!("/{name}/").into_bytes(),
        };
        Self {
            below,
            only: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Restricts the prefix to the keys of the state that begin with `only`, if given, and with none of `without`.
    pub(crate) fn narrowed(mut self, only: Option<&Key>, without: &[Key]) -> Self {
        let rest = |key: &Key| key.strip_prefix(OWN).unwrap_or_default().to_vec();
        self.only = only.map(rest).unwrap_or_default();
        self.without = without.iter().map(rest).collect();
        self
    }

    /// Returns the key in etcd of a key of the state; `None` if it does not have the state's prefix.
    pub(crate) fn stored(&self, key: &Key) -> Option<Bytes> {
        let rest = key.strip_prefix(OWN)?;
        Some([&self.below[..], rest].concat().into())
    }

    /// Returns the key of the state for a key in etcd; `None` for keys that are not objects.
    pub(crate) fn key(&self, stored: &[u8]) -> Option<Key> {
        let rest = stored.strip_prefix(&self.below[..])?;
        // Keys that are not objects have only one segment.
        let is_object = rest.contains(&b'/') && rest.starts_with(&self.only);
        let is_here = is_object && !self.without.iter().any(|other| rest.starts_with(other));
        is_here.then(|| [OWN, rest].concat().into())
    }

    /// Returns the range of all keys with this prefix: start and end.
    pub(crate) fn range(&self) -> (Bytes, Bytes) {
        let begin = [&self.below[..], &self.only[..]].concat();
        // A prefix that ends in `/` has an end.
        let end = end_of_prefix(&begin).unwrap_or_else(|| vec![0]);
        (begin.into(), end.into())
    }

    /// Returns a key in etcd outside of the keys of objects.
    pub(crate) fn beside(&self, name: &str) -> Bytes {
        [&self.below[..], name.as_bytes()].concat().into()
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

    #[test]
    fn keys_of_other_stores_are_none() {
        let events = Key::from("/registry/events/");
        let here = Prefix::new("/a").narrowed(None, std::slice::from_ref(&events));
        let there = Prefix::new("/a").narrowed(Some(&events), &[]);
        assert_eq!(here.key(b"/a/events/default/x"), None);
        assert_eq!(
            here.key(b"/a/eventss/default/x"),
            Some("/registry/eventss/default/x".into())
        );
        assert_eq!(there.key(b"/a/pods/default/x"), None);
        assert_eq!(
            there.key(b"/a/events/default/x"),
            Some("/registry/events/default/x".into())
        );
        assert_eq!(there.range(), ("/a/events/".into(), "/a/events0".into()));
        assert_eq!(there.beside("health"), "/a/health");
    }
}
