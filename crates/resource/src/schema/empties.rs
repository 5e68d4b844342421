//! Fields that a request gives as empty and whose type leaves out what is empty. Trees do not hold them. The reference's
//! structs do until they are stored: it shows them in refusals, and compares them.

use holdfast_value::{List, Map, Value};

use crate::{FieldError, FieldPath};

/// An empty list or map that a request gives, and that its type leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyField {
    /// Where it stands.
    pub path: FieldPath,
    /// Whether it is a list, and not a map.
    pub is_list: bool,
}

impl EmptyField {
    /// What was given.
    pub fn value(&self) -> Value {
        if self.is_list {
            Value::List(List::new())
        } else {
            Value::Map(Map::new())
        }
    }

    /// Whether `value` is what can be given as empty.
    pub(crate) fn is_one(value: &Value) -> bool {
        match value {
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            _ => false,
        }
    }
}

/// Lets errors of fields that were given as empty show that, where they show that nothing is there.
pub fn show_empties(errors: &mut [FieldError], empties: &[EmptyField]) {
    for error in errors {
        if error.value != Some(Value::Null) {
            continue;
        }
        let sent = empties.iter().find(|empty| empty.path == error.field);
        error.value = sent.map(EmptyField::value).or(Some(Value::Null));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_what_was_given_as_empty() {
        let empty = EmptyField {
            path: FieldPath::new("spec").child("items").index(2).child("labels"),
            is_list: false,
        };
        let at = |path: &FieldPath| FieldError::invalid(path, Value::Null, "wrong");
        let mut errors = [at(&empty.path), at(&FieldPath::new("spec"))];
        show_empties(&mut errors, std::slice::from_ref(&empty));
        assert_eq!(
            errors.map(|error| error.to_string()),
            [
                "spec.items[2].labels: Invalid value: {}: wrong",
                "spec: Invalid value: null: wrong"
            ]
        );
    }
}
