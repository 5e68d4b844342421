//! Expressions that are parsed but never evaluated, in the language without macros and optional values.

use smol_str::SmolStr;

use crate::parser::{Dialect, parse};
use crate::source::Issue;
use crate::syntax::{Expr, ExprKind};
use crate::value::CelValue;

/// Expression in the form of its text.
///
/// ```
/// use holdfast_cel::PlainExpr;
///
/// let Ok(PlainExpr::Select { operand, field }) = PlainExpr::parse("device.driver") else { panic!() };
/// assert_eq!(field, "driver");
/// assert!(matches!(*operand, PlainExpr::Name(name) if name == "device"));
/// ```
#[derive(Debug, Clone)]
pub enum PlainExpr {
    /// A literal: null, a boolean, a number, text or bytes.
    Literal(CelValue),
    /// A name; a leading dot is kept.
    Name(SmolStr),
    /// `operand.field`.
    Select {
        /// Expression before the dot.
        operand: Box<PlainExpr>,
        /// Name after the dot.
        field: SmolStr,
    },
    /// A call or an operator.
    Call {
        /// Name of the function; an operator has a name like `_||_`.
        function: SmolStr,
        /// Arguments, without the receiver of a method.
        args: Vec<PlainExpr>,
    },
    /// A list with any content.
    List,
    /// A map with any content.
    Map,
    /// A message with any content.
    Struct,
}

impl PlainExpr {
    /// Parses an expression. The tree is at most 250 nodes deep.
    ///
    /// ```
    /// use holdfast_cel::PlainExpr;
    ///
    /// assert!(matches!(PlainExpr::parse("a.b == 1"), Ok(PlainExpr::Call { function, .. }) if function == "_==_"));
    /// ```
    ///
    /// # Errors
    /// Returns the first error in the words of cel-go, without its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        match parse(text, Dialect::Plain) {
            Ok(parsed) => Ok(parsed.root.into()),
            Err(issues) => Err(first(issues)),
        }
    }
}

/// Returns the error that cel-go reports first: syntax errors come before all others.
fn first(issues: Vec<Issue>) -> String {
    let syntax = issues.iter().filter(|issue| issue.is_of_syntax());
    let first = syntax.min_by_key(|issue| issue.offset).or(issues.first());
    first.map(|issue| issue.message.clone()).unwrap_or_default()
}

impl From<Expr> for PlainExpr {
    fn from(expr: Expr) -> Self {
        match expr.kind {
            ExprKind::Literal(value) => Self::Literal(value),
            ExprKind::Ident(name) => Self::Name(name),
            ExprKind::Select { operand, field, .. } => Self::Select {
                operand: Box::new(Self::from(*operand)),
                field,
            },
            ExprKind::Call { function, args, .. } => Self::Call {
                function,
                args: args.into_iter().map(Self::from).collect(),
            },
            ExprKind::Map(_) => Self::Map,
            ExprKind::Struct { .. } => Self::Struct,
            // The other nodes come only from macros.
            ExprKind::List(_) | ExprKind::Fold(_) | ExprKind::Bind(_) | ExprKind::OptionalMap { .. } => Self::List,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_language_rejects_macros_and_optionals() {
        let Ok(PlainExpr::Call { function, args }) = PlainExpr::parse("has(a.b)") else {
            unreachable!("no call");
        };
        assert_eq!(function, "has");
        assert!(matches!(args.as_slice(), [PlainExpr::Select { .. }]));
        for (text, why) in [
            ("a.?b", "unsupported syntax '.?'"),
            ("a[?b]", "unsupported syntax '[?'"),
            ("[?a]", "unsupported syntax '?'"),
            ("{?a: 1}", "unsupported syntax '?'"),
            ("a.?b c", "Syntax error: extraneous input 'c' expecting <EOF>"),
        ] {
            assert_eq!(PlainExpr::parse(text).unwrap_err(), why, "{text}");
        }
    }
}
