//! Syntax tree of an expression with macros expanded.

use smol_str::SmolStr;

use crate::value::CelValue;

/// Number of a node within its expression; the index of its type and position.
pub(crate) type Id = u32;

/// Node of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: ExprKind,
}

/// Content of a node.
#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    /// A literal.
    Literal(CelValue),
    /// A name; a leading dot is kept.
    Ident(SmolStr),
    /// `operand.field`, or `has(operand.field)` if `test` is set.
    Select {
        operand: Box<Expr>,
        field: SmolStr,
        test: bool,
    },
    /// A function or an operator by its name in the language (`_+_`).
    Call {
        function: SmolStr,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// `[a, ?b]`; the flag marks optional elements.
    List(Vec<(Expr, bool)>),
    /// `{k: v, ?k: v}`.
    Map(Vec<MapEntry>),
    /// `Name{field: value}`.
    Struct { name: SmolStr, fields: Vec<StructField> },
    /// A macro that iterates over a range.
    Fold(Box<Fold>),
    /// `cel.bind(name, value, body)`.
    Bind(Box<Bind>),
    /// `target.optMap(name, body)` and `target.optFlatMap(name, body)`.
    OptionalMap { flat: bool, bind: Box<Bind> },
}

impl Expr {
    /// Calls `visit` for each direct child expression, in the order of the text.
    pub(crate) fn each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => visit(operand),
            ExprKind::Call { target, args, .. } => target.iter().map(|target| &**target).chain(args).for_each(visit),
            ExprKind::List(elements) => elements.iter().for_each(|(element, _)| visit(element)),
            ExprKind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .for_each(visit),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| visit(&field.value)),
            ExprKind::Fold(fold) => [Some(&fold.range), fold.filter.as_ref(), Some(&fold.body)]
                .into_iter()
                .flatten()
                .for_each(visit),
            ExprKind::Bind(bind) | ExprKind::OptionalMap { bind, .. } => {
                visit(&bind.value);
                visit(&bind.body);
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct StructField {
    pub(crate) id: Id,
    pub(crate) name: SmolStr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// Variable for a value within a body.
#[derive(Debug, Clone)]
pub(crate) struct Bind {
    pub(crate) name: SmolStr,
    pub(crate) value: Expr,
    pub(crate) body: Expr,
}

/// Iteration over a list or the keys of a map.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Expr,
    /// Variable of the element or map key; with a second variable, of the index or key.
    pub(crate) var: SmolStr,
    /// Variable of the element or map value.
    pub(crate) var2: Option<SmolStr>,
    /// Condition of the forms with three arguments.
    pub(crate) filter: Option<Expr>,
    /// Expression that is computed for each element.
    pub(crate) body: Expr,
}

/// Macro of the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, and `transformList` with two variables.
    Map,
    Filter,
    /// `transformMap`: new values with the same keys.
    TransformMap,
    /// `transformMapEntry`: new entries.
    TransformMapEntry,
    /// `sortBy`: the elements in the order of their keys.
    SortBy,
}

/// Operators by the names that errors and declarations use.
pub(crate) mod operators {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPTIONAL_INDEX: &str = "_[?_]";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
}
