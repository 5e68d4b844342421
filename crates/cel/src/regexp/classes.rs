//! Character classes: their names, ranges, and escapes.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::parse::{BAD_ESCAPE, BAD_RANGE, Error, MISSING_BRACKET, Parsed, TRAILING_BACKSLASH, first, until};

pub(super) fn class_from<const N: usize>(ranges: [(char, char); N]) -> ClassUnicode {
    ClassUnicode::new(ranges.map(|(low, high)| ClassUnicodeRange::new(low, high)))
}

pub(super) fn any() -> ClassUnicode {
    class_from([('\0', char::MAX)])
}

pub(super) fn posix_class(name: &str) -> Option<ClassUnicode> {
    Some(match name {
        "alnum" => class_from([('0', '9'), ('A', 'Z'), ('a', 'z')]),
        "alpha" => class_from([('A', 'Z'), ('a', 'z')]),
        "ascii" => class_from([('\0', '\x7f')]),
        "blank" => class_from([('\t', '\t'), (' ', ' ')]),
        "cntrl" => class_from([('\0', '\x1f'), ('\x7f', '\x7f')]),
        "digit" => class_from([('0', '9')]),
        "graph" => class_from([('!', '~')]),
        "lower" => class_from([('a', 'z')]),
        "print" => class_from([(' ', '~')]),
        "punct" => class_from([('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        "space" => class_from([('\t', '\r'), (' ', ' ')]),
        "upper" => class_from([('A', 'Z')]),
        "word" => class_from([('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]),
        "xdigit" => class_from([('0', '9'), ('A', 'F'), ('a', 'f')]),
        _ => return None,
    })
}

/// Parses a character, or a range of two with a dash, within the brackets of `whole`.
pub(super) fn range<'a>(text: &'a str, whole: &'a str) -> Parsed<'a, (ClassUnicodeRange, &'a str)> {
    let (low, rest) = class_character(text, whole)?;
    match rest.strip_prefix('-') {
        Some(after) if !after.is_empty() && !after.starts_with(']') => {
            let (high, rest) = class_character(after, whole)?;
            if high < low {
                return Err(Error(BAD_RANGE, until(text, rest)));
            }
            Ok((ClassUnicodeRange::new(low, high), rest))
        }
        _ => Ok((ClassUnicodeRange::new(low, low), rest)),
    }
}

fn class_character<'a>(text: &'a str, whole: &'a str) -> Parsed<'a, (char, &'a str)> {
    match first(text) {
        None => Err(Error(MISSING_BRACKET, whole)),
        Some(('\\', _)) => escape(text),
        Some(found) => Ok(found),
    }
}

/// Parses the class `\pL` or `\p{Greek}`; `after` is the text after the `p`.
pub(super) fn unicode_class<'a>(text: &'a str, after: &'a str) -> Parsed<'a, (ClassUnicode, &'a str)> {
    let (name, rest) = match first(after) {
        Some(('{', braced)) => braced.split_once('}').ok_or(Error(BAD_RANGE, text))?,
        Some((_, rest)) => (until(after, rest), rest),
        None => ("", after),
    };
    let (negated, plain) = match name.strip_prefix('^') {
        Some(plain) => (true, plain),
        None => (false, name),
    };
    let Some(mut class) = unicode_table(plain) else {
        return Err(Error(BAD_RANGE, until(text, rest)));
    };
    if negated {
        class.negate();
    }
    Ok((class, rest))
}

/// Returns the characters of a general category or a script.
fn unicode_table(name: &str) -> Option<ClassUnicode> {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | ' ');
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    ["gc", "sc"].into_iter().find_map(|property| {
        let read = regex_syntax::parse(&format!("\\p{{{property}={name}}}")).ok()?;
        match read.into_kind() {
            HirKind::Class(Class::Unicode(class)) => Some(class),
            HirKind::Literal(literal) => {
                let only = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
                Some(class_from([(only, only)]))
            }
            _ => None,
        }
    })
}

/// Parses an escape; returns its character and the rest.
pub(super) fn escape(text: &str) -> Parsed<'_, (char, &str)> {
    let Some((kind, rest)) = text.strip_prefix('\\').and_then(first) else {
        return Err(Error(TRAILING_BACKSLASH, ""));
    };
    let named = match kind {
        'a' => '\x07',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        'x' => return hexadecimal(text, rest),
        '0'..='7' if kind == '0' || rest.starts_with(|next: char| ('0'..='7').contains(&next)) => {
            let digits = text[1..]
                .bytes()
                .take(3)
                .take_while(|byte| (b'0'..=b'7').contains(byte))
                .count();
            let value = u32::from_str_radix(&text[1..=digits], 8).unwrap_or(0);
            return Ok((char::from_u32(value).unwrap_or_default(), &text[1 + digits..]));
        }
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => other,
        _ => return Err(Error(BAD_ESCAPE, until(text, rest))),
    };
    Ok((named, rest))
}

/// Parses `\x41` or `\x{41}`; `rest` is the text after the `x`.
fn hexadecimal<'a>(text: &'a str, rest: &'a str) -> Parsed<'a, (char, &'a str)> {
    let rejected = |rest: &str| Err(Error(BAD_ESCAPE, until(text, rest)));
    let Some((opening, mut rest)) = first(rest) else {
        return rejected(rest);
    };
    if opening != '{' {
        let Some((second, rest)) = first(rest) else {
            return rejected(rest);
        };
        return match (opening.to_digit(16), second.to_digit(16)) {
            (Some(high), Some(low)) => Ok((char::from_u32(high * 16 + low).unwrap_or_default(), rest)),
            _ => rejected(rest),
        };
    }
    let (mut value, mut digits) = (0, 0);
    while let Some((character, after)) = first(rest) {
        rest = after;
        match character.to_digit(16) {
            Some(digit) => value = value * 16 + digit,
            None if character == '}' && digits > 0 => {
                // A surrogate is not a character and occurs in no text.
                return Ok((char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER), rest));
            }
            None => return rejected(rest),
        }
        if value > u32::from(char::MAX) {
            return rejected(rest);
        }
        digits += 1;
    }
    rejected(rest)
}
