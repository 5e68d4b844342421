//! Reading of the documents that clients send. Unknown fields are errors: a misspelled option must not change what a
//! request does.

use bytes::Bytes;
use holdfast_value::{Limits, Map, Value, json, yaml};

use super::API_VERSION;
use crate::http::ApiError;
use crate::http::negotiation::Format;

/// Maximum number of different texts for one field in messages.
const NAMED_FIELDS: usize = 20;

/// Parses the body of a POST: a document of `kind`.
///
/// # Errors
/// 400 if the body is no document of this kind, 415 if its format is not supported.
pub(super) fn parse(body: &Bytes, format: Format, kind: &str) -> Result<Value, ApiError> {
    let parsed = match format {
        Format::Json => json::parse(body, &Limits::REQUEST),
        Format::Yaml => yaml::parse(body, &Limits::REQUEST),
        Format::Cbor | Format::Protobuf => {
            let supported = ["application/json", "application/yaml"];
            return Err(ApiError::unsupported_body_type(&supported));
        }
    };
    let document = parsed.map_err(|error| invalid("the body", error))?;
    let stated = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
    if stated != (Some(API_VERSION), Some(kind)) {
        return Err(invalid("the body", format!("it must be a {kind} of {API_VERSION}")));
    }
    Ok(document)
}

/// Returns 400: part of the body is invalid.
pub(super) fn invalid(subject: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("{subject} is invalid: {why}"))
}

/// Fields of a map in the document.
pub(super) struct Fields<'a> {
    map: &'a Map,
    /// Path of the map in messages.
    path: String,
}

impl<'a> Fields<'a> {
    /// Returns the fields of a map that has no other fields than `known`.
    ///
    /// # Errors
    /// 400 if `value` is no map or has another field.
    pub(super) fn new(value: Option<&'a Value>, path: impl Into<String>, known: &[&str]) -> Result<Self, ApiError> {
        let path = path.into();
        let Some(map) = value.and_then(Value::as_map) else {
            return Err(invalid(&path, "it must be an object"));
        };
        let names = map.iter().map(|(name, _)| name.as_str());
        let unknown: Vec<&str> = names.filter(|name| !known.contains(name)).take(NAMED_FIELDS).collect();
        match unknown.is_empty() {
            true => Ok(Self { map, path }),
            false => Err(invalid(&path, format!("unknown fields: {}", unknown.join(", ")))),
        }
    }

    /// Returns the path of a field.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// Returns a field that is not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text; empty if the field is missing.
    ///
    /// # Errors
    /// 400 if it is no text.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, ApiError> {
        let Some(value) = self.get(name) else { return Ok("") };
        let text = value.as_str();
        text.ok_or_else(|| invalid(&self.path(name), "it must be a string"))
    }

    /// Returns a text that is not empty.
    ///
    /// # Errors
    /// 400 if it is missing or no text.
    pub(super) fn required_text(&self, name: &str) -> Result<&'a str, ApiError> {
        match self.text(name)? {
            "" => Err(invalid(&self.path(name), "it is required")),
            text => Ok(text),
        }
    }

    /// Returns a boolean; false if the field is missing.
    ///
    /// # Errors
    /// 400 if it is no boolean.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let Some(value) = self.get(name) else { return Ok(false) };
        let flag = value.as_bool();
        flag.ok_or_else(|| invalid(&self.path(name), "it must be a boolean"))
    }

    /// Returns a list of at least one and at most `limit` items.
    ///
    /// # Errors
    /// 400 if it is no list or empty, 413 if it has too many items.
    pub(super) fn items(&self, name: &str, limit: usize) -> Result<&'a [Value], ApiError> {
        let list = self.get(name).and_then(Value::as_list);
        let items: &[Value] = list.ok_or_else(|| invalid(&self.path(name), "it must be a list"))?;
        match items.len() {
            0 => Err(invalid(&self.path(name), "it is empty")),
            count if count > limit => Err(ApiError::too_large_because(format!(
                "{} has {count} items, and the limit is {limit}",
                self.path(name)
            ))),
            _ => Ok(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
    }

    #[test]
    fn document_of_another_kind_is_rejected() {
        let parse = |text: &str, format| {
            parse(&Bytes::from(text.to_owned()), format, "Diff").map_err(|error| error.code().as_u16())
        };
        assert!(parse(r#"{"apiVersion":"holdfast.dev/v1","kind":"Diff"}"#, Format::Json).is_ok());
        assert!(parse("apiVersion: holdfast.dev/v1\nkind: Diff", Format::Yaml).is_ok());
        for (text, format, code) in [
            (r#"{"apiVersion":"holdfast.dev/v1","kind":"Other"}"#, Format::Json, 400),
            ("[]", Format::Json, 400),
            ("{", Format::Json, 400),
            ("", Format::Cbor, 415),
        ] {
            assert_eq!(parse(text, format).err(), Some(code), "{text}");
        }
    }

    #[test]
    fn misspelled_and_mistyped_fields_are_rejected() {
        let spec = tree("{force: 1, name: x, many: [1, 2], none: []}");
        let known = ["force", "name", "many", "none"];
        let why = |error: ApiError| error.status().message.clone();
        let unknown = Fields::new(Some(&spec), "spec", &known[1..]).err().map(why);
        assert_eq!(unknown.as_deref(), Some("spec is invalid: unknown fields: force"));
        assert!(Fields::new(None, "spec", &known).is_err());
        let fields = Fields::new(Some(&spec), "spec", &known).ok().unwrap();
        assert_eq!(fields.text("name").ok(), Some("x"));
        assert!(fields.flag("force").is_err() && fields.text("many").is_err());
        assert!(fields.required_text("missing").is_err() && !fields.flag("missing").unwrap());
        assert_eq!(fields.items("many", 2).map(<[_]>::len).ok(), Some(2));
        assert_eq!(
            fields.items("many", 1).err().map(|error| error.code().as_u16()),
            Some(413)
        );
        assert!(fields.items("none", 2).is_err() && fields.items("name", 2).is_err());
    }
}
