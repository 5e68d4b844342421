//! Grammar of CEL, from which the reference's parser is generated.

use self::Shape::{Choice, Optional, Precedence, Repeated, Sequence};
use crate::lexer::Kind::{self, *};

/// Set of token kinds.
pub(super) type Kinds = u64;
/// Flag in a set of kinds: the rule may end here.
pub(super) const END_OF_RULE: Kinds = 1 << 63;

#[expect(clippy::indexing_slicing, reason = "the index is within the list")]
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

fn rule_ref(rule: Rule) -> Shape {
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
        Rule::Start => Sequence(vec![rule_ref(Rule::Expr), token(End)]),
        Rule::Expr => Sequence(vec![
            rule_ref(Rule::Or),
            maybe(Sequence(vec![
                token(Question),
                rule_ref(Rule::Or),
                token(Colon),
                rule_ref(Rule::Expr),
            ])),
        ]),
        Rule::Or => Sequence(vec![
            rule_ref(Rule::And),
            repeated(vec![token(Or), rule_ref(Rule::And)], false),
        ]),
        Rule::And => Sequence(vec![
            rule_ref(Rule::Relation),
            repeated(vec![token(And), rule_ref(Rule::Relation)], false),
        ]),
        Rule::Relation => {
            let operators = [Less, LessEqual, GreaterEqual, Greater, Equal, NotEqual, In];
            Sequence(vec![
                rule_ref(Rule::Calc),
                operations(infix(1, &operators, Rule::Relation)),
            ])
        }
        Rule::Calc => Sequence(vec![
            rule_ref(Rule::Unary),
            operations(Choice(vec![
                infix(2, &[Star, Slash, Percent], Rule::Calc),
                infix(1, &[Plus, Minus], Rule::Calc),
            ])),
        ]),
        Rule::Unary => Choice(vec![
            rule_ref(Rule::Member),
            Sequence(vec![at_least_once(Not, false), rule_ref(Rule::Member)]),
            Sequence(vec![at_least_once(Minus, true), rule_ref(Rule::Member)]),
        ]),
        Rule::Member => member(),
        Rule::Primary => primary(),
        Rule::Arguments => Sequence(vec![
            rule_ref(Rule::Expr),
            repeated(vec![token(Comma), rule_ref(Rule::Expr)], false),
        ]),
        Rule::ListEntries => Sequence(vec![
            rule_ref(Rule::Element),
            repeated(vec![token(Comma), rule_ref(Rule::Element)], true),
        ]),
        Rule::Fields => pairs(Rule::Field),
        Rule::Field => Sequence(vec![maybe(token(Question)), rule_ref(Rule::FieldName)]),
        Rule::MapEntries => pairs(Rule::Element),
        Rule::FieldName => Choice(vec![token(Identifier), token(EscapedIdentifier)]),
        Rule::Element => Sequence(vec![maybe(token(Question)), rule_ref(Rule::Expr)]),
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
    let field = vec![
        Precedence(3),
        token(Dot),
        maybe(token(Question)),
        rule_ref(Rule::FieldName),
    ];
    let call = vec![
        Precedence(2),
        token(Dot),
        token(Identifier),
        token(OpenParen),
        maybe(rule_ref(Rule::Arguments)),
        token(CloseParen),
    ];
    let index = vec![
        Precedence(1),
        token(OpenBracket),
        maybe(token(Question)),
        rule_ref(Rule::Expr),
        token(CloseBracket),
    ];
    let behind = [field, call, index].map(Sequence);
    Sequence(vec![rule_ref(Rule::Primary), operations(Choice(behind.into()))])
}

fn primary() -> Shape {
    let name = vec![maybe(token(Dot)), token(Identifier)];
    let call = vec![
        maybe(token(Dot)),
        token(Identifier),
        token(OpenParen),
        maybe(rule_ref(Rule::Arguments)),
        token(CloseParen),
    ];
    let nested = vec![token(OpenParen), rule_ref(Rule::Expr), token(CloseParen)];
    let list = vec![
        token(OpenBracket),
        maybe(rule_ref(Rule::ListEntries)),
        maybe(token(Comma)),
        token(CloseBracket),
    ];
    let map = vec![
        token(OpenBrace),
        maybe(rule_ref(Rule::MapEntries)),
        maybe(token(Comma)),
        token(CloseBrace),
    ];
    let message = vec![
        maybe(token(Dot)),
        token(Identifier),
        repeated(vec![token(Dot), token(Identifier)], false),
        token(OpenBrace),
        maybe(rule_ref(Rule::Fields)),
        maybe(token(Comma)),
        token(CloseBrace),
    ];
    let mut choices: Vec<Shape> = [name, call, nested, list, map, message].map(Sequence).into();
    choices.push(rule_ref(Rule::Literal));
    Choice(choices)
}

/// Returns one or more of `key: value`, separated by commas.
fn pairs(key: Rule) -> Shape {
    Sequence(vec![
        rule_ref(key),
        token(Colon),
        rule_ref(Rule::Expr),
        repeated(
            vec![token(Comma), rule_ref(key), token(Colon), rule_ref(Rule::Expr)],
            true,
        ),
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
