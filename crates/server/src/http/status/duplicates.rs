//! Items of an applied configuration that have the same key, as an addition to the `details` of a `Status`.

use holdfast_value::{Value, json};
use holdfast_writes::{Collision, DuplicateItems};
use serde::Serialize;

/// Length in bytes above which the JSON text of the smallest apply is left out.
const MAX_APPLY_BYTES: usize = 64 << 10;

/// Maximum length in bytes of the JSON text of all items.
const MAX_ITEMS_BYTES: usize = 64 << 10;

/// Items that have the same key. Clients that do not know these fields ignore them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemCollisions {
    collisions: Vec<ItemCollision>,
    /// Configuration with the first of the items of each key.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_apply: Option<Value>,
}

/// Items with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ItemCollision {
    /// Path of the items.
    field: String,
    /// Positions of the items in the list.
    positions: Vec<usize>,
    /// The items; left out if they are long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<Value>,
    /// Managers that own the existing item with this key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managers: Vec<String>,
}

impl ItemCollisions {
    /// Returns the items within the limits of size.
    pub(super) fn new(duplicates: DuplicateItems) -> Self {
        let mut left = MAX_ITEMS_BYTES;
        let collisions = duplicates.collisions.into_iter().map(|collision| {
            let Collision {
                path,
                positions,
                mut items,
                managers,
            } = collision;
            let length: usize = items.iter().map(|item| json::to_string(item).len()).sum();
            match left.checked_sub(length) {
                Some(remaining) => left = remaining,
                None => items.clear(),
            }
            ItemCollision {
                field: path,
                positions,
                items,
                managers,
            }
        });
        let collisions = collisions.collect();
        let is_short = json::to_string(&duplicates.smallest).len() <= MAX_APPLY_BYTES;
        Self {
            collisions,
            smallest_apply: is_short.then_some(duplicates.smallest),
        }
    }
}
