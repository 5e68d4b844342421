//! The generation of kinds whose reference compares structs bit by bit.

use holdfast_resource::WriteContext;
use holdfast_value::Value;

/// Raises the generation where an update gives something as empty in the field `part`: to `reflect.DeepEqual` it is not what
/// the object in place has, which knows no empty lists once it is stored.
pub(crate) fn count_given_empties(context: &WriteContext<'_>, object: &mut Value, old: &Value, part: &str) {
    if !context.gives_empty_in(part) {
        return;
    }
    let before = old.at(&["metadata", "generation"]).and_then(Value::as_i64);
    let next = before.unwrap_or_default().saturating_add(1);
    object.set_at(&["metadata", "generation"], Value::Int(next));
}
