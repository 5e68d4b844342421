//! Parser from text to syntax tree.
//!
//! The parser is our own rather than that of a crate: rules are hostile input, and the available grammar-driven parsers
//! exhaust the stack on a few hundred nested parentheses or a long chain of selections. This one limits the depth of
//! the tree before it is built, assigns each node the position at which cel-go reports errors, and expands macros while
//! parsing. After a syntax error it continues if it can, to find other errors; [`recovery`] computes the reference's
//! syntax errors.

mod composite;
mod literal;
mod macros;
mod nodes;

use smol_str::SmolStr;

use macros::expand;
use nodes::Nodes;

use crate::escaping::is_reserved;
use crate::lexer::{Kind, Token, Unrecognized, tokens};
use crate::recovery;
use crate::source::{Issue, MAX_ISSUES, NOWHERE};
use crate::syntax::{Expr, ExprKind, Id, operators};
use crate::value::CelValue;

/// Maximum depth of a tree.
pub(crate) const MAX_DEPTH: usize = 250;

/// Maximum nesting of brackets of all kinds. The reference allows as many as the tree may be deep; this limit keeps the
/// parser, with some ten calls for each, within the stack of a worker thread even without optimization.
const MAX_NESTING: usize = 128;

/// Maximum length of an expression in characters.
pub(crate) const MAX_LENGTH: usize = 100_000;

/// Parsed expression with the positions of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// Byte offsets by node.
    pub(crate) offsets: Vec<usize>,
    /// Depth of the tree.
    pub(crate) depth: u16,
}

/// Language features beyond the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// No macros and no optional values.
    Plain,
    /// Optional values and all macros except `cel.bind`.
    Standard,
    /// All macros, including `cel.bind`.
    WithBindings,
}

/// Parses `text`.
pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Parsed, Vec<Issue>> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        return Err(vec![Issue::nowhere(format!(
            "expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        ))]);
    }
    let (tokens, unrecognized) = tokens(text);
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        nodes: Nodes::new(),
        nesting: 0,
        unexpected: Vec::new(),
        issues: Vec::new(),
        dialect,
    };
    match parser.whole() {
        Ok(root) if parser.errors() == 0 && unrecognized.is_empty() => Ok(Parsed {
            // Nested evaluation counts leaves as well.
            depth: parser.nodes.height(&root) + 1,
            root,
            offsets: parser.nodes.into_offsets(),
        }),
        _ => Err(parser.into_issues(&unrecognized)),
    }
}

/// The parser stopped; its issues contain the error.
#[derive(Debug)]
pub(crate) struct GaveUp;

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    nodes: Nodes,
    nesting: usize,
    /// Tokens that the grammar does not allow at their position. [`recovery`] finds the reference's messages for them.
    unexpected: Vec<Token>,
    /// All other errors.
    issues: Vec<Issue>,
    pub(crate) dialect: Dialect,
}

/// Tokens with which an operand can begin.
const OPERAND: [Kind; 15] = [
    Kind::OpenBracket,
    Kind::OpenBrace,
    Kind::OpenParen,
    Kind::Dot,
    Kind::Minus,
    Kind::Not,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
];

/// Tokens that are complete operands.
const LITERAL: [Kind; 8] = [
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
];

/// Binary operators: token, binding strength, name.
const BINARY: [(Kind, u8, &str); 14] = [
    (Kind::Or, 1, operators::OR),
    (Kind::And, 2, operators::AND),
    (Kind::Equal, 3, operators::EQUALS),
    (Kind::NotEqual, 3, operators::NOT_EQUALS),
    (Kind::In, 3, operators::IN),
    (Kind::Less, 3, "_<_"),
    (Kind::LessEqual, 3, "_<=_"),
    (Kind::GreaterEqual, 3, "_>=_"),
    (Kind::Greater, 3, "_>_"),
    (Kind::Plus, 4, "_+_"),
    (Kind::Minus, 4, "_-_"),
    (Kind::Star, 5, "_*_"),
    (Kind::Slash, 5, "_/_"),
    (Kind::Percent, 5, "_%_"),
];

/// True if the token can only be an operator between two operands.
fn is_binary(kind: Kind) -> bool {
    kind != Kind::Minus && BINARY.iter().any(|(operator, ..)| *operator == kind)
}

impl Parser<'_> {
    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and the last token is never consumed"
    )]
    fn peek(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and the last token is never consumed"
    )]
    fn peek_after(&self) -> Kind {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn text_of(&self, token: Token) -> &str {
        if token.kind == Kind::End {
            "<EOF>"
        } else {
            &self.text[token.start..token.end]
        }
    }

    fn eat(&mut self, kind: Kind) -> Option<Token> {
        (self.peek().kind == kind).then(|| self.next())
    }

    /// Returns the number of errors found. The parser stops after too many, which bounds its recursion.
    fn errors(&self) -> usize {
        self.unexpected.len() + self.issues.len()
    }

    /// Returns all errors; syntax errors are in the words of the reference.
    fn into_issues(self, unrecognized: &[Unrecognized]) -> Vec<Issue> {
        let pieces = unrecognized.iter().map(|piece| {
            let message = format!("token recognition error at: '{}'", piece.text);
            Issue::from_syntax(piece.offset, &message)
        });
        let gaps: Vec<(usize, usize)> = unrecognized
            .iter()
            .map(|piece| (piece.offset, piece.offset + piece.text.len()))
            .collect();
        let mut syntax = match self.issues.iter().any(|issue| issue.offset == NOWHERE) {
            // The expression is too deep to be read to its end.
            true => Vec::new(),
            false => recovery::errors(self.text, &self.tokens, &gaps).unwrap_or_default(),
        };
        if syntax.is_empty()
            && let Some(first) = self.unexpected.first()
        {
            let message = format!("no viable alternative at input '{}'", self.text_of(*first));
            syntax.push(Issue::from_syntax(first.start, &message));
        }
        pieces.chain(syntax).chain(self.issues).collect()
    }

    /// Reports the next token.
    fn unexpected(&mut self) -> GaveUp {
        self.unexpected.push(self.peek());
        GaveUp
    }

    pub(crate) fn report(&mut self, offset: usize, message: impl Into<String>) -> GaveUp {
        self.issues.push(Issue {
            offset,
            message: message.into(),
        });
        GaveUp
    }

    pub(crate) fn report_at(&mut self, id: Id, message: impl Into<String>) -> GaveUp {
        self.report(self.nodes.offset(id), message)
    }

    /// Consumes `kind`, or reports the token found instead. A single extra token is skipped.
    fn expect(&mut self, kind: Kind) -> Result<Token, GaveUp> {
        if let Some(token) = self.eat(kind) {
            return Ok(token);
        }
        let rejection = self.unexpected();
        if self.peek_after() == kind && self.peek().kind != Kind::End {
            self.at += 1;
            return Ok(self.next());
        }
        Err(rejection)
    }

    /// Creates a node at `offset`; rejects trees that are too deep.
    pub(crate) fn node(&mut self, offset: usize, kind: ExprKind) -> Result<Expr, GaveUp> {
        let node = self.nodes.add(offset, kind);
        if usize::from(self.nodes.height(&node)) > MAX_DEPTH {
            return Err(self.report(NOWHERE, "max recursion depth exceeded"));
        }
        Ok(node)
    }

    fn too_deep(&mut self) -> GaveUp {
        self.report(NOWHERE, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
    }

    fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Result<Expr, GaveUp> {
        let function = SmolStr::new(function);
        self.node(
            offset,
            ExprKind::Call {
                function,
                target: None,
                args,
            },
        )
    }

    fn whole(&mut self) -> Result<Expr, GaveUp> {
        let root = self.expression()?;
        self.expect(Kind::End)?;
        Ok(root)
    }

    fn expression(&mut self) -> Result<Expr, GaveUp> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.too_deep());
        }
        let condition = self.binary(1)?;
        let whole = match self.eat(Kind::Question) {
            None => condition,
            Some(question) => {
                let yes = self.binary(1)?;
                self.expect(Kind::Colon)?;
                let no = self.expression()?;
                self.call(question.start, operators::CONDITIONAL, vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(whole)
    }

    /// Parses operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Result<Expr, GaveUp> {
        let mut left = self.unary()?;
        while let Some((kind, strength, name)) = BINARY.iter().find(|(kind, ..)| *kind == self.peek().kind) {
            if *strength < least {
                break;
            }
            if matches!(kind, Kind::And | Kind::Or) {
                left = self.logical(*kind, *strength, name, left)?;
                continue;
            }
            let operator = self.next();
            let right = self.binary(strength + 1)?;
            left = self.call(operator.start, name, vec![left, right])?;
        }
        Ok(left)
    }

    /// Parses a chain of `&&` or of `||` into a balanced tree, so that its length adds no depth.
    fn logical(&mut self, kind: Kind, strength: u8, name: &str, first: Expr) -> Result<Expr, GaveUp> {
        let mut operands = vec![first];
        let mut places = Vec::new();
        while self.peek().kind == kind {
            places.push(self.next().start);
            operands.push(self.binary(strength + 1)?);
        }
        let mut terms = operands.into_iter();
        self.balanced(name, &mut terms, &places)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and the last token is never consumed"
    )]
    fn balanced(&mut self, name: &str, terms: &mut std::vec::IntoIter<Expr>, places: &[usize]) -> Result<Expr, GaveUp> {
        if places.is_empty() {
            return terms.next().ok_or(GaveUp);
        }
        let middle = places.len() / 2;
        let left = self.balanced(name, terms, &places[..middle])?;
        let right = self.balanced(name, terms, &places[middle + 1..])?;
        self.call(places[middle], name, vec![left, right])
    }

    fn unary(&mut self) -> Result<Expr, GaveUp> {
        let first = self.peek();
        let (kind, name) = match first.kind {
            Kind::Not => (Kind::Not, operators::NOT),
            Kind::Minus if !self.is_signed_number() => (Kind::Minus, operators::NEGATE),
            _ => return self.member(),
        };
        let mut count = 0_usize;
        while self.eat(kind).is_some() {
            count += 1;
        }
        let operand = match kind {
            Kind::Not => self.negated()?,
            _ => self.after_minus()?,
        };
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        self.call(first.start, name, vec![operand])
    }

    /// True if a number with its sign comes next.
    fn is_signed_number(&self) -> bool {
        self.peek().kind == Kind::Minus && matches!(self.peek_after(), Kind::Int | Kind::Float)
    }

    /// Parses the operand of `!`. A sign without a number counts as one extra token.
    fn negated(&mut self) -> Result<Expr, GaveUp> {
        if self.peek().kind != Kind::Minus || self.is_signed_number() {
            return self.member();
        }
        self.at += 1;
        // Only the sign of a number is allowed here.
        if !self.is_signed_number() {
            self.unexpected();
        }
        self.recovered()
    }

    /// Parses the operand of a sign that does not belong to a number.
    fn after_minus(&mut self) -> Result<Expr, GaveUp> {
        let kind = self.peek().kind;
        if kind == Kind::Not || !OPERAND.contains(&kind) {
            self.unexpected();
            return self.recovered();
        }
        self.member()
    }

    /// Parses the operand after an error.
    fn recovered(&mut self) -> Result<Expr, GaveUp> {
        match self.errors() < MAX_ISSUES {
            true => self.unary(),
            false => Err(GaveUp),
        }
    }

    /// Consumes the question mark of an optional part, which errors display as `shown`.
    fn is_optional(&mut self, shown: &str) -> Result<bool, GaveUp> {
        match self.eat(Kind::Question) {
            Some(mark) if self.dialect == Dialect::Plain => {
                Err(self.report(mark.start, format!("unsupported syntax '{shown}'")))
            }
            mark => Ok(mark.is_some()),
        }
    }

    /// Parses an operand with its selections, calls and indexes.
    fn member(&mut self) -> Result<Expr, GaveUp> {
        let mut expr = self.primary()?;
        loop {
            if let Some(dot) = self.eat(Kind::Dot) {
                expr = self.selection(expr, dot)?;
            } else if let Some(bracket) = self.eat(Kind::OpenBracket) {
                let optional = self.is_optional("[?")?;
                let index = self.expression()?;
                self.expect(Kind::CloseBracket)?;
                let name = if optional {
                    operators::OPTIONAL_INDEX
                } else {
                    operators::INDEX
                };
                expr = self.call(bracket.start, name, vec![expr, index])?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn selection(&mut self, operand: Expr, dot: Token) -> Result<Expr, GaveUp> {
        let optional = self.is_optional(".?")?;
        let name = self.peek();
        let field = match name.kind {
            Kind::Identifier => SmolStr::new(self.text_of(name)),
            // The Kubernetes environment does not enable the backtick syntax.
            Kind::EscapedIdentifier => return Err(self.report(name.start, "unsupported syntax: '`'")),
            kind => {
                let rejection = self.unexpected();
                return match is_binary(kind) {
                    true => Ok(operand),
                    false => Err(rejection),
                };
            }
        };
        self.at += 1;
        if optional {
            let field = self.node(name.start, ExprKind::Literal(CelValue::String(field)))?;
            return self.call(dot.start, operators::OPTIONAL_SELECT, vec![operand, field]);
        }
        if let Some(paren) = self.eat(Kind::OpenParen) {
            let args = self.arguments()?;
            return self.function(paren.start, field, Some(operand), args);
        }
        self.node(
            dot.start,
            ExprKind::Select {
                operand: Box::new(operand),
                field,
                test: false,
            },
        )
    }

    /// Parses the arguments of a call after its opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, GaveUp> {
        let mut args = Vec::new();
        if self.eat(Kind::CloseParen).is_some() {
            return Ok(args);
        }
        if self.peek_after() == Kind::CloseParen && !OPERAND.contains(&self.peek().kind) {
            self.unexpected();
            self.at += 2;
            return Ok(args);
        }
        args.push(self.expression()?);
        while self.eat(Kind::Comma).is_some() {
            args.push(self.expression()?);
        }
        self.expect(Kind::CloseParen)?;
        Ok(args)
    }

    fn function(
        &mut self,
        offset: usize,
        function: SmolStr,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Result<Expr, GaveUp> {
        let (function, target, args) = match expand(self, offset, function, target, args) {
            Ok(Ok(expanded)) => return Ok(expanded),
            Ok(Err(call)) => call,
            // Errors of a macro are reported, and those after it, too.
            Err(GaveUp) => return self.unknown(offset),
        };
        self.node(
            offset,
            ExprKind::Call {
                function,
                target: target.map(Box::new),
                args,
            },
        )
    }

    /// Creates a node in place of an invalid part, so that later errors can be found.
    fn unknown(&mut self, offset: usize) -> Result<Expr, GaveUp> {
        match self.errors() < MAX_ISSUES {
            true => self.node(offset, ExprKind::Literal(CelValue::Null)),
            false => Err(GaveUp),
        }
    }

    fn primary(&mut self) -> Result<Expr, GaveUp> {
        let token = self.peek();
        match token.kind {
            Kind::OpenParen => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(Kind::CloseParen)?;
                Ok(inner)
            }
            Kind::OpenBracket => self.list(),
            Kind::OpenBrace => self.map(),
            Kind::Dot | Kind::Identifier => self.name(),
            Kind::Minus if self.is_signed_number() => {
                self.at += 1;
                self.literal(Some(token.start))
            }
            kind if LITERAL.contains(&kind) => self.literal(None),
            _ => {
                let rejection = self.unexpected();
                if OPERAND.contains(&self.peek_after()) {
                    self.at += 1;
                    return self.recovered();
                }
                // An operator without a left operand is reported, and then parsed as if it had one.
                match is_binary(token.kind) {
                    true => self.unknown(token.start),
                    false => Err(rejection),
                }
            }
        }
    }

    /// Parses a literal; `sign_at` is the position of its sign, if it has one.
    fn literal(&mut self, sign_at: Option<usize>) -> Result<Expr, GaveUp> {
        let token = self.next();
        let sign = if sign_at.is_some() { "-" } else { "" };
        let start = sign_at.unwrap_or(token.start);
        match literal::value(token.kind, sign, self.text_of(token)) {
            Ok(value) => self.node(start, ExprKind::Literal(value)),
            Err(message) => Err(self.report(start, message)),
        }
    }

    /// Parses a name, a call of a global function, or a message.
    fn name(&mut self) -> Result<Expr, GaveUp> {
        let leading_dot = self.eat(Kind::Dot);
        let token = self.expect(Kind::Identifier)?;
        let word = SmolStr::new(self.text_of(token));
        if let Some((brace, name)) = self.message_name(leading_dot.is_some(), &word) {
            return self.message(brace, name);
        }
        if is_reserved(&word) {
            self.report(token.start, format!("reserved identifier: {word}"));
            return self.unknown(token.start);
        }
        let name = if leading_dot.is_some() {
            SmolStr::from(format!(".{word}"))
        } else {
            word
        };
        match self.eat(Kind::OpenParen) {
            Some(paren) => {
                let args = self.arguments()?;
                self.function(paren.start, name, None, args)
            }
            None => self.node(token.start, ExprKind::Ident(name)),
        }
    }
}
