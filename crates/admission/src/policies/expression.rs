//! A compiled expression and its errors, with the messages that clients see.

use holdfast_cel::{Activation, Budget, CelValue, CompileError, Program};

/// Message for expressions that together exceed their budget.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// An expression of a policy or a match condition.
#[derive(Debug)]
pub struct Expression {
    text: Box<str>,
    program: Result<Program, CompileError>,
}

/// Error of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The common budget is exhausted; nothing more is evaluated.
    OutOfBudget,
    /// This expression failed.
    Failed(String),
}

impl Failure {
    /// Returns the message that clients see.
    pub fn message(self) -> String {
        match self {
            Self::OutOfBudget => OUT_OF_BUDGET.to_owned(),
            Self::Failed(why) => why,
        }
    }
}

impl Expression {
    /// Creates an expression from its text and the result of its compilation.
    pub fn new(text: &str, program: Result<Program, CompileError>) -> Self {
        Self {
            text: text.into(),
            program,
        }
    }

    /// Returns the text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the expression.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/cel#evaluationActivation.Evaluate
    ///
    /// # Errors
    /// If there is no value.
    pub fn evaluate(&self, activation: &Activation, budget: &mut Budget<'_>) -> Result<CelValue, Failure> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Err(Failure::Failed(format!("compilation error: {error}"))),
        };
        let value = program.evaluate(activation, budget);
        if budget.is_exhausted() {
            return Err(Failure::OutOfBudget);
        }
        value.map_err(|error| Failure::Failed(format!("expression '{}' resulted in error: {error}", self.text)))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_cel::{Environment, Type};

    use super::*;

    fn expression(text: &str) -> Expression {
        Expression::new(text, Environment::new().compile(text, &[Type::Bool]))
    }

    #[test]
    fn a_failure_names_the_expression() {
        let activation = Activation::new(&Environment::new());
        let failure = |text: &str, budget: &mut Budget<'_>| {
            let outcome = expression(text).evaluate(&activation, budget);
            outcome.map_err(Failure::message).err()
        };
        let mut budget = Budget::default();
        assert_eq!(
            failure("1 / 0 == 1", &mut budget).as_deref(),
            Some("expression '1 / 0 == 1' resulted in error: division by zero")
        );
        assert_eq!(
            failure("1", &mut budget).as_deref(),
            Some("compilation error: must evaluate to bool but got int")
        );
        assert_eq!(failure("1 == 1", &mut budget), None);
        let mut spent = Budget::new(100, 0);
        assert_eq!(
            failure("'ab'.contains('b')", &mut spent).as_deref(),
            Some(OUT_OF_BUDGET)
        );
    }
}
