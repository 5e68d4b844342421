//! CBOR reader and writer (RFC 8949) with the rules of kube-apiserver (KEP-4222).
//!
//! The writer encodes strings as byte strings, floats in their shortest form, and the whole item in the tag that
//! identifies CBOR. The reader also accepts text strings, indefinite lengths and tags. It rejects maps that repeat a
//! key, and values without a JSON form (NaN, infinities, integers beyond 64 bits).

mod read;
mod write;

use crate::error::Error;
use crate::limits::Limits;
use crate::tree::Value;

pub use write::{write, write_item, write_list_head, write_map_head};

/// Prefix of all CBOR output, which distinguishes it from other formats: the head of tag 55799.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// Reads bytes that contain one data item.
///
/// ```
/// use holdfast_value::{Limits, Value, cbor};
///
/// let mut bytes = Vec::new();
/// cbor::write(&Value::Int(1), &mut bytes);
/// assert_eq!(bytes, [0xd9, 0xd9, 0xf7, 0x01]);
/// assert_eq!(cbor::parse(&bytes, &Limits::REQUEST)?, Value::Int(1));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
///
/// # Errors
/// Returns the message of the reference's library, or an error of the exceeded limit.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    limits.check_bytes(bytes.len())?;
    read::Reader::new(bytes, limits).read()
}

/// Returns the name of a value's type in the errors of the reference's library.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Bool(_) | Value::Float(_) => "primitives",
        Value::Int(number) if *number < 0 => "negative integer",
        Value::Int(_) | Value::UInt(_) => "positive integer",
        Value::String(_) => "byte string",
        Value::List(_) => "array",
        Value::Map(_) => "map",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    fn parsed(bytes: &[u8]) -> Result<String, String> {
        let value = parse(bytes, &Limits::REQUEST).map_err(|error| error.to_string())?;
        Ok(json::to_string(&value))
    }

    fn written(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&json::parse(text.as_bytes(), &Limits::REQUEST).unwrap(), &mut bytes);
        bytes
    }

    #[test]
    fn objects_are_written_as_the_reference_writes_them() {
        assert_eq!(
            written(r#"{"type":"x","n":[1,-1,300,1.5,true,null]}"#),
            b"\xd9\xd9\xf7\xa2\x41n\x86\x01\x20\x19\x01\x2c\xf9\x3e\x00\xf5\xf6\x44type\x41x"
        );
        let float = written("1.1");
        assert_eq!(float.len(), SELF_DESCRIBED.len() + 9);
    }

    #[test]
    fn strings_may_be_of_either_kind_in_parts_and_tagged() {
        for (bytes, text) in [
            (&b"\x61x"[..], r#""x""#),
            (b"\x41x", r#""x""#),
            (b"\x41\xff", "\"\u{fffd}\""),
            (b"\x7f\x61x\x61y\xff", r#""xy""#),
            (b"\x5f\x41x\x41y\xff", r#""xy""#),
            (b"\xd5\x42\xff\xfe", r#""__4""#),
            (b"\xd6\x42\xff\xfe", r#""//4=""#),
            (b"\xd7\x42\xff\xfe", r#""fffe""#),
            (b"\xd6\x82\x41\xff\x61x", r#"["/w==","x"]"#),
            (b"\xd8\x63\x61x", r#""x""#),
            (b"\xc0\x742020-01-01T00:00:00Z", r#""2020-01-01T00:00:00Z""#),
            (b"\xc1\x05", r#""1970-01-01T00:00:05Z""#),
        ] {
            assert_eq!(parsed(bytes).as_deref(), Ok(text), "{bytes:x?}");
        }
    }

    #[test]
    fn containers_of_either_length_are_the_same() {
        assert_eq!(parsed(b"\x9f\x01\x02\xff"), parsed(b"\x82\x01\x02"));
        assert_eq!(parsed(b"\xbf\x61a\x01\x61b\x02\xff"), parsed(b"\xa2\x41b\x02\x41a\x01"));
    }

    #[test]
    fn errors_match_reference_messages() {
        let deep = vec![0x81; 600];
        for (bytes, error) in [
            (&b""[..], "EOF"),
            (b"\x82\x01", "unexpected EOF"),
            (b"\x5a\xff\xff\xff\xff", "unexpected EOF"),
            (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "unexpected EOF"),
            (b"\x01\x00", "cbor: 1 bytes of extraneous data starting at index 1"),
            (b"\xff", "cbor: unexpected \"break\" code"),
            (
                b"\x1c",
                "cbor: invalid additional information 28 for type positive integer",
            ),
            (b"\xdf", "cbor: invalid additional information 31 for type tag"),
            (b"\x61\xff", "cbor: invalid UTF-8 string"),
            (
                b"\xf9\x7e\x00",
                "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN",
            ),
            (
                b"\xf9\x7c\x00",
                "cbor: data item of cbor type primitives is not accepted by protocol: floating-point infinity",
            ),
            (
                b"\xf7",
                "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
            ),
            (
                b"\xc2\x41\x01",
                "cbor: data item of cbor type tag is not accepted by protocol: bignum",
            ),
            (
                b"\xa2\x41a\x01\x61a\x02",
                "cbor: found duplicate map key \"a\" at map element index 1",
            ),
            (
                b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
                "cbor: cannot unmarshal positive integer into Go value of type int64 (18446744073709551615 overflows Go's int64)",
            ),
            (
                b"\xa1\x01\x02",
                "cbor: cannot unmarshal positive integer into Go value of type string",
            ),
            (&deep, "cbor: exceeded max nested level 512"),
        ] {
            assert_eq!(parsed(bytes), Err(error.to_owned()), "{bytes:x?}");
        }
    }

    #[test]
    fn many_values_in_few_bytes_are_rejected() {
        let mut bytes = vec![0x9f];
        bytes.extend(std::iter::repeat_n(0x80, Limits::REQUEST.max_nodes + 1));
        bytes.push(0xff);
        assert!(parsed(&bytes).unwrap_err().starts_with("more than"));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>()
                .prop_filter("finite", |number| number.is_finite())
                .prop_map(Value::Float),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".{0,8}".prop_map(smol_str::SmolStr::from), inner), 0..8)
                    .prop_map(|entries| Value::Map(crate::tree::Map::from_unsorted(entries))),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_cbor_reads_back(value in values()) {
            let mut bytes = Vec::new();
            write(&value, &mut bytes);
            prop_assert_eq!(parse(&bytes, &Limits::REQUEST).unwrap(), value);
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, &Limits::REQUEST);
        }
    }
}
