//! CBOR reader.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ciborium_ll::{Decoder, Error as HeadError, Header, simple, tag};
use holdfast_gotext::time::{Precision, Timestamp};

use crate::error::{Error, Position};
use crate::limits::Limits;
use crate::tree::{Entry, Map, Value};
use smol_str::SmolStr;

/// Types of data items, indexed by the first three bits.
const TYPES: [&str; 8] = [
    "positive integer",
    "negative integer",
    "byte string",
    "UTF-8 text string",
    "array",
    "map",
    "tag",
    "primitives",
];

/// Tags of times.
const TIME_TEXT: u64 = 0;
const TIME_NUMBER: u64 = 1;

/// Maximum capacity reserved for a container before its items are read.
const MAX_RESERVED_ITEMS: usize = 64;

/// Text form of a byte string.
#[derive(Clone, Copy)]
enum Shown {
    AsItIs,
    Base64Url,
    Base64,
    Base16,
}

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    nodes: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], limits: &'a Limits) -> Self {
        Self {
            bytes,
            at: 0,
            limits,
            nodes: 0,
        }
    }

    pub(super) fn read(mut self) -> Result<Value, Error> {
        if self.bytes.is_empty() {
            return Err(rejected("EOF"));
        }
        let value = self.item(0, Shown::AsItIs)?;
        let more = self.bytes.len() - self.at;
        match more {
            0 => Ok(value),
            _ => Err(rejected(format!(
                "cbor: {more} bytes of extraneous data starting at index {}",
                self.at
            ))),
        }
    }

    fn item(&mut self, depth: usize, shown: Shown) -> Result<Value, Error> {
        let head = self.head()?;
        self.of_head(head, depth, shown)
    }

    fn of_head(&mut self, head: Header, depth: usize, shown: Shown) -> Result<Value, Error> {
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            return Err(Error::TooManyNodes {
                limit: self.limits.max_nodes,
                position: Position::default(),
            });
        }
        match head {
            Header::Positive(number) => match i64::try_from(number) {
                Ok(number) => Ok(Value::Int(number)),
                Err(_) => Err(overflow("positive", i128::from(number))),
            },
            Header::Negative(inverted) => match i64::try_from(inverted) {
                Ok(inverted) => Ok(Value::Int(!inverted)),
                Err(_) => Err(overflow("negative", !i128::from(inverted))),
            },
            Header::Float(number) if number.is_nan() => Err(not_accepted("primitives", "floating-point NaN")),
            Header::Float(number) if number.is_infinite() => Err(not_accepted("primitives", "floating-point infinity")),
            Header::Float(number) => Ok(Value::Float(number)),
            Header::Simple(simple::FALSE) => Ok(Value::Bool(false)),
            Header::Simple(simple::TRUE) => Ok(Value::Bool(true)),
            Header::Simple(simple::NULL) => Ok(Value::Null),
            Header::Simple(other) => {
                let why = format!("simple value {other} is not recognized");
                Err(not_accepted("primitives", &why))
            }
            Header::Break => Err(rejected("cbor: unexpected \"break\" code")),
            Header::Bytes(length) => Ok(Value::String(self.bytes_of(length, shown)?)),
            Header::Text(length) => Ok(Value::String(self.text(length)?)),
            Header::Tag(number) => self.tagged(number, self.deeper(depth)?, shown),
            Header::Array(length) => self.array(length, self.deeper(depth)?, shown),
            Header::Map(length) => self.map(length, self.deeper(depth)?, shown),
        }
    }

    fn array(&mut self, length: Option<usize>, depth: usize, shown: Shown) -> Result<Value, Error> {
        let mut items = Vec::with_capacity(length.unwrap_or_default().min(MAX_RESERVED_ITEMS));
        while let Some(head) = self.next_of(length, items.len())? {
            items.push(self.of_head(head, depth, shown)?);
        }
        Ok(items.into())
    }

    fn map(&mut self, length: Option<usize>, depth: usize, shown: Shown) -> Result<Value, Error> {
        let mut entries: Vec<Entry> = Vec::with_capacity(length.unwrap_or_default().min(MAX_RESERVED_ITEMS));
        while let Some(head) = self.next_of(length, entries.len())? {
            let key = match head {
                Header::Bytes(length) => self.bytes_of(length, Shown::AsItIs)?,
                Header::Text(length) => self.text(length)?,
                head => {
                    let value = self.of_head(head, depth, shown)?;
                    let found = super::kind_of(&value);
                    return Err(rejected(format!(
                        "cbor: cannot unmarshal {found} into Go value of type string"
                    )));
                }
            };
            entries.push((key, self.item(depth, shown)?));
        }
        if let Some((key, at)) = repeated(&entries) {
            return Err(rejected(format!(
                "cbor: found duplicate map key {} at map element index {at}",
                holdfast_gotext::quote::quote(key)
            )));
        }
        Ok(Value::Map(Map::from_unsorted(entries)))
    }

    /// Returns the head of a container's next item, or `None` at the end.
    fn next_of(&mut self, length: Option<usize>, read: usize) -> Result<Option<Header>, Error> {
        if length == Some(read) {
            return Ok(None);
        }
        let head = self.head()?;
        Ok(Some(head).filter(|head| length.is_some() || *head != Header::Break))
    }

    fn tagged(&mut self, number: u64, depth: usize, shown: Shown) -> Result<Value, Error> {
        match number {
            tag::BIGPOS | tag::BIGNEG => Err(not_accepted("tag", "bignum")),
            TIME_TEXT => {
                let value = self.item(depth, shown)?;
                let is_time = |text: &str| Timestamp::parse(text, Precision::Seconds).is_ok();
                match value.as_str().is_some_and(is_time) {
                    true => Ok(value),
                    false => Err(rejected(
                        "cbor: cannot set a value that is no RFC 3339 timestamp for time.Time",
                    )),
                }
            }
            TIME_NUMBER => match self.item(depth, shown)? {
                Value::Int(seconds) if Timestamp::WRITABLE.contains(&seconds) => {
                    let time = Timestamp { seconds, nanos: 0 };
                    Ok(Value::String(time.text(Precision::Seconds)))
                }
                other => Err(rejected(format!(
                    "cbor: cannot unmarshal {} into Go value of type time.Time",
                    super::kind_of(&other)
                ))),
            },
            21 => self.item(depth, Shown::Base64Url),
            22 => self.item(depth, Shown::Base64),
            23 => self.item(depth, Shown::Base16),
            _ => self.item(depth, shown),
        }
    }

    fn bytes_of(&mut self, length: Option<usize>, shown: Shown) -> Result<SmolStr, Error> {
        let bytes = self.string(length, |head| match head {
            Header::Bytes(length) => length,
            _ => None,
        })?;
        Ok(match shown {
            // Invalid UTF-8 is replaced as in JSON output.
            Shown::AsItIs => SmolStr::new(crate::json::checked_text(&bytes, &Limits::TRUSTED)?),
            Shown::Base64Url => URL_SAFE_NO_PAD.encode(bytes).into(),
            Shown::Base64 => STANDARD.encode(bytes).into(),
            Shown::Base16 => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    fn text(&mut self, length: Option<usize>) -> Result<SmolStr, Error> {
        let bytes = self.string(length, |head| match head {
            Header::Text(length) => length,
            _ => None,
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| rejected("cbor: invalid UTF-8 string"))?;
        Ok(SmolStr::new(text))
    }

    /// Reads the bytes of a string. A string of indefinite length consists of the parts up to the break, each of the
    /// same type; `part` returns their lengths.
    fn string(
        &mut self,
        length: Option<usize>,
        part: impl Fn(Header) -> Option<usize>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        if let Some(length) = length {
            return self.take(length).map(Cow::Borrowed);
        }
        let mut whole = Vec::new();
        loop {
            match self.head()? {
                Header::Break => return Ok(whole.into()),
                head => match part(head) {
                    Some(length) => whole.extend_from_slice(self.take(length)?),
                    None => return Err(rejected("cbor: wrong element type for indefinite-length string")),
                },
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(length);
        let taken = end
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or_else(|| rejected("unexpected EOF"))?;
        self.at += length;
        Ok(taken)
    }

    /// Reads the head of a data item.
    fn head(&mut self) -> Result<Header, Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut decoder = Decoder::from(rest);
        match decoder.pull() {
            Ok(head) => {
                self.at += decoder.offset();
                Ok(head)
            }
            Err(HeadError::Io(_)) => Err(rejected("unexpected EOF")),
            Err(HeadError::Syntax(_)) => {
                let first = rest.first().copied().unwrap_or_default();
                let name = TYPES.get(usize::from(first >> 5)).copied().unwrap_or_default();
                Err(rejected(format!(
                    "cbor: invalid additional information {} for type {name}",
                    first & 0x1f
                )))
            }
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, Error> {
        let limit = self.limits.max_depth;
        if depth < limit {
            return Ok(depth + 1);
        }
        Err(Error::TooDeep {
            limit,
            message: format!("cbor: exceeded max nested level {limit}"),
            position: Position::default(),
        })
    }
}

/// Returns the first key that occurred before, with the index of its entry.
fn repeated(entries: &[Entry]) -> Option<(&SmolStr, usize)> {
    if entries.is_sorted_by(|(before, _), (after, _)| before < after) {
        return None;
    }
    let mut seen = crate::seen::SeenValues::new();
    let found = entries.iter().position(|(key, _)| !seen.insert(key))?;
    entries.get(found).map(|(key, _)| (key, found))
}

fn rejected(message: impl Into<String>) -> Error {
    Error::Cbor {
        message: message.into(),
    }
}

fn not_accepted(kind: &str, why: &str) -> Error {
    rejected(format!(
        "cbor: data item of cbor type {kind} is not accepted by protocol: {why}"
    ))
}

fn overflow(sign: &str, number: i128) -> Error {
    rejected(format!(
        "cbor: cannot unmarshal {sign} integer into Go value of type int64 ({number} overflows Go's int64)"
    ))
}
