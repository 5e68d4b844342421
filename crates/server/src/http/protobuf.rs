//! Objects in protobuf: responses that are encoded from the JSON of stored objects.

use holdfast_proto::{
    Messages, TAIL, field_length, write_bytes, write_envelope, write_envelope_head, write_field_head, write_list,
};
use holdfast_schema::types::{OWNED_FIELDS, TypeId, TypeTable};
use holdfast_value::{Limits, Value, json};
use smol_str::SmolStr;

use crate::http::ApiError;

/// Encodes the object with the JSON `text`, in its envelope.
///
/// # Errors
/// If objects of its kind have no protobuf form (406), or the object does not fit its type (500).
pub(crate) fn from_json(messages: &Messages, text: &[u8]) -> Result<Vec<u8>, ApiError> {
    if let Some(encoded) = from_record(messages, text) {
        return Ok(encoded);
    }
    let object = json::parse_deferring(text, &Limits::TRUSTED, OWNED_FIELDS);
    of_object(
        messages,
        &object.map_err(|error| ApiError::internal(error.to_string()))?,
    )
}

/// Encodes the object with the JSON `text` by way of its record, if it has one and begins with its kind and version, as
/// stored objects of built-in kinds do.
pub(crate) fn from_record(messages: &Messages, text: &[u8]) -> Option<Vec<u8>> {
    let (kind, rest) = text_behind(text, br#"{"kind":""#)?;
    let (api_version, _) = text_behind(rest, br#","apiVersion":""#)?;
    let object_type = match (api_version, kind) {
        // Its items precede its metadata, against the order of the type.
        ("meta.k8s.io/v1beta1", "PartialObjectMetadataList") => return None,
        _ => type_of(messages.types(), api_version, kind)?,
    };
    messages.envelope_of_text(object_type, api_version, kind, text)
}

/// Returns the text between `head` and the next quote, and the bytes behind the quote.
fn text_behind<'t>(bytes: &'t [u8], head: &[u8]) -> Option<(&'t str, &'t [u8])> {
    let rest = bytes.strip_prefix(head)?;
    let (text, rest) = rest.split_at_checked(json::plain_run(rest))?;
    Some((std::str::from_utf8(text).ok()?, rest.strip_prefix(b"\"")?))
}

/// Encodes an object in its envelope.
///
/// # Errors
/// If the object cannot be encoded, as for [`from_json`].
pub(crate) fn of_object(messages: &Messages, object: &Value) -> Result<Vec<u8>, ApiError> {
    let (stated_version, kind) = (text_at(object, "apiVersion"), text_at(object, "kind"));
    // Some discovery documents omit their version, as the reference's do.
    let api_version = if stated_version.is_empty() {
        "v1"
    } else {
        stated_version
    };
    let message = match (api_version, kind) {
        ("meta.k8s.io/v1beta1", "PartialObjectMetadataList") => metadata_list_v1beta1(messages, object)?,
        _ => message(messages, api_version, kind, object)?,
    };
    let mut out = Vec::with_capacity(message.len() + TAIL.len() + 64);
    write_envelope(stated_version, kind, &message, &mut out);
    Ok(out)
}

/// Returns the message of a list of metadata in the version v1beta1, where the field numbers of the items and the list
/// metadata are swapped.
fn metadata_list_v1beta1(messages: &Messages, list: &Value) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    for item in list
        .get("items")
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|items| items.iter())
    {
        let item = message(messages, "meta.k8s.io/v1", "PartialObjectMetadata", item)?;
        write_bytes(1, &item, &mut out);
    }
    let metadata = list.get("metadata").cloned().unwrap_or_else(Value::empty_map);
    write_bytes(2, &encode(messages, list_meta(messages)?, &metadata)?, &mut out);
    Ok(out)
}

/// Returns the message of an object of that version and kind.
///
/// # Errors
/// If the object cannot be encoded, as for [`from_json`].
pub(crate) fn message(messages: &Messages, api_version: &str, kind: &str, object: &Value) -> Result<Vec<u8>, ApiError> {
    encode(messages, type_with_message(messages, api_version, kind)?, object)
}

/// Returns the message of an object of that version and kind with the JSON `text`, if it has a record.
pub(crate) fn message_of_text(messages: &Messages, api_version: &str, kind: &str, text: &[u8]) -> Option<Vec<u8>> {
    let object_type = type_of(messages.types(), api_version, kind)?;
    let mut out = Vec::new();
    messages.encode_text(object_type, text, &mut out)?;
    Some(out)
}

/// Returns the type of the objects of a kind that has a protobuf form.
///
/// # Errors
/// 406 for other kinds.
pub(crate) fn type_with_message(messages: &Messages, api_version: &str, kind: &str) -> Result<TypeId, ApiError> {
    type_of(messages.types(), api_version, kind).ok_or_else(|| {
        ApiError::not_acceptable(format!(
            "object {kind} in {api_version} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
        ))
    })
}

/// Returns the type of the objects of a built-in kind.
pub(crate) fn type_of(types: &TypeTable, api_version: &str, kind: &str) -> Option<TypeId> {
    // The metadata of an object have the same type in both versions.
    let api_version = match (api_version, kind) {
        ("meta.k8s.io/v1beta1", "PartialObjectMetadata") => "meta.k8s.io/v1",
        _ => api_version,
    };
    types.id_of_object(api_version, kind)
}

/// Returns a list of that version and kind; `metadata` is the JSON of its `ListMeta`, `items` are the messages of its
/// items.
///
/// # Errors
/// If the metadata do not fit their type (500).
pub(crate) fn list(
    messages: &Messages,
    api_version: &str,
    kind: &str,
    metadata: &str,
    items: &[Vec<u8>],
) -> Result<Vec<u8>, ApiError> {
    let parsed = json::parse(metadata.as_bytes(), &Limits::TRUSTED);
    let fields = parsed.map_err(|error| ApiError::internal(error.to_string()))?;
    let metadata = encode(messages, list_meta(messages)?, &fields)?;
    let mut out = Vec::new();
    write_list(api_version, kind, &metadata, items.iter().map(Vec::as_slice), &mut out);
    Ok(out)
}

/// Bytes around the items of a list, so that items can be written one at a time. The total size of the items must be known
/// before the first is written, because the length of the list precedes them.
pub(crate) struct ListFrame {
    api_version: SmolStr,
    kind: SmolStr,
    /// Message of the `ListMeta`.
    metadata: Vec<u8>,
    /// Number of the field that holds the items.
    items_field: u32,
    /// Number of the field that holds the metadata. Fields are written in the order of their numbers.
    metadata_field: u32,
}

impl ListFrame {
    /// Creates the frame of a list of that version and kind (`v1`, `PodList`); `metadata` is the JSON of its `ListMeta`.
    ///
    /// # Errors
    /// 500 if the metadata do not fit their type.
    pub(crate) fn new(messages: &Messages, api_version: &str, kind: &str, metadata: &str) -> Result<Self, ApiError> {
        let metadata = json::parse(metadata.as_bytes(), &Limits::TRUSTED)
            .map_err(|error| ApiError::internal(error.to_string()))?;
        // In this version of the list the two field numbers are swapped.
        let is_swapped = (api_version, kind) == ("meta.k8s.io/v1beta1", "PartialObjectMetadataList");
        let (metadata_field, items_field) = if is_swapped { (2, 1) } else { (1, 2) };
        Ok(Self {
            api_version: api_version.into(),
            kind: kind.into(),
            metadata: encode(messages, list_meta(messages)?, &metadata)?,
            items_field,
            metadata_field,
        })
    }

    /// Returns the size of an item whose message has `length` bytes.
    pub(crate) fn item_size(length: usize) -> usize {
        field_length(length)
    }

    /// Writes all that precedes the first item; `items` is the total size of the items.
    pub(crate) fn write_head(&self, items: usize, out: &mut Vec<u8>) {
        let message = field_length(self.metadata.len()) + items;
        write_envelope_head(&self.api_version, &self.kind, message, out);
        if self.metadata_field < self.items_field {
            write_bytes(self.metadata_field, &self.metadata, out);
        }
    }

    /// Writes an item.
    pub(crate) fn write_item(&self, message: &[u8], out: &mut Vec<u8>) {
        write_field_head(self.items_field, message.len(), out);
        out.extend_from_slice(message);
    }

    /// Writes all that follows the last item.
    pub(crate) fn write_tail(&self, out: &mut Vec<u8>) {
        if self.metadata_field > self.items_field {
            write_bytes(self.metadata_field, &self.metadata, out);
        }
        out.extend_from_slice(&TAIL);
    }
}

fn list_meta(messages: &Messages) -> Result<TypeId, ApiError> {
    let list_meta = messages.types().id(LIST_META);
    list_meta.ok_or_else(|| ApiError::internal("ListMeta has no type"))
}

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

fn encode(messages: &Messages, of: TypeId, value: &Value) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    let outcome = messages.encode(of, value, &mut out);
    outcome.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(out)
}

fn text_at<'v>(object: &'v Value, name: &str) -> &'v str {
    object.str_at(&[name]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_proto::Envelope;

    use super::*;

    fn messages() -> Messages {
        Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()))
    }

    #[test]
    fn lists_of_metadata_have_other_numbers_in_the_older_version() {
        let messages = messages();
        let list = |version: &str| {
            let text = format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/{version}","metadata":{{"resourceVersion":"7"}},"items":[{{"metadata":{{"name":"a"}}}}]}}"#
            );
            let bytes = from_json(&messages, text.as_bytes()).unwrap();
            Envelope::read(&bytes).unwrap().message.to_vec()
        };
        let (newer, older) = (list("v1"), list("v1beta1"));
        let metadata = b"\x0a\x00\x12\x017\x1a\x00";
        assert!(
            newer.starts_with(&[&[0x0a, metadata.len() as u8], &metadata[..]].concat()),
            "{newer:?}"
        );
        assert!(
            older.ends_with(&[&[0x12, metadata.len() as u8], &metadata[..]].concat()),
            "{older:?}"
        );
        assert_eq!((newer.len(), older[0]), (older.len(), 0x0a));
    }

    #[test]
    fn list_frame_with_items_equals_whole_list() {
        let messages = messages();
        for version in ["v1", "v1beta1"] {
            let api_version = format!("meta.k8s.io/{version}");
            let text = format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"{api_version}","metadata":{{"resourceVersion":"7"}},"items":[{{"metadata":{{"name":"a"}}}},{{"metadata":{{"name":"b"}}}}]}}"#
            );
            let frame = ListFrame::new(
                &messages,
                &api_version,
                "PartialObjectMetadataList",
                r#"{"resourceVersion":"7"}"#,
            )
            .unwrap();
            let items = ["a", "b"].map(|name| {
                let item = json::parse(
                    format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).as_bytes(),
                    &Limits::TRUSTED,
                );
                message(&messages, &api_version, "PartialObjectMetadata", &item.unwrap()).unwrap()
            });
            let mut out = Vec::new();
            frame.write_head(
                items.iter().map(|item| ListFrame::item_size(item.len())).sum(),
                &mut out,
            );
            items.iter().for_each(|item| frame.write_item(item, &mut out));
            frame.write_tail(&mut out);
            assert_eq!(out, from_json(&messages, text.as_bytes()).unwrap(), "{version}");
        }
    }

    #[test]
    fn encoding_by_record_equals_encoding_by_tree() {
        let messages = messages();
        for (text, has_record) in [
            (
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"\n"}}"#,
                true,
            ),
            (
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":404}"#,
                true,
            ),
            (
                r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"name":"a"}}"#,
                true,
            ),
            (
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"unknown":1}"#,
                false,
            ),
            (r#"{"apiVersion":"v1","kind":"ConfigMap"}"#, false),
            (r#"{"kind":"Bowl","apiVersion":"example.com/v1"}"#, false),
            (
                r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1beta1","items":[]}"#,
                false,
            ),
        ] {
            let by_record = from_record(&messages, text.as_bytes());
            assert_eq!(by_record.is_some(), has_record, "{text}");
            let tree = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
            if let Some(bytes) = by_record {
                assert_eq!(bytes, of_object(&messages, &tree).unwrap(), "{text}");
            }
        }
    }

    #[test]
    fn a_kind_without_a_type_has_no_protobuf() {
        let error = from_json(&messages(), br#"{"apiVersion":"example.com/v1","kind":"Bowl"}"#).unwrap_err();
        assert_eq!(error.code(), http::StatusCode::NOT_ACCEPTABLE);
    }
}
