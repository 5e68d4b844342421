//! Values of expressions.
//!
//! Objects are not converted: lists, maps and texts of the object tree are shared. A [`CelValue`] of one has the
//! declaration that interprets its parts when an expression accesses them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_gotext::quantity::ExactQuantity;
use holdfast_gotext::url::Url;
use holdfast_value::{Growth, List, Map, Value};
use smol_str::SmolStr;

use crate::budget::Budget;
use crate::declaration::{DeclKind, DeclType};
use crate::error::EvaluationError;
use crate::extension::authorizer::AuthorizerValue;
use crate::extension::cidr::Cidr;
use crate::extension::format::Format;
use crate::extension::semver::Version;
use crate::time::Timestamp;

/// Outcome of an evaluation.
pub(crate) type Outcome<T = CelValue> = Result<T, EvaluationError>;

/// A value of CEL. A clone costs at most a few reference counts.
///
/// ```
/// use holdfast_cel::{CelValue, DeclType, EvaluationError};
/// use std::sync::Arc;
///
/// assert_eq!(CelValue::text("a").as_str(), Some("a"));
/// let duration = CelValue::typed(&"1m30s".into(), &Arc::new(DeclType::duration()))?;
/// assert!(matches!(duration, CelValue::Duration(90_000_000_000)));
/// assert_eq!(duration.type_name(), "google.protobuf.Duration");
/// # Ok::<(), EvaluationError>(())
/// ```
#[derive(Debug, Clone)]
pub enum CelValue {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A float.
    Double(f64),
    /// Text.
    String(SmolStr),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A list.
    List(ListValue),
    /// A map, or an object of a schema.
    Map(MapValue),
    /// `optional.of(x)` or `optional.none()`.
    Optional(Option<Arc<CelValue>>),
    /// A type by its name.
    Type(SmolStr),
    /// `Object{…}` or `JSONPatch{…}`.
    Struct(Arc<StructValue>),
    /// Fields that are computed on first use: `variables`.
    Lazy(Arc<dyn LazyFields>),
    /// A URL.
    Url(Arc<Url>),
    /// An IP address.
    Ip(IpAddr),
    /// A range of IP addresses.
    Cidr(Cidr),
    /// A quantity such as `100m`.
    Quantity(Arc<ExactQuantity>),
    /// A semantic version.
    Semver(Arc<Version>),
    /// A named format.
    Format(&'static Format),
    /// The authorizer, or one of its checks or decisions.
    Authorizer(Arc<AuthorizerValue>),
    /// Data without a schema within an object that has one: it can only be compared.
    Preserved(Value),
}

/// Fields that are computed when an expression uses them.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, EvaluationError, LazyFields, Type};
///
/// /// Fields that are read only if an expression uses them.
/// #[derive(Debug)]
/// struct Answers;
///
/// impl LazyFields for Answers {
///     fn field(&self, name: &str, _budget: &mut Budget<'_>) -> Option<Result<CelValue, EvaluationError>> {
///         (name == "all").then(|| Ok(CelValue::Int(42)))
///     }
/// }
///
/// let answers = Type::object("Answers", [("all".into(), Type::Int)]);
/// let environment = Environment::new().with_variable("answers", answers);
/// let program = environment.compile("answers.all == 42", &[Type::Bool])?;
/// let activation = Activation::new(&environment).with("answers", CelValue::Lazy(Arc::new(Answers)));
/// assert_eq!(program.evaluate(&activation, &mut Budget::default())?.as_bool(), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LazyFields: std::fmt::Debug + Send + Sync {
    /// Returns the value of the field `name`; `None` if there is no such field. Computing it draws from `budget`.
    fn field(&self, name: &str, budget: &mut Budget<'_>) -> Option<Result<CelValue, EvaluationError>>;
}

/// List from the object tree or created by an expression.
///
/// ```
/// use holdfast_cel::{CelValue, ListValue};
/// use holdfast_value::{Limits, json};
///
/// let data = CelValue::untyped(&json::parse(b"[1]", &Limits::REQUEST)?);
/// assert!(matches!(data, CelValue::List(ListValue::Data(..))));
/// assert!(matches!(CelValue::list(vec![CelValue::Int(1)]), CelValue::List(ListValue::Built(_))));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum ListValue {
    /// A list of the object tree and its declaration.
    Data(List, Option<Arc<DeclType>>),
    /// A list created by an expression.
    Built(Arc<Vec<CelValue>>),
}

/// Map from the object tree or created by an expression.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, MapValue, Type};
///
/// let environment = Environment::new();
/// let program = environment.compile("{'a': 1}", &[Type::map(Type::String, Type::Int)])?;
/// let value = program.evaluate(&Activation::new(&environment), &mut Budget::default())?;
/// let CelValue::Map(MapValue::Built(entries)) = value else { panic!("{value:?}") };
/// assert_eq!(entries.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub enum MapValue {
    /// A map of the object tree and its declaration.
    Data(Map, Option<Arc<DeclType>>),
    /// A map created by an expression.
    Built(Arc<BTreeMap<MapKey, CelValue>>),
}

/// Key of a map created by an expression.
///
/// ```
/// use holdfast_cel::MapKey;
///
/// assert!(MapKey::Bool(true) < MapKey::Int(0));
/// assert_ne!(MapKey::String("1".into()), MapKey::Int(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey {
    /// A boolean.
    Bool(bool),
    /// An integer. Unsigned integers that fit use this variant, so that `1` finds the entry of `1u`.
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// Text.
    String(SmolStr),
}

/// Object created by an expression with the name of its type.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, Type};
///
/// let environment = Environment::new().with_mutation();
/// let program = environment.compile("Object{spec: Object.spec{replicas: 3}}", &[Type::apply_object()])?;
/// let value = program.evaluate(&Activation::new(&environment), &mut Budget::default())?;
/// let CelValue::Struct(object) = &value else { panic!("{value:?}") };
/// assert_eq!(object.type_name, "Object");
/// assert!(object.fields.contains_key("spec"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StructValue {
    /// `JSONPatch`, `Object`, `Object.spec`…
    pub type_name: SmolStr,
    /// Fields that were set, in order of their names.
    pub fields: BTreeMap<SmolStr, CelValue>,
}

impl MapKey {
    /// Converts `value` to a key; only booleans, integers and texts can be keys.
    pub(crate) fn from_value(value: &CelValue) -> Option<Self> {
        Some(match value {
            CelValue::Bool(flag) => MapKey::Bool(*flag),
            CelValue::Int(number) => MapKey::Int(*number),
            CelValue::Uint(number) => i64::try_from(*number).map_or(MapKey::Uint(*number), MapKey::Int),
            CelValue::Double(float) if float.fract() == 0.0 && float.abs() < 9.0e15 => MapKey::Int(*float as i64),
            CelValue::String(text) => MapKey::String(text.clone()),
            _ => return None,
        })
    }

    fn to_value(&self) -> CelValue {
        match self {
            MapKey::Bool(flag) => CelValue::Bool(*flag),
            MapKey::Int(number) => CelValue::Int(*number),
            MapKey::Uint(number) => CelValue::Uint(*number),
            MapKey::String(text) => CelValue::String(text.clone()),
        }
    }
}

impl CelValue {
    /// Converts `value` without a schema: whole numbers are integers, maps have text keys.
    ///
    /// ```
    /// use holdfast_cel::CelValue;
    /// use holdfast_value::Value;
    ///
    /// assert_eq!(CelValue::untyped(&Value::Int(1)).type_name(), "int");
    /// ```
    pub fn untyped(value: &Value) -> Self {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(flag) => CelValue::Bool(*flag),
            Value::Int(number) => CelValue::Int(*number),
            // The reference's JSON reader makes a float of an integer beyond signed 64 bits.
            Value::UInt(number) => CelValue::Double(*number as f64),
            Value::Float(float) => CelValue::Double(*float),
            Value::String(text) => CelValue::String(text.clone()),
            Value::List(list) => CelValue::List(ListValue::Data(list.clone(), None)),
            Value::Map(map) => CelValue::Map(MapValue::Data(map.clone(), None)),
        }
    }

    /// Converts `value` according to `decl`.
    ///
    /// # Errors
    /// Fails if the value does not have the declared type, or its text does not have the declared format.
    pub fn typed(value: &Value, decl: &Arc<DeclType>) -> Result<Self, EvaluationError> {
        let expected = |what: &str| Err(EvaluationError::failed(format!("invalid data, expected {what}")));
        let got = |what: &str| format!("{what}, got {}", value.go_type());
        Ok(match (&decl.kind, value) {
            (DeclKind::Dyn, value) => CelValue::untyped(value),
            (_, Value::Null) if decl.nullable => CelValue::Null,
            (_, Value::Null) => {
                return Err(EvaluationError::failed(
                    "invalid data, got null for schema with nullable=false",
                ));
            }
            (DeclKind::Object(_) | DeclKind::Map(_) | DeclKind::Opaque, Value::Map(map)) => {
                CelValue::Map(MapValue::Data(map.clone(), Some(decl.clone())))
            }
            (DeclKind::List { .. }, Value::List(list)) => {
                CelValue::List(ListValue::Data(list.clone(), Some(decl.clone())))
            }
            (DeclKind::String | DeclKind::IntOrString, Value::String(text)) => CelValue::String(text.clone()),
            (DeclKind::Int | DeclKind::IntOrString, Value::Int(number)) => CelValue::Int(*number),
            (DeclKind::Double, Value::Int(number)) => CelValue::Double(*number as f64),
            (DeclKind::Double, Value::UInt(number)) => CelValue::Double(*number as f64),
            (DeclKind::Double, Value::Float(float)) => CelValue::Double(*float),
            (DeclKind::Bool, Value::Bool(flag)) => CelValue::Bool(*flag),
            (DeclKind::Bytes, Value::String(text)) => CelValue::Bytes(decode_bytes(text)?),
            (DeclKind::Duration, Value::String(text)) => CelValue::Duration(
                crate::time::parse_format_duration(text)
                    .ok_or_else(|| EvaluationError::failed(format!("Invalid duration {text}")))?,
            ),
            (DeclKind::Date, Value::String(text)) => CelValue::Timestamp(
                Timestamp::parse_date(text)
                    .ok_or_else(|| EvaluationError::failed(format!("Invalid date formatted string {text}")))?,
            ),
            (DeclKind::DateTime, Value::String(text)) => CelValue::Timestamp(
                Timestamp::parse(text)
                    .ok_or_else(|| EvaluationError::failed(format!("Invalid date-time formatted string {text}")))?,
            ),
            (DeclKind::Quantity, Value::String(text)) => CelValue::Quantity(
                ExactQuantity::parse(text)
                    .map_err(|error| EvaluationError::failed(error.to_string()))?
                    .into(),
            ),
            (DeclKind::Object(_) | DeclKind::Map(_) | DeclKind::Opaque, _) => {
                return expected("a map for the provided schema with type=object");
            }
            (DeclKind::List { .. }, _) => return expected("an array for the provided schema with type=array"),
            (DeclKind::Int, _) => return expected(&got("int")),
            (DeclKind::Double, _) => return expected(&got("float")),
            (DeclKind::Bool, _) => return expected(&got("bool")),
            (DeclKind::IntOrString, _) => {
                return expected("XIntOrString value to be either a string or integer");
            }
            _ => return expected(&got("string")),
        })
    }

    pub(crate) fn taken(value: &Value, decl: Option<&Arc<DeclType>>) -> Outcome {
        match decl {
            Some(decl) => CelValue::typed(value, decl),
            None => Ok(CelValue::untyped(value)),
        }
    }

    /// Creates a list of values.
    pub fn list(items: Vec<CelValue>) -> Self {
        CelValue::List(ListValue::Built(Arc::new(items)))
    }

    /// Creates a text.
    pub fn text(text: impl Into<SmolStr>) -> Self {
        CelValue::String(text.into())
    }

    pub(crate) fn some(value: CelValue) -> Self {
        CelValue::Optional(Some(Arc::new(value)))
    }

    pub(crate) const NONE: CelValue = CelValue::Optional(None);

    /// Returns the boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            CelValue::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            CelValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the value's type, like `type(x)`.
    pub fn type_name(&self) -> SmolStr {
        SmolStr::new(match self {
            CelValue::Null => "null_type",
            CelValue::Bool(_) => "bool",
            CelValue::Int(_) => "int",
            CelValue::Uint(_) => "uint",
            CelValue::Double(_) => "double",
            CelValue::String(_) => "string",
            CelValue::Bytes(_) => "bytes",
            CelValue::Duration(_) => "google.protobuf.Duration",
            CelValue::Timestamp(_) => "google.protobuf.Timestamp",
            CelValue::List(_) => "list",
            CelValue::Map(_) => "map",
            CelValue::Optional(_) => "optional_type",
            CelValue::Type(_) => "type",
            CelValue::Struct(object) => return object.type_name.clone(),
            CelValue::Lazy(_) => "kubernetes.variables",
            CelValue::Url(_) => "kubernetes.URL",
            CelValue::Ip(_) => "net.IP",
            CelValue::Cidr(_) => "net.CIDR",
            CelValue::Quantity(_) => "kubernetes.Quantity",
            CelValue::Semver(_) => "kubernetes.Semver",
            CelValue::Format(_) => "kubernetes.NamedFormat",
            CelValue::Authorizer(value) => value.type_name(),
            CelValue::Preserved(_) => "unknown",
        })
    }

    /// Returns the size for `size()` and for costs; 1 for values without a size.
    pub(crate) fn size(&self) -> u64 {
        match self {
            CelValue::String(text) => text.chars().count() as u64,
            CelValue::Bytes(bytes) => bytes.len() as u64,
            CelValue::List(list) => list.len() as u64,
            CelValue::Map(map) => map.len() as u64,
            CelValue::Ip(IpAddr::V4(_)) => 4,
            CelValue::Ip(IpAddr::V6(_)) => 16,
            CelValue::Cidr(cidr) => cidr.bytes(),
            _ => 1,
        }
    }

    /// Converts the value back to the object tree. Shared parts are expanded and drawn from `growth`.
    ///
    /// # Errors
    /// Fails for values without a JSON form, such as types and URLs; [`EvaluationError::TooLarge`].
    pub fn to_value(&self, growth: &mut Growth) -> Result<Value, EvaluationError> {
        let value = match self {
            CelValue::Null | CelValue::Optional(None) => Value::Null,
            CelValue::Bool(flag) => Value::Bool(*flag),
            CelValue::Int(number) => Value::Int(*number),
            CelValue::Uint(number) => Value::from(*number),
            CelValue::Double(float) if float.is_finite() => Value::Float(*float),
            CelValue::String(text) => Value::String(text.clone()),
            CelValue::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            CelValue::Duration(nanoseconds) => Value::from(crate::time::format_seconds(*nanoseconds)),
            CelValue::Timestamp(timestamp) => Value::from(timestamp.utc().to_string()),
            CelValue::List(ListValue::Data(list, _)) => Value::List(list.clone()),
            CelValue::List(ListValue::Built(items)) => {
                growth.draw(items.len() + 2)?;
                let items = items.iter().map(|item| item.to_value(growth));
                return Ok(Value::from(items.collect::<Result<Vec<_>, _>>()?));
            }
            CelValue::Map(MapValue::Data(map, _)) => Value::Map(map.clone()),
            CelValue::Map(MapValue::Built(entries)) => {
                growth.draw(entries.len() + 2)?;
                let mut map = Vec::with_capacity(entries.len());
                for (key, value) in entries.iter() {
                    let MapKey::String(key) = key else {
                        return Err(EvaluationError::failed("map keys of objects must be strings"));
                    };
                    growth.draw(key.len())?;
                    map.push((key.clone(), value.to_value(growth)?));
                }
                return Ok(Value::Map(Map::from_unsorted(map)));
            }
            CelValue::Optional(Some(inner)) => return inner.to_value(growth),
            CelValue::Struct(object) => {
                growth.draw(2)?;
                let mut entries = Vec::new();
                for (name, value) in &object.fields {
                    growth.draw(name.len())?;
                    entries.push((name.clone(), value.to_value(growth)?));
                }
                return Ok(Value::Map(Map::from_unsorted(entries)));
            }
            CelValue::Preserved(value) => value.clone(),
            CelValue::Ip(address) => Value::from(address.to_string()),
            CelValue::Cidr(cidr) => Value::from(cidr.to_string()),
            other => {
                let name = other.type_name();
                return Err(EvaluationError::failed(format!("{name} cannot be part of an object")));
            }
        };
        growth.draw_value(&value)?;
        Ok(value)
    }
}

fn decode_bytes(text: &str) -> Outcome<Arc<[u8]>> {
    let decoded = STANDARD.decode(text);
    decoded
        .map(Arc::from)
        .map_err(|_| EvaluationError::failed(format!("Invalid byte formatted string {text}")))
}

impl ListValue {
    pub(crate) fn len(&self) -> usize {
        match self {
            ListValue::Data(list, _) => list.len(),
            ListValue::Built(items) => items.len(),
        }
    }

    /// Returns the element at `index`, which must be in bounds.
    pub(crate) fn get(&self, index: usize) -> Outcome {
        let missing = || EvaluationError::IndexOutOfBounds(index as i64);
        match self {
            ListValue::Data(list, decl) => {
                let item = list.get(index).ok_or_else(missing)?;
                CelValue::taken(item, decl.as_ref().and_then(|decl| decl.items()))
            }
            ListValue::Built(items) => items.get(index).cloned().ok_or_else(missing),
        }
    }

    /// Returns all elements.
    pub(crate) fn to_vec(&self) -> Outcome<Vec<CelValue>> {
        match self {
            ListValue::Built(items) => Ok(items.to_vec()),
            ListValue::Data(..) => (0..self.len()).map(|index| self.get(index)).collect(),
        }
    }

    /// Returns the declaration of the list, if it is in an object with a declaration.
    pub(crate) fn decl(&self) -> Option<&Arc<DeclType>> {
        match self {
            ListValue::Data(_, decl) => decl.as_ref(),
            ListValue::Built(_) => None,
        }
    }
}

/// A value of the object tree and its declaration.
pub(crate) type Declared<'v> = (&'v Value, Option<&'v Arc<DeclType>>);

/// Returns the member of `map` with the CEL name `field`. A declared field that is null counts as missing.
pub(crate) fn member<'v>(map: &'v Map, decl: Option<&'v Arc<DeclType>>, field: &str) -> Option<Declared<'v>> {
    let Some(decl) = decl else {
        return map.get(field).map(|value| (value, None));
    };
    match &decl.kind {
        DeclKind::Object(_) => {
            let declared = decl.field(field)?;
            let value = map.get(&declared.property).filter(|value| !value.is_null())?;
            Some((value, Some(&declared.decl)))
        }
        DeclKind::Map(values) => map.get(field).map(|value| (value, Some(values))),
        _ => None,
    }
}

impl MapValue {
    pub(crate) fn len(&self) -> usize {
        match self {
            MapValue::Data(map, _) => map.len(),
            MapValue::Built(map) => map.len(),
        }
    }

    /// Returns the value of the text key `key` of a map, or of the field with the CEL name `key` of an object.
    pub(crate) fn field(&self, key: &str) -> Option<Outcome> {
        match self {
            MapValue::Data(map, decl) => {
                let (value, decl) = member(map, decl.as_ref(), key)?;
                Some(CelValue::taken(value, decl))
            }
            MapValue::Built(map) => map.get(&MapKey::String(SmolStr::new(key))).cloned().map(Ok),
        }
    }

    /// Returns the value of `key`.
    pub(crate) fn get(&self, key: &CelValue) -> Option<Outcome> {
        match (self, key) {
            (_, CelValue::String(key)) => self.field(key),
            (MapValue::Built(map), key) => map.get(&MapKey::from_value(key)?).cloned().map(Ok),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, key: &CelValue) -> bool {
        match (self, key) {
            (MapValue::Data(map, None), CelValue::String(key)) => map.contains_key(key),
            (MapValue::Data(map, Some(decl)), CelValue::String(key)) => match &decl.kind {
                DeclKind::Object(_) => member(map, Some(decl), key).is_some(),
                _ => map.contains_key(key),
            },
            (MapValue::Built(map), key) => MapKey::from_value(key).is_some_and(|key| map.contains_key(&key)),
            _ => false,
        }
    }

    /// Iterates over keys and values in key order.
    pub(crate) fn entries(&self) -> Box<dyn Iterator<Item = (CelValue, Outcome)> + '_> {
        match self {
            MapValue::Data(map, decl) => Box::new(map.iter().map(move |(key, value)| {
                let value = match decl {
                    None => Ok(CelValue::untyped(value)),
                    Some(decl) => match decl.property(key) {
                        Some(decl) => CelValue::typed(value, decl),
                        None => Ok(CelValue::Preserved(value.clone())),
                    },
                };
                (CelValue::String(key.clone()), value)
            })),
            MapValue::Built(map) => Box::new(map.iter().map(|(key, value)| (key.to_value(), Ok(value.clone())))),
        }
    }
}
