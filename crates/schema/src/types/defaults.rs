//! Unconditional defaults, which depend on no other field: `protocol: TCP` of a container port.

use holdfast_value::{Error, Growth, List, Map, Value};

use crate::types::rebuild::{ListRebuild, MapRebuild};
use crate::types::{Field, Provenance, Shape, Type, TypeId, TypeTable, is_empty};

/// Returns the object with every unconditional default of its type filled in, at any depth. `None` if nothing was
/// missing. The size of the additions is drawn from `growth`.
///
/// The object must have the form of its type ([`decode`](crate::types::decode)).
///
/// # Errors
/// [`Error::Overgrown`].
pub fn with_defaults(
    table: &TypeTable,
    of: TypeId,
    value: &Value,
    growth: &mut Growth,
) -> Result<Option<Value>, Error> {
    with_defaults_from(table, of, value, Provenance::from_body(), growth)
}

/// Fills in defaults like [`with_defaults`], but skips values that `value` shares with the base of its provenance,
/// which has its defaults.
///
/// # Errors
/// [`Error::Overgrown`].
pub fn with_defaults_from(
    table: &TypeTable,
    of: TypeId,
    value: &Value,
    provenance: Provenance<'_>,
    growth: &mut Growth,
) -> Result<Option<Value>, Error> {
    Defaults { table, growth }.of_type(table.get(of), value, true, provenance.base())
}

/// The defaults of types, with the size limit of their additions.
struct Defaults<'a> {
    table: &'a TypeTable,
    growth: &'a mut Growth,
}

impl Defaults<'_> {
    /// Fills in defaults like [`with_defaults_from`]; `own` is true if the type's own fields get defaults, and not
    /// only those within them.
    #[expect(
        clippy::indexing_slicing,
        reason = "defaults name fields of their type, and the place is never behind the end of the map"
    )]
    fn of_type(&mut self, of: &Type, value: &Value, own: bool, filled: Option<&Value>) -> Result<Option<Value>, Error> {
        let Value::Map(map) = value else { return Ok(None) };
        if !of.reaches_default || filled.is_some_and(|filled| filled.shares(value)) {
            return Ok(None);
        }
        let mut rebuild = MapRebuild::new(map);
        let mut at = 0;
        // Only fields that have a default or lead to one are visited.
        for index in &of.default_fields {
            let field = &of.fields()[usize::from(*index)];
            while map[at..].first().is_some_and(|(key, _)| *key < field.name) {
                rebuild.keep(at);
                at += 1;
            }
            let there = map[at..].first().filter(|(key, _)| *key == field.name);
            let default = match there {
                Some((_, value)) if !takes_default(field, value) => {
                    let filled = filled.and_then(|filled| filled.get(&field.name));
                    self.of_shape(&field.shape, value, !field.undefaulted, filled)?
                }
                _ => match field.default.as_ref().filter(|_| own) {
                    Some(default) => {
                        self.growth.draw_entry(&field.name, default)?;
                        let within = self.of_shape(&field.shape, default, true, None)?;
                        Some(within.unwrap_or_else(|| default.clone()))
                    }
                    None => None,
                },
            };
            match (default, there) {
                (Some(value), Some(_)) => rebuild.replace(at, value),
                (Some(value), None) => rebuild.insert_before(at, field.name.clone(), value),
                (None, Some(_)) => rebuild.keep(at),
                (None, None) => {}
            }
            at += usize::from(there.is_some());
        }
        (at..map.len()).for_each(|at| rebuild.keep(at));
        Ok(rebuild.finish())
    }

    fn of_shape(
        &mut self,
        shape: &Shape,
        value: &Value,
        own: bool,
        filled: Option<&Value>,
    ) -> Result<Option<Value>, Error> {
        match (shape, value) {
            _ if filled.is_some_and(|filled| filled.shares(value)) => Ok(None),
            (Shape::Ref(id), _) => self.of_type(self.table.get(*id), value, own, filled),
            (Shape::List(item), Value::List(list)) => self.of_list(item, list, filled),
            (Shape::Map(of), Value::Map(map)) => self.of_map(of, map, filled),
            _ => Ok(None),
        }
    }

    fn of_list(&mut self, item: &Shape, list: &List, filled: Option<&Value>) -> Result<Option<Value>, Error> {
        if !leads_to_default(self.table, item) {
            return Ok(None);
        }
        let mut rebuild = ListRebuild::new(list);
        for (at, value) in list.iter().enumerate() {
            let filled = filled.and_then(|filled| filled.as_list()?.get(at));
            rebuild.replace(at, self.of_shape(item, value, true, filled)?);
        }
        Ok(rebuild.finish())
    }

    fn of_map(&mut self, of: &Shape, map: &Map, filled: Option<&Value>) -> Result<Option<Value>, Error> {
        if !leads_to_default(self.table, of) {
            return Ok(None);
        }
        let mut rebuild = MapRebuild::new(map);
        for (at, (key, value)) in map.iter().enumerate() {
            let filled = filled.and_then(|filled| filled.get(key));
            rebuild.keep_or_replace(at, self.of_shape(of, value, true, filled)?);
        }
        Ok(rebuild.finish())
    }
}

/// Returns true if a value of the field counts as not set.
fn takes_default(field: &Field, value: &Value) -> bool {
    value.is_null() || (!field.pointer && field.default.is_some() && is_empty(value))
}

/// Returns true if any field within values of the shape has a default.
pub(super) fn leads_to_default(table: &TypeTable, shape: &Shape) -> bool {
    shape.type_id().is_some_and(|id| table.get(id).reaches_default)
}
