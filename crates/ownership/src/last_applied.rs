//! The annotation of client-side apply: the configuration that `kubectl apply` applied last.
//!
//! With its help, Server-Side Apply by kubectl replaces client-side apply without conflicts, and keeps an
//! existing annotation up to date, so that client-side apply can be used again.

use holdfast_value::{Limits, Map, SmolStr, Value, json};

/// The only manager that uses the annotation.
pub(crate) const MANAGER: &str = "kubectl";

/// Annotation of kubectl.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];

/// Maximum size of the keys and values of all annotations in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Returns the last applied configuration of `existing`, if it has `api_version` and `kind`; other configurations have
/// another type.
pub(crate) fn configuration(existing: &Value, api_version: &str, kind: &str) -> Option<Value> {
    let text = annotation(existing)?;
    let config = json::parse(text.as_bytes(), &Limits::default()).ok()?;
    let of_version = config.str_at(&["apiVersion"]) == Some(api_version);
    let of_kind = config.str_at(&["kind"]) == Some(kind);
    (of_version && of_kind).then_some(config)
}

/// Writes `config` into the annotation of `object`, if it has one. Removes the annotation if it would be too large.
pub(crate) fn update_annotation(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut bytes = json::to_vec(&without_annotation(config));
    bytes.push(b'\n');
    let text = String::from_utf8(bytes).map(SmolStr::from).unwrap_or_default();
    if annotation(object) == Some(&text) {
        return;
    }
    let Some(annotations) = object.at_mut(&ANNOTATIONS).and_then(Value::as_map_mut) else {
        return;
    };
    annotations.insert(LAST_APPLIED, Value::String(text));
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if size > ANNOTATIONS_LIMIT {
        annotations.remove(LAST_APPLIED);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object
        .at(&ANNOTATIONS)?
        .get(LAST_APPLIED)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Returns the configuration without the annotation. Annotations that are not strings are omitted, too.
fn without_annotation(config: &Value) -> Value {
    let mut config = config.clone();
    let Some(annotations) = config.at_mut(&ANNOTATIONS) else {
        return config;
    };
    let texts: Option<Map> = annotations.as_map().and_then(|annotations| {
        annotations
            .iter()
            .filter(|(key, _)| key != LAST_APPLIED)
            .map(|(key, value)| match value {
                Value::String(_) => Some((key.clone(), value.clone())),
                Value::Null => Some((key.clone(), Value::from(""))),
                _ => None,
            })
            .collect()
    });
    match texts {
        Some(texts) => *annotations = Value::Map(texts),
        None => {
            config.remove_at(&ANNOTATIONS);
        }
    }
    config
}
