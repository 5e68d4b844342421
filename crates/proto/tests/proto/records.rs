//! Messages by way of records have the bytes of messages by way of trees.

use std::path::Path;
use std::sync::Arc;

use crate::text_invariants as invariants;
use holdfast_proto::Messages;
use holdfast_schema::types::{self, Scalar, Shape, TypeId, TypeKind, TypeTable};
use holdfast_value::{Limits, Value, json};
use proptest::prelude::*;
use test_support::{needs, shared};

fn built_in() -> Messages {
    Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()))
}

/// Sequence of numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

/// Generator of documents of a type.
struct Documents<'t> {
    types: &'t TypeTable,
    random: Random,
    /// One of so many values does not fit its type or is null; none if zero.
    odd: usize,
}

const TEXTS: [&str; 8] = [
    "",
    "a",
    "name-of-eight",
    "ä\u{2028}",
    "<&>",
    "\"\\/\n\t\u{1}",
    "🦀",
    "app.kubernetes.io/name",
];

impl Documents<'_> {
    fn value(&mut self, shape: &Shape, depth: usize) -> Value {
        if self.odd > 0 && self.random.below(self.odd) == 0 {
            return match self.random.below(6) {
                0 => Value::Int(-7),
                1 => "text".into(),
                2 => Value::empty_map(),
                3 => Value::List(vec![Value::Null].into()),
                4 => Value::Float(1e300),
                _ => Value::Null,
            };
        }
        match shape {
            Shape::String => self.random.one_of(&TEXTS).into(),
            Shape::Int32 => Value::Int([0, 1, -1, 80, i64::from(i32::MAX), i64::from(i32::MIN)][self.random.below(6)]),
            Shape::Int64 => Value::Int([0, 1, -1, 300, i64::MAX, i64::MIN][self.random.below(6)]),
            Shape::Bool => Value::Bool(self.random.below(2) == 0),
            Shape::Double => [Value::Float(1.5), Value::Int(3), Value::Float(1e-7)][self.random.below(3)].clone(),
            Shape::Bytes => self.random.one_of(&["", "AQ==", "AQI=", "AQID", "/+8="]).into(),
            Shape::Any => self.free(depth),
            Shape::List(item) => {
                let items = (0..self.count(depth)).map(|_| self.value(item, depth + 1));
                Value::List(items.collect::<Vec<_>>().into())
            }
            Shape::Map(of) => {
                let mut map = Value::empty_map();
                for _ in 0..self.count(depth) {
                    let key = self.random.one_of(&TEXTS);
                    let value = self.value(of, depth + 1);
                    map.set_at(&[key], value);
                }
                map
            }
            Shape::Ref(of) => self.of_type(*of, depth),
        }
    }

    fn count(&mut self, depth: usize) -> usize {
        if depth > 12 { 0 } else { self.random.below(4) }
    }

    fn of_type(&mut self, of: TypeId, depth: usize) -> Value {
        let types = self.types;
        match &types.get(of).kind {
            TypeKind::Scalar(scalar) => self.scalar(*scalar, depth),
            TypeKind::Struct(fields) => {
                let mut object = Value::empty_map();
                for field in fields {
                    // Few deep values, so that documents end.
                    if self.random.below(if depth == 0 { 2 } else { 2 + depth }) == 0 {
                        let value = self.value(&field.shape, depth + 1);
                        object.set_at(&[&field.name], value);
                    }
                }
                if self.odd > 0 && self.random.below(self.odd * 4) == 0 {
                    object.set_at(&["unknownField"], 1.into());
                }
                object
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, depth: usize) -> Value {
        let schema = self.types.json_schema().filter(|_| depth < 12).map(Shape::Ref);
        match (scalar, self.random.below(3)) {
            (Scalar::Quantity, _) => self.random.one_of(&["0", "1500m", "2Gi"]).into(),
            (Scalar::IntOrString, 0) => "http".into(),
            (Scalar::IntOrString, _) => Value::Int(80),
            (Scalar::Time, _) => self
                .random
                .one_of(&["2026-11-29T09:58:19Z", "1969-12-31T23:59:59Z"])
                .into(),
            (Scalar::MicroTime, _) => self.random.one_of(&["2026-11-29T09:58:19.000012Z"]).into(),
            (Scalar::JsonSchemaOrBool, 0) | (Scalar::Patch, _) => Value::Bool(true),
            (Scalar::JsonSchemaOrStringArray, 0) => Value::List(vec!["a".into(), "b".into()].into()),
            (Scalar::JsonSchemaOrArray, 0) => Value::List(Vec::new().into()),
            (Scalar::JsonSchemaOrBool | Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray, _) => {
                schema.map_or_else(Value::empty_map, |schema| self.value(&schema, depth + 1))
            }
            (Scalar::FieldsV1, 0) => Value::empty_map(),
            (Scalar::FieldsV1, _) => tree(r#"{"f:spec":{"k:{\"port\":80}":{},"k:{\"port\":443}":{}}}"#),
            (Scalar::RawExtension | Scalar::Json, _) => self.free(depth),
        }
    }

    fn free(&mut self, depth: usize) -> Value {
        match self.random.below(5) {
            0 => tree(r#"{"a":[1,null,{"b":"x"}],"c":1.5}"#),
            1 if depth > 3 => "text".into(),
            2 if depth > 3 => Value::Int(1),
            _ => Value::empty_map(),
        }
    }
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

/// Checks a document in several forms of its JSON. Returns true if the stored form has a record.
fn check(messages: &Messages, of: TypeId, document: &Value) -> bool {
    let mut stored = Vec::new();
    types::write_json(messages.types(), Some(&Shape::Ref(of)), document, &mut stored);
    let mut indented = Vec::new();
    json::write_pretty(document, "  ", &mut indented);
    for text in [json::to_vec(document), indented] {
        let has_record = invariants::text(messages, of, &text);
        assert_eq!(has_record, invariants::text(messages, of, &stored));
    }
    invariants::text(messages, of, &stored)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn documents_of_any_type_are_encoded_as_trees_are(seed in 1_u64.., odd in prop_oneof![Just(0_usize), 8..200_usize]) {
        let messages = built_in();
        let mut documents = Documents { types: messages.types(), random: Random(seed), odd };
        let (mut with_record, mut all) = (0, 0);
        for (id, of) in messages.types().iter().filter(|(_, of)| matches!(of.kind, TypeKind::Struct(_))) {
            let document = documents.of_type(id, 0);
            let has_record = check(&messages, id, &document);
            let mut out = Vec::new();
            // Trees that fit their type have a record.
            if odd == 0 && messages.encode(id, &document, &mut out).is_ok() {
                prop_assert!(has_record, "{}: {document}", of.name);
            }
            with_record += usize::from(has_record);
            all += 1;
        }
        prop_assert!(odd > 0 || with_record * 10 > all * 9, "{with_record} of {all}");
    }

    #[test]
    fn mutated_text_is_encoded_as_its_tree_is(seed in 1_u64..) {
        let messages = built_in();
        let mut documents = Documents { types: messages.types(), random: Random(seed), odd: 50 };
        for name in ["io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.Secret"] {
            let kind = messages.types().id(name).unwrap();
            let mut text = json::to_vec(&documents.of_type(kind, 0));
            for _ in 0..20 {
                let at = documents.random.below(text.len());
                match documents.random.below(3) {
                    0 => text[at] = documents.random.one_of(&["\"", "\\", "{", "}", ",", "0", "\u{7f}", "n"]).as_bytes()[0],
                    1 => drop(text.remove(at)),
                    _ => text.insert(at, [b' ', 0xFF, b'1', b'"'][documents.random.below(4)]),
                }
                if text.is_empty() {
                    break;
                }
                invariants::text(&messages, kind, &text);
            }
        }
    }
}

#[test]
fn unusual_texts_have_no_record() {
    let messages = built_in();
    let pod = messages.types().id("io.k8s.api.core.v1.Pod").unwrap();
    for (text, has_record) in [
        ("{}", true),
        (" { \"spec\" : { } } \n", true),
        (r#"{"spec":null,"status":{}}"#, true),
        (r#"{"spec":{"nodeName":"a\u0041\n"}}"#, true),
        (r#"{"spec":{"nodeSelector":{"b":"1","a":"2"}}}"#, true),
        (r#"{"spec":{"nodeSelector":{"b":"1","\u0061":"2"}}}"#, true),
        (r#"{"spec":{"nodeSelector":{"a":"1","\u0061":"2"}}}"#, false),
        (r#"{"spec":{"nodeSelector":{"a":null}}}"#, false),
        (r#"{"spec":{},"spec":{}}"#, false),
        (r#"{"spec":null,"spec":{}}"#, false),
        (r#"{"spec":{"containers":[null]}}"#, false),
        (r#"{"spec":{"unknown":1}}"#, false),
        (r#"{"spec":{"node\u004eame":"a"}}"#, false),
        (r#"{"spec":{"priority":1.0}}"#, false),
        (r#"{"spec":{"priority":01}}"#, false),
        (r#"{"spec":{"priority":-0}}"#, true),
        (r#"{"spec":{"priority":2147483648}}"#, false),
        (r#"{"spec":{"priority":"1"}}"#, false),
        (r#"{"metadata":{"creationTimestamp":"yesterday"}}"#, false),
        (r#"{"spec":[]}"#, false),
        ("{}{}", false),
        ("[]", false),
        ("null", false),
        ("", false),
        (r#"{"spec":{"nodeName":"#, false),
        (r#"{"spec":{"#, false),
        (r#"{"sp"#, false),
    ] {
        assert_eq!(invariants::text(&messages, pod, text.as_bytes()), has_record, "{text}");
    }
    let invalid = b"{\"spec\":{\"nodeName\":\"\xff\"}}";
    assert!(!invariants::text(&messages, pod, invalid));
}

#[test]
fn deep_documents_have_no_record() {
    let messages = built_in();
    let schema = messages.types().json_schema().unwrap();
    let nested = |depth: usize| [r#"{"not":"#.repeat(depth), "{}".to_owned(), "}".repeat(depth)].concat();
    assert!(invariants::text(&messages, schema, nested(90).as_bytes()));
    assert!(!invariants::text(&messages, schema, nested(100).as_bytes()));
    assert!(!invariants::text(&messages, schema, nested(100_000).as_bytes()));
}

#[test]
fn field_sets_of_managers_keep_their_stored_text() {
    let messages = built_in();
    let pod = messages.types().id("io.k8s.api.core.v1.PodTemplate").unwrap();
    let set = r#"{"f:b":{},"f:a":{"k:{\"port\":443}":{},"k:{\"port\":80}":{}}}"#;
    let metadata =
        format!(r#"{{"managedFields":[{{"fieldsV1":{set}}},{{"fieldsV1":{{}}}},{{"fieldsV1":{{"f:\u0061":{{}}}}}}]}}"#);
    let text = format!(r#"{{"metadata":{metadata},"template":{{"metadata":{metadata}}}}}"#);
    assert!(invariants::text(&messages, pod, text.as_bytes()));
}

#[needs(shared)]
#[test]
fn objects_of_the_reference_have_records() {
    let messages = built_in();
    let (mut all, mut without) = (0, Vec::new());
    let mut check = |name: &str, text: &[u8]| {
        let object = json::parse(text, &Limits::TRUSTED).unwrap();
        let field = |name| object.str_at(&[name]).unwrap_or_default();
        let Some(of) = messages.types().id_of_object(field("apiVersion"), field("kind")) else {
            return;
        };
        all += 1;
        if !invariants::text(&messages, of, text) {
            without.push(name.to_owned());
        }
    };
    for entry in std::fs::read_dir(shared("facts/roundtrip")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            check(&path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
    for file in ["initial.jsonl", "objects.jsonl", "custom.jsonl"] {
        let lines = std::fs::read_to_string(Path::new(&shared("corpus/storage")).join(file)).unwrap();
        for line in lines.lines() {
            let line = tree(line);
            if let Some(object) = line.get("object") {
                check(line.str_at(&["key"]).unwrap(), &json::to_vec(object));
            }
        }
    }
    println!("{} of {all} have no record: {without:#?}", without.len());
    assert!(all > 1500, "{all}");
    assert!(without.len() * 100 < all, "{without:#?}");
}

#[test]
fn decoded_messages_have_form_of_their_type() {
    let messages = built_in();
    for (name, sent, decoded) in [
        (
            "io.k8s.api.core.v1.ResourceRequirements",
            r#"{"limits":{"cpu":"1100u","memory":"1Gi"},"requests":{"cpu":"100n"}}"#,
            r#"{"limits":{"cpu":"2m","memory":"1Gi"},"requests":{"cpu":"1m"}}"#,
        ),
        // Only amounts of the core group are rounded.
        (
            "io.k8s.api.resource.v1.CapacityRequirements",
            r#"{"requests":{"a":"100n"}}"#,
            r#"{"requests":{"a":"100n"}}"#,
        ),
    ] {
        let id = messages.types().id(name).unwrap();
        let mut message = Vec::new();
        messages.encode(id, &tree(sent), &mut message).unwrap();
        let value = messages.decode(id, &message, &Limits::REQUEST).unwrap();
        assert_eq!(value, tree(decoded), "{name}");
        let typed = types::decode(messages.types(), id, &tree(sent)).unwrap();
        assert_eq!(typed.value, value, "{name}");
    }
}
