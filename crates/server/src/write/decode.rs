//! Decoding of the bodies of writes: from bytes to typed objects, with the findings of strict validation.

use std::borrow::Cow;

use bytes::Bytes;
use holdfast_gotext::quote::quote;
use holdfast_proto::{Envelope, Messages};
use holdfast_resource::RawForm;
use holdfast_schema::types::EmptyField;
use holdfast_schema::{GroupVersion, KindType, KindTypes, Provenance};
use holdfast_value::{Limits, Parsed, Value, cbor, json, yaml};
use holdfast_writes::typed::{Content, Reading, judged, read_as, read_as_stated, typed};
use holdfast_writes::{FieldValidation, Stated};

use crate::http::ApiError;
use crate::http::negotiation::Format;
use crate::http::protobuf;

/// Length of the excerpt of an undecodable body in messages, in bytes.
const SHOWN_BYTES: usize = 30;

/// Types of the built-in kinds, for all formats of bodies.
#[derive(Clone, Copy)]
pub(crate) struct BodyTypes<'a> {
    /// The types of trees.
    pub(crate) kinds: &'a KindTypes,
    /// The types of protobuf messages.
    pub(crate) messages: &'a Messages,
}

/// A decoded tree with the findings of its decoding.
pub(crate) struct Decoded {
    /// The object, typed: in the form that is served, without fields that its type does not have.
    pub(crate) object: Value,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// Fields that are empty in the body and that the object therefore does not hold.
    pub(crate) empties: Vec<EmptyField>,
    /// Form of the raw extensions in the body, if the kind has some and the body determines it.
    pub(crate) raw_form: Option<RawForm>,
}

/// Decodes the body of a POST or PUT as an object of `kind` in `api_version`, and types it.
///
/// # Errors
/// If the body is no object, has another kind or version, does not fit its type, or fails strict validation (400).
pub(crate) fn object(
    bytes: &Bytes,
    format: Format,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    object_of(bytes, format, types, kind_type, validation, &[])
}

/// Decodes a body as [`object`] does, but the body may also state one of `other_versions`, which have the same fields.
///
/// # Errors
/// If [`object`] fails.
pub(crate) fn object_of(
    bytes: &Bytes,
    format: Format,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
    validation: FieldValidation,
    other_versions: &[&str],
) -> Result<Decoded, ApiError> {
    let address = Address {
        types,
        kind_type,
        validation,
        other_versions,
    };
    match open(bytes, format, types.messages) {
        Ok((stated, content)) => address.read(bytes, format, stated, content),
        Err(why) => {
            let found = misplaced_number(bytes, format, &address);
            Err(found.unwrap_or_else(|| address.unrecognised(bytes, &why)))
        }
    }
}

/// Returns the type error of JSON that is unreadable only because of a number outside the range of floats. The
/// reference reports the number when it reads the field, if the field has another type.
fn misplaced_number(bytes: &Bytes, format: Format, address: &Address<'_>) -> Option<ApiError> {
    let value = (format == Format::Json).then(|| json::parse_with_infinities(bytes, &Limits::REQUEST).ok())??;
    let stated = Stated::from_object(&value).ok()?;
    let content = Body::Tree(Parsed {
        value,
        findings: Vec::new(),
    });
    address.read(bytes, format, stated, content).err()
}

/// Kind and versions that an address accepts.
struct Address<'a> {
    types: BodyTypes<'a>,
    kind_type: &'a dyn KindType,
    validation: FieldValidation,
    other_versions: &'a [&'a str],
}

impl Address<'_> {
    fn unrecognised(&self, bytes: &[u8], why: &str) -> ApiError {
        let (kind, excerpt) = (self.kind_type.kind(), beginning(bytes));
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({excerpt})"
        ))
    }

    /// Reads a body that states this kind and version.
    fn read(&self, bytes: &Bytes, format: Format, stated: Stated, content: Body<'_>) -> Result<Decoded, ApiError> {
        let (kind_type, kind) = (self.kind_type, self.kind_type.kind());
        if kind_type.conventions().states_identity {
            let unrecognised = |why: String| self.unrecognised(bytes, &why);
            return custom(content, bytes, format, kind_type, self.validation, unrecognised);
        }
        let GroupVersion { group, version } = &kind_type.name().group_version;
        let mut stated = stated.or(group, version, kind);
        if stated.kind == kind && self.other_versions.contains(&stated.api_version().as_str()) {
            (stated.group, stated.version) = (group.clone(), version.clone());
        }
        let reject = |why: String| {
            ApiError::bad_request(format!(
                "{} in version {} cannot be handled as a {kind}: {why}",
                stated.kind,
                quote(&stated.version)
            ))
        };
        if stated.version.is_empty() {
            return Err(reject(missing_version(&content, bytes)));
        }
        // YAML is converted to a map sorted by key; JSON keeps the order of its text.
        let provenance = match format {
            Format::Json => Provenance::from_json(bytes),
            Format::Protobuf => Provenance::from_message(),
            _ => Provenance::from_body(),
        };
        match read_as_stated(content, &stated, self.types.kinds, kind_type, provenance).map_err(reject)? {
            Reading::Own(typed) => Ok(Decoded {
                object: typed.object,
                warnings: judged(typed.findings, self.validation).map_err(reject)?,
                empties: typed.empties,
                raw_form: None,
            }),
            Reading::Other(findings) => {
                let warnings = judged(findings, self.validation).map_err(reject)?;
                let error = ApiError::bad_request(format!(
                    "the API version in the data ({}) does not match the expected API version ({})",
                    stated.api_version(),
                    kind_type.api_version()
                ));
                Err(error.with_warnings(warnings))
            }
        }
    }
}

/// Decodes the body of a DELETE as `DeleteOptions` of any group and version.
///
/// # Errors
/// If the body has another kind or does not fit the type (400).
pub(crate) fn delete_options(bytes: &Bytes, format: Format, types: BodyTypes<'_>) -> Result<Value, ApiError> {
    let (stated, content) = open(bytes, format, types.messages).map_err(ApiError::bad_request)?;
    let stated = stated.or(META_GROUP, "v1", DELETE_OPTIONS);
    let reject = |why: String| Err(ApiError::bad_request(why));
    if stated.version.is_empty() {
        return reject(missing_version(&content, bytes));
    }
    if stated.kind != DELETE_OPTIONS {
        let is_known = stated.group.is_empty() && stated.version == "v1" && UNVERSIONED.contains(&&*stated.kind);
        return reject(if is_known {
            stated.unconvertible(META_GROUP, DELETE_OPTIONS)
        } else {
            stated.unregistered()
        });
    }
    let Some(kind_type) = types.kinds.kind("v1", DELETE_OPTIONS) else {
        return Err(ApiError::internal("DeleteOptions have no type"));
    };
    let read = read_as(content, kind_type.as_ref(), Provenance::from_body());
    read.map(|typed| typed.object).map_err(ApiError::bad_request)
}

const META_GROUP: &str = "meta.k8s.io";
const DELETE_OPTIONS: &str = "DeleteOptions";

/// Kinds other than `DeleteOptions` that the reference's decoder of delete options knows.
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// Body whose stated kind is read and that is not decoded as that kind yet.
enum Body<'b> {
    /// JSON or YAML.
    Tree(Parsed),
    /// A protobuf message, and the types of messages.
    Message(&'b [u8], &'b Messages),
}

impl Content for Body<'_> {
    fn tree(self, kind_type: &dyn KindType) -> Result<Parsed, String> {
        let (message, messages) = match self {
            Self::Tree(parsed) => return Ok(parsed),
            Self::Message(message, messages) => (message, messages),
        };
        let message_type = protobuf::type_of(messages.types(), kind_type.api_version(), kind_type.kind());
        let Some(message_type) = message_type else {
            return Err(format!("{} has no protobuf form", kind_type.kind()));
        };
        let value = messages.decode(message_type, message, &Limits::REQUEST);
        Ok(Parsed {
            value: value.map_err(|error| error.to_string())?,
            findings: Vec::new(),
        })
    }

    fn fields(&self) -> Vec<&str> {
        match self {
            Self::Tree(parsed) => parsed.fields(),
            Self::Message(..) => Vec::new(),
        }
    }
}

/// Reads the kind and version that a body states.
///
/// # Errors
/// If the body states none; the text is the reason.
fn open<'b>(bytes: &'b Bytes, format: Format, messages: &'b Messages) -> Result<(Stated, Body<'b>), String> {
    let parsed = match format {
        Format::Json => json::parse_with(bytes, &Limits::REQUEST, holdfast_value::Duplicates::Merge)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?,
        Format::Yaml => yaml::parse_with_findings(bytes, &Limits::REQUEST).map_err(|error| error.to_string())?,
        Format::Cbor => Parsed {
            value: open_cbor(bytes).map_err(|why| format!("unable to determine group/version/kind: {why}"))?,
            findings: Vec::new(),
        },
        Format::Protobuf => {
            let envelope = Envelope::read(bytes).map_err(|error| error.to_string())?;
            let stated = Stated::new(&envelope.api_version, &envelope.kind);
            // A version that cannot be parsed counts as absent here, and a group without a version is ignored.
            let versioned = stated.filter(|stated| !stated.version.is_empty());
            let stated = versioned
                .or_else(|| Stated::new("", &envelope.kind))
                .unwrap_or_default();
            return Ok((stated, Body::Message(envelope.message, messages)));
        }
    };
    Ok((Stated::from_object(&parsed.value)?, Body::Tree(parsed)))
}

/// Reads a body in CBOR, which is a map. An empty body counts as an empty map.
///
/// # Errors
/// If it is no map; the text is the reason.
fn open_cbor(bytes: &[u8]) -> Result<Value, String> {
    let value = cbor::parse(bytes, &Limits::REQUEST).map_err(|error| error.to_string())?;
    let why = match &value {
        Value::Map(_) => return Ok(value),
        Value::Null => return Ok(Value::empty_map()),
        Value::List(_) => " (cannot decode CBOR array to struct without toarray option)",
        _ => "",
    };
    let found = cbor::kind_of(&value);
    Err(format!(
        "cbor: cannot unmarshal {found} into Go value of type v1.TypeMeta{why}"
    ))
}

fn missing_version(content: &Body<'_>, bytes: &[u8]) -> String {
    let excerpt = match content {
        Body::Tree(_) => String::from_utf8_lossy(bytes),
        Body::Message(..) => Cow::Borrowed(""),
    };
    format!("Object 'apiVersion' is missing in '{excerpt}'")
}

/// Decodes a custom object. It must state its kind and version; validation reports another kind.
fn custom(
    content: Body<'_>,
    bytes: &[u8],
    format: Format,
    kind_type: &dyn KindType,
    validation: FieldValidation,
    unrecognised: impl Fn(String) -> ApiError,
) -> Result<Decoded, ApiError> {
    let Body::Tree(Parsed { value, findings }) = content else {
        return Err(unrecognised(format!("{} has no protobuf form", kind_type.kind())));
    };
    let object = if value.is_null() { Value::empty_map() } else { value };
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    if text("kind").is_empty() {
        let excerpt = match format {
            Format::Json => String::from_utf8_lossy(bytes).into_owned(),
            _ => json::to_string(&object),
        };
        return Err(unrecognised(format!("Object 'Kind' is missing in '{excerpt}'")));
    }
    let findings = findings.iter().map(ToString::to_string).collect();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let reject = |why: String| {
        ApiError::bad_request(format!(
            "{} in version {version:?} cannot be handled as a {}: {why}",
            text("kind"),
            kind_type.kind()
        ))
    };
    let mut typed = typed(&object, findings, Provenance::from_body(), kind_type).map_err(reject)?;
    if text("kind") != kind_type.kind() || group != kind_type.name().group_version.group {
        // The schema does not apply to objects of another kind.
        let of_schema = |finding: &String| {
            let field = finding.strip_prefix("unknown field \"");
            field.is_some_and(|field| !field.starts_with("metadata."))
        };
        typed.findings.retain(|finding| !of_schema(finding));
    }
    let warnings = judged(typed.findings, validation).map_err(reject)?;
    if text("apiVersion") != kind_type.api_version() {
        let error = ApiError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            text("apiVersion"),
            kind_type.api_version()
        ));
        return Err(error.with_warnings(warnings));
    }
    Ok(Decoded {
        object: typed.object,
        warnings,
        empties: typed.empties,
        raw_form: None,
    })
}

/// Returns the beginning of a body for messages: as text if it looks like a JSON object, otherwise as hexadecimal
/// digits.
#[expect(clippy::indexing_slicing, reason = "no more than there is")]
fn beginning(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let excerpt = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { " ..." } else { "" };
    let text = if bytes.first() == Some(&b'{') {
        String::from_utf8_lossy(excerpt).into_owned()
    } else {
        excerpt.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("{text}{more}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World, rejection};
    use super::*;

    fn decoded(world: &World, format: Format, body: &str, validation: FieldValidation) -> Result<Decoded, ApiError> {
        let kind_type = world.target(CONFIG, "").body.kind_type.unwrap();
        let bytes = Bytes::from(body.to_owned());
        object(
            &bytes,
            format,
            world.context.body_types(),
            kind_type.as_ref(),
            validation,
        )
    }

    #[tokio::test]
    async fn body_without_kind_has_that_of_its_address() {
        let world = World::new();
        for body in [
            "{}",
            r#"{"kind":"ConfigMap"}"#,
            r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
        ] {
            let object = decoded(&world, Format::Json, body, FieldValidation::Strict)
                .ok()
                .unwrap()
                .object;
            assert_eq!(
                (object.str_at(&["kind"]), object.str_at(&["apiVersion"])),
                (Some("ConfigMap"), Some("v1"))
            );
        }
        let other = decoded(
            &world,
            Format::Json,
            r#"{"apiVersion":"v1","kind":"Secret"}"#,
            FieldValidation::Strict,
        );
        assert_eq!(rejection(other).0, 400);
    }

    #[tokio::test]
    async fn strict_findings_are_rejected_warned_or_ignored() {
        let world = World::new();
        let body = r#"{"data":{"a":"1","a":"2"},"nope":1}"#;
        let read = |validation| decoded(&world, Format::Json, body, validation);
        assert_eq!(
            rejection(read(FieldValidation::Strict)).1,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
             \"data.a\", unknown field \"nope\""
        );
        let warned = read(FieldValidation::Warn).ok().unwrap();
        assert_eq!(
            warned.warnings,
            ["duplicate field \"data.a\"", "unknown field \"nope\""]
        );
        assert_eq!(warned.object.get("nope"), None);
        assert!(read(FieldValidation::Ignore).ok().unwrap().warnings.is_empty());
    }

    #[tokio::test]
    async fn all_formats_make_the_same_object() {
        let world = World::new();
        let read = |format, body| {
            decoded(&world, format, body, FieldValidation::Strict)
                .ok()
                .unwrap()
                .object
        };
        let json = read(Format::Json, r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#);
        assert_eq!(read(Format::Yaml, "metadata: {name: a}\ndata: {k: '1'}"), json);
    }

    #[test]
    fn a_body_that_cannot_be_read_is_shown_by_how_it_begins() {
        assert_eq!(beginning(b""), "<empty>");
        assert_eq!(beginning(b"{a"), "{a");
        assert_eq!(beginning(b"k8s\x00"), "6b387300");
        let long = "{".repeat(SHOWN_BYTES + 1);
        assert_eq!(beginning(long.as_bytes()), format!("{} ...", "{".repeat(SHOWN_BYTES)));
    }

    #[test]
    fn nothing_in_cbor_is_an_empty_map_and_all_else_is_none() {
        assert_eq!(open_cbor(b"\xf6"), Ok(Value::empty_map()));
        assert_eq!(
            open_cbor(b"\x80").unwrap_err(),
            "cbor: cannot unmarshal array into Go value of type v1.TypeMeta (cannot decode CBOR array to struct without \
             toarray option)"
        );
    }

    #[tokio::test]
    async fn options_of_a_delete_are_of_their_kind_in_whatever_group() {
        let world = World::new();
        let read = |body: &str| {
            let bytes = Bytes::from(body.to_owned());
            delete_options(&bytes, Format::Json, world.context.body_types())
        };
        for stated in ["{}", r#"{"apiVersion":"v1","kind":"DeleteOptions"}"#] {
            assert!(read(stated).is_ok(), "{stated}");
        }
        let status = rejection(read(r#"{"apiVersion":"v1","kind":"Status"}"#));
        assert_eq!(
            status,
            (
                400,
                "converting (v1.Status) to (v1.DeleteOptions): unknown conversion".to_owned()
            )
        );
        assert_eq!(rejection(read(r#"{"apiVersion":"v1","kind":"Nope"}"#)).0, 400);
    }
}
