//! Objects in protobuf: responses that are encoded from the JSON of stored objects.

use holdfast_proto::{Messages, TAIL, write_bytes, write_envelope, write_list};
use holdfast_resource::schema::{OWNED_FIELDS, TypeId, TypeTable};
use holdfast_value::{Limits, Value, json};

use crate::http::ApiError;

/// Encodes the object with the JSON `text`, in its envelope.
///
/// # Errors
/// If objects of its kind have no protobuf form (406), or the object does not fit its type (500).
pub(crate) fn from_json(messages: &Messages, text: &[u8]) -> Result<Vec<u8>, ApiError> {
    let object = json::parse_deferring(text, &Limits::TRUSTED, OWNED_FIELDS);
    of_object(
        messages,
        &object.map_err(|error| ApiError::internal(error.to_string()))?,
    )
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
    let of = type_of(messages.types(), api_version, kind).ok_or_else(|| {
        ApiError::not_acceptable(format!(
            "object {kind} in {api_version} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
        ))
    })?;
    encode(messages, of, object)
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
    let metadata = json::parse(metadata.as_bytes(), &Limits::TRUSTED);
    let metadata = metadata.map_err(|error| ApiError::internal(error.to_string()))?;
    let metadata = encode(messages, list_meta(messages)?, &metadata)?;
    let mut out = Vec::new();
    write_list(api_version, kind, &metadata, items.iter().map(Vec::as_slice), &mut out);
    Ok(out)
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
        Messages::new(Arc::new(holdfast_kinds::tables::types().unwrap()))
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
    fn a_kind_without_a_type_has_no_protobuf() {
        let error = from_json(&messages(), br#"{"apiVersion":"example.com/v1","kind":"Bowl"}"#).unwrap_err();
        assert_eq!(error.code(), http::StatusCode::NOT_ACCEPTABLE);
    }
}
