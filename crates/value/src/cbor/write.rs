//! CBOR writer.

use std::convert::Infallible;

use ciborium_io::Write;
use ciborium_ll::{Encoder, Header, simple};

use super::SELF_DESCRIBED;
use crate::tree::Value;

/// Writes a tree as CBOR with the tag that identifies it.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    write_item(value, out);
}

/// Writes a tree as one data item.
pub fn write_item(value: &Value, out: &mut Vec<u8>) {
    let Ok(()) = item(value, &mut Encoder::from(Out(out)));
}

/// Writes the head of a list; its `length` items follow.
pub fn write_list_head(length: usize, out: &mut Vec<u8>) {
    let Ok(()) = Encoder::from(Out(out)).push(Header::Array(Some(length)));
}

/// Writes the head of a map; its `length` entries follow, each a key and a value.
pub fn write_map_head(length: usize, out: &mut Vec<u8>) {
    let Ok(()) = Encoder::from(Out(out)).push(Header::Map(Some(length)));
}

/// Writer to memory, which never fails.
struct Out<'a>(&'a mut Vec<u8>);

impl Write for Out<'_> {
    type Error = Infallible;

    fn write_all(&mut self, data: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn item(value: &Value, encoder: &mut Encoder<Out<'_>>) -> Result<(), Infallible> {
    match value {
        Value::Null => encoder.push(Header::Simple(simple::NULL)),
        Value::Bool(true) => encoder.push(Header::Simple(simple::TRUE)),
        Value::Bool(false) => encoder.push(Header::Simple(simple::FALSE)),
        Value::Int(number) => encoder.push(match u64::try_from(*number) {
            Ok(number) => Header::Positive(number),
            // The encoding inverts the bits of a negative number.
            Err(_) => Header::Negative(!number.cast_unsigned()),
        }),
        Value::UInt(number) => encoder.push(Header::Positive(*number)),
        Value::Float(number) => encoder.push(Header::Float(*number)),
        Value::String(text) => string(text, encoder),
        Value::List(list) => {
            encoder.push(Header::Array(Some(list.len())))?;
            list.iter().try_for_each(|value| item(value, encoder))
        }
        Value::Map(map) => {
            encoder.push(Header::Map(Some(map.len())))?;
            map.iter().try_for_each(|(key, value)| {
                string(key, encoder)?;
                item(value, encoder)
            })
        }
    }
}

fn string(text: &str, encoder: &mut Encoder<Out<'_>>) -> Result<(), Infallible> {
    encoder.push(Header::Bytes(Some(text.len())))?;
    encoder.write_all(text.as_bytes())
}
