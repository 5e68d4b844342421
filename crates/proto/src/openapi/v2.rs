//! Messages of OpenAPI version 2.

use super::Form::{
    Any, Anys, Count, Flag, Many, Map, Number, One, OrFlag, Parameters, Paths, Requirements, Responses, Text, Texts,
    TextsWithin, Within,
};
use super::{CONTACT, EXTERNAL_DOCS, Entry, Form, LICENSE, Message, TAG, message, typed};

pub(super) static DOCUMENT: Message = message(
    &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Paths(2, 1, &PATH_ITEM)),
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

pub(super) static OPERATION: Message = message(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("externalDocs", 4, One(&EXTERNAL_DOCS)),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Responses(1, Entry::OrReference(&RESPONSE, &REFERENCE))),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
        ("security", 12, Requirements),
    ],
    13,
);

static RESPONSE: Message = message(&[("description", 1, Text), ("schema", 2, One(&SCHEMA_ITEM))], 5);

/// A schema in a context that also allows the schema of a file.
static SCHEMA_ITEM: Message = Message {
    members: &[("", 1, One(&SCHEMA))],
    typed: None,
    extensions: None,
};

pub(super) static REFERENCE: Message = Message {
    members: &[("$ref", 1, Text), ("description", 2, Text)],
    typed: None,
    extensions: None,
};

pub(super) static BODY_PARAMETER: Message = message(
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
pub(super) static PARAMETER: Message = typed(NAMED, 5);

/// Parameters of queries and forms, which may be empty.
pub(super) static PARAMETER_THAT_MAY_BE_EMPTY: Message = typed(
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

/// Number of members that describe the type of a value.
pub(super) const TYPED_MEMBERS: u16 = 17;

/// Members that describe the type of a value that is not an object.
pub(super) static TYPED: [(&str, Form); TYPED_MEMBERS as usize] = [
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

pub(super) static SCHEMA: Message = message(
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
        ("additionalProperties", 21, OrFlag(Entry::One(&SCHEMA))),
        ("type", 22, TextsWithin),
        ("items", 23, Within(Entry::One(&SCHEMA))),
        ("allOf", 24, Many(&SCHEMA)),
        ("properties", 25, Map(1, Entry::One(&SCHEMA))),
        ("discriminator", 26, Text),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, One(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);

/// Security types by `type`, with their numbers.
pub(super) const SECURITY: [(&str, u16, &Message); 2] = [
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
