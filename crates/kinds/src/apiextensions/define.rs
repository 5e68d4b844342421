//! Builds the resource that a CustomResourceDefinition defines.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_resource::conversion::ConversionReviewVersion;
use holdfast_resource::jsonpath::JsonPath;
use holdfast_resource::table::{Cell, Column};
use holdfast_resource::version_order;
use holdfast_resource::{
    AtRest, Capabilities, ConversionWebhook, CrdState, DefiningObject, Encoding, Generation, Resource, ResourceRules,
    ResourceVersion, Scope, Storage, Subresource, Verb,
};
use holdfast_schema::{Conventions, Field, GroupVersion, GroupVersionKind, KindName, KindType, ScaleFields};
use holdfast_structural::{CompileContext, CustomSchema, SchemaSource, VersionSchema};
use holdfast_value::{SmolStr, Value};
use sha2::{Digest as _, Sha256};
use smol_str::format_smolstr;

use super::custom_resource::{CustomResource, Version};
use super::validation;

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Verbs of custom resources.
const VERBS: [Verb; 8] = [
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

/// Verbs of subresources of custom resources.
const SUBRESOURCE_VERBS: [Verb; 3] = [Verb::Get, Verb::Patch, Verb::Update];

/// Fields that a write to the status does not change.
const KEPT_BY_STATUS: [&[&str]; 6] = [
    &["metadata", "annotations"],
    &["metadata", "finalizers"],
    &["metadata", "generateName"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    &["spec"],
];

/// Returns the resource that the CRD defines; `None` before it is established. Keeps the serial of `before` as long as
/// neither the spec nor the accepted names change.
pub(crate) fn define(
    defining: &DefiningObject,
    before: Option<&Arc<Resource>>,
    compile: &CompileContext,
) -> Option<Arc<Resource>> {
    let (object, fingerprint) = (&defining.object, fingerprint(&defining.object));
    if !condition(object, "Established") {
        return None;
    }
    // If other finalizers hold the CRD, the condition may end before the object is gone.
    let terminating = condition(object, "Terminating") || object.at(&["metadata", "deletionTimestamp"]).is_some();
    let known = before.and_then(|resource| Some((resource, resource.crd.as_ref()?)));
    let same =
        known.filter(|(_, crd)| crd.fingerprint == fingerprint && crd.create_revision == defining.create_revision);
    if let Some((resource, crd)) = same
        && crd.terminating == terminating
    {
        return Some(Arc::clone(resource));
    }
    let serial = same.map_or(defining.revision, |(_, crd)| crd.serial);
    resource(
        defining,
        CrdState {
            name: object.str_at(&["metadata", "name"]).map(SmolStr::new)?,
            serial,
            create_revision: defining.create_revision,
            terminating,
            fingerprint,
            schemas: Vec::new(),
            conversion_webhook: None,
        },
        known.map(|(_, crd)| crd),
        compile,
    )
    .map(Arc::new)
}

/// Returns a hash of the parts of a CRD that determine the served resource.
fn fingerprint(object: &Value) -> [u8; 32] {
    let mut hash = Sha256::new();
    for path in [&["metadata", "uid"][..], &["spec"], &["status", "acceptedNames"]] {
        if let Some(value) = object.at(path) {
            hash.update(holdfast_value::json::to_vec(value));
        }
        hash.update([0]);
    }
    hash.finalize().into()
}

/// Returns true if the CRD has a condition of type `of` with status `True`.
pub(crate) fn condition(object: &Value, of: &str) -> bool {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list);
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.str_at(&["type"]) == Some(of) && condition.str_at(&["status"]) == Some("True"))
    })
}

fn resource(
    defining: &DefiningObject,
    mut crd: CrdState,
    before: Option<&CrdState>,
    compile: &CompileContext,
) -> Option<Resource> {
    let (object, names) = (&defining.object, defining.object.at(&["status", "acceptedNames"])?);
    let text = |value: &Value, name: &str| value.str_at(&[name]).map(SmolStr::new).unwrap_or_default();
    let texts = |name: &str| -> Vec<SmolStr> {
        let list = names.get(name).and_then(Value::as_list).map_or(&[][..], |list| list);
        list.iter().filter_map(Value::as_str).map(SmolStr::new).collect()
    };
    let group = SmolStr::new(object.str_at(&["spec", "group"])?);
    let plural = SmolStr::new(object.str_at(&["spec", "names", "plural"])?);
    let kind = text(names, "kind");
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_list)?;
    let stored = versions
        .iter()
        .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?;
    let scope = match object.str_at(&["spec", "scope"])? {
        "Cluster" => Scope::Cluster,
        _ => Scope::Namespaced,
    };
    // Discovery does not reveal a version that is not served, not even by its hash.
    let hash = match stored.get("served").and_then(Value::as_bool) {
        Some(true) => storage_version_hash(&group, &text(stored, "name"), &kind),
        _ => SmolStr::default(),
    };
    let stored_version = format_smolstr!("{group}/{}", text(stored, "name"));
    let mut all = Vec::new();
    let mut served = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        let known = version_of(defining, &group, &kind, at, version, before, compile);
        if version.get("served").and_then(Value::as_bool) == Some(true) {
            served.push(served_version(version, &known, &group, &kind, names, &hash));
        }
        all.push(known);
    }
    served.sort_by(|a, b| version_order::compare(&a.group_version.version, &b.group_version.version));
    word_deprecations(&mut served, &kind, versions);
    crd.schemas = all
        .iter()
        .map(|version| Arc::clone(&version.schema) as Arc<dyn KindType>)
        .collect();
    crd.conversion_webhook = conversion_webhook(object);
    let strategy = Arc::new(CustomResource {
        terminating: crd.terminating,
        versions: all,
        by_webhook: crd.conversion_webhook.is_some(),
    });
    Some(Resource {
        storage: Some(Storage {
            prefix: format_smolstr!("/registry/{group}/{plural}/"),
            at_rest: AtRest {
                api_version: stored_version.clone(),
                encoding: Encoding::Json,
            },
            api_version: stored_version,
        }),
        singular: text(names, "singular"),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        scope,
        versions: served,
        unserved: Vec::new(),
        rules: rules(scope),
        conventions: Conventions::DEFINED,
        capabilities: Capabilities {
            converts: Some(strategy.clone()),
            ..Capabilities::default()
        },
        strategy,
        group,
        plural,
        kind,
        crd: Some(crd),
    })
}

/// Sets the standard warning of deprecated versions that define none.
fn word_deprecations(served: &mut [ResourceVersion], kind: &str, versions: &[Value]) {
    let is_wordless = |version: &&ResourceVersion| version.deprecation.as_deref() == Some("");
    let words: Vec<SmolStr> = served
        .iter()
        .filter(is_wordless)
        .map(|version| standard_deprecation(version, kind, served, versions))
        .collect();
    let deprecations = served.iter_mut().filter_map(|version| version.deprecation.as_mut());
    for (deprecation, words) in deprecations.filter(|text| text.is_empty()).zip(words) {
        *deprecation = words;
    }
}

fn rules(scope: Scope) -> ResourceRules {
    ResourceRules {
        generation: Generation::Counted {
            from_one: true,
            fields: vec![SmolStr::new_static("*")],
            subresources: Vec::new(),
        },
        namespace_selector: scope == Scope::Namespaced,
        ..ResourceRules::default()
    }
}

/// Returns the webhook that converts objects, if the CRD has one.
fn conversion_webhook(object: &Value) -> Option<ConversionWebhook> {
    let conversion = object.at(&["spec", "conversion"])?;
    if conversion.str_at(&["strategy"]) != Some("Webhook") {
        return None;
    }
    let root = Field::root(conversion);
    let webhook = root.child("webhook");
    let versions = webhook.child("conversionReviewVersions");
    let mut known = versions
        .items()
        .filter_map(|version| ConversionReviewVersion::named(version.text()));
    Some(ConversionWebhook {
        crd: SmolStr::new(object.str_at(&["metadata", "name"]).unwrap_or_default()),
        client_config: webhook.child("clientConfig").value().cloned().unwrap_or_default(),
        review_version: known.next(),
    })
}

/// Returns the description of a version, served or not.
fn version_of(
    defining: &DefiningObject,
    group: &SmolStr,
    kind: &SmolStr,
    at: usize,
    version: &Value,
    before: Option<&CrdState>,
    compile: &CompileContext,
) -> Version {
    let name = SmolStr::new(version.str_at(&["name"]).unwrap_or_default());
    let api_version = format_smolstr!("{group}/{name}");
    let read = Arc::clone(&defining.read);
    let is_published_once = OnceLock::new();
    let source: SchemaSource = Arc::new(move || {
        let object = read();
        let versions = object.at(&["spec", "versions"]).and_then(Value::as_list);
        let version = versions.and_then(|versions| versions.get(at));
        let schema = version
            .and_then(|version| version.at(&["schema", "openAPIV3Schema"]))
            .filter(|schema| !schema.is_null())
            .cloned();
        let is_published = || schema.as_ref().is_none_or(validation::is_published);
        VersionSchema {
            is_unpublished: !*is_published_once.get_or_init(is_published),
            preserves_unknown: object.at(&["spec", "preserveUnknownFields"]).is_some_and(is_true),
            schema,
        }
    });
    let kind_name = KindName::new(GroupVersion::new(group.clone(), name.clone()), kind.clone());
    let scale = version.at(&["subresources", "scale"]).map(scale_fields);
    let schema =
        CustomSchema::new(kind_name, source, Arc::clone(&defining.types), compile.clone()).scaled_by(scale.clone());
    let known = before
        .into_iter()
        .flat_map(|before| &before.schemas)
        .find(|known| known.name().api_version == api_version)
        .and_then(|known| (known.as_ref() as &dyn Any).downcast_ref::<CustomSchema>());
    Version {
        api_version,
        schema: Arc::new(match known {
            Some(before) => schema.after(before),
            None => schema,
        }),
        has_status: version.at(&["subresources", "status"]).is_some(),
        scale,
        name,
    }
}

/// Returns the warning for a deprecated version that defines none. It names the newest version to use instead.
fn standard_deprecation(version: &ResourceVersion, kind: &str, served: &[ResourceVersion], all: &[Value]) -> SmolStr {
    let deprecated = |name: &str| {
        all.iter()
            .any(|other| other.str_at(&["name"]) == Some(name) && other.get("deprecated").is_some_and(is_true))
    };
    let better = served.iter().find(|other| {
        let name = &other.group_version.version;
        !deprecated(name) && version_order::compare(name, &version.group_version.version).is_lt()
    });
    let instead = better.map_or_else(String::new, |other| format!("; use {} {kind}", other.api_version));
    format_smolstr!("{} {kind} is deprecated{instead}", version.api_version)
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn served_version(
    version: &Value,
    known: &Version,
    group: &SmolStr,
    kind: &SmolStr,
    names: &Value,
    hash: &SmolStr,
) -> ResourceVersion {
    let group_version = GroupVersion::new(group.clone(), known.name.clone());
    let mut subresources = Vec::new();
    let mut reset_fields = Vec::new();
    if known.has_status {
        let kept = |path: &&[&str]| path.iter().copied().map(SmolStr::new).collect();
        subresources.push(Subresource {
            name: SmolStr::new_static("status"),
            kind: GroupVersionKind {
                group_version: group_version.clone(),
                kind: kind.clone(),
            },
            verbs: SUBRESOURCE_VERBS.to_vec(),
            scale: None,
            columns: Vec::new(),
            reset_fields: KEPT_BY_STATUS.iter().map(kept).collect(),
        });
        reset_fields.push(vec![SmolStr::new_static("status")]);
    }
    if let Some(scale) = &known.scale {
        subresources.push(Subresource {
            name: SmolStr::new_static("scale"),
            kind: GroupVersionKind {
                group_version: GroupVersion::new("autoscaling", "v1"),
                kind: SmolStr::new_static("Scale"),
            },
            verbs: SUBRESOURCE_VERBS.to_vec(),
            scale: Some(scale.clone()),
            columns: scale_columns(),
            reset_fields: Arc::default(),
        });
    }
    let list_kind = names.str_at(&["listKind"]).unwrap_or_default();
    let deprecated = version.get("deprecated").is_some_and(is_true);
    ResourceVersion {
        kind_type: known.schema.clone(),
        api_version: known.api_version.clone(),
        group_version,
        list_kind: SmolStr::new(list_kind),
        storage_version_hash: hash.clone(),
        verbs: VERBS.to_vec(),
        subresources,
        reset_fields: reset_fields.into(),
        columns: columns(version),
        field_selectors: items(version, "selectableFields")
            .filter_map(|field| field.str_at(&["jsonPath"]))
            .map(|path| SmolStr::new(path.trim_start_matches('.')))
            .collect(),
        deprecation: deprecated.then(|| SmolStr::new(version.str_at(&["deprecationWarning"]).unwrap_or_default())),
        removed_release: SmolStr::default(),
    }
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value
        .get(name)
        .and_then(Value::as_list)
        .map_or(&[][..], |list| list)
        .iter()
}

fn scale_fields(scale: &Value) -> ScaleFields {
    let path = |name: &str| -> Option<Vec<SmolStr>> {
        let text = scale.str_at(&[name]).filter(|text| !text.is_empty())?;
        Some(text.trim_start_matches('.').split('.').map(SmolStr::new).collect())
    };
    ScaleFields {
        spec_replicas: path("specReplicasPath").unwrap_or_default(),
        status_replicas: path("statusReplicasPath").unwrap_or_default(),
        selector: path("labelSelectorPath"),
    }
}

/// Returns the columns of a Scale.
fn scale_columns() -> Vec<Column> {
    let lines = [
        "Name | string:name | 0 | text metadata.name",
        "Desired | integer | 0 | number spec.replicas",
        "Available | integer | 0 | number status.replicas",
        "Age | string | 0 | age metadata.creationTimestamp",
    ];
    lines.iter().filter_map(|line| Column::parse(line, &[])).collect()
}

/// Returns the name column and the columns that a version lists; name and age if it lists none.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor#New
fn columns(version: &Value) -> Vec<Column> {
    let column = |name: &str, data_type: &str, format: &str, description: String, priority: i64, path: &str| {
        Some(Column {
            name: SmolStr::new(name),
            data_type: SmolStr::new(data_type),
            format: SmolStr::new(format),
            description: description.into(),
            priority,
            cell: Cell::defined(JsonPath::parse(path).ok()?, data_type),
        })
    };
    let mut columns = Vec::new();
    columns.extend(column(
        "Name",
        "string",
        "name",
        NAME_DESCRIPTION.to_owned(),
        0,
        ".metadata.name",
    ));
    let mut listed = items(version, "additionalPrinterColumns").peekable();
    if listed.peek().is_none() {
        let age = AGE_DESCRIPTION.to_owned();
        columns.extend(column("Age", "date", "", age, 0, ".metadata.creationTimestamp"));
    }
    for listed in listed {
        let text = |name: &str| listed.str_at(&[name]).unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            described => described.to_owned(),
        };
        let priority = listed.get("priority").and_then(Value::as_i64).unwrap_or_default();
        let Some(column) = column(text("name"), text("type"), text("format"), description, priority, path) else {
            // The reference stops at the first path that it cannot parse.
            break;
        };
        columns.push(column);
    }
    columns
}

/// Returns the storage version hash in discovery, computed as in the reference.
#[expect(clippy::indexing_slicing, reason = "a SHA-256 has 32 bytes")]
fn storage_version_hash(group: &str, version: &str, kind: &str) -> SmolStr {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..8]).into()
}
