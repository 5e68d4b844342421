//! Decoding of the bodies of PATCH: from bytes to changes.

use bytes::Bytes;
use holdfast_value::{Error as ValueError, Limits, Parsed, SmolStr, Value, cbor, json, json_patch, yaml};
use holdfast_writes::typed::order_by_text;
use holdfast_writes::{Change, Error, FieldValidation, Patch};

use crate::http::negotiation::PatchType;
use crate::http::options::PatchOptions;

/// Reads the body of a PATCH.
///
/// # Errors
/// If the body of an apply is no configuration (400). Errors of other patches are reported when the change is applied.
pub(crate) fn read(bytes: &Bytes, patch_type: PatchType, options: &PatchOptions) -> Result<Change, Error> {
    let validation = options.write.field_validation;
    let patch = match patch_type {
        PatchType::Apply => {
            let parsed = yaml::parse_with_findings(bytes, &Limits::REQUEST);
            let parsed =
                parsed.map_err(|error| undecodable_apply(format!("error converting YAML to JSON: {error}")))?;
            let reader = "error unmarshaling JSON: while decoding JSON: json";
            return read_apply(parsed, reader, Value::json_kind, options);
        }
        PatchType::ApplyCbor => {
            let value = cbor::parse(bytes, &Limits::REQUEST).map_err(undecodable_apply)?;
            let findings = Vec::new();
            return read_apply(Parsed { value, findings }, "cbor", cbor::kind_of, options);
        }
        PatchType::Json if validation == FieldValidation::Ignore => read_untyped_json(bytes),
        PatchType::Json => read_json(bytes),
        PatchType::Merge => read_merge(bytes),
        PatchType::Strategic => read_strategic(bytes),
    };
    Ok(Change::Patch { patch, validation })
}

/// Converts the body of an apply to a configuration; errors name `reader` as their source, and the kind found by
/// `kind_of`.
fn read_apply(
    parsed: Parsed,
    reader: &str,
    kind_of: fn(&Value) -> &'static str,
    options: &PatchOptions,
) -> Result<Change, Error> {
    let Parsed { value, findings } = parsed;
    let mut applied = match value {
        Value::Map(_) => value,
        Value::Null => Value::empty_map(),
        other => {
            let found = kind_of(&other);
            return Err(undecodable_apply(format!(
                "{reader}: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    // The core group may be written as an empty name.
    if let Some(version) = applied
        .str_at(&["apiVersion"])
        .and_then(|version| version.strip_prefix('/'))
    {
        let version = SmolStr::new(version);
        applied.set_at(&["apiVersion"], Value::String(version));
    }
    Ok(Change::Apply {
        applied,
        findings: findings.iter().map(ToString::to_string).collect(),
        validation: options.write.field_validation,
        options: options.apply.clone(),
    })
}

/// Returns 400: the body of an apply is no configuration. The reference's message names YAML for every format.
fn undecodable_apply(why: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("error decoding YAML: {why}"))
}

fn read_json(bytes: &Bytes) -> Result<(Patch, Vec<String>), Error> {
    let (patch, findings) = json_patch::Patch::parse(bytes, &Limits::REQUEST).map_err(|error| match error {
        ValueError::TooManyOperations { .. } => Error::too_large_because(error),
        error => undecodable(&error),
    })?;
    let mut findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    order_by_text(&mut findings, bytes);
    let findings = findings.iter().map(|finding| format!("json patch {finding}"));
    Ok((Patch::Json(patch), findings.collect()))
}

/// Reads a patch whose fields are not validated. The reference leaves such a patch entirely to its library.
fn read_untyped_json(bytes: &Bytes) -> Result<(Patch, Vec<String>), Error> {
    let patch = json_patch::Patch::parse_untyped(bytes, &Limits::REQUEST).map_err(|error| match error {
        ValueError::TooManyOperations { .. } => Error::too_large_because(error),
        error => Error::bad_request(error.to_string()),
    })?;
    Ok((Patch::Json(patch), Vec::new()))
}

fn read_merge(bytes: &Bytes) -> Result<(Patch, Vec<String>), Error> {
    let (patch, findings) = read_map(bytes).map_err(undecodable)?;
    Ok((Patch::Merge(patch), findings))
}

fn read_strategic(bytes: &Bytes) -> Result<(Patch, Vec<String>), Error> {
    let (patch, findings) = read_map(bytes).map_err(Error::bad_request)?;
    let patch = if patch.is_null() { Value::empty_map() } else { patch };
    Ok((Patch::Strategic(patch), findings))
}

/// Reads a patch that is a map, or `null`, and the findings of strict validation.
///
/// # Errors
/// If it is neither, in the words of the reference.
fn read_map(bytes: &Bytes) -> Result<(Value, Vec<String>), String> {
    let parsed = json::parse_with_findings(bytes, &Limits::REQUEST);
    let Parsed { value, findings } = parsed.map_err(|error| error.to_string())?;
    if !matches!(value, Value::Map(_) | Value::Null) {
        let found = value.json_kind();
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ));
    }
    Ok((value, findings.iter().map(ToString::to_string).collect()))
}

/// Returns 400: the body cannot be read, in the words of all patch types except the strategic merge patch.
fn undecodable(why: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("error decoding patch: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::rejection;
    use super::*;
    use crate::http::ApiError;

    fn change(patch_type: PatchType, body: &str) -> Result<Change, ApiError> {
        Ok(read(
            &Bytes::from(body.to_owned()),
            patch_type,
            &PatchOptions::default(),
        )?)
    }

    /// Decodes a patch and returns it with the findings of strict validation.
    fn patch(patch_type: PatchType, body: &str) -> Result<(Patch, Vec<String>), ApiError> {
        match change(patch_type, body)? {
            Change::Patch { patch, .. } => Ok(patch?),
            _ => panic!("it is a patch"),
        }
    }

    fn configuration(body: &str) -> Value {
        match change(PatchType::Apply, body) {
            Ok(Change::Apply { applied, .. }) => applied,
            _ => panic!("it is a configuration"),
        }
    }

    #[test]
    fn a_configuration_is_a_map_or_nothing() {
        assert_eq!(configuration("null"), Value::empty_map());
        assert_eq!(
            rejection(change(PatchType::Apply, "[]")),
            (
                400,
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go \
                 value of type map[string]interface {}"
                    .to_owned()
            )
        );
    }

    #[test]
    fn the_core_group_may_be_written_with_its_empty_name() {
        assert_eq!(configuration("apiVersion: /v1").str_at(&["apiVersion"]), Some("v1"));
        assert_eq!(
            configuration("apiVersion: apps/v1").str_at(&["apiVersion"]),
            Some("apps/v1")
        );
    }

    #[test]
    fn a_patch_that_is_no_map_is_refused_in_the_words_of_its_type() {
        let why = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(
            rejection(patch(PatchType::Merge, "[]")),
            (400, format!("error decoding patch: {why}"))
        );
        assert_eq!(rejection(patch(PatchType::Strategic, "[]")), (400, why.to_owned()));
    }

    #[test]
    fn nothing_is_an_empty_strategic_patch() {
        let (patch, findings) = patch(PatchType::Strategic, "null").ok().unwrap();
        assert!(matches!(patch, Patch::Strategic(map) if map == Value::empty_map()) && findings.is_empty());
    }

    #[test]
    fn strict_finding_in_json_patch_is_reported() {
        let body = r#"[{"op":"add","path":"/a","value":1,"nope":1}]"#;
        let (_, findings) = patch(PatchType::Json, body).ok().unwrap();
        assert_eq!(findings, ["json patch unknown field \"[0].nope\""]);
    }

    #[test]
    fn a_json_patch_has_a_bounded_number_of_operations() {
        let operation = r#"{"op":"remove","path":"/a"}"#;
        let body = format!("[{}]", vec![operation; 10_001].join(","));
        assert_eq!(rejection(patch(PatchType::Json, &body)).0, 413);
    }
}
