//! The objects of a soak: ConfigMaps whose members each belong to one writer.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};

use super::ledger::Contents;

pub(super) const COLLECTION: &str = "/api/v1/namespaces/soak/configmaps";
/// An object that is written to know that everything before it was seen.
pub(super) const MARKER: &str = "marker";
/// Prefix of the members of `data` that count.
const COUNTED: &str = "w-";

/// Returns the key of the ledger for a member of an object.
pub(super) fn key(object: &str, member: &str) -> String {
    format!("{object}/{member}")
}

/// Returns the member that belongs to a writer.
pub(super) fn member(writer: u64) -> String {
    format!("{COUNTED}{writer}")
}

pub(super) fn path(object: &str) -> String {
    format!("{COLLECTION}/{object}")
}

/// Returns an object in which a member holds a number, with some additional text.
pub(super) fn config_map(object: &str, member: &str, value: u64, padding: usize) -> Value {
    let data = json!({member: value.to_string(), format!("padding-of-{member}"): "x".repeat(padding)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object}, "data": data})
}

pub(super) fn text(value: &Value) -> Bytes {
    value.to_string().into()
}

pub(super) fn revision(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

pub(super) fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Returns the values of the members of an object, by the keys of the ledger.
pub(super) fn contents(object: &Value) -> Contents {
    let data = object.get("data").and_then(Value::as_object);
    let members = data.into_iter().flatten();
    members
        .filter(|(member, _)| member.starts_with(COUNTED))
        .filter_map(|(member, value)| Some((key(name(object), member), value.as_str()?.parse().ok()?)))
        .collect()
}

/// Returns a list: its revision and its objects but for the marker.
pub(super) fn list(bytes: &[u8]) -> Result<(u64, Vec<Value>)> {
    let mut list: Value = serde_json::from_slice(bytes).context("a list")?;
    let Some(revision) = revision(&list) else {
        bail!("a list without a revision")
    };
    let mut items = list
        .get_mut("items")
        .map(Value::take)
        .and_then(|items| match items {
            Value::Array(items) => Some(items),
            _ => None,
        })
        .unwrap_or_default();
    items.retain(|object| name(object) != MARKER);
    Ok((revision, items))
}
