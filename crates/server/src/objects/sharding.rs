//! Shards of a collection: the objects whose uid or namespace has a hash within some ranges (`shardSelector`,
//! <https://kep.k8s.io/5866>).
//!
//! A selector is `shardRange(FIELD, 'FROM', 'TO')`, or several of one field with `||` between them. It is an expression of CEL,
//! of which nothing but this is allowed, so that no more of CEL is read here.

use std::fmt;

/// The fields that objects are sharded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardField {
    Uid,
    Namespace,
}

impl ShardField {
    const ALL: [(&'static str, Self); 2] = [
        ("object.metadata.uid", Self::Uid),
        ("object.metadata.namespace", Self::Namespace),
    ];

    fn name(self) -> &'static str {
        let [uid, namespace] = Self::ALL;
        match self {
            Self::Uid => uid.0,
            Self::Namespace => namespace.0,
        }
    }
}

/// The ranges of a shard. Its text is that of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    pub(crate) field: ShardField,
    /// Where each range begins, and where it ends, which is no more part of it: 2^64 at most.
    ranges: Vec<(u64, u128)>,
}

impl ShardSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// Why it is none, in the words of the reference but for those of its parser.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
        }
        let mut words = Words { rest: text, depth: 0 };
        let expression = words.expression()?;
        if let Some(word) = words.next()? {
            return Err(word.is_odd());
        }
        let mut calls = Vec::new();
        expression.calls(&mut calls)?;
        let Some((field, _)) = calls.first().copied() else {
            return Err(END.to_owned());
        };
        match calls.iter().find(|(other, _)| *other != field) {
            None => Ok(Self {
                field,
                ranges: calls.into_iter().map(|(_, range)| range).collect(),
            }),
            Some((other, _)) => Err(format!(
                "all shard ranges must use the same field, got {:?} and {:?}",
                field.name(),
                other.name()
            )),
        }
    }

    /// Whether an object is in the shard whose field has this text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let hash = hash(text);
        let within = |(from, to): &(u64, u128)| *from <= hash && u128::from(hash) < *to;
        self.ranges.iter().any(within)
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.name();
        for (at, (from, to)) in self.ranges.iter().enumerate() {
            let between = if at > 0 { " || " } else { "" };
            write!(f, "{between}shardRange({field}, '{from:#018x}', '{to:#018x}')")?;
        }
        Ok(())
    }
}

/// FNV-1a of 64 bits.
fn hash(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Why a selector that ends too early cannot be read.
const END: &str = "CEL parse error: Syntax error: mismatched input '<EOF>'";

#[derive(Debug, PartialEq, Eq)]
enum Word<'t> {
    /// An identifier, or several with dots between them.
    Path(String),
    Number,
    /// What stands between quotes.
    Text(&'t str),
    Open,
    Close,
    Comma,
    /// An operator, by its name as a function.
    Operator(&'static str),
    Other(char),
}

impl Word<'_> {
    fn is_odd(&self) -> String {
        let shown = match self {
            Self::Path(path) => path.clone(),
            Self::Number => "number".to_owned(),
            Self::Text(text) => format!("'{text}'"),
            Self::Open => "(".to_owned(),
            Self::Close => ")".to_owned(),
            Self::Comma => ",".to_owned(),
            Self::Operator(name) => name.trim_matches('_').to_owned(),
            Self::Other(other) => other.to_string(),
        };
        format!("CEL parse error: Syntax error: mismatched input '{shown}'")
    }
}

/// An expression, as far as selectors may have it.
enum Expression<'t> {
    Path(String),
    Number,
    Text(&'t str),
    Call(String, Vec<Expression<'t>>),
}

/// A range of a selector, and the field that it is of.
type Range = (ShardField, (u64, u128));

impl Expression<'_> {
    /// The number that the reference gives this kind of expression.
    fn kind(&self) -> u8 {
        match self {
            Self::Call(..) => 1,
            Self::Path(path) if path.contains('.') => 7,
            Self::Path(_) => 3,
            Self::Number | Self::Text(_) => 5,
        }
    }

    /// `walkExpr`: the calls that it is made of.
    fn calls(&self, found: &mut Vec<Range>) -> Result<(), String> {
        match self {
            Self::Call(name, of) if name == OR => of.iter().try_for_each(|one| one.calls(found)),
            Self::Call(name, of) if name == "shardRange" => {
                found.push(range(of)?);
                Ok(())
            }
            Self::Call(name, _) => Err(format!(
                "unsupported function {name:?}; only shardRange() and || are allowed"
            )),
            other => Err(format!(
                "unexpected expression kind {}; expected shardRange() call or || operator",
                other.kind()
            )),
        }
    }

    /// `extractHexLiteral`
    fn bound(&self, name: &str) -> Result<u128, String> {
        match self {
            Self::Text(text) => bound(name, text),
            Self::Number => Err(format!("{name} must be a string literal, got int64")),
            other => Err(format!(
                "{name} must be a string literal (e.g. '0xff'), got expression kind {}",
                other.kind()
            )),
        }
    }
}

/// `parseShardRangeCall`
fn range(arguments: &[Expression<'_>]) -> Result<Range, String> {
    let [field, from, to] = arguments else {
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {}",
            arguments.len()
        ));
    };
    let Expression::Path(path) = field else {
        return Err(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {}",
            field.kind()
        ));
    };
    let known = ShardField::ALL.iter().find(|(name, _)| name == path);
    let (_, field) = known.ok_or_else(|| {
        format!("unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let (from, to) = (from.bound("hexStart")?, to.bound("hexEnd")?);
    match u64::try_from(from) {
        Ok(start) if from < to => Ok((*field, (start, to))),
        _ => Err(format!(
            "shard range start {from:#018x} must be less than end {to:#018x}"
        )),
    }
}

const OR: &str = "_||_";
const OPERATORS: [(&str, &str); 2] = [("||", OR), ("&&", "_&&_")];

/// How deep parentheses may stand within each other.
const DEPTH: usize = 32;

/// The words of a selector that are still to be read.
struct Words<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Words<'t> {
    fn next(&mut self) -> Result<Option<Word<'t>>, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if is_part(first) {
            let is_of_path = |c: char| is_part(c) || c == '.' || c.is_whitespace();
            let end = self.rest.find(|c: char| !is_of_path(c)).unwrap_or(self.rest.len());
            let taken = self.take(end).trim_end();
            if taken.split_whitespace().count() > 1 && !taken.contains('.') {
                return Err(format!("CEL parse error: Syntax error: extraneous input in '{taken}'"));
            }
            let path: String = taken.chars().filter(|c| !c.is_whitespace()).collect();
            return Ok(Some(match first.is_ascii_digit() {
                true => Word::Number,
                false => Word::Path(path),
            }));
        }
        if matches!(first, '\'' | '"') {
            let inside = self.rest.get(1..).unwrap_or_default();
            let Some((text, _)) = inside.split_once(first) else {
                return Err(format!(
                    "CEL parse error: Syntax error: token recognition error at: '{}'",
                    self.rest
                ));
            };
            self.take(text.len() + 2);
            return Ok(Some(Word::Text(text)));
        }
        for (sign, name) in OPERATORS {
            if self.rest.starts_with(sign) {
                self.take(sign.len());
                return Ok(Some(Word::Operator(name)));
            }
        }
        self.take(first.len_utf8());
        Ok(Some(match first {
            '(' => Word::Open,
            ')' => Word::Close,
            ',' => Word::Comma,
            other => Word::Other(other),
        }))
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// The next word, which stays.
    fn peek(&mut self) -> Result<Option<Word<'t>>, String> {
        let before = self.rest;
        let word = self.next()?;
        self.rest = before;
        Ok(word)
    }

    /// Terms with operators between them. Which binds stronger makes no difference to what is allowed.
    fn expression(&mut self) -> Result<Expression<'t>, String> {
        let mut all = self.term()?;
        while let Some(Word::Operator(name)) = self.peek()? {
            self.next()?;
            let next = self.term()?;
            all = match all {
                Expression::Call(before, mut of) if before == name => {
                    of.push(next);
                    Expression::Call(before, of)
                }
                other => Expression::Call(name.to_owned(), vec![other, next]),
            };
        }
        Ok(all)
    }

    fn term(&mut self) -> Result<Expression<'t>, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("CEL parse error: expression recursion limit exceeded".to_owned());
        }
        let term = match self.next()? {
            Some(Word::Open) => {
                let inside = self.expression()?;
                self.close()?;
                inside
            }
            Some(Word::Path(path)) => match self.peek()? {
                Some(Word::Open) => {
                    self.next()?;
                    Expression::Call(path, self.arguments()?)
                }
                _ => Expression::Path(path),
            },
            Some(Word::Number) => Expression::Number,
            Some(Word::Text(text)) => Expression::Text(text),
            Some(other) => return Err(other.is_odd()),
            None => return Err(END.to_owned()),
        };
        self.depth -= 1;
        Ok(term)
    }

    fn close(&mut self) -> Result<(), String> {
        match self.next()? {
            Some(Word::Close) => Ok(()),
            Some(other) => Err(other.is_odd()),
            None => Err(END.to_owned()),
        }
    }

    /// What stands between the parentheses of a call, and the one that ends them.
    fn arguments(&mut self) -> Result<Vec<Expression<'t>>, String> {
        let mut all = Vec::new();
        if self.peek()? == Some(Word::Close) {
            self.next()?;
            return Ok(all);
        }
        loop {
            all.push(self.expression()?);
            match self.next()? {
                Some(Word::Comma) => {}
                Some(Word::Close) => return Ok(all),
                Some(other) => return Err(other.is_odd()),
                None => return Err(END.to_owned()),
            }
        }
    }
}

/// The number that a bound of a range says.
fn bound(name: &str, text: &str) -> Result<u128, String> {
    const DIGITS: usize = 16;
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {text:?}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS + 1 {
        let length = digits.len();
        return Err(format!(
            "{name}: hex value too long ({length} chars, max 17): {digits:?}"
        ));
    }
    if let Some(odd) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!(
            "{name}: invalid hex character {:?} in {text:?}",
            odd.to_string()
        ));
    }
    let number = u128::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
    match digits.len() {
        DIGITS => Ok(number),
        length if length > DIGITS && number == 1 << 64 => Ok(number),
        length if length > DIGITS => Err(format!(
            "{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}"
        )),
        _ => Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean \"0x{digits:0>16}\"?)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    const UPPER: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

    #[test]
    fn every_object_is_in_one_of_the_shards_that_make_up_the_whole() {
        let (lower, upper) = (
            ShardSelector::parse(LOWER).unwrap(),
            ShardSelector::parse(UPPER).unwrap(),
        );
        let both = ShardSelector::parse(&format!("{LOWER}||{UPPER}")).unwrap();
        let uids: Vec<String> = (1..100u32)
            .map(|number| format!("{:08x}-0000-4000-8000-{number:012}", number.wrapping_mul(0x9e37_79b9)))
            .collect();
        for uid in &uids {
            assert!(lower.matches(uid) != upper.matches(uid) && both.matches(uid));
        }
        assert!(uids.iter().any(|uid| lower.matches(uid)) && uids.iter().any(|uid| upper.matches(uid)));
    }

    #[test]
    fn hashes_are_those_of_the_reference() {
        // Of "a", as the authors of FNV publish it.
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn a_selector_is_shown_in_one_form() {
        for text in [LOWER, UPPER, &format!("{LOWER} || {UPPER}")] {
            assert_eq!(ShardSelector::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ShardSelector::parse(&format!("({LOWER})")).unwrap().to_string(), LOWER);
        let spaced = "  shardRange( object.metadata . uid ,\"0x0000000000000000\" ,  '0x8000000000000000' )  ";
        assert_eq!(ShardSelector::parse(spaced).unwrap().to_string(), LOWER);
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, why) in [
            (
                " ",
                "empty shard selector is not allowed; omit the parameter for unfiltered lists",
            ),
            (
                "other(object.metadata.uid, '0x00', '0x80')",
                "unsupported function \"other\"; only shardRange() and || are allowed",
            ),
            ("shardRange(a)", "shardRange() requires exactly 3 arguments, got 1"),
            (
                "shardRange(1, '2', '3')",
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
            ),
            (
                "shardRange(object.metadata.uid, a, '3')",
                "hexStart must be a string literal (e.g. '0xff'), got expression kind 3",
            ),
            (
                "shardRange",
                "unexpected expression kind 3; expected shardRange() call or || operator",
            ),
            (
                "'x'",
                "unexpected expression kind 5; expected shardRange() call or || operator",
            ),
            (
                "a && b",
                "unsupported function \"_&&_\"; only shardRange() and || are allowed",
            ),
            (
                "shardRange(object.metadata.name, '0x00', '0x80')",
                "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
            ),
            (
                "shardRange(object.metadata.uid, '00', '0x80')",
                "hexStart must have '0x' prefix, got \"00\"",
            ),
            (
                "shardRange(object.metadata.uid, '0x0', '0x80')",
                "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
            ),
            (
                "shardRange(object.metadata.uid, '0x0000000000000000', '0x20000000000000000')",
                "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
            ),
            (
                "shardRange(object.metadata.uid, '0x0g', '0x80')",
                "hexStart: invalid hex character \"g\" in \"0x0g\"",
            ),
            (
                "shardRange(object.metadata.uid, 0, 8)",
                "hexStart must be a string literal, got int64",
            ),
            (
                "shardRange(object.metadata.uid, '0x8000000000000000', '0x8000000000000000')",
                "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
            ),
        ] {
            assert_eq!(ShardSelector::parse(text).unwrap_err(), why, "{text}");
        }
        let mixed = format!("{LOWER} || {}", UPPER.replace("uid", "namespace"));
        assert_eq!(
            ShardSelector::parse(&mixed).unwrap_err(),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\""
        );
        let deep = "(".repeat(10_000);
        for text in [
            "shardRange(",
            "shardRange(object.metadata.uid, '0x",
            "|| ||",
            "'",
            "a b",
            "é",
            &deep,
        ] {
            let why = ShardSelector::parse(text).unwrap_err();
            assert!(why.starts_with("CEL parse error: "), "{text}: {why}");
        }
    }
}
