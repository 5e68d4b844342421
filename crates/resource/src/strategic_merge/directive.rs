//! The directives that may stand in a patch.

use holdfast_value::{List, Map, Value};

/// The key whose value says what happens to the map, list or item that it stands in.
pub(super) const DIRECTIVE: &str = "$patch";
/// The key that lists the only keys that may remain in a map.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// What the key begins with that gives the order of a list.
pub(super) const SET_ORDER: &str = "$setElementOrder";
/// What the key begins with that takes values out of a list of scalars.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// What `$patch` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The patch takes the place of what is there.
    Replace,
    /// What is there goes.
    Delete,
    /// What happens anyway; lists do not take it.
    Merge,
}

impl Directive {
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "replace" => Some(Self::Replace),
            "delete" => Some(Self::Delete),
            "merge" => Some(Self::Merge),
            _ => None,
        }
    }
}

/// The value of a patch where there is nothing to merge it with: all directives and nulls are left out. `None` where the
/// value asks to be deleted, or was nothing but directives.
pub(super) fn without_directives(patch: &Value) -> Option<Value> {
    match patch {
        Value::Map(map) => {
            if map.get(DIRECTIVE).and_then(Directive::of) == Some(Directive::Delete) {
                return None;
            }
            let mut directives = false;
            let entries: Vec<_> = map
                .iter()
                .filter(|(key, _)| {
                    let directive = is_directive(key);
                    directives |= directive;
                    !directive
                })
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)))
                .collect();
            (!entries.is_empty() || !directives).then(|| Value::Map(Map::from_sorted(entries)))
        }
        Value::List(items) => Some(Value::List(list_without_directives(items))),
        scalar => Some(scalar.clone()),
    }
}

/// The items of a patch's list without directives, those that ask to be deleted left out.
pub(super) fn list_without_directives(items: &List) -> List {
    items.iter().filter_map(without_directives).collect()
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(SET_ORDER) || key.starts_with(DELETE_FROM_LIST)
}
