//! The types of the kinds that are served, as the pipeline needs them: decoding, defaults, merging.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use holdfast_merge::{Schema, TypeRef};
use holdfast_proto::Messages;
use holdfast_resource::schema::{self, TypeId, TypeTable, UnknownField};
use holdfast_resource::structural::CustomType;
use holdfast_resource::{GroupVersionKind, Registry, Resource, TablePatchType, consumed_patch, strategic_merge};
use holdfast_value::{Growth, SmolStr, Value};

use super::change;
use crate::http::ApiError;

/// The types of all kinds that are served.
pub struct Types {
    table: Arc<TypeTable>,
    messages: Messages,
    kinds: HashMap<SmolStr, HashMap<SmolStr, Arc<KindType>>>,
    /// The kinds that the reference knows and does not serve, by `apiVersion`.
    unserved: HashMap<SmolStr, HashSet<SmolStr>>,
}

/// The type of the objects of one kind in one version.
pub(crate) struct KindType {
    kind: SmolStr,
    api_version: SmolStr,
    version: SmolStr,
    form: Form,
    /// The resource whose strategy knows the defaults; none for kinds of subresources.
    resource: Option<Arc<Resource>>,
}

/// Where a type is described.
enum Form {
    /// In the table of built-in types.
    BuiltIn {
        table: Arc<TypeTable>,
        id: TypeId,
        schema: Arc<Schema>,
        merge_type: TypeRef,
    },
    /// In a definition.
    Custom(Arc<CustomType>),
}

type DecodeFn = fn(&TypeTable, TypeId, &Value) -> Result<schema::Decoded, schema::DecodeError>;

/// A tree in the form of its type.
pub(super) struct TypedObject {
    pub(super) object: Value,
    /// Fields that the type does not know, in the words of warnings.
    pub(super) findings: Vec<String>,
    /// Amounts that were read from floats.
    pub(super) floats: Vec<schema::FloatAmount>,
}

impl Types {
    /// The types of the kinds of `registry`, which are among those of `table`.
    pub fn new(table: Arc<TypeTable>, registry: &Registry) -> Self {
        let merge = Arc::new(schema::merge_schema(&table));
        let mut of_kind: HashMap<GroupVersionKind, Arc<Resource>> = HashMap::new();
        for resource in registry.resources() {
            for version in &resource.versions {
                let kind = GroupVersionKind {
                    group_version: version.group_version.clone(),
                    kind: resource.kind.clone(),
                };
                of_kind.insert(kind, Arc::clone(resource));
            }
        }
        let mut kinds: HashMap<SmolStr, HashMap<SmolStr, Arc<KindType>>> = HashMap::new();
        for (id, of) in table.iter() {
            let Some(merge_type) = merge.named(&of.name) else {
                continue;
            };
            for kind in &of.kinds {
                let kind_type = KindType {
                    kind: kind.kind.clone(),
                    api_version: kind.group_version.api_version(),
                    version: kind.group_version.version.clone(),
                    form: Form::BuiltIn {
                        table: Arc::clone(&table),
                        id,
                        schema: Arc::clone(&merge),
                        merge_type,
                    },
                    resource: of_kind.get(kind).cloned(),
                };
                let kinds = kinds.entry(kind_type.api_version.clone()).or_default();
                kinds.insert(kind.kind.clone(), Arc::new(kind_type));
            }
        }
        let messages = Messages::new(Arc::clone(&table));
        Self {
            table,
            messages,
            kinds,
            unserved: HashMap::new(),
        }
    }

    /// The same, where `kinds` (each the text of an `apiVersion` and a kind) are known too, though not served: messages tell
    /// them from kinds that nobody knows.
    #[must_use]
    pub fn with_unserved<'k>(mut self, kinds: impl Iterator<Item = (&'k str, &'k str)>) -> Self {
        for (api_version, kind) in kinds {
            self.unserved.entry(api_version.into()).or_default().insert(kind.into());
        }
        self
    }

    /// The table of built-in types.
    pub(crate) fn table(&self) -> &Arc<TypeTable> {
        &self.table
    }

    /// The protobuf messages of all types.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The type of the objects of `kind` in `api_version`.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<Arc<KindType>> {
        self.kinds.get(api_version)?.get(kind).cloned()
    }

    /// The type of what an address of `resource` takes: `kind` in `api_version`.
    pub(crate) fn of_body(&self, resource: &Arc<Resource>, api_version: &str, kind: &str) -> Option<Arc<KindType>> {
        let Some(schema) = resource.schema(api_version).filter(|_| resource.kind == kind) else {
            return self.kind(api_version, kind);
        };
        Some(Arc::new(KindType {
            kind: resource.kind.clone(),
            api_version: SmolStr::new(api_version),
            version: api_version.rsplit('/').next().map(SmolStr::new).unwrap_or_default(),
            form: Form::Custom(Arc::clone(schema.get())),
            resource: Some(Arc::clone(resource)),
        }))
    }

    /// Whether `kind` in `api_version` is known, though not served.
    pub(super) fn knows_unserved(&self, api_version: &str, kind: &str) -> bool {
        self.unserved.get(api_version).is_some_and(|kinds| kinds.contains(kind))
    }

    /// Whether `kind` is that of a list of objects that are known in `api_version`.
    pub(super) fn knows_list(&self, api_version: &str, kind: &str) -> bool {
        kind.strip_suffix("List").is_some_and(|item| {
            item.is_empty() || self.knows(api_version, item) || self.knows_unserved(api_version, item)
        })
    }

    /// Whether any version of `group` has `kind`, or a list of it.
    pub(super) fn knows_in_group(&self, group: &str, kind: &str) -> bool {
        let versions = self.kinds.keys().chain(self.unserved.keys());
        versions
            .filter(|version| version.split_once('/').map_or("", |(group, _)| group) == group)
            .any(|version| {
                self.knows(version, kind) || self.knows_unserved(version, kind) || self.knows_list(version, kind)
            })
    }

    /// Whether objects of `kind` in `api_version` have a type.
    pub(crate) fn knows(&self, api_version: &str, kind: &str) -> bool {
        self.kinds
            .get(api_version)
            .is_some_and(|kinds| kinds.contains_key(kind))
    }
}

impl KindType {
    /// The kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// The `apiVersion`.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The version without its group.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The group, empty for the core group, and the version.
    pub(super) fn group_version(&self) -> (&str, &str) {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        (group, &self.version)
    }

    /// The kind in the words of messages: `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` for the core group.
    pub(super) fn described(&self) -> String {
        let slash = if self.api_version.contains('/') { "" } else { "/" };
        format!("{slash}{}, Kind={}", self.api_version, self.kind)
    }

    /// How objects merge.
    pub(super) fn merge_type(&self) -> Option<(Arc<Schema>, TypeRef)> {
        match &self.form {
            Form::BuiltIn { schema, merge_type, .. } => Some((Arc::clone(schema), *merge_type)),
            Form::Custom(of) => of.merge_type(),
        }
    }

    /// Whether the type comes from a definition.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    /// What an object holds that says nothing.
    pub(super) fn empty(&self) -> Value {
        match &self.form {
            Form::BuiltIn { table, id, .. } => table.get(*id).zero(),
            Form::Custom(_) => Value::empty_map(),
        }
    }

    /// Brings `object` into the form that is served: numbers, quantities and times as they are written, empty values left
    /// out or filled in, fields that the type does not know left out and told.
    ///
    /// # Errors
    /// Why the object does not fit its type, in the words of the reference's decoder.
    pub(super) fn decode(&self, object: &Value) -> Result<TypedObject, String> {
        self.decode_by(schema::decode, object)
    }

    /// As [`KindType::decode`], where the reference makes its struct of a tree and not of JSON.
    ///
    /// # Errors
    /// Why the object does not fit its type, in the words that the reference has for that.
    pub(super) fn decode_tree(&self, object: &Value) -> Result<TypedObject, String> {
        self.decode_by(schema::decode_tree, object)
    }

    fn decode_by(&self, decode: DecodeFn, object: &Value) -> Result<TypedObject, String> {
        match &self.form {
            Form::BuiltIn { table, id, .. } => {
                let decoded = decode(table, *id, object).map_err(|error| error.to_string())?;
                Ok(TypedObject {
                    object: decoded.value,
                    findings: decoded.unknown.iter().map(ToString::to_string).collect(),
                    floats: decoded.floats,
                })
            }
            Form::Custom(of) => {
                let read = of.read(object)?;
                let unknown = read.unknown.into_iter().map(|path| UnknownField { path }.to_string());
                Ok(TypedObject {
                    object: read.value,
                    findings: unknown.collect(),
                    floats: Vec::new(),
                })
            }
        }
    }

    /// Takes out of a typed object what stands at `paths`; what is written even when nobody sets it stays.
    ///
    /// # Errors
    /// None but for faults of the server.
    pub(crate) fn without(&self, mut object: Value, paths: &[Vec<SmolStr>]) -> Result<Value, ApiError> {
        if paths.is_empty() {
            return Ok(object);
        }
        super::metadata::reset_fields(&mut object, None, paths);
        let typed = self.decode(&object).map_err(ApiError::internal)?;
        Ok(typed.object)
    }

    /// `object` in the form of its type and with its defaults.
    ///
    /// # Errors
    /// 500 where it does not fit its type: this is for objects that the server makes itself.
    pub(crate) fn typed(&self, object: Value) -> Result<Value, ApiError> {
        let typed = self.decode(&object).map_err(ApiError::internal)?;
        self.with_defaults(typed.object)
    }

    /// Fills in what the object leaves out. Every step that makes something of an object ends here, which is why its size is
    /// looked at here.
    ///
    /// # Errors
    /// 413 where the object has become too large.
    pub(crate) fn with_defaults(&self, object: Value) -> Result<Value, ApiError> {
        self.filled_in(object).map_err(ApiError::too_large_because)
    }

    /// As [`KindType::with_defaults`], for what an apply makes.
    ///
    /// # Errors
    /// Those of [`KindType::with_defaults`].
    pub(super) fn applied_with_defaults(&self, object: Value) -> Result<Value, ApiError> {
        let Form::Custom(of) = &self.form else {
            return self.with_defaults(object);
        };
        let object = of
            .with_defaults_and_nulls(object)
            .map_err(ApiError::too_large_because)?;
        Growth::default()
            .draw_value(&object)
            .map_err(ApiError::too_large_because)?;
        Ok(object)
    }

    /// As [`KindType::with_defaults`].
    ///
    /// # Errors
    /// [`Error::Overgrown`](holdfast_value::Error::Overgrown).
    pub(super) fn filled_in(&self, object: Value) -> Result<Value, holdfast_value::Error> {
        let mut object = match &self.form {
            Form::BuiltIn { table, id, .. } => {
                let filled = schema::with_defaults(table, *id, &object, &mut Growth::default())?;
                filled.unwrap_or(object)
            }
            Form::Custom(of) => of.with_defaults(object)?,
        };
        if let Some(resource) = &self.resource {
            resource.strategy.default_fields(&self.version, &mut object);
        }
        Growth::default().draw_value(&object)?;
        Ok(object)
    }

    /// Carries out a strategic merge patch.
    pub(super) fn strategic_merge(&self, live: Value, patch: &Value) -> Result<Value, ApiError> {
        let Form::BuiltIn { table, id, .. } = &self.form else {
            return Err(ApiError::internal("custom resources have no strategic merge patch"));
        };
        let of = TablePatchType::new(table, *id);
        strategic_merge(live, patch, &of).map_err(|error| change::patch_error(&error))
    }

    /// What the reference shows of a strategic merge patch after it was carried out on `live`.
    pub(super) fn consumed_patch(&self, patch: &Value, live: &Value) -> Value {
        match &self.form {
            Form::BuiltIn { table, id, .. } => consumed_patch(patch, live, &TablePatchType::new(table, *id)),
            Form::Custom(_) => patch.clone(),
        }
    }
}
