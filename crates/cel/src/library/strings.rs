//! Extended text functions (cel-go's `ext.Strings`, version 2).

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use holdfast_gotext::quote::short_escape;
use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::library::template;
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "charAt",
        call: char_at,
        cost: Cost::Fixed(1),
        signatures: &["string.(int) string"],
    },
    Function {
        name: "format",
        call: template::format,
        cost: Cost::Format,
        signatures: &["string.(list(dyn)) string"],
    },
    Function {
        name: "join",
        call: join,
        cost: Cost::Join,
        signatures: &["list(string).() string", "list(string).(string) string"],
    },
    Function {
        name: "lowerAscii",
        call: lower_ascii,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
    Function {
        name: "upperAscii",
        call: upper_ascii,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
    Function {
        name: "replace",
        call: replace,
        cost: Cost::Replace,
        signatures: &["string.(string, string) string", "string.(string, string, int) string"],
    },
    Function {
        name: "split",
        call: split,
        cost: Cost::Split,
        signatures: &["string.(string) list(string)", "string.(string, int) list(string)"],
    },
    Function {
        name: "strings.quote",
        call: quote,
        cost: Cost::Quote,
        signatures: &["(string) string"],
    },
    Function {
        name: "substring",
        call: substring,
        cost: Cost::SameSize,
        signatures: &["string.(int) string", "string.(int, int) string"],
    },
    Function {
        name: "trim",
        call: trim,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
];

/// Maximum size of a text created by a function, in bytes.
pub(super) const MAX_TEXT: usize = 16 << 20;

pub(super) fn too_long() -> EvaluationError {
    EvaluationError::failed("result is too long")
}

pub(super) fn text(value: &CelValue) -> Outcome<&str> {
    value.as_str().ok_or(NoSuchOverload)
}

fn int(value: &CelValue) -> Outcome<i64> {
    match value {
        CelValue::Int(number) => Ok(*number),
        _ => Err(NoSuchOverload),
    }
}

fn out_of_range(index: i64) -> EvaluationError {
    EvaluationError::failed(format!("index out of range: {index}"))
}

/// Returns the byte offset of the character `index`; the end of the text counts as a character.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().nth(index)
}

fn char_at(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, index] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, index) = (text(subject)?, int(index)?);
    let at = byte_at(subject, index).ok_or_else(|| out_of_range(index))?;
    let character = subject[at..].chars().next();
    Ok(CelValue::String(
        character
            .map(|c| SmolStr::new(c.encode_utf8(&mut [0; 4])))
            .unwrap_or_default(),
    ))
}

/// Evaluates `indexOf` of texts; the member function of lists calls this, too.
pub(crate) fn index_of(args: &[CelValue], last: bool) -> Outcome {
    let (subject, part) = (text(&args[0])?, text(args.get(1).ok_or(NoSuchOverload)?)?);
    let offset = args.get(2).map(int).transpose()?;
    if part.is_empty() {
        let whole = || subject.chars().count() as i64;
        return Ok(CelValue::Int(offset.unwrap_or_else(|| if last { whole() } else { 0 })));
    }
    let from = match offset {
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        // There is nothing to find after the end.
        Some(offset) => byte_at(subject, offset).filter(|from| *from < subject.len()),
        None if last => Some(subject.len()),
        None => Some(0),
    };
    let Some(from) = from else { return Ok(CelValue::Int(-1)) };
    let found = if last {
        // The last possible start of the part is `from`.
        let end = subject.floor_char_boundary(from + part.len());
        subject[..end].rfind(part)
    } else {
        subject[from..].find(part).map(|at| at + from)
    };
    Ok(CelValue::Int(
        found.map_or(-1, |at| subject[..at].chars().count() as i64),
    ))
}

fn join(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let CelValue::List(list) = &args[0] else {
        return Err(NoSuchOverload);
    };
    let separator = args.get(1).map(text).transpose()?.unwrap_or("");
    let mut joined = String::new();
    for index in 0..list.len() {
        if index > 0 {
            joined.push_str(separator);
        }
        let item = list.get(index)?;
        joined.push_str(text(&item)?);
        if joined.len() > MAX_TEXT {
            return Err(too_long());
        }
    }
    Ok(CelValue::text(joined))
}

fn lower_ascii(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::text(text(&args[0])?.to_ascii_lowercase()))
}

fn upper_ascii(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::text(text(&args[0])?.to_ascii_uppercase()))
}

fn replace(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, from, to, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, from, to) = (text(subject)?, text(from)?, text(to)?);
    let limit = rest.first().map(int).transpose()?.unwrap_or(-1);
    let found = if from.is_empty() {
        subject.chars().count() + 1
    } else {
        subject.matches(from).count()
    };
    let count = usize::try_from(limit).map_or(found, |limit| limit.min(found));
    if subject.len().saturating_add(count.saturating_mul(to.len())) > MAX_TEXT {
        return Err(too_long());
    }
    Ok(CelValue::text(subject.replacen(from, to, count)))
}

fn split(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, separator, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, separator) = (text(subject)?, text(separator)?);
    let limit = rest.first().map(int).transpose()?.unwrap_or(-1);
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let piece = |piece: &str| CelValue::String(SmolStr::new(piece));
    let pieces: Vec<CelValue> = match most {
        0 => Vec::new(),
        _ if separator.is_empty() => {
            let mut pieces = Vec::new();
            let mut rest = subject;
            while let Some(character) = rest.chars().next() {
                let length = if pieces.len() + 1 == most {
                    rest.len()
                } else {
                    character.len_utf8()
                };
                pieces.push(piece(&rest[..length]));
                rest = &rest[length..];
            }
            pieces
        }
        usize::MAX => subject.split(separator).map(piece).collect(),
        most => subject.splitn(most, separator).map(piece).collect(),
    };
    Ok(CelValue::list(pieces))
}

fn substring(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, start, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, start) = (text(subject)?, int(start)?);
    let end = rest.first().map(int).transpose()?;
    if let Some(end) = end
        && start > end
    {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(EvaluationError::failed(message));
    }
    let at = |index| byte_at(subject, index).ok_or_else(|| out_of_range(index));
    let (from, to) = (at(start)?, end.map_or(Ok(subject.len()), at)?);
    Ok(CelValue::String(SmolStr::new(&subject[from..to])))
}

fn trim(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::String(SmolStr::new(text(&args[0])?.trim())))
}

fn quote(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let mut quoted = String::from('"');
    for character in text(&args[0])?.chars() {
        match short_escape(character) {
            Some(escape) => quoted.push_str(escape),
            None => quoted.push(character),
        }
    }
    quoted.push('"');
    Ok(CelValue::text(quoted))
}
