//! Maps that undergo many changes.

use std::collections::BTreeMap;

use crate::tree::{Map, Value};
use smol_str::SmolStr;

/// Map during changes. If many members of a large map change, each change costs the logarithm of its size.
///
/// ```
/// use holdfast_value::{Map, Members, Value};
///
/// let mut members = Members::new(Map::new(), 1_000);
/// members.insert("a", Value::Int(1));
/// members.insert("b", Value::Int(2));
/// members.remove("a");
/// assert_eq!(Value::Map(members.into_map()).to_string(), r#"{"b":2}"#);
/// ```
#[derive(Clone, Debug)]
pub enum Members {
    /// The map, changed in place.
    Few(Map),
    /// The members in a tree map.
    Many(BTreeMap<SmolStr, Value>),
}

impl Members {
    /// Maximum number of member moves that changes in place may cause.
    const MOVES: usize = 64 * 1024;

    /// Prepares `map` for about `changes` changes.
    pub fn new(map: Map, changes: usize) -> Self {
        match changes.saturating_mul(map.len() + changes) > Self::MOVES {
            true => Self::Many(map.into_entries().into_iter().collect()),
            false => Self::Few(map),
        }
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Few(map) => map.get(key),
            Self::Many(members) => members.get(key),
        }
    }

    /// Returns the value of `key` for modification.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Self::Few(map) => map.get_mut(key),
            Self::Many(members) => members.get_mut(key),
        }
    }

    /// Sets `key`.
    pub fn insert(&mut self, key: &str, value: Value) {
        match self {
            Self::Few(map) => drop(map.insert(key, value)),
            Self::Many(members) => drop(members.insert(SmolStr::new(key), value)),
        }
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) {
        match self {
            Self::Few(map) => drop(map.remove(key)),
            Self::Many(members) => drop(members.remove(key)),
        }
    }

    /// Converts the members back into a map.
    pub fn into_map(self) -> Map {
        match self {
            Self::Few(map) => map,
            Self::Many(members) => Map::from_sorted(members.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_change_the_same_way_in_small_and_large_maps() {
        for count in [4, 2000] {
            let map: Map = (0..count)
                .map(|at| (SmolStr::from(format!("{at:05}")), Value::Int(at)))
                .collect();
            let mut members = Members::new(map, count as usize);
            assert_eq!(matches!(members, Members::Many(_)), count == 2000);
            members.insert("00000a", Value::Null);
            members.remove("00001");
            if let Some(value) = members.get_mut("00002") {
                *value = Value::from("two");
            }
            assert_eq!(members.get("00002"), Some(&Value::from("two")));
            let map = members.into_map();
            let keys: Vec<&str> = map.iter().take(3).map(|(key, _)| key.as_str()).collect();
            assert_eq!((keys, map.len()), (vec!["00000", "00000a", "00002"], count as usize));
        }
    }
}
