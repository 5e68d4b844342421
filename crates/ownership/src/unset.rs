//! Fields that an apply removes because its options name them.

use holdfast_merge::{Filter, Path, PathElement, PathText, Set, Typed};
use holdfast_value::Value;

use crate::error::ApplyError;
use crate::lookup::value_at;

/// Fields that no apply may unset.
pub(crate) struct Fixed<'a> {
    /// Fields that identify an object or that only the server sets.
    pub(crate) unowned: &'a Set,
    /// Filter of the fields that the write may own.
    pub(crate) filter: Option<&'a Filter>,
}

/// Returns the paths in `object` that `unset` names.
///
/// # Errors
/// If `config` sets one of the fields, or if a field cannot be removed.
pub(crate) fn paths(unset: &[PathText], config: &Typed, object: &Typed, fixed: &Fixed<'_>) -> Result<Set, ApplyError> {
    let field_set = |typed: &Typed| {
        let set = typed.to_field_set();
        set.map_err(|errors| ApplyError::Failed(format!("failed to get field set: {errors}")))
    };
    let (configured, existing) = (field_set(config)?, field_set(object)?);
    let mut paths = Set::new();
    for text in unset {
        let rejected = |why: &str| Err(ApplyError::Unset(format!("{} cannot be unset: {why}", text.as_str())));
        if fixed.unowned.paths().any(|path| text.covers(&path)) {
            return rejected("it identifies the object or is set by the server");
        }
        let sets_it = !text.find_in(&configured).is_empty();
        if sets_it || text.leaf_around(&configured).is_some_and(has_content(config)) {
            return rejected("the applied configuration sets it");
        }
        let found = text.find_in(&existing);
        if found.is_empty() && text.leaf_around(&existing).is_some_and(has_content(object)) {
            return rejected("it is part of a field that is replaced as a whole");
        }
        if found.paths().any(|path| is_key_field(&path)) {
            return rejected("it is a key of a list item");
        }
        if fixed.filter.is_some_and(|filter| filter.apply(&found) != found) {
            return rejected("a request to this resource does not change it");
        }
        paths = paths.union(&found);
    }
    Ok(paths)
}

/// Returns a test for paths of containers with content in `object`. A leaf of its field set is such a container if it is
/// atomic.
fn has_content(object: &Typed) -> impl Fn(Path) -> bool + '_ {
    |path| match value_at(object.value(), &path) {
        Some(Value::Map(map)) => !map.is_empty(),
        Some(Value::List(list)) => !list.is_empty(),
        _ => false,
    }
}

/// True if the path is that of a field by which a list item is identified.
fn is_key_field(path: &Path) -> bool {
    match &path[..] {
        [.., PathElement::Key(key), PathElement::Field(name)] => key.fields().iter().any(|(field, _)| field == name),
        _ => false,
    }
}
