//! Functions of mutating policies: keys in JSON pointers. The evaluator creates `JSONPatch{…}` and `Object{…}`.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use crate::error::EvaluationError::NoSuchOverload;
use crate::functions::{Cost, Function};
use crate::value::CelValue;

pub(crate) const FUNCTIONS: &[Function] = &[Function {
    name: "jsonpatch.escapeKey",
    call: |_, args| {
        let key = args[0].as_str().ok_or(NoSuchOverload)?;
        Ok(CelValue::text(key.replace('~', "~0").replace('/', "~1")))
    },
    cost: Cost::Fixed(1),
    signatures: &["(string) string"],
}];
