//! The types of objects, as data.
//!
//! A [`TypeTable`] holds every type by its definition name (`io.k8s.api.apps.v1.DeploymentSpec`): its fields, their
//! shapes, and all the data that the server needs by type. Decoding ([`decode`]), defaults, merge schemas, protobuf and
//! the published OpenAPI documents are walks over this one table. Built-in types are read from a text table
//! ([`TypeTable::parse`]); others are built at run time ([`TypeTableBuilder`]).
//!
//! Invariant: a table never changes once it is built, and a type refers to others by index within its own table.

mod base64;
mod declare;
mod decode;
mod defaults;
mod empties;
mod empty_lists;
mod field;
mod fields_v1;
mod gates;
mod go_names;
mod in_place;
mod merge;
mod object;
mod provenance;
mod quoted;
mod rebuild;
mod scalars;
mod table;
mod tags;
#[cfg(test)]
mod tests;
mod text;
mod type_definition;
mod visit;
mod write;

pub use base64::decode as decode_base64;
pub use declare::decl_type;
pub use decode::{DecodeError, Decoded, FloatAmount, UnknownField, decode, decode_from, decode_tree};
pub use defaults::{with_defaults, with_defaults_from};
pub use empties::{EmptyField, EmptyKind};
pub use field::{Field, ListType, MapType, MergeKey, Omission, PatchMarks, ProtoPath, Shape};
pub use fields_v1::{OWNED_FIELDS, write_fields_v1};
pub use gates::Gate;
pub use merge::{anything, merge_schema, stated_default, type_spec};
pub use object::{write_object, write_object_with_room};
pub use provenance::{Origin, Provenance};
pub use rebuild::{ListRebuild, MapRebuild};
pub use table::{TableError, TypeTable, TypeTableBuilder};
pub use tags::{Format, OrderItem, Tag, Tags, TypeTags};
pub use text::{PLAIN_SHAPES, TextError};
pub use type_definition::{Scalar, Type, TypeId, TypeKind, Union};
pub use visit::TypeVisitor;
pub use write::write_json;

pub(crate) use decode::is_empty;
pub(crate) use gates::DisabledField;
pub(crate) use in_place::kept_in_place;
pub(crate) use tags::{FormatCheck, Step};
