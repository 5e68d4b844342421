use holdfast_value::Value;

/// Whether two fields hold the same, where an empty list is as good as none. A map that is there although it is empty is a
/// struct behind a pointer, such as `emptyDir`, which is not the same as none; other empty maps are gone once an object is read.
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            // Each pair is looked at once: looking from both sides would double the work with every level.
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
        (Some(only), None) | (None, Some(only)) => match only {
            Value::Null => true,
            Value::List(list) => list.is_empty(),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps in maps, with this inside the innermost.
    fn nested(inside: &Value) -> Value {
        (0..64).fold(inside.clone(), |inside, _| {
            let mut outer = Value::empty_map();
            outer.set_at(&["same"], "text".into());
            outer.set_at(&["inner"], inside);
            outer
        })
    }

    #[test]
    fn what_differs_only_in_what_is_empty_is_the_same_at_any_depth() {
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
