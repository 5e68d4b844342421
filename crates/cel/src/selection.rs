//! Fields that an expression selects by name.

use crate::parser::{Dialect, parse};
use crate::syntax::{Expr, ExprKind, operators};
use crate::value::CelValue;

/// True if `expression` selects `field` of the name `operand`: `operand.field`, `has(operand.field)` or
/// `operand.?field`. False if it does not parse.
///
/// ```
/// use holdfast_cel::selects_field;
///
/// assert!(selects_field("claims.email.startsWith('a')", "claims", "email"));
/// assert!(!selects_field("claims.name", "claims", "email"));
/// ```
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#hasSelectExp
pub fn selects_field(expression: &str, operand: &str, field: &str) -> bool {
    parse(expression, Dialect::Standard).is_ok_and(|parsed| selects(&parsed.root, operand, field))
}

fn selects(expr: &Expr, operand: &str, field: &str) -> bool {
    let is_operand = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name == operand);
    let is_selected = match &expr.kind {
        ExprKind::Select {
            operand, field: name, ..
        } => is_operand(operand) && name == field,
        ExprKind::Call { function, args, .. } if function == operators::OPTIONAL_SELECT => match args.as_slice() {
            [operand, name] => {
                let is_field = matches!(&name.kind, ExprKind::Literal(CelValue::String(name)) if name == field);
                is_operand(operand) && is_field
            }
            _ => false,
        },
        _ => false,
    };
    let mut found = is_selected;
    expr.each_child(&mut |child| found = found || selects(child, operand, field));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_is_found_at_any_depth() {
        for expression in [
            "claims.email",
            "has(claims.email)",
            "claims.?email.orValue('')",
            "['a'].exists(x, x == claims.email)",
            "{'a': claims.email.size()}",
            "claims.email.domain",
        ] {
            assert!(selects_field(expression, "claims", "email"), "{expression}");
        }
        for expression in [
            "claims['email']",
            "user.email",
            "claims.user.email",
            "'claims.email'",
            "(",
        ] {
            assert!(!selects_field(expression, "claims", "email"), "{expression}");
        }
    }
}
