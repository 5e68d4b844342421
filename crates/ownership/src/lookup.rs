//! Values at the paths of managers.

use holdfast_merge::{Key, PathElement};
use holdfast_value::Value;

/// Match of a key with a list item.
pub(crate) enum Fit {
    /// Every key field has the value in the key.
    All,
    /// The key fields that the item has match; the missing ones may have a default.
    Some,
    /// A key field differs, or the item has none of them.
    None,
}

/// Returns the match of `key` with `item`.
pub(crate) fn fit(key: &Key, item: &Value) -> Fit {
    let mut there = 0;
    for (name, value) in key.fields() {
        match item.get(name) {
            Some(found) if found == value => there += 1,
            Some(_) => return Fit::None,
            None => {}
        }
    }
    match there {
        0 => Fit::None,
        all if all == key.fields().len() => Fit::All,
        _ => Fit::Some,
    }
}

/// Returns the value at `path` in `object`.
pub(crate) fn value_at<'v>(object: &'v Value, path: &[PathElement]) -> Option<&'v Value> {
    path.iter().try_fold(object, child)
}

/// Returns the value at `path` in `object` for modification.
pub(crate) fn value_at_mut<'v>(object: &'v mut Value, path: &[PathElement]) -> Option<&'v mut Value> {
    path.iter().try_fold(object, |value, element| match element {
        PathElement::Field(name) => value.as_map_mut()?.get_mut(name),
        _ => {
            let at = position(value, element)?;
            value.as_list_mut()?.make_mut().get_mut(at)
        }
    })
}

/// Returns the position of a list item.
fn position(value: &Value, element: &PathElement) -> Option<usize> {
    let wanted = child(value, element)?;
    let mut items = value.as_list()?.iter();
    items.position(|item| std::ptr::eq(item, wanted))
}

fn child<'v>(value: &'v Value, element: &PathElement) -> Option<&'v Value> {
    let items = || value.as_list().into_iter().flat_map(|list| list.iter());
    match element {
        PathElement::Field(name) => value.get(name),
        PathElement::Value(wanted) => items().find(|item| *item == wanted),
        PathElement::Index(position) => items().nth(usize::try_from(*position).ok()?),
        PathElement::Key(key) => {
            let whole = items().find(|item| matches!(fit(key, item), Fit::All));
            whole.or_else(|| items().find(|item| matches!(fit(key, item), Fit::Some)))
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_merge::PathElement;
    use holdfast_value::{Limits, yaml};

    use super::*;

    #[test]
    fn value_is_found_by_every_kind_of_element() {
        let text = "{spec: {ports: [{port: 80, name: a}, {port: 80, protocol: UDP, name: b}], set: [one, two]}}";
        let object = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
        let at = |elements: Vec<PathElement>| {
            let path = [vec![PathElement::field("spec")], elements].concat();
            value_at(&object, &path).map(ToString::to_string)
        };
        let port = |protocol: &str| PathElement::key([("port", Value::Float(80.0)), ("protocol", protocol.into())]);
        let name = PathElement::field("name");
        let ports = PathElement::field("ports");
        assert_eq!(
            at(vec![ports.clone(), port("TCP"), name.clone()]).as_deref(),
            Some("\"a\"")
        );
        assert_eq!(
            at(vec![ports.clone(), port("UDP"), name.clone()]).as_deref(),
            Some("\"b\"")
        );
        assert_eq!(
            at(vec![ports.clone(), PathElement::Index(1), name.clone()]).as_deref(),
            Some("\"b\"")
        );
        assert_eq!(at(vec![ports, port("SCTP"), name]).as_deref(), Some("\"a\""));
        let set = PathElement::field("set");
        assert_eq!(
            at(vec![set.clone(), PathElement::value("two")]).as_deref(),
            Some("\"two\"")
        );
        assert_eq!(at(vec![set, PathElement::value("three")]), None);
    }
}
