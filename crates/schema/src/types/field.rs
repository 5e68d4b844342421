use holdfast_value::{SmolStr, Value};

use crate::types::{Tags, TypeId};

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: SmolStr,
    /// Shape of its values.
    pub shape: Shape,
    /// True if the OpenAPI documents list it as required. Decoding does not require it.
    pub required: bool,
    /// True if the reference distinguishes "not set" from the zero value: a pointer in its source.
    pub pointer: bool,
    /// Condition under which it is left out of JSON.
    pub omission: Omission,
    /// Values that the OpenAPI documents list for it (for the items of a list, the values of a map), in their order;
    /// none if any value is allowed.
    pub enum_values: Vec<SmolStr>,
    /// Treatment of the items of a list by server-side apply.
    pub list_type: Option<ListType>,
    /// For [`ListType::Map`], the fields that distinguish items.
    pub keys: Vec<MergeKey>,
    /// Treatment of the entries of a map or the fields of a struct by server-side apply, if this field has its own tag.
    pub map_type: Option<MapType>,
    /// Treatment by strategic merge patch.
    pub patch: PatchMarks,
    /// Path in protobuf; empty for fields without a protobuf form (`apiVersion` and `kind`).
    pub proto: ProtoPath,
    /// Value of the field if the client leaves it out, independent of the rest of the object.
    pub default: Option<Value>,
    /// True if the source tags [`Field::default`], or the zero value if there is none, as the default that the OpenAPI
    /// documents publish.
    pub default_published: bool,
    /// True if the struct that it holds gets no defaults of its own here, only those of nested values.
    pub undefaulted: bool,
    /// Validation tags of its values.
    pub tags: Tags,
    /// Index among the fields of its type, in the order in which the reference writes them.
    pub place: u16,
}

impl Field {
    /// Creates a field of `shape` with no other properties.
    pub fn new(name: impl Into<SmolStr>, shape: Shape) -> Self {
        Self {
            name: name.into(),
            shape,
            required: false,
            pointer: false,
            omission: Omission::Empty,
            enum_values: Vec::new(),
            list_type: None,
            keys: Vec::new(),
            map_type: None,
            patch: PatchMarks::default(),
            proto: ProtoPath::default(),
            default: None,
            default_published: false,
            undefaulted: false,
            tags: Tags::default(),
            place: 0,
        }
    }

    /// Returns its index among the fields of its type, in the order in which the reference writes them.
    #[inline]
    pub fn place(&self) -> u16 {
        self.place
    }
}

/// Values that a field, an item of a list or a value of a map may hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Text.
    String,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// `true` or `false`.
    Bool,
    /// A number.
    Double,
    /// Bytes in base64.
    Bytes,
    /// Any value.
    Any,
    /// A value of a type of the table.
    Ref(TypeId),
    /// A list of items.
    List(Box<Shape>),
    /// A map with free keys.
    Map(Box<Shape>),
}

impl Shape {
    /// Returns the type of the table that it holds, also as items of lists or as entries of maps.
    pub fn type_id(&self) -> Option<TypeId> {
        match self {
            Self::Ref(id) => Some(*id),
            Self::List(inner) | Self::Map(inner) => inner.type_id(),
            _ => None,
        }
    }
}

/// Condition under which a field is left out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// The field is not set, or (unless it is a pointer) holds the zero value of its type: `omitempty`. A struct that
    /// is not a pointer is always written, as `{}` if necessary.
    Empty,
    /// The field is the zero value, structs included: `omitzero`.
    Zero,
    /// The field is never left out; an unset one is written as its zero value, and as `null` if it has none.
    Never,
}

/// Treatment of the items of a list by server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Each item is a member, identified by its value.
    Set,
    /// Each item is a member, identified by its key fields.
    Map,
}

/// Treatment of the entries of a map or the fields of a struct by server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The whole map is one value.
    Atomic,
    /// Each entry is a value of its own.
    Granular,
}

/// One of the fields that distinguish the items of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeKey {
    /// The name of the field in the items.
    pub name: SmolStr,
    /// Value of the key for an item that leaves it out.
    pub default: Option<Value>,
}

/// Treatment of a field by strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchMarks {
    /// True if the items of the list are merged rather than replaced.
    pub merge: bool,
    /// True if the map is replaced rather than merged.
    pub replace: bool,
    /// True if keys that `$retainKeys` does not name are dropped.
    pub retain_keys: bool,
    /// The field that distinguishes items; `None` for lists of scalars.
    pub merge_key: Option<SmolStr>,
}

/// Path of a field in the protobuf message of its type: its number, after the numbers of the messages that only the
/// protobuf form has (an inlined struct is a message of its own in protobuf).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtoPath {
    numbers: [u16; 3],
    depth: u8,
}

impl ProtoPath {
    /// Creates the path of `numbers`; `None` if there are more than three.
    pub fn new(numbers: &[u16]) -> Option<Self> {
        let mut path = Self {
            numbers: [0; 3],
            depth: u8::try_from(numbers.len()).ok()?,
        };
        path.numbers.get_mut(..numbers.len())?.copy_from_slice(numbers);
        Some(path)
    }

    /// Returns the numbers, that of the field itself last.
    #[expect(clippy::indexing_slicing, reason = "the depth is at most the length of the numbers")]
    pub fn numbers(&self) -> &[u16] {
        &self.numbers[..usize::from(self.depth)]
    }
}
