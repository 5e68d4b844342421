//! Errors of compiling and evaluating an expression.

use thiserror::Error;

use crate::types::Type;

/// Error of compiling an expression.
///
/// ```
/// use holdfast_cel::{CompileError, Environment, Type};
///
/// let environment = Environment::new();
/// assert!(matches!(environment.compile("1 +", &[Type::Int]), Err(CompileError::Issues(_))));
/// assert!(matches!(environment.compile("int('a')", &[Type::Int]), Err(CompileError::Instantiation(_))));
/// let error = environment.compile("1 + 1", &[Type::Bool]).unwrap_err();
/// assert_eq!(error.to_string(), "must evaluate to bool but got int");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The expression does not parse or check. The text lists every issue with its position, in the words of cel-go;
    /// users see it after `compilation failed: `.
    #[error("compilation failed: {0}")]
    Issues(String),
    /// A constant part of the expression cannot be evaluated.
    #[error("program instantiation failed: {0}")]
    Instantiation(String),
    /// The expression has a type that is not allowed.
    #[error("must evaluate to {} but got {}", one_of(expected), actual.in_full())]
    Output {
        /// Allowed types.
        expected: Vec<Type>,
        /// Type of the expression.
        actual: Type,
    },
}

fn one_of(expected: &[Type]) -> String {
    match expected {
        [one] => one.in_full(),
        many => {
            let shown: Vec<String> = many.iter().map(Type::in_full).collect();
            format!("one of [{}]", shown.join(" "))
        }
    }
}

/// Error of an evaluation. The texts are those of cel-go and of the Kubernetes libraries.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, EvaluationError, Type};
///
/// let environment = Environment::new().with_variable("x", Type::Int);
/// let program = environment.compile("1 / x", &[Type::Int])?;
/// let activation = Activation::new(&environment).with("x", CelValue::Int(0));
/// let outcome = program.evaluate(&activation, &mut Budget::default());
/// assert!(matches!(outcome, Err(EvaluationError::DivisionByZero)));
/// # Ok::<(), holdfast_cel::CompileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// `1 / 0`.
    #[error("division by zero")]
    DivisionByZero,
    /// `1 % 0`.
    #[error("modulus by zero")]
    ModulusByZero,
    /// A field or key does not exist.
    #[error("no such key: {0}")]
    NoSuchKey(Box<str>),
    /// An index is past the end of a list.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// A function has no overload for its arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// A function or operator has no overload for its arguments. The text has its name and the types of the arguments.
    #[error("no such overload: {0}")]
    NoSuchOverloadOf(Box<str>),
    /// The caller did not set a variable.
    #[error("no such attribute(s): {0}")]
    NoSuchAttribute(Box<str>),
    /// A result exceeds its type: `integer`, `unsigned integer`, `duration` or `timestamp`.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// A value cannot be converted.
    #[error("type conversion error from '{from}' to '{to}'")]
    Conversion {
        /// Type of the value.
        from: Box<str>,
        /// Requested type.
        to: &'static str,
    },
    /// A value is larger than an object may be.
    #[error(transparent)]
    TooLarge(#[from] holdfast_value::Error),
    /// The cost limit of this call is exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// The caller stopped the evaluation.
    #[error("operation interrupted")]
    Interrupted,
    /// Any other error, with the message of the function that failed.
    #[error("{0}")]
    Failed(Box<str>),
}

impl EvaluationError {
    /// Creates an error with its own message.
    pub fn failed(message: impl Into<String>) -> Self {
        EvaluationError::Failed(message.into().into_boxed_str())
    }

    /// True if a function or operator has no overload for its arguments.
    pub fn is_no_such_overload(&self) -> bool {
        matches!(
            self,
            EvaluationError::NoSuchOverload | EvaluationError::NoSuchOverloadOf(_)
        )
    }

    pub(crate) fn no_such_key(key: &str) -> Self {
        EvaluationError::NoSuchKey(key.into())
    }

    /// True if the evaluation was stopped from outside, so that no other branch may hide the error.
    pub(crate) fn stops(&self) -> bool {
        matches!(self, EvaluationError::CostLimitExceeded | EvaluationError::Interrupted)
    }
}
