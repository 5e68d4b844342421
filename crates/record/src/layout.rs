use std::sync::{Arc, OnceLock};

use holdfast_schema::types::{Field, Scalar, Shape, TypeId, TypeKind, TypeTable};
use holdfast_value::SmolStr;

use crate::node::Kind;

/// Types of a table, prepared for reading records.
///
/// A type is prepared when the first record with it is read.
#[derive(Debug)]
pub struct RecordTypes {
    types: Arc<TypeTable>,
    /// Layouts by the index of the type; `None` for types whose values have no record.
    layouts: Box<[OnceLock<Option<Layout>>]>,
}

/// Maximum number of fields of a struct: the presence of each is one bit.
const MAX_FIELDS: usize = 64;

impl RecordTypes {
    /// Creates the records of the types of `types`.
    pub fn new(types: Arc<TypeTable>) -> Self {
        Self {
            layouts: (0..types.len()).map(|_| OnceLock::new()).collect(),
            types,
        }
    }

    /// Returns the table of the types.
    pub fn types(&self) -> &TypeTable {
        &self.types
    }

    /// Returns the layout of a struct.
    #[inline]
    pub(crate) fn layout(&self, of: TypeId) -> Option<&Layout> {
        let layout = self.layouts.get(of.index())?;
        layout.get_or_init(|| Layout::new(&self.types, of)).as_ref()
    }
}

/// Form of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) values: Values,
    /// Form of the items of a list, or of the values of a map.
    items: Values,
    /// Form of the items of the lists in a map.
    items_of_items: Values,
    /// Type of the innermost values, if they are structs or free JSON.
    pub(crate) of: TypeId,
}

/// Values that a field, an item of a list or a value of a map may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    String,
    Int32,
    Int64,
    Bool,
    Double,
    Base64,
    Struct,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    FieldsV1,
    /// JSON that has no slots.
    Free,
    List,
    Map,
    /// Values that have no record.
    Unsupported,
}

impl Slot {
    /// True if the field has the name of an object's metadata.
    pub(crate) fn is_metadata(&self) -> bool {
        self.name == "metadata"
    }
}

impl Form {
    fn from_shape(types: &TypeTable, shape: &Shape, of: TypeId) -> Self {
        let (values, items, items_of_items, inner) = match shape {
            Shape::List(inner) => (Values::List, simple(types, inner), Values::Unsupported, inner.type_id()),
            Shape::Map(inner) => match &**inner {
                Shape::List(items) => (Values::Map, Values::List, simple(types, items), items.type_id()),
                inner => (Values::Map, simple(types, inner), Values::Unsupported, inner.type_id()),
            },
            shape => (
                simple(types, shape),
                Values::Unsupported,
                Values::Unsupported,
                shape.type_id(),
            ),
        };
        Self {
            values,
            items,
            items_of_items,
            of: inner.unwrap_or(of),
        }
    }

    /// Returns the kind of a text of this form, if it may be one.
    #[inline]
    pub(crate) fn text(self) -> Option<Kind> {
        Some(match self.values {
            Values::String => Kind::String,
            Values::Base64 => Kind::Base64,
            Values::Quantity => Kind::Quantity,
            Values::IntOrString => Kind::StringOrInt,
            Values::Time => Kind::Time,
            Values::MicroTime => Kind::MicroTime,
            _ => return None,
        })
    }

    /// Returns the form of the items of a list, or of the values of a map.
    #[inline]
    pub(crate) fn of_items(self) -> Self {
        Self {
            values: self.items,
            items: self.items_of_items,
            items_of_items: Values::Unsupported,
            of: self.of,
        }
    }
}

/// Returns the values of a shape that is neither list nor map.
fn simple(types: &TypeTable, shape: &Shape) -> Values {
    match shape {
        Shape::String => Values::String,
        Shape::Int32 => Values::Int32,
        Shape::Int64 => Values::Int64,
        Shape::Bool => Values::Bool,
        Shape::Double => Values::Double,
        Shape::Bytes => Values::Base64,
        Shape::Ref(of) => match &types.get(*of).kind {
            TypeKind::Struct(_) => Values::Struct,
            TypeKind::Scalar(scalar) => special(*scalar),
        },
        Shape::Any | Shape::List(_) | Shape::Map(_) => Values::Unsupported,
    }
}

fn special(scalar: Scalar) -> Values {
    match scalar {
        Scalar::Quantity => Values::Quantity,
        Scalar::IntOrString => Values::IntOrString,
        Scalar::Time => Values::Time,
        Scalar::MicroTime => Values::MicroTime,
        Scalar::FieldsV1 => Values::FieldsV1,
        Scalar::RawExtension
        | Scalar::Json
        | Scalar::JsonSchemaOrBool
        | Scalar::JsonSchemaOrArray
        | Scalar::JsonSchemaOrStringArray => Values::Free,
        Scalar::Patch => Values::Unsupported,
    }
}

/// Fields of a struct by slot, which is their index in the order in which the reference writes them, and an index of
/// their names.
#[derive(Debug)]
pub(crate) struct Layout {
    fields: Box<[Slot]>,
    /// Hash table of names: one more than the slot of a field, or zero.
    by_name: Box<[u8]>,
    /// Number of bits by which a hash is shifted to an index of the table.
    shift: u32,
}

/// Field of a struct.
#[derive(Debug)]
pub(crate) struct Slot {
    key: Key,
    pub(crate) form: Form,
    /// Kind of a text in the field, if it may hold one.
    pub(crate) text: Option<Kind>,
    name: SmolStr,
}

/// First and last eight bytes of a name, and its length. They tell names of up to 16 bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    first: u64,
    last: u64,
    length: usize,
}

impl Key {
    #[inline]
    fn new(name: &[u8]) -> Self {
        let length = name.len();
        match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => Self {
                first: u64::from_le_bytes(*first),
                last: u64::from_le_bytes(*last),
                length,
            },
            _ => {
                let mut first = [0; 8];
                for (place, byte) in first.iter_mut().zip(name) {
                    *place = *byte;
                }
                Self::short(u64::from_le_bytes(first), length)
            }
        }
    }

    /// Creates the key of a name of fewer than eight bytes, which are all in `first`.
    #[inline]
    fn short(first: u64, length: usize) -> Self {
        Self { first, last: 0, length }
    }

    #[inline]
    fn hash(self) -> u64 {
        (self.first ^ self.last.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl Layout {
    fn new(types: &TypeTable, of: TypeId) -> Option<Self> {
        let TypeKind::Struct(fields) = &types.get(of).kind else {
            return None;
        };
        if fields.len() > MAX_FIELDS {
            return None;
        }
        let mut in_order: Vec<&Field> = fields.iter().collect();
        in_order.sort_by_key(|field| field.place());
        let slot = |field: &Field| {
            let form = Form::from_shape(types, &field.shape, of);
            Slot {
                key: Key::new(field.name.as_bytes()),
                form,
                text: form.text(),
                name: field.name.clone(),
            }
        };
        let fields: Box<[Slot]> = in_order.into_iter().map(slot).collect();
        // Three of four places are free, so that most names are found at the first one.
        let size = (fields.len() * 4).next_power_of_two().max(4);
        let mut layout = Self {
            by_name: vec![0; size].into(),
            shift: u64::BITS - size.ilog2(),
            fields,
        };
        for (number, field) in (1..).zip(&layout.fields) {
            let first = (field.key.hash() >> layout.shift) as usize;
            let free = (0..size)
                .map(|step| (first + step) & (size - 1))
                .find(|at| layout.by_name.get(*at) == Some(&0));
            if let Some(entry) = free.and_then(|at| layout.by_name.get_mut(at)) {
                *entry = number;
            }
        }
        Some(layout)
    }

    /// Returns the field with the name `name`, and its slot.
    #[inline]
    pub(crate) fn field(&self, name: &[u8]) -> Option<(u16, &Slot)> {
        self.find(Key::new(name), |field| {
            name.len() <= 16 || field.name.as_bytes() == name
        })
    }

    /// Returns the field with a name of fewer than eight bytes: `bytes` are the bytes of the name, followed by zeros.
    #[inline]
    pub(crate) fn short_field(&self, bytes: u64, length: usize) -> Option<(u16, &Slot)> {
        self.find(Key::short(bytes, length), |_| true)
    }

    #[inline(always)]
    fn find(&self, key: Key, is_same: impl Fn(&Slot) -> bool) -> Option<(u16, &Slot)> {
        let mask = self.by_name.len().wrapping_sub(1);
        let mut at = (key.hash() >> self.shift) as usize;
        loop {
            // A place without a field ends the search; there are always some.
            let slot = self.by_name.get(at & mask)?.checked_sub(1)?;
            let field = self.fields.get(usize::from(slot))?;
            if field.key == key && is_same(field) {
                return Some((u16::from(slot), field));
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_types_are_found_by_name() {
        let types = Arc::new(holdfast_kind_tables::types().unwrap());
        let records = RecordTypes::new(Arc::clone(&types));
        for (id, of) in types.iter().filter(|(_, of)| matches!(of.kind, TypeKind::Struct(_))) {
            let layout = records.layout(id).unwrap();
            for field in of.fields() {
                let name = field.name.as_bytes();
                let (slot, found) = layout.field(name).unwrap();
                assert_eq!((slot, &found.name), (field.place(), &field.name), "{}", of.name);
                if name.len() < 8 {
                    let mut bytes = [0; 8];
                    bytes[..name.len()].copy_from_slice(name);
                    let found = layout.short_field(u64::from_le_bytes(bytes), name.len());
                    assert_eq!(found.map(|(slot, _)| slot), Some(slot));
                }
                let mut longer = field.name.to_string();
                longer.insert(name.len() / 2, 'x');
                assert_eq!(layout.field(longer.as_bytes()).is_some(), of.field(&longer).is_some());
            }
            assert!(layout.field(b"").is_none());
        }
    }

    #[test]
    fn names_that_differ_in_the_middle_are_told_apart() {
        let text = "type a.Names struct\n  abcdefgh1abcdefgh string 1\n  abcdefgh2abcdefgh string 2\n";
        let types = Arc::new(TypeTable::parse(text).unwrap());
        let records = RecordTypes::new(Arc::clone(&types));
        let layout = records.layout(types.id("a.Names").unwrap()).unwrap();
        let slot = |name: &str| layout.field(name.as_bytes()).map(|(slot, _)| slot);
        assert_eq!(slot("abcdefgh1abcdefgh"), Some(0));
        assert_eq!(slot("abcdefgh2abcdefgh"), Some(1));
        assert_eq!(slot("abcdefgh3abcdefgh"), None);
    }
}
