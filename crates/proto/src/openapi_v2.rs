//! OpenAPI documents of version 2 in protobuf, as kubectl and client-go read them: the messages of
//! <https://github.com/google/gnostic> (`openapiv2/OpenAPIv2.proto`).
//!
//! The messages are a table of which member of which JSON object stands under which number. What the document may say
//! freely (defaults, enumerations, `x-…` members) stands there as YAML text.

use holdfast_value::{Value, yaml};

use crate::back_to_front::BackToFront;
use crate::wire::Wire;

/// The message of an OpenAPI document of version 2. Members that the specification does not know are left out.
pub fn openapi_v2(document: &Value) -> Vec<u8> {
    let mut out = BackToFront::with_capacity(1 << 20);
    write(&DOCUMENT, document, &mut out);
    out.as_slice().to_vec()
}

/// A JSON object and how its members stand in a message.
struct Message {
    /// The members in the order of their numbers.
    members: &'static [(&'static str, u16, Form)],
    /// The number of the first of [`TYPED`], where those are among the members; they have the highest numbers.
    typed: Option<u16>,
    /// The number of the members whose names begin with `x-`, which is the highest of all.
    extensions: Option<u16>,
}

/// The form of a member.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Flag,
    Number,
    Count,
    /// Anything, as YAML.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A map, in a message of its own: under this number a name and a message for each entry.
    Map(u16, Entry),
    /// A map in a message of its own that holds its extensions too, under number 1 or 2.
    Paths,
    Responses,
    /// One value in a message of its own, in which it stands under number 1; of several the first list.
    TextsWithin,
    SchemasWithin,
    SchemaOrFlag,
    Parameters,
    Requirements,
}

/// What stands in an entry of a map.
#[derive(Clone, Copy)]
enum Entry {
    One(&'static Message),
    Parameter,
    Response,
    Security,
}

use Form::{
    Any, Anys, Count, Flag, Many, Map, Number, One, Parameters, Paths, Requirements, Responses, SchemaOrFlag,
    SchemasWithin, Text, Texts, TextsWithin,
};

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

static DOCUMENT: Message = message(
    &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Paths),
        ("definitions", 9, Map(1, Entry::One(&SCHEMA))),
        ("parameters", 10, Map(1, Entry::Parameter)),
        ("responses", 11, Map(1, Entry::One(&RESPONSE))),
        ("security", 12, Requirements),
        ("securityDefinitions", 13, Map(1, Entry::Security)),
        ("tags", 14, Many(&TAG)),
        ("externalDocs", 15, One(&EXTERNAL_DOCS)),
    ],
    16,
);

static INFO: Message = message(
    &[
        ("title", 1, Text),
        ("version", 2, Text),
        ("description", 3, Text),
        ("termsOfService", 4, Text),
        ("contact", 5, One(&CONTACT)),
        ("license", 6, One(&LICENSE)),
    ],
    7,
);

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

static PATH_ITEM: Message = message(
    &[
        ("$ref", 1, Text),
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Parameters),
    ],
    10,
);

static OPERATION: Message = message(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("externalDocs", 4, One(&EXTERNAL_DOCS)),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Responses),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
        ("security", 12, Requirements),
    ],
    13,
);

static RESPONSE: Message = message(&[("description", 1, Text), ("schema", 2, One(&SCHEMA_ITEM))], 5);

/// A schema where the schema of a file could stand.
static SCHEMA_ITEM: Message = Message {
    members: &[("", 1, One(&SCHEMA))],
    typed: None,
    extensions: None,
};

static REFERENCE: Message = Message {
    members: &[("$ref", 1, Text), ("description", 2, Text)],
    typed: None,
    extensions: None,
};

static BODY_PARAMETER: Message = message(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    6,
);

const NAMED: &[(&str, u16, Form)] = &[
    ("required", 1, Flag),
    ("in", 2, Text),
    ("description", 3, Text),
    ("name", 4, Text),
];

/// Parameters of headers and paths.
static PARAMETER: Message = typed(NAMED, 5);

/// Parameters of queries and forms, which may be empty.
static PARAMETER_THAT_MAY_BE_EMPTY: Message = typed(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
    ],
    6,
);

static ITEMS: Message = typed(&[], 1);

/// How many members say of which type a value is.
const TYPED_MEMBERS: u16 = 17;

/// What says of which type a value is that is no object.
static TYPED: [(&str, Form); TYPED_MEMBERS as usize] = [
    ("type", Text),
    ("format", Text),
    ("items", One(&ITEMS)),
    ("collectionFormat", Text),
    ("default", Any),
    ("maximum", Number),
    ("exclusiveMaximum", Flag),
    ("minimum", Number),
    ("exclusiveMinimum", Flag),
    ("maxLength", Count),
    ("minLength", Count),
    ("pattern", Text),
    ("maxItems", Count),
    ("minItems", Count),
    ("uniqueItems", Flag),
    ("enum", Anys),
    ("multipleOf", Number),
];

static SCHEMA: Message = message(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Count),
        ("minLength", 12, Count),
        ("pattern", 13, Text),
        ("maxItems", 14, Count),
        ("minItems", 15, Count),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Count),
        ("minProperties", 18, Count),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, SchemaOrFlag),
        ("type", 22, TextsWithin),
        ("items", 23, SchemasWithin),
        ("allOf", 24, Many(&SCHEMA)),
        ("properties", 25, Map(1, Entry::One(&SCHEMA))),
        ("discriminator", 26, Text),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, One(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);

/// The types of security, by `type`, with the number of each.
const SECURITY: [(&str, u16, &Message); 2] = [
    ("basic", 1, &message(&[("type", 1, Text), ("description", 2, Text)], 3)),
    (
        "apiKey",
        2,
        &message(
            &[
                ("type", 1, Text),
                ("name", 2, Text),
                ("in", 3, Text),
                ("description", 4, Text),
            ],
            5,
        ),
    ),
];

/// Writes the message of `object`. Everything is written from the end to the beginning, so the highest number first.
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

/// Writes an entry of a map: its name, and what `value` writes, which is the field of number 2.
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

/// Writes a member; what is not there, or what proto3 takes for granted, is not written.
fn write_member(number: u16, form: Form, value: Option<&Value>, out: &mut BackToFront) {
    let Some(value) = value else { return };
    let text = |value: &Value, number: u16, out: &mut BackToFront| {
        if let Some(text) = value.as_str() {
            out.field(number, text.as_bytes());
        }
    };
    match form {
        Text if value.as_str() != Some("") => text(value, number, out),
        Texts => list(value).iter().rev().for_each(|value| text(value, number, out)),
        Flag if value.as_bool() == Some(true) => out.number(number, 1),
        Count => match value.as_i64() {
            None | Some(0) => {}
            Some(count) => out.number(number, count as u64),
        },
        Number => {
            let float = match value {
                Value::Int(number) => *number as f64,
                Value::Float(number) => *number,
                _ => 0.0,
            };
            if float != 0.0 {
                out.bytes(&float.to_le_bytes());
                out.tag(number, Wire::Fixed64);
            }
        }
        Text | Flag => {}
        Any => within(number, out, |out| write_any(value, out)),
        Anys => {
            for value in list(value).iter().rev() {
                within(number, out, |out| write_any(value, out));
            }
        }
        One(message) => within(number, out, |out| write(message, value, out)),
        Many(message) => {
            for value in list(value).iter().rev() {
                within(number, out, |out| write(message, value, out));
            }
        }
        Map(entry_number, entry) => within(number, out, |out| {
            for (name, value) in entries(value).iter().rev() {
                write_named(entry_number, name, out, |out| {
                    within(2, out, |out| write_entry(entry, value, out));
                });
            }
        }),
        Paths => within(number, out, |out| {
            for (path, item) in entries(value).iter().rev().filter(|(path, _)| path.starts_with('/')) {
                write_named(2, path, out, |out| within(2, out, |out| write(&PATH_ITEM, item, out)));
            }
            write_extensions(1, value, out);
        }),
        Responses => within(number, out, |out| {
            write_extensions(2, value, out);
            for (code, response) in entries(value).iter().rev().filter(|(code, _)| !code.starts_with("x-")) {
                write_named(1, code, out, |out| {
                    within(2, out, |out| write_entry(Entry::Response, response, out));
                });
            }
        }),
        TextsWithin => within(number, out, |out| match value.as_list() {
            Some(texts) => texts.iter().rev().for_each(|value| text(value, 1, out)),
            None => text(value, 1, out),
        }),
        SchemasWithin => within(number, out, |out| match value.as_list() {
            Some(schemas) => {
                for schema in schemas.iter().rev() {
                    within(1, out, |out| write(&SCHEMA, schema, out));
                }
            }
            None => within(1, out, |out| write(&SCHEMA, value, out)),
        }),
        SchemaOrFlag => within(number, out, |out| match value.as_bool() {
            // Of two that exclude each other the one that is meant is written, even if it says no.
            Some(flag) => out.number(2, flag.into()),
            None => within(1, out, |out| write(&SCHEMA, value, out)),
        }),
        Parameters => {
            for parameter in list(value).iter().rev() {
                within(number, out, |out| match parameter.get("$ref") {
                    Some(_) => within(2, out, |out| write(&REFERENCE, parameter, out)),
                    None => within(1, out, |out| write_entry(Entry::Parameter, parameter, out)),
                });
            }
        }
        Requirements => {
            for requirement in list(value).iter().rev() {
                within(number, out, |out| {
                    for (name, scopes) in entries(requirement).iter().rev() {
                        write_named(1, name, out, |out| {
                            within(2, out, |out| {
                                list(scopes).iter().rev().for_each(|scope| text(scope, 1, out));
                            });
                        });
                    }
                });
            }
        }
    }
}

fn write_entry(entry: Entry, value: &Value, out: &mut BackToFront) {
    match entry {
        Entry::One(message) => write(message, value, out),
        Entry::Response => match value.get("$ref") {
            Some(_) => within(2, out, |out| write(&REFERENCE, value, out)),
            None => within(1, out, |out| write(&RESPONSE, value, out)),
        },
        Entry::Parameter => {
            let (number, message) = match value.get("in").and_then(Value::as_str) {
                Some("body") => return within(1, out, |out| write(&BODY_PARAMETER, value, out)),
                Some("header") => (1, &PARAMETER),
                Some("formData") => (2, &PARAMETER_THAT_MAY_BE_EMPTY),
                Some("path") => (4, &PARAMETER),
                _ => (3, &PARAMETER_THAT_MAY_BE_EMPTY),
            };
            within(2, out, |out| within(number, out, |out| write(message, value, out)));
        }
        Entry::Security => {
            let type_name = value.get("type").and_then(Value::as_str);
            if let Some((_, number, message)) = SECURITY.iter().find(|(name, ..)| Some(*name) == type_name) {
                within(*number, out, |out| write(message, value, out));
            }
        }
    }
}

/// Writes a message as the field of that number.
fn within(number: u16, out: &mut BackToFront, write: impl FnOnce(&mut BackToFront)) {
    let end = out.len();
    write(out);
    out.close(number, end);
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
        let value = json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
        let mut out = BackToFront::default();
        write(of, &value, &mut out);
        out.as_slice().to_vec()
    }

    #[test]
    fn members_stand_under_their_numbers_and_the_rest_as_yaml() {
        let schema = r#"{"type":"string","description":"d","x-a":[1],"maxLength":0,"enum":["b"],"unknown":1}"#;
        let expected = [
            &b"\x22\x01d"[..],
            b"\xa2\x01\x04\x12\x02b\n",
            b"\xb2\x01\x08\x0a\x06string",
            b"\xfa\x01\x0d\x0a\x03x-a\x12\x06\x12\x04- 1\n",
        ];
        assert_eq!(written(&SCHEMA, schema), expected.concat());
    }

    #[test]
    fn maps_are_lists_of_names_and_values() {
        let schema = r##"{"properties":{"a":{"$ref":"#/definitions/Bee"}},"additionalProperties":false}"##;
        let expected = [
            &b"\xaa\x01\x02\x10\x00"[..],
            b"\xca\x01\x1a\x0a\x18\x0a\x01a\x12\x13\x0a\x11#/definitions/Bee",
        ];
        assert_eq!(written(&SCHEMA, schema), expected.concat());
    }

    #[test]
    fn parameters_are_of_the_sort_that_their_place_tells() {
        let operation = r##"{"parameters":[{"in":"query","name":"q","type":"string"},{"in":"path","name":"p","type":"string"},
            {"in":"body","name":"b","schema":{}},{"$ref":"#/parameters/r"}],"responses":{"200":{"description":"OK"}}}"##;
        let expected = [
            // A parameter that is not the body, of a query: its type is number 6.
            &b"\x42\x18\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string"[..],
            // Of a path: number 5.
            b"\x42\x17\x0a\x15\x12\x13\x22\x11\x12\x04path\x22\x01p\x2a\x06string",
            b"\x42\x0f\x0a\x0d\x0a\x0b\x12\x01b\x1a\x04body\x2a\x00",
            b"\x42\x12\x12\x10\x0a\x0e#/parameters/r",
            b"\x4a\x0f\x0a\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK",
        ];
        assert_eq!(written(&OPERATION, operation), expected.concat());
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
        assert_eq!(written(&DOCUMENT, document), expected.concat());
    }
}
