//! Operators: equality, order, arithmetic, membership, indexing.

use std::cmp::Ordering;
use std::sync::Arc;

use holdfast_gotext::number::general;
use holdfast_value::{Growth, List, Value};
use smol_str::SmolStr;

use crate::declaration::{DeclKind, DeclType, ListType};
use crate::error::EvaluationError::{self, DivisionByZero, ModulusByZero, NoSuchOverload, Overflow};
use crate::value::{CelValue, ListValue, MapKey, MapValue, Outcome};

/// Evaluates `a == b`: numbers of different types compare by value, and values that cannot be compared are not equal.
pub(crate) fn equal(a: &CelValue, b: &CelValue) -> bool {
    use CelValue::*;
    match (a, b) {
        (Null, Null) => true,
        (Bool(a), Bool(b)) => a == b,
        (Int(_) | Uint(_) | Double(_), Int(_) | Uint(_) | Double(_)) => compare_numbers(a, b) == Some(Ordering::Equal),
        (String(a), String(b)) => a == b,
        (Bytes(a), Bytes(b)) => a == b,
        (Duration(a), Duration(b)) => a == b,
        (Timestamp(a), Timestamp(b)) => a == b,
        (List(a), List(b)) => equal_lists(a, b),
        (Map(a), Map(b)) => equal_maps(a, b),
        (Optional(a), Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b),
            (None, None) => true,
            _ => false,
        },
        (Type(a), Type(b)) => a == b,
        (Struct(a), Struct(b)) => {
            a.type_name == b.type_name
                && a.fields.len() == b.fields.len()
                && a.fields
                    .iter()
                    .zip(&b.fields)
                    .all(|((a, x), (b, y))| a == b && equal(x, y))
        }
        (Url(a), Url(b)) => a == b,
        (Ip(a), Ip(b)) => a == b,
        (Cidr(a), Cidr(b)) => a == b,
        (Quantity(a), Quantity(b)) => a.compare(b) == Ordering::Equal,
        (Semver(a), Semver(b)) => a.compare(b) == Ordering::Equal,
        (Format(a), Format(b)) => a.name == b.name,
        (Preserved(a), Preserved(b)) => a == b,
        _ => false,
    }
}

fn equal_lists(a: &ListValue, b: &ListValue) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.decl().map(|decl| &decl.kind) {
        Some(DeclKind::List {
            list_type: ListType::Set,
            ..
        }) => (0..b.len()).all(|index| b.get(index).is_ok_and(|item| contains(a, &item))),
        Some(DeclKind::List {
            list_type: ListType::Map(keys),
            ..
        }) => (0..b.len()).all(|index| {
            let Ok(item) = b.get(index) else { return false };
            let key = key_of(&item, keys);
            let found = (0..a.len())
                .filter_map(|at| a.get(at).ok())
                .find(|other| key_of(other, keys) == key);
            found.is_some_and(|other| equal(&other, &item))
        }),
        _ => {
            if let (ListValue::Data(x, None), ListValue::Data(y, None)) = (a, b) {
                return x.iter().zip(y.iter()).all(|(x, y)| x == y);
            }
            (0..a.len()).all(|index| matches!((a.get(index), b.get(index)), (Ok(x), Ok(y)) if equal(&x, &y)))
        }
    }
}

fn equal_maps(a: &MapValue, b: &MapValue) -> bool {
    if let (MapValue::Data(x, dx), MapValue::Data(y, dy)) = (a, b) {
        if x.same(y) {
            return true;
        }
        if dx.is_none() && dy.is_none() {
            return x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| x.0 == y.0 && x.1 == y.1);
        }
        // Both sides are sorted by key, so the entries pair up if the keys are the same.
        return a.len() == b.len()
            && a.entries().zip(b.entries()).all(|((key, x), (other, y))| {
                equal(&key, &other) && matches!((x, y), (Ok(x), Ok(y)) if equal(&x, &y))
            });
    }
    a.len() == b.len()
        && a.entries().all(|(key, value)| {
            let other = b.get(&key);
            matches!((value, other), (Ok(value), Some(Ok(other))) if equal(&value, &other))
        })
}

/// Returns the values of the key properties of an element of a list of type `map`.
fn key_of(item: &CelValue, keys: &[SmolStr]) -> Vec<Option<Value>> {
    keys.iter()
        .map(|key| match item {
            CelValue::Map(MapValue::Data(map, _)) => map.get(key).cloned(),
            CelValue::Map(map) => map.field(key)?.ok()?.to_value(&mut Growth::default()).ok(),
            _ => None,
        })
        .collect()
}

/// True if an element of `list` equals `value`.
pub(crate) fn contains(list: &ListValue, value: &CelValue) -> bool {
    match list {
        ListValue::Built(items) => items.iter().any(|item| equal(item, value)),
        ListValue::Data(items, None) => match value {
            // The common case needs no value per element.
            CelValue::String(text) => items.iter().any(|item| item.as_str() == Some(text)),
            value => items.iter().any(|item| equal(&CelValue::untyped(item), value)),
        },
        list => (0..list.len()).any(|index| list.get(index).is_ok_and(|item| equal(&item, value))),
    }
}

/// Compares two numbers; `None` if one is NaN. An integer is compared with a float as a float, if the float is within
/// the range of the integer's type.
fn compare_numbers(a: &CelValue, b: &CelValue) -> Option<Ordering> {
    use CelValue::{Double, Int, Uint};
    match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Int(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Uint(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Int(b)) => a.partial_cmp(&(*b as f64)),
        (Double(a), Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => None,
    }
}

/// Compares two values.
pub(crate) fn compare(a: &CelValue, b: &CelValue) -> Outcome<Ordering> {
    use CelValue::*;
    Ok(match (a, b) {
        (Int(_) | Uint(_) | Double(_), Int(_) | Uint(_) | Double(_)) => {
            return compare_numbers(a, b).ok_or_else(|| EvaluationError::failed("NaN values cannot be ordered"));
        }
        (String(a), String(b)) => a.as_str().cmp(b.as_str()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Bool(a), Bool(b)) => a.cmp(b),
        (Duration(a), Duration(b)) => a.cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        _ => return Err(NoSuchOverload),
    })
}

/// Arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// True if values of this type have an order.
pub(crate) fn has_order(value: &CelValue) -> bool {
    use CelValue::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    matches!(
        value,
        Bool(_) | Bytes(_) | Double(_) | Duration(_) | Int(_) | String(_) | Timestamp(_) | Uint(_)
    )
}

impl Arithmetic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arithmetic::Add => "_+_",
            Arithmetic::Subtract => "_-_",
            Arithmetic::Multiply => "_*_",
            Arithmetic::Divide => "_/_",
            Arithmetic::Modulo => "_%_",
        }
    }

    /// True if values of this type can be the first operand.
    pub(crate) fn takes(self, value: &CelValue) -> bool {
        use CelValue::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
        match self {
            Arithmetic::Add => matches!(
                value,
                Bytes(_) | Double(_) | Duration(_) | Int(_) | List(_) | String(_) | Timestamp(_) | Uint(_)
            ),
            Arithmetic::Subtract => {
                matches!(value, Double(_) | Duration(_) | Int(_) | Timestamp(_) | Uint(_))
            }
            Arithmetic::Multiply | Arithmetic::Divide => matches!(value, Double(_) | Int(_) | Uint(_)),
            Arithmetic::Modulo => matches!(value, Int(_) | Uint(_)),
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "_+_" => Arithmetic::Add,
            "_-_" => Arithmetic::Subtract,
            "_*_" => Arithmetic::Multiply,
            "_/_" => Arithmetic::Divide,
            "_%_" => Arithmetic::Modulo,
            _ => return None,
        })
    }
}

pub(crate) fn arithmetic(operator: Arithmetic, a: &CelValue, b: &CelValue) -> Outcome {
    use Arithmetic::*;
    use CelValue::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    Ok(match (operator, a, b) {
        (Add, Int(a), Int(b)) => Int(a.checked_add(*b).ok_or(Overflow("integer"))?),
        (Subtract, Int(a), Int(b)) => Int(a.checked_sub(*b).ok_or(Overflow("integer"))?),
        (Multiply, Int(a), Int(b)) => Int(a.checked_mul(*b).ok_or(Overflow("integer"))?),
        (Divide, Int(_), Int(0)) | (Divide, Uint(_), Uint(0)) => return Err(DivisionByZero),
        (Modulo, Int(_), Int(0)) | (Modulo, Uint(_), Uint(0)) => return Err(ModulusByZero),
        (Divide, Int(a), Int(b)) => Int(a.checked_div(*b).ok_or(Overflow("integer"))?),
        (Modulo, Int(a), Int(b)) => Int(a.checked_rem(*b).ok_or(Overflow("integer"))?),
        (Add, Uint(a), Uint(b)) => Uint(a.checked_add(*b).ok_or(Overflow("unsigned integer"))?),
        (Subtract, Uint(a), Uint(b)) => Uint(a.checked_sub(*b).ok_or(Overflow("unsigned integer"))?),
        (Multiply, Uint(a), Uint(b)) => Uint(a.checked_mul(*b).ok_or(Overflow("unsigned integer"))?),
        (Divide, Uint(a), Uint(b)) => Uint(a / b),
        (Modulo, Uint(a), Uint(b)) => Uint(a % b),
        (Add, Double(a), Double(b)) => Double(a + b),
        (Subtract, Double(a), Double(b)) => Double(a - b),
        (Multiply, Double(a), Double(b)) => Double(a * b),
        (Divide, Double(a), Double(b)) => Double(a / b),
        (Add, String(a), String(b)) => {
            let mut joined = std::string::String::with_capacity(a.len() + b.len());
            joined.push_str(a);
            joined.push_str(b);
            String(SmolStr::from(joined))
        }
        (Add, Bytes(a), Bytes(b)) => Bytes([&a[..], &b[..]].concat().into()),
        (Add, Duration(a), Duration(b)) => Duration(a.checked_add(*b).ok_or(Overflow("integer"))?),
        (Subtract, Duration(a), Duration(b)) => Duration(a.checked_sub(*b).ok_or(Overflow("integer"))?),
        (Add, Timestamp(at), Duration(span)) | (Add, Duration(span), Timestamp(at)) => Timestamp(at.plus(*span)?),
        (Subtract, Timestamp(at), Duration(span)) => {
            Timestamp(at.plus(span.checked_neg().ok_or(Overflow("timestamp"))?)?)
        }
        (Subtract, Timestamp(a), Timestamp(b)) => Duration(a.since(*b)?),
        (Add, List(a), List(b)) => List(concatenate(a, b)?),
        _ => return Err(NoSuchOverload),
    })
}

/// Evaluates `a + b` for lists, by the list type of `a`.
fn concatenate(a: &ListValue, b: &ListValue) -> Outcome<ListValue> {
    let joined = match a.decl().map(|decl| &decl.kind) {
        Some(DeclKind::List {
            list_type: ListType::Set,
            ..
        }) => {
            let mut items = a.to_vec()?;
            for item in b.to_vec()? {
                if !items.iter().any(|other| equal(other, &item)) {
                    items.push(item);
                }
            }
            items
        }
        Some(DeclKind::List {
            list_type: ListType::Map(keys),
            ..
        }) => {
            let mut items = a.to_vec()?;
            for item in b.to_vec()? {
                let key = key_of(&item, keys);
                match items.iter_mut().find(|other| key_of(other, keys) == key) {
                    Some(other) => *other = item,
                    None => items.push(item),
                }
            }
            items
        }
        _ => {
            let mut items = a.to_vec()?;
            items.extend(b.to_vec()?);
            return Ok(ListValue::Built(Arc::new(items)));
        }
    };
    Ok(keep_decl(joined, a.decl()))
}

/// A list of a set or map type keeps its declaration, so that the sum compares like its parts.
fn keep_decl(items: Vec<CelValue>, decl: Option<&Arc<DeclType>>) -> ListValue {
    let mut growth = Growth::default();
    let values: Result<Vec<Value>, EvaluationError> = items.iter().map(|item| item.to_value(&mut growth)).collect();
    match values {
        Ok(values) => ListValue::Data(List::from(values), decl.cloned()),
        Err(_) => ListValue::Built(Arc::new(items)),
    }
}

/// Evaluates `value in container`.
pub(crate) fn is_in(value: &CelValue, container: &CelValue) -> Outcome<bool> {
    match container {
        CelValue::List(list) => Ok(contains(list, value)),
        CelValue::Map(map) => Ok(map.contains(value)),
        _ => Err(NoSuchOverload),
    }
}

/// Converts a number to an index.
fn list_index(index: &CelValue) -> Outcome<i64> {
    match index {
        CelValue::Int(index) => Ok(*index),
        CelValue::Uint(index) => i64::try_from(*index).map_err(|_| EvaluationError::IndexOutOfBounds(i64::MAX)),
        CelValue::Double(index) if index.fract() == 0.0 => Ok(*index as i64),
        CelValue::Double(index) => Err(EvaluationError::failed(format!(
            "unsupported index value {} in list",
            general(*index)
        ))),
        other => Err(EvaluationError::failed(format!(
            "unsupported index type '{}' in list",
            other.type_name()
        ))),
    }
}

/// Evaluates `container[index]`; `None` if there is no such element.
pub(crate) fn index_if_there(container: &CelValue, index: &CelValue) -> Outcome<Option<CelValue>> {
    match container {
        CelValue::List(list) => {
            let at = list_index(index)?;
            match usize::try_from(at).ok().filter(|at| *at < list.len()) {
                Some(at) => list.get(at).map(Some),
                None => Ok(None),
            }
        }
        CelValue::Map(map) => map.get(index).transpose(),
        _ => Err(NoSuchOverload),
    }
}

/// Evaluates `container[index]`.
pub(crate) fn index(container: &CelValue, index: &CelValue) -> Outcome {
    match index_if_there(container, index)? {
        Some(value) => Ok(value),
        None => Err(match container {
            CelValue::List(_) => EvaluationError::IndexOutOfBounds(list_index(index)?),
            _ => EvaluationError::no_such_key(&key_text(index)),
        }),
    }
}

fn key_text(key: &CelValue) -> String {
    match MapKey::from_value(key) {
        Some(MapKey::String(text)) => text.to_string(),
        Some(MapKey::Int(number)) => number.to_string(),
        Some(MapKey::Uint(number)) => number.to_string(),
        Some(MapKey::Bool(flag)) => flag.to_string(),
        None => key.type_name().to_string(),
    }
}
