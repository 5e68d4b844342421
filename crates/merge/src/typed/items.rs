//! Keys of list items.

use std::cmp::Ordering;

use holdfast_gotext::quote::quote;
use holdfast_value::Value;
use smallvec::SmallVec;

use super::ValidationError;
use crate::PathElement;
use crate::path_element::Key;
use crate::schema::{ListType, Relationship};
use crate::set::{Entry, Level};

/// Key of a list item, borrowed from the item: the values of its key fields, sorted by the fields' names, with gaps for
/// fields without a value or default; or the single value of a set's item.
#[derive(Clone, Debug)]
pub(super) struct Name<'a>(SmallVec<[Option<&'a Value>; 2]>);

impl ListType {
    /// Returns the key of an item.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#listItemToPathElement
    pub(super) fn name<'a>(&'a self, item: &'a Value) -> Result<Name<'a>, String> {
        if self.relationship != Relationship::Associative {
            return Err("invalid indexing of non-associative list".to_owned());
        }
        match self.keys.is_empty() {
            true => set_item_name(item),
            false => self.keyed_item_name(item),
        }
    }

    /// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#keyedAssociativeListItemToPathElement
    fn keyed_item_name<'a>(&'a self, item: &'a Value) -> Result<Name<'a>, String> {
        let map = match item {
            Value::Map(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut values = SmallVec::with_capacity(self.keys.len());
        for key in &self.keys {
            let value = map.get(&key.name);
            if value.is_none() && !self.items_are_maps {
                return Err(format!(
                    "couldn't find default value for {}: associative list may not have non-map types",
                    key.name
                ));
            }
            values.push(value.or(key.default.as_ref()));
        }
        if values.iter().all(Option::is_none) {
            let names: Vec<_> = self.declared_keys.iter().map(|name| quote(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(Name(values))
    }

    /// Returns the path element of a key.
    pub(super) fn element(&self, name: &Name<'_>) -> PathElement {
        match (self.keys.as_ref(), name.0.as_slice()) {
            ([], [Some(value)]) => PathElement::Value((*value).clone()),
            ([key], [Some(value)]) => PathElement::Key(Key::single(key.name.clone(), (*value).clone())),
            (keys, values) => PathElement::Key(Key::new(
                keys.iter()
                    .zip(values)
                    .filter_map(|(key, value)| value.map(|value| (key.name.clone(), value.clone())))
                    .collect(),
            )),
        }
    }

    /// Compares an element with the element of a key.
    fn compare_element(&self, element: &PathElement, name: &Name<'_>) -> Ordering {
        match element {
            PathElement::Field(_) => Ordering::Less,
            PathElement::Index(_) => Ordering::Greater,
            PathElement::Value(value) => match (self.keys.is_empty(), name.0.as_slice()) {
                (true, [Some(named)]) => value.compare(named),
                _ => Ordering::Greater,
            },
            PathElement::Key(_) if self.keys.is_empty() => Ordering::Less,
            PathElement::Key(key) => {
                let mut fields = key.fields().iter();
                for (key_field, value) in self.keys.iter().zip(&name.0) {
                    let Some(value) = value else { continue };
                    let Some((field, field_value)) = fields.next() else {
                        return Ordering::Less;
                    };
                    let order = field
                        .as_str()
                        .cmp(key_field.name.as_str())
                        .then_with(|| field_value.compare(value));
                    if order.is_ne() {
                        return order;
                    }
                }
                match fields.next() {
                    Some(_) => Ordering::Greater,
                    None => Ordering::Equal,
                }
            }
        }
    }
}

/// Entries of a level of a set, for lookup by the keys of a list's items.
pub(super) struct ItemEntries<'a>(SmallVec<[Entry<'a>; 8]>);

impl<'a> ItemEntries<'a> {
    pub(super) fn from_level(level: Level<'a>) -> Self {
        Self(level.entries().collect())
    }

    /// Returns the entry of an item, or `None` if the item has no key or no entry.
    pub(super) fn find(&self, list: &ListType, item: &Value) -> Option<Entry<'a>> {
        let name = list.name(item).ok()?;
        let at = self
            .0
            .binary_search_by(|entry| list.compare_element(entry.element(), &name))
            .ok()?;
        self.0.get(at).copied()
    }
}

/// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#setItemToPathElement
fn set_item_name(item: &Value) -> Result<Name<'_>, String> {
    match item {
        Value::Map(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::List(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(Name(SmallVec::from_slice(&[Some(scalar)]))),
    }
}

impl<'a> Name<'a> {
    /// Iterates over the values of the key, each with the name of its field, which is missing for a set's item.
    pub(super) fn parts(&self, list: &'a ListType) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let key_fields = list.keys.iter().map(|key| key.name.as_str());
        let fields = key_fields.chain(list.keys.is_empty().then_some(""));
        fields
            .zip(&self.0)
            .filter_map(|(field, value)| Some((field, (*value)?)))
    }

    /// Compares the path elements of two keys of one list.
    #[inline]
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        for (at, pair) in self.0.iter().zip(&other.0).enumerate() {
            let order = match pair {
                (Some(a), Some(b)) => a.compare(b),
                (None, None) => Ordering::Equal,
                // The key with this field has an earlier name at this position, unless the other key has no more
                // fields.
                (Some(_), None) => {
                    if other.has_values_from(at) {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
                (None, Some(_)) => {
                    if self.has_values_from(at) {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    }
                }
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    #[expect(clippy::indexing_slicing, reason = "called with the index of an item")]
    fn has_values_from(&self, at: usize) -> bool {
        self.0[at..].iter().any(Option::is_some)
    }
}

/// Returns the keys of a list's items in order; fails if an item has none.
pub(super) fn names<'a>(list: &'a ListType, items: &'a [Value]) -> Result<Vec<Name<'a>>, ValidationError> {
    let mut names = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match list.name(item) {
            Ok(name) => names.push(name),
            Err(reason) => return Err(ValidationError::new(format!("element {at}: {reason}"))),
        }
    }
    Ok(names)
}

/// True if both have the same keys in the same order.
pub(super) fn same_names<'n>(a: &[Name<'n>], b: &[Name<'n>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compare(b).is_eq())
}

/// True if the keys ascend without repetition.
#[expect(clippy::indexing_slicing, reason = "windows of two")]
pub(super) fn in_order(names: &[Name<'_>]) -> bool {
    names.windows(2).all(|pair| pair[0].compare(&pair[1]).is_lt())
}

/// True if no key is repeated.
#[expect(clippy::indexing_slicing, reason = "windows of two")]
pub(super) fn all_differ(names: &[Name<'_>]) -> bool {
    if in_order(names) {
        return true;
    }
    let mut sorted: Vec<&Name<'_>> = names.iter().collect();
    sorted.sort_unstable_by(|a, b| a.compare(b));
    sorted.windows(2).all(|pair| pair[0].compare(pair[1]).is_ne())
}

/// Returns for each item whether its key occurred before.
#[expect(
    clippy::indexing_slicing,
    reason = "groups are numbered from zero, and hold indices of items"
)]
pub(super) fn repeats(names: &[Name<'_>]) -> Vec<bool> {
    let groups = Groups::new(names, &[]);
    let mut seen = vec![false; groups.count];
    let is_repeated = |group: &usize| std::mem::replace(&mut seen[*group], true);
    groups.left.iter().map(is_repeated).collect()
}

/// Returns the validation error of an item whose key occurred before.
pub(super) fn duplicate_error(list: &ListType, name: &Name<'_>) -> ValidationError {
    ValidationError::new(format!("duplicate entries for key {}", list.element(name)))
}

/// Returns the validation errors of all items whose keys occurred before.
pub(super) fn duplicate_errors(list: &ListType, names: &[Name<'_>]) -> Vec<ValidationError> {
    let repeats = repeats(names).into_iter().zip(names);
    let repeated = repeats.filter(|(is_repeated, _)| *is_repeated);
    repeated.map(|(_, name)| duplicate_error(list, name)).collect()
}

/// Items of one or two lists, grouped by key.
pub(super) struct Groups {
    /// Group of each item of the left list. Groups are numbered from 0 in the order of their keys.
    pub(super) left: Vec<usize>,
    /// Group of each item of the right list.
    pub(super) right: Vec<usize>,
    /// Number of groups.
    pub(super) count: usize,
}

impl Groups {
    #[expect(
        clippy::indexing_slicing,
        reason = "groups are numbered from zero, and hold indices of items"
    )]
    pub(super) fn new<'n>(left: &[Name<'n>], right: &[Name<'n>]) -> Self {
        let name = |at: usize| match at.checked_sub(left.len()) {
            None => &left[at],
            Some(at) => &right[at],
        };
        let mut order: Vec<usize> = (0..left.len() + right.len()).collect();
        order.sort_by(|a, b| name(*a).compare(name(*b)));
        let mut groups = Self {
            left: vec![0; left.len()],
            right: vec![0; right.len()],
            count: 0,
        };
        let mut previous = None;
        for at in order {
            if previous.is_none_or(|previous| name(previous).compare(name(at)).is_ne()) {
                groups.count += 1;
            }
            previous = Some(at);
            match at.checked_sub(left.len()) {
                None => groups.left[at] = groups.count - 1,
                Some(at) => groups.right[at] = groups.count - 1,
            }
        }
        groups
    }

    /// Returns the positions of each group's items in a list, given the groups of the items.
    #[expect(
        clippy::indexing_slicing,
        reason = "groups are numbered from zero, and hold indices of items"
    )]
    pub(super) fn positions(&self, items: &[usize]) -> Vec<Positions> {
        let mut positions = vec![Positions::default(); self.count];
        for (at, group) in items.iter().enumerate() {
            positions[*group].push(at);
        }
        positions
    }
}

/// Positions of the items with one key in a list.
pub(super) type Positions = SmallVec<[usize; 1]>;
