//! Defaults that hold whatever else an object says: `protocol: TCP` of a container port.

use holdfast_value::{List, Map, Value};

use crate::schema::rebuild::{ListRebuild, MapRebuild};
use crate::schema::{Field, Shape, Type, TypeId, TypeTable, is_empty};

/// The object with every unconditional default of its type filled in, at any depth. `None` if there was nothing to fill in.
///
/// The object must have the form of its type ([`decode`](crate::schema::decode)).
pub fn with_defaults(table: &TypeTable, of: TypeId, value: &Value) -> Option<Value> {
    of_type(table, table.get(of), value, true)
}

/// As [`with_defaults`]; `own` says whether the type's own fields take defaults, or only those within them.
fn of_type(table: &TypeTable, of: &Type, value: &Value, own: bool) -> Option<Value> {
    let Value::Map(map) = value else { return None };
    if !of.reaches_default {
        return None;
    }
    let mut rebuild = MapRebuild::new(map);
    let mut at = 0;
    // Only the fields that have a default or lead to one are looked at.
    for index in &of.default_fields {
        let field = &of.fields()[usize::from(*index)];
        while map[at..].first().is_some_and(|(key, _)| *key < field.name) {
            rebuild.keep(at);
            at += 1;
        }
        let there = map[at..].first().filter(|(key, _)| *key == field.name);
        let filled = match there {
            Some((_, value)) if !takes_default(field, value) => {
                of_shape(table, &field.shape, value, !field.undefaulted)
            }
            _ => field.default.as_ref().filter(|_| own).map(|default| {
                let within = of_shape(table, &field.shape, default, true);
                within.unwrap_or_else(|| default.clone())
            }),
        };
        match (filled, there) {
            (Some(value), Some(_)) => rebuild.replace(at, value),
            (Some(value), None) => rebuild.insert_before(at, field.name.clone(), value),
            (None, Some(_)) => rebuild.keep(at),
            (None, None) => {}
        }
        at += usize::from(there.is_some());
    }
    (at..map.len()).for_each(|at| rebuild.keep(at));
    rebuild.finish()
}

/// Whether a value that stands there counts as not set.
fn takes_default(field: &Field, value: &Value) -> bool {
    value.is_null() || (!field.pointer && field.default.is_some() && is_empty(value))
}

fn of_shape(table: &TypeTable, shape: &Shape, value: &Value, own: bool) -> Option<Value> {
    match (shape, value) {
        (Shape::Ref(id), _) => of_type(table, table.get(*id), value, own),
        (Shape::List(item), Value::List(list)) => of_list(table, item, list),
        (Shape::Map(of), Value::Map(map)) => of_map(table, of, map),
        _ => None,
    }
}

fn of_list(table: &TypeTable, item: &Shape, list: &List) -> Option<Value> {
    if !leads_to_default(table, item) {
        return None;
    }
    let mut rebuild = ListRebuild::new(list);
    for (at, value) in list.iter().enumerate() {
        rebuild.settle(at, of_shape(table, item, value, true));
    }
    rebuild.finish()
}

fn of_map(table: &TypeTable, of: &Shape, map: &Map) -> Option<Value> {
    if !leads_to_default(table, of) {
        return None;
    }
    let mut rebuild = MapRebuild::new(map);
    for (at, (_, value)) in map.iter().enumerate() {
        match of_shape(table, of, value, true) {
            Some(value) => rebuild.replace(at, value),
            None => rebuild.keep(at),
        }
    }
    rebuild.finish()
}

/// Whether a default stands anywhere within values of the shape.
pub(super) fn leads_to_default(table: &TypeTable, shape: &Shape) -> bool {
    match shape {
        Shape::Ref(id) => table.get(*id).reaches_default,
        Shape::List(inner) | Shape::Map(inner) => leads_to_default(table, inner),
        _ => false,
    }
}
