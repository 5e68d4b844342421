//! Decoding and encoding of messages with a table made for the tests.

use std::sync::Arc;

use crate::invariants;
use holdfast_proto::{DecodeError, EncodeError, Messages};
use holdfast_schema::types::{TypeId, TypeTable};
use holdfast_value::{Limits, Value, json};
use proptest::prelude::*;

const TYPES: &str = r#"
type a.Scalars struct
  apiVersion string -
  flag bool 1
  flagSet bool 2 pointer
  count int32 3 never
  countSet int32 4 pointer
  big int64 5
  share double 6 pointer
  text string 7
  textSet string 8 pointer
  textNever string 20 never
  bytes bytes 9
  bytesNever bytes 10 never

type a.Nested struct
  inner a.Inner 1
  innerSet a.Inner 2 pointer
  innerZero a.Inner 3 zero
  last string 4 pointer

type a.Inner struct
  name string 1
  next a.Nested 2 pointer

type a.Lists struct
  texts []string 1
  numbers []int32 2
  longs []int64 3 never
  inners []a.Inner 4
  labels {}string 5
  extra {}[]string 6
  data {}bytes 7
  limits {}a.Quantity 8

type a.Inlined struct
  name string 1
  path string 2/1 pointer
  size int32 2/3/1
  kind string 2/3/2
  verbs []string 4/1
  after string 5 pointer

type a.Special struct
  time a.Time 1 never
  timeSet a.Time 2 pointer
  micro a.MicroTime 3 pointer
  quantity a.Quantity 4 pointer
  port a.IntOrString 5 pointer
  raw a.Raw 6 zero
  fields a.FieldsV1 7 pointer
  any a.JSON 8 pointer
  schema a.JSONSchemaProps 9 pointer

type a.JSONSchemaProps struct
  additional a.OrBool 1 pointer
  items a.OrArray 2 pointer
  depends {}a.OrStrings 3
  type string 4

type a.Time time
type a.MicroTime micro-time
type a.Quantity quantity
type a.IntOrString int-or-string
type a.Raw raw-extension
type a.FieldsV1 fields-v1
type a.JSON json
type a.OrBool json-schema-or-bool
type a.OrArray json-schema-or-array
type a.OrStrings json-schema-or-strings
"#;

fn messages() -> Messages {
    Messages::new(Arc::new(TypeTable::parse(TYPES).unwrap()))
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn id(messages: &Messages, of: &str) -> TypeId {
    messages.types().id(of).unwrap()
}

fn encode(of: &str, text: &str) -> Result<Vec<u8>, EncodeError> {
    let messages = messages();
    let mut out = Vec::new();
    messages.encode(id(&messages, of), &tree(text), &mut out)?;
    Ok(out)
}

fn decode(of: &str, bytes: &[u8]) -> Result<Value, DecodeError> {
    let messages = messages();
    messages.decode(id(&messages, of), bytes, &Limits::default())
}

/// Asserts that the tree encodes to these bytes, and that they decode to the tree.
#[track_caller]
fn assert_both_ways(of: &str, text: &str, bytes: &[u8]) {
    let written = encode(of, text).unwrap();
    assert_eq!(written.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    assert_eq!(decode(of, bytes), Ok(tree(text)));
}

#[test]
fn zero_scalars_and_set_pointers_are_written() {
    assert_both_ways(
        "a.Scalars",
        r#"{"count":0,"textNever":"","bytesNever":null}"#,
        b"\x08\0\x18\0\x28\0\x3a\0\xa2\x01\0",
    );
    assert_both_ways(
        "a.Scalars",
        r#"{"flagSet":false,"count":0,"countSet":0,"share":0,"textSet":"","textNever":"","bytesNever":""}"#,
        b"\x08\0\x10\0\x18\0\x20\0\x28\0\x31\0\0\0\0\0\0\0\0\x3a\0\x42\0\x52\0\xa2\x01\0",
    );
}

#[test]
fn scalars_have_the_form_of_their_types() {
    assert_both_ways(
        "a.Scalars",
        r#"{"flag":true,"count":-1,"big":9223372036854775807,"share":1.5,"text":"é","textNever":"x","bytes":"AQID","bytesNever":"/w=="}"#,
        b"\x08\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x31\0\0\0\0\0\0\xf8\x3f\x3a\x02\xc3\xa9\x4a\x03\x01\x02\x03\x52\x01\xff\xa2\x01\x01x",
    );
}

#[test]
fn structs_are_written_empty_unless_they_are_pointers() {
    assert_both_ways("a.Nested", r#"{"inner":{}}"#, b"\x0a\x02\x0a\0\x1a\x02\x0a\0");
    assert_both_ways(
        "a.Nested",
        r#"{"inner":{"name":"x","next":{"inner":{}}},"innerSet":{},"innerZero":{"name":"y"},"last":""}"#,
        b"\x0a\x0d\x0a\x01x\x12\x08\x0a\x02\x0a\0\x1a\x02\x0a\0\x12\x02\x0a\0\x1a\x03\x0a\x01y\x22\0",
    );
}

#[test]
fn lists_have_a_tag_an_item_and_maps_an_entry_a_key_in_order() {
    assert_both_ways("a.Lists", r#"{"longs":null}"#, b"");
    assert_both_ways(
        "a.Lists",
        r#"{"texts":["b","","a"],"numbers":[1,-1],"longs":[300],"inners":[{},{"name":"x"}],"labels":{"b":"","a":"1"}}"#,
        b"\x0a\x01b\x0a\0\x0a\x01a\x10\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\xac\x02\x22\x02\x0a\0\x22\x03\x0a\x01x\x2a\x06\x0a\x01a\x12\x011\x2a\x05\x0a\x01b\x12\0",
    );
    assert_both_ways(
        "a.Lists",
        r#"{"longs":null,"extra":{"k":["a","b"],"none":null},"data":{"k":"AQ==","none":""},"limits":{"cpu":"100m"}}"#,
        b"\x32\x0b\x0a\x01k\x12\x06\x0a\x01a\x0a\x01b\x32\x08\x0a\x04none\x12\0\x3a\x06\x0a\x01k\x12\x01\x01\x3a\x08\x0a\x04none\x12\0\x42\x0d\x0a\x03cpu\x12\x06\x0a\x04100m",
    );
}

#[test]
fn packed_numbers_are_read_as_well() {
    assert_eq!(
        decode("a.Lists", b"\x10\x01\x12\x03\x02\xac\x02\x1a\x01\x07"),
        Ok(tree(r#"{"numbers":[1,2,300],"longs":[7]}"#))
    );
    // An empty field makes no list.
    assert_eq!(decode("a.Lists", b"\x12\0"), decode("a.Lists", b""));
}

#[test]
fn inlined_messages_are_part_of_their_parent_in_json() {
    assert_both_ways("a.Inlined", "{}", b"\x0a\0\x12\x06\x1a\x04\x08\0\x12\0\x22\0");
    assert_both_ways(
        "a.Inlined",
        r#"{"name":"n","path":"p","size":5,"kind":"k","verbs":["get","list"],"after":"a"}"#,
        b"\x0a\x01n\x12\x0a\x0a\x01p\x1a\x05\x08\x05\x12\x01k\x22\x0b\x0a\x03get\x0a\x04list\x2a\x01a",
    );
}

#[test]
fn times_have_seconds_and_what_is_unset_has_no_bytes() {
    assert_both_ways("a.Special", r#"{"time":null}"#, b"\x0a\0\x32\0");
    assert_both_ways(
        "a.Special",
        r#"{"time":"1970-01-01T00:00:01Z","timeSet":"1969-12-31T23:59:59Z","micro":"1970-01-01T00:00:00.000012Z"}"#,
        b"\x0a\x04\x08\x01\x10\0\x12\x0d\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\0\x1a\x05\x08\0\x10\xe0\x5d\x32\0",
    );
}

#[test]
fn fractions_of_a_time_are_cut_to_what_json_shows() {
    assert_eq!(
        decode(
            "a.Special",
            b"\x0a\x08\x08\x01\x10\xff\x93\xeb\xdc\x03\x1a\x04\x08\x01\x10\x7f"
        ),
        Ok(tree(
            r#"{"time":"1970-01-01T00:00:01Z","micro":"1970-01-01T00:00:01.000000Z"}"#
        ))
    );
    let year_one = b"\x0a\x0b\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01";
    assert_eq!(decode("a.Special", year_one), Ok(tree(r#"{"time":null}"#)));
    let year_ten_thousand = b"\x0a\x07\x08\x80\x83\xd1\xff\xaf\x07";
    assert_eq!(decode("a.Special", year_ten_thousand), Err(DecodeError::TimeOutOfRange));
}

#[test]
fn quantities_and_ports_are_messages_of_their_own() {
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"quantity":"1500m","port":80}"#,
        b"\x0a\0\x22\x07\x0a\x051500m\x2a\x06\x08\0\x10\x50\x1a\0\x32\0",
    );
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"port":"http"}"#,
        b"\x0a\0\x2a\x0a\x08\x01\x10\0\x1a\x04http\x32\0",
    );
    assert_eq!(
        decode("a.Special", b"\x22\x08\x0a\x060.0010"),
        Ok(tree(r#"{"time":null,"quantity":"1m"}"#))
    );
    // As in JSON, a text that looks canonical is kept.
    for (text, read) in [
        ("+5", "+5"),
        ("000000000000800000000000000000000000000000E0000009", "800e36"),
    ] {
        let mut bytes = vec![0x22, text.len() as u8 + 2, 0x0a, text.len() as u8];
        bytes.extend(text.bytes());
        let tree = tree(&format!(r#"{{"time":null,"quantity":"{read}"}}"#));
        assert_eq!(decode("a.Special", &bytes), Ok(tree));
    }
    assert!(matches!(
        decode("a.Special", b"\x22\x03\x0a\x01x"),
        Err(DecodeError::Quantity(_))
    ));
    assert_eq!(decode("a.Special", b"\x2a\x02\x08\x02"), Err(DecodeError::IntOrString));
}

#[test]
fn free_json_is_held_as_its_text() {
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"raw":{"a":[1,null]},"fields":{"f:a":{}},"any":"x"}"#,
        b"\x0a\0\x32\x10\x0a\x0e{\"a\":[1,null]}\x3a\x0c\x0a\x0a{\"f:a\":{}}\x42\x05\x0a\x03\"x\"",
    );
    assert!(matches!(
        decode("a.Special", b"\x42\x03\x0a\x01{"),
        Err(DecodeError::Json(_))
    ));
}

#[test]
fn json_schema_alternatives_are_encoded() {
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"schema":{"additional":true,"items":[{"type":"a"},{}],"depends":{"k":["x","y"]}}}"#,
        b"\x0a\0\x32\0\x4a\x1e\x0a\x02\x08\x01\x12\x09\x12\x03\x22\x01a\x12\x02\x22\0\x1a\x0b\x0a\x01k\x12\x06\x12\x01x\x12\x01y\x22\0",
    );
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"schema":{"additional":{"type":"b"},"items":{"type":"c"},"depends":{"k":{"type":"d"}}}}"#,
        b"\x0a\0\x32\0\x4a\x1e\x0a\x07\x08\x01\x12\x03\x22\x01b\x12\x05\x0a\x03\x22\x01c\x1a\x0a\x0a\x01k\x12\x05\x0a\x03\x22\x01d\x22\0",
    );
    assert_both_ways(
        "a.Special",
        r#"{"time":null,"schema":{"additional":false,"depends":{"k":null}}}"#,
        b"\x0a\0\x32\0\x4a\x0d\x0a\x02\x08\0\x1a\x05\x0a\x01k\x12\0\x22\0",
    );
}

#[test]
fn null_bytes_in_map_have_only_a_key() {
    assert_eq!(
        encode("a.Lists", r#"{"data":{"k":null}}"#).unwrap(),
        b"\x3a\x03\x0a\x01k"
    );
    assert_eq!(
        decode("a.Lists", b"\x3a\x03\x0a\x01k"),
        Ok(tree(r#"{"longs":null,"data":{"k":""}}"#))
    );
}

#[test]
fn fields_that_the_type_has_not_are_passed_over() {
    assert_eq!(
        encode("a.Scalars", r#"{"apiVersion":"v1","aaa":1,"count":2,"zzz":[]}"#).unwrap(),
        encode("a.Scalars", r#"{"count":2}"#).unwrap()
    );
    let bytes = b"\xa0\x06\x01\x0a\x01x\xa9\x06\x01\x02\x03\x04\x05\x06\x07\x08\xaa\x06\x02ab\xad\x06\x01\x02\x03\x04\xab\x06\x08\x01\xac\x06";
    assert_eq!(decode("a.Inner", bytes), Ok(tree(r#"{"name":"x"}"#)));
}

#[test]
fn repeated_field_is_read_like_protobuf() {
    let scalars = decode("a.Nested", b"\x22\x01a\x22\x01b").unwrap();
    assert_eq!(scalars.str_at(&["last"]), Some("b"));
    let messages = decode("a.Nested", b"\x12\x03\x0a\x01a\x22\x01x\x12\x05\x12\x03\x22\x01y").unwrap();
    assert_eq!(
        messages.at(&["innerSet"]),
        Some(&tree(r#"{"name":"a","next":{"inner":{},"last":"y"}}"#))
    );
    let entries = decode("a.Lists", b"\x2a\x06\x0a\x01k\x12\x01a\x2a\x06\x0a\x01k\x12\x01b").unwrap();
    assert_eq!(entries.str_at(&["labels", "k"]), Some("b"));
}

#[test]
fn text_that_is_no_utf8_is_replaced_as_in_json() {
    assert_eq!(
        decode("a.Inner", b"\x0a\x03a\xff\xfe"),
        Ok(tree(r#"{"name":"a\ufffd\ufffd"}"#))
    );
}

#[test]
fn hostile_bytes_are_rejected() {
    let wrong = |wire, field: &str| DecodeError::WrongWireType {
        wire,
        field: field.into(),
    };
    let cases: &[(&str, &[u8], DecodeError)] = &[
        ("a.Inner", b"\x9b\x06\x0f", DecodeError::IllegalWireType(7)),
        ("a.Inner", b"\x0a", DecodeError::Truncated),
        ("a.Inner", b"\x0a\x05abc", DecodeError::Truncated),
        (
            "a.Inner",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            DecodeError::Truncated,
        ),
        (
            "a.Inner",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            DecodeError::NegativeLength,
        ),
        (
            "a.Inner",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            DecodeError::Overflow,
        ),
        ("a.Inner", b"\x08\x01", wrong(0, "Name")),
        ("a.Inlined", b"\x10\x01", wrong(0, "An inlined message")),
        ("a.Lists", b"\x0d\0\0\0\0", wrong(5, "Texts")),
        ("a.Lists", b"\x28\x01", wrong(0, "Labels")),
        ("a.Special", b"\x0a\x02\x0a\0", wrong(2, "Seconds")),
        ("a.Scalars", b"\x31\0", DecodeError::Truncated),
        (
            "a.Scalars",
            b"\x31\0\0\0\0\0\0\xf0\x7f",
            DecodeError::NotFinite(f64::INFINITY),
        ),
        ("a.Inner", b"\x0c", DecodeError::EndGroup("Inner".into())),
        ("a.Inner", b"\x9c\x06", DecodeError::EndGroup("Inner".into())),
        (
            "a.Inner",
            b"\x06",
            DecodeError::IllegalTag {
                of: "Inner".into(),
                number: 0,
                tag: 6,
            },
        ),
        ("a.Inner", b"\x0f", wrong(7, "Name")),
    ];
    for (of, bytes, error) in cases {
        assert_eq!(decode(of, bytes).as_ref(), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn bounds_are_kept() {
    let messages = messages();
    let decode = |of: &str, bytes: &[u8], limits: Limits| messages.decode(id(&messages, of), bytes, &limits);
    let limits = Limits {
        max_bytes: 4096,
        max_depth: 20,
        max_nodes: 1000,
    };
    let mut deep = Vec::new();
    for _ in 0..10 {
        deep = [&[0x12, deep.len() as u8][..], &deep].concat();
        deep = [&[0x12, deep.len() as u8][..], &deep].concat();
    }
    assert_eq!(decode("a.Nested", &deep, limits), Err(DecodeError::TooDeep));
    assert!(decode("a.Nested", &deep[2..], limits).is_ok());
    let deep_json = b"\x42\x28\x0a\x26[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]";
    assert!(matches!(
        decode("a.Special", deep_json, limits),
        Err(DecodeError::Json(_))
    ));
    let many = b"\x22\0".repeat(1000);
    assert_eq!(
        decode("a.Lists", &many, limits),
        Err(DecodeError::TooManyNodes { limit: 1000 })
    );
    let large = vec![0; 4097];
    assert_eq!(
        decode("a.Lists", &large, limits),
        Err(DecodeError::TooLarge {
            size: 4097,
            limit: 4096
        })
    );
}

#[test]
fn tree_with_wrong_type_is_rejected() {
    for (of, text) in [
        ("a.Scalars", r#"{"count":2147483648}"#),
        ("a.Scalars", r#"{"count":"1"}"#),
        ("a.Scalars", r#"{"flag":0}"#),
        ("a.Scalars", r#"{"text":1}"#),
        ("a.Scalars", r#"{"bytes":"not base64"}"#),
        ("a.Scalars", r#"{"big":18446744073709551615}"#),
        ("a.Nested", r#"{"inner":[]}"#),
        ("a.Lists", r#"{"texts":{}}"#),
        ("a.Lists", r#"{"labels":[]}"#),
        ("a.Special", r#"{"time":"yesterday"}"#),
        ("a.Special", r#"{"port":2147483648}"#),
    ] {
        assert!(encode(of, text).is_err(), "{text}");
    }
}

/// Small random number generator (xorshift), so that each run uses the same bytes.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

const SAMPLES: [(&str, &str); 5] = [
    (
        "a.Scalars",
        r#"{"flag":true,"count":-1,"big":300,"share":1.5,"text":"text","textNever":"x","bytes":"AQID"}"#,
    ),
    (
        "a.Nested",
        r#"{"inner":{"name":"x","next":{"inner":{},"innerSet":{"next":{"inner":{}}}}},"last":"z"}"#,
    ),
    (
        "a.Lists",
        r#"{"texts":["a","b"],"numbers":[1,-1],"longs":[3],"inners":[{"name":"x"}],"labels":{"a":"b"},"extra":{"k":["a"]},"data":{"k":"AQ=="},"limits":{"cpu":"1"}}"#,
    ),
    (
        "a.Inlined",
        r#"{"name":"n","path":"p","size":5,"kind":"k","verbs":["get"],"after":"a"}"#,
    ),
    (
        "a.Special",
        r#"{"time":"2026-01-01T00:00:00Z","micro":"2026-01-01T00:00:00.000012Z","quantity":"1Gi","port":"http","raw":{"a":1},"fields":{"f:a":{}},"any":[1.5],"schema":{"additional":{"items":[{"type":"a"}]},"depends":{"k":["x"]}}}"#,
    ),
];

#[test]
fn mutations_of_messages_do_no_harm() {
    let messages = messages();
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for (type_name, text) in SAMPLES {
        let type_id = id(&messages, type_name);
        let mut sample = Vec::new();
        messages.encode(type_id, &tree(text), &mut sample).unwrap();
        invariants::message(&messages, type_id, &sample);
        for _ in 0..20_000 {
            let mut bytes = sample.clone();
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(bytes.len());
                match numbers.below(5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, numbers.below(256) as u8),
                    2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
                    3 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
                    4 => bytes.extend_from_within(at..),
                    _ => {}
                }
            }
            invariants::message(&messages, type_id, &bytes);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let messages = messages();
        for (of, _) in SAMPLES {
            invariants::message(&messages, id(&messages, of), &bytes);
        }
    }

    #[test]
    fn written_message_reads_back(
        texts in prop::collection::vec(".{0,40}", 0..5),
        numbers in prop::collection::vec(any::<i32>(), 0..5),
        longs in prop::collection::vec(any::<i64>(), 1..5),
        labels in prop::collection::btree_map(".{0,10}", ".{0,200}", 0..5),
    ) {
        let messages = messages();
        let lists = id(&messages, "a.Lists");
        let mut value = Value::empty_map();
        let mut set = |name: &str, items: Vec<Value>| {
            if !items.is_empty() {
                value.set_at(&[name], Value::from(items));
            }
        };
        set("texts", texts.into_iter().map(Value::from).collect());
        set("numbers", numbers.into_iter().map(Value::from).collect());
        set("longs", longs.into_iter().map(Value::from).collect());
        for (key, text) in labels {
            value.set_at(&["labels", &key], Value::from(text));
        }
        let mut bytes = Vec::new();
        messages.encode(lists, &value, &mut bytes).unwrap();
        prop_assert_eq!(messages.decode(lists, &bytes, &Limits::default()), Ok(value));
    }
}
