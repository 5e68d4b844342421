//! CustomResourceDefinitions: their defaults and their initial status.
//!
//! See <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>.

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_gotext::quote::quote;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::{
    AtRestRules, Defines, DefiningObject, DeletionRules, Rejection, Resource, SchemaViolation, Strategy, WriteContext,
};
use holdfast_schema::FieldError;
use holdfast_structural::{CompileContext, read_embedded_defaults, unknown_formats};
use holdfast_value::{SmolStr, Value};

use super::define::{condition, define};
use super::validation;
use crate::config::Config;
use crate::defaults::{change_items, is_zero, set_missing};
use crate::kind::kind;
use crate::time::time_text;

/// Maximum depth of the search in schemas.
const MAX_DEPTH: usize = 130;

/// Finalizer that keeps a CRD until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Strategy of CustomResourceDefinitions.
pub(crate) struct CustomResourceDefinition {
    /// Context for compiling schemas.
    pub(crate) compile: CompileContext,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(CustomResourceDefinition {
        compile: CompileContext {
            patterns: config.patterns.clone(),
            timings: Arc::clone(&config.rule_timings),
        },
    })
    .named_by(super::validation::name_errors)
    .defines()
    // The reference prunes the defaults of schemas after it has counted the generation.
    .counts_dropped_fields()
    .at_rest(AtRestRules {
        kept: Some(super::at_rest::to_rest),
        read: Some(super::at_rest::from_rest),
        ..AtRestRules::default()
    })
    .deletion(DeletionRules {
        held: Some(holds_deletion),
        checks_preconditions: true,
        first_marks_alone: true,
        ..DeletionRules::default()
    })
    .metadata_checks(of_apimachinery(0, 1))
    .done()
}

impl Strategy for CustomResourceDefinition {
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1#SetDefaults_CustomResourceDefinition
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1#SetDefaults_CustomResourceDefinitionSpec
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let stored = storage_version(object);
        let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) else {
            return;
        };
        let conversion = || {
            let mut conversion = Value::empty_map();
            conversion.set_at(&["strategy"], "None".into());
            conversion
        };
        set_missing(spec, "conversion", conversion);
        let part = |name: &str| spec.at(&["conversion", "webhook", name]);
        // The reference stores the members of `webhook` next to the strategy, so an empty `webhook` is lost.
        if part("clientConfig").is_none_or(Value::is_null) && is_zero(part("conversionReviewVersions")) {
            spec.remove_at(&["conversion", "webhook"]);
        }
        let kind = spec.str_at(&["names", "kind"]).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            for (name, made) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
                if is_zero(spec.at(&["names", name])) {
                    spec.set_at(&["names", name], made.into());
                }
            }
        }
        if let Some(stored) = stored
            && is_zero(object.at(&["status", "storedVersions"]))
        {
            object.set_at(&["status", "storedVersions"], vec![stored].into());
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        read_defaults(context, object);
        let stored: Vec<Value> = storage_version(object).into_iter().collect();
        let mut status = Value::empty_map();
        status.set_at(&["storedVersions"], stored.into());
        status.set_at(&["conditions"], Value::Null);
        let mut names = Value::empty_map();
        for name in ["plural", "kind"] {
            names.set_at(&[name], "".into());
        }
        status.set_at(&["acceptedNames"], names);
        object.set_at(&["status"], status);
        Ok(())
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#REST.Delete
    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        let mut finalizers: Vec<Value> = object
            .at(&["metadata", "finalizers"])
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default();
        // The condition is added once. Other finalizers may keep the CRD longer than its objects.
        if condition(object, "Terminating") || finalizers.iter().any(|name| name.as_str() == Some(CLEANUP)) {
            return;
        }
        finalizers.push(CLEANUP.into());
        object.set_at(&["metadata", "finalizers"], finalizers.into());
        let mut conditions: Vec<Value> = object
            .at(&["status", "conditions"])
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default();
        conditions.retain(|condition| condition.str_at(&["type"]) != Some("Terminating"));
        let mut begun = Value::empty_map();
        begun.set_at(&["type"], "Terminating".into());
        begun.set_at(&["status"], "True".into());
        begun.set_at(&["lastTransitionTime"], time_text(context.now()));
        begun.set_at(&["reason"], "InstanceDeletionPending".into());
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        begun.set_at(&["message"], message.into());
        conditions.push(begun);
        object.set_at(&["status", "conditions"], conditions.into());
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.PrepareForUpdate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#statusStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        context: &WriteContext<'_>,
        object: &mut Value,
        _old: &Value,
    ) -> Result<(), Rejection> {
        if context.subresource.is_some() {
            return Ok(());
        }
        read_defaults(context, object);
        if let Some(version) = storage_version(object) {
            // A version in which objects were ever stored stays listed until a migration removes it.
            let mut stored: Vec<Value> = object
                .at(&["status", "storedVersions"])
                .and_then(Value::as_list)
                .map(|list| list.to_vec())
                .unwrap_or_default();
            if !stored.contains(&version) {
                stored.push(version);
                object.set_at(&["status", "storedVersions"], stored.into());
            }
        }
        Ok(())
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.WarningsOnCreate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if context.subresource.is_some() {
            return Vec::new();
        }
        let known_before: HashSet<SmolStr> = old.map(unrecognized_formats).unwrap_or_default().into_iter().collect();
        let mut formats = unrecognized_formats(object);
        formats.retain(|format| !known_before.contains(format));
        let warning = |format: SmolStr| format!("unrecognized format {}", quote(&format));
        formats.into_iter().map(warning).collect()
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validation::validate(context.types, &self.compile.timings, object, None)
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#strategy.ValidateUpdate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition#statusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource.is_none() {
            return validation::validate(context.types, &self.compile.timings, object, Some(old));
        }
        let mut errors = Vec::new();
        validation::validate_status(object, &mut errors);
        errors
    }
}

impl Defines for CustomResourceDefinition {
    fn define(&self, object: &DefiningObject, before: Option<&Arc<Resource>>) -> Option<Arc<Resource>> {
        define(object, before, &self.compile)
    }

    fn schema_violation(&self, object: &Value) -> Option<SchemaViolation> {
        validation::schema_violation(object)
    }
}

/// Returns true if the objects of the CRD must be deleted first.
pub(super) fn holds_deletion(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_none()
}

/// Returns the unrecognized formats in the schemas of all versions.
fn unrecognized_formats(crd: &Value) -> Vec<SmolStr> {
    let versions = crd
        .at(&["spec", "versions"])
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|list| list.iter());
    let schemas = versions.filter_map(|version| version.at(&["schema", "openAPIV3Schema"]));
    schemas.flat_map(unknown_formats).collect()
}

/// Decodes the metadata of embedded objects in the defaults of schemas by the metadata type.
fn read_defaults(context: &WriteContext<'_>, object: &mut Value) {
    let Some(spec) = object.at_mut(&["spec"]) else { return };
    let embeds = |version: &Value| has_keyword(version, "x-kubernetes-embedded-resource", 0);
    change_items(spec, "versions", embeds, |version| {
        if let Some(schema) = version.at_mut(&["schema", "openAPIV3Schema"]) {
            read_embedded_defaults(schema, context.types);
        }
    });
}

/// Returns true if `keyword` occurs anywhere in `value`.
fn has_keyword(value: &Value, keyword: &str, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => false,
        Value::Map(map) => map
            .iter()
            .any(|(name, value)| name == keyword || has_keyword(value, keyword, depth + 1)),
        Value::List(list) => list.iter().any(|value| has_keyword(value, keyword, depth + 1)),
        _ => false,
    }
}

/// Returns the name of the storage version.
fn storage_version(crd: &Value) -> Option<Value> {
    let versions = crd.at(&["spec", "versions"])?.as_list()?;
    let stored = versions
        .iter()
        .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?;
    stored.get("name").cloned()
}

#[cfg(test)]
mod tests {
    use holdfast_value::Value;

    use crate::harness::{Harness, at};

    const GADGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

    #[test]
    fn names_and_stored_versions_follow_from_what_is_given() {
        let created = Harness::new().create(GADGETS);
        assert_eq!(
            at(&created, "spec.names"),
            r#"{"kind":"Gadget","listKind":"GadgetList","plural":"gadgets","singular":"gadget"}"#
        );
        assert_eq!(at(&created, "spec.conversion"), r#"{"strategy":"None"}"#);
        assert_eq!(at(&created, "status.storedVersions"), r#"["v1"]"#);
    }

    #[test]
    fn update_warns_of_newly_unrecognized_formats() {
        let with = |formats: &[&str]| {
            let properties: Vec<String> = formats
                .iter()
                .enumerate()
                .map(|(at, format)| format!("p{at}: {{type: string, format: {format}}}"))
                .collect();
            let schema = format!("{{type: object, properties: {{{}}}}}", properties.join(", "));
            GADGETS.replace("{type: object}", &schema)
        };
        let harness = Harness::new();
        assert_eq!(harness.warnings(&with(&["odd"])), [r#"unrecognized format "odd""#]);
        assert!(
            harness
                .update_warnings(&with(&["odd"]), &with(&["odd", "odd"]))
                .is_empty()
        );
        assert_eq!(
            harness.update_warnings(&with(&["odd"]), &with(&["odd", "new"])),
            [r#"unrecognized format "new""#]
        );
    }

    #[test]
    fn a_conversion_webhook_without_parts_is_lost() {
        let empty = Harness::new().create(&format!("{GADGETS}  conversion: {{strategy: None, webhook: {{}}}}\n"));
        assert_eq!(at(&empty, "spec.conversion"), r#"{"strategy":"None"}"#);
    }

    #[test]
    fn unknown_metadata_in_embedded_default_is_dropped() {
        let schema = "{type: object, properties: {p: {type: object, x-kubernetes-preserve-unknown-fields: true,
            x-kubernetes-embedded-resource: true, default: {apiVersion: v1, kind: Pod, metadata: {name: a, nope: 1}}}}}";
        let created = Harness::new().create(&GADGETS.replace("{type: object}", schema));
        let default = "spec.versions.0.schema.openAPIV3Schema.properties.p.default";
        assert_eq!(
            at(&created, default),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#
        );
    }

    #[test]
    fn names_of_crd_are_immutable() {
        let errors = Harness::new().update_errors(GADGETS, &GADGETS.replace("plural: gadgets", "plural: gizmos"));
        assert_eq!(
            errors,
            [r#"spec.names.plural: Invalid value: "gizmos": field is immutable"#]
        );
    }

    #[test]
    fn scope_stays_once_the_crd_is_established() {
        let types = holdfast_kind_tables::types().unwrap();
        let mut old = Harness::new().create(GADGETS);
        let mut cluster = old.clone();
        cluster.set_at(&["spec", "scope"], "Cluster".into());
        assert!(super::validation::validate(&types, &Default::default(), &cluster, Some(&old)).is_empty());
        let mut established = Value::empty_map();
        established.set_at(&["type"], "Established".into());
        established.set_at(&["status"], "True".into());
        old.set_at(&["status", "conditions"], vec![established].into());
        let errors = super::validation::validate(&types, &Default::default(), &cluster, Some(&old));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
    }
}
