use std::sync::OnceLock;

use holdfast_value::{Names, SmolStr, Value};

use crate::names::GroupVersionKind;
use crate::types::{DisabledField, Field, MapType, Step, TypeTags};

/// Index of a type in its [`TypeTable`](crate::types::TypeTable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

impl TypeId {
    /// Returns the id as an index, for tables parallel to this one.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A type of objects or of parts of them.
#[derive(Clone, Debug)]
pub struct Type {
    /// The definition name: `io.k8s.api.core.v1.Container`.
    pub name: SmolStr,
    /// Structure of the values of the type.
    pub kind: TypeKind,
    /// Index of its fields by name.
    pub(crate) names: Names,
    /// Treatment of a struct by server-side apply: atomic structs are one field. `None` is [`MapType::Granular`].
    pub map_type: Option<MapType>,
    /// The kinds whose objects are of this type; `DeleteOptions` and similar types are one kind in many groups.
    pub kinds: Vec<GroupVersionKind>,
    /// True if the type is in the OpenAPI documents.
    pub published: bool,
    /// Fields that exclude each other, as listed in the OpenAPI documents.
    pub unions: Vec<Union>,
    /// Validation tags of its values.
    pub tags: TypeTags,
    /// Value that the reference writes for an unset value of this type; see [`Type::zero`].
    pub(crate) zero: OnceLock<Value>,
    /// For structs, the indices of the fields that are written even when unset.
    pub(crate) always_written: Vec<u16>,
    /// True if any field within values of the type has an unconditional default.
    pub(crate) reaches_default: bool,
    /// Indices of the fields that have such a default or lead to one.
    pub(crate) default_fields: Vec<u16>,
    /// Indices of the fields of lists or maps that are never left out, or that lead to such fields.
    pub(crate) written_lists: Vec<u16>,
    /// Fields whose feature gate is off, and those that lead to such fields.
    pub(crate) disabled: Vec<DisabledField>,
}

impl Type {
    /// Returns the fields of a struct, sorted by name; none for a scalar.
    pub fn fields(&self) -> &[Field] {
        self.kind.fields()
    }

    /// Returns the field `name` of a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.field_behind(&mut 0, name)
    }

    /// Returns the field `name` of a struct, searched from the index `from`, which is moved past it: for callers that
    /// look names up in their order.
    pub(crate) fn field_behind(&self, from: &mut usize, name: &str) -> Option<&Field> {
        match self.position(*from, name) {
            Ok(at) => {
                *from = at + 1;
                self.fields().get(at)
            }
            Err(at) => {
                *from = at;
                None
            }
        }
    }

    /// Returns the index of the field `name` of a struct, at or after the index `from`, or the index where it would be.
    #[inline]
    pub(crate) fn position(&self, from: usize, name: &str) -> Result<usize, usize> {
        let fields = self.fields();
        self.names
            .position(from, name, |at| fields.get(at).map(|field| field.name.as_str()))
    }

    /// Returns the field that a step checks; none for a rule.
    pub(crate) fn looked_at(&self, step: &Step) -> Option<&Field> {
        match step {
            Step::Field(at) => self.fields().get(usize::from(*at)),
            Step::Rule(_) => None,
        }
    }

    /// Returns the last part of the definition name: `Container`.
    pub fn short_name(&self) -> &str {
        let dot = self.name.bytes().rposition(|byte| byte == b'.');
        dot.and_then(|dot| self.name.get(dot + 1..)).unwrap_or(&self.name)
    }

    /// True if quantities in the map fields of a struct are amounts of resources, which are rounded up to thousandths: in
    /// the core group, all are.
    pub fn holds_amounts_of_resources(&self) -> bool {
        self.name.starts_with("io.k8s.api.core.v1.")
    }

    /// Returns the value that the reference writes for an unset value of this type: for a struct the fields that are
    /// never left out, for times `null`, for quantities `"0"`.
    pub fn zero(&self) -> Value {
        self.zero.get().cloned().unwrap_or_default()
    }
}

/// Structure of the values of a type.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// A map with known fields, sorted by name.
    Struct(Vec<Field>),
    /// One of the types with a form of their own.
    Scalar(Scalar),
}

impl TypeKind {
    pub(crate) fn fields(&self) -> &[Field] {
        match self {
            Self::Struct(fields) => fields,
            Self::Scalar(_) => &[],
        }
    }
}

/// Types that have a form of their own in JSON or protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A decimal number with a suffix, such as `500m`; written in canonical form.
    Quantity,
    /// A number of 32 bits or a text.
    IntOrString,
    /// RFC 3339 in UTC with whole seconds, or `null`.
    Time,
    /// RFC 3339 in UTC with six digits of a second, or `null`.
    MicroTime,
    /// Any object, unchanged; `null` if there is none.
    RawExtension,
    /// A set of fields in its JSON form, unchanged.
    FieldsV1,
    /// Any JSON, unchanged.
    Json,
    /// A JSON schema or `true` or `false`.
    JsonSchemaOrBool,
    /// A JSON schema or a list of them.
    JsonSchemaOrArray,
    /// A JSON schema or a list of texts.
    JsonSchemaOrStringArray,
    /// The body of a patch; only named in the OpenAPI documents.
    Patch,
}

impl Scalar {
    pub(crate) const NAMES: [(Scalar, &'static str); 11] = [
        (Scalar::Quantity, "quantity"),
        (Scalar::IntOrString, "int-or-string"),
        (Scalar::Time, "time"),
        (Scalar::MicroTime, "micro-time"),
        (Scalar::RawExtension, "raw-extension"),
        (Scalar::FieldsV1, "fields-v1"),
        (Scalar::Json, "json"),
        (Scalar::JsonSchemaOrBool, "json-schema-or-bool"),
        (Scalar::JsonSchemaOrArray, "json-schema-or-array"),
        (Scalar::JsonSchemaOrStringArray, "json-schema-or-strings"),
        (Scalar::Patch, "patch"),
    ];

    /// Returns the name in tables.
    #[expect(clippy::indexing_slicing, reason = "a name for each variant, in their order")]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Returns the scalar of that name in tables.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(scalar, _)| *scalar)
    }

    /// Returns the value that the reference writes for an unset one.
    pub(crate) fn zero(self) -> Value {
        match self {
            Scalar::Quantity => Value::from("0"),
            Scalar::IntOrString => Value::Int(0),
            Scalar::JsonSchemaOrBool => Value::Bool(false),
            _ => Value::Null,
        }
    }
}

/// Fields of a struct of which at most one may be set (`x-kubernetes-unions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Field that names the member that is set.
    pub discriminator: Option<SmolStr>,
    /// Each field and its value of the discriminator.
    pub fields: Vec<(SmolStr, SmolStr)>,
}
