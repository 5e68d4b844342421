use std::sync::{Arc, OnceLock};

use holdfast_cel::DeclType;
use holdfast_merge::{Schema, TypeRef};
use holdfast_value::{Error, Growth, SmolStr, Value};

use super::{Conventions, Findings, KindName, KindType, PublishedSchema, TypedObject};
use crate::check::{Check, Validation};
use crate::names::GroupVersionKind;
use crate::same::same;
use crate::strategic_merge::{PatchError, TablePatchType, consumed_patch, strategic_merge};
use crate::types::{self, DecodeError, Decoded, Provenance, TypeId, TypeTable};

/// The table of built-in types, with the merge schema of each type.
pub struct TableTypes {
    table: Arc<TypeTable>,
    /// Built when an object is first merged.
    merge: OnceLock<Arc<Schema>>,
}

impl TableTypes {
    /// Creates the types of `table`.
    pub fn new(table: Arc<TypeTable>) -> Arc<Self> {
        Arc::new(Self {
            table,
            merge: OnceLock::new(),
        })
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<TypeTable> {
        &self.table
    }

    /// Returns the merge schema of all types.
    fn merge(&self) -> &Arc<Schema> {
        self.merge.get_or_init(|| Arc::new(types::merge_schema(&self.table)))
    }
}

/// Fills in the defaults of an object that depend on other fields. The text is the version of the object, such as `v1`.
pub type FieldDefaults = Arc<dyn Fn(&str, &mut Value) + Send + Sync>;

/// The type of a built-in kind, from the table of types.
pub struct TableType {
    name: KindName,
    types: Arc<TableTypes>,
    id: TypeId,
    merge: OnceLock<Option<TypeRef>>,
    /// Defaults that depend on other fields; `None` for kinds of subresources.
    defaults: Option<FieldDefaults>,
}

impl TableType {
    /// Creates the type of `kind`; `None` if the table has none.
    pub fn new(types: &Arc<TableTypes>, kind: GroupVersionKind, defaults: Option<FieldDefaults>) -> Option<Self> {
        Some(Self {
            id: types.table.id_of_kind(&kind)?,
            name: KindName::new(kind.group_version, kind.kind),
            types: Arc::clone(types),
            merge: OnceLock::new(),
            defaults,
        })
    }

    fn table(&self) -> &TypeTable {
        &self.types.table
    }

    fn patch_type(&self) -> TablePatchType<'_> {
        TablePatchType::new(self.table(), self.id)
    }

    /// Returns the provenance with a base only if the base is of this type.
    fn with_own_base<'v>(&self, provenance: Provenance<'v>) -> Provenance<'v> {
        let provenance = provenance.with_base_of(self.api_version(), self.kind());
        let base = provenance.base();
        debug_assert!(base.is_none_or(|base| self.has_form(base)), "{base:?}");
        provenance
    }

    /// Returns true if an object has the form of the type and its defaults.
    fn has_form(&self, object: &Value) -> bool {
        let decoded = types::decode(self.table(), self.id, object);
        let filled = types::with_defaults(self.table(), self.id, object, &mut Growth::default());
        decoded.is_ok_and(|decoded| same(Some(&decoded.value), Some(object)))
            && filled.is_ok_and(|filled| filled.is_none())
    }
}

fn typed(decoded: Result<Decoded, DecodeError>) -> Result<TypedObject, String> {
    let decoded = decoded.map_err(|error| error.to_string())?;
    Ok(TypedObject {
        object: decoded.value,
        findings: decoded.unknown.iter().map(ToString::to_string).collect(),
        floats: decoded.floats,
        empties: decoded.empties,
    })
}

impl KindType for TableType {
    fn name(&self) -> &KindName {
        &self.name
    }

    fn conventions(&self) -> &'static Conventions {
        Conventions::BUILT_IN
    }

    fn decode_from(&self, object: &Value, provenance: Provenance<'_>) -> Result<TypedObject, String> {
        if provenance.is_in_form_of_type() {
            return Ok(TypedObject::from_form_of_type(object.clone()));
        }
        let (table, own) = (self.table(), self.with_own_base(provenance));
        let kept = own
            .base()
            .and_then(|base| types::kept_in_place(table, self.id, object, base));
        let object = kept.as_ref().unwrap_or(object);
        typed(types::decode_from(table, self.id, object, own))
    }

    fn empty(&self) -> Value {
        self.table().get(self.id).zero()
    }

    fn fill_in_from(&self, object: Value, provenance: Provenance<'_>) -> Result<Value, Error> {
        let own = self.with_own_base(provenance);
        let filled = types::with_defaults_from(self.table(), self.id, &object, own, &mut Growth::default())?;
        let mut object = filled.unwrap_or(object);
        if let Some(defaults) = &self.defaults {
            defaults(&self.name.group_version.version, &mut object);
        }
        Growth::default().draw_value(&object)?;
        Ok(object)
    }

    /// Decodes the object, which drops the fields that the type does not know. An object that does not fit its type is
    /// returned unchanged, to be rejected later.
    fn prune(&self, object: Value) -> Value {
        types::decode_tree(self.table(), self.id, &object).map_or(object, |decoded| decoded.value)
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        self.table().drop_disabled(self.id, object, old);
    }

    fn without_empty_lists(&self, object: &Value) -> Option<Value> {
        self.table().without_empty_lists(self.id, object)
    }

    fn validate<'v>(&self, write: &Validation<'v, '_>) -> Findings {
        let mut check = Check::new(self.table());
        check.provenance = write.provenance;
        check.parts = write.parts;
        check.written(self.id, write);
        Findings {
            errors: check.errors,
            warnings: Vec::new(),
        }
    }

    /// Converts as the reference does: its structs have all fields that are written even when unset.
    fn converted_for_managers(&self, object: Value) -> Result<Value, String> {
        Ok(self.decode_from(&object, Provenance::from_tree())?.object)
    }

    fn merge_type(&self) -> Option<(Arc<Schema>, TypeRef)> {
        let schema = self.types.merge();
        let reference = self.merge.get_or_init(|| schema.named(&self.table().get(self.id).name));
        Some((Arc::clone(schema), (*reference)?))
    }

    fn strategic_merge(&self, existing: Value, patch: &Value) -> Result<Value, PatchError> {
        strategic_merge(existing, patch, &self.patch_type())
    }

    fn consumed_patch(&self, patch: &Value, existing: &Value) -> Value {
        consumed_patch(patch, existing, &self.patch_type())
    }

    fn decl_type(&self) -> Option<Arc<DeclType>> {
        types::decl_type(self.table(), self.id)
    }

    fn published_name(&self) -> SmolStr {
        self.table().get(self.id).name.clone()
    }

    fn published_schema(&self) -> Option<PublishedSchema> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;
    use crate::check::NoRules;
    use crate::names::GroupVersion;

    const TYPES: &str = "type example.v1.Thing struct kind(example.com/v1/Thing)
  kind string -
  apiVersion string -
  spec example.v1.Spec 1

type example.v1.Spec struct
  count int32 1 +minimum(0)
  name string 2 +immutable
";

    fn kind_type() -> TableType {
        let types = TableTypes::new(Arc::new(TypeTable::parse(TYPES).unwrap()));
        let kind = GroupVersionKind {
            group_version: GroupVersion::new("example.com", "v1"),
            kind: "Thing".into(),
        };
        TableType::new(&types, kind, None).unwrap()
    }

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn fields_that_another_version_had_go() {
        let pruned = kind_type().prune(object(r#"{"spec":{"count":1,"other":2},"more":{}}"#));
        assert_eq!(pruned.at(&["spec"]), Some(&object(r#"{"count":1}"#)));
        assert!(pruned.get("more").is_none());
        let malformed = object(r#"{"spec":{"count":"x","other":2}}"#);
        assert_eq!(kind_type().prune(malformed.clone()), malformed);
    }

    #[test]
    fn values_are_validated_before_changes() {
        let (new, old) = (
            object(r#"{"spec":{"count":-1,"name":"b"}}"#),
            object(r#"{"spec":{"name":"a"}}"#),
        );
        let kind_type = kind_type();
        let found = |old, subresource| {
            let errors = kind_type.validate(&Validation {
                object: &new,
                old,
                subresource,
                rules: &NoRules,
                changes: &NoRules,
                provenance: Provenance::from_body(),
                parts: None,
            });
            errors.errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let count = "spec.count: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(found(None, None), [count]);
        let name = "spec.name: Invalid value: \"b\": field is immutable";
        assert_eq!(found(Some(&old), None), [count, name]);
        assert!(found(Some(&old), Some("status")).is_empty());
    }
}
