//! Functions with regular expressions.

use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        call: find,
        cost: Cost::Find,
        signatures: &["string.(string) string"],
    },
    Function {
        name: "findAll",
        call: find_all,
        cost: Cost::Find,
        signatures: &["string.(string) list(string)", "string.(string, int) list(string)"],
    },
];

fn subject_and_pattern(args: &[CelValue]) -> Outcome<(&str, &str)> {
    match args {
        [CelValue::String(subject), CelValue::String(pattern), ..] => Ok((subject, pattern)),
        _ => Err(NoSuchOverload),
    }
}

/// Evaluates `subject.matches(pattern)`.
pub(crate) fn matches(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    Ok(CelValue::Bool(context.regexes.get(pattern)?.is_match(subject)))
}

fn find(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    Ok(CelValue::String(SmolStr::new(regex.find(subject).unwrap_or_default())))
}

fn find_all(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let most = match args.get(2) {
        None => usize::MAX,
        // A negative limit means no limit.
        Some(CelValue::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => return Err(NoSuchOverload),
    };
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    let found = regex.find_all(subject, most).into_iter();
    Ok(CelValue::list(
        found.map(|found| CelValue::String(SmolStr::new(found))).collect(),
    ))
}
