use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_gotext::quantity::{text_of, up_to_thousandths};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_schema::types::{Field, Scalar, Shape, Type, TypeId, TypeKind};
use holdfast_value::{Entry, Limits, Map, SmolStr, Value, json};

use crate::layout::{Holds, Nodes};
use crate::wire::{Input, Tag, Wire};
use crate::{DecodeError, Messages};

impl Messages {
    /// Reads a message of the type `of` into that type's tree form. Fields that the type does not have are skipped;
    /// bytes in texts that are not UTF-8 become U+FFFD, as in JSON. The result has no `apiVersion` and `kind`, which
    /// are in the [`Envelope`](crate::Envelope).
    ///
    /// # Errors
    /// Fails if the bytes are not a message of that type, or exceed `limits`.
    pub fn decode(&self, of: TypeId, bytes: &[u8], limits: &Limits) -> Result<Value, DecodeError> {
        if bytes.len() > limits.max_bytes {
            return Err(DecodeError::TooLarge {
                size: bytes.len(),
                limit: limits.max_bytes,
            });
        }
        let mut decoder = Decoder {
            messages: self,
            limits,
            depth: 0,
            nodes: 0,
            slots: Vec::with_capacity(128),
        };
        decoder.message(of, Input::new(bytes), None)
    }
}

struct Decoder<'m> {
    messages: &'m Messages,
    limits: &'m Limits,
    /// Number of enclosing messages.
    depth: usize,
    /// Number of values read.
    nodes: usize,
    /// Values of the enclosing messages so far, one slot for each field of their types, the innermost message last.
    slots: Vec<Slot>,
}

/// Value of a field so far.
#[derive(Clone, Debug, Default)]
enum Slot {
    #[default]
    Empty,
    One(Value),
    Items(Vec<Value>),
    Entries(Vec<Entry>),
}

impl Decoder<'_> {
    /// Reads the message of a type. A second occurrence of a message is merged into the `earlier` value.
    fn message(&mut self, of: TypeId, input: Input<'_>, earlier: Option<Value>) -> Result<Value, DecodeError> {
        if self.depth == self.limits.max_depth {
            return Err(DecodeError::TooDeep);
        }
        self.count(1)?;
        self.depth += 1;
        let messages = self.messages;
        let of_type = messages.types().get(of);
        let value = match &of_type.kind {
            TypeKind::Struct(fields) => self.fields(of, fields, input, earlier),
            TypeKind::Scalar(scalar) => self.scalar(of_type, *scalar, input),
        }?;
        self.depth -= 1;
        Ok(value)
    }

    fn count(&mut self, more: usize) -> Result<(), DecodeError> {
        self.nodes += more;
        match self.nodes > self.limits.max_nodes {
            true => Err(DecodeError::TooManyNodes {
                limit: self.limits.max_nodes,
            }),
            false => Ok(()),
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn fields(
        &mut self,
        of: TypeId,
        fields: &[Field],
        input: Input<'_>,
        earlier: Option<Value>,
    ) -> Result<Value, DecodeError> {
        let base = self.slots.len();
        self.slots.resize(base + fields.len(), Slot::Empty);
        if let Some(Value::Map(map)) = earlier {
            self.take_up(fields, base, map);
        }
        let messages = self.messages;
        let nodes = messages.of_type(of);
        self.nodes(messages.types().get(of), &nodes, base, input)?;
        let read = self.slots[base..].iter().filter(|slot| !matches!(slot, Slot::Empty));
        let mut entries = Vec::with_capacity(read.count());
        let types = self.messages.types();
        for (field, slot) in fields.iter().zip(self.slots.drain(base..)) {
            let value = match slot {
                Slot::Empty => types.unset(field),
                Slot::One(Value::Null) => types.unset(field),
                Slot::One(value) => Some(value).filter(|value| !types.leaves_out(field, value)),
                Slot::Items(items) => Some(Value::from(items)),
                Slot::Entries(entries) => Some(Value::Map(Map::from_unsorted(entries))),
            };
            if let Some(value) = value {
                entries.push((field.name.clone(), value));
            }
        }
        self.count(entries.len())?;
        Ok(Value::Map(Map::from_sorted(entries)))
    }

    /// Restores the fields of a message that was read before to its slots.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn take_up(&mut self, fields: &[Field], base: usize, earlier: Map) {
        for (key, value) in earlier.into_entries() {
            let Ok(at) = fields.binary_search_by(|field| field.name.cmp(&key)) else {
                continue;
            };
            self.slots[base + at] = match (&fields[at].shape, value) {
                (Shape::List(_), Value::List(items)) => Slot::Items(items.into_items()),
                (Shape::Map(_), Value::Map(map)) => Slot::Entries(map.into_entries()),
                (_, value) => Slot::One(value),
            };
        }
    }

    /// Reads fields into the slots from `base` on.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn nodes(&mut self, of: &Type, nodes: &Nodes, base: usize, mut input: Input<'_>) -> Result<(), DecodeError> {
        let messages = self.messages;
        let (nodes, fields) = (messages.nodes(nodes), of.fields());
        let mut last = 0;
        while let Some(tag) = input.tag_of(|| of.short_name())? {
            // Field numbers arrive in order, and most occur once.
            let ahead = nodes.get(last..).unwrap_or_default();
            let near = ahead
                .iter()
                .take(4)
                .position(|node| u32::from(node.number) == tag.number);
            let found = near.map(|near| last + near).or_else(|| {
                nodes
                    .binary_search_by(|node| u32::from(node.number).cmp(&tag.number))
                    .ok()
            });
            let Some(at) = found else {
                input.skip(tag)?;
                continue;
            };
            last = at;
            match &nodes[at].holds {
                Holds::Field(at) => {
                    let at = usize::from(*at);
                    self.field(of, &fields[at], base + at, tag, &mut input)?;
                }
                Holds::Inlined(inner) => {
                    tag.expect(Wire::Bytes, "an inlined message")?;
                    self.nodes(of, inner, base, Input::new(input.bytes()?))?;
                }
            }
        }
        Ok(())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "nodes name the fields of their type, and each has a slot above the base"
    )]
    fn field(
        &mut self,
        of_type: &Type,
        field: &Field,
        slot: usize,
        tag: Tag,
        input: &mut Input<'_>,
    ) -> Result<(), DecodeError> {
        match &field.shape {
            Shape::List(item) => {
                let mut items = match std::mem::take(&mut self.slots[slot]) {
                    Slot::Items(items) => items,
                    _ => Vec::new(),
                };
                self.items(item, &field.name, tag, input, &mut items)?;
                // A packed field may be empty; the reference then makes no list.
                if !items.is_empty() {
                    self.slots[slot] = Slot::Items(items);
                }
            }
            Shape::Map(of) => {
                tag.expect(Wire::Bytes, &field.name)?;
                let mut entry = self.entry(of, &field.name, Input::new(input.bytes()?))?;
                if self.messages.is_quantity(of) && of_type.holds_amounts_of_resources() {
                    round_up(&mut entry.1);
                }
                match &mut self.slots[slot] {
                    Slot::Entries(entries) => entries.push(entry),
                    other => *other = Slot::Entries(vec![entry]),
                }
            }
            shape => {
                let earlier = match std::mem::take(&mut self.slots[slot]) {
                    Slot::One(value) => Some(value),
                    _ => None,
                };
                let value = self.value(shape, &field.name, tag, input, earlier)?;
                self.slots[slot] = Slot::One(value);
            }
        }
        Ok(())
    }

    /// Reads an item, or all items of a packed field.
    fn items(
        &mut self,
        item: &Shape,
        name: &str,
        tag: Tag,
        input: &mut Input<'_>,
        items: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let packed = wire_of(item);
        if !tag.is(Wire::Bytes) || packed == Wire::Bytes {
            self.count(1)?;
            items.push(self.value(item, name, tag, input, None)?);
            return Ok(());
        }
        let mut input = Input::new(input.bytes()?);
        let tag = tag.of_packed(packed);
        while !input.is_empty() {
            self.count(1)?;
            items.push(self.value(item, name, tag, &mut input, None)?);
        }
        Ok(())
    }

    /// Reads an entry of a map: a message with the key in field 1 and the value in field 2.
    fn entry(&mut self, of: &Shape, name: &str, mut input: Input<'_>) -> Result<Entry, DecodeError> {
        self.count(1)?;
        let mut key = SmolStr::default();
        let mut value = None;
        while let Some(tag) = input.entry_tag()? {
            match (tag.number, of) {
                (1, _) => {
                    tag.expect(Wire::Bytes, name)?;
                    key = SmolStr::new(text(input.bytes()?));
                }
                (2, Shape::List(item)) => {
                    tag.expect(Wire::Bytes, name)?;
                    value = Some(self.wrapped_list(item, name, Input::new(input.bytes()?))?);
                }
                (2, _) => value = Some(self.value(of, name, tag, &mut input, None)?),
                _ => input.skip(tag)?,
            }
        }
        let value = match (value, of) {
            (Some(value), _) => value,
            (None, Shape::Bytes) => Value::from(""),
            (None, _) => self.messages.types().zero(of),
        };
        Ok((key, value))
    }

    /// Reads a message that wraps a list in its field 1.
    fn wrapped_list(&mut self, item: &Shape, name: &str, mut input: Input<'_>) -> Result<Value, DecodeError> {
        let mut items = Vec::new();
        while let Some(tag) = input.tag(name)? {
            match tag.number {
                1 => self.items(item, name, tag, &mut input, &mut items)?,
                _ => input.skip(tag)?,
            }
        }
        // An empty list and no list are encoded alike; the reference reads no list.
        Ok(match items.is_empty() {
            true => Value::Null,
            false => Value::from(items),
        })
    }

    fn value(
        &mut self,
        shape: &Shape,
        name: &str,
        tag: Tag,
        input: &mut Input<'_>,
        earlier: Option<Value>,
    ) -> Result<Value, DecodeError> {
        tag.expect(wire_of(shape), name)?;
        Ok(match shape {
            Shape::String => Value::String(SmolStr::new(text(input.bytes()?))),
            Shape::Bool => Value::Bool(input.varint()? != 0),
            // Bits beyond 32 are dropped, as in the reference.
            Shape::Int32 => Value::from(input.varint()? as i32),
            Shape::Int64 => Value::Int(input.varint()?.cast_signed()),
            Shape::Double => double(f64::from_bits(input.fixed64()?))?,
            Shape::Bytes => Value::from(STANDARD.encode(input.bytes()?)),
            Shape::Ref(of) => self.message(*of, Input::new(input.bytes()?), earlier)?,
            Shape::Any | Shape::List(_) | Shape::Map(_) => return Err(DecodeError::NoMessage(SmolStr::new(name))),
        })
    }

    /// Reads the message of a type with its own encoding.
    fn scalar(&mut self, of: &Type, scalar: Scalar, mut input: Input<'_>) -> Result<Value, DecodeError> {
        let name = of.short_name();
        match scalar {
            Scalar::Quantity => {
                let mut quantity = None;
                while let Some(tag) = input.tag(name)? {
                    match tag.number {
                        1 => {
                            tag.expect(Wire::Bytes, "string_")?;
                            quantity = Some(self::quantity(input.bytes()?)?);
                        }
                        _ => input.skip(tag)?,
                    }
                }
                Ok(quantity.unwrap_or_else(|| Value::from("0")))
            }
            Scalar::IntOrString => int_or_string(name, input),
            Scalar::Time => time(input, Precision::Seconds),
            Scalar::MicroTime => time(input, Precision::Micros),
            // The bytes of raw extensions are compared and kept; those of other JSON are not.
            Scalar::RawExtension => {
                let (value, text) = self.json(name, input)?;
                Ok(json::with_text(value, text))
            }
            Scalar::FieldsV1 | Scalar::Json => self.json(name, input).map(|(value, _)| value),
            Scalar::JsonSchemaOrBool => {
                let (mut allowed, mut schema) = (false, None);
                while let Some(tag) = input.tag(name)? {
                    match tag.number {
                        1 => {
                            tag.expect(Wire::Varint, "allows")?;
                            allowed = input.varint()? != 0;
                        }
                        2 => schema = Some(self.json_schema(name, tag, &mut input, schema)?),
                        _ => input.skip(tag)?,
                    }
                }
                Ok(schema.unwrap_or(Value::Bool(allowed)))
            }
            Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray => {
                let (mut schema, mut items) = (None, Vec::new());
                while let Some(tag) = input.tag(name)? {
                    match (tag.number, scalar) {
                        (1, _) => schema = Some(self.json_schema(name, tag, &mut input, schema)?),
                        (2, Scalar::JsonSchemaOrArray) => items.push(self.json_schema(name, tag, &mut input, None)?),
                        (2, _) => self.items(&Shape::String, name, tag, &mut input, &mut items)?,
                        _ => input.skip(tag)?,
                    }
                }
                Ok(match items.is_empty() {
                    true => schema.unwrap_or_default(),
                    false => Value::from(items),
                })
            }
            Scalar::Patch => Err(DecodeError::NoMessage(SmolStr::new(name))),
        }
    }

    fn json_schema(
        &mut self,
        name: &str,
        tag: Tag,
        input: &mut Input<'_>,
        earlier: Option<Value>,
    ) -> Result<Value, DecodeError> {
        let json_schema = self.messages.types().json_schema();
        let schema = json_schema.ok_or_else(|| DecodeError::NoMessage(SmolStr::new(name)))?;
        self.value(&Shape::Ref(schema), name, tag, input, earlier)
    }

    /// Reads a message that holds JSON in its field 1. Returns the value and its text.
    fn json<'i>(&mut self, name: &str, mut input: Input<'i>) -> Result<(Value, &'i [u8]), DecodeError> {
        let mut bytes: &[u8] = &[];
        while let Some(tag) = input.tag(name)? {
            match tag.number {
                1 => {
                    tag.expect(Wire::Bytes, "raw")?;
                    bytes = input.bytes()?;
                }
                _ => input.skip(tag)?,
            }
        }
        if bytes.is_empty() {
            return Ok((Value::Null, bytes));
        }
        let left = Limits {
            max_bytes: self.limits.max_bytes,
            max_depth: self.limits.max_depth - self.depth,
            max_nodes: self.limits.max_nodes - self.nodes,
        };
        let value = json::parse(bytes, &left)?;
        self.count(nodes_in(&value))?;
        Ok((value, bytes))
    }
}

/// Returns the wire type of a shape.
fn wire_of(shape: &Shape) -> Wire {
    match shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 => Wire::Varint,
        Shape::Double => Wire::Fixed64,
        _ => Wire::Bytes,
    }
}

/// Decodes text; each invalid UTF-8 byte is replaced by U+FFFD.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

fn quantity(bytes: &[u8]) -> Result<Value, DecodeError> {
    Ok(Value::String(text_of(&text(bytes))?))
}

/// Rounds an amount of a resource up to thousandths, as the reference does.
fn round_up(amount: &mut Value) {
    if let Some(rounded) = amount.as_str().and_then(up_to_thousandths) {
        *amount = Value::String(rounded);
    }
}

/// Returns a float as JSON would yield it: a whole number that a float represents exactly is an integer.
fn double(number: f64) -> Result<Value, DecodeError> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_finite() {
        return Err(DecodeError::NotFinite(number));
    }
    let whole = number.fract() == 0.0 && number.abs() <= EXACT && !(number == 0.0 && number.is_sign_negative());
    Ok(match whole {
        true => Value::Int(number as i64),
        false => Value::Float(number),
    })
}

fn int_or_string(name: &str, mut input: Input<'_>) -> Result<Value, DecodeError> {
    let (mut kind, mut number, mut string) = (0, 0, Cow::Borrowed(""));
    while let Some(tag) = input.tag(name)? {
        match tag.number {
            1 | 2 => {
                tag.expect(Wire::Varint, if tag.number == 1 { "type" } else { "intVal" })?;
                let read = input.varint()?;
                match tag.number {
                    1 => kind = read,
                    _ => number = read as i32,
                }
            }
            3 => {
                tag.expect(Wire::Bytes, "strVal")?;
                string = text(input.bytes()?);
            }
            _ => input.skip(tag)?,
        }
    }
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(SmolStr::new(string))),
        _ => Err(DecodeError::IntOrString),
    }
}

/// Reads a time. An unset time has no bytes, or is the first moment of the year one.
fn time(mut input: Input<'_>, precision: Precision) -> Result<Value, DecodeError> {
    if input.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    while let Some(tag) = input.tag("Timestamp")? {
        match tag.number {
            1 | 2 => {
                tag.expect(Wire::Varint, if tag.number == 1 { "seconds" } else { "nanos" })?;
                let read = input.varint()?;
                match tag.number {
                    1 => seconds = read.cast_signed(),
                    _ => nanos = read as i32,
                }
            }
            _ => input.skip(tag)?,
        }
    }
    const BILLION: i32 = 1_000_000_000;
    let mut time = Timestamp { seconds, nanos: 0 };
    if precision == Precision::Micros {
        // Rounds towards zero first, then carries into the second, as the reference does.
        let nanos = nanos / 1000 * 1000;
        time.seconds = seconds.saturating_add(i64::from(nanos.div_euclid(BILLION)));
        time.nanos = nanos.rem_euclid(BILLION).cast_unsigned();
    }
    if time == Timestamp::ZERO {
        return Ok(Value::Null);
    }
    if !Timestamp::WRITABLE.contains(&time.seconds) {
        return Err(DecodeError::TimeOutOfRange);
    }
    Ok(Value::String(time.text(precision)))
}

fn nodes_in(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(nodes_in).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| nodes_in(value)).sum::<usize>(),
        _ => 1,
    }
}
