//! Tokens of CEL.

use smol_str::SmolStr;

/// Kind of a token. The order is that of cel-go's grammar, in which errors list the expected kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Equal,
    NotEqual,
    In,
    Less,
    LessEqual,
    GreaterEqual,
    Greater,
    And,
    Or,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

impl Kind {
    /// All kinds in order.
    pub(crate) const ALL: [Kind; 36] = [
        Kind::Equal,
        Kind::NotEqual,
        Kind::In,
        Kind::Less,
        Kind::LessEqual,
        Kind::GreaterEqual,
        Kind::Greater,
        Kind::And,
        Kind::Or,
        Kind::OpenBracket,
        Kind::CloseBracket,
        Kind::OpenBrace,
        Kind::CloseBrace,
        Kind::OpenParen,
        Kind::CloseParen,
        Kind::Dot,
        Kind::Comma,
        Kind::Minus,
        Kind::Not,
        Kind::Question,
        Kind::Colon,
        Kind::Plus,
        Kind::Star,
        Kind::Slash,
        Kind::Percent,
        Kind::True,
        Kind::False,
        Kind::Null,
        Kind::Float,
        Kind::Int,
        Kind::Uint,
        Kind::String,
        Kind::Bytes,
        Kind::Identifier,
        Kind::EscapedIdentifier,
        Kind::End,
    ];

    /// Returns the grammar's name of this kind in a list of expected kinds.
    pub(crate) fn shown(self) -> &'static str {
        use Kind::*;
        match self {
            Equal => "'=='",
            NotEqual => "'!='",
            In => "'in'",
            Less => "'<'",
            LessEqual => "'<='",
            GreaterEqual => "'>='",
            Greater => "'>'",
            And => "'&&'",
            Or => "'||'",
            OpenBracket => "'['",
            CloseBracket => "']'",
            OpenBrace => "'{'",
            CloseBrace => "'}'",
            OpenParen => "'('",
            CloseParen => "')'",
            Dot => "'.'",
            Comma => "','",
            Minus => "'-'",
            Not => "'!'",
            Question => "'?'",
            Colon => "':'",
            Plus => "'+'",
            Star => "'*'",
            Slash => "'/'",
            Percent => "'%'",
            True => "'true'",
            False => "'false'",
            Null => "'null'",
            Float => "NUM_FLOAT",
            Int => "NUM_INT",
            Uint => "NUM_UINT",
            String => "STRING",
            Bytes => "BYTES",
            Identifier => "IDENTIFIER",
            EscapedIdentifier => "ESC_IDENTIFIER",
            End => "<EOF>",
        }
    }
}

/// Token with its byte range in the source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Piece of text that is not a token.
#[derive(Debug)]
pub(crate) struct Unrecognized {
    pub(crate) offset: usize,
    pub(crate) text: String,
}

/// Returns the tokens of `source`, ending with [`Kind::End`], and the skipped pieces that are not tokens.
pub(crate) fn tokens(source: &str) -> (Vec<Token>, Vec<Unrecognized>) {
    let mut lexer = Lexer {
        source,
        at: 0,
        tokens: Vec::new(),
        errors: Vec::new(),
    };
    while lexer.at < source.len() {
        lexer.step();
    }
    let end = source.len();
    lexer.tokens.push(Token {
        kind: Kind::End,
        start: end,
        end,
    });
    (lexer.tokens, lexer.errors)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<Token>,
    errors: Vec<Unrecognized>,
}

impl Lexer<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(Token {
            kind,
            start: self.at,
            end: self.at + length,
        });
        self.at += length;
    }

    /// Skips an invalid text literal. Its prefix, if any, is then a name and the rest is skipped; without a prefix all
    /// of it is skipped.
    fn skip_text(&mut self, prefix: usize, good: usize) {
        match prefix {
            0 => self.skip(good),
            _ => self.push(Kind::Identifier, prefix),
        }
    }

    /// Skips an invalid token: the `good` bytes that could have begun one, and the character after them.
    fn skip(&mut self, good: usize) {
        let rest = &self.source[self.at + good..];
        let broken = rest.chars().next().map_or(0, char::len_utf8);
        let text = &self.source[self.at..self.at + good + broken];
        self.errors.push(Unrecognized {
            offset: self.at,
            text: text.to_owned(),
        });
        self.at += good + broken;
    }

    fn step(&mut self) {
        use Kind::*;
        let (first, second) = (self.byte(0), self.byte(1));
        match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => self.at += 1,
            b'/' if second == b'/' => {
                let rest = &self.source[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
            }
            b'=' if second == b'=' => self.push(Equal, 2),
            b'&' if second == b'&' => self.push(And, 2),
            b'|' if second == b'|' => self.push(Or, 2),
            b'=' | b'&' | b'|' => self.skip(1),
            b'!' if second == b'=' => self.push(NotEqual, 2),
            b'<' if second == b'=' => self.push(LessEqual, 2),
            b'>' if second == b'=' => self.push(GreaterEqual, 2),
            b'<' => self.push(Less, 1),
            b'>' => self.push(Greater, 1),
            b'[' => self.push(OpenBracket, 1),
            b']' => self.push(CloseBracket, 1),
            b'{' => self.push(OpenBrace, 1),
            b'}' => self.push(CloseBrace, 1),
            b'(' => self.push(OpenParen, 1),
            b')' => self.push(CloseParen, 1),
            b'.' if second.is_ascii_digit() => self.number(),
            b'.' => self.push(Dot, 1),
            b',' => self.push(Comma, 1),
            b'-' => self.push(Minus, 1),
            b'!' => self.push(Not, 1),
            b'?' => self.push(Question, 1),
            b':' => self.push(Colon, 1),
            b'+' => self.push(Plus, 1),
            b'*' => self.push(Star, 1),
            b'/' => self.push(Slash, 1),
            b'%' => self.push(Percent, 1),
            b'0'..=b'9' => self.number(),
            b'\'' | b'"' => self.quoted(0, false, String),
            b'`' => self.escaped_identifier(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            _ => self.skip(0),
        }
    }

    fn word(&mut self) {
        // A prefix of a string: r'', b'', br'', in either case.
        let lower = [self.byte(0), self.byte(1)].map(|byte| byte.to_ascii_lowercase());
        let quote = |byte: u8| byte == b'\'' || byte == b'"';
        match lower {
            [b'r', next] if quote(next) => return self.quoted(1, true, Kind::String),
            [b'b', next] if quote(next) => return self.quoted(1, false, Kind::Bytes),
            [b'b', b'r'] if quote(self.byte(2)) => return self.quoted(2, true, Kind::Bytes),
            _ => {}
        }
        let rest = &self.source[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')
            .unwrap_or(rest.len());
        let kind = match &rest[..length] {
            "true" => Kind::True,
            "false" => Kind::False,
            "null" => Kind::Null,
            "in" => Kind::In,
            _ => Kind::Identifier,
        };
        self.push(kind, length);
    }

    fn escaped_identifier(&mut self) {
        let rest = &self.source[self.at + 1..];
        let inner = rest
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ')))
            .unwrap_or(rest.len());
        if inner > 0 && rest.as_bytes().get(inner) == Some(&b'`') {
            self.push(Kind::EscapedIdentifier, inner + 2);
        } else {
            self.skip(inner + 1);
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the offset never exceeds the length of the source"
    )]
    fn number(&mut self) {
        let bytes = &self.source.as_bytes()[self.at..];
        let digits = |from: usize| {
            bytes[from..]
                .iter()
                .position(|byte| !byte.is_ascii_digit())
                .map_or(bytes.len(), |length| from + length)
        };
        if bytes.starts_with(b"0x") && bytes.get(2).is_some_and(u8::is_ascii_hexdigit) {
            let mut end = 2;
            while bytes.get(end).is_some_and(u8::is_ascii_hexdigit) {
                end += 1;
            }
            return match bytes.get(end) {
                Some(b'u' | b'U') => self.push(Kind::Uint, end + 1),
                _ => self.push(Kind::Int, end),
            };
        }
        let mut end = digits(0);
        let mut float = false;
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            float = true;
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                float = true;
                end = digits(end + 1 + sign);
            }
        }
        match bytes.get(end) {
            _ if float => self.push(Kind::Float, end),
            Some(b'u' | b'U') => self.push(Kind::Uint, end + 1),
            _ => self.push(Kind::Int, end),
        }
    }

    /// Reads a string or bytes with a prefix of `prefix` letters.
    #[expect(
        clippy::indexing_slicing,
        reason = "the offset never exceeds the length of the source"
    )]
    fn quoted(&mut self, prefix: usize, raw: bool, kind: Kind) {
        let bytes = &self.source.as_bytes()[self.at..];
        let quote = bytes[prefix];
        let triple = bytes[prefix..].starts_with(&[quote; 3]);
        let mut at = prefix + if triple { 3 } else { 1 };
        loop {
            match bytes.get(at) {
                // Three quotes that are not closed are an empty text and the beginning of another.
                None if triple => return self.push(kind, prefix + 2),
                None => return self.skip_text(prefix, bytes.len()),
                Some(&byte) if byte == quote && (!triple || bytes[at..].starts_with(&[quote; 3])) => {
                    return self.push(kind, at + if triple { 3 } else { 1 });
                }
                Some(b'\n' | b'\r') if !triple => return self.skip_text(prefix, at),
                Some(b'\\') if !raw => match escape_length(&bytes[at..]) {
                    Ok(length) => at += length,
                    Err(_) if triple => return self.push(kind, prefix + 2),
                    Err(good) => return self.skip_text(prefix, at + good),
                },
                Some(_) => at += 1,
            }
        }
    }
}

/// Returns the length of an escape sequence, or the number of its valid bytes as an error.
fn escape_length(bytes: &[u8]) -> Result<usize, usize> {
    let hex = |count: usize| {
        (2..2 + count)
            .find(|&at| !bytes.get(at).is_some_and(u8::is_ascii_hexdigit))
            .map_or(Ok(2 + count), Err)
    };
    match bytes.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(2),
        Some(b'x' | b'X') => hex(2),
        Some(b'u') => hex(4),
        Some(b'U') => hex(8),
        Some(b'0'..=b'3') => (2..4)
            .find(|&at| !matches!(bytes.get(at), Some(b'0'..=b'7')))
            .map_or(Ok(4), Err),
        _ => Err(1),
    }
}

/// Error of a literal whose text is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLiteral;

/// Decodes the text of a [`Kind::String`] token.
pub(crate) fn unquote(token: &str) -> Result<SmolStr, BadLiteral> {
    let bytes = unescape(token, false)?;
    String::from_utf8(bytes).map(SmolStr::from).map_err(|_| BadLiteral)
}

/// Decodes the bytes of a [`Kind::Bytes`] token.
pub(crate) fn unquote_bytes(token: &str) -> Result<Vec<u8>, BadLiteral> {
    unescape(&token[1..], true)
}

#[expect(
    clippy::indexing_slicing,
    reason = "the offset never exceeds the length of the source"
)]
fn unescape(token: &str, in_bytes: bool) -> Result<Vec<u8>, BadLiteral> {
    let raw = token.starts_with(['r', 'R']);
    let text = &token[usize::from(raw)..];
    let quote = &text[..1];
    let width = if text.len() >= 6 && text.starts_with(&quote.repeat(3)) {
        3
    } else {
        1
    };
    let inner = text[width..text.len() - width]
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.as_str();
    while let Some(at) = rest.find('\\').filter(|_| !raw) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let length = escape_length(&rest.as_bytes()[at..]).map_err(|_| BadLiteral)?;
        let sequence = &rest[at..at + length];
        let number = |radix, from: usize| u32::from_str_radix(&sequence[from..], radix).map_err(|_| BadLiteral);
        let code = match sequence.as_bytes()[1] {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'v' => 11,
            b'x' | b'X' => number(16, 2)?,
            b'u' | b'U' if in_bytes => return Err(BadLiteral),
            b'u' | b'U' => number(16, 2)?,
            b'0'..=b'3' => number(8, 1)?,
            other => u32::from(other),
        };
        if in_bytes {
            out.push(u8::try_from(code).map_err(|_| BadLiteral)?);
        } else {
            let character = char::from_u32(code).ok_or(BadLiteral)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Kind> {
        tokens(source).0.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_keep_their_kinds_apart() {
        use Kind::*;
        assert_eq!(
            kinds("1 0x1f 2u 0xFFu 1.5 1e3 .5 1.e"),
            [Int, Int, Uint, Uint, Float, Float, Float, Int, Dot, Identifier, End]
        );
    }

    #[test]
    fn escapes_are_read_as_cel_writes_them() {
        assert_eq!(unquote(r"'a\n\x41\u00e4\101\''").as_deref(), Ok("a\nAäA'"));
        assert_eq!(unquote(r"r'a\n'").as_deref(), Ok(r"a\n"));
        assert_eq!(unquote("'''it's'''").as_deref(), Ok("it's"));
        assert_eq!(unquote_bytes(r"b'\xff\377a'"), Ok(vec![255, 255, b'a']));
        assert_eq!(unquote_bytes(r"br'\x'"), Ok(br"\x".to_vec()));
        assert_eq!(unquote(r"'\ud800'"), Err(BadLiteral));
    }

    #[test]
    fn invalid_token_is_reported_with_its_character() {
        let failures = |source: &str| {
            let errors = tokens(source).1;
            errors
                .into_iter()
                .map(|error| (error.offset, error.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(failures("a = 1"), [(2, "= ".to_owned())]);
        assert_eq!(failures("@"), [(0, "@".to_owned())]);
        assert_eq!(failures("'abc"), [(0, "'abc".to_owned())]);
        assert_eq!(failures("'a\nb"), [(0, "'a\n".to_owned())]);
        // The prefix before the quote is a separate name.
        assert_eq!(failures(r"br'a"), [(2, "'a".to_owned())]);
        assert_eq!(kinds("b'a"), [Kind::Identifier, Kind::End]);
        assert_eq!(failures(r"b'\400'"), [(1, r"'\4".to_owned()), (6, "'".to_owned())]);
        assert_eq!(failures(r"'\q'"), [(0, r"'\q".to_owned()), (3, "'".to_owned())]);
    }
}
