//! CRDs that were stored before today's rules: the state of their schemas, and the rules that an update need not satisfy
//! because the existing CRD violates them too.

use holdfast_gotext::errors::aggregate;
use holdfast_resource::SchemaViolation;
use holdfast_schema::types::TypeTable;
use holdfast_schema::{FieldError, FieldPath};
use holdfast_structural::has_unpruned_defaults;
use holdfast_value::Value;

use super::schema::{self, Strictness};
use super::structural::{is_structural, unreadable, validate};
use super::{has_recognized_review_version, is_true, items, text};

/// Returns the JSON schemas of the versions, with their positions and names.
fn schemas(spec: &Value) -> impl Iterator<Item = (usize, &str, &Value)> {
    let versions = items(spec, "versions").iter().enumerate();
    versions.filter_map(|(at, version)| {
        let schema = version
            .at(&["schema", "openAPIV3Schema"])
            .filter(|schema| !schema.is_null())?;
        Some((at, text(version, "name"), schema))
    })
}

/// Returns the reason why schemas of a stored CRD are not structural.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema#calculateCondition
pub(in crate::apiextensions) fn schema_violation(crd: &Value) -> Option<SchemaViolation> {
    let spec = crd.get("spec")?;
    let mut errors = Vec::new();
    if is_true(spec, "preserveUnknownFields") {
        let field = FieldPath::new("spec.preserveUnknownFields");
        errors.push(FieldError::invalid(&field, true, "must be false"));
    }
    let field = FieldPath::new("spec.versions");
    for (at, name, schema) in schemas(spec) {
        if let Some(why) = unreadable(schema) {
            let why = format!("failed to check validation schema for version {name}: {why}");
            return Some(SchemaViolation::Unreadable(why));
        }
        errors.extend(validate(
            schema,
            &field.index(at).child("schema").child("openAPIV3Schema"),
        ));
    }
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!messages.is_empty()).then(|| SchemaViolation::Violated(aggregate(&messages)))
}

/// Returns true if the schema of a version appears in OpenAPI documents.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder#generateBuilder
pub(in crate::apiextensions) fn is_published(schema: &Value) -> bool {
    is_structural(schema) && !schema::violates(schema, Strictness::TYPES)
}

/// The spec that an update replaces.
#[derive(Clone, Copy)]
pub(super) struct Replaced<'v>(pub(super) Option<&'v Value>);

impl<'v> Replaced<'v> {
    fn schemas(self) -> impl Iterator<Item = &'v Value> {
        self.0.into_iter().flat_map(schemas).map(|(_, _, schema)| schema)
    }

    /// Returns true if `spec` need not have structural schemas.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#requireStructuralSchema
    pub(super) fn allows_unstructured(self, spec: &Value) -> bool {
        is_true(spec, "preserveUnknownFields")
            && self.schemas().any(|schema| !is_structural(schema))
            && schemas(spec).all(|(_, _, schema)| !schema::has_defaults(schema) && !schema::has_extensions(schema))
    }

    /// Returns true if `spec` may have versions without a schema.
    pub(super) fn allows_no_schema(self) -> bool {
        self.0
            .is_some_and(|spec| schemas(spec).count() < items(spec, "versions").len())
    }

    /// Returns true if the spec preserved unknown fields.
    pub(super) fn preserves_unknown(self) -> bool {
        self.0.is_some_and(|spec| is_true(spec, "preserveUnknownFields"))
    }

    /// Returns true if defaults may have unspecified fields.
    pub(super) fn allows_unpruned_defaults(self, types: &TypeTable) -> bool {
        let is_unpruned = |schema: &Value| is_structural(schema) && has_unpruned_defaults(schema, types);
        self.schemas().any(is_unpruned)
    }

    /// Returns the rules on keywords that the new schemas must satisfy.
    pub(super) fn strictness(self) -> Strictness {
        let mut strictness = Strictness::ALL;
        for rule in Strictness::ALL.each() {
            if self.schemas().any(|schema| schema::violates(schema, rule)) {
                strictness = strictness.without(rule);
            }
        }
        strictness
    }

    /// Returns true if the conversion webhook may support no review version that the server knows.
    pub(super) fn allows_unrecognized_reviews(self) -> bool {
        let versions = self
            .0
            .and_then(|spec| spec.at(&["conversion", "webhook"]))
            .map_or(&[][..], |webhook| items(webhook, "conversionReviewVersions"));
        !versions.is_empty() && !has_recognized_review_version(versions)
    }

    /// Returns true if a version may have this number of selectable fields: it had them before, and all versions shared
    /// them (`is_shared`) before and after, or neither before nor after.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#findTooManySelectableFieldsAllowed
    pub(super) fn allows_selectable_fields(self, version: &Value, is_shared: bool) -> bool {
        const FIELDS: &str = "selectableFields";
        let versions = self.0.map_or(&[][..], |spec| items(spec, "versions"));
        let Some(first) = versions.first() else { return false };
        let was_shared = versions.iter().all(|before| before.get(FIELDS) == first.get(FIELDS));
        let is_before = |before: &&Value| is_shared || text(before, "name") == text(version, "name");
        let before = versions.iter().find(is_before);
        was_shared == is_shared && before.is_some_and(|before| before.get(FIELDS) == version.get(FIELDS))
    }
}
