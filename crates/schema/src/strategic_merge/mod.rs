//! Strategic merge patch: a merge patch that knows the type of the patched object.
//!
//! Maps are merged key by key, `null` removes a key. Lists with a merge strategy are merged item by item, by a merge
//! key or by value; all other lists are replaced. Directives inside the patch override this: `$patch` (`replace`,
//! `delete`), `$retainKeys`, `$setElementOrder/FIELD`, `$deleteFromPrimitiveList/FIELD`. See
//! <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>.

mod consumed;
mod directive;
mod error;
mod list;
mod table;
#[cfg(test)]
mod tests;

use holdfast_value::{Map, Members, SeenValues, SmolStr, Value};

pub use consumed::consumed_patch;
pub use error::{PatchError, PatchErrorKind};
pub use table::TablePatchType;

use directive::{DELETE_FROM_LIST, DIRECTIVE, Directive, RETAIN_KEYS, SET_ORDER};

/// Type information that strategic merge needs.
pub trait PatchType: Clone {
    /// Returns the properties of the field `name` of a struct, or of the values of a map. `None` if the type has no
    /// such field.
    fn member(&self, name: &str) -> Option<PatchMember<Self>>;

    /// Returns the short name of the type in messages: `PodSpec`.
    fn name(&self) -> &str;
}

/// A field of a type for strategic merge.
pub struct PatchMember<T> {
    /// Type of the field's value; of its items if that is a list.
    pub value: T,
    /// Combination of the patch's value with the existing one.
    pub strategy: PatchStrategy,
    /// Field that identifies the items of the list, if the list is merged by one.
    pub merge_key: Option<SmolStr>,
}

/// Combination of a patch's value with the existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Maps are merged, lists replaced: the default of fields without a tag.
    Usual,
    /// Lists are merged too.
    Merge,
    /// Maps are replaced too.
    Replace,
}

/// Merges `patch` into `original`, an object of type `of`. Neither has to be valid; validation reports missing and
/// superfluous values of the result.
pub fn strategic_merge<T: PatchType>(original: Value, patch: &Value, of: &T) -> Result<Value, PatchError> {
    let (Value::Map(original), Value::Map(patch)) = (original, patch) else {
        return Err(PatchError::BadDocument);
    };
    Ok(Value::Map(merge_map(original, patch, of)?))
}

fn merge_map<T: PatchType>(original: Map, patch: &Map, of: &T) -> Result<Map, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match Directive::from_value(directive) {
            Some(Directive::Replace) => {
                let mut replacement = patch.clone();
                replacement.remove(DIRECTIVE);
                Ok(replacement)
            }
            Some(Directive::Delete) => Ok(Map::new()),
            _ => Err(PatchError::UnknownDirective {
                directive: directive.clone(),
                map: Value::Map(patch.clone()),
            }),
        };
    }
    let mut original = original;
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut original, patch, keys)?;
    }
    let mut original = Members::new(original, patch.len());
    let ordered = merge_ordered_lists(&mut original, patch, of)?;

    for (key, value) in patch {
        // The directives are in the order of the lists that they name.
        let is_done = || ordered.binary_search(&key).is_ok();
        if key == RETAIN_KEYS || key.starts_with(SET_ORDER) || is_done() {
            continue;
        }
        let (name, deletes_items) = match key.strip_prefix(DELETE_FROM_LIST) {
            None => (key.as_str(), false),
            Some(rest) => (field_behind(rest).ok_or(PatchError::BadDeleteList)?, true),
        };
        merge_member(&mut original, name, value, deletes_items, of)?;
    }
    Ok(original.into_map())
}

fn merge_member<T: PatchType>(
    original: &mut Members,
    name: &str,
    patch: &Value,
    deletes_items: bool,
    of: &T,
) -> Result<(), PatchError> {
    if patch.is_null() {
        original.remove(name);
        return Ok(());
    }
    // The value is moved out, so that a subtree with one holder is modified without a copy.
    let merged = match (original.get_mut(name).map(std::mem::take), patch) {
        (Some(Value::Map(value)), Value::Map(patch)) => {
            let member = lookup(of, name)?;
            match member.strategy {
                PatchStrategy::Replace => Some(Value::Map(patch.clone())),
                _ => Some(Value::Map(merge_map(value, patch, &member.value)?)),
            }
        }
        (Some(Value::List(value)), Value::List(patch)) => {
            let member = lookup(of, name)?;
            match member.strategy {
                _ if deletes_items => Some(Value::List(list::delete_items(value, patch, &member)?)),
                PatchStrategy::Merge => Some(Value::List(list::merge(value, patch, &member)?)),
                _ => Some(Value::List(patch.clone())),
            }
        }
        (there, _) if deletes_items => there,
        (_, patch) => directive::without_directives(&directive::without_nulls(patch)),
    };
    match merged {
        Some(value) => original.insert(name, value),
        None => original.remove(name),
    }
    Ok(())
}

/// Removes the keys that are not among `keys`, which must include all keys of the patch.
fn retain_keys(original: &mut Map, patch: &Map, keys: &Value) -> Result<(), PatchError> {
    let keys: SeenValues<&str> = keys
        .as_list()
        .ok_or(PatchError::BadRetainKeys)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let retained = |name: &str| keys.contains(&name);
    let strays = patch.iter().any(|(name, value)| {
        !(value.is_null()
            || name == RETAIN_KEYS
            || name.starts_with(DELETE_FROM_LIST)
            || name.starts_with(SET_ORDER)
            || retained(name))
    });
    if strays {
        return Err(PatchError::BadRetainKeys);
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// Merges the lists whose order the patch gives, and returns their names: they are complete.
fn merge_ordered_lists<'a, T: PatchType>(
    original: &mut Members,
    patch: &'a Map,
    of: &T,
) -> Result<Vec<&'a SmolStr>, PatchError> {
    let mut done = Vec::new();
    for (key, order) in patch {
        let Some(rest) = key.strip_prefix(SET_ORDER) else {
            continue;
        };
        let order = error::list_of(order)?;
        let name = field_behind(rest).ok_or(PatchError::BadOrderList)?;
        let there = original.get(name).map(error::list_of).transpose()?.cloned();
        let patched = patch
            .binary_search_by(|(key, _)| key.as_str().cmp(name))
            .ok()
            .and_then(|at| patch[..].get(at))
            .map(|(key, value)| Ok::<_, PatchError>((key, error::list_of(value)?)))
            .transpose()?;
        let member = lookup(of, name)?;
        if let Some((_, items)) = patched {
            list::check_order(items, order, &member)?;
        }
        let before = there.clone().unwrap_or_default();
        let merged = match (there, patched) {
            (None, None) => continue,
            (Some(there), None) => there,
            (None, Some((_, items))) => directive::list_without_directives(items),
            (Some(there), Some((_, items))) if member.strategy == PatchStrategy::Merge => {
                list::merge(there, items, &member)?
            }
            (Some(_), Some((_, items))) => items.clone(),
        };
        original.insert(name, Value::List(list::ordered(&merged, order, &before, &member)?));
        done.extend(patched.map(|(key, _)| key));
    }
    Ok(done)
}

fn lookup<T: PatchType>(of: &T, name: &str) -> Result<PatchMember<T>, PatchError> {
    of.member(name).ok_or_else(|| PatchError::UnknownField {
        of: of.name().to_owned(),
        field: name.to_owned(),
    })
}

/// Returns the field in `/FIELD`, which follows the name of a directive.
fn field_behind(rest: &str) -> Option<&str> {
    rest.strip_prefix('/')
}
