//! Generation of kinds whose objects the reference compares with `reflect.DeepEqual`.

use holdfast_resource::WriteContext;
use holdfast_value::Value;

/// Increments the generation if an update sends an empty list or map in the field `part`: `reflect.DeepEqual`
/// distinguishes it from the existing object, which has no empty lists once it is stored.
pub(crate) fn count_given_empties(context: &WriteContext<'_>, object: &mut Value, old: &Value, part: &str) {
    if !context.gives_empty_in(part) {
        return;
    }
    let before = old.at(&["metadata", "generation"]).and_then(Value::as_i64);
    let next = before.unwrap_or_default().saturating_add(1);
    object.set_at(&["metadata", "generation"], Value::Int(next));
}
