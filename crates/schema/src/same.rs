use holdfast_value::{SmolStr, Value};

/// Returns true if two fields are equal, where an empty list equals an absent one. A map that is present but empty is a
/// struct behind a pointer, such as `emptyDir`, which does not equal an absent one; other empty maps are removed when
/// an object is read.
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let set = |value: &&Value| !value.is_null();
    match (a.filter(set), b.filter(set)) {
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            // Each pair is compared only once: comparing from both sides would double the work with every level.
            a.same(b)
                || a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                    && b.iter()
                        .all(|(key, value)| a.contains_key(key) || same(None, Some(value)))
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.same(b) || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(a), Some(b)) => a == b,
        (None, None) => true,
        (Some(only), None) | (None, Some(only)) => matches!(only, Value::List(list) if list.is_empty()),
    }
}

/// Returns true if two fields are equal once they are stored in protobuf: an empty list equals `null`. A field that is
/// `null` does not equal an absent one: it may be a pointer to a zero time.
pub fn same_once_stored(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            let equal =
                |(key, value): &(SmolStr, Value)| b.get(key).is_some_and(|b| same_once_stored(Some(value), Some(b)));
            a.same(b) || a.len() == b.len() && a.iter().all(equal)
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.same(b) || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_once_stored(Some(a), Some(b)))
        }
        (Some(Value::List(list)), Some(Value::Null)) | (Some(Value::Null), Some(Value::List(list))) => list.is_empty(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns nested maps with `inside` in the innermost.
    fn nested(inside: &Value) -> Value {
        (0..64).fold(inside.clone(), |inside, _| {
            let mut outer = Value::empty_map();
            outer.set_at(&["same"], "text".into());
            outer.set_at(&["inner"], inside);
            outer
        })
    }

    #[test]
    fn an_empty_list_is_none_however_none_is_written() {
        let list = |value: Value| {
            let mut map = Value::empty_map();
            map.set_at(&["list"], value);
            map
        };
        let (empty, null) = (list(Value::List(Vec::new().into())), list(Value::Null));
        assert!(same(Some(&empty), Some(&null)) && same(Some(&null), Some(&empty)));
        assert!(same(Some(&null), Some(&Value::empty_map())));
        assert!(same_once_stored(Some(&empty), Some(&null)) && same_once_stored(Some(&null), Some(&empty)));
        assert!(!same_once_stored(Some(&null), Some(&Value::empty_map())));
        assert!(!same(Some(&null), Some(&list("text".into()))));
    }

    #[test]
    fn objects_that_differ_in_empty_lists_are_equal() {
        let mut empty = Value::empty_map();
        empty.set_at(&["list"], Value::List(Vec::new().into()));
        let (with, without) = (nested(&empty), nested(&Value::empty_map()));
        assert!(same(Some(&with), Some(&without)));
        assert!(same(Some(&without), Some(&with)));
        let other = nested(&"other".into());
        assert!(!same(Some(&with), Some(&other)));
        assert!(!same(Some(&other), Some(&without)));
    }
}
