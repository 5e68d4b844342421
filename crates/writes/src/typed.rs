//! Trees that become objects of a type: those of bodies, and those that patches make.

use holdfast_gotext::quantity::{text_of, up_to_thousandths};
use holdfast_gotext::quote::quote;
use holdfast_schema::{KindType, KindTypes, Provenance, TypedObject};
use holdfast_value::pointer::Pointer;
use holdfast_value::{List, Parsed, Value, json};

use crate::options::FieldValidation;
use crate::stated::{INTERNAL, RegisteredType, Stated};

/// A body that states its kind and is not decoded yet.
pub trait Content {
    /// Returns the tree of an object of `kind_type`, and the keys that its text repeats.
    ///
    /// # Errors
    /// If it cannot be parsed.
    fn tree(self, kind_type: &dyn KindType) -> Result<Parsed, String>;

    /// Returns the names of its fields other than `apiVersion` and `kind`.
    fn fields(&self) -> Vec<&str>;
}

impl Content for Parsed {
    fn tree(self, _kind_type: &dyn KindType) -> Result<Parsed, String> {
        Ok(self)
    }

    fn fields(&self) -> Vec<&str> {
        let map = self.value.as_map().into_iter().flatten();
        let names = map.map(|(key, _)| key.as_str());
        names.filter(|key| !matches!(*key, "kind" | "apiVersion")).collect()
    }
}

/// Result of decoding an object for a target with a certain type.
pub enum Reading {
    /// An object of that type.
    Own(TypedObject),
    /// An object in another version, with its unknown fields. The reference converts it before it detects that the
    /// target does not accept that version.
    Other(Vec<String>),
}

/// Decodes `content` as the kind in it, and checks that it can be converted to `kind_type`.
///
/// # Errors
/// If it cannot; the message is the reference's.
pub fn read_as_stated(
    content: impl Content,
    stated: &Stated,
    types: &KindTypes,
    kind_type: &dyn KindType,
    provenance: Provenance<'_>,
) -> Result<Reading, String> {
    if stated.is(kind_type) {
        return Ok(Reading::Own(read_as(content, kind_type, provenance)?));
    }
    let findings = match stated.find(types, kind_type).ok_or_else(|| stated.unregistered())? {
        RegisteredType::Type(other) => read_as(content, other.as_ref(), provenance)?.findings,
        RegisteredType::Internal => unknown_fields(&content, provenance),
        RegisteredType::Other => Vec::new(),
    };
    if stated.converts_to(kind_type) {
        return Ok(Reading::Other(findings));
    }
    let group = &kind_type.name().group_version.group;
    Err(stated.unconvertible(group, kind_type.kind()))
}

/// Returns all fields as unknown, since the reference's internal form of an object knows none.
fn unknown_fields(content: &impl Content, provenance: Provenance<'_>) -> Vec<String> {
    let mut findings: Vec<String> = content
        .fields()
        .iter()
        .map(|key| format!("unknown field \"{key}\""))
        .collect();
    if let Some(text) = provenance.text() {
        order_by_text(&mut findings, text);
    }
    findings
}

/// Decodes `content` as an object of `kind_type`, regardless of the kind in it.
///
/// # Errors
/// If it cannot be decoded.
pub fn read_as(
    content: impl Content,
    kind_type: &dyn KindType,
    provenance: Provenance<'_>,
) -> Result<TypedObject, String> {
    let Parsed { mut value, findings } = content.tree(kind_type)?;
    if value.is_null() {
        value = Value::empty_map();
    }
    let findings = findings.iter().map(ToString::to_string).collect();
    for (name, own) in [("kind", kind_type.kind()), ("apiVersion", kind_type.api_version())] {
        if value.str_at(&[name]) != Some(own) {
            value.set_at(&[name], own.into());
        }
    }
    typed(&value, findings, provenance, kind_type)
}

/// Types `object` and combines all findings of strict validation: `findings` first, unless they are ordered by a text.
///
/// # Errors
/// If the object cannot be decoded; the error is for the message of the caller.
pub fn typed(
    object: &Value,
    mut findings: Vec<String>,
    provenance: Provenance<'_>,
    kind_type: &dyn KindType,
) -> Result<TypedObject, String> {
    let mut typed = kind_type.decode_from(object, provenance)?;
    // An empty list asks for all managers to be forgotten, and would be left out as all that is empty.
    let managers = object.at(&["metadata", "managedFields"]).and_then(Value::as_list);
    if managers.is_some_and(|managers| managers.is_empty()) {
        typed
            .object
            .set_at(&["metadata", "managedFields"], Value::List(List::new()));
    }
    findings.append(&mut typed.findings);
    if let Some(text) = provenance.text() {
        order_by_text(&mut findings, text);
        take_as_written(&mut typed, text);
    }
    Ok(TypedObject { findings, ..typed })
}

/// Reads quantities that are written as numbers from their text, as the reference does, to avoid the rounding of
/// floats.
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
        let amount = Pointer::parse(&float.pointer)
            .ok()
            .as_ref()
            .and_then(|pointer| pointer.get_mut(&mut typed.object));
        if let (Some(written), Some(amount)) = (written, amount) {
            *amount = Value::String(written);
        }
    }
}

/// Returns the warnings for the client if `findings` are not a reason to reject the object.
///
/// # Errors
/// If they are; the error lists them.
pub fn judged(findings: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(findings),
        FieldValidation::Strict if findings.is_empty() => Ok(findings),
        FieldValidation::Strict => Err(strict_error(&findings)),
    }
}

/// Returns the error message of strict validation: the keys that YAML repeats are one error of several lines.
fn strict_error(findings: &[String]) -> String {
    let (of_yaml, mut errors): (Vec<&str>, Vec<&str>) = findings
        .iter()
        .map(String::as_str)
        .partition(|finding| finding.starts_with("line "));
    let lines = of_yaml.iter().map(|line| format!("\n  {line}")).collect::<String>();
    let of_yaml = format!("yaml: unmarshal errors:{lines}");
    if errors.len() < findings.len() {
        errors.insert(0, &of_yaml);
    }
    format!("strict decoding error: {}", errors.join(", "))
}

/// Sorts findings into the order in which a decoder of the JSON `text` reports them: unknown fields by their key,
/// repeated ones by its second occurrence. The decoder does not report repeated or unknown fields inside an unknown
/// field.
pub fn order_by_text(findings: &mut Vec<String>, text: &[u8]) {
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
        .map(|finding| {
            let path = finding.get(path(finding)).unwrap_or_default();
            (path, finding.starts_with("duplicate"))
        })
        .collect();
    let places = json::places(text, &paths);
    let mut placed: Vec<(usize, String)> = places.into_iter().zip(std::mem::take(findings)).collect();
    placed.sort_by_key(|(place, _)| *place);
    findings.extend(placed.into_iter().map(|(_, finding)| finding));
}

/// Removes repeated fields that are unknown, or that are inside an unknown one.
fn leave_out_unseen(findings: &mut Vec<String>) {
    fn path<'f>(finding: &'f str, prefix: &str) -> Option<&'f str> {
        finding.strip_prefix(prefix)?.strip_suffix('"')
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

/// Result of decoding an object that a patch changed.
pub enum Patched {
    /// An object of the type of the address.
    Own(TypedObject),
    /// An object whose version the patch removed, so that the reference knows no type for it; with its unknown fields.
    Nameless(Vec<String>),
}

/// Decodes an object that a patch changed as the kind in it, which must be `kind_type`. The findings in
/// the patch itself come first.
///
/// # Errors
/// If it is of another kind or cannot be decoded; the error is for the message of the caller.
pub fn patched(
    object: &Value,
    findings: Vec<String>,
    types: &KindTypes,
    kind_type: &dyn KindType,
    provenance: Provenance<'_>,
) -> Result<Patched, String> {
    let stated = Stated::from_object(object)?;
    if kind_type.conventions().states_identity {
        check_kind_of_custom(&stated, kind_type)?;
        return typed(object, findings, provenance, kind_type).map(Patched::Own);
    }
    let group = &kind_type.name().group_version.group;
    let stated = stated.or(group, INTERNAL, kind_type.kind());
    if stated.version.is_empty() {
        return Err(format!(
            "Object 'apiVersion' is missing in '{}'",
            json::to_string(object)
        ));
    }
    let content = Parsed {
        value: object.clone(),
        findings: Vec::new(),
    };
    match read_as_stated(content, &stated, types, kind_type, provenance)? {
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

/// Reason for which an object cannot replace one of another type.
pub enum Unconvertible {
    /// Its kind is unknown.
    Unknown(String),
    /// It is of another kind or version.
    Other(String),
}

/// Checks that an object can replace one of `kind_type`. For custom resources, validation reports a different kind.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion#crConverter.ConvertToVersion
///
/// # Errors
/// If it cannot; the message is the reference's.
pub fn check_converted(object: &Value, types: &KindTypes, kind_type: &dyn KindType) -> Result<(), Unconvertible> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(findings: &[&str]) -> Vec<String> {
        findings.iter().map(|finding| (*finding).to_owned()).collect()
    }

    #[test]
    fn findings_are_reported_as_field_validation_says() {
        let findings = || texts(&["line 2: key \"a\" already set in map", "unknown field \"b\""]);
        assert_eq!(judged(findings(), FieldValidation::Ignore), Ok(Vec::new()));
        assert_eq!(judged(findings(), FieldValidation::Warn), Ok(findings()));
        assert_eq!(judged(Vec::new(), FieldValidation::Strict), Ok(Vec::new()));
        assert_eq!(
            judged(findings(), FieldValidation::Strict),
            Err("strict decoding error: yaml: unmarshal errors:\n  line 2: key \"a\" already set in map, unknown field \"b\""
                .to_owned())
        );
    }

    #[test]
    fn findings_follow_the_text_and_skip_unread_fields() {
        let text = br#"{"b":1,"spec":{"x":{"y":1,"y":2},"a":1,"a":2}}"#;
        let mut findings = texts(&[
            "duplicate field \"spec.a\"",
            "duplicate field \"spec.x.y\"",
            "unknown field \"spec.x\"",
            "unknown field \"b\"",
        ]);
        order_by_text(&mut findings, text);
        assert_eq!(
            findings,
            [
                "unknown field \"b\"",
                "unknown field \"spec.x\"",
                "duplicate field \"spec.a\""
            ]
        );
    }
}
