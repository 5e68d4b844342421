//! Lists: the library of Kubernetes (`isSorted`, `sum`, …) and the extended list functions of cel-go (version 3).

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::cmp::Ordering;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::library::strings;
use crate::operate::{Arithmetic, arithmetic, compare, equal, has_order};
use crate::value::{CelValue, ListValue, Outcome};

macro_rules! bool_of_each {
    ($($element:literal),+) => {
        &[$(concat!("list(", $element, ").() bool")),+]
    };
}

macro_rules! element_of_each {
    ($($element:literal),+) => {
        &[$(concat!("list(", $element, ").() ", $element)),+]
    };
}

macro_rules! list_of_each {
    ($($element:literal),+) => {
        &[$(concat!("list(", $element, ").() list(", $element, ")")),+]
    };
}

/// Signatures for lists of each type whose values have an order.
macro_rules! ordered {
    ($of_each:ident) => {
        $of_each!(
            "int",
            "uint",
            "double",
            "bool",
            "duration",
            "timestamp",
            "string",
            "bytes"
        )
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isSorted",
        call: is_sorted,
        cost: Cost::Elements,
        signatures: ordered!(bool_of_each),
    },
    Function {
        name: "sum",
        call: sum,
        cost: Cost::Elements,
        signatures: element_of_each!("int", "uint", "double", "duration"),
    },
    Function {
        name: "min",
        call: min,
        cost: Cost::Elements,
        signatures: ordered!(element_of_each),
    },
    Function {
        name: "max",
        call: max,
        cost: Cost::Elements,
        signatures: ordered!(element_of_each),
    },
    Function {
        name: "indexOf",
        call: index_of,
        cost: Cost::Elements,
        signatures: &["string.(string) int", "string.(string, int) int", "list(A).(A) int"],
    },
    Function {
        name: "lastIndexOf",
        call: last_index_of,
        cost: Cost::Elements,
        signatures: &["string.(string) int", "string.(string, int) int", "list(A).(A) int"],
    },
    Function {
        name: "slice",
        call: slice,
        cost: Cost::Slice,
        signatures: &["list(T).(int, int) list(T)"],
    },
    Function {
        name: "flatten",
        call: flatten,
        cost: Cost::Flatten,
        signatures: &["list(list(T)).() list(T)", "list(dyn).(int) list(dyn)"],
    },
    Function {
        name: "lists.range",
        call: range,
        cost: Cost::Range,
        signatures: &["(int) list(int)"],
    },
    Function {
        name: "reverse",
        call: reverse,
        cost: Cost::Reverse,
        signatures: &["list(T).() list(T)"],
    },
    Function {
        name: "distinct",
        call: distinct,
        cost: Cost::Distinct,
        signatures: &["list(T).() list(T)"],
    },
    Function {
        name: "sort",
        call: sort,
        cost: Cost::Sort,
        signatures: ordered!(list_of_each),
    },
];

fn list(value: &CelValue) -> Outcome<&ListValue> {
    match value {
        CelValue::List(list) => Ok(list),
        _ => Err(NoSuchOverload),
    }
}

fn int(value: Option<&CelValue>) -> Outcome<i64> {
    match value {
        Some(CelValue::Int(number)) => Ok(*number),
        _ => Err(NoSuchOverload),
    }
}

fn is_sorted(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let items = list(&args[0])?.to_vec()?;
    if items.first().is_some_and(|first| !has_order(first)) {
        return Err(NoSuchOverload);
    }
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1])?.is_gt() {
            return Ok(CelValue::Bool(false));
        }
    }
    Ok(CelValue::Bool(true))
}

fn sum(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let mut items = list(&args[0])?.to_vec()?.into_iter();
    // An empty list of unknown type has the integer zero as its sum.
    let first = items.next().unwrap_or(CelValue::Int(0));
    if !matches!(
        first,
        CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) | CelValue::Duration(_)
    ) {
        return Err(NoSuchOverload);
    }
    items.try_fold(first, |sum, item| arithmetic(Arithmetic::Add, &sum, &item))
}

fn extreme(args: &[CelValue], name: &str, wanted: Ordering) -> Outcome {
    let mut items = list(&args[0])?.to_vec()?.into_iter();
    let first = items.next();
    let mut best = first.ok_or_else(|| EvaluationError::failed(format!("{name} called on empty list")))?;
    for item in items {
        if compare(&item, &best)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

fn min(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    extreme(args, "min", Ordering::Less)
}

fn max(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    extreme(args, "max", Ordering::Greater)
}

fn position(args: &[CelValue], last: bool) -> Outcome {
    let CelValue::List(list) = &args[0] else {
        return strings::index_of(args, last);
    };
    let wanted = args.get(1).ok_or(NoSuchOverload)?;
    let items = list.to_vec()?;
    let found = if last {
        items.iter().rposition(|item| equal(item, wanted))
    } else {
        items.iter().position(|item| equal(item, wanted))
    };
    Ok(CelValue::Int(found.map_or(-1, |at| at as i64)))
}

fn index_of(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    position(args, false)
}

fn last_index_of(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    position(args, true)
}

fn slice(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let list = list(&args[0])?;
    let (start, end) = (int(args.get(1))?, int(args.get(2))?);
    let reject = |why: &str| Err(EvaluationError::failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return reject("negative indexes not supported");
    };
    if from > to {
        return reject("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return reject(&format!("list is length {}", list.len()));
    }
    let items: Outcome<Vec<CelValue>> = (from..to).map(|index| list.get(index)).collect();
    Ok(CelValue::list(items?))
}

fn flatten(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let CelValue::List(list) = &args[0] else {
        return Err(flatten_rejected(args));
    };
    let depth = match args.get(1) {
        None => 1,
        Some(CelValue::Int(depth)) => *depth,
        Some(_) => return Err(flatten_rejected(args)),
    };
    if depth < 0 {
        return Err(EvaluationError::failed("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(&mut flat, list, depth)?;
    Ok(CelValue::list(flat))
}

/// The reference displays the declared types for this call.
fn flatten_rejected(args: &[CelValue]) -> EvaluationError {
    let declared = |value: &CelValue| match value {
        CelValue::Map(_) => "map(dyn, dyn)".into(),
        CelValue::List(_) => "list(dyn)".into(),
        other => other.type_name(),
    };
    let arguments: Vec<_> = args[1..].iter().map(declared).collect();
    let call = format!("{}.flatten({})", declared(&args[0]), arguments.join(", "));
    EvaluationError::NoSuchOverloadOf(call.into())
}

/// The recursion is as deep as the value, which its decoder bounds.
fn flatten_into(flat: &mut Vec<CelValue>, list: &ListValue, depth: i64) -> Outcome<()> {
    for index in 0..list.len() {
        match list.get(index)? {
            CelValue::List(inner) if depth > 0 => flatten_into(flat, &inner, depth - 1)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

fn range(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let count = int(args.first())?;
    // A result that exceeds the budget is not created.
    if u64::try_from(count).is_ok_and(|count| count > context.allowance) {
        return Err(EvaluationError::CostLimitExceeded);
    }
    Ok(CelValue::list((0..count).map(CelValue::Int).collect()))
}

fn reverse(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let mut items = list(&args[0])?.to_vec()?;
    items.reverse();
    Ok(CelValue::list(items))
}

fn distinct(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let items = affordable_pairs(context, list(&args[0])?)?;
    let mut kept: Vec<CelValue> = Vec::new();
    for item in items {
        if !kept.iter().any(|other| equal(other, &item)) {
            kept.push(item);
        }
    }
    Ok(CelValue::list(kept))
}

/// Returns the elements if the budget allows comparing all pairs.
fn affordable_pairs(context: &Context<'_>, list: &ListValue) -> Outcome<Vec<CelValue>> {
    let size = list.len() as u64;
    if size.saturating_mul(size).saturating_mul(2) > context.allowance {
        return Err(EvaluationError::CostLimitExceeded);
    }
    list.to_vec()
}

fn sort(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let items = affordable_pairs(context, list(&args[0])?)?;
    let keys = items.clone();
    sort_by_keys(items, &keys)
}

/// Sorts `items` by `keys`.
pub(crate) fn sort_by_keys(items: Vec<CelValue>, keys: &[CelValue]) -> Outcome {
    let Some(first) = keys.first() else {
        return Ok(CelValue::list(items));
    };
    let kind = std::mem::discriminant(first);
    if matches!(compare(first, first), Err(NoSuchOverload)) {
        return Err(EvaluationError::failed("list elements must be comparable"));
    }
    if keys.iter().any(|key| std::mem::discriminant(key) != kind) {
        return Err(EvaluationError::failed("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&a, &b| {
        // Keys without an order are equal.
        compare(&keys[a], &keys[b]).unwrap_or(Ordering::Equal)
    });
    Ok(CelValue::list(order.into_iter().map(|at| items[at].clone()).collect()))
}
