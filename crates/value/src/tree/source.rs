//! Maps with a source, which compute their entries on first use.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::tree::Entry;

/// Source of a map: another form of the same content that is smaller, or cheaper to read and to write. It is never
/// empty.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_value::{Entry, Map, Source, Value};
///
/// /// A map with one entry, which is created when somebody reads it.
/// struct One;
///
/// impl Source for One {
///     fn entries(&self) -> Vec<Entry> {
///         vec![("a".into(), Value::Int(1))]
///     }
///     fn length(&self) -> usize {
///         r#"{"a":1}"#.len()
///     }
///     fn json(&self) -> Option<&[u8]> {
///         Some(br#"{"a":1}"#)
///     }
///     fn same(&self, _other: &dyn Source) -> Option<bool> {
///         None
///     }
/// }
///
/// let map = Map::made_of(Arc::new(One));
/// assert!(map.source().is_some());
/// assert_eq!(map.get("a"), Some(&Value::Int(1)));
/// ```
pub trait Source: Any + Send + Sync {
    /// Computes the entries, sorted by key, each key once.
    fn entries(&self) -> Vec<Entry>;

    /// Returns the size of the map in JSON bytes, without escapes.
    fn length(&self) -> usize;

    /// Returns the JSON of the map as [`json::write`](crate::json::write) writes it, if the source has it ready.
    fn json(&self) -> Option<&[u8]>;

    /// Returns the text from which the map was read, if the source keeps it.
    fn text(&self) -> Option<&[u8]> {
        None
    }

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
