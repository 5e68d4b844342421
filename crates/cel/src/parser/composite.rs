//! Messages, lists and maps.

use smol_str::SmolStr;

use super::{GaveUp, OPERAND, Parser};
use crate::lexer::{Kind, Token};
use crate::syntax::{Expr, ExprKind, MapEntry, StructField};

impl Parser<'_> {
    /// Consumes `A.b.c{` if it is next.
    #[expect(
        clippy::indexing_slicing,
        reason = "expressions are numbered from zero, and the last token is never consumed"
    )]
    pub(super) fn message_name(&mut self, leading_dot: bool, first: &str) -> Option<(Token, SmolStr)> {
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

    pub(super) fn message(&mut self, brace: Token, name: SmolStr) -> Result<Expr, GaveUp> {
        let mut fields = Vec::new();
        let begins = [Kind::Identifier, Kind::EscapedIdentifier];
        self.entries(Kind::CloseBrace, &begins, |parser, optional| {
            if parser.peek().kind == Kind::EscapedIdentifier {
                let offset = parser.peek().start;
                return Err(parser.report(offset, "unsupported syntax: '`'"));
            }
            let field = parser.expect(Kind::Identifier)?;
            let field_name = SmolStr::new(parser.text_of(field));
            let colon = parser.expect(Kind::Colon)?;
            let value = parser.expression()?;
            // The position of a field is that of its colon.
            let id = parser.nodes.add_place(colon.start);
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

    pub(super) fn list(&mut self) -> Result<Expr, GaveUp> {
        let bracket = self.next();
        let mut elements = Vec::new();
        self.entries(Kind::CloseBracket, &OPERAND, |parser, optional| {
            elements.push((parser.expression()?, optional));
            Ok(())
        })?;
        self.node(bracket.start, ExprKind::List(elements))
    }

    pub(super) fn map(&mut self) -> Result<Expr, GaveUp> {
        let brace = self.next();
        let mut entries = Vec::new();
        self.entries(Kind::CloseBrace, &OPERAND, |parser, optional| {
            let key = parser.expression()?;
            parser.expect(Kind::Colon)?;
            let value = parser.expression()?;
            entries.push(MapEntry { key, value, optional });
            Ok(())
        })?;
        self.node(brace.start, ExprKind::Map(entries))
    }

    /// Parses the entries of a list, map or message, each with `entry`, which receives true for an optional one, and
    /// then `close`. A comma may follow the last entry, or be the only content. `begins` are the tokens with which
    /// another entry may begin.
    fn entries(
        &mut self,
        close: Kind,
        begins: &[Kind],
        mut entry: impl FnMut(&mut Self, bool) -> Result<(), GaveUp>,
    ) -> Result<(), GaveUp> {
        let mut has_entry = ![close, Kind::Comma].contains(&self.peek().kind);
        while has_entry {
            let optional = self.is_optional("?")?;
            entry(self, optional)?;
            let after = self.peek_after();
            has_entry = self.peek().kind == Kind::Comma && (after == Kind::Question || begins.contains(&after));
            self.at += usize::from(has_entry);
        }
        self.eat(Kind::Comma);
        self.expect(close)?;
        Ok(())
    }
}
