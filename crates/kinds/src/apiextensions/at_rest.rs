//! CRDs as kube-apiserver stores them: in v1beta1, which is no longer served. Fields that all versions share are stored
//! once in the spec.

use holdfast_resource::Old;
use holdfast_value::{List, Map, Value};

/// Fields of each version in v1, with their names in the spec of v1beta1 if all versions share them.
const SHARED: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];
const COLUMNS: &str = "additionalPrinterColumns";

/// Converts a v1 CRD to v1beta1.
pub(super) fn to_rest(mut object: Value, _old: Old<'_>) -> Value {
    let Some(spec) = member(&mut object, "spec") else {
        return object;
    };
    let versions = spec
        .get("versions")
        .and_then(Value::as_list)
        .cloned()
        .unwrap_or_default();
    if let Some(first) = versions.first() {
        spec.set_at(&["version"], first.get("name").cloned().unwrap_or_else(|| "".into()));
        let mut versions = versions.to_vec();
        share(spec, &mut versions);
        rename_columns_of(&mut versions, "jsonPath", "JSONPath");
        spec.set_at(&["versions"], versions.into());
    }
    rename_columns(spec, "jsonPath", "JSONPath");
    if spec.get("preserveUnknownFields").is_none() {
        spec.set_at(&["preserveUnknownFields"], false.into());
    }
    if let Some(webhook) = spec.remove_at(&["conversion", "webhook"]) {
        move_set(&webhook, "clientConfig", spec, &["conversion", "webhookClientConfig"]);
        move_set(&webhook, REVIEWS, spec, &["conversion", REVIEWS]);
    }
    object
}

const REVIEWS: &str = "conversionReviewVersions";

/// Moves the fields that all versions share to the spec. Selectable fields move only together with the schema.
fn share(spec: &mut Value, versions: &mut [Value]) {
    let Some(first) = versions.first().cloned() else {
        return;
    };
    let alike = |versions: &[Value], name: &str| versions.iter().all(|version| version.get(name) == first.get(name));
    let schema_alike = alike(versions, "schema");
    for (within, beside) in SHARED {
        if !alike(versions, within) || (within == "selectableFields" && !schema_alike) {
            continue;
        }
        for version in &mut *versions {
            version.remove_at(&[within]);
        }
        if let Some(value) = first.get(within) {
            spec.set_at(&[beside], value.clone());
        }
    }
}

/// Converts a stored CRD of any version to v1.
pub(super) fn from_rest(mut object: Value) -> Value {
    if object.str_at(&["apiVersion"]) == Some("apiextensions.k8s.io/v1") {
        return object;
    }
    let Some(spec) = member(&mut object, "spec") else {
        return object;
    };
    let name = spec.remove_at(&["version"]).filter(|name| name.as_str() != Some(""));
    let mut versions = spec
        .get("versions")
        .and_then(Value::as_list)
        .cloned()
        .unwrap_or_default()
        .to_vec();
    if versions.is_empty()
        && let Some(name) = name
    {
        let mut only = Map::new();
        only.insert("name", name);
        only.insert("served", true);
        only.insert("storage", true);
        versions.push(only.into());
    }
    for (within, beside) in SHARED {
        let Some(value) = spec.remove_at(&[beside]) else {
            continue;
        };
        for version in &mut versions {
            version.set_at(&[within], value.clone());
        }
    }
    rename_columns_of(&mut versions, "JSONPath", "jsonPath");
    spec.set_at(&["versions"], versions.into());
    match spec.get("preserveUnknownFields").and_then(Value::as_bool) {
        Some(true) => {}
        Some(false) => drop(spec.remove_at(&["preserveUnknownFields"])),
        // The field defaulted to true in v1beta1.
        None => spec.set_at(&["preserveUnknownFields"], true.into()),
    }
    let client = spec.remove_at(&["conversion", "webhookClientConfig"]);
    let reviews = spec.remove_at(&["conversion", REVIEWS]);
    if client.is_some() || reviews.is_some() {
        let mut webhook = Map::new();
        if let Some(client) = client {
            webhook.insert("clientConfig", client);
        }
        webhook.insert(REVIEWS, reviews.unwrap_or_default());
        spec.set_at(&["conversion", "webhook"], webhook.into());
    }
    object
}

fn member<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    object.as_map_mut()?.get_mut(name)
}

/// Copies the field `name` to `path` of another object if it is set.
fn move_set(from: &Value, name: &str, to: &mut Value, path: &[&str]) {
    if let Some(value) = from.get(name).filter(|value| !value.is_null()) {
        to.set_at(path, value.clone());
    }
}

fn rename_columns_of(versions: &mut [Value], from: &str, to: &str) {
    for version in versions {
        rename_columns(version, from, to);
    }
}

fn rename_columns(holder: &mut Value, from: &str, to: &str) {
    if holder.get(COLUMNS).is_none() {
        return;
    }
    let columns: Option<&mut List> = member(holder, COLUMNS).and_then(Value::as_list_mut);
    for column in columns.into_iter().flat_map(List::make_mut) {
        if let Some(path) = column.remove_at(&[from]) {
            column.set_at(&[to], path);
        }
    }
}
