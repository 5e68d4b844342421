//! FieldsV1: the JSON form of a set, as text and as a tree.
//!
//! Each path element is a key of an object that holds what is below it; `.` marks an element that is itself in the set
//! while others are below it. See `FieldsV1` in <https://kubernetes.io/docs/reference/kubernetes-api/>.

use std::borrow::Cow;
use std::sync::Arc;

use holdfast_value::{Map, SmolStr, Value};

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

    /// Reads a set from the tree of its JSON form, as it stands in an object's `managedFields`.
    ///
    /// # Errors
    /// If the tree is not of that shape, nests too deep, or has a malformed key.
    pub fn from_fields_v1_value(value: &Value) -> Result<Set, FieldsError> {
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
        let elements = self.level().elements.len();
        let mut keys = WrittenKeys {
            text: Vec::with_capacity(24 * elements),
            places: vec![(0, 0); elements],
        };
        write_text(self.level(), false, &mut keys, out);
    }

    /// The tree of the set's JSON form.
    pub fn to_fields_v1_value(&self) -> Value {
        let mut names = vec![SmolStr::default(); self.level().elements.len()];
        to_tree(self.level(), false, &mut names)
    }
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
    places: Vec<(usize, usize)>,
}

impl WrittenKeys {
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn write(&mut self, entry: super::Entry<'_>, out: &mut Vec<u8>) {
        let place = &mut self.places[entry.node.element()];
        if place.1 == 0 {
            let start = self.text.len();
            self.text.push(b'"');
            entry.element().write_quoted(&mut self.text);
            self.text.extend_from_slice(b"\":");
            *place = (start, self.text.len());
        }
        out.extend_from_slice(&self.text[place.0..place.1]);
    }
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
fn to_tree(level: Level<'_>, member: bool, names: &mut [SmolStr]) -> Value {
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
        entries.push((name, to_tree(entry.below(), entry.is_member(), names)));
    }
    Value::Map(Map::from_unsorted(entries))
}

/// `f:` and a name, without a heap allocation where it is short.
fn prefixed(name: &str) -> SmolStr {
    SmolStr::from_iter(["f:", name])
}
