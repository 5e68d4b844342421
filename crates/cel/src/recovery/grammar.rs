//! Grammar of CEL, from which the reference's parser is generated.

use self::Shape::{Choice, Optional, Precedence, Repeated, Sequence};
use crate::lexer::Kind::{self, *};

/// Set of token kinds.
pub(super) type Kinds = u64;
/// Flag in a set of kinds: the rule may end here.
pub(super) const END_OF_RULE: Kinds = 1 << 63;

#[expect(clippy::indexing_slicing, reason = "the place is within the list")]
pub(super) const fn set(kinds: &[Kind]) -> Kinds {
    let (mut set, mut at) = (0, 0);
    while at < kinds.len() {
        set |= 1 << kinds[at] as u8;
        at += 1;
    }
    set
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Rule {
    Start,
    Expr,
    Or,
    And,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    Arguments,
    ListEntries,
    Fields,
    Field,
    MapEntries,
    FieldName,
    Element,
    Literal,
}

pub(super) const RULES: usize = 17;

/// Part of the grammar.
pub(super) enum Shape {
    Token(Kinds),
    Call(Rule, u8),
    Sequence(Vec<Shape>),
    Optional(Box<Shape>),
    /// Any number of repetitions, or at least one if `once` is set. The next token decides on another repetition, or
    /// more tokens if it is `predicted`.
    Repeated {
        body: Box<Shape>,
        once: bool,
        predicted: bool,
    },
    Choice(Vec<Shape>),
    /// Matches if the rule was called with at most this precedence.
    Precedence(u8),
}

fn token(kind: Kind) -> Shape {
    Shape::Token(set(&[kind]))
}

fn of(rule: Rule) -> Shape {
    Shape::Call(rule, 0)
}

fn maybe(shape: Shape) -> Shape {
    Optional(Box::new(shape))
}

fn repeated(parts: Vec<Shape>, predicted: bool) -> Shape {
    Repeated {
        body: Box::new(Sequence(parts)),
        once: false,
        predicted,
    }
}

fn at_least_once(kind: Kind, predicted: bool) -> Shape {
    Repeated {
        body: Box::new(token(kind)),
        once: true,
        predicted,
    }
}

fn infix(strength: u8, operators: &[Kind], rule: Rule) -> Shape {
    Sequence(vec![
        Precedence(strength),
        Shape::Token(set(operators)),
        Shape::Call(rule, strength + 1),
    ])
}

fn operations(body: Shape) -> Shape {
    Repeated {
        body: Box::new(body),
        once: false,
        predicted: true,
    }
}

/// Returns a rule of cel-go's grammar.
pub(super) fn grammar(rule: Rule) -> Shape {
    match rule {
        Rule::Start => Sequence(vec![of(Rule::Expr), token(End)]),
        Rule::Expr => Sequence(vec![
            of(Rule::Or),
            maybe(Sequence(vec![
                token(Question),
                of(Rule::Or),
                token(Colon),
                of(Rule::Expr),
            ])),
        ]),
        Rule::Or => Sequence(vec![of(Rule::And), repeated(vec![token(Or), of(Rule::And)], false)]),
        Rule::And => Sequence(vec![
            of(Rule::Relation),
            repeated(vec![token(And), of(Rule::Relation)], false),
        ]),
        Rule::Relation => {
            let operators = [Less, LessEqual, GreaterEqual, Greater, Equal, NotEqual, In];
            Sequence(vec![of(Rule::Calc), operations(infix(1, &operators, Rule::Relation))])
        }
        Rule::Calc => Sequence(vec![
            of(Rule::Unary),
            operations(Choice(vec![
                infix(2, &[Star, Slash, Percent], Rule::Calc),
                infix(1, &[Plus, Minus], Rule::Calc),
            ])),
        ]),
        Rule::Unary => Choice(vec![
            of(Rule::Member),
            Sequence(vec![at_least_once(Not, false), of(Rule::Member)]),
            Sequence(vec![at_least_once(Minus, true), of(Rule::Member)]),
        ]),
        Rule::Member => member(),
        Rule::Primary => primary(),
        Rule::Arguments => Sequence(vec![
            of(Rule::Expr),
            repeated(vec![token(Comma), of(Rule::Expr)], false),
        ]),
        Rule::ListEntries => Sequence(vec![
            of(Rule::Element),
            repeated(vec![token(Comma), of(Rule::Element)], true),
        ]),
        Rule::Fields => pairs(Rule::Field),
        Rule::Field => Sequence(vec![maybe(token(Question)), of(Rule::FieldName)]),
        Rule::MapEntries => pairs(Rule::Element),
        Rule::FieldName => Choice(vec![token(Identifier), token(EscapedIdentifier)]),
        Rule::Element => Sequence(vec![maybe(token(Question)), of(Rule::Expr)]),
        Rule::Literal => Choice(vec![
            Sequence(vec![maybe(token(Minus)), token(Int)]),
            token(Uint),
            Sequence(vec![maybe(token(Minus)), token(Float)]),
            token(String),
            token(Bytes),
            token(True),
            token(False),
            token(Null),
        ]),
    }
}

/// Returns a primary with its fields, calls and indexes.
fn member() -> Shape {
    let field = vec![Precedence(3), token(Dot), maybe(token(Question)), of(Rule::FieldName)];
    let call = vec![
        Precedence(2),
        token(Dot),
        token(Identifier),
        token(OpenParen),
        maybe(of(Rule::Arguments)),
        token(CloseParen),
    ];
    let index = vec![
        Precedence(1),
        token(OpenBracket),
        maybe(token(Question)),
        of(Rule::Expr),
        token(CloseBracket),
    ];
    let behind = [field, call, index].map(Sequence);
    Sequence(vec![of(Rule::Primary), operations(Choice(behind.into()))])
}

fn primary() -> Shape {
    let name = vec![maybe(token(Dot)), token(Identifier)];
    let call = vec![
        maybe(token(Dot)),
        token(Identifier),
        token(OpenParen),
        maybe(of(Rule::Arguments)),
        token(CloseParen),
    ];
    let nested = vec![token(OpenParen), of(Rule::Expr), token(CloseParen)];
    let list = vec![
        token(OpenBracket),
        maybe(of(Rule::ListEntries)),
        maybe(token(Comma)),
        token(CloseBracket),
    ];
    let map = vec![
        token(OpenBrace),
        maybe(of(Rule::MapEntries)),
        maybe(token(Comma)),
        token(CloseBrace),
    ];
    let message = vec![
        maybe(token(Dot)),
        token(Identifier),
        repeated(vec![token(Dot), token(Identifier)], false),
        token(OpenBrace),
        maybe(of(Rule::Fields)),
        maybe(token(Comma)),
        token(CloseBrace),
    ];
    let mut choices: Vec<Shape> = [name, call, nested, list, map, message].map(Sequence).into();
    choices.push(of(Rule::Literal));
    Choice(choices)
}

/// Returns one or more of `key: value`, separated by commas.
fn pairs(key: Rule) -> Shape {
    Sequence(vec![
        of(key),
        token(Colon),
        of(Rule::Expr),
        repeated(vec![token(Comma), of(key), token(Colon), of(Rule::Expr)], true),
    ])
}

pub(super) const ALL: [Rule; RULES] = [
    Rule::Start,
    Rule::Expr,
    Rule::Or,
    Rule::And,
    Rule::Relation,
    Rule::Calc,
    Rule::Unary,
    Rule::Member,
    Rule::Primary,
    Rule::Arguments,
    Rule::ListEntries,
    Rule::Fields,
    Rule::Field,
    Rule::MapEntries,
    Rule::FieldName,
    Rule::Element,
    Rule::Literal,
];

/// True for left-recursive rules.
pub(super) fn is_recursive(rule: Rule) -> bool {
    matches!(rule, Rule::Relation | Rule::Calc | Rule::Member)
}
