//! Lists that are merged item by item, and the order of the result.
//!
//! Items of the patch keep the patch's order, all others theirs. In the merged list, an item that only the server has
//! precedes a patch's item that followed it before the patch.

use std::mem::discriminant;

use holdfast_value::{List, SeenValues, Value};

use super::directive::{DIRECTIVE, Directive};
use super::{PatchError, PatchMember, PatchType, error, merge_map};

/// Merges the items of `patch` into `there`: maps by the merge key of `member`, scalars by value.
pub(super) fn merge<T: PatchType>(there: List, patch: &List, member: &PatchMember<T>) -> Result<List, PatchError> {
    if there.is_empty() && patch.is_empty() {
        return Ok(there);
    }
    if !holds_maps(&there, patch)? {
        let mut seen = SeenValues::new();
        let once = there.iter().chain(patch.iter()).filter(|item| seen.insert(*item));
        let merged: Vec<Value> = once.cloned().collect();
        return ordered(&List::from(merged), patch, &there, member);
    }
    let key = declared_key(member)?;
    let (there, patch) = obey_directives(there, patch, key)?;
    let before = there.clone();
    let merged = merge_items(there, &patch, key, member)?;
    ordered(&merged, &patch, &before, member)
}

/// Removes the scalars of `doomed` from `there`. Lists of maps are merged, as the reference does with this directive
/// too.
pub(super) fn delete_items<T: PatchType>(
    there: List,
    doomed: &List,
    member: &PatchMember<T>,
) -> Result<List, PatchError> {
    if there.is_empty() && doomed.is_empty() {
        return Ok(there);
    }
    if holds_maps(&there, doomed)? {
        return merge(there, doomed, member);
    }
    let doomed: SeenValues<&Value> = doomed.iter().collect();
    Ok(there.iter().filter(|item| !doomed.contains(item)).cloned().collect())
}

/// Rejects a patch whose items are not among those of `order`, or not in their order. Items with a directive are
/// skipped.
///
/// upstream: k8s.io/apimachinery/pkg/util/strategicpatch#validatePatchWithSetOrderList
pub(super) fn check_order<T: PatchType>(patch: &List, order: &List, member: &PatchMember<T>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in patch {
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        loop {
            let Some(place) = places.next() else {
                return Err(PatchError::OrderMismatch {
                    patch: patch.clone(),
                    order: order.clone(),
                });
            };
            let (item, place) = match &member.merge_key {
                None => (item, place),
                Some(key) => (key_of(item, key)?, key_of(place, key)?),
            };
            if item == place {
                break;
            }
        }
    }
    Ok(())
}

/// Sorts `merged`: the items that `order` names in that order, the others in the order of `before`, each of these ahead
/// of the first of the former that it preceded.
pub(super) fn ordered<T: PatchType>(
    merged: &List,
    order: &List,
    before: &List,
    member: &PatchMember<T>,
) -> Result<List, PatchError> {
    if let (Some(_), false) = (&member.merge_key, merged.is_empty())
        && let Some(at) = order.iter().position(|item| !matches!(item, Value::Map(_)))
    {
        return Err(PatchError::NoMap(at));
    }
    let order = Positions::new(order, member)?;
    let before = Positions::new(before, member)?;
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let identity = identity(item, member)?;
        match order.of_item(identity) {
            Some(place) => named.push((place, before.of_item(identity), item)),
            None => others.push((before.of_item(identity), item)),
        }
    }
    // Both sorts are stable: items without a position, or with the same one, keep their order.
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));

    let mut named = named.into_iter().peekable();
    let mut result = Vec::with_capacity(merged.len());
    for (place, item) in others {
        while let Some((_, stood, named_item)) = named.peek() {
            if place.is_some_and(|place| stood.is_some_and(|stood| place < stood)) {
                break;
            }
            result.push((*named_item).clone());
            named.next();
        }
        result.push(item.clone());
    }
    result.extend(named.map(|(.., item)| item.clone()));
    Ok(List::from(result))
}

/// Position of each item of a list, found by its identity.
struct Positions<'a>(Vec<(&'a Value, usize)>);

impl<'a> Positions<'a> {
    fn new<T: PatchType>(list: &'a List, member: &PatchMember<T>) -> Result<Self, PatchError> {
        let mut places = list
            .iter()
            .enumerate()
            .map(|(at, item)| Ok((identity(item, member)?, at)))
            .collect::<Result<Vec<_>, PatchError>>()?;
        places.sort_by(|(a, at), (b, bt)| a.compare(b).then(at.cmp(bt)));
        Ok(Self(places))
    }

    /// Returns the position of the first item of that identity.
    fn of_item(&self, identity: &Value) -> Option<usize> {
        let at = self.0.partition_point(|(other, _)| other.compare(identity).is_lt());
        self.0
            .get(at)
            .filter(|(other, _)| other.compare(identity).is_eq())
            .map(|(_, place)| *place)
    }
}

/// Returns the identity of an item: its merge key, or itself.
fn identity<'a, T: PatchType>(item: &'a Value, member: &PatchMember<T>) -> Result<&'a Value, PatchError> {
    match &member.merge_key {
        None => Ok(item),
        Some(key) => key_of(item, key),
    }
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    let Value::Map(map) = item else {
        return Err(error::wrong_type("map[string]interface {}", item));
    };
    map.get(key).ok_or_else(|| PatchError::NoMergeKey {
        map: item.clone(),
        key: key.to_owned(),
    })
}

fn declared_key<T: PatchType>(member: &PatchMember<T>) -> Result<&str, PatchError> {
    member.merge_key.as_deref().ok_or(PatchError::NoDeclaredKey)
}

/// Returns true if the items are maps; they must all be maps or all be scalars. Not both lists may be empty.
fn holds_maps(there: &List, patch: &List) -> Result<bool, PatchError> {
    let mut items = there.iter().chain(patch.iter());
    let first = items.next();
    if matches!(first, Some(Value::List(_))) {
        return Err(PatchError::ListOfLists);
    }
    match first {
        Some(first) if items.all(|item| discriminant(item) == discriminant(first)) => {
            Ok(matches!(first, Value::Map(_)))
        }
        _ => Err(PatchError::MixedList {
            there: there.clone(),
            patch: patch.clone(),
        }),
    }
}

/// Applies the `$patch` directives among the items of `patch`; returns the rest of both lists.
fn obey_directives(mut there: List, patch: &List, key: &str) -> Result<(List, List), PatchError> {
    if patch.iter().all(|item| item.get(DIRECTIVE).is_none()) {
        return Ok((there, patch.clone()));
    }
    let mut plain = Vec::with_capacity(patch.len());
    let (mut doomed, mut replace) = (SeenValues::new(), false);
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item.clone());
            continue;
        };
        match Directive::from_value(directive) {
            Some(Directive::Delete) => {
                doomed.insert(key_of(item, key)?);
            }
            Some(Directive::Replace) => replace = true,
            Some(Directive::Merge) => return Err(PatchError::MergeDirectiveInList),
            None => {
                return Err(PatchError::UnknownDirective {
                    directive: directive.clone(),
                    map: item.clone(),
                });
            }
        }
    }
    if !doomed.is_empty() {
        let is_doomed = |item: &Value| item.get(key).is_some_and(|identity| doomed.contains(&identity));
        there.make_mut().retain(|item| !is_doomed(item));
    }
    let plain = List::from(plain);
    Ok(if replace { (plain, List::new()) } else { (there, plain) })
}

/// Merges each item of `patch` into the first one with its key, or appends it.
#[expect(clippy::indexing_slicing, reason = "targets hold the places of items")]
fn merge_items<T: PatchType>(
    mut there: List,
    patch: &List,
    key: &str,
    member: &PatchMember<T>,
) -> Result<List, PatchError> {
    if patch.is_empty() {
        return Ok(there);
    }
    let places = Positions::new(patch, member)?;
    let mut targets = vec![None; patch.len()];
    for (at, item) in there.iter().enumerate() {
        // An item without the key cannot be a target; the check of the order decides if it may stay.
        if let Some(place) = item.get(key).and_then(|identity| places.of_item(identity)) {
            targets[place].get_or_insert(at);
        }
    }
    let items = there.make_mut();
    for (place, item) in patch.iter().enumerate() {
        // The patch may hold one key twice: both are merged into the first.
        let first = places.of_item(key_of(item, key)?).unwrap_or(place);
        match (targets[first], item) {
            (Some(at), Value::Map(item)) => {
                if let Value::Map(map) = std::mem::take(&mut items[at]) {
                    items[at] = Value::Map(merge_map(map, item, &member.value)?);
                }
            }
            _ => {
                // The reference appends the item unchanged, with its nulls and directives.
                targets[first] = Some(items.len());
                items.push(item.clone());
            }
        }
    }
    Ok(there)
}
