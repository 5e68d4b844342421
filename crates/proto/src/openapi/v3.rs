//! The messages of version 3, as far as documents of Kubernetes have their members.

use super::Form::{
    Any, Anys, Count, Entries, Flag, Many, Map, Number, One, OrFlag, Paths, Requirements, ResponsesByCode, Scalar,
    Text, Texts, Within,
};
use super::{Entry, Form, Message, message};

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

static CONTACT: Message = message(&[("name", 1, Text), ("url", 2, Text), ("email", 3, Text)], 4);

static LICENSE: Message = message(&[("name", 1, Text), ("url", 2, Text)], 3);

static SERVER: Message = message(&[("url", 1, Text), ("description", 2, Text)], 4);

static TAG: Message = message(
    &[
        ("name", 1, Text),
        ("description", 2, Text),
        ("externalDocs", 3, One(&EXTERNAL_DOCS)),
    ],
    4,
);

static EXTERNAL_DOCS: Message = message(&[("description", 1, Text), ("url", 2, Text)], 3);

static COMPONENTS: Message = message(
    &[
        ("schemas", 1, Map(1, Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("responses", 2, Map(1, RESPONSE_OR_REFERENCE)),
        ("parameters", 3, Map(1, PARAMETER_OR_REFERENCE)),
        ("requestBodies", 5, Map(1, REQUEST_BODY_OR_REFERENCE)),
        ("securitySchemes", 7, Map(1, SECURITY_SCHEME_OR_REFERENCE)),
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

const SECURITY_SCHEME_OR_REFERENCE: Entry = Entry::OrReference(&SECURITY_SCHEME, &REFERENCE);

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
        ("parameters", 13, Entries(PARAMETER_OR_REFERENCE)),
    ],
    14,
);

static OPERATION: Message = message(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("externalDocs", 4, One(&EXTERNAL_DOCS)),
        ("operationId", 5, Text),
        ("parameters", 6, Entries(PARAMETER_OR_REFERENCE)),
        ("requestBody", 7, Form::Entry(REQUEST_BODY_OR_REFERENCE)),
        ("responses", 8, ResponsesByCode),
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
        ("schema", 10, Form::Entry(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("example", 11, Any),
        ("content", 13, Map(1, Entry::One(&MEDIA_TYPE))),
    ],
    14,
);

const PARAMETER_OR_REFERENCE: Entry = Entry::OrReference(&PARAMETER, &REFERENCE);

static REQUEST_BODY: Message = message(
    &[
        ("description", 1, Text),
        ("content", 2, Map(1, Entry::One(&MEDIA_TYPE))),
        ("required", 3, Flag),
    ],
    4,
);

const REQUEST_BODY_OR_REFERENCE: Entry = Entry::OrReference(&REQUEST_BODY, &REFERENCE);

static RESPONSE: Message = message(
    &[
        ("description", 1, Text),
        ("content", 3, Map(1, Entry::One(&MEDIA_TYPE))),
    ],
    5,
);

pub(super) const RESPONSE_OR_REFERENCE: Entry = Entry::OrReference(&RESPONSE, &REFERENCE);

static MEDIA_TYPE: Message = message(
    &[
        ("schema", 1, Form::Entry(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("example", 2, Any),
    ],
    5,
);

static REFERENCE: Message = Message {
    members: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    typed: None,
    extensions: None,
};

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
        ("allOf", 26, Entries(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("oneOf", 27, Entries(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("anyOf", 28, Entries(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("not", 29, One(&SCHEMA)),
        ("items", 30, Within(Entry::OrReference(&SCHEMA, &REFERENCE))),
        ("properties", 31, Map(1, Entry::OrReference(&SCHEMA, &REFERENCE))),
        (
            "additionalProperties",
            32,
            OrFlag(Entry::OrReference(&SCHEMA, &REFERENCE)),
        ),
        ("default", 33, Scalar),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);
