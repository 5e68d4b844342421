//! Compilation of an expression: parse, check and plan.

use crate::checker::check;
use crate::environment::Environment;
use crate::error::CompileError;
use crate::parser::{Dialect, parse};
use crate::program::{Program, plan};
use crate::source::describe;
use crate::types::Type;

impl Environment {
    /// Compiles `expression`, which must have one of the types `expected` (any type if it is empty).
    ///
    /// # Errors
    /// Fails if it does not parse or check, if it has another type, or if a constant part of it fails.
    pub fn compile(&self, expression: &str, expected: &[Type]) -> Result<Program, CompileError> {
        let issues = |issues| CompileError::Issues(describe(expression, issues));
        let dialect = match self.bindings {
            true => Dialect::WithBindings,
            false => Dialect::Standard,
        };
        let parsed = parse(expression, dialect).map_err(issues)?;
        let checked = check(self, parsed).map_err(issues)?;
        let actual = checked.type_of(checked.root.id);
        if !expected.is_empty() && !expected.contains(&actual) {
            return Err(CompileError::Output {
                expected: expected.to_vec(),
                actual,
            });
        }
        plan(self, checked).map_err(CompileError::Instantiation)
    }
}
