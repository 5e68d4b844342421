//! FieldsV1: the JSON form of a set, as text and as a tree.
//!
//! Each path element is a key of an object that holds what is below it; `.` marks an element that is itself in the set
//! while others are below it. See `FieldsV1` in <https://kubernetes.io/docs/reference/kubernetes-api/>.

use holdfast_value::{Map, SmolStr, Value};

use super::{Level, Set, SetBuilder};
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
        let text = String::from_utf8_lossy(text);
        let mut scanner = Scanner::new(&text);
        let mut builder = SetBuilder::with_capacity(text.len() / 32);
        read_text(&mut scanner, &mut builder, 0)?;
        scanner.end()?;
        Ok(builder.finish())
    }

    /// Reads a set from the tree of its JSON form, as it stands in an object's `managedFields`.
    ///
    /// # Errors
    /// If the tree is not of that shape, nests too deep, or has a malformed key.
    pub fn from_fields_v1_value(value: &Value) -> Result<Set, FieldsError> {
        let mut builder = SetBuilder::default();
        read_tree(value, &mut builder, 0)?;
        Ok(builder.finish())
    }

    /// The JSON text of the set, byte for byte as the reference writes it.
    pub fn to_fields_v1(&self) -> String {
        let mut out = Vec::with_capacity(256);
        self.write_fields_v1(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the JSON text of the set.
    pub fn write_fields_v1(&self, out: &mut Vec<u8>) {
        write_text(self.level(), false, out);
    }

    /// The tree of the set's JSON form.
    pub fn to_fields_v1_value(&self) -> Value {
        to_tree(self.level(), false)
    }
}

/// Reads one object into the builder, and says whether it marks the element it belongs to as a member.
fn read_text(scanner: &mut Scanner<'_>, builder: &mut SetBuilder, depth: usize) -> Result<bool, FieldsError> {
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
    let mut siblings = Siblings::begin(builder);
    let mut more = !scanner.take(b'}');
    while more {
        match element(scanner.name()?)? {
            Key::Itself => {
                siblings.mark();
                scanner.value(depth)?;
            }
            Key::Unknown => {
                scanner.value(depth)?;
            }
            Key::Element(element) => {
                let at = siblings.open(builder, element);
                let member = read_text(scanner, builder, depth + 1)?;
                builder.close(at, member);
            }
        }
        more = scanner.take(b',');
        if !more && !scanner.take(b'}') {
            return scanner.error("expected , or }").map_err(FieldsError::from);
        }
    }
    Ok(siblings.end(builder))
}

fn read_tree(value: &Value, builder: &mut SetBuilder, depth: usize) -> Result<bool, FieldsError> {
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let map = match value {
        Value::Map(map) => map,
        Value::Null => return Ok(true),
        _ => return Err(FieldsError::NotAnObject),
    };
    let mut siblings = Siblings::begin(builder);
    for (name, below) in map {
        match element(name)? {
            Key::Itself => siblings.mark(),
            Key::Unknown => {}
            Key::Element(element) => {
                let at = siblings.open(builder, element);
                let member = read_tree(below, builder, depth + 1)?;
                builder.close(at, member);
            }
        }
    }
    Ok(siblings.end(builder))
}

/// The elements of one object as they are read, in whatever order.
struct Siblings {
    start: usize,
    last: Option<usize>,
    sorted: bool,
    marked: bool,
}

impl Siblings {
    fn begin(builder: &SetBuilder) -> Self {
        Self {
            start: builder.position(),
            last: None,
            sorted: true,
            marked: false,
        }
    }

    /// Notes the mark of membership.
    fn mark(&mut self) {
        self.marked = true;
    }

    fn open(&mut self, builder: &mut SetBuilder, element: PathElement) -> usize {
        let last = self.last.and_then(|at| builder.element(at));
        self.sorted &= last.is_none_or(|last| *last < element);
        let at = builder.open(element);
        self.last = Some(at);
        at
    }

    /// Puts the elements in order, and says whether the one above them is a member: one with nothing below it is, whether
    /// marked or not.
    fn end(self, builder: &mut SetBuilder) -> bool {
        if !self.sorted {
            builder.sort_level(self.start);
        }
        self.marked || builder.position() == self.start
    }
}

enum Key {
    /// `.`, the mark of membership.
    Itself,
    /// Of a kind that a later version may know.
    Unknown,
    Element(PathElement),
}

fn element(name: &str) -> Result<Key, PathElementError> {
    if name == "." {
        return Ok(Key::Itself);
    }
    match PathElement::parse(name) {
        Ok(element) => Ok(Key::Element(element)),
        Err(PathElementError::UnknownType) => Ok(Key::Unknown),
        Err(error) => Err(error),
    }
}

fn write_text(level: Level<'_>, member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    if member && !level.is_empty() {
        out.extend_from_slice(b"\".\":{},");
    }
    for (at, entry) in level.entries().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        entry.element().write_quoted(out);
        out.extend_from_slice(b"\":");
        write_text(entry.below(), entry.is_member(), out);
    }
    out.push(b'}');
}

fn to_tree(level: Level<'_>, member: bool) -> Value {
    let mark = member && !level.is_empty();
    let mut entries = Vec::with_capacity(level.entries().count() + usize::from(mark));
    if mark {
        entries.push((SmolStr::new_static("."), Value::empty_map()));
    }
    for entry in level.entries() {
        let name = match entry.element() {
            PathElement::Field(name) => prefixed(name),
            element => SmolStr::from(element.to_text()),
        };
        entries.push((name, to_tree(entry.below(), entry.is_member())));
    }
    Value::Map(Map::from_unsorted(entries))
}

/// `f:` and a name, without a heap allocation where it is short.
fn prefixed(name: &str) -> SmolStr {
    SmolStr::from_iter(["f:", name])
}
