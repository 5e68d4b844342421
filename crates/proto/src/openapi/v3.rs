//! Messages of OpenAPI version 3, limited to the members of Kubernetes documents.

use super::Form::{
    Any, Anys, Count, Entries, Flag, Many, Map, Number, One, OrFlag, Paths, Requirements, Responses, Scalar, Text,
    Texts, Within,
};
use super::{CONTACT, EXTERNAL_DOCS, Entry, Form, LICENSE, Message, TAG, message};

pub(super) static DOCUMENT: Message = message(
    &[
        ("openapi", 1, Text),
        ("info", 2, One(&INFO)),
        ("servers", 3, Many(&SERVER)),
        ("paths", 4, Paths(1, 2, &PATH_ITEM)),
        ("components", 5, One(&COMPONENTS)),
        ("security", 6, Requirements),
        ("tags", 7, Many(&TAG)),
        ("externalDocs", 8, One(&EXTERNAL_DOCS)),
    ],
    9,
);

static INFO: Message = message(
    &[
        ("title", 1, Text),
        ("description", 2, Text),
        ("termsOfService", 3, Text),
        ("contact", 4, One(&CONTACT)),
        ("license", 5, One(&LICENSE)),
        ("version", 6, Text),
    ],
    7,
);

static SERVER: Message = message(&[("url", 1, Text), ("description", 2, Text)], 4);

static COMPONENTS: Message = message(
    &[
        ("schemas", 1, Map(1, or_reference(&SCHEMA))),
        ("responses", 2, Map(1, or_reference(&RESPONSE))),
        ("parameters", 3, Map(1, or_reference(&PARAMETER))),
        ("requestBodies", 5, Map(1, or_reference(&REQUEST_BODY))),
        ("securitySchemes", 7, Map(1, or_reference(&SECURITY_SCHEME))),
    ],
    10,
);

static SECURITY_SCHEME: Message = message(
    &[
        ("type", 1, Text),
        ("description", 2, Text),
        ("name", 3, Text),
        ("in", 4, Text),
        ("scheme", 5, Text),
        ("bearerFormat", 6, Text),
        ("openIdConnectUrl", 8, Text),
    ],
    9,
);

static PATH_ITEM: Message = message(
    &[
        ("$ref", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, One(&OPERATION)),
        ("put", 5, One(&OPERATION)),
        ("post", 6, One(&OPERATION)),
        ("delete", 7, One(&OPERATION)),
        ("options", 8, One(&OPERATION)),
        ("head", 9, One(&OPERATION)),
        ("patch", 10, One(&OPERATION)),
        ("trace", 11, One(&OPERATION)),
        ("servers", 12, Many(&SERVER)),
        ("parameters", 13, Entries(or_reference(&PARAMETER))),
    ],
    14,
);

pub(super) static OPERATION: Message = message(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("externalDocs", 4, One(&EXTERNAL_DOCS)),
        ("operationId", 5, Text),
        ("parameters", 6, Entries(or_reference(&PARAMETER))),
        ("requestBody", 7, Form::Entry(or_reference(&REQUEST_BODY))),
        ("responses", 8, Responses(2, or_reference(&RESPONSE))),
        ("deprecated", 10, Flag),
        ("security", 11, Requirements),
        ("servers", 12, Many(&SERVER)),
    ],
    13,
);

static PARAMETER: Message = message(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("deprecated", 5, Flag),
        ("allowEmptyValue", 6, Flag),
        ("style", 7, Text),
        ("explode", 8, Flag),
        ("allowReserved", 9, Flag),
        ("schema", 10, Form::Entry(or_reference(&SCHEMA))),
        ("example", 11, Any),
        ("content", 13, Map(1, Entry::One(&MEDIA_TYPE))),
    ],
    14,
);

static REQUEST_BODY: Message = message(
    &[
        ("description", 1, Text),
        ("content", 2, Map(1, Entry::One(&MEDIA_TYPE))),
        ("required", 3, Flag),
    ],
    4,
);

static RESPONSE: Message = message(
    &[
        ("description", 1, Text),
        ("content", 3, Map(1, Entry::One(&MEDIA_TYPE))),
    ],
    5,
);

static MEDIA_TYPE: Message = message(
    &[("schema", 1, Form::Entry(or_reference(&SCHEMA))), ("example", 2, Any)],
    5,
);

static REFERENCE: Message = Message {
    members: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    typed: None,
    extensions: None,
};

/// Returns the entry of a message or a reference to one.
const fn or_reference(message: &'static Message) -> Entry {
    Entry::OrReference(message, &REFERENCE)
}

pub(super) static SCHEMA: Message = message(
    &[
        ("nullable", 1, Flag),
        ("readOnly", 3, Flag),
        ("writeOnly", 4, Flag),
        ("externalDocs", 6, One(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("deprecated", 8, Flag),
        ("title", 9, Text),
        ("multipleOf", 10, Number),
        ("maximum", 11, Number),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Number),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Count),
        ("minLength", 16, Count),
        ("pattern", 17, Text),
        ("maxItems", 18, Count),
        ("minItems", 19, Count),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Count),
        ("minProperties", 22, Count),
        ("required", 23, Texts),
        ("enum", 24, Anys),
        ("type", 25, Text),
        ("allOf", 26, Entries(or_reference(&SCHEMA))),
        ("oneOf", 27, Entries(or_reference(&SCHEMA))),
        ("anyOf", 28, Entries(or_reference(&SCHEMA))),
        ("not", 29, One(&SCHEMA)),
        ("items", 30, Within(or_reference(&SCHEMA))),
        ("properties", 31, Map(1, or_reference(&SCHEMA))),
        ("additionalProperties", 32, OrFlag(or_reference(&SCHEMA))),
        ("default", 33, Scalar),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);
