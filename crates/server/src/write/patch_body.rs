//! The bodies of PATCH: from bytes to changes.

use bytes::Bytes;
use holdfast_value::{Error as ValueError, Limits, Parsed, SmolStr, Value, cbor, json, json_patch, yaml};
use holdfast_writes::typed::order_by_text;
use holdfast_writes::{Change, Error, FieldValidation, Patch};

use crate::http::negotiation::PatchType;
use crate::http::options::PatchOptions;

/// Reads the body of a PATCH.
///
/// # Errors
/// 400 where the body of an apply is no configuration. What is wrong with other patches the change tells.
pub(crate) fn read(bytes: &Bytes, patch_type: PatchType, options: &PatchOptions) -> Result<Change, Error> {
    let validation = options.write.field_validation;
    let patch = match patch_type {
        PatchType::Apply => {
            let parsed = yaml::parse_with_findings(bytes, &Limits::REQUEST);
            let parsed =
                parsed.map_err(|error| undecodable_apply(format!("error converting YAML to JSON: {error}")))?;
            return read_apply(parsed, "error unmarshaling JSON: while decoding JSON: json", options);
        }
        PatchType::ApplyCbor => {
            let value = cbor::parse(bytes, &Limits::REQUEST).map_err(undecodable_apply)?;
            return read_apply(
                Parsed {
                    value,
                    findings: Vec::new(),
                },
                "cbor",
                options,
            );
        }
        PatchType::Json if validation == FieldValidation::Ignore => read_untyped_json(bytes),
        PatchType::Json => read_json(bytes),
        PatchType::Merge => read_merge(bytes),
        PatchType::Strategic => read_strategic(bytes),
    };
    Ok(Change::Patch { patch, validation })
}

/// Makes a configuration of the body of an apply; `reader` is who refuses what is none.
fn read_apply(parsed: Parsed, reader: &str, options: &PatchOptions) -> Result<Change, Error> {
    let Parsed { value, findings } = parsed;
    let mut configuration = match value {
        Value::Map(_) => value,
        Value::Null => Value::empty_map(),
        other => {
            let found = if reader == "cbor" {
                cbor::kind_of(&other)
            } else {
                other.json_kind()
            };
            return Err(undecodable_apply(format!(
                "{reader}: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    // The core group may be written with its empty name.
    if let Some(version) = configuration
        .str_at(&["apiVersion"])
        .and_then(|version| version.strip_prefix('/'))
    {
        let version = SmolStr::new(version);
        configuration.set_at(&["apiVersion"], Value::String(version));
    }
    Ok(Change::Apply {
        configuration,
        findings: findings.iter().map(ToString::to_string).collect(),
        validation: options.write.field_validation,
        force: options.force,
    })
}

/// 400: the body of an apply is no configuration, which the reference says of YAML whatever the format is.
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

/// Reads a patch whose fields nobody validates. The reference leaves such a one to its library alone.
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

/// Reads a patch that is a map, or `null`, and what strict validation finds in it.
///
/// # Errors
/// Why it is none, in the words of the reference.
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

/// 400: what patches but strategic ones say where the body cannot be read.
fn undecodable(why: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("error decoding patch: {why}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_writes::ErrorKind;

    use super::*;

    fn read_as(patch_type: PatchType, body: &str) -> Result<Change, String> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        read(&body, patch_type, &PatchOptions::default()).map_err(|error| match error.into_parts().0 {
            ErrorKind::BadRequest(why) => why,
            _ => "no 400".to_owned(),
        })
    }

    fn patch(patch_type: PatchType, body: &str) -> Result<(Patch, Vec<String>), String> {
        match read_as(patch_type, body)? {
            Change::Patch { patch, .. } => patch,
            _ => Ok((Patch::Merge(Value::Null), vec!["no patch".to_owned()])),
        }
        .map_err(|error| format!("{:?}", error.into_parts().0))
    }

    #[test]
    fn an_apply_is_a_map_in_yaml_or_nothing() {
        let configuration = |body: &str| match read_as(PatchType::Apply, body) {
            Ok(Change::Apply {
                configuration,
                findings,
                ..
            }) => Ok((json::to_string(&configuration), findings.len())),
            Ok(_) => Err("no apply".to_owned()),
            Err(why) => Err(why),
        };
        assert_eq!(configuration("a: 1").unwrap(), (r#"{"a":1}"#.to_owned(), 0));
        assert_eq!(configuration("{a: 1, a: 2}").unwrap().1, 1);
        assert_eq!(configuration("").unwrap().0, "{}");
        assert_eq!(configuration("apiVersion: /v1").unwrap().0, r#"{"apiVersion":"v1"}"#);
        assert!(configuration("[1]").unwrap_err().contains("cannot unmarshal array"));
        assert!(configuration("a: [").unwrap_err().starts_with("error decoding YAML: "));
    }

    #[test]
    fn a_strategic_patch_of_nothing_changes_nothing_and_a_merge_patch_of_it_is_null() {
        let (read, _) = patch(PatchType::Strategic, "null").unwrap();
        assert!(matches!(read, Patch::Strategic(Value::Map(map)) if map.is_empty()));
        let (read, _) = patch(PatchType::Merge, "null").unwrap();
        assert!(matches!(read, Patch::Merge(Value::Null)));
    }

    #[test]
    fn each_type_of_patch_reports_what_it_is_not_in_its_own_words() {
        let array = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert!(patch(PatchType::Strategic, "[]").unwrap_err().contains(array));
        let why = patch(PatchType::Merge, "[]").unwrap_err();
        assert!(why.contains(&format!("error decoding patch: {array}")), "{why}");
        let why = patch(PatchType::Json, "{}").unwrap_err();
        assert!(why.contains("error decoding patch: "), "{why}");
    }

    #[test]
    fn repeated_fields_are_found_in_the_order_of_the_text() {
        let body = r#"[{"op":"add","path":"/b","value":{"z":1,"z":2}},{"op":"add","path":"/a","value":{"y":1,"y":2}}]"#;
        let (_, findings) = patch(PatchType::Json, body).unwrap();
        let lines: Vec<&str> = findings.iter().map(String::as_str).collect();
        assert!(
            lines.len() == 2 && lines[0].contains('z') && lines[1].contains('y'),
            "{lines:?}"
        );
        assert!(
            lines.iter().all(|line| line.starts_with("json patch duplicate field ")),
            "{lines:?}"
        );
    }
}
