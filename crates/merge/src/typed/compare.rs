//! Comparison of two values.

use std::cmp::Ordering;
use std::fmt;

use holdfast_value::{Entry, Value};

use super::items::{Groups, Name, Positions, all_differ, in_order, names, same_names};
use super::to_set::{Ownership, SetWalk};
use super::validate::scalar_error;
use super::{Checked, Errors, Kind, Typed, ValidationErrors, deduce, first_kind, identical, unusable};
use crate::schema::{ListType, MapType, Scalar, Schema, Type, TypeRef};
use crate::set::SetBuilder;
use crate::{Filter, PathElement, Set};

/// Differences between two values of one type.
///
/// ```
/// use holdfast_merge::{Set, Typed};
/// use holdfast_value::{Limits, json};
///
/// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
/// let comparison = typed(r#"{"spec":1,"status":1}"#).compare(&typed(r#"{"spec":1,"status":2}"#))?;
/// assert!(!comparison.is_same());
/// let status = Set::from_fields_v1(br#"{"f:status":{}}"#)?;
/// assert!(comparison.exclude_fields(&status).is_same());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Paths that only the second value has: leaves, and every container, item and entry that was added as a whole.
    pub added: Set,
    /// Leaves that both values have with different content.
    pub modified: Set,
    /// Paths that only the first value has.
    pub removed: Set,
}

impl Comparison {
    /// True if there are no differences.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Returns the comparison without the paths of a set and their descendants.
    pub fn exclude_fields(&self, fields: &Set) -> Comparison {
        self.map(|set| set.recursive_difference(fields))
    }

    /// Returns the part of the comparison that a filter keeps.
    pub fn filter_fields(&self, filter: &Filter) -> Comparison {
        self.map(|set| filter.apply(set))
    }

    fn map(&self, change: impl Fn(&Set) -> Set) -> Comparison {
        Comparison {
            added: change(&self.added),
            modified: change(&self.modified),
            removed: change(&self.removed),
        }
    }
}

/// Formats one block for each part that is not empty, one path per line.
impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, set) in [
            ("Modified", &self.modified),
            ("Added", &self.added),
            ("Removed", &self.removed),
        ] {
            if !set.is_empty() {
                writeln!(out, "- {title} Fields:\n{set}")?;
            }
        }
        Ok(())
    }
}

impl Typed {
    /// Compares this value with a newer one.
    ///
    /// ```
    /// use holdfast_merge::Typed;
    /// use holdfast_value::{Limits, json};
    ///
    /// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
    ///
    /// let comparison = typed(r#"{"a":1,"b":2}"#).compare(&typed(r#"{"a":3,"c":4}"#))?;
    /// assert_eq!(comparison.modified.to_fields_v1(), r#"{"f:a":{}}"#);
    /// assert_eq!(comparison.removed.to_fields_v1(), r#"{"f:b":{}}"#);
    /// assert_eq!(comparison.added.to_fields_v1(), r#"{"f:c":{}}"#);
    /// # Ok::<(), holdfast_merge::ValidationErrors>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the types differ, or if either value does not fit the type.
    pub fn compare(&self, newer: &Typed) -> Result<Comparison, ValidationErrors> {
        self.require_type_of(newer)?;
        let mut comparer = Comparer {
            schema: &self.schema,
            added: SetWalk::new(&self.schema, Ownership::Whole),
            removed: SetWalk::new(&self.schema, Ownership::Whole),
            modified: SetBuilder::default(),
            errors: Errors::default(),
            valid: self.checked.min(newer.checked) >= Checked::Valid,
        };
        if !(comparer.valid && identical(&self.value, &newer.value)) {
            comparer.node(self.type_ref, &self.value, &newer.value);
        }
        comparer.errors.result().map(|()| Comparison {
            added: comparer.added.builder.finish(),
            modified: comparer.modified.finish(),
            removed: comparer.removed.builder.finish(),
        })
    }
}

/// Walk over the nodes that both values have. Nodes of only one value are left to [`SetWalk`].
struct Comparer<'a> {
    schema: &'a Schema,
    added: SetWalk<'a>,
    removed: SetWalk<'a>,
    modified: SetBuilder,
    errors: Errors,
    /// True if both values are valid, so that identical parts can be skipped.
    valid: bool,
}

/// One of the two values.
#[derive(Clone, Copy)]
enum Side {
    Older,
    Newer,
}

impl<'a> Comparer<'a> {
    /// Adds the differences below a node; returns true if the node itself is modified.
    fn node(&mut self, type_ref: TypeRef, older: &Value, newer: &Value) -> bool {
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            self.errors.push(unusable(resolved));
            return false;
        }
        let (older_kind, newer_kind) = (first_kind(deduce(resolved, older)), first_kind(deduce(resolved, newer)));
        let mut modified = self.as_kind(resolved, newer_kind, older, newer);
        if older_kind != newer_kind {
            // The value changed its kind: the walk with the old kind only removes paths, the walk with the new kind
            // only adds them.
            modified |= self.as_kind(resolved, older_kind, older, newer);
        }
        modified
    }

    fn as_kind(&mut self, of: &'a Type, kind: Option<Kind>, older: &Value, newer: &Value) -> bool {
        match (kind, &of.map, &of.scalar, &of.list) {
            (Some(Kind::Map), Some(map), ..) => self.map(map, older, newer),
            (Some(Kind::Scalar), _, Some(scalar), _) => self.scalar(scalar, older, newer),
            (Some(Kind::List), _, _, Some(list)) => self.list(list, older, newer),
            _ => {
                self.errors.push(unusable(of));
                false
            }
        }
    }

    fn scalar(&mut self, scalar: &Scalar, older: &Value, newer: &Value) -> bool {
        if let (Some(older), Some(newer)) = (
            scalar_error(scalar, older, "lhs: "),
            scalar_error(scalar, newer, "rhs: "),
        ) {
            self.errors.push(older);
            self.errors.push(newer);
            return false;
        }
        older != newer
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the side that provides the next item is not empty"
    )]
    fn map(&mut self, map: &'a MapType, older: &Value, newer: &Value) -> bool {
        let mut older_entries: &[Entry] = older.as_map().map_or(&[], |map| map);
        let mut newer_entries: &[Entry] = newer.as_map().map_or(&[], |map| map);
        if map.atomic || (older_entries.is_empty() && newer_entries.is_empty()) {
            return older != newer;
        }
        let mut fields = map.cursor();
        loop {
            let order = match (older_entries.first(), newer_entries.first()) {
                (None, None) => return false,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((older, _)), Some((newer, _))) => older.as_str().cmp(newer.as_str()),
            };
            let older_entry = older_entries.first().filter(|_| order.is_le());
            let newer_entry = newer_entries.first().filter(|_| order.is_ge());
            let Some((key, _)) = older_entry.or(newer_entry) else {
                return false;
            };
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let element = || PathElement::Field(key.clone());
            match (older_entry, newer_entry) {
                (Some((_, older)), Some((_, newer))) => self.both(element, below, older, newer),
                (Some((_, older)), None) => self.one(Side::Older, element(), below, older),
                (None, Some((_, newer))) => self.one(Side::Newer, element(), below, newer),
                (None, None) => return false,
            }
            older_entries = &older_entries[usize::from(order.is_le())..];
            newer_entries = &newer_entries[usize::from(order.is_ge())..];
        }
    }

    #[expect(clippy::indexing_slicing, reason = "groups hold indices of items")]
    fn list(&mut self, list: &'a ListType, older: &Value, newer: &Value) -> bool {
        let older_items: &[Value] = older.as_list().map_or(&[], |list| list);
        let newer_items: &[Value] = newer.as_list().map_or(&[], |list| list);
        if list.is_atomic() || (older_items.is_empty() && newer_items.is_empty()) {
            return older != newer;
        }
        let (older_names, newer_names) = match (names(list, older_items), names(list, newer_items)) {
            (Ok(older), Ok(newer)) => (older, newer),
            (older, newer) => {
                self.errors.0.extend(older.err());
                self.errors.0.extend(newer.err());
                return false;
            }
        };
        if same_names(&older_names, &newer_names) && all_differ(&older_names) {
            return self.pairs(list, &older_names, older_items, newer_items);
        }
        let groups = Groups::new(&older_names, &newer_names);
        let older_at = groups.positions(&groups.left);
        let newer_at = groups.positions(&groups.right);
        for (older_at, newer_at) in older_at.iter().zip(&newer_at) {
            let name = match (older_at.first(), newer_at.first()) {
                (Some(at), _) => &older_names[*at],
                (None, Some(at)) => &newer_names[*at],
                (None, None) => continue,
            };
            let element = || list.element(name);
            match (older_at.as_slice(), newer_at.as_slice()) {
                ([older], [newer]) => self.both(element, list.element, &older_items[*older], &newer_items[*newer]),
                ([older], []) => self.one(Side::Older, element(), list.element, &older_items[*older]),
                ([], [newer]) => self.one(Side::Newer, element(), list.element, &newer_items[*newer]),
                ([], []) => {}
                ([_, _, ..], [_, _, ..]) => {
                    if !equal_items(
                        ItemsAt {
                            positions: older_at,
                            items: older_items,
                        },
                        ItemsAt {
                            positions: newer_at,
                            items: newer_items,
                        },
                    ) {
                        self.modified.push_leaf(element());
                    }
                }
                // Several items with the same key are owned as one item without content. It is added or removed, and
                // the content of the single item on the other side is removed or added.
                ([_, _, ..], rest) => {
                    if let [newer] = rest {
                        self.one(Side::Newer, element(), list.element, &newer_items[*newer]);
                    }
                    self.removed.builder.push_leaf(element());
                }
                (rest, [_, _, ..]) => {
                    if let [older] = rest {
                        self.one(Side::Older, element(), list.element, &older_items[*older]);
                    }
                    self.added.builder.push_leaf(element());
                }
            }
        }
        false
    }

    /// Compares lists whose items have the same distinct keys in the same order.
    fn pairs(&mut self, list: &'a ListType, names: &[Name<'_>], older: &[Value], newer: &[Value]) -> bool {
        let added = self.added.builder.position();
        let modified = self.modified.position();
        let removed = self.removed.builder.position();
        for ((name, older), newer) in names.iter().zip(older).zip(newer) {
            self.both(|| list.element(name), list.element, older, newer);
        }
        if !in_order(names) {
            self.added.builder.sort_level(added);
            self.modified.sort_level(modified);
            self.removed.builder.sort_level(removed);
        }
        false
    }

    /// Adds the differences at an element that both values have.
    fn both(&mut self, element: impl Fn() -> PathElement, type_ref: TypeRef, older: &Value, newer: &Value) {
        // This check costs less than continuing with three open sets, and most parts of most objects are unchanged.
        if self.valid && identical(older, newer) {
            return;
        }
        let before = self.errors.count();
        let step = element();
        let added = self.added.builder.open(step.clone());
        let removed = self.removed.builder.open(step.clone());
        let changed = self.modified.open(step);
        let modified = self.node(type_ref, older, newer);
        self.errors.prefix(before, element);
        self.added.builder.close(added, false);
        self.removed.builder.close(removed, false);
        self.modified.close(changed, modified);
    }

    /// Adds an element that only one value has, with its descendants.
    fn one(&mut self, side: Side, element: PathElement, type_ref: TypeRef, value: &Value) {
        let comparer = match side {
            Side::Older => &mut self.removed,
            Side::Newer => &mut self.added,
        };
        comparer.child(element, type_ref, value, true);
        self.errors.0.append(&mut comparer.errors.0);
    }
}

/// Items of a list at some of its positions.
#[derive(Clone, Copy)]
struct ItemsAt<'a> {
    positions: &'a Positions,
    items: &'a [Value],
}

/// True if both lists have equal items at their positions.
#[expect(clippy::indexing_slicing, reason = "groups hold indices of items")]
fn equal_items(older: ItemsAt<'_>, newer: ItemsAt<'_>) -> bool {
    older.positions.len() == newer.positions.len()
        && older
            .positions
            .iter()
            .zip(newer.positions)
            .all(|(older_at, newer_at)| older.items[*older_at] == newer.items[*newer_at])
}
