//! Nodes of a tree: their positions in the text, and their heights.

use crate::syntax::{Expr, ExprKind, Id};

/// Iterations and bindings need more stack than other nodes during evaluation, and count as this many.
const FOLD_HEIGHT: u16 = 5;
const BIND_HEIGHT: u16 = 1;

/// Offsets and heights by node number. Numbers begin with one.
pub(super) struct Nodes {
    offsets: Vec<usize>,
    heights: Vec<u16>,
}

#[expect(clippy::indexing_slicing, reason = "nodes are numbered as they are added")]
impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            offsets: vec![0],
            heights: vec![0],
        }
    }

    /// Creates a node at `offset`.
    pub(super) fn add(&mut self, offset: usize, kind: ExprKind) -> Expr {
        // Leaves do not count.
        let own = !matches!(kind, ExprKind::Literal(_) | ExprKind::Ident(_));
        let height = self.height_below(&kind) + u16::from(own);
        let id = self.add_place(offset);
        self.heights[id as usize] = height;
        Expr { id, kind }
    }

    /// Assigns a number to a position that is not an expression.
    pub(super) fn add_place(&mut self, offset: usize) -> Id {
        let id = self.offsets.len() as Id;
        self.offsets.push(offset);
        self.heights.push(0);
        id
    }

    pub(super) fn offset(&self, id: Id) -> usize {
        self.offsets[id as usize]
    }

    pub(super) fn height(&self, expr: &Expr) -> u16 {
        self.heights[expr.id as usize]
    }

    pub(super) fn into_offsets(self) -> Vec<usize> {
        self.offsets
    }

    fn height_below(&self, kind: &ExprKind) -> u16 {
        let tallest = |expressions: &mut dyn Iterator<Item = &Expr>| {
            let heights = expressions.map(|expr| self.height(expr));
            heights.max().unwrap_or(0)
        };
        match kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
            ExprKind::Select { operand, .. } => self.height(operand),
            ExprKind::Call { target, args, .. } => tallest(&mut args.iter().chain(target.as_deref())),
            ExprKind::List(elements) => tallest(&mut elements.iter().map(|(element, _)| element)),
            ExprKind::Map(entries) => tallest(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            ExprKind::Struct { fields, .. } => tallest(&mut fields.iter().map(|field| &field.value)),
            ExprKind::Fold(fold) => {
                FOLD_HEIGHT + tallest(&mut [&fold.range, &fold.body].into_iter().chain(fold.filter.as_ref()))
            }
            ExprKind::Bind(bind) | ExprKind::OptionalMap { bind, .. } => {
                BIND_HEIGHT + tallest(&mut [&bind.value, &bind.body].into_iter())
            }
        }
    }
}
