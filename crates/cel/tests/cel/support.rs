//! Test helpers: compile and evaluate in one step.

use std::sync::Arc;

use holdfast_cel::{Activation, Budget, CelValue, DeclField, DeclType, Environment, EvaluationError};
use holdfast_value::{Limits, json};

/// Returns an object type with these fields, none of them required.
pub(crate) fn fields<const N: usize>(fields: [(&str, DeclType); N]) -> DeclType {
    DeclType::object(
        fields
            .into_iter()
            .filter_map(|(name, decl)| DeclField::new(name, decl, false)),
    )
}

/// Returns the compile error of `expression` if `self` has the type `schema`.
pub(crate) fn compile_error(schema: &DeclType, expression: &str) -> String {
    let environment = Environment::new().with_object("self", Arc::new(schema.clone()));
    match environment.compile(expression, &[]) {
        Ok(program) => format!("compiled to {}", program.output_type()),
        Err(error) => error.to_string(),
    }
}

/// Evaluates `expression` without variables.
pub(crate) fn evaluate(expression: &str) -> Result<CelValue, String> {
    evaluate_in(&Environment::new(), &[], expression)
}

/// Evaluates `expression` with `self` converted from `object` by `schema`.
pub(crate) fn evaluate_on(schema: &DeclType, object: &str, expression: &str) -> Result<CelValue, String> {
    let schema = Arc::new(schema.clone());
    let environment = Environment::new().with_object("self", schema.clone());
    let value = json::parse(object.as_bytes(), &Limits::default()).map_err(|error| error.to_string())?;
    let own = CelValue::typed(&value, &schema).map_err(|error| error.to_string())?;
    evaluate_in(&environment, &[("self", own)], expression)
}

/// Evaluates `expression` in `environment` with `values`.
pub(crate) fn evaluate_in(
    environment: &Environment,
    values: &[(&str, CelValue)],
    expression: &str,
) -> Result<CelValue, String> {
    let program = environment
        .compile(expression, &[])
        .map_err(|error| error.to_string())?;
    let mut activation = Activation::new(environment);
    for (name, value) in values {
        activation.set(name, value.clone());
    }
    let outcome: Result<CelValue, EvaluationError> = program.evaluate(&activation, &mut Budget::default());
    outcome.map_err(|error| error.to_string())
}

/// Asserts that each expression is true.
pub(crate) fn all_true(expressions: &[&str]) {
    for expression in expressions {
        match evaluate(expression) {
            Ok(CelValue::Bool(true)) => {}
            other => panic!("{expression}: {other:?}"),
        }
    }
}
