//! The bodies of writes: from bytes to typed objects, and what strict validation finds in them.

use bytes::Bytes;
use holdfast_resource::GroupVersion;
use holdfast_value::text::quote;
use holdfast_value::{Limits, List, Parsed, Value, json, yaml};

use super::typing::{KindType, Types};
use crate::ApiError;
use crate::negotiation::Format;
use crate::options::FieldValidation;
use crate::protobuf;

/// How much of a body that cannot be read messages show.
const SHOWN_BYTES: usize = 30;

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
    types: &Types,
    kind_type: &KindType,
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
    types: &Types,
    kind_type: &KindType,
    validation: FieldValidation,
    other_versions: &[&str],
) -> Result<Decoded, ApiError> {
    let kind = kind_type.kind();
    let unrecognised = |why: &dyn std::fmt::Display| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            beginning(bytes, format)
        ))
    };
    let Parsed { value, findings } = match format {
        Format::Json => json::parse_with(bytes, &Limits::REQUEST, holdfast_value::Duplicates::Merge)
            .map_err(|error| unrecognised(&format_args!("couldn't get version/kind; json parse error: {error}")))?,
        Format::Yaml => yaml::parse_with_findings(bytes, &Limits::REQUEST).map_err(|error| unrecognised(&error))?,
        Format::Protobuf => Parsed {
            value: protobuf::read(types.messages(), bytes, (kind_type.api_version(), kind))
                .map_err(|error| unrecognised(&error))?,
            findings: Vec::new(),
        },
    };
    let object = match value {
        Value::Map(_) => value,
        Value::Null => Value::empty_map(),
        other => {
            return Err(unrecognised(&format_args!(
                "couldn't get version/kind; json parse error: {}",
                not_an_object(&other)
            )));
        }
    };
    if let Some(api_version) = object.str_at(&["apiVersion"])
        && api_version.matches('/').count() > 1
    {
        return Err(unrecognised(&format_args!(
            "unexpected GroupVersion string: {api_version}"
        )));
    }
    if kind_type.is_custom() {
        check_identity_of_custom(&object, bytes, format, kind_type).map_err(|why| match why {
            Misidentified::Kind(why) => unrecognised(&why),
            Misidentified::Version(found) => ApiError::bad_request(format!(
                "the API version in the data ({found}) does not match the expected API version ({})",
                kind_type.api_version()
            )),
        })?;
        let findings = findings.iter().map(ToString::to_string).collect();
        return typed(&object, findings, Source::Json, kind_type, validation)
            .map_err(|why| cannot_be_handled(kind_type, &why));
    }
    let mut object = object;
    if object
        .str_at(&["apiVersion"])
        .is_some_and(|version| other_versions.contains(&version))
    {
        object.set_at(&["apiVersion"], kind_type.api_version().into());
    }
    let object = identified(object, types, kind_type)?;
    let mut findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if format == Format::Yaml && validation == FieldValidation::Strict && !findings.is_empty() {
        // The reference's reader of YAML tells all repeated keys in one error.
        findings = vec![format!("yaml: unmarshal errors:\n  {}", findings.join("\n  "))];
    }
    // YAML is read through a map sorted by key, JSON in the order of its text.
    let source = match format {
        Format::Json => Source::Text(bytes),
        _ => Source::Json,
    };
    typed(&object, findings, source, kind_type, validation).map_err(|why| cannot_be_handled(kind_type, &why))
}

fn cannot_be_handled(kind_type: &KindType, why: &str) -> ApiError {
    let (kind, version) = (kind_type.kind(), version_of(kind_type.api_version()));
    ApiError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    ))
}

/// Why a custom object is not of the kind or version of its address.
enum Misidentified {
    Kind(String),
    Version(String),
}

/// Custom objects must say what they are; another kind is told of by validation.
fn check_identity_of_custom(
    object: &Value,
    bytes: &[u8],
    format: Format,
    kind_type: &KindType,
) -> Result<(), Misidentified> {
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    if text("kind").is_empty() {
        let shown = match format {
            Format::Json => String::from_utf8_lossy(bytes).into_owned(),
            _ => json::to_string(object),
        };
        return Err(Misidentified::Kind(format!("Object 'Kind' is missing in '{shown}'")));
    }
    if text("apiVersion") != kind_type.api_version() {
        return Err(Misidentified::Version(text("apiVersion").to_owned()));
    }
    Ok(())
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
    kind_type: &KindType,
    validation: FieldValidation,
) -> Result<Decoded, String> {
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
    findings.extend(typed.findings);
    if let Source::Text(text) = source {
        order_by_text(&mut findings, text);
    }
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => findings,
        FieldValidation::Strict if findings.is_empty() => findings,
        FieldValidation::Strict => return Err(strict_error(&findings)),
    };
    Ok(Decoded {
        object: typed.object,
        warnings,
    })
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

/// Fills in the kind and version that the address has where the object says nothing, and refuses others.
fn identified(mut object: Value, types: &Types, kind_type: &KindType) -> Result<Value, ApiError> {
    let (kind, api_version) = (kind_type.kind(), kind_type.api_version());
    let found_kind = object.str_at(&["kind"]).unwrap_or_default().to_owned();
    // The core group may be written with its empty name.
    let found_version = object
        .str_at(&["apiVersion"])
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_owned();
    let is_kind = found_kind.is_empty() || found_kind == kind;
    let is_version = found_version.is_empty() || found_version == api_version;
    if is_kind && is_version {
        object.set_at(&["kind"], kind.into());
        object.set_at(&["apiVersion"], api_version.into());
        return Ok(object);
    }
    let named_kind = if found_kind.is_empty() { kind } else { &found_kind };
    let named_version = if found_version.is_empty() {
        api_version
    } else {
        &found_version
    };
    let same_group = GroupVersion::parse(named_version).map(|found| found.group)
        == GroupVersion::parse(api_version).map(|version| version.group);
    let why = if is_kind && same_group && was_served(kind_type, named_version, types) {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({named_version}) does not match the expected API version ({api_version})"
        )));
    } else if types.knows(named_version, named_kind) || is_list(types, named_version, named_kind) {
        unknown_conversion((named_version, named_kind), kind_type)
    } else {
        format!("no kind \"{named_kind}\" is registered for version \"{named_version}\" in scheme \"holdfast\"")
    };
    let version = version_of(named_version);
    Err(ApiError::bad_request(format!(
        "{named_kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    )))
}

/// Whether the reference still knows this version of the kind's group, though it may not serve it any more.
fn was_served(kind_type: &KindType, api_version: &str, types: &Types) -> bool {
    types.knows(api_version, kind_type.kind()) || api_version.contains("alpha") || api_version.contains("beta")
}

/// Whether the kind is that of a list of a kind that is served.
fn is_list(types: &Types, api_version: &str, kind: &str) -> bool {
    let item = kind.strip_suffix("List");
    item.is_some_and(|item| item.is_empty() || types.knows(api_version, item))
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// The beginning of a body, as messages show it: JSON objects as text, anything else in hexadecimal digits.
fn beginning(bytes: &[u8], format: Format) -> String {
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { " ..." } else { "" };
    let text = if format == Format::Json && bytes.first() == Some(&b'{') {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("{text}{more}")
}

/// What the reference says of a body that is JSON but no object.
pub(crate) fn not_an_object(value: &Value) -> String {
    let sort = value.json_kind();
    format!(
        "json: cannot unmarshal {sort} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// Gives a patched object of a built-in kind its kind where the patch took that away, as the reference does.
///
/// # Errors
/// 400 where the version is missing: the reference then finds nothing in the object, not even its name.
pub(super) fn identify_patched(object: &mut Value, kind_type: &KindType, name: &str) -> Result<(), ApiError> {
    let is_missing = |name: &str| object.str_at(&[name]).is_some_and(str::is_empty) || object.get(name).is_none();
    let (no_kind, no_version) = (is_missing("kind"), is_missing("apiVersion"));
    if kind_type.is_custom() {
        return Ok(());
    }
    if no_version {
        return Err(super::pipeline::nameless(name));
    }
    if no_kind {
        object.set_at(&["kind"], kind_type.kind().into());
    }
    Ok(())
}

/// Checks that a patched object still is of its kind and version.
///
/// # Errors
/// Why it is not, for the message of the caller.
pub(super) fn check_identity(object: &Value, types: &Types, kind_type: &KindType) -> Result<(), String> {
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if (kind, api_version) == (kind_type.kind(), kind_type.api_version()) {
        return Ok(());
    }
    if kind.is_empty() {
        return Err("Object 'Kind' is missing in the patched object".to_owned());
    }
    let Some(other) = types.kind(api_version, kind) else {
        return Err(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"holdfast\""
        ));
    };
    // The reference reads it as what it says it is, and finds only then that this is not what it should be.
    other.decode(object)?;
    Err(unknown_conversion((api_version, kind), kind_type))
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
pub(super) fn check_converted(object: &Value, types: &Types, kind_type: &KindType) -> Result<(), Unconvertible> {
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let expected = kind_type.api_version();
    if api_version == expected && (kind_type.is_custom() || kind == kind_type.kind()) {
        return Ok(());
    }
    let group = |version: &str| GroupVersion::parse(version).map(|version| version.group);
    Err(if !kind_type.is_custom() {
        if types.knows(api_version, kind) {
            Unconvertible::Other(unknown_conversion((api_version, kind), kind_type))
        } else {
            let (kind, version) = (quote(kind), quote(api_version));
            Unconvertible::Unknown(format!(
                "no kind {kind} is registered for version {version} in scheme \"holdfast\""
            ))
        }
    } else if group(api_version) == group(expected) {
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

/// What the reference says of an object of another kind than that of the address.
fn unknown_conversion((found_version, found_kind): (&str, &str), kind_type: &KindType) -> String {
    let group = GroupVersion::parse(kind_type.api_version())
        .map(|version| version.group)
        .unwrap_or_default();
    let package = group
        .split('.')
        .next()
        .filter(|group| !group.is_empty())
        .unwrap_or("core");
    let (found, kind) = (version_of(found_version), kind_type.kind());
    format!("converting ({found}.{found_kind}) to ({package}.{kind}): unknown conversion")
}
