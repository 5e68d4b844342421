//! The request and response objects in the audit log, as JSON on one line.

use bytes::Bytes;
use holdfast_audit::{Level, ObjectNames, Recorder, ResponseStatus};
use holdfast_proto::Envelope;
use holdfast_resource::AuditAnnotations as _;
use holdfast_schema::{KindType, types};
use holdfast_value::{Limits, Value, cbor, json, yaml};
use http::header;

use crate::api::context::Context;
use crate::http::negotiation::{self, Format};
use crate::http::protobuf;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::http::status::Details;
use crate::objects;
use crate::representation;
use crate::wire::body::BodyObserver;

/// The type of the details of a `Status`.
const DETAILS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";

/// The maximum number of bytes of an answer that is collected while it is sent.
const MAX_GATHERED_BYTES: usize = 64 << 20;

/// Notes the object of a request, with its defaults.
pub(super) fn sent(context: &Context, request: &ResourceRequest, kind_type: &dyn KindType, object: &Value) {
    let Some(audit) = &request.audit else { return };
    audit.request_object(ObjectNames::from_object(object), || {
        let filled = kind_type.fill_in(object.clone()).unwrap_or_else(|_| object.clone());
        let kept = kept(audit, filled);
        objects::encode_answer(context.write.types(), &kept).into()
    });
}

/// Notes the patch of a request unchanged. A YAML patch is converted to JSON, and any other content to a string.
pub(super) fn patched(request: &ResourceRequest, body: &Bytes) {
    let Some(audit) = &request.audit else { return };
    audit.request_patch(|| {
        if json::parse(body, &Limits::REQUEST).is_ok() {
            return json::html_safe(compact(body)).into();
        }
        let parsed = yaml::parse(body, &Limits::REQUEST).ok();
        let read = parsed.filter(|patch| patch.as_map().is_some() || patch.as_list().is_some());
        let patch = read.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned().into());
        json::to_vec(&patch).into()
    });
}

/// Notes the options in the body of a deletion. The reference logs them in the internal version.
pub(super) fn delete_options(context: &Context, request: &ResourceRequest, options: &Value) {
    let Some(audit) = &request.audit else { return };
    audit.request_object(ObjectNames::default(), || {
        let mut options = options.clone();
        options.set_at(&["kind"], "DeleteOptions".into());
        options.set_at(&["apiVersion"], "v1".into());
        let encoded = objects::encode_answer(context.write.types(), &options);
        let text = String::from_utf8_lossy(&encoded);
        text.replacen("\"apiVersion\":\"v1\"", "\"apiVersion\":\"meta.k8s.io/__internal\"", 1)
            .into_bytes()
            .into()
    });
}

/// Notes that a request uses a deprecated version, and the release that removes the version.
pub(super) fn deprecated(request: &ResourceRequest) {
    let Some(audit) = &request.audit else { return };
    audit.annotate("k8s.io/deprecated", "true".to_owned());
    let release = &request.version().removed_release;
    if !release.is_empty() {
        audit.annotate("k8s.io/removed-release", release.to_string());
    }
}

/// Notes the object of an answer, if the log records answers.
pub(crate) fn capture(audit: &Recorder, context: &representation::Context, response: &mut Response) {
    if audit.decision().level < Level::RequestResponse {
        return;
    }
    let Some(format) = logged_format(response) else { return };
    match response.body().whole() {
        Some(bytes) => {
            if let Some(object) = logged_object(format, audit, context, &bytes) {
                audit.response_object(object);
            }
        }
        // Lists are recorded as they are sent.
        None if format == Format::Json => response.body_mut().observe(Gathering {
            audit: audit.clone(),
            types: std::sync::Arc::clone(&context.types),
            gathered: Vec::new(),
            too_large: false,
        }),
        None => {}
    }
}

/// Returns the response status of an audit event: the code, and the other fields if the answer is a `Status`.
pub(crate) fn status(context: &representation::Context, response: &Response) -> ResponseStatus {
    let code = response.status().as_u16();
    let bare = ResponseStatus {
        code,
        ..ResponseStatus::default()
    };
    let status = logged_format(response).and_then(|format| logged_status(format, context, &response.body().whole()?));
    let Some(status) = status else { return bare };
    let text = |name| status.str_at(&[name]).unwrap_or_default();
    let details = status.get("details").map(|details| {
        // Values of objects are not part of the log at the levels that contain only the status.
        let mut plain = details.clone();
        for field in Details::OWN_FIELDS {
            plain.remove_at(&[field]);
        }
        let mut out = Vec::new();
        types::write_object(&context.types, context.types.id(DETAILS), &plain, &mut out);
        out.into()
    });
    ResponseStatus {
        status: text("status").into(),
        message: text("message").to_owned(),
        reason: text("reason").into(),
        details,
        ..bare
    }
}

/// Returns the object of an answer; `None` if it contains none, or is streamed or compressed.
pub(crate) fn answered_object(context: &representation::Context, response: &Response) -> Option<Value> {
    let format = logged_format(response)?;
    tree_of(format, context, &response.body().whole()?)
}

/// Returns the format of the object in an answer; `None` if it contains none.
fn logged_format(response: &Response) -> Option<Format> {
    let headers = response.headers();
    if headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    let found = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let mut formats = negotiation::formats(true).iter().copied();
    formats.find(|format| found.starts_with(format.media_type().as_bytes()))
}

/// Returns the `Status` that `bytes` encode, if they do.
fn logged_status(format: Format, context: &representation::Context, bytes: &[u8]) -> Option<Value> {
    let parsed = match format {
        Format::Json if begins_as_status(bytes) => json::parse(bytes, &Limits::TRUSTED).ok(),
        Format::Yaml if bytes.len() < MAX_STATUS_BYTES => yaml::parse(bytes, &Limits::TRUSTED).ok(),
        Format::Cbor if bytes.len() < MAX_STATUS_BYTES => cbor::parse(bytes, &Limits::TRUSTED).ok(),
        Format::Protobuf if Envelope::read(bytes).is_ok_and(|envelope| envelope.kind == "Status") => {
            decoded(context, bytes)
        }
        _ => None,
    };
    parsed.filter(|status| status.str_at(&["kind"]) == Some("Status"))
}

/// Returns the object that `bytes` encode, in the form of the log.
fn logged_object(format: Format, audit: &Recorder, context: &representation::Context, bytes: &Bytes) -> Option<Bytes> {
    if format == Format::Json {
        return logged_json(audit, &context.types, bytes);
    }
    let tree = tree_of(format, context, bytes)?;
    tree.str_at(&["kind"])?;
    Some(objects::encode_answer(&context.types, &kept(audit, tree)).into())
}

/// Returns the tree that `bytes` encode.
fn tree_of(format: Format, context: &representation::Context, bytes: &[u8]) -> Option<Value> {
    match format {
        Format::Json => json::parse(bytes, &Limits::TRUSTED).ok(),
        Format::Yaml => yaml::parse(bytes, &Limits::TRUSTED).ok(),
        Format::Protobuf => decoded(context, bytes),
        Format::Cbor => cbor::parse(bytes, &Limits::TRUSTED).ok(),
    }
}

/// The maximum size of a `Status` in YAML and CBOR, in bytes. Its first bytes do not distinguish it from other objects.
const MAX_STATUS_BYTES: usize = 64 << 10;

/// Returns true if JSON begins like a `Status` of this server, indented or not.
fn begins_as_status(bytes: &[u8]) -> bool {
    let mut rest = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    b"{\"kind\":\"Status\"".iter().all(|byte| rest.next() == Some(byte))
}

fn decoded(context: &representation::Context, bytes: &[u8]) -> Option<Value> {
    let envelope = Envelope::read(bytes).ok()?;
    // Some documents of discovery omit their version.
    let version = Some(&*envelope.api_version).filter(|version| !version.is_empty());
    let message_type = protobuf::type_of(&context.types, version.unwrap_or("v1"), &envelope.kind)?;
    let mut tree = context
        .messages
        .decode(message_type, envelope.message, &Limits::TRUSTED)
        .ok()?;
    tree.set_at(&["kind"], envelope.kind.as_ref().into());
    if let Some(version) = version {
        tree.set_at(&["apiVersion"], version.into());
    }
    Some(tree)
}

/// Returns JSON in the form of the log; `None` if it is not an API object.
fn logged_json(audit: &Recorder, types: &types::TypeTable, bytes: &Bytes) -> Option<Bytes> {
    let trimmed = bytes.trim_ascii();
    let omits = audit.decision().omit_managed_fields && memchr_managed(trimmed);
    if omits || !trimmed.starts_with(b"{\"kind\":") {
        let tree = json::parse(bytes, &Limits::TRUSTED).ok()?;
        tree.str_at(&["kind"])?;
        if omits {
            return Some(objects::encode_answer(types, &kept(audit, tree)).into());
        }
    }
    Some(if trimmed.contains(&b'\n') {
        compact(trimmed).into()
    } else {
        bytes.slice_ref(trimmed)
    })
}

/// Returns true if the JSON may contain managed fields.
fn memchr_managed(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"\"managedFields\"";
    bytes.windows(NAME.len()).any(|window| window == NAME)
}

/// Returns an object, a list or a table in the form of the log.
fn kept(audit: &Recorder, mut tree: Value) -> Value {
    if !audit.decision().omit_managed_fields {
        return tree;
    }
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    tree.remove_at(&PATH);
    for (list, member) in [("items", None), ("rows", Some("object"))] {
        let Some(items) = tree.get(list).and_then(Value::as_list) else {
            continue;
        };
        let logged_items = items.iter().map(|item| {
            let mut item = item.clone();
            match member {
                None => drop(item.remove_at(&PATH)),
                Some(member) => drop(item.remove_at(&[member, "metadata", "managedFields"])),
            }
            item
        });
        let items: Vec<Value> = logged_items.collect();
        tree.set_at(&[list], items.into());
    }
    tree
}

/// Returns JSON without the whitespace between its tokens.
fn compact(json: &[u8]) -> Vec<u8> {
    let (mut out, mut in_text, mut escaped) = (Vec::with_capacity(json.len()), false, false);
    for byte in json {
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_text = *byte == b'"';
        }
        out.push(*byte);
    }
    out
}

/// An observer that collects an answer while it is sent.
struct Gathering {
    audit: Recorder,
    types: std::sync::Arc<types::TypeTable>,
    gathered: Vec<u8>,
    too_large: bool,
}

impl BodyObserver for Gathering {
    fn piece(&mut self, piece: &Bytes) {
        if self.gathered.len() + piece.len() > MAX_GATHERED_BYTES {
            (self.gathered, self.too_large) = (Vec::new(), true);
        }
        if !self.too_large {
            self.gathered.extend_from_slice(piece);
        }
    }

    fn end(&mut self) {
        if self.too_large {
            return self.audit.annotate(TRUNCATED, "true".to_owned());
        }
        let gathered = Bytes::from(std::mem::take(&mut self.gathered));
        if let Some(object) = logged_json(&self.audit, &self.types, &gathered) {
            self.audit.response_object(object);
        }
    }
}

/// The annotation of an event from which an object was omitted because it was too large.
const TRUNCATED: &str = "audit.k8s.io/truncated";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_goes_from_between_tokens_alone() {
        let text = b"{ \"a b\" :\n [1, \"\\\" c\\\\\" , \" \"]\t}";
        assert_eq!(compact(text), b"{\"a b\":[1,\"\\\" c\\\\\",\" \"]}");
    }

    #[test]
    fn a_status_is_recognized_by_how_it_begins() {
        assert!(begins_as_status(b"{\"kind\":\"Status\",\"apiVersion\":\"v1\"}"));
        assert!(begins_as_status(b"{\n  \"kind\": \"Status\"\n}"));
        assert!(!begins_as_status(b"{\"kind\":\"Stat"));
    }
}
