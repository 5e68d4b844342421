//! The bodies of writes: from bytes to typed objects, and what strict validation finds in them.

use std::borrow::Cow;

use bytes::Bytes;
use holdfast_gotext::quantity::{text_of, up_to_thousandths};
use holdfast_gotext::quote::quote;
use holdfast_proto::{Envelope, Messages};
use holdfast_resource::{GroupVersion, KindType, KindTypes, TypedObject};
use holdfast_value::pointer::Pointer;
use holdfast_value::{Limits, List, Parsed, Value, json, yaml};

use super::identity::{INTERNAL, Known, Stated};
use crate::http::ApiError;
use crate::http::negotiation::Format;
use crate::http::options::FieldValidation;
use crate::http::protobuf;

/// How much of a body that cannot be read messages show.
const SHOWN_BYTES: usize = 30;

/// The types of the built-in kinds, for each of the forms that bodies come in.
#[derive(Clone, Copy)]
pub(crate) struct BodyTypes<'a> {
    /// The types of trees.
    pub(crate) kinds: &'a KindTypes,
    /// The types of protobuf messages.
    pub(crate) messages: &'a Messages,
}

/// A tree with what is to be said of it.
pub(crate) struct Decoded {
    /// The object, typed: in the form that is served, without what its type does not know.
    pub(crate) object: Value,
    /// What the client is to be warned of.
    pub(crate) warnings: Vec<String>,
}

/// Reads the body of a POST or PUT as an object of `kind` in `api_version`, and types it.
///
/// # Errors
/// 400 where it is no object, is one of another kind or version, does not fit its type, or holds what strict validation
/// refuses.
pub(crate) fn object(
    bytes: &Bytes,
    format: Format,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    object_of(bytes, format, types, kind_type, validation, &[])
}

/// As [`object`], where the object may also say that it is of one of `other_versions`, which have the same fields.
///
/// # Errors
/// Those of [`object`].
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
    match open(bytes, format) {
        Ok((stated, content)) => address.read(bytes, format, stated, content),
        Err(why) => {
            let found = misplaced_number(bytes, format, &address);
            Err(found.unwrap_or_else(|| address.unrecognised(bytes, &why)))
        }
    }
}

/// What is wrong with JSON that cannot be read for a number beyond floats alone: the reference finds that where it reads the
/// number's field, if this is of another type.
fn misplaced_number(bytes: &Bytes, format: Format, address: &Address<'_>) -> Option<ApiError> {
    let value = (format == Format::Json).then(|| json::parse_with_infinities(bytes, &Limits::REQUEST).ok())??;
    let stated = Stated::of(&value).ok()?;
    let content = Content::Tree(Parsed {
        value,
        findings: Vec::new(),
    });
    address.read(bytes, format, stated, content).err()
}

/// What an address takes.
struct Address<'a> {
    types: BodyTypes<'a>,
    kind_type: &'a dyn KindType,
    validation: FieldValidation,
    other_versions: &'a [&'a str],
}

impl Address<'_> {
    fn unrecognised(&self, bytes: &[u8], why: &str) -> ApiError {
        let (kind, shown) = (self.kind_type.kind(), beginning(bytes));
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    }

    /// Reads a body that states to be of that kind and version.
    fn read(&self, bytes: &Bytes, format: Format, stated: Stated, content: Content<'_>) -> Result<Decoded, ApiError> {
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
        let refuse = |why: String| {
            ApiError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {kind}: {why}",
                stated.kind, stated.version
            ))
        };
        if stated.version.is_empty() {
            return Err(refuse(missing_version(&content, bytes)));
        }
        // YAML is read through a map sorted by key, JSON in the order of its text.
        let source = match format {
            Format::Json => Source::Text(bytes),
            _ => Source::Json,
        };
        match read_as_stated(content, &stated, self.types, kind_type, source).map_err(refuse)? {
            Reading::Own(typed) => Ok(Decoded {
                object: typed.object,
                warnings: judged(typed.findings, self.validation).map_err(refuse)?,
            }),
            Reading::Other(findings) => {
                let warnings = judged(findings, self.validation).map_err(refuse)?;
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

/// Reads the body of a DELETE as `DeleteOptions`, whichever group and version it says they are of.
///
/// # Errors
/// 400 where it is something else, or does not fit the type.
pub(crate) fn delete_options(bytes: &Bytes, format: Format, types: BodyTypes<'_>) -> Result<Value, ApiError> {
    let (stated, content) = open(bytes, format).map_err(ApiError::bad_request)?;
    let stated = stated.or(META_GROUP, "v1", DELETE_OPTIONS);
    let refuse = |why: String| Err(ApiError::bad_request(why));
    if stated.version.is_empty() {
        return refuse(missing_version(&content, bytes));
    }
    if stated.kind != DELETE_OPTIONS {
        let is_known = stated.group.is_empty() && stated.version == "v1" && UNVERSIONED.contains(&&*stated.kind);
        return refuse(if is_known {
            stated.unconvertible(META_GROUP, DELETE_OPTIONS)
        } else {
            stated.unregistered()
        });
    }
    let Some(kind_type) = types.kinds.kind("v1", DELETE_OPTIONS) else {
        return Err(ApiError::internal("DeleteOptions have no type"));
    };
    let read = read_as(content, types, kind_type.as_ref(), Source::Json);
    read.map(|typed| typed.object).map_err(ApiError::bad_request)
}

const META_GROUP: &str = "meta.k8s.io";
const DELETE_OPTIONS: &str = "DeleteOptions";

/// The kinds besides `DeleteOptions` that the reference knows where it reads these.
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// A body that says what it is, and has not been read as that.
enum Content<'b> {
    /// JSON or YAML.
    Tree(Parsed),
    /// A protobuf message.
    Message(&'b [u8]),
}

impl Content<'_> {
    /// The tree of an object of `kind_type`, and the keys that its text repeats.
    fn tree(self, types: BodyTypes<'_>, kind_type: &dyn KindType) -> Result<Parsed, String> {
        let message = match self {
            Self::Tree(parsed) => return Ok(parsed),
            Self::Message(message) => message,
        };
        let messages = types.messages;
        let of = protobuf::type_of(messages.types(), kind_type.api_version(), kind_type.kind());
        let Some(of) = of else {
            return Err(format!("{} has no protobuf form", kind_type.kind()));
        };
        let value = messages.decode(of, message, &Limits::REQUEST);
        Ok(Parsed {
            value: value.map_err(|error| error.to_string())?,
            findings: Vec::new(),
        })
    }

    /// The names of the fields that the text has besides those that say what the object is.
    fn fields(&self) -> impl Iterator<Item = &str> {
        let map = match self {
            Self::Tree(parsed) => parsed.value.as_map(),
            Self::Message(_) => None,
        };
        map.into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .filter(|key| !matches!(*key, "kind" | "apiVersion"))
    }
}

/// Reads a body as far as it says what it is.
///
/// # Errors
/// Why it says nothing.
fn open(bytes: &Bytes, format: Format) -> Result<(Stated, Content<'_>), String> {
    let parsed = match format {
        Format::Json => json::parse_with(bytes, &Limits::REQUEST, holdfast_value::Duplicates::Merge)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?,
        Format::Yaml => yaml::parse_with_findings(bytes, &Limits::REQUEST).map_err(|error| error.to_string())?,
        Format::Protobuf => {
            let envelope = Envelope::read(bytes).map_err(|error| error.to_string())?;
            let stated = Stated::new(&envelope.api_version, &envelope.kind);
            // A version that cannot be read counts as none here, and a group says nothing without a version.
            let stated = stated.filter(|stated| !stated.version.is_empty());
            let stated = stated.or_else(|| Stated::new("", &envelope.kind)).unwrap_or_default();
            return Ok((stated, Content::Message(envelope.message)));
        }
    };
    Ok((Stated::of(&parsed.value)?, Content::Tree(parsed)))
}

fn missing_version(content: &Content<'_>, bytes: &[u8]) -> String {
    let shown = match content {
        Content::Tree(_) => String::from_utf8_lossy(bytes),
        Content::Message(_) => Cow::Borrowed(""),
    };
    format!("Object 'apiVersion' is missing in '{shown}'")
}

/// What is made of an object for an address that takes a certain type.
enum Reading {
    /// An object of that type.
    Own(TypedObject),
    /// One in another version, with what is unknown in it. The reference converts it before it finds that the address does
    /// not take that version.
    Other(Vec<String>),
}

/// Reads `content` as what it states to be, and checks that it can become an object of `kind_type`.
fn read_as_stated(
    content: Content<'_>,
    stated: &Stated,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
    source: Source<'_>,
) -> Result<Reading, String> {
    if stated.is(kind_type) {
        return Ok(Reading::Own(read_as(content, types, kind_type, source)?));
    }
    let findings = match stated.find(types.kinds).ok_or_else(|| stated.unregistered())? {
        Known::Type(other) => read_as(content, types, other.as_ref(), source)?.findings,
        Known::Internal => unknown_fields(&content, source),
        Known::Other => Vec::new(),
    };
    if stated.converts_to(kind_type) {
        return Ok(Reading::Other(findings));
    }
    let group = &kind_type.name().group_version.group;
    Err(stated.unconvertible(group, kind_type.kind()))
}

/// All fields are unknown to the reference's own form of an object.
fn unknown_fields(content: &Content<'_>, source: Source<'_>) -> Vec<String> {
    let mut findings: Vec<String> = content.fields().map(|key| format!("unknown field \"{key}\"")).collect();
    if let Source::Text(text) = source {
        order_by_text(&mut findings, text);
    }
    findings
}

fn read_as(
    content: Content<'_>,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
    source: Source<'_>,
) -> Result<TypedObject, String> {
    let Parsed { mut value, findings } = content.tree(types, kind_type)?;
    if value.is_null() {
        value = Value::empty_map();
    }
    let findings = findings.iter().map(ToString::to_string).collect();
    for (name, own) in [("kind", kind_type.kind()), ("apiVersion", kind_type.api_version())] {
        if value.str_at(&[name]) != Some(own) {
            value.set_at(&[name], own.into());
        }
    }
    typed(&value, findings, source, kind_type)
}

/// Reads a custom object: these must say what they are; another kind is told of by validation.
fn custom(
    content: Content<'_>,
    bytes: &[u8],
    format: Format,
    kind_type: &dyn KindType,
    validation: FieldValidation,
    unrecognised: impl Fn(String) -> ApiError,
) -> Result<Decoded, ApiError> {
    let Content::Tree(Parsed { value, findings }) = content else {
        return Err(unrecognised(format!("{} has no protobuf form", kind_type.kind())));
    };
    let object = if value.is_null() { Value::empty_map() } else { value };
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    if text("kind").is_empty() {
        let shown = match format {
            Format::Json => String::from_utf8_lossy(bytes).into_owned(),
            _ => json::to_string(&object),
        };
        return Err(unrecognised(format!("Object 'Kind' is missing in '{shown}'")));
    }
    if text("apiVersion") != kind_type.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            text("apiVersion"),
            kind_type.api_version()
        )));
    }
    let findings = findings.iter().map(ToString::to_string).collect();
    let refuse = |why: String| {
        let (kind, version) = (kind_type.kind(), &kind_type.name().group_version.version);
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    };
    let typed = typed(&object, findings, Source::Json, kind_type).map_err(refuse)?;
    Ok(Decoded {
        object: typed.object,
        warnings: judged(typed.findings, validation).map_err(refuse)?,
    })
}

/// What the reference reads an object from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// From this JSON, so that what it finds is in the order of the text.
    Text(&'a [u8]),
    /// From other JSON.
    Json,
    /// From a tree that it has read before.
    Tree,
}

/// Types `object` and puts together all that strict validation finds: `findings` first, unless the order is that of a text.
///
/// # Errors
/// Why the object cannot be taken, for the message of the caller.
pub(super) fn typed(
    object: &Value,
    mut findings: Vec<String>,
    source: Source<'_>,
    kind_type: &dyn KindType,
) -> Result<TypedObject, String> {
    let mut typed = match source {
        Source::Tree => kind_type.decode_tree(object)?,
        Source::Text(_) | Source::Json => kind_type.decode(object)?,
    };
    // An empty list asks for all managers to be forgotten, and would be left out as all that is empty.
    let managers = object.at(&["metadata", "managedFields"]).and_then(Value::as_list);
    if managers.is_some_and(|managers| managers.is_empty()) {
        typed
            .object
            .set_at(&["metadata", "managedFields"], Value::List(List::new()));
    }
    findings.append(&mut typed.findings);
    if let Source::Text(text) = source {
        order_by_text(&mut findings, text);
        take_as_written(&mut typed, text);
    }
    Ok(TypedObject { findings, ..typed })
}

/// Reads amounts that are written as numbers from their text: the reference does, whatever floats make of them.
fn take_as_written(typed: &mut TypedObject, text: &[u8]) {
    if typed.floats.is_empty() {
        return;
    }
    let paths: Vec<(&str, bool)> = typed.floats.iter().map(|float| (float.path.as_str(), false)).collect();
    for (place, float) in json::places(text, &paths).into_iter().zip(&typed.floats) {
        let written = json::number_behind(text, place).and_then(|number| text_of(number).ok());
        let rounded = written
            .as_deref()
            .filter(|_| float.of_resources)
            .and_then(up_to_thousandths);
        let written = rounded.or(written);
        let amount = Pointer::parse(&float.pointer).ok();
        let amount = amount.as_ref().and_then(|pointer| pointer.get_mut(&mut typed.object));
        if let (Some(written), Some(amount)) = (written, amount) {
            *amount = Value::String(written);
        }
    }
}

/// What clients are warned of where `findings` are no reason to refuse the object.
///
/// # Errors
/// What is wrong with the object where they are.
pub(super) fn judged(findings: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(findings),
        FieldValidation::Strict if findings.is_empty() => Ok(findings),
        FieldValidation::Strict => Err(strict_error(&findings)),
    }
}

/// What strict validation says: the keys that YAML repeats are one error of several lines.
fn strict_error(findings: &[String]) -> String {
    let (of_yaml, mut errors): (Vec<&str>, Vec<&str>) = findings
        .iter()
        .map(String::as_str)
        .partition(|finding| finding.starts_with("line "));
    let of_yaml = of_yaml.iter().map(|line| format!("\n  {line}")).collect::<String>();
    let of_yaml = format!("yaml: unmarshal errors:{of_yaml}");
    if errors.len() < findings.len() {
        errors.insert(0, &of_yaml);
    }
    format!("strict decoding error: {}", errors.join(", "))
}

/// Puts findings into the order in which a reader of the JSON `text` comes upon them: unknown fields by their key, repeated
/// ones by its second place. What is repeated in an unknown field, or is unknown itself, such a reader does not see.
pub(super) fn order_by_text(findings: &mut Vec<String>, text: &[u8]) {
    if findings.len() < 2 {
        return;
    }
    leave_out_unseen(findings);
    let path = |finding: &'_ String| {
        finding.split_once('"').map_or(0..0, |(before, rest)| {
            let start = before.len() + 1;
            start..start + rest.len().saturating_sub(1)
        })
    };
    let paths: Vec<(&str, bool)> = findings
        .iter()
        .map(|finding| (&finding[path(finding)], finding.starts_with("duplicate")))
        .collect();
    let places = json::places(text, &paths);
    let mut placed: Vec<(usize, String)> = places.into_iter().zip(std::mem::take(findings)).collect();
    placed.sort_by_key(|(place, _)| *place);
    findings.extend(placed.into_iter().map(|(_, finding)| finding));
}

/// Leaves out repeated fields that are unknown, or that stand below an unknown one.
fn leave_out_unseen(findings: &mut Vec<String>) {
    fn path<'f>(finding: &'f str, sort: &str) -> Option<&'f str> {
        finding.strip_prefix(sort)?.strip_suffix('"')
    }
    let unknown: Vec<String> = findings
        .iter()
        .filter_map(|finding| path(finding, "unknown field \""))
        .map(str::to_owned)
        .collect();
    findings.retain(|finding| {
        let Some(repeated) = path(finding, "duplicate field \"") else {
            return true;
        };
        let is_within = |unknown: &String| {
            let below = repeated.strip_prefix(unknown.as_str());
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        };
        !unknown.iter().any(is_within)
    });
}

/// The beginning of a body, as messages show it: what looks like a JSON object as text, anything else in hexadecimal digits.
#[expect(clippy::indexing_slicing, reason = "no more than there is")]
fn beginning(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { " ..." } else { "" };
    let text = if bytes.first() == Some(&b'{') {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("{text}{more}")
}

/// What became of an object that a patch changed.
pub(super) enum Patched {
    /// An object of the type of the address.
    Own(TypedObject),
    /// Nothing of which the reference knows a name, since the patch took its version away; with what is unknown in it.
    Nameless(Vec<String>),
}

/// Reads what a patch made of an object as what it says it is, which must be an object of `kind_type`. The findings in the
/// patch itself come first.
///
/// # Errors
/// Why it is not, for the message of the caller.
pub(super) fn patched(
    object: &Value,
    findings: Vec<String>,
    types: BodyTypes<'_>,
    kind_type: &dyn KindType,
) -> Result<Patched, String> {
    let stated = Stated::of(object)?;
    if kind_type.conventions().states_identity {
        check_kind_of_custom(&stated, kind_type)?;
        return typed(object, findings, Source::Json, kind_type).map(Patched::Own);
    }
    let group = &kind_type.name().group_version.group;
    let stated = stated.or(group, INTERNAL, kind_type.kind());
    if stated.version.is_empty() {
        return Err(format!(
            "Object 'apiVersion' is missing in '{}'",
            json::to_string(object)
        ));
    }
    let content = Content::Tree(Parsed {
        value: object.clone(),
        findings: Vec::new(),
    });
    match read_as_stated(content, &stated, types, kind_type, Source::Json)? {
        Reading::Own(mut typed) => {
            typed.findings.splice(0..0, findings);
            Ok(Patched::Own(typed))
        }
        Reading::Other(unknown) if stated.version == INTERNAL => Ok(Patched::Nameless([findings, unknown].concat())),
        Reading::Other(_) => Err(stated.unconvertible(group, kind_type.kind())),
    }
}

fn check_kind_of_custom(stated: &Stated, kind_type: &dyn KindType) -> Result<(), String> {
    if stated.is(kind_type) {
        return Ok(());
    }
    if stated.kind.is_empty() {
        return Err("Object 'Kind' is missing in the patched object".to_owned());
    }
    Err(stated.unregistered())
}

/// Why an object cannot take the place of one of another type.
pub(super) enum Unconvertible {
    /// Nobody knows its kind.
    Unknown(String),
    /// It is of another kind or version.
    Other(String),
}

/// Checks that an object can take the place of one of `kind_type`. What is said of another kind of a custom resource is left
/// to its validation.
///
/// # Errors
/// Why not, in the words of the reference.
pub(super) fn check_converted(
    object: &Value,
    types: &KindTypes,
    kind_type: &dyn KindType,
) -> Result<(), Unconvertible> {
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let expected = kind_type.api_version();
    if api_version == expected && (kind_type.conventions().states_identity || kind == kind_type.kind()) {
        return Ok(());
    }
    let group = &kind_type.name().group_version.group;
    let stated = Stated::new(api_version, kind).unwrap_or_default();
    Err(if !kind_type.conventions().states_identity {
        if types.knows(api_version, kind) {
            Unconvertible::Other(stated.unconvertible(group, kind_type.kind()))
        } else {
            Unconvertible::Unknown(stated.unregistered())
        }
    } else if stated.group == *group {
        Unconvertible::Other(format!(
            "request to convert CR from an invalid group/version: {api_version}"
        ))
    } else {
        Unconvertible::Other(format!(
            "{api_version}, Kind={kind} is unstructured and is not suitable for converting to {}",
            quote(expected)
        ))
    })
}
