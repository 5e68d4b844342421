use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::growth::Growth;
use crate::json;
use crate::tree::{Entry, Map, Source, Value};

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
