//! Optional values (cel-go's optional types, version 2). `optMap`, `optFlatMap` and the syntax are in the modules of
//! macros and operators.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::time::Timestamp;
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "optional.of",
        call: |_, args| Ok(CelValue::some(args[0].clone())),
        cost: Cost::Fixed(1),
        signatures: &["(V) optional(V)"],
    },
    Function {
        name: "optional.ofNonZeroValue",
        call: |_, args| {
            Ok(if is_zero(&args[0]) {
                CelValue::NONE
            } else {
                CelValue::some(args[0].clone())
            })
        },
        cost: Cost::Fixed(1),
        signatures: &["(V) optional(V)"],
    },
    Function {
        name: "optional.none",
        call: |_, _| Ok(CelValue::NONE),
        cost: Cost::Fixed(1),
        signatures: &["() optional(V)"],
    },
    Function {
        name: "hasValue",
        call: |_, args| inner(&args[0]).map(|inner| CelValue::Bool(inner.is_some())),
        cost: Cost::Fixed(1),
        signatures: &["optional(V).() bool"],
    },
    Function {
        name: "value",
        call: |_, args| {
            let missing = || EvaluationError::failed("optional.none() dereference");
            inner(&args[0])?.cloned().ok_or_else(missing)
        },
        cost: Cost::Fixed(1),
        signatures: &["optional(V).() V"],
    },
    Function {
        name: "or",
        call: |_, args| {
            // A value that is not an optional counts as an optional with a value.
            Ok(match &args[0] {
                CelValue::Optional(None) => args[1].clone(),
                other => other.clone(),
            })
        },
        cost: Cost::Fixed(1),
        signatures: &["optional(V).(optional(V)) optional(V)"],
    },
    Function {
        name: "orValue",
        call: |_, args| {
            Ok(match &args[0] {
                CelValue::Optional(Some(value)) => (**value).clone(),
                CelValue::Optional(None) => args[1].clone(),
                other => other.clone(),
            })
        },
        cost: Cost::Fixed(1),
        signatures: &["optional(V).(V) V"],
    },
    Function {
        name: "optional.unwrap",
        call: unwrap,
        cost: Cost::Fixed(1),
        signatures: &["(list(optional(V))) list(V)"],
    },
    Function {
        name: "unwrapOpt",
        call: unwrap,
        cost: Cost::Fixed(1),
        signatures: &["list(optional(V)).() list(V)"],
    },
    Function {
        name: "first",
        call: |_, args| end(&args[0], |_| 0),
        cost: Cost::Fixed(1),
        signatures: &["list(V).() optional(V)"],
    },
    Function {
        name: "last",
        call: |_, args| end(&args[0], |length| length - 1),
        cost: Cost::Fixed(1),
        signatures: &["list(V).() optional(V)"],
    },
];

/// Returns the content of an optional.
pub(crate) fn inner(value: &CelValue) -> Outcome<Option<&CelValue>> {
    match value {
        CelValue::Optional(inner) => Ok(inner.as_deref()),
        _ => Err(NoSuchOverload),
    }
}

fn unwrap(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let CelValue::List(list) = &args[0] else {
        return Err(NoSuchOverload);
    };
    let mut kept = Vec::new();
    for item in list.to_vec()? {
        kept.extend(inner(&item)?.cloned());
    }
    Ok(CelValue::list(kept))
}

fn end(value: &CelValue, at: fn(usize) -> usize) -> Outcome {
    let CelValue::List(list) = value else {
        return Err(NoSuchOverload);
    };
    match list.len() {
        0 => Ok(CelValue::NONE),
        length => list.get(at(length)).map(CelValue::some),
    }
}

/// True if a value is the default of its type.
fn is_zero(value: &CelValue) -> bool {
    match value {
        CelValue::Null | CelValue::Optional(None) => true,
        CelValue::Bool(flag) => !flag,
        CelValue::Int(number) => *number == 0,
        CelValue::Uint(number) => *number == 0,
        CelValue::Double(float) => *float == 0.0,
        CelValue::String(text) => text.is_empty(),
        CelValue::Bytes(bytes) => bytes.is_empty(),
        CelValue::Duration(nanoseconds) => *nanoseconds == 0,
        // Go's zero time.
        CelValue::Timestamp(at) => Some(*at) == Timestamp::parse("0001-01-01T00:00:00Z"),
        CelValue::List(list) => list.len() == 0,
        CelValue::Map(map) => map.len() == 0,
        CelValue::Struct(object) => object.fields.is_empty(),
        _ => false,
    }
}
