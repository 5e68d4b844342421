//! Fields of an object by their path, where values on the way may be of another type: paths that a CRD names, such as
//! those of a Scale.

use holdfast_value::text::Plain;
use holdfast_value::{SmolStr, Value};

/// Paths of the fields of a Scale in the scaled object; each is a list of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleFields {
    /// Desired number of replicas: `spec.replicas` in built-in kinds.
    pub spec_replicas: Vec<SmolStr>,
    /// Observed number of replicas: `status.replicas` in built-in kinds.
    pub status_replicas: Vec<SmolStr>,
    /// Selector of the replicas, as a label selector or as its text. `None` if the kind has none.
    pub selector: Option<Vec<SmolStr>>,
}

/// Returns the value at `path`; nothing if a field on the way is absent.
///
/// # Errors
/// If a value on the way is not a map, in the reference's words.
#[expect(clippy::indexing_slicing, reason = "the place of a step of this very path")]
pub fn nested_field<'v>(object: &'v Value, path: &[SmolStr]) -> Result<Option<&'v Value>, String> {
    let mut found = object;
    for (at, name) in path.iter().enumerate() {
        let map = match found {
            Value::Null => return Ok(None),
            Value::Map(map) => map,
            other => return Err(accessor_error(&path[..=at], other, "map[string]interface{}")),
        };
        match map.get(name) {
            Some(value) => found = value,
            None => return Ok(None),
        }
    }
    Ok(Some(found).filter(|found| !found.is_null()))
}

/// Returns the integer at `path`.
///
/// # Errors
/// If [`nested_field`] fails, or the value is not an integer.
pub fn nested_integer(object: &Value, path: &[SmolStr]) -> Result<Option<i64>, String> {
    match nested_field(object, path)? {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(other) => Err(accessor_error(path, other, "int64")),
    }
}

/// Returns the text at `path`.
///
/// # Errors
/// If [`nested_field`] fails, or the value is not a text.
pub fn nested_text<'v>(object: &'v Value, path: &[SmolStr]) -> Result<Option<&'v str>, String> {
    match nested_field(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(accessor_error(path, other, "string")),
    }
}

/// Returns a path in the form of messages: `.spec.replicas`.
pub fn nested_path(path: &[SmolStr]) -> String {
    path.iter().flat_map(|name| [".", name.as_str()]).collect()
}

fn accessor_error(path: &[SmolStr], value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::UInt(_) | Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Null => "map[string]interface {}",
    };
    let (shown, path) = (Plain(value), nested_path(path));
    format!("{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn wrong_type_is_an_error_and_absent_field_is_not() {
        let object = json::parse(br#"{"spec":{"n":3,"s":"x","z":null},"status":"y"}"#, &Limits::TRUSTED).unwrap();
        let path = |text: &str| text.split('.').map(SmolStr::new).collect::<Vec<_>>();
        assert_eq!(nested_integer(&object, &path("spec.n")), Ok(Some(3)));
        for absent in ["spec.m", "spec.m.n", "spec.z", "spec.z.n"] {
            assert_eq!(nested_integer(&object, &path(absent)), Ok(None), "{absent}");
        }
        assert_eq!(nested_text(&object, &path("spec.s")), Ok(Some("x")));
        assert_eq!(
            nested_integer(&object, &path("status.n")).unwrap_err(),
            ".status.n accessor error: y is of the type string, expected map[string]interface{}"
        );
        assert_eq!(
            nested_integer(&object, &path("spec.s")).unwrap_err(),
            ".spec.s accessor error: x is of the type string, expected int64"
        );
        let object = json::parse(br#"{"spec":{"l":[null,{"a":1}]}}"#, &Limits::TRUSTED).unwrap();
        assert_eq!(
            nested_integer(&object, &path("spec.l")).unwrap_err(),
            ".spec.l accessor error: [<nil> map[a:1]] is of the type []interface {}, expected int64"
        );
    }
}
