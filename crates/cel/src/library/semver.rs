//! Semantic versions.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::extension::semver::{Version, normalized};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        call: |_, args| {
            let version = read(args)?.map_err(EvaluationError::failed)?;
            Ok(CelValue::Semver(version.into()))
        },
        cost: Cost::Traverse,
        signatures: &["(string) semver", "(string, bool) semver"],
    },
    Function {
        name: "isSemver",
        call: |_, args| Ok(CelValue::Bool(read(args)?.is_ok())),
        cost: Cost::Traverse,
        signatures: &["(string) bool", "(string, bool) bool"],
    },
    Function {
        name: "major",
        call: |context, args| number(context, args, 0),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
    Function {
        name: "minor",
        call: |context, args| number(context, args, 1),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
    Function {
        name: "patch",
        call: |context, args| number(context, args, 2),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
];

fn read(args: &[CelValue]) -> Outcome<Result<Version, String>> {
    match args {
        [CelValue::String(text)] => Ok(Version::parse(text)),
        [CelValue::String(text), CelValue::Bool(false)] => Ok(Version::parse(text)),
        [CelValue::String(text), CelValue::Bool(true)] => Ok(normalized(text).and_then(|text| Version::parse(&text))),
        _ => Err(NoSuchOverload),
    }
}

fn number(_: &Context<'_>, args: &[CelValue], at: usize) -> Outcome {
    match &args[0] {
        CelValue::Semver(version) => Ok(CelValue::Int(version.numbers[at] as i64)),
        _ => Err(NoSuchOverload),
    }
}
