//! Values in the reference's JSON form: the fields of a struct in the order of its source, the entries of a map sorted
//! by name.

use holdfast_value::{Entry, Map, SmolStr, Value, json};
use smallvec::SmallVec;

use crate::types::{Field, Scalar, Shape, Type, TypeId, TypeKind, TypeTable, write_fields_v1};

/// A member of an object that is being written.
#[derive(Clone, Copy)]
pub(super) struct Member<'v, 't> {
    entry: &'v Entry,
    /// Its field; `None` if the type does not know it.
    field: Option<&'t Field>,
}

impl<'v, 't> Member<'v, 't> {
    /// Returns its name.
    pub(super) fn name(&self) -> &'v SmolStr {
        &self.entry.0
    }

    /// Returns its value.
    pub(super) fn value(&self) -> &'v Value {
        &self.entry.1
    }

    /// Returns the shape of its values; `None` if the type does not know it.
    pub(super) fn shape(&self) -> Option<&'t Shape> {
        self.field.map(|field| &field.shape)
    }

    /// Returns the index of its field in the order of the type, which is behind all fields for other members.
    pub(super) fn place(&self) -> u16 {
        self.field.map_or(NO_PLACE, |field| field.place)
    }

    /// Appends the name and a colon.
    pub(super) fn write_name(&self, out: &mut Vec<u8>) {
        match self.field {
            // Names of fields need no escaping.
            Some(_) => json::write_plain_string(self.name(), out),
            None => json::write_string(self.name(), out),
        }
        out.push(b':');
    }
}

/// Place of members that the type does not know.
pub(super) const NO_PLACE: u16 = u16::MAX;

/// Returns the members of `map`, which is a value of the struct `of`, in the order of the type's fields. Unknown
/// members are last, sorted by name. All are unknown without a type.
pub(super) fn members<'v, 't>(of: Option<&'t Type>, map: &'v Map) -> impl Iterator<Item = Member<'v, 't>> {
    let (fields, entries) = (of.map_or(&[][..], Type::fields), &map[..]);
    // The place of the field, its index among the fields, and the index of the entry, so that numbers are sorted.
    let mut order: SmallVec<[u64; 16]> = SmallVec::with_capacity(map.len());
    let (mut from, mut last, mut is_sorted) = (0, 0, true);
    for (at, (name, _)) in (0_u64..).zip(map) {
        let (place, index) = match of.map(|of| of.position(from, name)) {
            Some(Ok(index)) => {
                from = index + 1;
                (fields.get(index).map_or(NO_PLACE, Field::place), index as u16)
            }
            Some(Err(next)) => {
                from = next;
                (NO_PLACE, NO_PLACE)
            }
            None => (NO_PLACE, NO_PLACE),
        };
        let key = u64::from(place) << 48 | u64::from(index) << 32 | at;
        is_sorted &= last <= key;
        last = key;
        order.push(key);
    }
    if !is_sorted {
        order.sort_unstable();
    }
    order.into_iter().filter_map(move |key| {
        Some(Member {
            entry: entries.get((key & 0xFFFF_FFFF) as usize)?,
            field: fields.get((key >> 32 & 0xFFFF) as usize),
        })
    })
}

/// Appends the compact JSON of `value`, whose type is `shape`, to `out`.
pub fn write_json(table: &TypeTable, shape: Option<&Shape>, value: &Value, out: &mut Vec<u8>) {
    match (shape, value) {
        (Some(Shape::Ref(id)), Value::Map(map)) if !table.get(*id).fields().is_empty() => {
            out.push(b'{');
            for (at, member) in members(Some(table.get(*id)), map).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                member.write_name(out);
                write_json(table, member.shape(), member.value(), out);
            }
            out.push(b'}');
        }
        (Some(Shape::List(item)), Value::List(list)) => {
            out.push(b'[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_json(table, Some(item), value, out);
            }
            out.push(b']');
        }
        (Some(Shape::Map(of)), Value::Map(map)) => {
            out.push(b'{');
            for (at, (name, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::write_string(name, out);
                out.push(b':');
                write_json(table, Some(of), value, out);
            }
            out.push(b'}');
        }
        (Some(Shape::Ref(id)), Value::Map(_) | Value::List(_)) => write_scalar(table, *id, value, out),
        _ => json::write(value, out),
    }
}

/// Writes a value of one of the types with a form of their own.
fn write_scalar(table: &TypeTable, of: TypeId, value: &Value, out: &mut Vec<u8>) {
    let schema = table.json_schema().map(Shape::Ref);
    match (&table.get(of).kind, value) {
        (TypeKind::Scalar(Scalar::FieldsV1), _) => write_fields_v1(value, out),
        (
            TypeKind::Scalar(Scalar::JsonSchemaOrBool | Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray),
            Value::Map(_),
        ) => write_json(table, schema.as_ref(), value, out),
        (TypeKind::Scalar(Scalar::JsonSchemaOrArray), Value::List(_)) => {
            let list = schema.map(|schema| Shape::List(Box::new(schema)));
            write_json(table, list.as_ref(), value, out);
        }
        _ => json::write(value, out),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    #[test]
    fn fields_stand_in_the_order_of_their_type() {
        let text = "type a.Outer struct\n  z string 1\n  list []a.Inner 2\n  map {}a.Inner 3\n  any any 4\n\n\
            type a.Inner struct\n  y string 1\n  x string 2\n";
        let table = TypeTable::parse(text).unwrap();
        let shape = Shape::Ref(table.id("a.Outer").unwrap());
        let object = r#"{"any":{"y":1,"x":2},"list":[{"x":"<","y":"2"}],"map":{"b":{"x":"1","y":"2"},"a":{}},"other":1,"z":"v"}"#;
        let value = json::parse(object.as_bytes(), &Limits::default()).unwrap();
        let mut out = Vec::new();
        write_json(&table, Some(&shape), &value, &mut out);
        let expected = r#"{"z":"v","list":[{"y":"2","x":"\u003c"}],"map":{"a":{},"b":{"y":"2","x":"1"}},"any":{"x":2,"y":1},"other":1}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
