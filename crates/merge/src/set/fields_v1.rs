//! FieldsV1: the JSON form of a set, as text and as a tree.
//!
//! Each path element is a key of an object that holds what is below it; `.` marks an element that is itself in the set
//! while others are below it. See `FieldsV1` in <https://kubernetes.io/docs/reference/kubernetes-api/>.

use holdfast_value::{Map, SmolStr, Value};

use super::{Set, SetBuilder};
use crate::path_element::write_escaped;
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
        let mut scanner = Scanner::new(text);
        let (set, _) = read_text(&mut scanner, &mut SetBuilder::default(), 0)?;
        scanner.end()?;
        Ok(set)
    }

    /// Reads a set from the tree of its JSON form, as it stands in an object's `managedFields`.
    ///
    /// # Errors
    /// If the tree is not of that shape, nests too deep, or has a malformed key.
    pub fn from_fields_v1_value(value: &Value) -> Result<Set, FieldsError> {
        read_tree(value, &mut SetBuilder::default(), 0).map(|(set, _)| set)
    }

    /// The JSON text of the set, byte for byte as the reference writes it.
    pub fn to_fields_v1(&self) -> String {
        let mut out = Vec::with_capacity(256);
        self.write_fields_v1(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the JSON text of the set.
    pub fn write_fields_v1(&self, out: &mut Vec<u8>) {
        write_text(self, false, out);
    }

    /// The tree of the set's JSON form.
    pub fn to_fields_v1_value(&self) -> Value {
        to_tree(self, false)
    }
}

/// Reads one object: the set within, and whether it marks the element it belongs to as a member.
fn read_text(scanner: &mut Scanner<'_>, builder: &mut SetBuilder, depth: usize) -> Result<(Set, bool), FieldsError> {
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    match scanner.peek() {
        Some(b'{') => {}
        Some(b'n') => {
            scanner.word("null")?;
            return Ok((Set::new(), true));
        }
        _ => return scanner.error("expected an object").map_err(FieldsError::from),
    }
    scanner.take(b'{');
    let mark = builder.begin();
    let mut member = false;
    let mut more = !scanner.take(b'}');
    while more {
        let name = scanner.name()?;
        match element(&name)? {
            Key::Itself => {
                member = true;
                scanner.value(depth)?;
            }
            Key::Unknown => {
                scanner.value(depth)?;
            }
            Key::Element(element) => {
                let (children, is_member) = read_text(scanner, builder, depth + 1)?;
                builder.push(element, is_member, children);
            }
        }
        more = scanner.take(b',');
        if !more && !scanner.take(b'}') {
            return scanner.error("expected , or }").map_err(FieldsError::from);
        }
    }
    let set = builder.finish(mark);
    Ok((member_of(&set, member), set)).map(|(member, set)| (set, member))
}

fn read_tree(value: &Value, builder: &mut SetBuilder, depth: usize) -> Result<(Set, bool), FieldsError> {
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let map = match value {
        Value::Map(map) => map,
        Value::Null => return Ok((Set::new(), true)),
        _ => return Err(FieldsError::NotAnObject),
    };
    let mark = builder.begin();
    let mut member = false;
    for (name, below) in map {
        match element(name)? {
            Key::Itself => member = true,
            Key::Unknown => {}
            Key::Element(element) => {
                let (children, is_member) = read_tree(below, builder, depth + 1)?;
                builder.push(element, is_member, children);
            }
        }
    }
    let set = builder.finish(mark);
    let member = member_of(&set, member);
    Ok((set, member))
}

/// An element with nothing below it is a member whether marked or not.
fn member_of(children: &Set, marked: bool) -> bool {
    marked || children.is_empty()
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

fn write_text(set: &Set, member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    if member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{},");
    }
    for (at, entry) in set.entries().iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        write_key(&entry.element, out);
        out.extend_from_slice(b"\":");
        write_text(&entry.children, entry.member, out);
    }
    out.push(b'}');
}

/// Appends the text of an element as it stands within a JSON string.
fn write_key(element: &PathElement, out: &mut Vec<u8>) {
    match element {
        PathElement::Field(name) => {
            out.extend_from_slice(b"f:");
            write_escaped(name.as_bytes(), out);
        }
        PathElement::Index(_) => element.write_text(out),
        PathElement::Key(_) | PathElement::Value(_) => {
            let mut text = Vec::with_capacity(64);
            element.write_text(&mut text);
            write_escaped(&text, out);
        }
    }
}

fn to_tree(set: &Set, member: bool) -> Value {
    let mark = member && !set.is_empty();
    let mut entries = Vec::with_capacity(set.entries().len() + usize::from(mark));
    if mark {
        entries.push((SmolStr::new_static("."), Value::empty_map()));
    }
    for entry in set.entries() {
        let name = match &entry.element {
            PathElement::Field(name) => prefixed(name),
            element => SmolStr::from(element.to_text()),
        };
        entries.push((name, to_tree(&entry.children, entry.member)));
    }
    Value::Map(Map::from_unsorted(entries))
}

/// `f:` and a name, without a heap allocation where it is short.
fn prefixed(name: &str) -> SmolStr {
    SmolStr::from_iter(["f:", name])
}
