//! Parts of a value that will equal the existing ones once it is decoded and has its defaults: an apply that only sets
//! `fieldPath` leaves a reference unchanged whose `apiVersion` is a default.

use holdfast_value::{Entry, List, Map, Value};
use smallvec::SmallVec;

use crate::types::{Field, ListRebuild, MapRebuild, Shape, Type, TypeId, TypeTable};

/// Returns `value`, of the type `of`, sharing those parts of `base` that its own parts would become: parts that only
/// lack defaults. `base` has the form of the type and its defaults. `None` if there are no such parts that are not
/// already shared.
pub(crate) fn kept_in_place(table: &TypeTable, of: TypeId, value: &Value, base: &Value) -> Option<Value> {
    match (Comparison { table }).node(&Shape::Ref(of), true, value, base) {
        Part::InPlace if value.shares(base) => None,
        Part::InPlace => Some(base.clone()),
        Part::Changed(value) => Some(value),
        Part::Other => None,
    }
}

/// Result for a part of a value.
enum Part {
    /// The existing value.
    InPlace,
    /// This value, some parts of which are existing ones.
    Changed(Value),
    /// A different value.
    Other,
}

struct Comparison<'t> {
    table: &'t TypeTable,
}

impl Comparison<'_> {
    /// Compares the values at one path. `own` is true if a struct gets defaults of its own here.
    fn node(&self, shape: &Shape, own: bool, value: &Value, base: &Value) -> Part {
        match (shape, value, base) {
            _ if is_one(value, base) => Part::InPlace,
            (Shape::Ref(id), Value::Map(map), Value::Map(base)) if !self.table.get(*id).fields().is_empty() => {
                self.fields(self.table.get(*id), own, map, base)
            }
            (Shape::List(item), Value::List(list), Value::List(base)) => self.list(item, list, base),
            _ => Part::Other,
        }
    }

    fn fields(&self, of: &Type, own: bool, map: &Map, base: &Map) -> Part {
        let mut parts: SmallVec<[Part; 16]> = SmallVec::new();
        let is_filled_in = |(name, value): &Entry| self.is_filled_in(of.field(name), own, value);
        let (mut left, mut added): (&[Entry], bool) = (base, true);
        for (name, value) in map {
            let there = loop {
                match left.split_first() {
                    Some(((other, there), rest)) if other == name => {
                        left = rest;
                        break Some(there);
                    }
                    Some((entry, rest)) if entry.0 < *name => {
                        added = added && is_filled_in(entry);
                        left = rest;
                    }
                    _ => break None,
                }
            };
            parts.push(match there {
                Some(there) if is_one(value, there) => Part::InPlace,
                Some(there) => match of.field(name) {
                    Some(field) => self.node(&field.shape, !field.undefaulted, value, there),
                    None => Part::Other,
                },
                None => Part::Other,
            });
        }
        if added && parts.iter().all(|part| matches!(part, Part::InPlace)) && left.iter().all(is_filled_in) {
            return Part::InPlace;
        }
        let mut rebuild = MapRebuild::new(map);
        for (at, ((name, value), part)) in map.iter().zip(parts).enumerate() {
            let in_place = || {
                base.get(name)
                    .filter(|base| !is_scalar(base) && !base.shares(value))
                    .cloned()
            };
            rebuild.keep_or_replace(at, part.or_in_place(in_place));
        }
        rebuild.finish().map_or(Part::Other, Part::Changed)
    }

    fn list(&self, item: &Shape, list: &List, base: &List) -> Part {
        let parts: SmallVec<[Part; 16]> = (list.iter().zip(base))
            .map(|(value, base)| self.node(item, true, value, base))
            .collect();
        if list.len() == base.len() && parts.iter().all(|part| matches!(part, Part::InPlace)) {
            return Part::InPlace;
        }
        let mut rebuild = ListRebuild::new(list);
        for (at, ((value, base), part)) in list.iter().zip(base).zip(parts).enumerate() {
            let in_place = || (!is_scalar(base) && !base.shares(value)).then(|| base.clone());
            rebuild.replace(at, part.or_in_place(in_place));
        }
        (base.len()..list.len()).for_each(|at| rebuild.replace(at, None));
        rebuild.finish().map_or(Part::Other, Part::Changed)
    }

    /// Returns true if this is the default of the field in a struct that lacks it.
    fn is_filled_in(&self, field: Option<&Field>, own: bool, value: &Value) -> bool {
        let Some(field) = field else { return false };
        match &field.default {
            Some(default) => own && is_scalar(default) && default == value,
            None => false,
        }
    }
}

impl Part {
    /// Returns the replacement of the part, if there is one.
    fn or_in_place(self, in_place: impl FnOnce() -> Option<Value>) -> Option<Value> {
        match self {
            Self::InPlace => in_place(),
            Self::Changed(value) => Some(value),
            Self::Other => None,
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Map(_) | Value::List(_))
}

/// Returns true if both are one map or list in memory, or equal scalars of one type.
fn is_one(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::String(value), Value::String(other)) => value == other,
        (Value::Int(value), Value::Int(other)) => value == other,
        (Value::Bool(value), Value::Bool(other)) => value == other,
        (Value::Null, Value::Null) => true,
        _ => value.shares(other),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::Growth;
    use holdfast_value::{Limits, json};

    use super::*;
    use crate::same::same;
    use crate::types::with_defaults;

    const TYPES: &str = "type a.Object struct\n  inner a.Inner 1 pointer\n  items []a.Inner 2\n  names {}string 3\n  \
        other a.Inner 5 pointer undefaulted\n\n\
        type a.Inner struct\n  kind string 1 default=\"v1\"\n  name string 2\n  size int32 3 pointer default=1\n";

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    /// Returns the object with its existing parts, and the names of the members that are shared.
    fn kept(object: &str, base: &str) -> Option<(String, Vec<&'static str>)> {
        let table = TypeTable::parse(TYPES).unwrap();
        let id = table.id("a.Object").unwrap();
        let (object, base) = (value(object), value(base));
        let kept = kept_in_place(&table, id, &object, &base)?;
        let filled = |value: &Value| {
            let filled = with_defaults(&table, id, value, &mut Growth::default()).unwrap();
            filled.unwrap_or_else(|| value.clone())
        };
        assert!(same(Some(&filled(&kept)), Some(&filled(&object))), "{kept}");
        let shared = ["inner", "items", "names", "other"];
        let is_shared = |name: &&str| {
            kept.get(name)
                .zip(base.get(name))
                .is_some_and(|(one, other)| one.shares(other))
        };
        Some((json::to_string(&kept), shared.into_iter().filter(is_shared).collect()))
    }

    const FORMED: &str = r#"{"inner":{"kind":"v1","name":"n","size":1},"items":[{"kind":"v1","name":"a","size":1},{"kind":"v1","name":"b","size":2}],"other":{"name":"o"}}"#;

    #[test]
    fn part_lacking_only_defaults_keeps_existing_part() {
        assert_eq!(kept(r#"{"inner":{"name":"n"}}"#, FORMED).unwrap().1, ["inner"]);
        let (text, shared) = kept(
            r#"{"inner":{"name":"n","size":1},"items":[{"name":"a"},{"name":"b","size":2}]}"#,
            FORMED,
        )
        .unwrap();
        assert_eq!(shared, ["inner", "items"]);
        assert!(text.contains(r#""size":2"#));
        let (text, shared) = kept(
            r#"{"items":[{"name":"a"},{"name":"c"},{"name":"d"}],"other":{"name":"o"}}"#,
            FORMED,
        )
        .unwrap();
        assert_eq!(shared, ["other"]);
        assert_eq!(
            text,
            r#"{"items":[{"kind":"v1","name":"a","size":1},{"name":"c"},{"name":"d"}],"other":{"name":"o"}}"#
        );
    }

    #[test]
    fn part_with_other_values_is_not_kept() {
        for object in [
            r#"{"inner":{"name":"m"}}"#,
            r#"{"inner":{"name":"n","size":2}}"#,
            r#"{"inner":{"name":"n","unknown":1}}"#,
            r#"{"inner":{"size":1}}"#,
            r#"{"inner":{"name":"n","size":1.0}}"#,
            r#"{"inner":null,"items":[{"name":"b"}]}"#,
            r#"{"items":{"name":"a"},"other":{}}"#,
            r#"{"names":{"a":"b"}}"#,
        ] {
            assert_eq!(kept(object, FORMED), None, "{object}");
        }
        // Nothing is filled in here, so an object that lacks defaults is different.
        let base = r#"{"other":{"kind":"v1","name":"o"}}"#;
        assert_eq!(kept(r#"{"other":{"name":"o"}}"#, base), None);
    }
}
