//! Steps of an evaluation.

use smol_str::SmolStr;

use crate::functions::{Call, Cost};
use crate::operate::Arithmetic;
use crate::regexp::Pattern;
use crate::syntax::FoldKind;
use crate::value::CelValue;

/// Step of an evaluation.
#[derive(Debug)]
pub(crate) enum Node {
    Const(CelValue),
    /// A precomputed value, with the cost of computing it.
    Made(CelValue, u64),
    Variable(usize),
    /// A variable and selections from it.
    Path(usize, Box<[SmolStr]>),
    Local(usize),
    Select(Box<Node>, SmolStr),
    Has(Box<Node>, SmolStr),
    /// `has()` on a variable and selections from it.
    HasPath(usize, Box<[SmolStr]>),
    OptionalSelect(Box<Node>, SmolStr),
    Call {
        name: &'static str,
        call: Call,
        cost: Cost,
        args: Box<[Node]>,
    },
    /// `matches` with a constant pattern.
    Matches {
        subject: Box<Node>,
        regex: Pattern,
        pattern: u64,
    },
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Conditional(Box<(Node, Node, Node)>),
    Equal(Box<(Node, Node)>, bool),
    Compare(Comparison, Box<(Node, Node)>),
    Arithmetic(Arithmetic, Box<(Node, Node)>),
    In(Box<(Node, Node)>),
    Index(Box<(Node, Node)>),
    OptionalIndex(Box<(Node, Node)>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Struct(SmolStr, Box<[(SmolStr, Node, bool)]>),
    Fold(Box<FoldNode>),
    Bind(Box<(Node, Node)>),
    OptionalMap(bool, Box<(Node, Node)>),
}

/// The comparison of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Iterating macro.
#[derive(Debug)]
pub(crate) struct FoldNode {
    pub(crate) kind: FoldKind,
    pub(crate) range: Node,
    /// True if both index and value, or both key and value, have a variable.
    pub(crate) two: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}
