//! Maps with a source, which compute their entries on first use.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::Entry;

/// Source of a map: another form of the same content that is smaller, or cheaper to read and to write. It is never
/// empty.
pub trait Source: Any + Send + Sync {
    /// Computes the entries, sorted by key, each key once.
    fn entries(&self) -> Vec<Entry>;

    /// Returns the size of the map in JSON bytes, without escapes.
    fn length(&self) -> usize;

    /// Returns the JSON of the map as [`json::write`](crate::json::write) writes it, if the source has it ready.
    fn json(&self) -> Option<&[u8]>;

    /// True if a map with the source `other` is equal; `None` if only a comparison of the entries can decide.
    fn same(&self, other: &dyn Source) -> Option<bool>;
}

/// Source with its entries once they are computed.
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

    /// Source of `{"a":1}` that counts how often its entries are computed.
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
    fn source_entries_are_computed_once_on_first_use() {
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
