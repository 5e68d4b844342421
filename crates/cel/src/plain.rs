//! Expressions that are read and never evaluated, in the language without macros and without optional values.

use smol_str::SmolStr;

use crate::parser::{Dialect, parse};
use crate::source::Issue;
use crate::syntax::{Expr, ExprKind};
use crate::value::CelValue;

/// An expression as its text has it.
#[derive(Debug, Clone)]
pub enum PlainExpr {
    /// A literal: null, a boolean, a number, text or bytes.
    Literal(CelValue),
    /// A name; a leading dot is kept.
    Name(SmolStr),
    /// `operand.field`.
    Select {
        /// What stands before the dot.
        operand: Box<PlainExpr>,
        /// The name behind it.
        field: SmolStr,
    },
    /// A call or an operator.
    Call {
        /// The name of the function; that of an operator is as in `_||_`.
        function: SmolStr,
        /// The arguments, without what a method is called on.
        args: Vec<PlainExpr>,
    },
    /// A list, whatever stands in it.
    List,
    /// A map, whatever stands in it.
    Map,
    /// A message, whatever stands in it.
    Struct,
}

impl PlainExpr {
    /// Reads an expression. The tree is at most 250 nodes deep.
    ///
    /// # Errors
    /// The first error, in the words of cel-go and without its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        match parse(text, Dialect::Plain) {
            Ok(parsed) => Ok(parsed.root.into()),
            Err(issues) => Err(first(issues)),
        }
    }
}

/// The error that cel-go reports first: it finds those of syntax before all others.
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
            // The others are made by macros.
            ExprKind::List(_) | ExprKind::Fold(_) | ExprKind::Bind(_) | ExprKind::OptionalMap { .. } => Self::List,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_calls_and_optional_values_are_refused() {
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
