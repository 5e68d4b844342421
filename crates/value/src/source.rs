//! Maps that are made of something else, whose entries are made at the first look at them.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::Entry;

/// What a map is made of: a form of the same that is smaller, or that costs less to read and to write. It is never empty.
pub trait Source: Any + Send + Sync {
    /// The entries, sorted by key, each key once.
    fn entries(&self) -> Vec<Entry>;

    /// How many bytes of JSON the map comes to, without what escapes add.
    fn length(&self) -> usize;

    /// The JSON of the map as [`json::write`](crate::json::write) writes it, where it is at hand.
    fn json(&self) -> Option<&[u8]>;

    /// Whether a map that is made of `other` is equal; `None` where the entries alone can show that.
    fn same(&self, other: &dyn Source) -> Option<bool>;
}

/// A source with its entries, once they are made.
#[derive(Clone)]
pub(crate) struct MadeOf {
    source: Arc<dyn Source>,
    entries: OnceLock<Vec<Entry>>,
}

impl MadeOf {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            entries: OnceLock::new(),
        }
    }

    pub(crate) fn source(&self) -> &dyn Source {
        self.source.as_ref()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.get_or_init(|| self.source.entries())
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        let Self { source, entries } = self;
        entries.into_inner().unwrap_or_else(|| source.entries())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Growth, Map, Value, json};

    /// Makes `{"a":1}` and counts how often.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Source for Counting {
        fn entries(&self) -> Vec<Entry> {
            self.0.fetch_add(1, Ordering::Relaxed);
            vec![("a".into(), Value::Int(1))]
        }

        fn length(&self) -> usize {
            7
        }

        fn json(&self) -> Option<&[u8]> {
            Some(br#"{"a":1}"#)
        }

        fn same(&self, other: &dyn Source) -> Option<bool> {
            (other as &dyn Any).is::<Self>().then_some(true)
        }
    }

    fn made() -> (Arc<Counting>, Map) {
        let source = Arc::new(Counting::default());
        (source.clone(), Map::made_of(source))
    }

    fn times(source: &Counting) -> usize {
        source.0.load(Ordering::Relaxed)
    }

    #[test]
    fn entries_are_made_once_and_only_for_those_who_look_at_them() {
        let (source, map) = made();
        let value = Value::Map(map.clone());
        assert!(!map.is_empty() && map.source().is_some_and(|source| source.length() == 7));
        assert_eq!(json::to_string(&value), r#"{"a":1}"#);
        assert_eq!(Growth::new(7).draw_value(&value), Ok(()));
        assert_eq!(map, made().1);
        assert_eq!(times(&source), 0);
        assert_eq!(value.get("a"), Some(&Value::Int(1)));
        assert_eq!((map.len(), times(&source)), (1, 1));
        let plain: Map = [("a".into(), Value::Int(1))].into_iter().collect();
        assert_eq!(map, plain);
        assert_eq!(plain, map);
    }

    #[test]
    fn a_map_that_changes_is_made_of_its_entries() {
        let (_, mut map) = made();
        let before = map.clone();
        map.insert("b", true);
        assert!(map.source().is_none() && before.source().is_some());
        assert_eq!(json::to_string(&Value::Map(map)), r#"{"a":1,"b":true}"#);
        assert_eq!(before.into_entries(), [("a".into(), Value::Int(1))]);
    }
}
