//! Decoding of an object into its type: the equivalent of the reference's decoding of JSON into a Go struct and
//! encoding it again.
//!
//! Unknown fields are dropped and reported; `null` is "not set"; empty values are left out or written, depending on the
//! type; quantities, times and bytes are converted to their canonical form; a value of the wrong type is an error. A
//! subtree that is already in this form is shared, not copied.

mod place;

use std::fmt;

use holdfast_gotext::quantity::{QuantityError, up_to_thousandths};
use holdfast_gotext::time::{self, Precision, TimeError};
use holdfast_value::{List, Map, Value};

use crate::types::empties::{EmptyField, EmptyKind};
use crate::types::go_names::item_of;
use crate::types::rebuild::{ListRebuild, MapRebuild};
use crate::types::scalars::{found, not_restored, quantity, restore_number, time, whole_32, wrong_value};
use crate::types::{Field, Provenance, Scalar, Shape, Type, TypeId, TypeKind, TypeTable, base64};

/// An object in the form of its type.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Unknown fields, at most 100 of them.
    pub unknown: Vec<UnknownField>,
    /// The amounts that were written as numbers which trees hold as floats, at most 100 of them: the text may be more
    /// exact.
    pub floats: Vec<FloatAmount>,
    /// Fields that are given as empty and therefore left out, at most 100 of them.
    pub empties: Vec<EmptyField>,
}

/// An amount that was read from a float.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatAmount {
    /// Path: names joined by dots, indices in brackets.
    pub path: String,
    /// The same path as a JSON pointer.
    pub pointer: String,
    /// True if it is among the amounts of resources, whose smallest unit is a thousandth.
    pub of_resources: bool,
}

/// A field that the type lacks; it is dropped. Strict field validation rejects the object because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Path: names joined by dots, indices in brackets.
    pub path: String,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field \"{}\"", self.path)
    }
}

/// Reason why a value is not of its type, in the words of the reference.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON type is not that of the field.
    #[error("json: cannot unmarshal {found} into Go {place} of type {expected}")]
    Type {
        /// JSON type found: `string`, `number`, `array`…
        found: String,
        /// Place in the message: `value`, or `struct field` with the last struct's name and the path of fields.
        place: String,
        /// Name of the field's type in Go.
        expected: String,
    },
    /// The text is not base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// The text is not a time.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// The value is not a quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The value is neither a JSON schema nor a boolean.
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
    /// A tree holds a value that cannot be converted to the field's type.
    #[error("{0}")]
    Tree(String),
}

impl DecodeError {
    /// Returns true if the reference stops at this error: types with their own JSON decoder do not know their path.
    fn ends_reading(&self) -> bool {
        !matches!(self, Self::Base64(_)) && !matches!(self, Self::Type { place, .. } if place != "value")
    }
}

/// Maximum number of unknown fields, which is the reference's.
const MAX_UNKNOWN: usize = 100;

/// Converts `value` into the form of the type `of`.
pub fn decode(table: &TypeTable, of: TypeId, value: &Value) -> Result<Decoded, DecodeError> {
    decode_from(table, of, value, Provenance::from_body())
}

/// Decodes like [`decode`], in cases where the reference converts a tree rather than JSON into its struct: after
/// applies and strategic merge patches. Whole numbers may have a fraction of zero, and are truncated to the width of
/// their field; other words describe invalid values.
pub fn decode_tree(table: &TypeTable, of: TypeId, value: &Value) -> Result<Decoded, DecodeError> {
    decode_from(table, of, value, Provenance::from_tree())
}

/// Decodes like [`decode`] or [`decode_tree`], depending on `provenance`, but skips values that `value` shares with the
/// base of its provenance, which has the form of the type.
pub fn decode_from(
    table: &TypeTable,
    of: TypeId,
    value: &Value,
    provenance: Provenance<'_>,
) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder {
        table,
        unknown: Vec::new(),
        floats: Vec::new(),
        empties: Vec::new(),
        silent: 0,
        is_tree: provenance.is_tree(),
        finds_error: false,
    };
    let root = ValuePath {
        above: None,
        step: Step::Root,
        base: provenance.base(),
    };
    let changed = decoder.reference(of, value, &root).map_err(|error| {
        decoder.finds_error = true;
        decoder.reference(of, value, &root).err().unwrap_or(error)
    })?;
    Ok(Decoded {
        value: changed.unwrap_or_else(|| value.clone()),
        unknown: decoder.unknown,
        floats: decoder.floats,
        empties: decoder.empties,
    })
}

struct Decoder<'t> {
    table: &'t TypeTable,
    unknown: Vec<UnknownField>,
    floats: Vec<FloatAmount>,
    empties: Vec<EmptyField>,
    /// Number of enclosing types that have their own JSON decoder, and report no unknown fields.
    silent: u32,
    /// True if the input is a tree rather than JSON.
    is_tree: bool,
    /// True in the second pass, which only looks for the error that the reference reports. It reads trees field by
    /// field in the order of its structs, and stops at the first error. In JSON it continues after a value of the wrong
    /// type, and reports that only if no type with its own JSON decoder fails.
    finds_error: bool,
}

/// Path of a value. It is kept on the stack; its text is built only for a report.
#[derive(Clone, Copy)]
struct ValuePath<'p> {
    above: Option<&'p ValuePath<'p>>,
    step: Step<'p>,
    /// The value at this path in the base, which has the form of the type.
    base: Option<&'p Value>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    /// A field of a struct.
    Field(&'p Type, &'p str),
    /// An entry of a map.
    Key(&'p str),
    /// An item of a list.
    Item(usize),
}

/// Result for a field.
enum Outcome {
    Keep,
    Replace(Value),
    Drop,
}

impl Decoder<'_> {
    /// Returns the value in the form of its shape; `None` if it has that form.
    fn value(&mut self, shape: &Shape, value: &Value, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        if place.is_in_base(value) {
            return Ok(None);
        }
        match self.shaped(shape, value, place) {
            Err(error) if self.goes_on() && !error.ends_reading() => Ok(None),
            outcome => outcome,
        }
    }

    /// Returns true if the decoder continues after a value of the wrong type.
    fn goes_on(&self) -> bool {
        self.finds_error && !self.is_tree && self.silent == 0
    }

    fn shaped(&mut self, shape: &Shape, value: &Value, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        match (shape, value) {
            (_, Value::Null) => return Ok(Some(self.table.zero(shape)).filter(|zero| !zero.is_null())),
            (Shape::String, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Int64, Value::Int(_))
            | (Shape::Double, Value::Int(_) | Value::UInt(_) | Value::Float(_))
            | (Shape::Any, _) => {}
            (Shape::Int32, Value::Int(number)) if i32::try_from(*number).is_ok() => {}
            (Shape::Ref(id), _) => return self.reference(*id, value, place),
            (Shape::List(item), Value::List(list)) => return self.list(item, list, place),
            (Shape::Map(of), Value::Map(map)) => return self.map(of, map, place),
            // Bytes may also be written as a list of numbers.
            (Shape::Bytes, Value::List(list)) => {
                let bytes = list
                    .iter()
                    .map(|item| self.byte(item, place))
                    .collect::<Result<Vec<u8>, _>>()?;
                return Ok(Some(Value::from(base64::encode(&bytes))));
            }
            (Shape::Bytes, Value::String(text)) => {
                if base64::is_canonical(text) {
                    return Ok(None);
                }
                let bytes = base64::decode(text).map_err(|at| self.not_base64(at))?;
                return Ok(Some(Value::from(base64::encode(&bytes))));
            }
            (Shape::Int32 | Shape::Int64, Value::Int(_) | Value::UInt(_) | Value::Float(_)) if self.is_tree => {
                return restore_number(shape, value);
            }
            _ => return Err(self.mismatch(value, shape, place)),
        }
        Ok(None)
    }

    fn list(&mut self, item: &Shape, list: &List, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        let mut rebuild = ListRebuild::new(list);
        for (at, value) in list.iter().enumerate() {
            let place = place.item(at);
            rebuild.replace(at, self.value(item, value, &place)?);
        }
        Ok(rebuild.finish())
    }

    fn map(&mut self, of: &Shape, map: &Map, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        let mut rebuild = MapRebuild::new(map);
        let is_resources = place.is_resources(self.table, of);
        for (at, (key, value)) in map.iter().enumerate() {
            let place = place.below(Step::Key(key), key);
            let changed = self.value(of, value, &place)?;
            let rounded = is_resources.then(|| up_to_thousandths(changed.as_ref().unwrap_or(value).as_str()?));
            match rounded.flatten().map(Value::String).or(changed) {
                Some(value) => rebuild.replace(at, value),
                // Null bytes are stored as empty ones, which are read back as an empty text.
                None if value.is_null() && matches!(of, Shape::Bytes) => rebuild.replace(at, Value::from("")),
                None => rebuild.keep(at),
            }
        }
        Ok(rebuild.finish())
    }

    /// Reads a number of a list that represents bytes.
    fn byte(&self, item: &Value, place: &ValuePath<'_>) -> Result<u8, DecodeError> {
        match item {
            Value::Null => Ok(0),
            Value::Int(number) if self.is_tree => Ok(*number as u8),
            Value::Int(number) if u8::try_from(*number).is_ok() => Ok(*number as u8),
            other if self.is_tree => Err(DecodeError::Tree(
                not_restored(other, &Shape::Int32, None).replace("int32", "uint8"),
            )),
            other => Err(self.unfit(found(other, true), "uint8".to_owned(), place)),
        }
    }

    fn reference(&mut self, id: TypeId, value: &Value, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        let table = self.table;
        let ty = table.get(id);
        match (&ty.kind, value) {
            (TypeKind::Struct(fields), Value::Map(map)) => self.fields(ty, fields, map, place),
            (TypeKind::Struct(_), _) => Err(self.mismatch(value, &Shape::Ref(id), place)),
            (TypeKind::Scalar(scalar), _) => self.scalar(*scalar, value, place),
        }
    }

    /// Walks the entries and the fields in parallel; both are sorted by name.
    #[expect(clippy::indexing_slicing, reason = "places among the fields of the type")]
    fn fields(
        &mut self,
        of: &Type,
        fields: &[Field],
        map: &Map,
        place: &ValuePath<'_>,
    ) -> Result<Option<Value>, DecodeError> {
        if self.finds_error && self.is_tree {
            return self.fields_in_order(of, fields, map, place);
        }
        let mut rebuild = MapRebuild::new(map);
        let mut always = of.always_written.iter().map(|at| usize::from(*at)).peekable();
        let mut ahead = 0;
        for (at, (key, value)) in map.iter().enumerate() {
            let index = match of.position(ahead, key) {
                Ok(index) => index,
                Err(next) => {
                    ahead = next;
                    self.report(key, place);
                    rebuild.drop(at);
                    continue;
                }
            };
            ahead = index + 1;
            while let Some(missing) = always.next_if(|written| *written < index) {
                self.write_unset(&fields[missing], at, &mut rebuild);
            }
            always.next_if_eq(&index);
            // Most fields are texts, which stay unchanged unless they are empty.
            if let (Shape::String, Value::String(text)) = (&fields[index].shape, value)
                && !text.is_empty()
            {
                rebuild.keep(at);
                continue;
            }
            let place = place.below(Step::Field(of, key), key);
            match self.field(&fields[index], value, &place)? {
                Outcome::Keep => rebuild.keep(at),
                Outcome::Replace(value) => rebuild.replace(at, value),
                Outcome::Drop => rebuild.drop(at),
            }
        }
        for missing in always {
            self.write_unset(&fields[missing], map.len(), &mut rebuild);
        }
        Ok(rebuild.finish())
    }

    /// Looks for the first error in the order of the reference's struct, which is that of the numbers in protobuf.
    fn fields_in_order(
        &mut self,
        of: &Type,
        fields: &[Field],
        map: &Map,
        place: &ValuePath<'_>,
    ) -> Result<Option<Value>, DecodeError> {
        let mut fields: Vec<&Field> = fields.iter().filter(|field| map.contains_key(&field.name)).collect();
        fields.sort_by(|a, b| a.proto.numbers().cmp(b.proto.numbers()));
        for field in fields {
            let place = place.below(Step::Field(of, &field.name), &field.name);
            if let Some(value) = map.get(&field.name) {
                self.field(field, value, &place)?;
            }
        }
        Ok(None)
    }

    fn write_unset(&self, field: &Field, at: usize, rebuild: &mut MapRebuild<'_>) {
        if let Some(value) = self.table.unset(field) {
            rebuild.insert_before(at, field.name.clone(), value);
        }
    }

    fn field(&mut self, field: &Field, value: &Value, place: &ValuePath<'_>) -> Result<Outcome, DecodeError> {
        if value.is_null() {
            return Ok(match self.table.unset(field) {
                Some(Value::Null) => Outcome::Keep,
                Some(unset) => Outcome::Replace(unset),
                None => Outcome::Drop,
            });
        }
        if place.is_in_base(value) {
            return Ok(Outcome::Keep);
        }
        let changed = self.value(&field.shape, value, place)?;
        let now = changed.as_ref().unwrap_or(value);
        let left_out = self.table.leaves_out(field, now);
        if let Some(kind) = EmptyKind::from_value(value, now).filter(|kind| left_out || *kind == EmptyKind::Time)
            && self.empties.len() < MAX_UNKNOWN
        {
            let path = place.field_path();
            self.empties.push(EmptyField { path, kind });
        }
        Ok(match (left_out, changed) {
            (true, _) => Outcome::Drop,
            (false, Some(value)) => Outcome::Replace(value),
            (false, None) => Outcome::Keep,
        })
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        match (scalar, value) {
            (Scalar::Quantity, _) => {
                if matches!(value, Value::Float(_)) && self.floats.len() < MAX_UNKNOWN {
                    let (mut path, mut pointer) = (String::new(), String::new());
                    place.write_path(&mut path);
                    place.write_pointer(&mut pointer);
                    let map = place.above.filter(|map| map.is_resources_of_core());
                    self.floats.push(FloatAmount {
                        path,
                        pointer,
                        of_resources: map.is_some(),
                    });
                }
                quantity(value)
            }
            (Scalar::Time, Value::String(text)) if time::is_canonical(text) => Ok(None),
            (Scalar::Time, Value::String(text)) => time(text, Precision::Seconds),
            (Scalar::MicroTime, Value::String(text)) => time(text, Precision::Micros),
            (Scalar::Time | Scalar::MicroTime, Value::Null) => Ok(None),
            (Scalar::Time | Scalar::MicroTime, _) => Err(wrong_value(value, "string")),
            (Scalar::IntOrString, Value::String(_)) => Ok(None),
            (Scalar::IntOrString, Value::Int(number)) if i32::try_from(*number).is_ok() => Ok(None),
            // For types with their own JSON decoder, a tree is encoded as JSON again, where whole numbers have no
            // fraction.
            (Scalar::IntOrString, Value::Float(number)) if self.is_tree && whole_32(*number).is_some() => {
                Ok(whole_32(*number).map(Value::from))
            }
            (Scalar::IntOrString, _) => Err(wrong_value(value, "int32")),
            (Scalar::JsonSchemaOrBool, Value::Bool(_)) => Ok(None),
            (Scalar::JsonSchemaOrBool, Value::Map(_)) => self.inner_schema(value, place),
            (Scalar::JsonSchemaOrBool, _) => Err(DecodeError::SchemaOrBool),
            (Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray, Value::Map(_)) => {
                self.inner_schema(value, place)
            }
            (Scalar::JsonSchemaOrArray, Value::List(list)) => {
                let mut rebuild = ListRebuild::new(list);
                for (at, value) in list.iter().enumerate() {
                    rebuild.replace(at, self.inner_schema(value, place)?);
                }
                Ok(rebuild.finish())
            }
            (Scalar::JsonSchemaOrStringArray, Value::List(list)) => self.list(&Shape::String, list, place),
            (Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray, _) => Ok(Some(Value::Null)),
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json | Scalar::Patch, _) => Ok(None),
        }
    }

    /// Decodes a JSON schema within a JSON schema. The reference decodes it separately, and does not report unknown
    /// fields there.
    fn inner_schema(&mut self, value: &Value, place: &ValuePath<'_>) -> Result<Option<Value>, DecodeError> {
        let Some(id) = self.table.json_schema() else {
            return Ok(None);
        };
        self.silent += 1;
        let outcome = self.reference(id, value, place);
        self.silent -= 1;
        outcome
    }

    fn report(&mut self, key: &str, place: &ValuePath<'_>) {
        if self.silent > 0 || self.unknown.len() >= MAX_UNKNOWN {
            return;
        }
        let mut path = String::new();
        place.write_path(&mut path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        self.unknown.push(UnknownField { path });
    }

    fn not_base64(&self, at: usize) -> DecodeError {
        let error = DecodeError::Base64(at);
        if self.is_tree {
            return DecodeError::Tree(format!("error decoding from json: {error}"));
        }
        error
    }

    fn mismatch(&self, value: &Value, shape: &Shape, place: &ValuePath<'_>) -> DecodeError {
        if self.is_tree {
            return DecodeError::Tree(not_restored(value, shape, self.named_type(place)));
        }
        let found = found(value, matches!(shape, Shape::Int32 | Shape::Int64));
        let named = self.named_type(place).map(str::to_owned);
        self.unfit(found, named.unwrap_or_else(|| self.go_type(shape)), place)
    }

    /// Returns the name of the type of the value at `place`, if it is a named type.
    fn named_type(&self, place: &ValuePath<'_>) -> Option<&'static str> {
        match place.step {
            Step::Root => None,
            Step::Field(of, name) => self.table.go_type(of, name),
            Step::Key(_) | Step::Item(_) => self.named_type(place.above?).and_then(item_of),
        }
    }

    /// Returns the error that the value is `found` instead of `expected`.
    fn unfit(&self, found: String, expected: String, place: &ValuePath<'_>) -> DecodeError {
        let mut fields = Vec::new();
        let mut last_struct = None;
        let mut at = Some(place);
        while let Some(place) = at {
            if let Step::Field(of, name) = place.step {
                last_struct = last_struct.or(Some(of.short_name()));
                fields.push(name);
            }
            at = place.above;
        }
        fields.reverse();
        DecodeError::Type {
            found,
            place: match last_struct {
                Some(name) => format!("struct field {name}.{}", fields.join(".")),
                None => "value".to_owned(),
            },
            expected,
        }
    }

    /// Returns the Go name of the type in messages.
    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::String => "string".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Double => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Any => "interface {}".to_owned(),
            Shape::List(item) => format!("[]{}", self.go_type(item)),
            Shape::Map(value) => format!("map[string]{}", self.go_type(value)),
            Shape::Ref(id) => {
                let name = &self.table.get(*id).name;
                let start = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
                name[start..].to_owned()
            }
        }
    }
}

impl<'p> ValuePath<'p> {
    /// Returns the path of the member `name` of the value here.
    fn below<'s>(&'s self, step: Step<'s>, name: &str) -> ValuePath<'s> {
        ValuePath {
            above: Some(self),
            step,
            base: self.base.and_then(|base| base.get(name)),
        }
    }

    /// Returns the path of an item of the list here.
    fn item<'s>(&'s self, at: usize) -> ValuePath<'s> {
        ValuePath {
            above: Some(self),
            step: Step::Item(at),
            base: self.base.and_then(|base| base.as_list()?.get(at)),
        }
    }

    /// Returns true if `value` is shared with the base, so that it has the form of its type.
    fn is_in_base(&self, value: &Value) -> bool {
        self.base.is_some_and(|base| base.shares(value))
    }

    /// Returns true if a map of `of` at this path holds amounts of resources by their names.
    fn is_resources(&self, table: &TypeTable, of: &Shape) -> bool {
        let is_amount =
            matches!(of, Shape::Ref(id) if matches!(table.get(*id).kind, TypeKind::Scalar(Scalar::Quantity)));
        is_amount && self.is_resources_of_core()
    }

    /// Returns true if this is a field of the core group, where all maps of amounts are amounts of resources.
    fn is_resources_of_core(&self) -> bool {
        matches!(self.step, Step::Field(of, _) if of.holds_amounts_of_resources())
    }
}

/// Returns true if `omitempty` leaves the value out.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) => *number == 0,
        Value::UInt(number) => *number == 0,
        Value::Float(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
    }
}
