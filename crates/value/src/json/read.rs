//! JSON reader: one pass over the text with an explicit stack of open containers, so that depth costs no call stack.
//!
//! Members of all open containers are on two shared stacks, `items` and `entries`. Closing a container moves its
//! members into an allocation of the exact size.

mod errors;
mod escapes;
mod repetition;

use std::collections::HashSet;

use super::Deferred;
use crate::error::{Error, Position};
use crate::finding::MAX_FINDINGS;
use crate::finding::{Duplicates, Finding};
use crate::limits::Limits;
use crate::tree::{Entry, List, Map, Value};
pub(super) use errors::quoted;
use repetition::{path, without_repetition};
use smol_str::SmolStr;
use wide::u8x16;

/// Open list or map, with the index of its first member on `items` or `entries`.
enum Frame {
    List {
        first: usize,
    },
    /// `sorted` while each key is greater than the one before it.
    Map {
        first: usize,
        sorted: bool,
    },
}

/// Initial capacity of a reader's stacks.
struct Room {
    frames: usize,
    items: usize,
    entries: usize,
}

impl Room {
    const OF_OBJECT: Self = Self {
        frames: 16,
        items: 16,
        entries: 64,
    };
    const NONE: Self = Self {
        frames: 0,
        items: 0,
        entries: 0,
    };
    const OF_PART: Self = Self {
        frames: 8,
        items: 8,
        entries: 16,
    };
}

/// String that was read.
#[derive(Clone, Copy)]
enum Text<'a> {
    /// The string is in the input without escapes.
    Plain(&'a str),
    /// The string had escapes and is in `unescaped`.
    Unescaped,
}

/// Set of accepted texts and their meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON.
    Json,
    /// JSON with the meaning that it has as YAML. The reference's YAML reader knows neither `\\/` nor surrogate pairs,
    /// and whole floats become integers.
    Yaml,
}

pub(crate) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    nodes: usize,
    dialect: Dialect,
    duplicates: Duplicates,
    has_duplicates: bool,
    root: Value,
    frames: Vec<Frame>,
    items: Vec<Value>,
    /// The last entry of each open map holds the key whose value is being read.
    entries: Vec<Entry>,
    unescaped: String,
    tracker: Option<Tracker>,
    /// True if numbers beyond 64-bit floats become infinite instead of errors.
    takes_infinities: bool,
    deferred: Option<Deferred<'a>>,
}

/// Finder of repeated keys in the order of the text.
#[derive(Default)]
struct Tracker {
    /// Keys so far of each open map.
    seen: Vec<HashSet<SmolStr>>,
    findings: Vec<Finding>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, limits: &'a Limits, dialect: Dialect, duplicates: Duplicates) -> Self {
        Self::with_room(text, limits, dialect, duplicates, Room::OF_OBJECT)
    }

    /// Creates a reader of small parts of the text.
    pub(super) fn from_parts(text: &'a str, limits: &'a Limits, dialect: Dialect, duplicates: Duplicates) -> Self {
        Self::with_room(text, limits, dialect, duplicates, Room::OF_PART)
    }

    fn with_room(text: &'a str, limits: &'a Limits, dialect: Dialect, duplicates: Duplicates, room: Room) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            limits,
            nodes: 0,
            dialect,
            duplicates,
            has_duplicates: false,
            root: Value::Null,
            frames: Vec::with_capacity(room.frames),
            items: Vec::with_capacity(room.items),
            entries: Vec::with_capacity(room.entries),
            unescaped: String::new(),
            tracker: None,
            takes_infinities: false,
            deferred: None,
        }
    }

    /// Leaves some maps as their text.
    pub(crate) fn deferring(mut self, deferred: Deferred<'a>) -> Self {
        self.deferred = Some(deferred);
        self
    }

    /// Turns numbers beyond 64-bit floats into infinities.
    pub(crate) fn with_infinities(mut self) -> Self {
        self.takes_infinities = true;
        self
    }

    /// Reads the value of the text; the flag is true if a map had a key twice.
    pub(crate) fn read(mut self) -> Result<(Value, bool), Error> {
        let value = self.document()?;
        Ok((value, self.has_duplicates))
    }

    /// Returns the repeated keys.
    pub(crate) fn find_duplicates(mut self) -> Result<Vec<Finding>, Error> {
        self.tracker = Some(Tracker::default());
        self.document()?;
        Ok(self.tracker.map(|tracker| tracker.findings).unwrap_or_default())
    }

    fn document(&mut self) -> Result<Value, Error> {
        let root = self.one()?;
        match self.peek() {
            None => Ok(root),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// Reads one value and the space after it; more text may follow.
    pub(super) fn one(&mut self) -> Result<Value, Error> {
        loop {
            if !self.value()? {
                continue;
            }
            // A value is complete. This may complete its container, and so on outwards.
            loop {
                self.skip_space();
                match self.frames.last() {
                    None => return Ok(std::mem::take(&mut self.root)),
                    Some(Frame::List { first }) => match self.peek() {
                        Some(b',') => {
                            self.at += 1;
                            break;
                        }
                        Some(b']') => {
                            let first = *first;
                            self.at += 1;
                            self.frames.pop();
                            let list = List::from(self.items.split_off(first));
                            self.place(Value::List(list));
                        }
                        _ => return Err(self.unexpected("after array element")),
                    },
                    Some(Frame::Map { first, sorted }) => match self.peek() {
                        Some(b',') => {
                            self.at += 1;
                            self.key()?;
                            break;
                        }
                        Some(b'}') => {
                            let (first, sorted) = (*first, *sorted);
                            self.at += 1;
                            self.frames.pop();
                            let map = self.close_map(first, sorted);
                            self.place(Value::Map(map));
                        }
                        _ => return Err(self.unexpected("after object key:value pair")),
                    },
                }
            }
        }
    }

    /// Adds a complete value to its container. Inlined, so that the value is constructed in place rather than moved.
    #[inline(always)]
    fn place(&mut self, value: Value) {
        match self.frames.last() {
            None => self.root = value,
            Some(Frame::List { .. }) => self.items.push(value),
            Some(Frame::Map { .. }) => {
                if let Some((_, slot)) = self.entries.last_mut() {
                    *slot = value;
                }
            }
        }
    }

    /// Reads a scalar or an empty container (`true`), or opens a container and moves to its first value (`false`).
    fn value(&mut self) -> Result<bool, Error> {
        self.skip_space();
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            return Err(Error::TooManyNodes {
                limit: self.limits.max_nodes,
                position: self.position(),
            });
        }
        match self.peek() {
            Some(b'"') => match self.string()? {
                Text::Plain(text) => self.place(Value::String(SmolStr::new(text))),
                Text::Unescaped => self.place(Value::String(SmolStr::new(&self.unescaped))),
            },
            Some(b'{') => {
                if let Some(map) = self.deferred_map() {
                    self.place(Value::Map(map));
                    return Ok(true);
                }
                self.check_depth()?;
                self.at += 1;
                self.skip_space();
                if self.peek() != Some(b'}') {
                    self.frames.push(Frame::Map {
                        first: self.entries.len(),
                        sorted: true,
                    });
                    if let Some(tracker) = &mut self.tracker {
                        tracker.seen.push(HashSet::new());
                    }
                    self.key()?;
                    return Ok(false);
                }
                self.at += 1;
                self.place(Value::Map(Map::new()));
            }
            Some(b'[') => {
                self.check_depth()?;
                self.at += 1;
                self.skip_space();
                if self.peek() != Some(b']') {
                    self.frames.push(Frame::List {
                        first: self.items.len(),
                    });
                    return Ok(false);
                }
                self.at += 1;
                self.place(Value::List(List::new()));
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.number()?;
                self.place(number);
            }
            Some(b't') => self.literal("true", Value::Bool(true))?,
            Some(b'f') => self.literal("false", Value::Bool(false))?,
            Some(b'n') => self.literal("null", Value::Null)?,
            _ => return Err(self.unexpected("looking for beginning of value")),
        }
        Ok(true)
    }

    /// Returns the map that begins here, if it is one of those that stay text.
    fn deferred_map(&mut self) -> Option<Map> {
        let deferred = self.deferred?;
        if !self.is_at(deferred.path) {
            return None;
        }
        let end = super::end_of_value(self.bytes, self.at)?;
        let source = (deferred.make)(self.text.get(self.at..end)?)?;
        self.at = end;
        Some(Map::made_of(source))
    }

    /// True if the value that begins here is the member at this path.
    fn is_at(&self, path: &[&str]) -> bool {
        let (Some((name, _)), Some(Frame::Map { .. })) = (self.entries.last(), self.frames.last()) else {
            return false;
        };
        if path.last() != Some(&name.as_str()) {
            return false;
        }
        let starts = self.frames.iter().filter_map(|frame| match frame {
            Frame::Map { first, .. } => Some(*first),
            Frame::List { .. } => None,
        });
        // The entry before the first one of a map holds the key of the map itself.
        let outer = starts.skip(1).map(|first| self.entries.get(first.wrapping_sub(1)));
        let names = outer.map(|entry| entry.map_or("", |(name, _)| name.as_str()));
        names.chain([name.as_str()]).eq(path.iter().copied())
    }

    /// Reads a key and its colon, and pushes it on `entries` until its value follows.
    #[expect(
        clippy::indexing_slicing,
        reason = "the offset never exceeds the length of the text, nor a frame's first entry the number of entries"
    )]
    fn key(&mut self) -> Result<(), Error> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = match self.name_and_colon()? {
            Text::Plain(text) => text,
            Text::Unescaped => self.unescaped.as_str(),
        };
        if let Some(Frame::Map {
            first,
            sorted: sorted @ true,
        }) = self.frames.last_mut()
        {
            *sorted = self.entries[*first..]
                .last()
                .is_none_or(|(before, _)| before.as_str() < key);
        }
        self.entries.push((SmolStr::new(key), Value::Null));
        if self.tracker.is_some() {
            self.track();
        }
        Ok(())
    }

    /// Reads the name of a member and its colon. The result borrows from the text or from the buffer of unescaped text.
    pub(super) fn name(&mut self) -> Result<&str, Error> {
        Ok(match self.name_and_colon()? {
            Text::Plain(text) => text,
            Text::Unescaped => self.unescaped.as_str(),
        })
    }

    /// Reads the string that begins here, and the space after it.
    pub(super) fn text(&mut self) -> Result<Value, Error> {
        let text = match self.string()? {
            Text::Plain(text) => SmolStr::new(text),
            Text::Unescaped => SmolStr::new(&self.unescaped),
        };
        self.skip_space();
        Ok(Value::String(text))
    }

    fn name_and_colon(&mut self) -> Result<Text<'a>, Error> {
        let text = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(text)
    }

    /// Returns the offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Skips a value without reading its content, and the space after it. `None` if it does not end.
    pub(super) fn pass(&mut self) -> Option<()> {
        self.at = super::end_of_value(self.bytes, self.at)?;
        self.skip_space();
        Some(())
    }

    /// Skips the rest of the open container. `None` if it does not end.
    pub(super) fn pass_rest(&mut self) -> Option<()> {
        self.at = super::end_of_open_container(self.bytes, self.at)?;
        Some(())
    }

    /// Consumes `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let stands = self.peek() == Some(byte);
        self.at += usize::from(stands);
        stands
    }

    fn close_map(&mut self, first: usize, sorted: bool) -> Map {
        if let Some(tracker) = &mut self.tracker {
            tracker.seen.pop();
        }
        let mut entries = self.entries.split_off(first);
        if !sorted {
            // A stable sort keeps the order of entries with the same key.
            entries.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
            if !entries.is_sorted_by(|a, b| a.0 < b.0) {
                self.has_duplicates = true;
                entries = without_repetition(entries, self.duplicates);
            }
        }
        Map::from_sorted(entries)
    }

    /// Reads the string that begins here.
    #[expect(
        clippy::indexing_slicing,
        reason = "the offset never exceeds the length of the text, nor a frame's first entry the number of entries"
    )]
    fn string(&mut self) -> Result<Text<'a>, Error> {
        let start = self.at + 1;
        let end = start + plain_run(&self.bytes[start..]);
        self.at = end;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Text::Plain(&self.text[start..end]));
        }
        self.unescaped.clear();
        self.unescaped.push_str(&self.text[start..end]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Text::Unescaped);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let character = self.escape()?;
                    self.unescaped.push(character);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
            let run = plain_run(&self.bytes[self.at..]);
            self.unescaped.push_str(&self.text[self.at..self.at + run]);
            self.at += run;
        }
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let digits = self.at;
        let mut integer: Option<u64> = Some(0);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            integer = integer.and_then(|n| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            self.at += 1;
            if integer == Some(0) {
                // No digit may follow a leading zero.
                break;
            }
        }
        if self.at == digits {
            return Err(self.unexpected("in numeric literal"));
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        if let (true, Some(magnitude)) = (is_integer, integer) {
            match negative {
                false => return Ok(Value::from(magnitude)),
                true if magnitude <= i64::MIN.unsigned_abs() => {
                    return Ok(Value::Int(0_i64.wrapping_sub_unsigned(magnitude)));
                }
                true => {}
            }
        }
        let text = &self.text[start..self.at];
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() || self.takes_infinities => Ok(match self.dialect {
                Dialect::Json => Value::Float(float),
                Dialect::Yaml => crate::number::whole_as_integer(float),
            }),
            _ => {
                let message = format!("json: cannot unmarshal number {text} into Go value of type float64");
                Err(Error::Json {
                    message,
                    position: Position::at_offset(self.bytes, start),
                })
            }
        }
    }

    /// Skips one or more digits.
    fn digits(&mut self, context: &str) -> Result<(), Error> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(self.unexpected(context)),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<(), Error> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
            self.at += 1;
        }
        self.place(value);
        Ok(())
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Records the key that was just read, and reports it if the innermost map already has it.
    fn track(&mut self) {
        let (Some(tracker), Some((key, _))) = (&mut self.tracker, self.entries.last()) else {
            return;
        };
        let is_new = tracker.seen.last_mut().is_none_or(|seen| seen.insert(key.clone()));
        if is_new || tracker.findings.len() >= MAX_FINDINGS {
            return;
        }
        let finding = Finding::DuplicateField {
            path: path(&self.frames, &self.items, &self.entries),
        };
        if !tracker.findings.contains(&finding) {
            tracker.findings.push(finding);
        }
    }
}

/// Appends the string that begins at byte `at` of a JSON text to `out`, without quotes and escapes, and returns its end.
/// `None` if there is no string.
pub fn unescape(text: &str, at: usize, out: &mut String) -> Option<usize> {
    let mut reader = Reader::with_room(text, &Limits::TRUSTED, Dialect::Json, Duplicates::Replace, Room::NONE);
    reader.at = at;
    if reader.peek() != Some(b'"') {
        return None;
    }
    match reader.string().ok()? {
        Text::Plain(text) => out.push_str(text),
        Text::Unescaped => out.push_str(&reader.unescaped),
    }
    Some(reader.at)
}

/// Returns the number of leading bytes that are neither quote, backslash nor control character.
#[inline]
pub fn plain_run(bytes: &[u8]) -> usize {
    const SIZE: usize = 16;
    let (blocks, rest) = bytes.as_chunks::<SIZE>();
    let mut run = 0;
    for block in blocks {
        let block = u8x16::new(*block);
        let is_control = block.min(u8x16::splat(0x1F)).cmp_eq(block);
        let is_stop = block.cmp_eq(u8x16::splat(b'"')) | block.cmp_eq(u8x16::splat(b'\\')) | is_control;
        let stops = is_stop.move_mask();
        if stops != 0 {
            return run + stops.trailing_zeros() as usize;
        }
        run += SIZE;
    }
    run + rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
        .unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
