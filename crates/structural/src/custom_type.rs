//! The type of the objects of a custom resource in one version.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use holdfast_cel::{DeclField, DeclType};
use holdfast_limits::Stopwatch;
use holdfast_merge::{DEDUCED, Schema, TypeRef};
use holdfast_schema::types::{TypeId, TypeTable, UnknownField, decl_type};
use holdfast_schema::{
    Conventions, FieldError, FieldErrorKind, FieldPath, Findings, KindName, KindType, PatchError, Provenance,
    PublishedSchema, ScaleFields, TypedObject, Validation, nested_integer, nested_path, nested_text,
};
use holdfast_value::{Error, Growth, SmolStr, Value};

use crate::embedded::{Metadata, OBJECT_META};
use crate::merge;
use crate::node::Node;
use crate::prune::{Dropped, rounded};
use crate::rules::{CompileContext, RuleBudget, Rules};
use crate::validate::Ratchet;

/// Function that returns the schema of a version when it is first needed.
pub type SchemaSource = Arc<dyn Fn() -> VersionSchema + Send + Sync>;

/// Schema of a version of a CRD.
#[derive(Clone, Debug, Default)]
pub struct VersionSchema {
    /// JSON schema of the objects. CRDs of the first versions of the API may have none.
    pub schema: Option<Value>,
    /// True if the CRD preserves the unspecified fields of objects (`spec.preserveUnknownFields`).
    pub preserves_unknown: bool,
    /// True if the schema does not have the form that CRDs must have today. Such a schema validates objects, but it is
    /// not published, and applies merge by deduced types.
    pub is_unpublished: bool,
}

impl VersionSchema {
    /// Creates the schema of a version whose CRD is valid today.
    pub fn new(schema: Option<Value>) -> Self {
        Self {
            schema,
            ..Self::default()
        }
    }
}

/// The type of the objects of one version, created on first use: of a thousand CRDs most are never used.
pub struct CustomSchema {
    name: KindName,
    source: SchemaSource,
    types: Arc<TypeTable>,
    scale: Option<ScaleFields>,
    compile: CompileContext,
    made: OnceLock<Arc<CustomType>>,
    /// Type in the previous state of the CRD, until this one is built.
    before: Mutex<Option<Arc<CustomType>>>,
}

impl CustomSchema {
    /// Creates the type of the objects of that name from the schema that `source` returns, with the metadata type in
    /// `types`; their expressions are compiled with `compile`.
    pub fn new(name: KindName, source: SchemaSource, types: Arc<TypeTable>, compile: CompileContext) -> Self {
        Self {
            name,
            source,
            types,
            scale: None,
            compile,
            made: OnceLock::new(),
            before: Mutex::new(None),
        }
    }

    /// Returns the same type, for objects whose Scale has these fields.
    #[must_use]
    pub fn scaled_by(mut self, scale: Option<ScaleFields>) -> Self {
        self.scale = scale;
        self
    }

    /// Returns the same type as the successor of `before`: if the schemas are equal, it reuses everything derived from
    /// the earlier one, such as compiled rules.
    #[must_use]
    pub fn after(self, before: &CustomSchema) -> Self {
        let unmade = || before.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = before.made.get().cloned().or_else(unmade);
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        self
    }

    /// Returns the type.
    pub fn get(&self) -> &Arc<CustomType> {
        self.made.get_or_init(|| {
            let made = CustomType::new(&(self.source)(), Arc::clone(&self.types), self.compile.clone());
            let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
            before
                .filter(|before| before.has_same_schema(&made))
                .unwrap_or_else(|| Arc::new(made))
        })
    }
}

impl KindType for CustomSchema {
    fn name(&self) -> &KindName {
        &self.name
    }

    fn conventions(&self) -> &'static Conventions {
        Conventions::DEFINED
    }

    fn decode_from(&self, object: &Value, _provenance: Provenance<'_>) -> Result<TypedObject, String> {
        let read = self.get().read(object)?;
        let unknown = read.unknown.into_iter().map(|path| UnknownField { path }.to_string());
        Ok(TypedObject {
            object: read.value,
            findings: unknown.collect(),
            floats: Vec::new(),
            empties: Vec::new(),
        })
    }

    fn empty(&self) -> Value {
        Value::empty_map()
    }

    fn prune(&self, object: Value) -> Value {
        self.get().pruned(&object)
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.Validate
    fn validate<'v>(&self, write: &Validation<'v, '_>) -> Findings {
        let (of, Validation { object, old, .. }) = (self.get(), *write);
        let status_before = old.filter(|_| write.subresource == Some("status"));
        let mut errors = match status_before {
            Some(old) => of.validate_status(object, old),
            None => of.validate_schema(object, old),
        };
        if let Some(scale) = &self.scale {
            validate_scale(scale, object, status_before.is_none(), &mut errors);
        }
        of.validate_rest(object, old, &mut errors);
        // An object without a name is rejected elsewhere. Its rules are not evaluated.
        let nameless = object.str_at(&["metadata", "name"]).unwrap_or_default().is_empty();
        let warnings = match nameless && of.rules().is_some() {
            true => {
                errors.push(unchecked_rules());
                Vec::new()
            }
            false => of.validate_rules(object, old, &mut errors),
        };
        Findings { errors, warnings }
    }

    fn fill_in_from(&self, object: Value, provenance: Provenance<'_>) -> Result<Value, Error> {
        let object = match provenance.is_applied() {
            true => self.get().with_defaults_and_nulls(object)?,
            false => self.get().with_defaults(object)?,
        };
        Growth::default().draw_value(&object)?;
        Ok(object)
    }

    /// Returns the object unchanged: managers may own fields that the version does not specify.
    fn converted_for_managers(&self, object: Value) -> Result<Value, String> {
        Ok(object)
    }

    fn merge_type(&self) -> Option<(Arc<Schema>, TypeRef)> {
        self.get().merge_type()
    }

    fn strategic_merge(&self, _existing: Value, _patch: &Value) -> Result<Value, PatchError> {
        Err(PatchError::NoDeclaredKey)
    }

    fn consumed_patch(&self, patch: &Value, _existing: &Value) -> Value {
        patch.clone()
    }

    fn decl_type(&self) -> Option<Arc<DeclType>> {
        self.get().decl_type()
    }

    fn published_name(&self) -> SmolStr {
        self.name.definition_name()
    }

    fn published_schema(&self) -> Option<PublishedSchema> {
        let version = (self.source)();
        Some(match version.schema {
            Some(schema) if !version.is_unpublished => PublishedSchema::Specified {
                schema,
                preserves_unknown: version.preserves_unknown,
            },
            _ => PublishedSchema::Unspecified,
        })
    }
}

/// Returns true if the defaults of a schema change when they are pruned as parts of an object.
pub fn has_unpruned_defaults(schema: &Value, types: &TypeTable) -> bool {
    let root = Node::read(schema);
    let Some(of) = types.id(OBJECT_META).filter(|_| root.has_defaults()) else {
        return false;
    };
    let metadata = Metadata {
        types,
        of,
        drops_malformed: true,
    };
    let mut pruned = Node::read(schema);
    pruned.replace_defaults(root.pruned_defaults(&|object| {
        read_object(&root, false, Some(metadata), object)
            .ok()
            .map(|read| read.value)
    }));
    root != pruned
}

/// Reads an object by the schema `root`: converts its metadata and, unless `preserves_unknown` is true, drops
/// unspecified fields.
fn read_object(
    root: &Node,
    preserves_unknown: bool,
    metadata: Option<Metadata<'_>>,
    object: &Value,
) -> Result<ReadObject, String> {
    let mut dropped = Dropped::default();
    let mut value = object.clone();
    if let Some(reader) = metadata
        && let Some(metadata) = object.get("metadata")
        && let Some(read) = reader.read(metadata, &mut dropped)?
    {
        value.set_at(&["metadata"], read);
    }
    let (mut below, mut embedded) = (Dropped::default(), Dropped::default());
    let pruned = match preserves_unknown {
        true => rounded(&value),
        false => root.prune(&value, true, &mut below),
    };
    value = pruned.unwrap_or(value);
    if let Some(reader) = metadata {
        let changed = root
            .read_embedded(&value, &FieldPath::default(), reader, &mut embedded)
            .map_err(|error| error.to_string())?;
        value = changed.unwrap_or(value);
    }
    let mut unknown = dropped.paths;
    for mut dropped in [below, embedded] {
        dropped.paths.sort_unstable();
        unknown.extend(dropped.paths);
    }
    Ok(ReadObject { value, unknown })
}

/// The type of the objects of a custom resource in one version.
pub struct CustomType {
    types: Arc<TypeTable>,
    compile: CompileContext,
    metadata: Option<TypeId>,
    root: Node,
    /// True if unspecified fields of objects are kept.
    preserves_unknown: bool,
    /// True if objects merge by deduced types instead of the schema.
    merges_deduced: bool,
    merge: OnceLock<(Arc<Schema>, TypeRef)>,
    rules: OnceLock<Option<Rules>>,
}

/// A custom object that was read.
#[derive(Debug)]
pub struct ReadObject {
    /// The object, without unspecified fields.
    pub value: Value,
    /// Paths of the dropped fields: those in metadata first, then the others in their order.
    pub unknown: Vec<String>,
}

impl CustomType {
    /// Creates the type of the objects of a version. Expressions are compiled with `compile`.
    pub fn new(version: &VersionSchema, types: Arc<TypeTable>, compile: CompileContext) -> Self {
        let root = version
            .schema
            .as_ref()
            .map_or_else(Node::default, |schema| Node::read_sharing(schema, &compile.patterns));
        let mut custom_type = Self {
            metadata: types.id(OBJECT_META),
            types,
            compile,
            root,
            preserves_unknown: version.preserves_unknown,
            merges_deduced: version.is_unpublished || version.schema.is_none(),
            merge: OnceLock::new(),
            rules: OnceLock::new(),
        };
        custom_type.prune_defaults();
        custom_type
    }

    /// Prunes the defaults of the schema as if they were parts of objects. A CRD that is written today has no
    /// unspecified fields in most of its defaults, but those within map values are not validated.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#PruneDefaults
    fn prune_defaults(&mut self) {
        if !self.root.has_defaults() || self.preserves_unknown {
            return;
        }
        let prune = |object: &Value| self.read_with(object, true).ok().map(|read| read.value);
        let pruned = self.root.pruned_defaults(&prune);
        self.root.replace_defaults(pruned);
    }

    fn has_same_schema(&self, other: &Self) -> bool {
        self.root == other.root
            && self.preserves_unknown == other.preserves_unknown
            && self.merges_deduced == other.merges_deduced
            && Arc::ptr_eq(&self.types, &other.types)
    }

    /// Returns the schema.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the type of objects in expressions: that of the schema, with the metadata that all objects have.
    fn decl_type(&self) -> Option<Arc<DeclType>> {
        let metadata = decl_type(&self.types, self.metadata?)?;
        let text = || Arc::new(DeclType::string(None));
        let own = [("apiVersion", text()), ("kind", text()), ("metadata", metadata)];
        let specified = self
            .root
            .properties
            .iter()
            .filter(|(name, _)| own.iter().all(|(of_all, _)| name != of_all));
        let fields: Vec<(SmolStr, Arc<DeclType>)> = specified
            .filter_map(|(name, node)| Some((name.clone(), Arc::new(node.decl_type(false)?))))
            .collect();
        let own = own.into_iter().map(|(name, decl)| (SmolStr::new_static(name), decl));
        let fields = own
            .chain(fields)
            .filter_map(|(name, decl)| DeclField::new(name, decl, false));
        Some(Arc::new(DeclType::object(fields)))
    }

    /// Returns the schema by which objects merge.
    pub fn merge_type(&self) -> Option<(Arc<Schema>, TypeRef)> {
        if let Some((schema, of)) = self.merge.get() {
            return Some((Arc::clone(schema), *of));
        }
        let (schema, root) = match self.merges_deduced {
            true => (merge::deduced_schema(), DEDUCED),
            false => {
                let schema = merge::merge_schema(&self.root, self.preserves_unknown, &self.types, self.metadata?);
                (schema, merge::ROOT)
            }
        };
        let schema = Arc::new(schema);
        let reference = schema.named(root)?;
        let (schema, reference) = self.merge.get_or_init(|| (schema, reference));
        Some((Arc::clone(schema), *reference))
    }

    /// Reads an object that a client sent: converts its metadata and drops unspecified fields.
    ///
    /// # Errors
    /// If the metadata is malformed.
    pub fn read(&self, object: &Value) -> Result<ReadObject, String> {
        self.read_with(object, false)
    }

    /// Returns a stored object in the form in which it is served now: by the current schema, with its defaults. Values
    /// that do not fit are dropped. Unchanged parts are shared.
    ///
    /// # Errors
    /// [`Error::Overgrown`].
    pub fn served_form(&self, object: &Value) -> Result<Value, Error> {
        let read = self.read_with(object, true).map(|read| read.value);
        self.with_defaults(read.unwrap_or_else(|_| object.clone()))
    }

    /// Returns an object from another version without the fields that this version does not specify, and without its
    /// defaults.
    fn pruned(&self, object: &Value) -> Value {
        let read = self.read_with(object, true).map(|read| read.value);
        let object = read.unwrap_or_else(|_| object.clone());
        self.root.without_nulls(&object).unwrap_or(object)
    }

    fn read_with(&self, object: &Value, drops_malformed: bool) -> Result<ReadObject, String> {
        let metadata = self.metadata.map(|of| Metadata {
            types: &self.types,
            of,
            drops_malformed,
        });
        read_object(&self.root, self.preserves_unknown, metadata, object)
    }

    /// Returns the object with its defaults, without `null` in fields that are not nullable.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#PruneNonNullableNullsWithoutDefaults
    ///
    /// # Errors
    /// [`Error::Overgrown`] if the defaults make the object too large.
    pub fn with_defaults(&self, object: Value) -> Result<Value, Error> {
        let object = self.with_defaults_and_nulls(object)?;
        Ok(self.root.without_nulls(&object).unwrap_or(object))
    }

    /// Returns the object with its defaults. A `null` in a field that is neither nullable nor has a default stays, to
    /// be rejected. This is the form of the result of an apply.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#Default
    ///
    /// # Errors
    /// If [`CustomType::with_defaults`] fails.
    pub fn with_defaults_and_nulls(&self, object: Value) -> Result<Value, Error> {
        let filled = self.root.with_defaults(&object, &mut Growth::default())?;
        Ok(filled.unwrap_or(object))
    }

    /// Validates an object by its schema. With the object that it replaces, errors of unchanged values that were
    /// already invalid are left out.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceValidator.Validate
    pub fn validate_schema(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validated(&self.root, object, old, &FieldPath::default())
    }

    /// Validates an object by its schema, if only its status is written.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceValidator.ValidateStatusUpdate
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let (Some(schema), Some(status)) = (self.root.property("status"), object.get("status")) else {
            return Vec::new();
        };
        validated(schema, status, old.get("status"), &FieldPath::new("status"))
    }

    /// Validates embedded objects, and lists that are sets or maps: the latter only if they were valid before.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta#Validate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype#ValidateListSetsAndMaps
    pub fn validate_rest(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let root = FieldPath::default();
        self.root.validate_embedded(object, &root, errors);
        let (mut found, mut before) = (Vec::new(), Vec::new());
        self.root.list_duplicates(object, &root, &mut found);
        if let Some(old) = old.filter(|_| !found.is_empty()) {
            self.root.list_duplicates(old, &root, &mut before);
        }
        if before.is_empty() {
            errors.extend(found);
        }
    }

    /// Returns the rules of the schema, if it has any.
    fn rules(&self) -> Option<&Rules> {
        let rules = self.rules.get_or_init(|| Rules::new(&self.root, true, &self.compile));
        rules.as_ref()
    }

    /// Validates an object by the CEL rules of its schema, adding to `errors`; rules cannot run after some of those
    /// errors. Returns warnings: rules that already failed before, for unchanged values.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#Validator.Validate
    pub fn validate_rules(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) -> Vec<String> {
        let Some(rules) = self.rules() else {
            return Vec::new();
        };
        let root = FieldPath::default();
        if errors.iter().any(|error| BLOCKING.contains(&error.kind)) {
            errors.push(unchecked_rules());
            return Vec::new();
        }
        let begun = Stopwatch::start();
        let findings = rules.validate(&self.root, object, old, true, &root, &mut RuleBudget::default());
        self.compile.timings.evaluated(begun.elapsed());
        errors.extend(findings.errors);
        findings.warnings
    }
}

/// Returns the error of an object whose rules could not be evaluated.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#hasBlockingErr
fn unchecked_rules() -> FieldError {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    FieldError::invalid(&FieldPath::default(), Value::Null, why)
}

/// Validates the fields of the Scale; those of the spec only if the write changes the spec.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceValidator.ValidateScaleSpec
/// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceValidator.ValidateScaleStatus
fn validate_scale(scale: &ScaleFields, object: &Value, of_spec: bool, errors: &mut Vec<FieldError>) {
    let numbers = [&scale.spec_replicas, &scale.status_replicas];
    for path in numbers.into_iter().skip(usize::from(!of_spec)) {
        let field = FieldPath::new(&nested_path(path));
        match nested_integer(object, path) {
            Ok(Some(number)) if number < 0 => {
                errors.push(FieldError::invalid(&field, number, "should be a non-negative integer"));
            }
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&field, number, why));
            }
            Ok(_) => {}
            Err(why) => errors.push(FieldError::invalid(&field, 0, why)),
        }
    }
    if let Some(path) = &scale.selector
        && let Err(why) = nested_text(object, path)
    {
        errors.push(FieldError::invalid(&FieldPath::new(&nested_path(path)), "", why));
    }
}

/// Validates a value. The old value is only consulted if there are errors, so most updates pay nothing for it. The
/// identity of the object must be valid even if it is unchanged, since the version is that of the request.
fn validated(node: &Node, value: &Value, old: Option<&Value>, root: &FieldPath) -> Vec<FieldError> {
    let mut errors = node.validate(value, None, root);
    let Some(old) = old.filter(|_| !errors.is_empty()) else {
        return errors;
    };
    let left = node.validate(value, Some(Ratchet(old)), root);
    if !left.is_empty() {
        return left;
    }
    errors.retain(|error| {
        let first = error.field.as_str().split(['.', '[']).next();
        matches!(first, Some("apiVersion" | "kind" | "metadata"))
    });
    errors
}

/// Errors after which rules do not run, since values may not have the expected types.
const BLOCKING: [FieldErrorKind; 5] = [
    FieldErrorKind::NotSupported,
    FieldErrorKind::Required,
    FieldErrorKind::TooLong,
    FieldErrorKind::TooMany,
    FieldErrorKind::TypeInvalid,
];

#[cfg(test)]
mod tests {
    use holdfast_cel::PatternMemory;
    use holdfast_schema::GroupVersion;
    use holdfast_value::{Limits, json};

    use super::*;

    fn schema(text: &'static str, types: &Arc<TypeTable>) -> CustomSchema {
        let source: SchemaSource =
            Arc::new(move || VersionSchema::new(json::parse(text.as_bytes(), &Limits::TRUSTED).ok()));
        let name = KindName::new(GroupVersion::new("example.com", "v1"), "Widget".into());
        CustomSchema::new(name, source, Arc::clone(types), CompileContext::default())
    }

    #[test]
    fn a_type_goes_on_where_its_schema_says_the_same() {
        let types = Arc::new(TypeTable::default());
        let text = r#"{"type":"object","properties":{"a":{"type":"string","pattern":"a","x-kubernetes-validations":[{"rule":
            "self == 'a'"}]}}}"#;
        let first = schema(text, &types);
        let first_type = Arc::clone(first.get());
        // A schema that was never used passes its predecessor on.
        let second = schema(text, &types).after(&first);
        let third = schema(text, &types).after(&second);
        assert!(Arc::ptr_eq(third.get(), &first_type));
        let other = schema(
            r#"{"type":"object","properties":{"a":{"type":"string","pattern":"b"}}}"#,
            &types,
        )
        .after(&third);
        assert!(!Arc::ptr_eq(other.get(), &first_type));
    }

    #[test]
    fn unchanged_invalid_value_is_ignored() {
        let text = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":5},"s":{"type":"array","items":{"type":"integer"},
            "x-kubernetes-list-type":"set"}}}"#;
        let types = Arc::new(TypeTable::default());
        let custom = schema(text, &types);
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        let error_count = |new: &str, old: &str| {
            let (new, old) = (value(new), value(old));
            let mut errors = custom.get().validate_schema(&new, Some(&old));
            custom.get().validate_rest(&new, Some(&old), &mut errors);
            errors.len()
        };
        assert_eq!(error_count(r#"{"a":1}"#, r#"{"a":1}"#), 0);
        assert_eq!(error_count(r#"{"a":2}"#, r#"{"a":1}"#), 1);
        assert_eq!(error_count(r#"{"s":[1,1]}"#, r#"{"s":[2,2]}"#), 0);
        assert_eq!(error_count(r#"{"s":[1,1]}"#, r#"{"s":[2]}"#), 1);
    }

    #[test]
    fn status_write_validates_status_schema_and_status_scale() {
        let text = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer"}}},
            "status":{"type":"object","properties":{"a":{"type":"integer"}}}}}"#;
        let fields = |part: &str| vec![SmolStr::new(part), "replicas".into()];
        let custom = schema(text, &Arc::default()).scaled_by(Some(ScaleFields {
            spec_replicas: fields("spec"),
            status_replicas: fields("status"),
            selector: None,
        }));
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        let new = value(r#"{"spec":{"a":"x","replicas":-1},"status":{"a":"y","replicas":-1}}"#);
        let old = value("{}");
        let found = |subresource| {
            let found = custom.validate(&Validation {
                object: &new,
                old: Some(&old),
                subresource,
                rules: &holdfast_schema::NoRules,
                changes: &holdfast_schema::NoRules,
                provenance: Provenance::from_body(),
                parts: None,
            });
            let fields = found.errors.iter().map(|error| error.field.as_str().to_owned());
            fields.collect::<Vec<_>>()
        };
        assert_eq!(
            found(None),
            ["spec.a", "status.a", ".spec.replicas", ".status.replicas"]
        );
        assert_eq!(found(Some("status")), ["status.a", ".status.replicas"]);
    }

    #[test]
    fn patterns_of_schemas_and_rules_are_compiled_into_one_memory() {
        let text = r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]+$"},"b":{"type":"string",
            "x-kubernetes-validations":[{"rule":"self.matches('^[a-z]+[0-9]$')"}]}}}"#;
        let schema = VersionSchema::new(json::parse(text.as_bytes(), &Limits::TRUSTED).ok());
        let memory = PatternMemory::new(8 << 20);
        let compile = CompileContext {
            patterns: memory.clone(),
            ..CompileContext::default()
        };
        let custom = CustomType::new(&schema, Arc::default(), compile);
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        let (object, mut errors) = (value(r#"{"a":"abc"}"#), Vec::new());
        for _ in 0..1000 {
            errors.extend(custom.validate_schema(&object, None));
        }
        let of_schema = memory.taken();
        assert!(errors.is_empty() && of_schema > 0);
        for _ in 0..1000 {
            custom.validate_rules(&value(r#"{"b":"abc1"}"#), None, &mut errors);
        }
        assert!(errors.is_empty() && memory.taken() > of_schema);
    }

    #[test]
    fn rules_are_timed_when_they_are_compiled_and_for_each_object() {
        let text = r#"{"type":"object","properties":{"a":{"type":"string","x-kubernetes-validations":[{"rule":"self != ''"},
            {"rule":"self != 'b'"}]}}}"#;
        let schema = VersionSchema::new(json::parse(text.as_bytes(), &Limits::TRUSTED).ok());
        let compile = CompileContext::default();
        let custom = CustomType::new(&schema, Arc::default(), compile.clone());
        let counted = || {
            (
                compile.timings.compilations().count(),
                compile.timings.evaluations().count(),
            )
        };
        assert_eq!(counted(), (0, 0));
        let object = json::parse(br#"{"a":"c"}"#, &Limits::TRUSTED).unwrap_or_default();
        for _ in 0..3 {
            assert!(custom.validate_rules(&object, None, &mut Vec::new()).is_empty());
        }
        assert_eq!(counted(), (1, 3));
    }

    #[test]
    fn fields_of_other_version_and_nulls_are_pruned() {
        let text = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}"#;
        let custom = schema(text, &Arc::default());
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        assert_eq!(custom.prune(value(r#"{"a":1,"b":null,"c":2}"#)), value(r#"{"a":1}"#));
    }

    #[test]
    fn rules_do_not_run_on_objects_that_could_break_them() {
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        let document = value(
            r#"{"type":"object","properties":{"a":{"type":"string","maxLength":3},"n":{"type":"integer","minimum":5}},
            "x-kubernetes-validations":[{"rule":"self.a == 'ok'","message":"not ok"}]}"#,
        );
        let schema = VersionSchema::new(Some(document));
        let custom = CustomType::new(&schema, Arc::default(), CompileContext::default());
        let message = |object: &str| {
            let object = value(object);
            let mut errors = custom.validate_schema(&object, None);
            custom.validate_rules(&object, None, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        assert_eq!(
            message(r#"{"a":"toolong"}"#),
            ["a: Too long: may not be more than 3 bytes", unchecked]
        );
        assert_eq!(
            message(r#"{"a":1}"#),
            [
                r#"a: Invalid value: "integer": a in body must be of type string: "integer""#,
                unchecked
            ]
        );
        assert_eq!(
            message(r#"{"a":"no","n":1}"#),
            [
                "n: Invalid value: 1: n in body should be greater than or equal to 5",
                "<nil>: Invalid value: not ok"
            ]
        );
        assert!(message(r#"{"a":"ok"}"#).is_empty());
    }
}
