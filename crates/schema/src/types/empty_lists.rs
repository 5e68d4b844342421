//! Empty lists and maps in objects that are stored in protobuf, which cannot distinguish them from absent ones: a field
//! that is never left out is `null` once its object is stored.

use holdfast_value::{Map, Value};

use crate::types::rebuild::{ListRebuild, MapRebuild};
use crate::types::{Field, Omission, Shape, Type, TypeId, TypeTable};

impl TypeTable {
    /// Finds the fields of lists or maps that are written even if they are empty, and those that lead to such fields.
    /// Types may be recursive, so this iterates until nothing new is found.
    pub(super) fn resolve_written_lists(&mut self) {
        let mut grew = true;
        while grew {
            grew = false;
            for at in 0..self.types.len() {
                let Some(of) = self.types.get(at) else { continue };
                let leads = |field: &Field| is_written_list(field) || self.leads_to_written_list(&field.shape);
                let places: Vec<u16> = (0u16..)
                    .zip(of.fields())
                    .filter(|(_, field)| leads(field))
                    .map(|(place, _)| place)
                    .collect();
                if let Some(of) = self.types.get_mut(at)
                    && places.len() > of.written_lists.len()
                {
                    of.written_lists = places;
                    grew = true;
                }
            }
        }
    }

    fn leads_to_written_list(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Map(of) if matches!(**of, Shape::List(_) | Shape::Map(_)) => true,
            shape => shape.type_id().is_some_and(|id| !self.get(id).written_lists.is_empty()),
        }
    }

    /// Returns `value`, of the type `of`, as it is after a round trip through protobuf: with `null` for empty lists and
    /// maps that are written even if they are empty. `None` if there are none.
    pub(crate) fn without_empty_lists(&self, of: TypeId, value: &Value) -> Option<Value> {
        let ty = self.get(of);
        match value {
            Value::Map(map) if !ty.written_lists.is_empty() => self.fields_without_empty_lists(ty, map),
            _ => None,
        }
    }

    fn fields_without_empty_lists(&self, of: &Type, map: &Map) -> Option<Value> {
        let places = of.written_lists.iter().map(|place| usize::from(*place));
        let mut fields = places.filter_map(|place| of.fields().get(place)).peekable();
        let mut rebuild = MapRebuild::new(map);
        for (at, (name, value)) in map.iter().enumerate() {
            while fields.next_if(|field| field.name < *name).is_some() {}
            let changed = match fields.next_if(|field| field.name == *name) {
                Some(field) if is_written_list(field) && is_empty_list(value) => Some(Value::Null),
                Some(field) => self.shape_without_empty_lists(&field.shape, value),
                None => None,
            };
            rebuild.keep_or_replace(at, changed);
        }
        rebuild.finish()
    }

    fn shape_without_empty_lists(&self, shape: &Shape, value: &Value) -> Option<Value> {
        match (shape, value) {
            (Shape::Ref(id), _) => self.without_empty_lists(*id, value),
            (Shape::List(item), Value::List(list)) => {
                let mut rebuild = ListRebuild::new(list);
                for (at, value) in list.iter().enumerate() {
                    rebuild.replace(at, self.shape_without_empty_lists(item, value));
                }
                rebuild.finish()
            }
            (Shape::Map(of), Value::Map(map)) => {
                let mut rebuild = MapRebuild::new(map);
                for (at, (_, value)) in map.iter().enumerate() {
                    let is_none = matches!(**of, Shape::List(_) | Shape::Map(_)) && is_empty_list(value);
                    let none = is_none.then_some(Value::Null);
                    rebuild.keep_or_replace(at, none.or_else(|| self.shape_without_empty_lists(of, value)));
                }
                rebuild.finish()
            }
            _ => None,
        }
    }
}

/// Returns true if a field holds a list or a map, and is never left out.
fn is_written_list(field: &Field) -> bool {
    field.omission == Omission::Never && !field.pointer && matches!(field.shape, Shape::List(_) | Shape::Map(_))
}

fn is_empty_list(value: &Value) -> bool {
    match value {
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const TYPES: &str = "type a.Outer struct\n  always []string 1 never\n  amounts {}string 2 never\n  extra {}[]string 3\n  \
        inner a.Inner 4\n  other []string 5\n  pointer []string 6 pointer never\n\n\
        type a.Inner struct\n  items []a.Outer 1\n  plain string 2\n";

    /// Returns the changed object; `None` if it stays unchanged.
    fn kept(object: &str) -> Option<String> {
        let table = TypeTable::parse(TYPES).unwrap();
        let object = json::parse(object.as_bytes(), &Limits::default()).unwrap();
        let kept = table.without_empty_lists(table.id("a.Outer").unwrap(), &object);
        kept.map(|kept| json::to_string(&kept))
    }

    #[test]
    fn empty_lists_that_are_always_written_become_null_at_any_depth() {
        assert_eq!(
            kept(r#"{"always":[],"amounts":{},"extra":{"a":[],"b":["c"]},"inner":{"items":[{"always":[]}],"plain":""}}"#),
            Some(
                r#"{"always":null,"amounts":null,"extra":{"a":null,"b":["c"]},"inner":{"items":[{"always":null}],"plain":""}}"#
                    .to_owned()
            )
        );
    }

    #[test]
    fn object_unchanged_by_protobuf_stays_shared() {
        for object in [
            r#"{"always":["a"],"amounts":{"a":"1"},"extra":{},"inner":{"items":[]}}"#,
            r#"{"always":null,"pointer":[]}"#,
            "{}",
        ] {
            assert_eq!(kept(object), None, "{object}");
        }
    }
}
