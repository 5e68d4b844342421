//! Shards of a collection: the objects whose uid or namespace has a hash within some ranges (`shardSelector`,
//! <https://kep.k8s.io/5866>).
//!
//! A selector is `shardRange(FIELD, 'FROM', 'TO')`, or several of one field joined by `||`: a CEL expression that is
//! parsed and never evaluated.

use std::fmt;

use holdfast_cel::{CelValue, PlainExpr};
use holdfast_gotext::quote::quote;

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

/// Ranges of a shard. Their text is that of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    pub(crate) field: ShardField,
    /// Start of each range, and its exclusive end, which is at most 2^64.
    ranges: Vec<(u64, u128)>,
}

impl ShardSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// If it is invalid, in the words of the reference.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
        }
        let expression = PlainExpr::parse(text).map_err(|why| format!("CEL parse error: {why}"))?;
        let mut calls = Vec::new();
        ranges(&expression, &mut calls)?;
        let Some((field, _)) = calls.first().copied() else {
            return Err("no shardRange() call".to_owned());
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

    /// Returns true if an object whose field has this text is in the shard.
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

/// Computes the 64-bit FNV-1a hash.
fn hash(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// A range of a selector, with its field.
type Range = (ShardField, (u64, u128));

/// Collects the ranges of an expression.
fn ranges(expression: &PlainExpr, found: &mut Vec<Range>) -> Result<(), String> {
    match expression {
        PlainExpr::Call { function, args } => match function.as_str() {
            "_||_" => args.iter().try_for_each(|arg| ranges(arg, found)),
            "shardRange" => {
                found.push(range(args)?);
                Ok(())
            }
            other => Err(format!(
                "unsupported function {}; only shardRange() and || are allowed",
                quote(other)
            )),
        },
        other => Err(format!(
            "unexpected expression kind {}; expected shardRange() call or || operator",
            kind(other)
        )),
    }
}

/// Returns cel-go's number of this kind of expression.
fn kind(expression: &PlainExpr) -> u8 {
    match expression {
        PlainExpr::Call { .. } => 1,
        PlainExpr::Name(_) => 3,
        PlainExpr::List => 4,
        PlainExpr::Literal(_) => 5,
        PlainExpr::Map => 6,
        PlainExpr::Select { .. } => 7,
        PlainExpr::Struct => 8,
    }
}

/// Parses the arguments of a call of `shardRange`.
fn range(arguments: &[PlainExpr]) -> Result<Range, String> {
    let [field, from, to] = arguments else {
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {}",
            arguments.len()
        ));
    };
    let path = path(field).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let known = ShardField::ALL.iter().find(|(name, _)| *name == path);
    let (_, field) = known.ok_or_else(|| {
        let path = quote(&path);
        format!("unsupported field path {path}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let (from, to) = (literal("hexStart", from)?, literal("hexEnd", to)?);
    match u64::try_from(from) {
        Ok(start) if from < to => Ok((*field, (start, to))),
        _ => Err(format!(
            "shard range start {from:#018x} must be less than end {to:#018x}"
        )),
    }
}

/// Returns a name and the fields that are selected from it, separated by dots.
fn path(expression: &PlainExpr) -> Result<String, String> {
    match expression {
        PlainExpr::Name(name) => Ok(name.to_string()),
        PlainExpr::Select { operand, field } => {
            let mut path = path(operand)?;
            path.push('.');
            path.push_str(field);
            Ok(path)
        }
        other => Err(format!(
            "expected field path (e.g. object.metadata.uid), got expression kind {}",
            kind(other)
        )),
    }
}

/// Parses an argument as the bound of a range.
fn literal(name: &str, expression: &PlainExpr) -> Result<u128, String> {
    let go_type = match expression {
        PlainExpr::Literal(CelValue::String(text)) => return bound(name, text),
        PlainExpr::Literal(CelValue::Bool(_)) => "bool",
        PlainExpr::Literal(CelValue::Int(_)) => "int64",
        PlainExpr::Literal(CelValue::Uint(_)) => "uint64",
        PlainExpr::Literal(CelValue::Double(_)) => "float64",
        PlainExpr::Literal(CelValue::Bytes(_)) => "[]uint8",
        PlainExpr::Literal(_) => "structpb.NullValue",
        other => {
            return Err(format!(
                "{name} must be a string literal (e.g. '0xff'), got expression kind {}",
                kind(other)
            ));
        }
    };
    Err(format!("{name} must be a string literal, got {go_type}"))
}

/// Parses the text of the bound of a range.
fn bound(name: &str, text: &str) -> Result<u128, String> {
    const DIGITS: usize = 16;
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {}", quote(text)));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS + 1 {
        let length = digits.len();
        return Err(format!(
            "{name}: hex value too long ({length} chars, max 17): {}",
            quote(digits)
        ));
    }
    if let Some(odd) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!(
            "{name}: invalid hex character {} in {}",
            quote(odd.encode_utf8(&mut [0; 4])),
            quote(text)
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
        // Hash of "a", as published by the authors of FNV.
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
    }

    #[test]
    fn errors_of_syntax_are_those_of_cel() {
        const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
        let deep = "(".repeat(10_000);
        for (text, why) in [
            ("a b", "Syntax error: extraneous input 'b' expecting <EOF>".to_owned()),
            ("||", format!("Syntax error: mismatched input '||' expecting {OPERAND}")),
            (
                "f(1, '0x)",
                "Syntax error: token recognition error at: ''0x)'".to_owned(),
            ),
            (
                "\u{e9}",
                "Syntax error: token recognition error at: '\u{e9}'".to_owned(),
            ),
            (&deep, "expression recursion limit exceeded: 250".to_owned()),
        ] {
            let expected = format!("CEL parse error: {why}");
            assert_eq!(ShardSelector::parse(text).unwrap_err(), expected, "{text}");
        }
    }
}
