//! From text to syntax tree.
//!
//! The parser is our own and not that of a crate: what rules say is hostile input, and the grammar-driven parsers at
//! hand exhaust the stack on a few hundred nested parentheses or a long chain of selections. This one bounds the depth
//! of the tree before it is built, gives each node the place that cel-go reports errors at, and
//! expands macros as it goes. Errors have the words of cel-go's generated parser.

use smol_str::SmolStr;

use crate::escaping::is_reserved;
use crate::lexer::{Kind, Token, tokens, unquote, unquote_bytes};
use crate::macros::expand;
use crate::recovery;
use crate::source::{NOWHERE, Source};
use crate::syntax::{Expr, ExprKind, Id, MapEntry, StructField, operators};
use crate::value::CelValue;

/// How deep a tree may be.
pub(crate) const MAX_DEPTH: usize = 250;

/// How deep brackets of all kinds may be nested. The reference allows as many as the tree may be deep; this keeps the
/// parser, which takes some ten calls for each, within the stack of a worker thread even without optimization.
const MAX_NESTING: usize = 128;

/// Walks and bindings take more of the stack than other nodes when they are evaluated, and count for as many.
const FOLD_HEIGHT: u16 = 5;
const BIND_HEIGHT: u16 = 1;

/// How many characters an expression may have.
pub(crate) const MAX_LENGTH: usize = 100_000;

/// How many errors are shown. After that many the parser no longer goes on behind an error, which bounds how often it calls
/// itself to do so.
pub(crate) const MAX_ISSUES: usize = 100;

/// An error at a place.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A parsed expression and the places of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// Byte offsets by node.
    pub(crate) offsets: Vec<usize>,
    /// How deep the tree is.
    pub(crate) depth: u16,
}

/// All issues as one text, in order of their places.
pub(crate) fn describe(text: &str, mut issues: Vec<Issue>) -> String {
    let source = Source::new(text);
    // What has no place comes first.
    issues.sort_by_key(|issue| issue.offset.wrapping_add(1));
    let shown: Vec<String> = issues
        .iter()
        .take(MAX_ISSUES)
        .map(|issue| source.describe(issue.offset, &issue.message))
        .collect();
    shown.join("\n")
}

/// Parses `text`. `bindings` turns `cel.bind` on.
#[expect(
    clippy::indexing_slicing,
    reason = "expressions are numbered from zero, and tokens end with one that is never passed"
)]
pub(crate) fn parse(text: &str, bindings: bool) -> Result<Parsed, Vec<Issue>> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        return Err(vec![Issue {
            offset: NOWHERE,
            message: format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"),
        }]);
    }
    let (tokens, unrecognized) = tokens(text);
    let gaps: Vec<(usize, usize)> = unrecognized
        .iter()
        .map(|piece| (piece.offset, piece.offset + piece.text.len()))
        .collect();
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        offsets: vec![0],
        depths: vec![0],
        nesting: 0,
        issues: unrecognized
            .into_iter()
            .map(|piece| Issue {
                offset: piece.offset,
                message: format!("Syntax error: token recognition error at: '{}'", piece.text),
            })
            .collect(),
        bindings,
    };
    let root = parser.whole();
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Parsed {
            // What is evaluated within each other is counted with what holds nothing else.
            depth: parser.depths[root.id as usize] + 1,
            root,
            offsets: parser.offsets,
        }),
        _ => Err(as_the_reference_tells(text, &parser.tokens, &gaps, parser.issues)),
    }
}

/// Errors of syntax in the words and to the number of the reference. `issues` are those that were found here, of which the
/// first are about what is no token.
fn as_the_reference_tells(text: &str, tokens: &[Token], gaps: &[(usize, usize)], issues: Vec<Issue>) -> Vec<Issue> {
    let is_syntax = |issue: &Issue| issue.message.starts_with("Syntax error: ");
    if issues.iter().any(|issue| issue.offset == NOWHERE) {
        return issues;
    }
    let Some(told) = recovery::errors(text, tokens, gaps) else {
        return issues;
    };
    let (pieces, own) = issues.split_at(gaps.len().min(issues.len()));
    let others = own.iter().filter(|issue| !is_syntax(issue));
    let all: Vec<Issue> = pieces.iter().chain(&told).chain(others).cloned().collect();
    match all.is_empty() {
        true => issues,
        false => all,
    }
}

const TOO_DEEP: &str = "expression recursion limit exceeded";
const TREE_TOO_DEEP: &str = "max recursion depth exceeded";

/// The parser gave up; what was wrong stands in its issues.
#[derive(Debug)]
pub(crate) struct GaveUp;

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    offsets: Vec<usize>,
    /// The height of the tree below each node.
    depths: Vec<u16>,
    nesting: usize,
    issues: Vec<Issue>,
    pub(crate) bindings: bool,
}

/// The tokens that an operand can begin with.
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

/// The tokens that are operands by themselves.
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

/// The binary operators: token, how tightly it binds, name.
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

/// Whether the token is an operator between two operands that begins none.
fn is_binary(kind: Kind) -> bool {
    kind != Kind::Minus && BINARY.iter().any(|(operator, ..)| *operator == kind)
}

fn list_of(mut kinds: Vec<Kind>) -> String {
    kinds.sort_unstable();
    kinds.dedup();
    let shown: Vec<&str> = kinds.into_iter().map(Kind::shown).collect();
    match shown.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("{{{}}}", many.join(", ")),
    }
}

impl Parser<'_> {
    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
    )]
    fn peek(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
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

    /// A syntax error at the token that comes next.
    fn syntax(&mut self, message: String) -> GaveUp {
        let offset = self.peek().start;
        self.report(offset, format!("Syntax error: {message}"))
    }

    pub(crate) fn report(&mut self, offset: usize, message: impl Into<String>) -> GaveUp {
        self.issues.push(Issue {
            offset,
            message: message.into(),
        });
        GaveUp
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
    )]
    pub(crate) fn report_at(&mut self, id: Id, message: impl Into<String>) -> GaveUp {
        self.report(self.offsets[id as usize], message)
    }

    fn mismatched(&mut self, expected: Vec<Kind>) -> GaveUp {
        self.unexpected("mismatched", expected)
    }

    fn extraneous(&mut self, expected: Vec<Kind>) -> GaveUp {
        self.unexpected("extraneous", expected)
    }

    fn unexpected(&mut self, fault: &str, expected: Vec<Kind>) -> GaveUp {
        let shown = self.text_of(self.peek());
        let message = format!("{fault} input '{shown}' expecting {}", list_of(expected));
        self.syntax(message)
    }

    fn no_alternative(&mut self, shown: &str) -> GaveUp {
        self.syntax(format!("no viable alternative at input '{shown}'"))
    }

    /// Takes `kind`, or reports what stands there. A single token too many is reported as such and skipped; a
    /// closing bracket that is missing before the end is reported as missing.
    fn expect(&mut self, kind: Kind, others: &[Kind]) -> Result<Token, GaveUp> {
        if let Some(token) = self.eat(kind) {
            return Ok(token);
        }
        let token = self.peek();
        let expected: Vec<Kind> = others.iter().copied().chain([kind]).collect();
        if self.peek_after() == kind && token.kind != Kind::End {
            self.extraneous(expected);
            self.at += 1;
            return Ok(self.next());
        }
        if kind == Kind::Colon && OPERAND.contains(&token.kind) {
            let message = format!("missing ':' at '{}'", self.text_of(token));
            return Err(self.syntax(message));
        }
        let closes = matches!(kind, Kind::CloseParen | Kind::CloseBracket | Kind::CloseBrace);
        if others.is_empty() && closes && token.kind == Kind::End {
            let message = format!("missing {} at '<EOF>'", kind.shown());
            return Err(self.syntax(message));
        }
        Err(self.mismatched(expected))
    }

    /// A new node at `offset`; refuses trees that are too deep.
    pub(crate) fn node(&mut self, offset: usize, kind: ExprKind) -> Result<Expr, GaveUp> {
        let below = self.height_below(&kind);
        // What holds nothing else does not count.
        let own = !matches!(kind, ExprKind::Literal(_) | ExprKind::Ident(_));
        let depth = below + u16::from(own);
        let id = self.offsets.len() as Id;
        self.offsets.push(offset);
        self.depths.push(depth);
        if usize::from(depth) > MAX_DEPTH {
            return Err(self.report(NOWHERE, TREE_TOO_DEEP));
        }
        Ok(Expr { id, kind })
    }

    fn too_deep(&mut self) -> GaveUp {
        self.report(NOWHERE, format!("{TOO_DEEP}: {MAX_DEPTH}"))
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
    )]
    fn height_below(&self, kind: &ExprKind) -> u16 {
        let height = |expr: &Expr| self.depths[expr.id as usize];
        let tallest = |expressions: &mut dyn Iterator<Item = &Expr>| expressions.map(height).max().unwrap_or(0);
        match kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
            ExprKind::Select { operand, .. } => height(operand),
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
        let root = self.expression(&[])?;
        if self.peek().kind != Kind::End {
            self.expect(Kind::End, &[])?;
        }
        Ok(root)
    }

    /// An expression. `closing` are the tokens that could stand instead of one here.
    fn expression(&mut self, closing: &[Kind]) -> Result<Expr, GaveUp> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.too_deep());
        }
        let condition = self.binary(1, closing)?;
        let whole = match self.eat(Kind::Question) {
            None => condition,
            Some(question) => {
                let yes = self.binary(1, &[])?;
                self.expect(Kind::Colon, &[])?;
                let no = self.expression(&[])?;
                self.call(question.start, operators::CONDITIONAL, vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(whole)
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8, closing: &[Kind]) -> Result<Expr, GaveUp> {
        let mut left = self.unary(closing)?;
        while let Some((kind, strength, name)) = BINARY.iter().find(|(kind, ..)| *kind == self.peek().kind) {
            if *strength < least {
                break;
            }
            if matches!(kind, Kind::And | Kind::Or) {
                left = self.logical(*kind, *strength, name, left)?;
                continue;
            }
            let operator = self.next();
            let right = self.binary(strength + 1, &[])?;
            left = self.call(operator.start, name, vec![left, right])?;
        }
        Ok(left)
    }

    /// A chain of `&&` or of `||`, made into a balanced tree so that its length costs no depth.
    fn logical(&mut self, kind: Kind, strength: u8, name: &str, first: Expr) -> Result<Expr, GaveUp> {
        let mut terms = vec![first];
        let mut places = Vec::new();
        while self.peek().kind == kind {
            places.push(self.next().start);
            terms.push(self.binary(strength + 1, &[])?);
        }
        let mut terms = terms.into_iter();
        self.balanced(name, &mut terms, &places)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
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

    fn unary(&mut self, closing: &[Kind]) -> Result<Expr, GaveUp> {
        let first = self.peek();
        let (kind, name) = match first.kind {
            Kind::Not => (Kind::Not, operators::NOT),
            Kind::Minus if !self.is_signed_number() => (Kind::Minus, operators::NEGATE),
            _ => return self.member(closing),
        };
        let mut count = 0_usize;
        let mut last = first;
        while let Some(token) = self.eat(kind) {
            last = token;
            count += 1;
        }
        let operand = match kind {
            Kind::Not => self.negated()?,
            _ => self.after_minus(last)?,
        };
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        self.call(first.start, name, vec![operand])
    }

    /// Whether a number with its sign comes next.
    fn is_signed_number(&self) -> bool {
        self.peek().kind == Kind::Minus && matches!(self.peek_after(), Kind::Int | Kind::Float)
    }

    /// What follows `!`. The reference looks for another `!` there, so that it takes what is none for one token too many.
    fn negated(&mut self) -> Result<Expr, GaveUp> {
        let token = self.peek();
        if token.kind == Kind::Minus && !self.is_signed_number() {
            self.at += 1;
            // Only the sign of a number can follow.
            if !self.is_signed_number() {
                self.no_alternative_after(token);
            }
            return self.recovered();
        }
        let is_skipped = token.kind != Kind::End && OPERAND.contains(&self.peek_after());
        if !OPERAND.contains(&token.kind) && !is_skipped {
            return Err(self.extraneous(OPERAND.to_vec()));
        }
        self.member(&[])
    }

    /// What follows the sign `minus`, where it is that of no number. The reference chooses between the two by what follows,
    /// and reports where neither does.
    fn after_minus(&mut self, minus: Token) -> Result<Expr, GaveUp> {
        let kind = self.peek().kind;
        if kind == Kind::Not || !OPERAND.contains(&kind) {
            self.no_alternative_after(minus);
            return self.recovered();
        }
        self.member(&[])
    }

    /// Reports that nothing begins with `first` and the token that comes next.
    fn no_alternative_after(&mut self, first: Token) {
        let token = self.peek();
        // Blanks between tokens are shown before the end alone.
        let shown = match token.kind {
            Kind::End => self.text[first.start..token.start].to_owned(),
            _ => format!("{}{}", self.text_of(first), self.text_of(token)),
        };
        self.no_alternative(&shown);
    }

    /// The operand behind an error.
    fn recovered(&mut self) -> Result<Expr, GaveUp> {
        match self.issues.len() < MAX_ISSUES {
            true => self.unary(&[]),
            false => Err(GaveUp),
        }
    }

    /// An operand with its selections, calls and indexes.
    fn member(&mut self, closing: &[Kind]) -> Result<Expr, GaveUp> {
        let mut expr = self.primary(closing)?;
        loop {
            if let Some(dot) = self.eat(Kind::Dot) {
                expr = self.selection(expr, dot)?;
            } else if let Some(bracket) = self.eat(Kind::OpenBracket) {
                let optional = self.eat(Kind::Question).is_some();
                let index = self.expression(if optional { &[] } else { &[Kind::Question] })?;
                self.expect(Kind::CloseBracket, &[])?;
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
        let optional = self.eat(Kind::Question).is_some();
        let name = self.peek();
        let field = match name.kind {
            Kind::Identifier => SmolStr::new(self.text_of(name)),
            // Backticks are a syntax that the environment of Kubernetes has not turned on.
            Kind::EscapedIdentifier => return Err(self.report(name.start, "unsupported syntax: '`'")),
            Kind::End => return Err(self.mismatched_name(optional)),
            Kind::True | Kind::False | Kind::Null if !optional => return Err(self.mismatched(vec![Kind::Identifier])),
            // `in` and other literals cannot be fields.
            _ => {
                let shown = format!("{}{}", &self.text[dot.start..name.start], self.text_of(name));
                let refusal = self.no_alternative(&shown);
                return if is_binary(name.kind) {
                    Ok(operand)
                } else {
                    Err(refusal)
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

    fn mismatched_name(&mut self, optional: bool) -> GaveUp {
        if optional {
            return self.mismatched(vec![Kind::Identifier, Kind::EscapedIdentifier]);
        }
        self.no_alternative(".")
    }

    /// The arguments of a call after its opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, GaveUp> {
        let mut args = Vec::new();
        if self.eat(Kind::CloseParen).is_some() {
            return Ok(args);
        }
        if self.peek_after() == Kind::CloseParen && !OPERAND.contains(&self.peek().kind) {
            self.extraneous(OPERAND.iter().copied().chain([Kind::CloseParen]).collect());
            self.at += 2;
            return Ok(args);
        }
        args.push(self.expression(&[Kind::CloseParen])?);
        while self.eat(Kind::Comma).is_some() {
            args.push(self.expression(&[])?);
        }
        self.expect(Kind::CloseParen, &[])?;
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
            // Errors of a macro are reported, and those of what follows it too.
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

    /// What stands in the tree for a part that is wrong, so that more may be found wrong behind it.
    fn unknown(&mut self, offset: usize) -> Result<Expr, GaveUp> {
        match self.issues.len() < MAX_ISSUES {
            true => self.node(offset, ExprKind::Literal(CelValue::Null)),
            false => Err(GaveUp),
        }
    }

    fn primary(&mut self, closing: &[Kind]) -> Result<Expr, GaveUp> {
        let token = self.peek();
        match token.kind {
            Kind::OpenParen => {
                self.at += 1;
                let inner = self.expression(&[])?;
                self.expect(Kind::CloseParen, &[])?;
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
                let expected: Vec<Kind> = OPERAND.iter().chain(closing).copied().collect();
                if OPERAND.contains(&self.peek_after()) && token.kind != Kind::End {
                    self.extraneous(expected);
                    self.at += 1;
                    return self.recovered();
                }
                let refusal = self.mismatched(expected);
                // An operator without a left operand is reported, and then taken as one that has it.
                match is_binary(token.kind) {
                    true => self.unknown(token.start),
                    false => Err(refusal),
                }
            }
        }
    }

    /// A literal, and where the sign before it stands if it has one.
    fn literal(&mut self, sign_at: Option<usize>) -> Result<Expr, GaveUp> {
        let token = self.next();
        let text = self.text_of(token);
        let sign = if sign_at.is_some() { "-" } else { "" };
        let start = sign_at.unwrap_or(token.start);
        let value = match token.kind {
            Kind::True => Ok(CelValue::Bool(true)),
            Kind::False => Ok(CelValue::Bool(false)),
            Kind::Null => Ok(CelValue::Null),
            Kind::Int => match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16).ok(),
                None => format!("{sign}{text}").parse().ok(),
            }
            .map(CelValue::Int)
            .ok_or("invalid int literal"),
            Kind::Uint => {
                let digits = &text[..text.len() - 1];
                match digits.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => digits.parse().ok(),
                }
                .map(CelValue::Uint)
                .ok_or("invalid uint literal")
            }
            Kind::Float => format!("{sign}{text}")
                .parse()
                .ok()
                .filter(|float: &f64| float.is_finite())
                .map(CelValue::Double)
                .ok_or("invalid double literal"),
            Kind::String => unquote(text)
                .map(CelValue::String)
                .map_err(|_| "invalid unicode code point"),
            _ => unquote_bytes(text)
                .map(|bytes| CelValue::Bytes(bytes.into()))
                .map_err(|_| "unable to unescape string"),
        };
        match value {
            Ok(value) => self.node(start, ExprKind::Literal(value)),
            Err(message) => Err(self.report(start, message)),
        }
    }

    /// A name, a call of a global function, or a message.
    fn name(&mut self) -> Result<Expr, GaveUp> {
        let leading_dot = self.eat(Kind::Dot);
        if let Some(dot) = leading_dot
            && self.peek().kind != Kind::Identifier
        {
            // Names, calls and messages may all begin with a dot, so that the reference says where it has none of them.
            let found = self.peek();
            let shown = match found.kind {
                Kind::End => "",
                _ => self.text_of(found),
            };
            let shown = format!("{}{shown}", &self.text[dot.start..found.start]);
            return Err(self.no_alternative(&shown));
        }
        let token = self.expect(Kind::Identifier, &[])?;
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

    /// Looks ahead for `A.b.c{`; takes it if it is there.
    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and tokens end with one that is never passed"
    )]
    fn message_name(&mut self, leading_dot: bool, first: &str) -> Option<(Token, SmolStr)> {
        let mut at = self.at;
        let mut name = format!("{}{first}", if leading_dot { "." } else { "" });
        while self.tokens[at].kind == Kind::Dot && self.tokens.get(at + 1)?.kind == Kind::Identifier {
            name.push('.');
            name.push_str(self.text_of(self.tokens[at + 1]));
            at += 2;
        }
        let brace = self.tokens[at];
        if brace.kind != Kind::OpenBrace {
            return None;
        }
        self.at = at + 1;
        Some((brace, SmolStr::from(name)))
    }

    fn message(&mut self, brace: Token, name: SmolStr) -> Result<Expr, GaveUp> {
        let mut fields = Vec::new();
        let begins = [Kind::Identifier, Kind::EscapedIdentifier];
        self.entries(Kind::CloseBrace, &begins, |parser, optional| {
            if parser.peek().kind == Kind::EscapedIdentifier {
                let offset = parser.peek().start;
                return Err(parser.report(offset, "unsupported syntax: '`'"));
            }
            let others: &[Kind] = if fields.is_empty() && !optional {
                &[Kind::CloseBrace, Kind::Comma, Kind::Question, Kind::EscapedIdentifier]
            } else {
                &[Kind::EscapedIdentifier]
            };
            let field = parser.expect(Kind::Identifier, others)?;
            let field_name = SmolStr::new(parser.text_of(field));
            let colon = parser.expect(Kind::Colon, &[])?;
            let value = parser.expression(&[])?;
            // The place of a field is its colon.
            let id = parser.offsets.len() as Id;
            parser.offsets.push(colon.start);
            parser.depths.push(0);
            fields.push(StructField {
                id,
                name: field_name,
                value,
                optional,
            });
            Ok(())
        })?;
        self.node(brace.start, ExprKind::Struct { name, fields })
    }

    fn list(&mut self) -> Result<Expr, GaveUp> {
        let bracket = self.next();
        let mut elements = Vec::new();
        self.entries(Kind::CloseBracket, &OPERAND, |parser, optional| {
            let element = parser.expression(if optional {
                &[]
            } else {
                &[Kind::CloseBracket, Kind::Comma, Kind::Question]
            })?;
            elements.push((element, optional));
            Ok(())
        })?;
        self.node(bracket.start, ExprKind::List(elements))
    }

    fn map(&mut self) -> Result<Expr, GaveUp> {
        let brace = self.next();
        let mut entries = Vec::new();
        self.entries(Kind::CloseBrace, &OPERAND, |parser, optional| {
            let key = parser.expression(if optional {
                &[]
            } else {
                &[Kind::CloseBrace, Kind::Comma, Kind::Question]
            })?;
            parser.expect(Kind::Colon, &[])?;
            let value = parser.expression(&[])?;
            entries.push(MapEntry { key, value, optional });
            Ok(())
        })?;
        self.node(brace.start, ExprKind::Map(entries))
    }

    /// Reads the entries of a list, a map or a message, each with `entry`, which learns whether it is optional, and then
    /// `close`. A comma may follow the last entry, or stand alone. `begins` are the tokens that another entry may begin with.
    fn entries(
        &mut self,
        close: Kind,
        begins: &[Kind],
        mut entry: impl FnMut(&mut Self, bool) -> Result<(), GaveUp>,
    ) -> Result<(), GaveUp> {
        let mut has_entry = ![close, Kind::Comma].contains(&self.peek().kind);
        while has_entry {
            let optional = self.eat(Kind::Question).is_some();
            entry(self, optional)?;
            let after = self.peek_after();
            has_entry = self.peek().kind == Kind::Comma && (after == Kind::Question || begins.contains(&after));
            self.at += usize::from(has_entry);
        }
        let others: &[Kind] = match self.eat(Kind::Comma) {
            Some(_) => &[],
            None => &[Kind::Comma],
        };
        self.expect(close, others)?;
        Ok(())
    }
}
