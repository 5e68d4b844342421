//! Stored objects: what lies beside their bytes in memory, and how the bytes come about.
//!
//! The embedded store keeps objects as the JSON that is served, in their storage version. kube-apiserver keeps built-in
//! kinds as protobuf, but here a write encodes once and the disk, the cache, the answer and every watcher share those
//! bytes; a second form would cost each write a second encoding and each start a decoding of everything. Keys are those of
//! kube-apiserver. Only `metadata.resourceVersion` is missing from what is stored: it is known when the write is done, so
//! the store puts it in its place then.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_resource::selector::{FieldSelector, LabelSelector, selectable_fields};
use holdfast_resource::{Registry, Resource};
use holdfast_store::{Indexer, Key};
use holdfast_value::{Limits, Map, SmolStr, Value, json};
use parking_lot::Mutex;

/// A stored object as it is served.
pub type Entry = holdfast_store::Entry<Objects>;
/// The objects at one revision.
pub type Snapshot = holdfast_store::Snapshot<Objects>;
/// The store of all objects.
pub type Store = holdfast_store::Store<Objects>;

/// What is kept beside the bytes of an object, so that selectors need no parsing.
#[derive(Debug, Default)]
pub struct Index {
    labels: Map,
    /// The selectable fields beyond name and namespace, with their text.
    fields: Vec<(SmolStr, SmolStr)>,
    /// The parsed object, for as long as somebody remembers it; see [`Index::remember`].
    tree: Mutex<Option<Value>>,
}

impl Index {
    /// The index of an object in its storage version. Resources that share the object's key each bring their fields.
    pub fn of<'a>(resources: impl Iterator<Item = &'a Resource>, object: &Value) -> Self {
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map).cloned();
        let mut fields = Vec::new();
        for resource in resources {
            fields.extend(selectable_fields(resource, object));
        }
        Self {
            labels: labels.unwrap_or_default(),
            fields,
            tree: Mutex::new(None),
        }
    }

    /// The labels.
    pub fn labels(&self) -> &Map {
        &self.labels
    }

    /// Keeps the parsed object here, so that the next reader need not parse it.
    pub fn remember(&self, tree: Value) {
        *self.tree.lock() = Some(tree);
    }

    /// Lets the parsed object go.
    pub fn forget(&self) {
        *self.tree.lock() = None;
    }

    /// The parsed object, if it is remembered.
    pub fn remembered(&self) -> Option<Value> {
        self.tree.lock().clone()
    }
}

/// Makes the index of stored objects from the descriptors of their resources.
pub struct Objects {
    registry: Arc<ArcSwap<Registry>>,
}

impl Objects {
    /// An indexer that knows the resources of `registry`, as they are when an index is made.
    pub fn new(registry: Arc<ArcSwap<Registry>>) -> Self {
        Self { registry }
    }
}

impl Indexer for Objects {
    type Index = Index;
    type Encodings = EventFrames;

    fn index(&self, key: &Key, value: &[u8]) -> Index {
        let registry = self.registry.load();
        let Ok(object) = json::parse(value, &Limits::TRUSTED) else {
            return Index::default();
        };
        Index::of(resources_of_key(&registry, key), &object)
    }
}

/// The resources whose objects are kept below the prefix of `key`.
fn resources_of_key<'a>(registry: &'a Registry, key: &'a [u8]) -> impl Iterator<Item = &'a Resource> {
    registry.resources().iter().map(AsRef::as_ref).filter(move |resource| {
        let storage = resource.storage.as_ref();
        storage.is_some_and(|storage| key.starts_with(storage.prefix.as_bytes()))
    })
}

/// The index of an object that is about to be stored.
pub fn index_of(registry: &Registry, resource: &Resource, object: &Value) -> Index {
    let prefix = resource.storage.as_ref().map_or("", |storage| storage.prefix.as_str());
    Index::of(resources_of_key(registry, prefix.as_bytes()), object)
}

/// The frames of one event that were encoded already, whole and in the storage version: as ADDED, MODIFIED and DELETED.
#[derive(Default)]
pub struct EventFrames {
    json: [OnceLock<Bytes>; 3],
    /// Apart, since few watch in protobuf and every event of the history would be as large.
    protobuf: OnceLock<Box<[OnceLock<Bytes>; 3]>>,
}

impl EventFrames {
    /// The frame at `place` (0 to 2), made by `encode` where nobody has asked for it yet.
    pub fn get(&self, place: usize, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.json[place % 3].get_or_init(encode).clone()
    }

    /// The same in protobuf.
    ///
    /// # Errors
    /// Those of `encode`.
    pub fn get_protobuf<E>(&self, place: usize, encode: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        let frame = &self.protobuf.get_or_init(Box::default)[place % 3];
        if let Some(known) = frame.get() {
            return Ok(known.clone());
        }
        let made = encode()?;
        Ok(frame.get_or_init(|| made).clone())
    }
}

/// The name of the object that is kept at `key`.
pub fn name_of_key(key: &[u8]) -> &str {
    let start = key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    std::str::from_utf8(&key[start..]).unwrap_or_default()
}

/// The namespace of the object that is kept at `key`; empty where its resource has none.
pub fn namespace_of_key<'a>(resource: &Resource, key: &'a [u8]) -> &'a str {
    let prefix = resource.storage.as_ref().map_or(0, |storage| storage.prefix.len());
    let rest = key.get(prefix..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or_default();
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

/// Which objects of a resource a list or a watch is about.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
    /// By name, where the path names one object.
    pub name: Option<SmolStr>,
}

impl Selection {
    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// Whether the stored object is selected.
    pub fn selects(&self, resource: &Resource, entry: &Entry) -> bool {
        if self.is_everything() {
            return true;
        }
        let name = name_of_key(entry.key());
        if self.name.as_ref().is_some_and(|wanted| wanted != name) {
            return false;
        }
        let index = entry.index();
        self.fields.matches(|field| match field {
            "metadata.name" => name,
            "metadata.namespace" => namespace_of_key(resource, entry.key()),
            _ => {
                let found = index.fields.iter().find(|(known, _)| known == field);
                found.map(|(_, text)| text.as_str()).unwrap_or_default()
            }
        }) && self.labels.matches(|key| index.labels.get(key).and_then(Value::as_str))
    }
}

/// The tree of a stored object.
pub fn tree(entry: &Entry) -> Value {
    if let Some(tree) = entry.index().remembered() {
        return tree;
    }
    // What is stored was written here, so that it can always be read.
    json::parse(entry.bytes(), &Limits::TRUSTED).unwrap_or_default()
}

/// Encodes an object for the store: without its resource version, and with the place where that belongs.
///
/// Kind and version come first, as in the reference's answers: lists, whose items leave them out, then take the rest of the
/// bytes as it is; see [`list_item`].
pub fn encode(object: &Value) -> holdfast_store::Value {
    let mut bytes = Vec::with_capacity(2048);
    let mut revision_at = None;
    bytes.push(b'{');
    for key in IDENTITY {
        if let Some(value) = object.get(key) {
            write_member(key, &mut bytes, |bytes| json::write(value, bytes));
        }
    }
    for (key, value) in object.as_map().into_iter().flatten() {
        if IDENTITY.contains(&key.as_str()) {
            continue;
        }
        write_member(key, &mut bytes, |bytes| {
            if key == "metadata" {
                revision_at = write_metadata(value, bytes);
            } else {
                json::write(value, bytes);
            }
        });
    }
    bytes.push(b'}');
    match revision_at {
        Some(at) => holdfast_store::Value::object(bytes, at),
        None => holdfast_store::Value::plain(bytes),
    }
}

/// An object as it is answered: kind and version first.
pub fn encode_answer(object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    bytes.push(b'{');
    for key in IDENTITY {
        if let Some(value) = object.get(key) {
            write_member(key, &mut bytes, |bytes| json::write(value, bytes));
        }
    }
    for (key, value) in object.as_map().into_iter().flatten() {
        if !IDENTITY.contains(&key.as_str()) {
            write_member(key, &mut bytes, |bytes| json::write(value, bytes));
        }
    }
    bytes.push(b'}');
    bytes
}

/// The bytes of an encoded object behind kind and version, without the opening brace: what an item of a list holds.
pub fn list_item<'a>(bytes: &'a [u8], kind: &str, api_version: &str) -> &'a [u8] {
    let identity = [r#"{"kind":""#, kind, r#"","apiVersion":""#, api_version, r#"","#];
    identity
        .iter()
        .try_fold(bytes, |rest, part| rest.strip_prefix(part.as_bytes()))
        .unwrap_or(&bytes[1..])
}

/// What is written first of each object.
const IDENTITY: [&str; 2] = ["kind", "apiVersion"];

/// Writes metadata with room for the resource version, and says where that is.
fn write_metadata(metadata: &Value, bytes: &mut Vec<u8>) -> Option<u32> {
    let mut revision_at = None;
    let write_revision = |bytes: &mut Vec<u8>| {
        write_member("resourceVersion", bytes, |bytes| bytes.extend_from_slice(b"\"\""));
        Some(bytes.len() as u32 - 1)
    };
    bytes.push(b'{');
    for (key, value) in metadata.as_map().into_iter().flatten() {
        if revision_at.is_none() && key.as_str() >= "resourceVersion" {
            revision_at = write_revision(bytes);
        }
        if key != "resourceVersion" {
            write_member(key, bytes, |bytes| json::write(value, bytes));
        }
    }
    let revision_at = revision_at.or_else(|| write_revision(bytes));
    bytes.push(b'}');
    revision_at
}

fn write_member(key: &str, bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
    json::write_string(key, bytes);
    bytes.push(b':');
    write(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_resource_version_is_within_the_metadata() {
        let text = r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a","uid":"1"},"spec":{"metadata":{}}}"#;
        let object = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let value = encode(&object);
        let text = String::from_utf8(value.bytes().to_vec()).unwrap();
        let (head, tail) = text.split_at(value.revision_at().unwrap() as usize);
        assert!(head.ends_with(r#""name":"a","resourceVersion":""#), "{head}");
        assert!(tail.starts_with(r#"","uid":"1"}"#), "{tail}");
    }

    #[test]
    fn an_item_of_a_list_is_the_object_without_kind_and_version() {
        let text = r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{}}"#;
        let object = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let bytes = encode(&object).bytes().clone();
        assert!(bytes.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","data""#));
        let item = list_item(&bytes, "ConfigMap", "v1");
        assert_eq!(item, br#""data":{"a":"1"},"metadata":{"resourceVersion":""}}"#);
    }

    #[test]
    fn names_are_read_from_keys() {
        assert_eq!(name_of_key(b"/registry/pods/default/web"), "web");
        assert_eq!(name_of_key(b"/registry/namespaces/default"), "default");
    }
}
