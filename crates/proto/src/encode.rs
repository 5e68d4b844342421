use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_schema::types::{Field, Scalar, Shape, TypeId, TypeKind, write_fields_v1};
use holdfast_value::{Map, SmolStr, Value, json};

use crate::back_to_front::BackToFront;
use crate::layout::{Holds, Nodes};
use crate::wire::Wire;
use crate::{EncodeError, Messages};

impl Messages {
    /// Appends the message of `value`, a tree of the type `of`, to `out`. Fields that the type does not have are
    /// skipped, including `apiVersion` and `kind`, which are in the [`Envelope`](crate::Envelope).
    ///
    /// # Errors
    /// Fails if `value` does not fit its type; `out` is then unchanged.
    pub fn encode(&self, of: TypeId, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut encoder = Encoder {
            messages: self,
            out: BackToFront::with_capacity(4096),
            held: Vec::with_capacity(128),
            text: Vec::new(),
        };
        encoder.message(of, value)?;
        out.extend_from_slice(encoder.out.as_slice());
        Ok(())
    }
}

static NULL: Value = Value::Null;

impl<'m> Encoder<'m, '_> {
    /// Creates an encoder that writes before the bytes in `out`.
    pub(crate) fn new(messages: &'m Messages, out: BackToFront) -> Self {
        Self {
            messages,
            out,
            held: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Returns the bytes written so far.
    pub(crate) fn into_bytes(self) -> BackToFront {
        self.out
    }
}

pub(crate) struct Encoder<'m, 'v> {
    messages: &'m Messages,
    out: BackToFront,
    /// Field values of the enclosing messages, the innermost message last.
    held: Vec<Option<&'v Value>>,
    /// Buffer for JSON before it is copied to `out`, kept for reuse.
    text: Vec<u8>,
}

impl<'v> Encoder<'_, 'v> {
    /// Writes the fields of a message, without its tag and length.
    fn message(&mut self, of: TypeId, value: &'v Value) -> Result<(), EncodeError> {
        let messages = self.messages;
        match (&messages.types().get(of).kind, value) {
            (TypeKind::Scalar(scalar), _) => self.scalar(*scalar, value),
            (TypeKind::Struct(fields), Value::Map(map)) => self.fields(of, fields, map),
            (TypeKind::Struct(fields), Value::Null) => self.fields(of, fields, &[]),
            (TypeKind::Struct(_), _) => Err(mismatch(value, "object")),
        }
    }

    /// Finds the value of each field in a parallel walk over entries and fields, both sorted by name.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn fields(&mut self, of: TypeId, fields: &[Field], entries: &'v [(SmolStr, Value)]) -> Result<(), EncodeError> {
        let base = self.held.len();
        let mut ahead = fields;
        for (key, value) in entries {
            let skipped = ahead.partition_point(|field| field.name < *key);
            self.held.resize(self.held.len() + skipped, None);
            ahead = &ahead[skipped..];
            if let [field, rest @ ..] = ahead
                && field.name == *key
            {
                self.held.push((!value.is_null()).then_some(value));
                ahead = rest;
            }
        }
        self.held.resize(base + fields.len(), None);
        self.nodes(&self.messages.of_type(of), fields, base)?;
        self.held.truncate(base);
        Ok(())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn nodes(&mut self, nodes: &Nodes, fields: &[Field], base: usize) -> Result<(), EncodeError> {
        let messages = self.messages;
        for node in messages.nodes(nodes).iter().rev() {
            match &node.holds {
                Holds::Field(at) => {
                    let at = usize::from(*at);
                    self.field(node.number, &fields[at], self.held[base + at])?;
                }
                Holds::Inlined(inner) => {
                    let end = self.out.len();
                    self.nodes(inner, fields, base)?;
                    self.out.close(node.number, end);
                }
            }
        }
        Ok(())
    }

    /// Writes a field with its tag, if it has a form when it is not set.
    pub(crate) fn field(&mut self, number: u16, field: &Field, value: Option<&'v Value>) -> Result<(), EncodeError> {
        match (&field.shape, value) {
            (Shape::List(item), Some(Value::List(list))) => {
                for value in list.iter().rev() {
                    self.value(number, item, value)?;
                }
            }
            (Shape::Map(of), Some(Value::Map(map))) => self.map(number, of, map)?,
            (Shape::List(_) | Shape::Map(_) | Shape::Bytes, None) => {}
            (_, None) if field.pointer => {}
            (shape, value) => self.value(number, shape, value.unwrap_or(&NULL))?,
        }
        Ok(())
    }

    fn map(&mut self, number: u16, of: &Shape, map: &'v Map) -> Result<(), EncodeError> {
        for (key, value) in map.iter().rev() {
            let end = self.out.len();
            match (of, value) {
                (Shape::Bytes, Value::Null) => {}
                (Shape::List(item), Value::List(list)) => {
                    // A list cannot be the value of a map entry directly: it is a message with the items in field 1.
                    let end = self.out.len();
                    for value in list.iter().rev() {
                        self.value(1, item, value)?;
                    }
                    self.out.close(2, end);
                }
                (Shape::List(_), Value::Null) => self.out.field(2, &[]),
                _ => self.value(2, of, value)?,
            }
            self.out.field(1, key.as_bytes());
            self.out.close(number, end);
        }
        Ok(())
    }

    /// Writes one value with its tag; `null` is the zero value.
    pub(crate) fn value(&mut self, number: u16, shape: &Shape, value: &'v Value) -> Result<(), EncodeError> {
        match (shape, value) {
            (Shape::String, Value::String(text)) => self.out.field(number, text.as_bytes()),
            (Shape::String | Shape::Bytes, Value::Null) => self.out.field(number, &[]),
            (Shape::Bool, Value::Bool(flag)) => self.out.number(number, u64::from(*flag)),
            (Shape::Int64, Value::Int(integer)) => self.out.number(number, integer.cast_unsigned()),
            (Shape::Int32, Value::Int(integer)) if i32::try_from(*integer).is_ok() => {
                self.out.number(number, integer.cast_unsigned());
            }
            (Shape::Bool | Shape::Int32 | Shape::Int64, Value::Null) => self.out.number(number, 0),
            (Shape::Double, _) => {
                self.out.bytes(&double(value)?.to_le_bytes());
                self.out.tag(number, Wire::Fixed64);
            }
            (Shape::Bytes, Value::String(text)) => {
                let end = self.out.len();
                self.base64(text)?;
                self.out.close(number, end);
            }
            (Shape::Ref(of), _) => {
                let end = self.out.len();
                self.message(*of, value)?;
                self.out.close(number, end);
            }
            (Shape::String, _) => return Err(mismatch(value, "string")),
            (Shape::Bytes, _) => return Err(mismatch(value, "[]uint8")),
            (Shape::Bool, _) => return Err(mismatch(value, "bool")),
            (Shape::Int32, _) => return Err(mismatch(value, "int32")),
            (Shape::Int64, _) => return Err(mismatch(value, "int64")),
            (Shape::List(_), _) => return Err(mismatch(value, "array")),
            (Shape::Map(_), _) => return Err(mismatch(value, "map")),
            (Shape::Any, _) => return Err(EncodeError::NoMessage("a free value".into())),
        }
        Ok(())
    }

    fn base64(&mut self, text: &str) -> Result<(), EncodeError> {
        write_base64(text, &mut self.out).ok_or(EncodeError::Mismatch {
            expected: "[]uint8",
            found: "string",
        })
    }

    /// Writes the fields of a type with its own encoding.
    fn scalar(&mut self, scalar: Scalar, value: &'v Value) -> Result<(), EncodeError> {
        match (scalar, value) {
            (Scalar::Quantity, Value::String(text)) => self.out.field(1, text.as_bytes()),
            (Scalar::Quantity, Value::Null) => self.out.field(1, b"0"),
            (Scalar::IntOrString, Value::Int(number)) if i32::try_from(*number).is_ok() => {
                write_int_or_string(*number, &mut self.out);
            }
            (Scalar::IntOrString, Value::Null) => write_int_or_string(0, &mut self.out),
            (Scalar::IntOrString, Value::String(text)) => write_string_or_int(text, &mut self.out),
            (Scalar::Time, Value::String(text)) => self.time(text, Precision::Seconds)?,
            (Scalar::MicroTime, Value::String(text)) => self.time(text, Precision::Micros)?,
            (Scalar::JsonSchemaOrBool, Value::Bool(allowed)) => self.out.number(1, u64::from(*allowed)),
            (Scalar::JsonSchemaOrBool, Value::Null) => self.out.number(1, 0),
            (Scalar::JsonSchemaOrBool, Value::Map(_)) => {
                self.json_schema(2, value)?;
                self.out.number(1, 1);
            }
            (Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray, Value::Map(_)) => {
                self.json_schema(1, value)?;
            }
            (Scalar::JsonSchemaOrArray, Value::List(list)) => {
                for schema in list.iter().rev() {
                    self.json_schema(2, schema)?;
                }
            }
            (Scalar::JsonSchemaOrStringArray, Value::List(list)) => {
                for text in list.iter().rev() {
                    self.value(2, &Shape::String, text)?;
                }
            }
            (
                Scalar::Time
                | Scalar::MicroTime
                | Scalar::RawExtension
                | Scalar::FieldsV1
                | Scalar::Json
                | Scalar::JsonSchemaOrArray
                | Scalar::JsonSchemaOrStringArray,
                Value::Null,
            ) => {}
            (Scalar::FieldsV1, _) => {
                self.text.clear();
                write_fields_v1(value, &mut self.text);
                self.out.field(1, &self.text);
            }
            (Scalar::RawExtension, _) => self.out.field(1, &json::text_of(value)),
            (Scalar::Json, _) => {
                self.text.clear();
                json::write(value, &mut self.text);
                self.out.field(1, &self.text);
            }
            (Scalar::Patch, _) => return Err(EncodeError::NoMessage("Patch".into())),
            (other, _) => return Err(mismatch(value, other.name())),
        }
        Ok(())
    }

    fn time(&mut self, text: &str, precision: Precision) -> Result<(), EncodeError> {
        write_time(text, precision, &mut self.out).ok_or(EncodeError::Mismatch {
            expected: "time",
            found: "string",
        })
    }

    fn json_schema(&mut self, number: u16, value: &'v Value) -> Result<(), EncodeError> {
        let json_schema = self.messages.types().json_schema();
        let schema = json_schema.ok_or_else(|| EncodeError::NoMessage("JSONSchemaProps".into()))?;
        self.value(number, &Shape::Ref(schema), value)
    }
}

/// Writes the message of a number where a text is possible.
pub(crate) fn write_int_or_string(number: i64, out: &mut BackToFront) {
    out.field(3, &[]);
    out.number(2, number.cast_unsigned());
    out.number(1, 0);
}

/// Writes the message of a text where a number is possible.
pub(crate) fn write_string_or_int(text: &str, out: &mut BackToFront) {
    out.field(3, text.as_bytes());
    out.number(2, 0);
    out.number(1, 1);
}

/// Writes the message of a time. `None` if the text is not a time.
pub(crate) fn write_time(text: &str, precision: Precision, out: &mut BackToFront) -> Option<()> {
    let time = Timestamp::parse(text, precision).ok()?;
    let nanos = match precision {
        _ if time == Timestamp::ZERO => return Some(()),
        Precision::Seconds => 0,
        Precision::Micros => u64::from(time.nanos / 1000 * 1000),
    };
    out.number(2, nanos);
    out.number(1, time.seconds.cast_unsigned());
    Some(())
}

/// Writes the bytes that a text in base64 represents. `None` if it is not base64.
pub(crate) fn write_base64(text: &str, out: &mut BackToFront) -> Option<()> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let length = (text.len() / 4 * 3).saturating_sub(padding);
    let decoded = STANDARD.decode_slice(text, out.room(length)).ok()?;
    (decoded == length).then_some(())
}

fn double(value: &Value) -> Result<f64, EncodeError> {
    match value {
        Value::Null => Ok(0.0),
        Value::Int(number) => Ok(*number as f64),
        Value::UInt(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        _ => Err(mismatch(value, "float64")),
    }
}

fn mismatch(value: &Value, expected: &'static str) -> EncodeError {
    let found = value.json_kind();
    EncodeError::Mismatch { expected, found }
}
