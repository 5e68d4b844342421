//! Lists as sets (cel-go's `ext.Sets`).

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::operate::equal;
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        call: |context, args| two(context, args).map(|(a, b)| CelValue::Bool(covers(&a, &b))),
        cost: Cost::Sets(1),
        signatures: &["(list(T), list(T)) bool"],
    },
    Function {
        name: "sets.equivalent",
        call: |context, args| two(context, args).map(|(a, b)| CelValue::Bool(covers(&a, &b) && covers(&b, &a))),
        cost: Cost::Sets(2),
        signatures: &["(list(T), list(T)) bool"],
    },
    Function {
        name: "sets.intersects",
        call: |context, args| {
            let (a, b) = two(context, args)?;
            Ok(CelValue::Bool(
                a.iter().any(|item| b.iter().any(|other| equal(item, other))),
            ))
        },
        cost: Cost::Sets(1),
        signatures: &["(list(T), list(T)) bool"],
    },
];

/// Returns both lists if the budget allows comparing each element of one with each of the other.
fn two(context: &Context<'_>, args: &[CelValue]) -> Outcome<(Vec<CelValue>, Vec<CelValue>)> {
    let [CelValue::List(a), CelValue::List(b)] = args else {
        return Err(NoSuchOverload);
    };
    if (a.len() as u64).saturating_mul(b.len() as u64) > context.allowance {
        return Err(EvaluationError::CostLimitExceeded);
    }
    Ok((a.to_vec()?, b.to_vec()?))
}

fn covers(set: &[CelValue], part: &[CelValue]) -> bool {
    part.iter().all(|item| set.iter().any(|other| equal(other, item)))
}
