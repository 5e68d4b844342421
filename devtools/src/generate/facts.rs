//! The inputs, read whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// Inputs of the generator other than the sources of crates.
pub(super) struct Facts {
    /// The OpenAPI v2 document.
    pub(super) openapi: Value,
    /// Definition name to schema, gathered from all OpenAPI v3 documents.
    pub(super) schemas: BTreeMap<String, Value>,
    /// `merge.json`: markers and key defaults.
    pub(super) merge: Value,
    /// `proto.json`: protobuf numbers and fields that JSON omits.
    pub(super) proto: Value,
    /// `defaults.json`.
    pub(super) defaults: Value,
    /// `kinds.json`: facts about each resource.
    pub(super) kinds: Value,
    /// The discovery documents in the legacy form, by file name without ending.
    pub(super) discovery: BTreeMap<String, Value>,
    /// True if fields of versions that are off by default have the defaults of OpenAPI documents.
    pub(super) takes_published_defaults: bool,
}

impl Facts {
    pub(super) fn read(kinds: &Path, openapi: &Path, discovery: &Path) -> anyhow::Result<Self> {
        let mut schemas = BTreeMap::new();
        let v3 = openapi.parent().unwrap_or(Path::new(".")).join("v3");
        for document in documents(&v3)?.into_values() {
            if let Some(found) = document["components"]["schemas"].as_object() {
                schemas.extend(found.iter().map(|(name, schema)| (name.clone(), schema.clone())));
            }
        }
        Ok(Self {
            openapi: document(openapi)?,
            schemas,
            merge: document(&kinds.join("merge.json"))?,
            proto: document(&kinds.join("proto.json"))?,
            defaults: document(&kinds.join("defaults.json"))?,
            kinds: document(&kinds.join("kinds.json"))?,
            discovery: documents(&discovery.join("legacy"))?,
            takes_published_defaults: false,
        })
    }
}

impl Facts {
    /// Returns the same, with the messages of versions that are off by default. What their OpenAPI documents give as
    /// defaults holds.
    pub(super) fn with_unserved(mut self, kinds: &Path) -> anyhow::Result<Self> {
        let unserved = document(&kinds.join("proto-unserved.json"))?;
        let messages = unserved["messages"].as_object().context("no messages")?;
        let known = self.proto["messages"].as_object_mut().context("no messages")?;
        for (name, message) in messages {
            known.entry(name.clone()).or_insert_with(|| message.clone());
        }
        self.takes_published_defaults = true;
        Ok(self)
    }
}

fn document(path: &Path) -> anyhow::Result<Value> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

fn documents(folder: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, document(&path)?);
        }
    }
    Ok(found)
}

/// Returns the texts of a JSON list; none if there is no list.
pub(super) fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
