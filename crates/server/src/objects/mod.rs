//! Stored objects: their encoding, and the index beside their bytes in memory.
//!
//! The embedded store keeps objects as the JSON that is served, in their storage version. kube-apiserver keeps built-in
//! kinds as protobuf, but here a write encodes once and the disk, the cache, the answer and every watcher share those
//! bytes; a second form would cost each write a second encoding and each start a decoding of everything. Keys are those of
//! kube-apiserver. Only `metadata.resourceVersion` is missing from what is stored: it is known when the write is done, so
//! the store puts it in its place then.

pub mod claims;
pub mod definitions;
mod encoded_events;
pub mod expiry;
pub(crate) mod followers;
pub mod lookup;
pub(crate) mod settled;
mod trees;

pub(crate) use encoded_events::{Converted, EventForm, EventType};
pub use encoded_events::{EncodedEvent, EventCache};
pub use trees::Trees;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use holdfast_resource::metadata::formats;
use holdfast_resource::schema::{self, TypeId, TypeTable};
use holdfast_resource::selector::{FieldSelector, LabelSelector, selectable_fields};
use holdfast_resource::{Registry, Resource};
use holdfast_store::{CodecError, Indexer, Key, Transaction};
use holdfast_value::{Limits, Map, SmolStr, Value, json};
use parking_lot::Mutex;

use self::settled::{Fingerprint, Settled, SettledApplies};
use crate::http::{ApiError, protobuf};

/// A stored object as it is served.
pub type Entry = holdfast_store::Entry<Objects>;
/// The objects at one revision.
pub type Snapshot = holdfast_store::Snapshot<Objects>;
/// The store of all objects.
pub type Store = holdfast_store::Store<Objects>;

/// The index of an object, with which selectors need no parsing.
#[derive(Debug, Default)]
pub struct Index {
    labels: Map,
    /// The selectable fields beyond name and namespace, with their text.
    fields: Vec<(SmolStr, SmolStr)>,
    /// Whether the object cannot be read.
    unreadable: bool,
    /// The serial of the definition whose form the object is known to have; 0 for built-in kinds, and where it is not known.
    definition: AtomicU64,
    /// The parsed object, while it is cached; see [`Index::remember`].
    tree: Mutex<Option<Value>>,
    /// The applies that are known to change nothing.
    settled: Mutex<Option<Box<SettledApplies>>>,
}

impl Index {
    /// The index of an object in its storage version. Resources that share the object's key each bring their fields.
    pub fn of<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>, object: &Value) -> Self {
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map).cloned();
        let mut fields = Vec::new();
        for resource in resources {
            fields.extend(selectable_fields(resource, object));
        }
        Self {
            labels: labels.unwrap_or_default(),
            fields,
            unreadable: false,
            definition: AtomicU64::new(0),
            tree: Mutex::new(None),
            settled: Mutex::new(None),
        }
    }

    /// Whether the object is known to be in the form in which the resource shows it in its storage version. One of a
    /// built-in kind always is.
    fn is_current(&self, resource: &Resource) -> bool {
        self.definition.load(Ordering::Relaxed) == resource.serial()
    }

    fn set_current(&self, resource: &Resource) {
        self.definition.store(resource.serial(), Ordering::Relaxed);
    }

    /// The labels.
    pub fn labels(&self) -> &Map {
        &self.labels
    }

    /// Caches the parsed object for the next reader.
    pub fn remember(&self, tree: Value) {
        *self.tree.lock() = Some(tree);
    }

    /// Drops the cached object.
    pub fn forget(&self) {
        *self.tree.lock() = None;
    }

    /// Remembers an apply that changed nothing.
    pub(crate) fn remember_apply(&self, settled: Settled) {
        self.settled.lock().get_or_insert_default().insert(settled);
    }

    /// The warnings of an apply that is known to change nothing by the state of `snapshot`.
    pub(crate) fn settled(
        &self,
        fingerprint: Fingerprint,
        resource: &Arc<Resource>,
        snapshot: &Snapshot,
    ) -> Option<Vec<String>> {
        let settled = self.settled.lock();
        settled.as_ref()?.warnings(fingerprint, resource, snapshot)
    }

    /// Whether the parsed object is cached.
    pub fn is_remembered(&self) -> bool {
        self.tree.lock().is_some()
    }

    /// The parsed object, if it is cached.
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
    type Encodings = EncodedEvent;

    fn complete(&self, transaction: Transaction<Self>, state: &Snapshot) -> Transaction<Self> {
        claims::complete(&self.registry.load(), transaction, state)
    }

    fn index(&self, key: &Key, value: &[u8]) -> Index {
        let registry = self.registry.load();
        match json::parse(value, &Limits::TRUSTED) {
            Ok(object) => Index::of(registry.stored_around(key).iter(), &object),
            Err(error) => {
                // Of what its codec cannot read the engine has told.
                if CodecError::of_placeholder(value).is_none() {
                    tracing::error!(%key, %error, "a stored object cannot be read");
                }
                Index {
                    unreadable: true,
                    ..Index::default()
                }
            }
        }
    }
}

/// The index of an object that is about to be stored.
/// `api_version` is that in which the object was made.
pub fn index_of(registry: &Registry, resource: &Resource, object: &Value, api_version: &str) -> Index {
    let prefix = key_prefix(resource);
    if !resource.conventions.form_changes {
        return Index::of(registry.stored_at(prefix).iter(), object);
    }
    let index = Index {
        fields: selectable_fields(resource, object),
        ..Index::of(std::iter::empty(), object)
    };
    let stored_as_made = resource.storage.as_ref().is_some_and(|storage| {
        storage.api_version == api_version && object.str_at(&["apiVersion"]) == Some(api_version)
    });
    // What was made in another version may lack defaults of this one.
    if stored_as_made {
        index.set_current(resource);
    }
    index
}

/// Whether the stored bytes are the object as the resource shows it in `api_version`. Custom objects that were stored under
/// an older definition, or before the start of the server, are checked once.
pub fn is_shown_as_stored(resource: &Resource, api_version: &str, entry: &Entry) -> bool {
    let stored_so = resource
        .storage
        .as_ref()
        .is_some_and(|storage| storage.api_version == api_version);
    if !stored_so || !resource.conventions.form_changes {
        return stored_so;
    }
    let index = entry.index();
    if index.is_current(resource) {
        return true;
    }
    let stored = tree(entry);
    let current = resource
        .convert(stored.clone(), api_version)
        .is_ok_and(|shown| shown == stored);
    if current {
        index.set_current(resource);
    }
    current
}

/// Refuses names under which no object of the resource can be stored: the empty one, and those with a meaning in paths.
///
/// # Errors
/// 400.
pub(crate) fn check_key(resource: &Resource, namespace: &str, name: &str) -> Result<(), ApiError> {
    formats::check_key(resource.namespaced(), namespace, name).map_err(ApiError::bad_request)
}

/// What the keys of the objects of a resource begin with; empty where it stores none.
pub(crate) fn key_prefix(resource: &Resource) -> &str {
    resource.storage.as_ref().map_or("", |storage| storage.prefix.as_str())
}

/// The name of the object that is kept at `key`.
#[expect(clippy::indexing_slicing, reason = "the place was found in this very key")]
pub fn name_of_key(key: &[u8]) -> &str {
    let start = key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    std::str::from_utf8(&key[start..]).unwrap_or_default()
}

/// The namespace of the object that is kept at `key`; empty where its resource has none.
#[expect(clippy::indexing_slicing, reason = "the place was found in this very key")]
pub fn namespace_of_key<'a>(resource: &Resource, key: &'a [u8]) -> &'a str {
    let rest = key.get(key_prefix(resource).len()..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or_default();
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

/// The name and namespace of an object.
#[derive(Clone, Copy)]
struct Identity<'o> {
    name: &'o str,
    namespace: &'o str,
}

impl<'o> Identity<'o> {
    fn of_key(resource: &Resource, key: &'o [u8]) -> Self {
        Self {
            name: name_of_key(key),
            namespace: namespace_of_key(resource, key),
        }
    }
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
        if is_unreadable(entry) {
            return false;
        }
        if self.is_everything() {
            return true;
        }
        let index = entry.index();
        // What was indexed under another definition may lack fields, or hold them without their defaults.
        let anew = (!self.fields.is_empty() && !index.is_current(resource)).then(|| fields_anew(resource, entry));
        let identity = Identity::of_key(resource, entry.key());
        self.matches(identity, &index.labels, anew.as_ref().unwrap_or(&index.fields))
    }

    /// Whether the stored object is selected, which `converted` is in the version that is shown: a webhook may have labels
    /// of its own.
    pub fn selects_converted(&self, resource: &Resource, entry: &Entry, converted: &Value) -> bool {
        if is_unreadable(entry) {
            return false;
        }
        if self.is_everything() {
            return true;
        }
        let identity = Identity::of_key(resource, entry.key());
        self.matches_tree(resource, identity, converted)
    }

    /// Whether an object that is not stored is selected.
    pub fn selects_tree(&self, resource: &Resource, object: &Value) -> bool {
        let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
        let identity = Identity {
            name: text("name"),
            namespace: text("namespace"),
        };
        self.is_everything() || self.matches_tree(resource, identity, object)
    }

    fn matches_tree(&self, resource: &Resource, identity: Identity<'_>, object: &Value) -> bool {
        let none = Map::default();
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
        let fields = selectable_fields(resource, object);
        self.matches(identity, labels.unwrap_or(&none), &fields)
    }

    fn matches(&self, identity: Identity<'_>, labels: &Map, fields: &[(SmolStr, SmolStr)]) -> bool {
        let Identity { name, namespace } = identity;
        if self.name.as_ref().is_some_and(|wanted| wanted != name) {
            return false;
        }
        self.fields.matches(|field| match field {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            _ => {
                let found = fields.iter().find(|(known, _)| known == field);
                found.map(|(_, text)| text.as_str()).unwrap_or_default()
            }
        }) && self.labels.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

/// The selectable fields of a custom object by the definition of today.
fn fields_anew(resource: &Resource, entry: &Entry) -> Vec<(SmolStr, SmolStr)> {
    let stored = tree(entry);
    let api_version = resource
        .storage
        .as_ref()
        .map_or("", |storage| storage.api_version.as_str());
    let shown = resource.convert(stored.clone(), api_version);
    selectable_fields(resource, &shown.unwrap_or(stored))
}

/// Whether a stored object cannot be read, as far as that shows without parsing it. Lists and watches leave it out, so that
/// they show the others.
///
/// Only a fault of the server or a change of the file from outside makes one; the store checks its own bytes.
pub fn is_unreadable(entry: &Entry) -> bool {
    let whole = matches!(entry.bytes()[..], [b'{', b'"', .., b'}']);
    // Its index decides where the first and last bytes are not those of an object.
    match entry.known_index() {
        Some(index) => index.unreadable,
        None => !whole && entry.index().unreadable,
    }
}

/// The tree of a stored object that is requested by name.
///
/// # Errors
/// 500 with its key where it cannot be read.
pub fn tree_or_refusal(entry: &Entry) -> Result<Value, ApiError> {
    if let Some(tree) = entry.index().remembered() {
        return Ok(tree);
    }
    json::parse(entry.bytes(), &Limits::TRUSTED).map_err(|error| match CodecError::of_placeholder(entry.bytes()) {
        Some(why) => unreadable(entry, &why),
        None => unreadable(entry, &error),
    })
}

/// Refuses a stored object that is known to be unreadable.
///
/// # Errors
/// 500 with its key.
pub fn check_readable(entry: &Entry) -> Result<(), ApiError> {
    if is_unreadable(entry) {
        tree_or_refusal(entry)?;
    }
    Ok(())
}

fn unreadable(entry: &Entry, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::unclassified(format!(
        "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
         revision={}: {why}",
        entry.key(),
        entry.mod_revision()
    ))
}

/// The tree of a stored object; null where it cannot be read.
pub fn tree(entry: &Entry) -> Value {
    readable(entry).unwrap_or_default()
}

/// The tree of a stored object, if it can be read.
pub fn readable(entry: &Entry) -> Option<Value> {
    tree_or_refusal(entry).ok()
}

/// Encodes an object for the store: without its resource version, and with the place where that belongs. The fields of
/// built-in kinds stand in the order of `types`, as in the reference's answers; those of others by their names.
///
/// Kind, version and metadata come first in built-in kinds: lists, whose items leave the first two out, take the rest of the
/// bytes as it is (see [`list_item`]). Answers that show metadata alone cut those out (see [`metadata_place`]).
pub fn encode(types: &TypeTable, object: &Value) -> holdfast_store::Value {
    encode_as_sent(types, object, false)
}

/// What follows an object whose raw extensions were sent with blanks: a blank, which is no part of the object.
const RAW_AS_SENT: u8 = b' ';

/// As [`encode`]; `raw_as_sent` says that the raw extensions of the object were sent with blanks.
pub fn encode_as_sent(types: &TypeTable, object: &Value, raw_as_sent: bool) -> holdfast_store::Value {
    let mut bytes = Vec::with_capacity(2048);
    let room = schema::write_object_with_room(types, type_of_object(types, object), object, &mut bytes);
    if raw_as_sent {
        bytes.push(RAW_AS_SENT);
    }
    match room {
        Some(at) => holdfast_store::Value::object(bytes, at),
        None => holdfast_store::Value::plain(bytes),
    }
}

/// Whether the raw extensions of an object that is stored as `bytes` were sent with blanks.
pub fn is_raw_as_sent(bytes: &[u8]) -> bool {
    bytes.last() == Some(&RAW_AS_SENT)
}

/// An object as it is answered, its members in the order of [`encode`].
pub fn encode_answer(types: &TypeTable, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    schema::write_object(types, type_of_object(types, object), object, &mut bytes);
    bytes
}

fn type_of_object(types: &TypeTable, object: &Value) -> Option<TypeId> {
    let text = |name| object.str_at(&[name]).unwrap_or_default();
    protobuf::type_of(types, text("apiVersion"), text("kind"))
}

/// The bytes of an encoded object behind kind and version, without the opening brace: what an item of a list holds.
#[expect(clippy::indexing_slicing, reason = "an object begins with a brace")]
pub fn list_item<'a>(bytes: &'a [u8], kind: &str, api_version: &str) -> &'a [u8] {
    behind_identity(bytes, kind, api_version).unwrap_or(&bytes[1..])
}

/// Whether an encoded object is of that kind and version.
pub fn is_of_version(bytes: &[u8], kind: &str, api_version: &str) -> bool {
    metadata_start(bytes, kind, api_version).is_some()
}

fn behind_identity<'a>(bytes: &'a [u8], kind: &str, api_version: &str) -> Option<&'a [u8]> {
    behind(
        bytes,
        [r#"{"kind":""#, kind, r#"","apiVersion":""#, api_version, r#"","#],
    )
}

fn behind<'a, const N: usize>(bytes: &'a [u8], parts: [&str; N]) -> Option<&'a [u8]> {
    let mut parts = parts.iter();
    parts.try_fold(bytes, |rest, part| rest.strip_prefix(part.as_bytes()))
}

/// Where the metadata begin in the bytes of an object, if that is of that kind and version.
fn metadata_start(bytes: &[u8], kind: &str, api_version: &str) -> Option<usize> {
    const NAME: &str = r#""metadata":"#;
    let head = behind_identity(bytes, kind, api_version)
        // The order of names, which custom resources have.
        .or_else(|| {
            behind(
                bytes,
                [r#"{"apiVersion":""#, api_version, r#"","kind":""#, kind, r#"","#],
            )
        });
    if let Some(rest) = head.and_then(|rest| behind(rest, [NAME])) {
        return Some(bytes.len() - rest.len());
    }
    // Other names may come before these.
    let (mut fitting, mut metadata) = (0, None);
    map_end(bytes, |start, end| {
        let member = bytes.get(start..end).unwrap_or_default();
        for (name, text) in [(r#""kind":""#, kind), (r#""apiVersion":""#, api_version)] {
            if let Some(rest) = behind(member, [name]) {
                if behind(rest, [text, "\""]) != Some(b"") {
                    return ControlFlow::Break(());
                }
                fitting += 1;
            }
        }
        if member.starts_with(NAME.as_bytes()) {
            metadata = Some(start + NAME.len());
        }
        match metadata {
            Some(_) if fitting == 2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    metadata.filter(|_| fitting == 2)
}

/// Where the metadata of an encoded object stand, as JSON, if it is of that kind and version.
pub fn metadata_place(bytes: &[u8], kind: &str, api_version: &str) -> Option<Range<usize>> {
    let start = metadata_start(bytes, kind, api_version)?;
    if bytes.get(start) != Some(&b'{') {
        return None;
    }
    Some(start..json::end_of_value(bytes, start)?)
}

/// Metadata as JSON without their `managedFields`, in two pieces; `None` where they have none.
#[expect(clippy::indexing_slicing, reason = "the place of one of the members")]
pub fn without_managed_fields(metadata: &[u8]) -> Option<(&[u8], &[u8])> {
    const NAME: &[u8] = br#""managedFields":"#;
    let mut members = Vec::with_capacity(8);
    map_end(metadata, |start, end| {
        members.push((start, end));
        ControlFlow::Continue(())
    })?;
    let at = members.iter().position(|(start, end)| {
        metadata
            .get(*start..*end)
            .is_some_and(|member| member.starts_with(NAME))
    })?;
    let (start, end) = members[at];
    // The comma that parts it from its neighbour goes too.
    let (start, end) = match at {
        0 => (start, members.get(1).map_or(end, |(next, _)| *next)),
        _ => (start - 1, end),
    };
    Some((metadata.get(..start)?, metadata.get(end..)?))
}

/// Where the map ends that `text` begins with. `member` gets the range of each of its members, and may end the
/// search.
fn map_end(text: &[u8], mut member: impl FnMut(usize, usize) -> ControlFlow<()>) -> Option<usize> {
    let (mut depth, mut at, mut start) = (0usize, 0, 1);
    loop {
        match text.get(at)? {
            b'"' if depth > 0 => {
                at = json::end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return member(start, at).is_continue().then_some(at + 1);
                }
            }
            b',' if depth == 1 => {
                if member(start, at).is_break() {
                    return None;
                }
                start = at + 1;
            }
            // What is no map is no metadata.
            _ if depth == 0 => return None,
            _ => {}
        }
        at += 1;
    }
}

/// Writes a small map whose members stand in the order of `names`.
pub(crate) fn write_in_order(map: &Value, names: &[&str], bytes: &mut Vec<u8>) {
    bytes.push(b'{');
    for key in names {
        if let Some(value) = map.get(key) {
            write_member(key, value, bytes);
        }
    }
    for (key, value) in map.as_map().into_iter().flatten() {
        if !names.contains(&key.as_str()) {
            write_member(key, value, bytes);
        }
    }
    bytes.push(b'}');
}

fn write_member(key: &str, value: &Value, bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
    json::write_string(key, bytes);
    bytes.push(b':');
    json::write(value, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_cut_out_of_metadata_wherever_they_stand() {
        for (metadata, rest) in [
            (
                r#"{"name":"a","managedFields":[{"a":"]}\""}]}"#,
                Some(r#"{"name":"a"}"#),
            ),
            (r#"{"managedFields":[],"name":"a"}"#, Some(r#"{"name":"a"}"#)),
            (r#"{"managedFields":[{}]}"#, Some("{}")),
            (
                r#"{"a":1,"managedFields":[],"b":{"c":2}}"#,
                Some(r#"{"a":1,"b":{"c":2}}"#),
            ),
            (r#"{"labels":{"managedFields":"x"}}"#, None),
            ("{}", None),
            ("null", None),
        ] {
            let pieces = without_managed_fields(metadata.as_bytes());
            let found = pieces.map(|(head, tail)| String::from_utf8([head, tail].concat()).unwrap());
            assert_eq!(found.as_deref(), rest, "{metadata}");
        }
    }

    fn types() -> TypeTable {
        holdfast_kinds::tables::types().unwrap()
    }

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn the_place_of_the_resource_version_is_within_the_metadata() {
        let metadata = r#""metadata":{"labels":{},"name":"a"},"spec":{"metadata":{}}"#;
        for (identity, before, behind) in [
            (
                r#""apiVersion":"v1","kind":"Pod""#,
                r#""name":"a","resourceVersion":""#,
                r#"","labels":{}}"#,
            ),
            (
                r#""apiVersion":"a.io/v1","kind":"A""#,
                r#""name":"a","resourceVersion":""#,
                "\"}",
            ),
        ] {
            let value = encode(&types(), &object(&format!("{{{identity},{metadata}}}")));
            let text = String::from_utf8(value.bytes().to_vec()).unwrap();
            let (head, tail) = text.split_at(value.revision_at().unwrap() as usize);
            assert!(head.ends_with(before), "{head}");
            assert!(tail.starts_with(behind), "{tail}");
        }
    }

    #[test]
    fn built_in_objects_are_written_in_the_order_of_their_types() {
        let text = r#"{"apiVersion":"v1","data":{"b":"<","a":"&"},"immutable":true,"kind":"ConfigMap","metadata":{"annotations":{"a":"}\\\""},"managedFields":[{"fieldsV1":{"f:b":{},"f:a":{}},"manager":"m"}],"name":"a","resourceVersion":"4"},"zone":1}"#;
        let object = object(text);
        let bytes = encode_answer(&types(), &object);
        let expected = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"4","annotations":{"a":"}\\\""},"managedFields":[{"manager":"m","fieldsV1":{"f:a":{},"f:b":{}}}]},"immutable":true,"data":{"a":"\u0026","b":"\u003c"},"zone":1}"#;
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
        assert_eq!(json::parse(&bytes, &Limits::TRUSTED).unwrap(), object);
    }

    #[test]
    fn other_objects_are_written_by_names() {
        let text = r#"{"kind":"A","apiVersion":"a.io/v1","spec":{"z":1,"b":[{"y":1,"x":2}]},"metadata":{"name":"a","labels":{}}}"#;
        let expected = r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"labels":{},"name":"a"},"spec":{"b":[{"x":2,"y":1}],"z":1}}"#;
        assert_eq!(encode_answer(&types(), &object(text)), expected.as_bytes());
        let text = r#"{"kind":"A","apiVersion":"a.io/v1","data":{"metadata":{}},"metadata":{},"a":1,"later":2}"#;
        let expected = r#"{"a":1,"apiVersion":"a.io/v1","data":{"metadata":{}},"kind":"A","later":2,"metadata":{}}"#;
        assert_eq!(encode_answer(&types(), &object(text)), expected.as_bytes());
    }

    #[test]
    fn metadata_are_cut_out_of_the_bytes_wherever_they_stand() {
        let metadata = r#"{"annotations":{"a":"}\\\"]"},"finalizers":["x"]}"#;
        for (kind, version, more) in [
            ("Pod", "v1", r#""spec":{}"#),
            ("A", "a.io/v1", r#""spec":{}"#),
            (
                "A",
                "a.io/v1",
                r#""a":{"kind":"B","metadata":{}},"kind2":"A","data":"metadata""#,
            ),
        ] {
            let text = format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{metadata},{more}}}"#);
            let bytes = encode_answer(&types(), &object(&text));
            let place = metadata_place(&bytes, kind, version).unwrap();
            assert_eq!(std::str::from_utf8(&bytes[place]).unwrap(), metadata);
            for (kind, version) in [("Po", version), (kind, "v2"), ("Pods", version)] {
                assert_eq!(metadata_place(&bytes, kind, version), None);
                assert!(!is_of_version(&bytes, kind, version));
            }
        }
        for odd in [
            &b"{\"metadata\":1}"[..],
            b"{\"metadata\":{\"",
            b"{\"metadata\":}",
            b"{}",
            b"",
            b"{\"metadata\":{\"a\\",
            b"{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":1}",
        ] {
            assert_eq!(metadata_place(odd, "A", "v1"), None);
        }
    }

    #[test]
    fn an_item_of_a_list_is_the_object_without_kind_and_version() {
        let text = r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{}}"#;
        let bytes = encode(&types(), &object(text)).bytes().clone();
        assert!(bytes.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata""#));
        let item = list_item(&bytes, "ConfigMap", "v1");
        assert_eq!(item, br#""metadata":{"resourceVersion":""},"data":{"a":"1"}}"#);
    }

    #[test]
    fn names_are_read_from_keys() {
        assert_eq!(name_of_key(b"/registry/pods/default/web"), "web");
        assert_eq!(name_of_key(b"/registry/namespaces/default"), "default");
    }
}
