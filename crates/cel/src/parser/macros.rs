//! Macros: calls that are expanded to another form of expression.
//!
//! A table gives the shape of each macro. A call of another shape remains a call, which the checker then rejects.

use smol_str::SmolStr;

use super::{Dialect, GaveUp, Parser};
use crate::syntax::{Bind, Expr, ExprKind, Fold, FoldKind};

/// Iterating macros: name, number of variables, number of expressions after them, kind.
const FOLDS: [(&str, usize, usize, FoldKind); 17] = [
    ("all", 1, 1, FoldKind::All),
    ("all", 2, 1, FoldKind::All),
    ("exists", 1, 1, FoldKind::Exists),
    ("exists", 2, 1, FoldKind::Exists),
    ("exists_one", 1, 1, FoldKind::ExistsOne),
    ("exists_one", 2, 1, FoldKind::ExistsOne),
    ("existsOne", 2, 1, FoldKind::ExistsOne),
    ("map", 1, 1, FoldKind::Map),
    ("map", 1, 2, FoldKind::Map),
    ("filter", 1, 1, FoldKind::Filter),
    ("transformList", 2, 1, FoldKind::Map),
    ("transformList", 2, 2, FoldKind::Map),
    ("transformMap", 2, 1, FoldKind::TransformMap),
    ("transformMap", 2, 2, FoldKind::TransformMap),
    ("transformMapEntry", 2, 1, FoldKind::TransformMapEntry),
    ("transformMapEntry", 2, 2, FoldKind::TransformMapEntry),
    ("sortBy", 1, 1, FoldKind::SortBy),
];

/// Variable in which macros of the reference accumulate their result.
const ACCUMULATOR: &str = "__result__";

/// A call that is not a macro, unchanged.
pub(crate) type Call = (SmolStr, Option<Expr>, Vec<Expr>);

/// Expands a call at `offset`, or returns the call itself.
#[expect(clippy::indexing_slicing, reason = "a macro is found by its number of arguments")]
pub(crate) fn expand(
    parser: &mut Parser<'_>,
    offset: usize,
    function: SmolStr,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Result<Result<Expr, Call>, GaveUp> {
    if parser.dialect == Dialect::Plain {
        return Ok(Err((function, target, args)));
    }
    let Some(target) = target else {
        if function == "has" && args.len() == 1 {
            return has(parser, offset, args.remove(0)).map(Ok);
        }
        return Ok(Err((function, None, args)));
    };
    if parser.dialect == Dialect::WithBindings && function == "bind" && args.len() == 3 && is_name(&target, "cel") {
        let (why, name) = (SIMPLE, args[0].clone());
        let bind = bind(parser, &name, args.remove(1), args.remove(1), why)?;
        return parser.node(offset, ExprKind::Bind(Box::new(bind))).map(Ok);
    }
    if matches!(function.as_str(), "optMap" | "optFlatMap") && args.len() == 2 {
        let flat = function == "optFlatMap";
        let body = args.remove(1);
        let why = match flat {
            true => "optFlatMap() variable name must be a simple identifier",
            false => "optMap() variable name must be a simple identifier",
        };
        let bind = Box::new(bind(parser, &args.remove(0), target, body, why)?);
        return parser.node(offset, ExprKind::OptionalMap { flat, bind }).map(Ok);
    }
    let found = FOLDS
        .iter()
        .find(|(name, variables, expressions, _)| *name == function && variables + expressions == args.len());
    match found {
        Some(&(_, variables, expressions, kind)) => {
            // `map` with three arguments has one variable and a condition; other macros with three arguments have two
            // variables.
            fold(
                parser,
                offset,
                FoldShape {
                    kind,
                    variables,
                    expressions,
                },
                target,
                args,
            )
            .map(Ok)
        }
        None => Ok(Err((function, Some(target), args))),
    }
}

fn has(parser: &mut Parser<'_>, offset: usize, argument: Expr) -> Result<Expr, GaveUp> {
    match argument.kind {
        ExprKind::Select { operand, field, .. } => parser.node(
            offset,
            ExprKind::Select {
                operand,
                field,
                test: true,
            },
        ),
        _ => Err(parser.report_at(argument.id, "invalid argument to has() macro")),
    }
}

fn bind(parser: &mut Parser<'_>, name: &Expr, value: Expr, body: Expr, why: &str) -> Result<Bind, GaveUp> {
    Ok(Bind {
        name: simple_name(parser, name, why)?,
        value,
        body,
    })
}

/// Shape of an iterating macro: its kind, and the numbers of variables and expressions.
struct FoldShape {
    kind: FoldKind,
    variables: usize,
    expressions: usize,
}

fn fold(
    parser: &mut Parser<'_>,
    offset: usize,
    shape: FoldShape,
    range: Expr,
    args: Vec<Expr>,
) -> Result<Expr, GaveUp> {
    let FoldShape {
        kind,
        variables,
        expressions,
    } = shape;
    let mut args = args.into_iter();
    let mut take = || args.next().ok_or(GaveUp);
    let first = take()?;
    let why = match (kind, variables) {
        (FoldKind::Map | FoldKind::Filter, 1) => "argument is not an identifier",
        _ => SIMPLE,
    };
    let var = simple_name(parser, &first, why)?;
    let var2 = match variables {
        2 => {
            let second = take()?;
            let name = simple_name(parser, &second, why)?;
            if name == var {
                return Err(parser.report_at(second.id, format!("duplicate variable name: {name}")));
            }
            Some(name)
        }
        _ => None,
    };
    let filter = if expressions == 2 { Some(take()?) } else { None };
    let body = take()?;
    parser.node(
        offset,
        ExprKind::Fold(Box::new(Fold {
            kind,
            range,
            var,
            var2,
            filter,
            body,
        })),
    )
}

/// Error of most macros for a variable that is not a name.
const SIMPLE: &str = "argument must be a simple name";

fn simple_name(parser: &mut Parser<'_>, argument: &Expr, why: &str) -> Result<SmolStr, GaveUp> {
    match &argument.kind {
        ExprKind::Ident(name) if name == ACCUMULATOR => {
            Err(parser.report_at(argument.id, "iteration variable overwrites accumulator variable"))
        }
        ExprKind::Ident(name) if !name.starts_with('.') => Ok(name.clone()),
        _ => Err(parser.report_at(argument.id, why)),
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, ExprKind::Ident(found) if found == name)
}
