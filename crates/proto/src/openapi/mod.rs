//! OpenAPI documents in protobuf for kubectl and client-go: the messages of <https://github.com/google/gnostic>
//! (`openapiv2/OpenAPIv2.proto` and `openapiv3/OpenAPIv3.proto`).
//!
//! The messages are tables of the field number of each member of each JSON object. Free-form parts of the document
//! (enumerations, examples, `x-…` members) are encoded as YAML text.

mod v2;
mod v3;

use holdfast_value::{Value, yaml};

use crate::back_to_front::BackToFront;
use crate::wire::Wire;

/// Encodes an OpenAPI document of version 2. Members that are not in the specification are omitted.
pub fn openapi_v2(document: &Value) -> Vec<u8> {
    written(&v2::DOCUMENT, document)
}

/// Encodes an OpenAPI document of version 3. Members that are not in the specification are omitted.
pub fn openapi_v3(document: &Value) -> Vec<u8> {
    written(&v3::DOCUMENT, document)
}

fn written(message: &Message, document: &Value) -> Vec<u8> {
    let mut out = BackToFront::with_capacity(1 << 20);
    write(message, document, &mut out);
    out.as_slice().to_vec()
}

/// Encoding of a JSON object: its members in a message.
struct Message {
    /// Members in the order of their numbers.
    members: &'static [(&'static str, u16, Form)],
    /// Number of the first member of [`TYPED`], if the message has these members; they have the highest numbers.
    typed: Option<u16>,
    /// Number of the members whose names begin with `x-`, the highest of all.
    extensions: Option<u16>,
}

/// Encoding of a member.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Flag,
    Number,
    Count,
    /// Any value, as YAML.
    Any,
    Anys,
    /// A number, boolean or text in its own message, as field 1, 2 or 3.
    Scalar,
    One(&'static Message),
    Many(&'static Message),
    /// The value of a map entry, not within a map.
    Entry(Entry),
    Entries(Entry),
    /// A map in its own message: this number has a name and a message for each entry.
    Map(u16, Entry),
    /// Paths in their own message: the first number has the items, the second the extensions.
    Paths(u16, u16, &'static Message),
    /// Responses in their own message: this number has those of the codes, the next one the extensions. If field 1 is
    /// free, it is the response of `default`.
    Responses(u16, Entry),
    /// One value in its own message, as field 1; of several values the first list.
    TextsWithin,
    Within(Entry),
    /// The given form as field 1, or a boolean as field 2.
    OrFlag(Entry),
    Parameters,
    Requirements,
}

/// Value of a map entry.
#[derive(Clone, Copy)]
enum Entry {
    One(&'static Message),
    /// The message as field 1, or a reference as field 2.
    OrReference(&'static Message, &'static Message),
    Parameter,
    Security,
}

use Form::{
    Any, Anys, Count, Entries, Flag, Many, Map, Number, One, OrFlag, Parameters, Paths, Requirements, Responses,
    Scalar, Text, Texts, TextsWithin, Within,
};
use v2::{TYPED, TYPED_MEMBERS};

const fn message(members: &'static [(&'static str, u16, Form)], extensions: u16) -> Message {
    Message {
        members,
        typed: None,
        extensions: Some(extensions),
    }
}

const fn typed(members: &'static [(&'static str, u16, Form)], first: u16) -> Message {
    Message {
        members,
        typed: Some(first),
        extensions: Some(first + TYPED_MEMBERS),
    }
}

static CONTACT: Message = message(&[("name", 1, Text), ("url", 2, Text), ("email", 3, Text)], 4);

static LICENSE: Message = message(&[("name", 1, Text), ("url", 2, Text)], 3);

static TAG: Message = message(
    &[
        ("name", 1, Text),
        ("description", 2, Text),
        ("externalDocs", 3, One(&EXTERNAL_DOCS)),
    ],
    4,
);

static EXTERNAL_DOCS: Message = message(&[("description", 1, Text), ("url", 2, Text)], 3);

/// Writes the message of `object`. All output is written from the end to the beginning, so the highest number comes
/// first.
fn write(of: &Message, object: &Value, out: &mut BackToFront) {
    if let Some(number) = of.extensions {
        write_extensions(number, object, out);
    }
    if let Some(first) = of.typed {
        for (place, (name, form)) in (first..first + TYPED_MEMBERS).zip(&TYPED).rev() {
            write_member(place, *form, object.get(name), out);
        }
    }
    for (name, number, form) in of.members.iter().rev() {
        let value = if name.is_empty() {
            Some(object)
        } else {
            object.get(name)
        };
        write_member(*number, *form, value, out);
    }
}

fn write_extensions(number: u16, object: &Value, out: &mut BackToFront) {
    for (name, value) in entries(object).iter().rev().filter(|(name, _)| name.starts_with("x-")) {
        write_named(number, name, out, |out| {
            let end = out.len();
            write_any(value, out);
            out.close(2, end);
        });
    }
}

/// Writes an entry of a map: its name, and the output of `value`, which is field 2.
fn write_named(number: u16, name: &str, out: &mut BackToFront, value: impl FnOnce(&mut BackToFront)) {
    let end = out.len();
    value(out);
    out.field(1, name.as_bytes());
    out.close(number, end);
}

fn write_any(value: &Value, out: &mut BackToFront) {
    let mut text = Vec::new();
    yaml::write(value, &mut text);
    out.field(2, &text);
}

/// Writes a member. Missing values and proto3 defaults are not written.
fn write_member(number: u16, form: Form, value: Option<&Value>, out: &mut BackToFront) {
    let Some(value) = value else { return };
    match form {
        Text if value.as_str() != Some("") => write_text(value, number, out),
        Texts => write_texts(list(value), number, out),
        Flag if value.as_bool() == Some(true) => out.number(number, 1),
        Count => match value.as_i64() {
            None | Some(0) => {}
            Some(count) => out.number(number, count as u64),
        },
        Number => {
            if let Some(float) = float(value).filter(|float| *float != 0.0) {
                write_float(number, float, out);
            }
        }
        Text | Flag => {}
        Any => within(number, out, |out| write_any(value, out)),
        Anys => {
            for value in list(value).iter().rev() {
                within(number, out, |out| write_any(value, out));
            }
        }
        Scalar => within(number, out, |out| write_scalar(value, out)),
        One(message) => within(number, out, |out| write(message, value, out)),
        Form::Entry(entry) => within(number, out, |out| write_entry(entry, value, out)),
        Entries(entry) => {
            for value in list(value).iter().rev() {
                within(number, out, |out| write_entry(entry, value, out));
            }
        }
        Many(message) => {
            for value in list(value).iter().rev() {
                within(number, out, |out| write(message, value, out));
            }
        }
        Map(entry_number, entry) => within(number, out, |out| write_map(entry_number, entry, value, out)),
        Paths(items, extensions, item) => {
            within(number, out, |out| {
                write_paths(PathNumbers { items, extensions }, item, value, out)
            });
        }
        Responses(codes, entry) => within(number, out, |out| write_responses(codes, entry, value, out)),
        TextsWithin => within(number, out, |out| match value.as_list() {
            Some(texts) => write_texts(texts, 1, out),
            None => write_text(value, 1, out),
        }),
        Within(entry) => within(number, out, |out| match value.as_list() {
            Some(values) => {
                for value in values.iter().rev() {
                    within(1, out, |out| write_entry(entry, value, out));
                }
            }
            None => within(1, out, |out| write_entry(entry, value, out)),
        }),
        OrFlag(entry) => within(number, out, |out| match value.as_bool() {
            // Of two exclusive fields the selected one is written even if it is false.
            Some(flag) => out.number(2, flag.into()),
            None => within(1, out, |out| write_entry(entry, value, out)),
        }),
        Parameters => {
            for parameter in list(value).iter().rev() {
                within(number, out, |out| write_parameter(parameter, out));
            }
        }
        Requirements => {
            for requirement in list(value).iter().rev() {
                within(number, out, |out| write_requirement(requirement, out));
            }
        }
    }
}

fn write_map(entry_number: u16, entry: Entry, value: &Value, out: &mut BackToFront) {
    for (name, value) in entries(value).iter().rev() {
        write_named(entry_number, name, out, |out| {
            within(2, out, |out| write_entry(entry, value, out));
        });
    }
}

/// Field numbers of a message of paths.
struct PathNumbers {
    items: u16,
    extensions: u16,
}

fn write_paths(numbers: PathNumbers, item: &'static Message, value: &Value, out: &mut BackToFront) {
    let PathNumbers { items, extensions } = numbers;
    if extensions > items {
        write_extensions(extensions, value, out);
    }
    for (path, value) in entries(value).iter().rev().filter(|(path, _)| path.starts_with('/')) {
        write_named(items, path, out, |out| within(2, out, |out| write(item, value, out)));
    }
    if extensions < items {
        write_extensions(extensions, value, out);
    }
}

fn write_text(value: &Value, number: u16, out: &mut BackToFront) {
    if let Some(text) = value.as_str() {
        out.field(number, text.as_bytes());
    }
}

fn write_texts(texts: &[Value], number: u16, out: &mut BackToFront) {
    texts.iter().rev().for_each(|text| write_text(text, number, out));
}

fn write_scalar(value: &Value, out: &mut BackToFront) {
    if let Some(flag) = value.as_bool() {
        out.number(2, flag.into());
    }
    write_text(value, 3, out);
    if let Some(float) = float(value) {
        write_float(1, float, out);
    }
}

fn write_responses(codes: u16, entry: Entry, value: &Value, out: &mut BackToFront) {
    write_extensions(codes + 1, value, out);
    let default = value.get("default").filter(|_| codes > 1);
    let is_code = |name: &str| !name.starts_with("x-") && (default.is_none() || name != "default");
    for (code, response) in entries(value).iter().rev().filter(|(name, _)| is_code(name)) {
        write_named(codes, code, out, |out| {
            within(2, out, |out| write_entry(entry, response, out));
        });
    }
    if let Some(response) = default {
        within(1, out, |out| write_entry(entry, response, out));
    }
}

fn write_parameter(parameter: &Value, out: &mut BackToFront) {
    match parameter.get("$ref") {
        Some(_) => within(2, out, |out| write(&v2::REFERENCE, parameter, out)),
        None => within(1, out, |out| write_entry(Entry::Parameter, parameter, out)),
    }
}

fn write_requirement(requirement: &Value, out: &mut BackToFront) {
    for (name, scopes) in entries(requirement).iter().rev() {
        write_named(1, name, out, |out| {
            within(2, out, |out| write_texts(list(scopes), 1, out));
        });
    }
}

fn write_entry(entry: Entry, value: &Value, out: &mut BackToFront) {
    match entry {
        Entry::One(message) => write(message, value, out),
        Entry::OrReference(message, reference) => match value.get("$ref") {
            Some(_) => within(2, out, |out| write(reference, value, out)),
            None => within(1, out, |out| write(message, value, out)),
        },
        Entry::Parameter => {
            let (number, message) = match value.get("in").and_then(Value::as_str) {
                Some("body") => return within(1, out, |out| write(&v2::BODY_PARAMETER, value, out)),
                Some("header") => (1, &v2::PARAMETER),
                Some("formData") => (2, &v2::PARAMETER_THAT_MAY_BE_EMPTY),
                Some("path") => (4, &v2::PARAMETER),
                _ => (3, &v2::PARAMETER_THAT_MAY_BE_EMPTY),
            };
            within(2, out, |out| within(number, out, |out| write(message, value, out)));
        }
        Entry::Security => {
            let type_name = value.get("type").and_then(Value::as_str);
            if let Some((_, number, message)) = v2::SECURITY.iter().find(|(name, ..)| Some(*name) == type_name) {
                within(*number, out, |out| write(message, value, out));
            }
        }
    }
}

/// Writes a message as field `number`.
fn within(number: u16, out: &mut BackToFront, write: impl FnOnce(&mut BackToFront)) {
    let end = out.len();
    write(out);
    out.close(number, end);
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn write_float(number: u16, float: f64, out: &mut BackToFront) {
    out.bytes(&float.to_le_bytes());
    out.tag(number, Wire::Fixed64);
}

fn entries(value: &Value) -> &[(holdfast_value::SmolStr, Value)] {
    value.as_map().map_or(&[], |map| &map[..])
}

fn list(value: &Value) -> &[Value] {
    value.as_list().map_or(&[], |list| &list[..])
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn written(of: &Message, text: &str) -> Vec<u8> {
        super::written(of, &json::parse(text.as_bytes(), &Limits::REQUEST).unwrap())
    }

    #[test]
    fn members_have_field_numbers_and_free_form_is_yaml() {
        let schema = r#"{"type":"string","description":"d","x-a":[1],"maxLength":0,"enum":["b"],"unknown":1}"#;
        let expected = [
            &b"\x22\x01d"[..],
            b"\xa2\x01\x04\x12\x02b\n",
            b"\xb2\x01\x08\x0a\x06string",
            b"\xfa\x01\x0d\x0a\x03x-a\x12\x06\x12\x04- 1\n",
        ];
        assert_eq!(written(&v2::SCHEMA, schema), expected.concat());
    }

    #[test]
    fn maps_are_lists_of_names_and_values() {
        let schema = r##"{"properties":{"a":{"$ref":"#/definitions/Bee"}},"additionalProperties":false}"##;
        let expected = [
            &b"\xaa\x01\x02\x10\x00"[..],
            b"\xca\x01\x1a\x0a\x18\x0a\x01a\x12\x13\x0a\x11#/definitions/Bee",
        ];
        assert_eq!(written(&v2::SCHEMA, schema), expected.concat());
    }

    #[test]
    fn parameter_message_depends_on_its_location() {
        let operation = r##"{"parameters":[{"in":"query","name":"q","type":"string"},{"in":"path","name":"p","type":"string"},
            {"in":"body","name":"b","schema":{}},{"$ref":"#/parameters/r"}],"responses":{"200":{"description":"OK"}}}"##;
        let expected = [
            // A query parameter: its type is number 6.
            &b"\x42\x18\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string"[..],
            // A path parameter: number 5.
            b"\x42\x17\x0a\x15\x12\x13\x22\x11\x12\x04path\x22\x01p\x2a\x06string",
            b"\x42\x0f\x0a\x0d\x0a\x0b\x12\x01b\x1a\x04body\x2a\x00",
            b"\x42\x12\x12\x10\x0a\x0e#/parameters/r",
            b"\x4a\x0f\x0a\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK",
        ];
        assert_eq!(written(&v2::OPERATION, operation), expected.concat());
    }

    #[test]
    fn a_document_is_put_together() {
        let document = r#"{"swagger":"2.0","info":{"title":"T"},"paths":{"/a/":{"x-k":1}},"security":[{"B":[]}],
            "securityDefinitions":{"B":{"type":"apiKey","name":"n"}}}"#;
        let expected = [
            &b"\x0a\x032.0\x12\x03\x0a\x01T"[..],
            b"\x42\x16\x12\x14\x0a\x03/a/\x12\x0d\x52\x0b\x0a\x03x-k\x12\x04\x12\x021\n",
            b"\x62\x07\x0a\x05\x0a\x01B\x12\x00",
            b"\x6a\x14\x0a\x12\x0a\x01B\x12\x0d\x12\x0b\x0a\x06apiKey\x12\x01n",
        ];
        assert_eq!(written(&v2::DOCUMENT, document), expected.concat());
    }

    #[test]
    fn version_3_has_own_numbers_for_schemas_and_references() {
        let schema = r##"{"type":"string","default":"d","items":{"$ref":"#/a"},"additionalProperties":{"type":"x"}}"##;
        let expected = [
            &b"\xca\x01\x06string"[..],
            // A list of one reference.
            b"\xf2\x01\x09\x0a\x07\x12\x05\x0a\x03#/a",
            b"\x82\x02\x08\x0a\x06\x0a\x04\xca\x01\x01x",
            b"\x8a\x02\x03\x1a\x01d",
        ];
        assert_eq!(written(&v3::SCHEMA, schema), expected.concat());
        // Numbers of a default are floats; a value that is not a scalar leaves an empty message.
        assert_eq!(
            written(&v3::SCHEMA, r#"{"default":1}"#),
            b"\x8a\x02\x09\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"
        );
        assert_eq!(written(&v3::SCHEMA, r#"{"default":{}}"#), b"\x8a\x02\x00");
    }

    #[test]
    fn only_version_3_has_separate_default_response() {
        let operation = r#"{"responses":{"200":{},"default":{},"x-a":1}}"#;
        let expected = [
            &b"\x4a\x27\x0a\x09\x0a\x03200\x12\x02\x0a\x00"[..],
            b"\x0a\x0d\x0a\x07default\x12\x02\x0a\x00",
            b"\x12\x0b\x0a\x03x-a\x12\x04\x12\x021\n",
        ];
        assert_eq!(written(&v2::OPERATION, operation), expected.concat());
        let expected = [
            &b"\x42\x1c\x0a\x02\x0a\x00"[..],
            b"\x12\x09\x0a\x03200\x12\x02\x0a\x00",
            b"\x1a\x0b\x0a\x03x-a\x12\x04\x12\x021\n",
        ];
        assert_eq!(written(&v3::OPERATION, operation), expected.concat());
    }

    #[test]
    fn a_document_of_version_3_is_put_together() {
        let document = r#"{"openapi":"3.0.0","info":{"title":"T","version":"1"},"paths":{"/a/":{"get":{"responses":{
            "200":{"description":"OK","content":{"a/b":{"schema":{"type":"x"}}}}}}}},
            "components":{"schemas":{"s":{"type":"x"}}}}"#;
        let written = written(&v3::DOCUMENT, document);
        assert!(written.starts_with(b"\x0a\x053.0.0\x12\x06\x0a\x01T\x32\x011\x22"));
        assert!(written.ends_with(b"\x2a\x0f\x0a\x0d\x0a\x0b\x0a\x01s\x12\x06\x0a\x04\xca\x01\x01x"));
    }
}
