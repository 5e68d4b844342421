//! What can go wrong: before an expression runs, and while it runs.

use thiserror::Error;

use crate::types::Type;
use crate::value::CelValue;

/// Why an expression is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The expression does not parse or check. The text lists every issue with its place, in the words of cel-go; users
    /// see it behind `compilation failed: `.
    #[error("compilation failed: {0}")]
    Issues(String),
    /// A part of the expression that is known ahead cannot be evaluated.
    #[error("program instantiation failed: {0}")]
    Instantiation(String),
    /// The expression has a type that its place has no use for.
    #[error("must evaluate to {} but got {}", one_of(expected), actual.in_full())]
    Output {
        /// The types that would do.
        expected: Vec<Type>,
        /// The type that the expression has.
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

/// Why an evaluation gave no value. The texts are those of cel-go and of the libraries of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// `1 / 0`.
    #[error("division by zero")]
    DivisionByZero,
    /// `1 % 0`.
    #[error("modulus by zero")]
    ModulusByZero,
    /// A field or a key that is not there.
    #[error("no such key: {0}")]
    NoSuchKey(Box<str>),
    /// An index past the end of a list.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// A function has no overload for its arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// The same, with the name of the function or operator and the types of the arguments.
    #[error("no such overload: {0}")]
    NoSuchOverloadOf(Box<str>),
    /// A variable that the caller did not set.
    #[error("no such attribute(s): {0}")]
    NoSuchAttribute(Box<str>),
    /// A result that its type cannot hold: `integer`, `unsigned integer`, `duration` or `timestamp`.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// A conversion that this value does not have.
    #[error("type conversion error from '{from}' to '{to}'")]
    Conversion {
        /// The type of the value.
        from: Box<str>,
        /// The wanted type.
        to: &'static str,
    },
    /// A value is larger than an object may be.
    #[error(transparent)]
    TooLarge(#[from] holdfast_value::Error),
    /// The budget of this call is spent.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// The caller stopped the evaluation.
    #[error("operation interrupted")]
    Interrupted,
    /// Anything else, in the words of the function that failed.
    #[error("{0}")]
    Failed(Box<str>),
}

impl EvaluationError {
    /// An error in words of its own.
    pub fn failed(message: impl Into<String>) -> Self {
        EvaluationError::Failed(message.into().into_boxed_str())
    }

    /// Whether a function or an operator has no overload for its arguments.
    pub fn is_no_such_overload(&self) -> bool {
        matches!(
            self,
            EvaluationError::NoSuchOverload | EvaluationError::NoSuchOverloadOf(_)
        )
    }

    /// `error`, with the function or operator `name` and its arguments.
    pub(crate) fn of_call(self, name: &str, args: &[CelValue]) -> Self {
        if self != EvaluationError::NoSuchOverload {
            return self;
        }
        // The reference finds this one by what a value can do, and not by its type.
        if name == "size" {
            return EvaluationError::NoSuchOverloadOf(name.into());
        }
        let types: Vec<_> = args.iter().map(CelValue::type_name).collect();
        EvaluationError::NoSuchOverloadOf(format!("{name}({})", types.join(", ")).into())
    }

    pub(crate) fn no_such_key(key: &str) -> Self {
        EvaluationError::NoSuchKey(key.into())
    }

    /// Whether the evaluation was stopped from outside, so that no other branch may hide the error.
    pub(crate) fn stops(&self) -> bool {
        matches!(self, EvaluationError::CostLimitExceeded | EvaluationError::Interrupted)
    }
}
