//! The type of a kind: one interface for kinds of the built-in table and kinds of CRDs.
//!
//! Each version of a resource has a [`KindType`]. It has two implementations: [`TableType`] by the table of built-in
//! types, and `CustomSchema` of the crate `structural` by the structural schema of a CRD. Where the two differ in their
//! behaviour towards clients, [`Conventions`] names the difference.

mod conventions;
mod index;
mod table;

use std::any::Any;
use std::sync::Arc;

use holdfast_cel::DeclType;
use holdfast_merge::{Schema, TypeRef};
use holdfast_value::{Error, SmolStr, Value};
use smol_str::format_smolstr;

pub use conventions::Conventions;
pub use index::KindTypes;
pub use table::{FieldDefaults, TableType, TableTypes};

use crate::check::Validation;
use crate::field_error::FieldError;
use crate::names::{GroupVersion, GroupVersionKind};
use crate::strategic_merge::PatchError;
use crate::types::{EmptyField, FloatAmount, Provenance};

/// The type of the objects of one kind in one version.
pub trait KindType: Any + Send + Sync {
    /// Returns the name of the type.
    fn name(&self) -> &KindName;

    /// Returns the kind.
    fn kind(&self) -> &str {
        &self.name().kind
    }

    /// Returns the `apiVersion`.
    fn api_version(&self) -> &str {
        &self.name().api_version
    }

    /// Returns the conventions that clients expect of objects of the type.
    fn conventions(&self) -> &'static Conventions;

    /// Converts a tree of this provenance into the form that is served: numbers, quantities and times in canonical
    /// form, empty values left out or filled in, unknown fields left out and reported.
    ///
    /// # Errors
    /// If the object does not fit its type, in the words of the reference's decoder, or of its converter of trees.
    fn decode_from(&self, object: &Value, provenance: Provenance<'_>) -> Result<TypedObject, String>;

    /// Decodes the tree of a body.
    ///
    /// # Errors
    /// If [`KindType::decode_from`] fails.
    fn decode(&self, object: &Value) -> Result<TypedObject, String> {
        self.decode_from(object, Provenance::from_body())
    }

    /// Returns an object of the type with no field set.
    fn empty(&self) -> Value;

    /// Fills in the defaults of fields that an object of this provenance leaves out. Every step that changes an object
    /// ends here, so its size is checked here.
    ///
    /// # Errors
    /// [`Error::Overgrown`] if the object has become too large.
    fn fill_in_from(&self, object: Value, provenance: Provenance<'_>) -> Result<Value, Error>;

    /// Fills in the defaults of an object from a body.
    ///
    /// # Errors
    /// If [`KindType::fill_in_from`] fails.
    fn fill_in(&self, object: Value) -> Result<Value, Error> {
        self.fill_in_from(object, Provenance::from_body())
    }

    /// Returns an object from another version, without the fields that the type does not specify.
    fn prune(&self, object: Value) -> Value;

    /// Drops the fields of an object whose feature gates are off, unless `old`, which it replaces, uses them.
    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        let _ = (object, old);
    }

    /// Returns an object as it is after a round trip through protobuf, which cannot distinguish empty lists and maps
    /// from absent ones. `None` if that changes nothing.
    fn without_empty_lists(&self, object: &Value) -> Option<Value> {
        let _ = object;
        None
    }

    /// Validates an object that is written.
    fn validate<'v>(&self, write: &Validation<'v, '_>) -> Findings;

    /// Returns an object that was converted to this version for field managers, which look in it for their fields.
    ///
    /// # Errors
    /// If the object does not fit its type.
    fn converted_for_managers(&self, object: Value) -> Result<Value, String>;

    /// Returns the schema by which objects merge in structured merges; `None` if it is unknown.
    fn merge_type(&self) -> Option<(Arc<Schema>, TypeRef)>;

    /// Applies a strategic merge patch.
    ///
    /// # Errors
    /// If the patch cannot be applied. Types without strategic merge reject every patch.
    fn strategic_merge(&self, existing: Value, patch: &Value) -> Result<Value, PatchError>;

    /// Returns the form in which the reference reports a strategic merge patch after it was applied to `existing`.
    fn consumed_patch(&self, patch: &Value, existing: &Value) -> Value;

    /// Returns the type of the objects in expressions; `None` if expressions handle them as untyped data.
    fn decl_type(&self) -> Option<Arc<DeclType>>;

    /// Returns the definition name of the type in OpenAPI documents.
    fn published_name(&self) -> SmolStr;

    /// Returns the schema of the type in OpenAPI documents; `None` if it is a built-in type, whose schema comes from the
    /// table.
    fn published_schema(&self) -> Option<PublishedSchema>;
}

/// Schema of a custom type for the OpenAPI documents.
#[derive(Clone, Debug)]
pub enum PublishedSchema {
    /// JSON schema of the objects.
    Specified {
        /// The schema.
        schema: Value,
        /// True if objects may have any other fields.
        preserves_unknown: bool,
    },
    /// The type has no schema, or one that is not published. Its objects may have any fields.
    Unspecified,
}

/// Findings of validation.
#[derive(Debug, Default)]
pub struct Findings {
    /// Validation errors.
    pub errors: Vec<FieldError>,
    /// Warnings for values that were already invalid and did not change.
    pub warnings: Vec<String>,
}

/// Name of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindName {
    /// The kind.
    pub kind: SmolStr,
    /// The group and the version.
    pub group_version: GroupVersion,
    /// The `apiVersion`.
    pub api_version: SmolStr,
}

impl KindName {
    /// Creates the name of `kind` in a version.
    pub fn new(group_version: GroupVersion, kind: SmolStr) -> Self {
        Self {
            kind,
            api_version: group_version.api_version(),
            group_version,
        }
    }

    /// Returns group, version and kind.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind {
            group_version: self.group_version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// Returns the kind in the form of messages: `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` for the core group.
    pub fn described(&self) -> String {
        let slash = if self.api_version.contains('/') { "" } else { "/" };
        format!("{slash}{}, Kind={}", self.api_version, self.kind)
    }

    /// Returns the definition name that follows from group, version and kind: `com.example.v1.Widget` for `Widget` in
    /// `example.com/v1`.
    pub fn definition_name(&self) -> SmolStr {
        let GroupVersion { group, version } = &self.group_version;
        let group: Vec<&str> = group.rsplit('.').collect();
        format_smolstr!("{}.{version}.{}", group.join("."), self.kind)
    }
}

/// An object in the form of its type.
pub struct TypedObject {
    /// The object.
    pub object: Value,
    /// Unknown fields, in the words of warnings.
    pub findings: Vec<String>,
    /// Amounts that were read from floats.
    pub floats: Vec<FloatAmount>,
    /// Fields that are given as empty and therefore left out.
    pub empties: Vec<EmptyField>,
}

impl TypedObject {
    /// Creates the result for an object that has the form of its type.
    fn from_form_of_type(object: Value) -> Self {
        Self {
            object,
            findings: Vec::new(),
            floats: Vec::new(),
            empties: Vec::new(),
        }
    }
}
