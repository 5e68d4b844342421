//! Functions of quantities such as `100m`, `1.5Gi` and `1e3`.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::cmp::Ordering;

use holdfast_gotext::quantity::ExactQuantity;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            let quantity = ExactQuantity::parse(text).map_err(|error| EvaluationError::failed(error.to_string()))?;
            Ok(CelValue::Quantity(quantity.into()))
        },
        cost: Cost::Traverse,
        signatures: &["(string) quantity"],
    },
    Function {
        name: "isQuantity",
        call: |_, args| {
            Ok(CelValue::Bool(
                ExactQuantity::parse(args[0].as_str().ok_or(NoSuchOverload)?).is_ok(),
            ))
        },
        cost: Cost::Traverse,
        signatures: &["(string) bool"],
    },
    Function {
        name: "sign",
        call: |_, args| Ok(CelValue::Int(quantity(&args[0])?.sign())),
        cost: Cost::Fixed(1),
        // Documented as a member, but a global function in the reference.
        signatures: &["(quantity) int"],
    },
    Function {
        name: "isInteger",
        call: |_, args| Ok(CelValue::Bool(quantity(&args[0])?.as_integer().is_some())),
        cost: Cost::Fixed(1),
        signatures: &["quantity.() bool"],
    },
    Function {
        name: "asInteger",
        call: |_, args| {
            let whole = quantity(&args[0])?.as_integer();
            whole
                .map(CelValue::Int)
                .ok_or_else(|| EvaluationError::failed("cannot convert value to integer"))
        },
        cost: Cost::Fixed(1),
        signatures: &["quantity.() int"],
    },
    Function {
        name: "asApproximateFloat",
        call: |_, args| Ok(CelValue::Double(quantity(&args[0])?.as_float())),
        cost: Cost::Fixed(1),
        signatures: &["quantity.() double"],
    },
    Function {
        name: "isGreaterThan",
        call: |_, args| order(args).map(|order| CelValue::Bool(order == Ordering::Greater)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) bool", "semver.(semver) bool"],
    },
    Function {
        name: "isLessThan",
        call: |_, args| order(args).map(|order| CelValue::Bool(order == Ordering::Less)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) bool", "semver.(semver) bool"],
    },
    Function {
        name: "compareTo",
        call: |_, args| order(args).map(|order| CelValue::Int(order as i64)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) int", "semver.(semver) int"],
    },
    Function {
        name: "add",
        call: |_, args| sum(args, ExactQuantity::plus),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
    },
    Function {
        name: "sub",
        call: |_, args| sum(args, ExactQuantity::minus),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
    },
];

fn quantity(value: &CelValue) -> Outcome<&ExactQuantity> {
    match value {
        CelValue::Quantity(quantity) => Ok(quantity),
        _ => Err(NoSuchOverload),
    }
}

fn order(args: &[CelValue]) -> Outcome<Ordering> {
    match args {
        [CelValue::Quantity(a), CelValue::Quantity(b)] => Ok(a.compare(b)),
        [CelValue::Semver(a), CelValue::Semver(b)] => Ok(a.compare(b)),
        _ => Err(NoSuchOverload),
    }
}

fn sum(args: &[CelValue], of: fn(&ExactQuantity, &ExactQuantity) -> ExactQuantity) -> Outcome {
    let a = quantity(&args[0])?;
    let sum = match &args[1] {
        CelValue::Quantity(b) => of(a, b),
        CelValue::Int(number) => of(a, &ExactQuantity::from(*number)),
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Quantity(sum.into()))
}
