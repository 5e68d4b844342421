//! FieldsV1: the JSON form of a set, as text and as a tree.
//!
//! Each path element is a key of an object that holds the elements below it; `.` marks an element that is itself in the
//! set and has others below it. See `FieldsV1` in <https://kubernetes.io/docs/reference/kubernetes-api/>.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use holdfast_value::{Limits, Map, SmolStr, Source, Value, json};
use memchr::{memchr, memchr_iter};

use super::intern::{Index, hash_text};
use super::{Level, Nodes, Set};
use crate::scan::{MAX_DEPTH, ScanError, Scanner};
use crate::{PathElement, PathElementError};

/// Error of a text or tree that is not a field set.
///
/// ```
/// use holdfast_merge::{FieldsError, Set};
///
/// assert!(matches!(Set::from_fields_v1(b"["), Err(FieldsError::Json(_))));
/// assert!(matches!(Set::from_fields_v1(br#"{"spec":{}}"#), Err(FieldsError::Element(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The text is not JSON of the right shape.
    #[error(transparent)]
    Json(#[from] ScanError),
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] PathElementError),
    /// A node of the tree is neither an object nor null.
    #[error("a field set is made of objects")]
    NotAnObject,
    /// The set is nested more than 512 levels deep.
    #[error("the field set is too deeply nested")]
    TooDeep,
}

impl Set {
    /// Reads the JSON text of a set. Elements of unknown kinds are ignored; the order does not matter.
    ///
    /// ```
    /// use holdfast_merge::{Path, Set};
    ///
    /// let set = Set::from_fields_v1(br#"{"f:spec":{"f:replicas":{}}}"#)?;
    /// assert!(set.has(&Path::from_fields(["spec", "replicas"])));
    /// assert_eq!(set.size(), 1);
    /// # Ok::<(), holdfast_merge::FieldsError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not JSON of that shape, is nested too deep, or has a malformed key.
    pub fn from_fields_v1(text: &[u8]) -> Result<Set, FieldsError> {
        // Bytes that are not UTF-8 are replaced, as in the reference.
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

    /// Reads a set from the tree of its JSON form in an object's `managedFields`. A tree that was made from a set
    /// returns that set without being read.
    ///
    /// # Errors
    /// Fails if the tree does not have that shape, is nested too deep, or has a malformed key.
    pub fn from_fields_v1_value(value: &Value) -> Result<Set, FieldsError> {
        if let Some(fields) = FieldsV1::from_value(value) {
            return Ok(fields.set.clone());
        }
        if let Some(written) = source_of::<Written>(value) {
            return written.set().clone();
        }
        let mut reader = Reader::default();
        reader.tree(value, 0)?;
        Ok(reader.finish())
    }

    /// Returns the JSON text of the set, byte for byte as the reference writes it.
    pub fn to_fields_v1(&self) -> String {
        let mut out = Vec::with_capacity(16 + 24 * self.level().nodes.len());
        self.write_fields_v1(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the JSON text of the set.
    pub fn write_fields_v1(&self, out: &mut Vec<u8>) {
        write_text(self.level(), false, &mut WrittenKeys::for_level(self.level()), out);
    }

    /// Returns the tree of the set's JSON form together with its text. Its nodes are computed on first use.
    pub fn to_fields_v1_value(&self) -> Value {
        match self.is_empty() {
            true => Value::empty_map(),
            false => Value::Map(Map::made_of(Arc::new(FieldsV1::new(self.clone())))),
        }
    }
}

/// Returns the JSON text of a field set as the reference writes it within an object, if `value` was made from a set or
/// from that text.
pub fn fields_v1_text(value: &Value) -> Option<&[u8]> {
    if let Some(written) = source_of::<Written>(value) {
        return Some(written.text.as_bytes());
    }
    let fields = FieldsV1::from_value(value)?;
    fields.is_plain.then_some(&fields.text)
}

/// Returns a source of a field set's map from the text in a stored object. `None` if the map is empty, or if the text
/// has escapes other than those of quotes.
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

/// Creates such a source from text without other escapes that is not `{}`. `by_name` is true if all keys are in the
/// order of their names.
pub(crate) fn written(text: String, by_name: bool) -> Arc<dyn Source> {
    let escapes = memchr_iter(b'\\', text.as_bytes()).count();
    Written::source(text.into(), escapes, by_name.into())
}

/// Field set of a stored object, represented by its text. The text is read when a caller needs the set.
struct Written {
    text: Box<str>,
    /// Length of the text without escapes.
    length: usize,
    set: OnceLock<Result<Set, FieldsError>>,
    /// True if all keys of the text are in the order of their names; computed when needed.
    is_by_name: OnceLock<bool>,
}

impl Written {
    /// Creates the source of a text with this number of escapes.
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

    /// True if this is the set with this text. Equal sets have texts of the same length, possibly in a different order.
    fn is(&self, text: &[u8], set: &Set) -> bool {
        let own = self.text.as_bytes();
        own == text || own.len() == text.len() && self.set().as_ref().is_ok_and(|own| own == set)
    }
}

impl Source for Written {
    fn entries(&self) -> Vec<(SmolStr, Value)> {
        // A text that is not JSON does not come from a store of this server, and is not a set either.
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

/// Returns the source of a map, if it has type `T`.
fn source_of<T: Source>(value: &Value) -> Option<&T> {
    let source: &dyn Any = value.as_map()?.source()?;
    source.downcast_ref()
}

/// Source of a set's tree: the set, and its text within an object.
struct FieldsV1 {
    set: Set,
    text: Vec<u8>,
    /// Length of the text without escapes.
    length: usize,
    /// True if no key has a control character, for which JSON has several escapes.
    is_plain: bool,
    /// True if all keys of the text are in the order of their names; computed when needed.
    is_by_name: OnceLock<bool>,
}

impl FieldsV1 {
    fn new(set: Set) -> Self {
        let mut keys = WrittenKeys::for_level(set.level());
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

    fn from_value(value: &Value) -> Option<&Self> {
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

/// True if the order of the elements equals that of their texts at each level.
fn is_by_name(level: Level<'_>) -> bool {
    let mut last: Option<String> = None;
    level.entries().all(|entry| {
        // Fields come first, in the order of their names.
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

/// Reader of objects into nodes. It decodes each distinct key only once.
#[derive(Default)]
struct Reader<'a> {
    elements: Vec<PathElement>,
    nodes: Nodes,
    /// Keys as written in the source, with their meaning.
    keys: Vec<(&'a str, Key)>,
    index: Index,
}

/// Meaning of an object's key.
#[derive(Clone, Copy)]
enum Key {
    /// `.`: the element of the object is a member.
    Itself,
    /// An element of a kind that a later version may define.
    Unknown,
    /// The element with this number.
    Element(u32),
}

impl<'a> Reader<'a> {
    /// Reads one object; returns true if its element is a member.
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

    /// Reads a key of a text, which may have escapes.
    fn raw_key(&mut self, scanner: &mut Scanner<'a>) -> Result<Key, FieldsError> {
        let raw = scanner.name()?;
        self.key(raw.text, |_| {
            let name = raw.unescaped()?;
            PathElement::parse(&name).map_err(FieldsError::from)
        })
    }

    /// Returns the meaning of a key; decodes it with `read` on its first occurrence.
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

/// Elements of one object in the order of reading.
struct Siblings {
    start: usize,
    last: Option<u32>,
    sorted: bool,
    /// True if the object marks its element as a member.
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

    /// Sorts the elements; returns true if their parent is a member. A parent without children is always one, marked or
    /// not.
    fn end(self, reader: &mut Reader<'_>) -> bool {
        if !self.sorted {
            reader.nodes.sort_level(self.start, &reader.elements);
        }
        self.marked || reader.nodes.len() == self.start
    }
}

/// Elements as written within JSON strings, each encoded on first use.
struct WrittenKeys {
    text: Vec<u8>,
    /// Position of each element in the text, by its number; empty if it is not written yet.
    keys: Vec<WrittenKey>,
    /// Number of bytes that escapes add to the text.
    escapes: usize,
    /// True if a character is written as a numeric escape.
    has_codes: bool,
}

/// Position of a key in the text, with its quotes and colon.
#[derive(Clone, Copy, Default)]
struct WrittenKey {
    start: u32,
    end: u32,
    escapes: u32,
}

impl WrittenKeys {
    fn for_level(level: Level<'_>) -> Self {
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
            // Inputs are bounded far below this limit.
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

/// Returns the number of bytes that escapes add to a text within a JSON string; the flag is true if one of them is
/// numeric.
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

/// Returns `f:` and a name, without a heap allocation if it is short.
fn prefixed(name: &str) -> SmolStr {
    SmolStr::from_iter(["f:", name])
}
