use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_proto::{Envelope, MAGIC, Messages, write_envelope};
use holdfast_resource::{Encoding, Registry, Resource, Storage};
use holdfast_schema::types::{self, TypeId, TypeTable};
use holdfast_store::{Codec, CodecError, ENCRYPTED_WITHOUT_PROVIDER, TimeToLive, Value as Served, is_encrypted};
use holdfast_value::{Growth, Limits, SmolStr, Value, json};

use crate::AtRestError;
use crate::custom::{self, write_served};

/// Kind in a version that is not served, whose objects have the type of a served one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderKind<'a> {
    /// Version that is not served.
    pub api_version: &'a str,
    /// Name of the kind.
    pub kind: &'a str,
    /// Version whose type the objects have.
    pub like: &'a str,
}

/// Codec between served objects and kube-apiserver's stored form, selected by key.
pub struct StorageCodec {
    /// Built-in resources. Custom resources are stored as JSON, whatever their CRD declares.
    registry: Registry,
    messages: Messages,
    older: HashMap<(SmolStr, SmolStr), TypeId>,
    /// Encoding for kinds that have a protobuf form.
    encoding: Encoding,
}

impl StorageCodec {
    /// Creates the codec of the built-in resources of `registry`. `types` contains their types, and those types of
    /// older versions that differ; `older` are the kinds of older versions with an unchanged type.
    pub fn new<'a>(registry: Registry, types: Arc<TypeTable>, older: impl IntoIterator<Item = OlderKind<'a>>) -> Self {
        let type_of = |older: OlderKind<'a>| {
            let type_id = types.id_of_object(older.like, older.kind)?;
            Some(((SmolStr::new(older.api_version), SmolStr::new(older.kind)), type_id))
        };
        Self {
            registry,
            older: older.into_iter().filter_map(type_of).collect(),
            messages: Messages::new(types),
            encoding: Encoding::Protobuf,
        }
    }

    /// Writes objects as JSON even if they have a protobuf form. Both forms can be read.
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Returns the stored form of a served object that replaces `old`, if there is one.
    ///
    /// # Errors
    /// Fails if the object does not have the kind that its key requires.
    pub fn to_rest(&self, key: &[u8], served: &Served, old: Option<&[u8]>) -> Result<Vec<u8>, AtRestError> {
        let Some((resource, storage)) = self.stored_around(key) else {
            return match is_of_group(key) {
                true => Ok(custom::encode(served)),
                false => self.unlisted_to_rest(served),
            };
        };
        let mut object = json::parse(served.bytes(), &Limits::TRUSTED)?;
        if let Some(raw) = &resource.capabilities.raw {
            raw.keep_stored_texts(&mut object, served.bytes());
        }
        if let Some(hidden) = &resource.capabilities.at_rest.hidden {
            hidden.restore(&mut object, served.bytes());
        }
        forget_revision(&mut object);
        let tree = |old: &[u8]| json::parse(old, &Limits::TRUSTED).unwrap_or_default();
        object = match old {
            Some(old) => resource.to_rest(object, Some(&|| tree(old))),
            None => resource.to_rest(object, None),
        };
        let api_version = &storage.at_rest.api_version;
        let encoding = match storage.at_rest.encoding {
            Encoding::Protobuf => self.encoding,
            Encoding::Json => Encoding::Json,
        };
        self.write(encoding, api_version, &resource.kind, &object)
    }

    /// Returns the stored form of an object without a resource, such as a range of allocated addresses.
    fn unlisted_to_rest(&self, served: &Served) -> Result<Vec<u8>, AtRestError> {
        let Ok(mut object) = json::parse(served.bytes(), &Limits::TRUSTED) else {
            return Ok(served.bytes().to_vec());
        };
        forget_revision(&mut object);
        let (api_version, kind) = identity(&object)?;
        self.write(self.encoding, &api_version, &kind, &object)
    }

    fn write(&self, encoding: Encoding, api_version: &str, kind: &str, object: &Value) -> Result<Vec<u8>, AtRestError> {
        let type_id = self.type_of(api_version, kind)?;
        let mut bytes = Vec::new();
        match encoding {
            Encoding::Protobuf => {
                let mut message = Vec::new();
                self.messages.encode(type_id, object, &mut message)?;
                write_envelope(api_version, kind, &message, &mut bytes);
            }
            Encoding::Json => {
                types::write_object(self.messages.types(), Some(type_id), object, &mut bytes);
                bytes.push(b'\n');
            }
        }
        Ok(bytes)
    }

    /// Returns the served form of a stored object.
    ///
    /// # Errors
    /// Fails if no server can have written these bytes at this key.
    pub fn from_rest(&self, key: &[u8], stored_bytes: &[u8]) -> Result<Served, AtRestError> {
        let types = self.messages.types();
        let Some((resource, storage)) = self.stored_around(key) else {
            return match is_of_group(key) {
                true => custom::decode(types, stored_bytes),
                false => self.unlisted_from_rest(stored_bytes),
            };
        };
        let object = self.read(stored_bytes)?;
        let (_, kind) = identity(&object)?;
        if kind != resource.kind {
            let expected = resource.kind.clone();
            return Err(AtRestError::OtherKind { found: kind, expected });
        }
        let stored = object.clone();
        let mut object = resource.from_rest(object);
        let type_id = self.type_of(&storage.api_version, &kind)?;
        if let Some(filled) = types::with_defaults(types, type_id, &object, &mut Growth::new(usize::MAX))? {
            object = filled;
        }
        let version = storage.api_version.rsplit('/').next().unwrap_or_default();
        resource.strategy.default_fields(version, &mut object);
        let hidden = resource.capabilities.at_rest.hidden;
        let mut suffix: Vec<u8> = hidden
            .and_then(|hidden| hidden.suffix(&stored, &object))
            .into_iter()
            .collect();
        if let Some(raw) = resource.capabilities.raw {
            suffix = raw.suffix(&object, raw.form_of(&object));
        }
        Ok(write_served(
            types,
            Some(type_id),
            &object,
            stored_bytes.len() * 2,
            &suffix,
        ))
    }

    /// Decodes an object without a resource if its type is known; otherwise returns it unchanged.
    fn unlisted_from_rest(&self, stored_bytes: &[u8]) -> Result<Served, AtRestError> {
        match self.read(stored_bytes) {
            Ok(object) => {
                let (api_version, kind) = identity(&object)?;
                let type_id = self.type_of(&api_version, &kind)?;
                Ok(write_served(
                    self.messages.types(),
                    Some(type_id),
                    &object,
                    stored_bytes.len() * 2,
                    &[],
                ))
            }
            Err(_) => Ok(Served::plain(stored_bytes.to_vec())),
        }
    }

    /// Reads an object in its stored version.
    fn read(&self, stored_bytes: &[u8]) -> Result<Value, AtRestError> {
        if stored_bytes.starts_with(&MAGIC) {
            let envelope = Envelope::read(stored_bytes)?;
            let type_id = self.type_of(&envelope.api_version, &envelope.kind)?;
            let mut object = self.messages.decode(type_id, envelope.message, &Limits::TRUSTED)?;
            object.set_at(&["apiVersion"], Value::from(&*envelope.api_version));
            object.set_at(&["kind"], Value::from(&*envelope.kind));
            return Ok(object);
        }
        let object = custom::tree(stored_bytes)?;
        let (api_version, kind) = identity(&object)?;
        let type_id = self.type_of(&api_version, &kind)?;
        Ok(types::decode(self.messages.types(), type_id, &object)?.value)
    }

    fn type_of(&self, api_version: &str, kind: &str) -> Result<TypeId, AtRestError> {
        let known = self.messages.types().id_of_object(api_version, kind);
        let older = || {
            self.older
                .get(&(SmolStr::new(api_version), SmolStr::new(kind)))
                .copied()
        };
        known.or_else(older).ok_or_else(|| AtRestError::UnknownKind {
            api_version: SmolStr::new(api_version),
            kind: SmolStr::new(kind),
        })
    }

    fn stored_around(&self, key: &[u8]) -> Option<(&Arc<Resource>, &Storage)> {
        // If resources share objects, the first one belongs to the group that stores them.
        let resource = self.registry.stored_around(key).first()?;
        Some((resource, resource.storage.as_ref()?))
    }
}

impl Codec for StorageCodec {
    fn encode(&self, key: &[u8], value: &Served, old: Option<&Bytes>) -> Result<Bytes, CodecError> {
        let stored_bytes = self.to_rest(key, value, old.map(|old| &old[..]));
        stored_bytes
            .map(Bytes::from)
            .map_err(|error| CodecError::new(key, error))
    }

    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Served, CodecError> {
        if is_encrypted(stored) {
            return Err(CodecError::untransformable(key, ENCRYPTED_WITHOUT_PROVIDER));
        }
        self.from_rest(key, stored).map_err(|error| CodecError::new(key, error))
    }

    fn time_to_live(&self, key: &[u8]) -> TimeToLive {
        if key.starts_with(EVENTS) {
            return TimeToLive::Event;
        }
        match SERVERS.iter().any(|prefix| key.starts_with(prefix)) {
            true => TimeToLive::Seconds(SERVER_SECONDS),
            false => TimeToLive::Unlimited,
        }
    }
}

/// Prefix of events, which the reference stores only for a limited time.
const EVENTS: &[u8] = b"/registry/events/";
/// Prefixes of the leases by which servers announce themselves for a limited time.
const SERVERS: [&[u8]; 2] = [b"/registry/masterleases/", b"/registry/peerserverleases/"];
const SERVER_SECONDS: u16 = 15;

/// True if `key` is `/registry/GROUP/…`, where custom objects are stored.
fn is_of_group(key: &[u8]) -> bool {
    let mut segments = key.split(|byte| *byte == b'/');
    segments.nth(2).is_some_and(|segment| segment.contains(&b'.'))
}

fn identity(object: &Value) -> Result<(SmolStr, SmolStr), AtRestError> {
    let text = |name, said| match object.str_at(&[name]) {
        Some(text) if !text.is_empty() => Ok(SmolStr::new(text)),
        _ => Err(AtRestError::Unidentified(said)),
    };
    let kind = text("kind", "Kind")?;
    Ok((text("apiVersion", "apiVersion")?, kind))
}

/// Removes the fields that are not stored.
fn forget_revision(object: &mut Value) {
    for name in ["resourceVersion", "selfLink"] {
        object.remove_at(&["metadata", name]);
    }
}
