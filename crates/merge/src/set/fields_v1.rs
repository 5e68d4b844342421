//! FieldsV1: the JSON form of a set, as text and as a tree.
//!
//! Each path element is a key of an object that holds what is below it; `.` marks an element that is itself in the set
//! while others are below it. See `FieldsV1` in <https://kubernetes.io/docs/reference/kubernetes-api/>.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use holdfast_value::{Limits, Map, SmolStr, Source, Value, json};
use memchr::{memchr, memchr_iter};

use super::intern::{Index, hash_text};
use super::{Level, Nodes, Set};
use crate::scan::{MAX_DEPTH, ScanError, Scanner};
use crate::{PathElement, PathElementError};

/// Why a text or tree is no field set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The text is not JSON of the right shape.
    #[error(transparent)]
    Json(#[from] ScanError),
    /// A key is no path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] PathElementError),
    /// A node of the tree is neither an object nor null.
    #[error("a field set is made of objects")]
    NotAnObject,
    /// The set nests more than 512 levels deep.
    #[error("the field set is too deeply nested")]
    TooDeep,
}

impl Set {
    /// Reads the JSON text of a set. Elements of unknown kinds are passed over; order does not matter.
    ///
    /// # Errors
    /// If the text is not JSON of that shape, nests too deep, or has a malformed key.
    pub fn from_fields_v1(text: &[u8]) -> Result<Set, FieldsError> {
        // Bytes that are not UTF-8 are replaced, as the reference does.
        let text = match std::str::from_utf8(text) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(text),
        };
        let mut scanner = Scanner::new(&text);
        let mut reader = Reader::default();
        reader.text(&mut scanner, 0)?;
        scanner.end()?;
        Ok(reader.finish())
    }

    /// Reads a set from the tree of its JSON form, as it stands in an object's `managedFields`. One that was made of a set is
    /// not looked at.
    ///
    /// # Errors
    /// If the tree is not of that shape, nests too deep, or has a malformed key.
    pub fn from_fields_v1_value(value: &Value) -> Result<Set, FieldsError> {
        if let Some(fields) = FieldsV1::of(value) {
            return Ok(fields.set.clone());
        }
        if let Some(written) = source_of::<Written>(value) {
            return written.set().clone();
        }
        let mut reader = Reader::default();
        reader.tree(value, 0)?;
        Ok(reader.finish())
    }

    /// The JSON text of the set, byte for byte as the reference writes it.
    pub fn to_fields_v1(&self) -> String {
        let mut out = Vec::with_capacity(16 + 24 * self.level().nodes.len());
        self.write_fields_v1(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the JSON text of the set.
    pub fn write_fields_v1(&self, out: &mut Vec<u8>) {
        write_text(self.level(), false, &mut WrittenKeys::of(self.level()), out);
    }

    /// The tree of the set's JSON form, with its text. Its nodes are made at the first look at them.
    pub fn to_fields_v1_value(&self) -> Value {
        match self.is_empty() {
            true => Value::empty_map(),
            false => Value::Map(Map::made_of(Arc::new(FieldsV1::new(self.clone())))),
        }
    }
}

/// The JSON text of a set of fields as the reference writes it within an object, where `value` was made of a set or of that text.
pub fn fields_v1_text(value: &Value) -> Option<&[u8]> {
    if let Some(written) = source_of::<Written>(value) {
        return Some(written.text.as_bytes());
    }
    let fields = FieldsV1::of(value)?;
    fields.is_plain.then_some(&fields.text)
}

/// What the map of a set of fields can be made of: the text as it stands in a stored object. None where the map is empty, or where
/// the text has escapes beyond those of quotes.
pub fn fields_v1_source(text: &str) -> Option<Arc<dyn Source>> {
    let (mut escapes, mut rest) = (0, text.as_bytes());
    while let Some(at) = memchr(b'\\', rest) {
        if rest.get(at + 1) != Some(&b'"') {
            return None;
        }
        escapes += 1;
        rest = rest.get(at + 2..)?;
    }
    (text != "{}").then(|| Written::source(text.into(), escapes, OnceLock::new()))
}

/// The same of text without other escapes that is no `{}`; `by_name` says whether it has all keys in the order of names.
pub(crate) fn written(text: String, by_name: bool) -> Arc<dyn Source> {
    let escapes = memchr_iter(b'\\', text.as_bytes()).count();
    Written::source(text.into(), escapes, by_name.into())
}

/// A set as it stands in a stored object: its text, which is read for those who ask for the set.
struct Written {
    text: Box<str>,
    /// How long the text is without escapes.
    length: usize,
    set: OnceLock<Result<Set, FieldsError>>,
    /// Whether the text has all keys in the order of names, known once it is needed.
    is_by_name: OnceLock<bool>,
}

impl Written {
    /// The source of a text with so many escapes.
    fn source(text: Box<str>, escapes: usize, is_by_name: OnceLock<bool>) -> Arc<dyn Source> {
        Arc::new(Self {
            length: text.len() - escapes,
            text,
            set: OnceLock::new(),
            is_by_name,
        })
    }

    fn set(&self) -> &Result<Set, FieldsError> {
        self.set.get_or_init(|| Set::from_fields_v1(self.text.as_bytes()))
    }

    /// Whether this is the set that has this text. Equal sets have texts of one length, if not of one order.
    fn is(&self, text: &[u8], set: &Set) -> bool {
        let own = self.text.as_bytes();
        own == text || own.len() == text.len() && self.set().as_ref().is_ok_and(|own| own == set)
    }
}

impl Source for Written {
    fn entries(&self) -> Vec<(SmolStr, Value)> {
        // Text that is no JSON comes from no store of this server, and is no set either.
        let read = json::parse(self.text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
        match read {
            Value::Map(map) => map.into_entries(),
            _ => Vec::new(),
        }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn json(&self) -> Option<&[u8]> {
        let by_name = || self.set().as_ref().is_ok_and(|set| is_by_name(set.level()));
        self.is_by_name.get_or_init(by_name).then_some(self.text.as_bytes())
    }

    fn same(&self, other: &dyn Source) -> Option<bool> {
        let other: &dyn Any = other;
        if let Some(made) = other.downcast_ref::<FieldsV1>() {
            return Some(self.is(&made.text, &made.set));
        }
        let other: &Self = other.downcast_ref()?;
        match (self.text == other.text, self.text.len() == other.text.len()) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => Some(self.is(other.text.as_bytes(), other.set().as_ref().ok()?)),
        }
    }
}

/// What a map is made of, if it is that.
fn source_of<T: Source>(value: &Value) -> Option<&T> {
    let source: &dyn Any = value.as_map()?.source()?;
    source.downcast_ref()
}

/// What the tree of a set is made of: the set, and its text within an object.
struct FieldsV1 {
    set: Set,
    text: Vec<u8>,
    /// How long the text is without escapes.
    length: usize,
    /// Whether no key holds a control character: JSON has several escapes for these.
    is_plain: bool,
    /// Whether the text has all keys in the order of names, known once it is needed.
    is_by_name: OnceLock<bool>,
}

impl FieldsV1 {
    fn new(set: Set) -> Self {
        let mut keys = WrittenKeys::of(set.level());
        let mut text = Vec::with_capacity(16 + 24 * set.level().nodes.len());
        write_text(set.level(), false, &mut keys, &mut text);
        let (length, is_plain) = (text.len() - keys.escapes, !keys.has_codes);
        Self {
            set,
            text: json::html_safe(text),
            length,
            is_plain,
            is_by_name: OnceLock::new(),
        }
    }

    fn of(value: &Value) -> Option<&Self> {
        source_of(value)
    }
}

impl Source for FieldsV1 {
    fn entries(&self) -> Vec<(SmolStr, Value)> {
        let mut names = vec![SmolStr::default(); self.set.level().elements.len()];
        to_entries(self.set.level(), false, &mut names).into_entries()
    }

    fn length(&self) -> usize {
        self.length
    }

    fn json(&self) -> Option<&[u8]> {
        let by_name = || self.is_plain && is_by_name(self.set.level());
        self.is_by_name.get_or_init(by_name).then_some(&self.text)
    }

    fn same(&self, other: &dyn Source) -> Option<bool> {
        let other: &dyn Any = other;
        if let Some(written) = other.downcast_ref::<Written>() {
            return Some(written.is(&self.text, &self.set));
        }
        let other: &Self = other.downcast_ref()?;
        Some(self.set.same(&other.set) || self.text == other.text)
    }
}

/// Whether the order of the elements is that of their texts, at each level.
fn is_by_name(level: Level<'_>) -> bool {
    let mut last: Option<String> = None;
    level.entries().all(|entry| {
        // Fields stand in the order of their names, before all others.
        if !matches!(entry.element(), PathElement::Field(_)) {
            let text = entry.element().to_text();
            if last.as_ref().is_some_and(|last| *last >= text) {
                return false;
            }
            last = Some(text);
        }
        is_by_name(entry.below())
    })
}

/// Reads objects into nodes. A key that was seen before is not read again.
#[derive(Default)]
struct Reader<'a> {
    elements: Vec<PathElement>,
    nodes: Nodes,
    /// The keys as they stand in the source, each with what it says.
    keys: Vec<(&'a str, Key)>,
    index: Index,
}

/// What the key of an object says.
#[derive(Clone, Copy)]
enum Key {
    /// `.`: the element that the object belongs to is a member.
    Itself,
    /// An element of a kind that a later version may know.
    Unknown,
    /// The element of this number.
    Element(u32),
}

impl<'a> Reader<'a> {
    /// Reads one object, and says whether the element it belongs to is a member.
    fn text(&mut self, scanner: &mut Scanner<'a>, depth: usize) -> Result<bool, FieldsError> {
        if depth > MAX_DEPTH {
            return Err(FieldsError::TooDeep);
        }
        match scanner.peek() {
            Some(b'{') => {}
            Some(b'n') => {
                scanner.word("null")?;
                return Ok(true);
            }
            _ => return scanner.error("expected an object").map_err(FieldsError::from),
        }
        scanner.take(b'{');
        let mut siblings = Siblings::begin(&self.nodes);
        let mut more = !scanner.take(b'}');
        while more {
            match self.raw_key(scanner)? {
                Key::Itself => {
                    siblings.marked = true;
                    scanner.value(depth)?;
                }
                Key::Unknown => {
                    scanner.value(depth)?;
                }
                Key::Element(number) => {
                    let at = siblings.open(self, number);
                    let member = self.text(scanner, depth + 1)?;
                    self.nodes.close(at, member);
                }
            }
            more = scanner.take(b',');
            if !more && !scanner.take(b'}') {
                return scanner.error("expected , or }").map_err(FieldsError::from);
            }
        }
        Ok(siblings.end(self))
    }

    fn tree(&mut self, value: &'a Value, depth: usize) -> Result<bool, FieldsError> {
        if depth > MAX_DEPTH {
            return Err(FieldsError::TooDeep);
        }
        let map = match value {
            Value::Map(map) => map,
            Value::Null => return Ok(true),
            _ => return Err(FieldsError::NotAnObject),
        };
        let mut siblings = Siblings::begin(&self.nodes);
        for (name, below) in map {
            match self.key(name, PathElement::parse)? {
                Key::Itself => siblings.marked = true,
                Key::Unknown => {}
                Key::Element(number) => {
                    let at = siblings.open(self, number);
                    let member = self.tree(below, depth + 1)?;
                    self.nodes.close(at, member);
                }
            }
        }
        Ok(siblings.end(self))
    }

    /// Reads a key of a text, in which it may have escapes.
    fn raw_key(&mut self, scanner: &mut Scanner<'a>) -> Result<Key, FieldsError> {
        let raw = scanner.name()?;
        self.key(raw.text, |_| {
            let name = raw.unescaped()?;
            PathElement::parse(&name).map_err(FieldsError::from)
        })
    }

    /// What a key says, which is read with `read` if it was not seen before.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn key<E>(
        &mut self,
        source: &'a str,
        read: impl FnOnce(&'a str) -> Result<PathElement, E>,
    ) -> Result<Key, FieldsError>
    where
        FieldsError: From<E>,
    {
        let keys = &self.keys;
        let known = self
            .index
            .find_or_add(hash_text(source.as_bytes()), |number| keys[number].0 == source);
        if let Some(known) = known {
            return Ok(self.keys[known as usize].1);
        }
        let key = match source {
            "." => Key::Itself,
            _ => match read(source).map_err(FieldsError::from) {
                Ok(element) => {
                    self.elements.push(element);
                    Key::Element(u32::try_from(self.elements.len() - 1).unwrap_or(u32::MAX))
                }
                Err(FieldsError::Element(PathElementError::UnknownType)) => Key::Unknown,
                Err(error) => return Err(error),
            },
        };
        self.keys.push((source, key));
        Ok(key)
    }

    fn finish(self) -> Set {
        Set::from_parts(Arc::new(self.elements), self.nodes)
    }
}

/// The elements of one object as they are read, in whatever order.
struct Siblings {
    start: usize,
    last: Option<u32>,
    sorted: bool,
    /// Whether the object marks the element it belongs to as a member.
    marked: bool,
}

impl Siblings {
    fn begin(nodes: &Nodes) -> Self {
        Self {
            start: nodes.len(),
            last: None,
            sorted: true,
            marked: false,
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn open(&mut self, reader: &mut Reader<'_>, number: u32) -> usize {
        let element = |number: u32| &reader.elements[number as usize];
        self.sorted &= self.last.is_none_or(|last| element(last) < element(number));
        self.last = Some(number);
        reader.nodes.open(number)
    }

    /// Puts the elements in order, and says whether the one above them is a member: one with nothing below it is, whether
    /// marked or not.
    fn end(self, reader: &mut Reader<'_>) -> bool {
        if !self.sorted {
            reader.nodes.sort_level(self.start, &reader.elements);
        }
        self.marked || reader.nodes.len() == self.start
    }
}

/// The elements as they stand within JSON strings, each written when it is first needed.
struct WrittenKeys {
    text: Vec<u8>,
    /// Where each element stands in the text, by its number; nowhere yet if empty.
    keys: Vec<WrittenKey>,
    /// How many bytes of all that was written are those of escapes.
    escapes: usize,
    /// Whether anything is written by its code.
    has_codes: bool,
}

/// Where a key stands in the text, with its quotes and colon.
#[derive(Clone, Copy, Default)]
struct WrittenKey {
    start: u32,
    end: u32,
    escapes: u32,
}

impl WrittenKeys {
    fn of(level: Level<'_>) -> Self {
        Self {
            text: Vec::with_capacity(24 * level.elements.len()),
            keys: vec![WrittenKey::default(); level.elements.len()],
            escapes: 0,
            has_codes: false,
        }
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn write(&mut self, entry: super::Entry<'_>, out: &mut Vec<u8>) {
        let key = &mut self.keys[entry.node.element()];
        if key.end == 0 {
            let start = self.text.len();
            self.text.push(b'"');
            entry.element().write_quoted(&mut self.text);
            let (escapes, has_codes) = escapes(&self.text[start..]);
            self.has_codes |= has_codes;
            self.text.extend_from_slice(b"\":");
            // Inputs are bounded far below what would not fit.
            let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
            *key = WrittenKey {
                start: number(start),
                end: number(self.text.len()),
                escapes: number(escapes),
            };
        }
        self.escapes += key.escapes as usize;
        out.extend_from_slice(&self.text[key.start as usize..key.end as usize]);
    }
}

/// How many bytes escapes add to a text within a JSON string, and whether any of them is a code.
fn escapes(quoted: &[u8]) -> (usize, bool) {
    let (mut added, mut has_codes, mut rest) = (0, false, quoted);
    while let Some(at) = memchr(b'\\', rest) {
        let is_code = rest.get(at + 1) == Some(&b'u');
        has_codes |= is_code;
        added += if is_code { 5 } else { 1 };
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    (added, has_codes)
}

fn write_text(level: Level<'_>, member: bool, keys: &mut WrittenKeys, out: &mut Vec<u8>) {
    if level.is_empty() {
        return out.extend_from_slice(b"{}");
    }
    out.extend_from_slice(if member { b"{\".\":{}," } else { b"{" });
    for (at, entry) in level.entries().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        keys.write(entry, out);
        write_text(entry.below(), entry.is_member(), keys, out);
    }
    out.push(b'}');
}

#[expect(
    clippy::indexing_slicing,
    reason = "nodes hold numbers of the elements of their own table"
)]
fn to_entries(level: Level<'_>, member: bool, names: &mut [SmolStr]) -> Map {
    let mark = member && !level.is_empty();
    let mut entries = Vec::with_capacity(level.entries().count() + usize::from(mark));
    if mark {
        entries.push((SmolStr::new_static("."), Value::empty_map()));
    }
    for entry in level.entries() {
        let name = &mut names[entry.node.element()];
        if name.is_empty() {
            *name = match entry.element() {
                PathElement::Field(field) => prefixed(field),
                element => SmolStr::from(element.to_text()),
            };
        }
        let name = name.clone();
        let below = to_entries(entry.below(), entry.is_member(), names);
        entries.push((name, Value::Map(below)));
    }
    Map::from_unsorted(entries)
}

/// `f:` and a name, without a heap allocation where it is short.
fn prefixed(name: &str) -> SmolStr {
    SmolStr::from_iter(["f:", name])
}
