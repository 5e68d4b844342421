//! JSON patches ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) as kube-apiserver's library applies them.
//!
//! It differs from the RFC: `replace` and `test` take a missing key for `null`, and so does `copy`; indices may have signs
//! and zeros in front, negative ones count from the end; what stands before the first slash of a path is not looked at;
//! the root itself cannot be addressed; `add` without a value adds `null`.

use crate::pointer::unescape;
use crate::{Error, Finding, Limits, Map, Parsed, SmolStr, Value, json};

/// The most operations that kube-apiserver takes.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that the copies of one patch may add to a document in kube-apiserver.
pub const MAX_COPIED_BYTES: usize = 3 << 20;

/// A patch: operations to do one after another.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, Default)]
struct Operation {
    op: Option<SmolStr>,
    path: Option<SmolStr>,
    from: Option<SmolStr>,
    value: Value,
}

/// Bounds on what a patch may make of a document.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most bytes of JSON that all copies together may add.
    pub max_copied_bytes: usize,
    /// The deepest nesting of the patched document.
    pub max_depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_copied_bytes: MAX_COPIED_BYTES,
            max_depth: Limits::REQUEST.max_depth,
        }
    }
}

impl Patch {
    /// Reads the JSON text of a patch. The findings name repeated keys and unknown fields of its operations; strict field
    /// validation refuses them with `json patch ` in front.
    ///
    /// # Errors
    /// [`Error::Json`] and the limits' own; [`Error::PatchShape`] with the reference's words if it is no list of
    /// operations; [`Error::TooManyOperations`].
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<(Self, Vec<Finding>), Error> {
        let Parsed { value, mut findings } = json::parse_with_findings(bytes, limits)?;
        let patch = Self::from_value(&value)?;
        if let Value::List(operations) = &value {
            for (at, operation) in operations.iter().enumerate() {
                let known = ["op", "path", "from", "value"];
                let fields = operation.as_map().into_iter().flatten();
                let unknown = fields.filter(|(field, _)| !known.contains(&field.as_str()));
                findings.extend(unknown.map(|(field, _)| Finding::UnknownField {
                    path: format!("[{at}].{field}"),
                }));
            }
        }
        findings.truncate(crate::finding::MAX_FINDINGS);
        Ok((patch, findings))
    }

    /// The patch that a tree says, a list of operations.
    ///
    /// # Errors
    /// [`Error::PatchShape`] and [`Error::TooManyOperations`] as for [`Patch::parse`].
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        let items = match value {
            Value::List(items) => items,
            Value::Null => return Ok(Self::default()),
            other => return Err(wrong_type(other, "value of type []handlers.jsonPatchOp")),
        };
        let operations = items.iter().map(Operation::from_value).collect::<Result<Vec<_>, _>>()?;
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations {
                count: operations.len(),
                limit: MAX_OPERATIONS,
            });
        }
        Ok(Self { operations })
    }

    /// The document after all operations. What no operation touches is shared with `document`.
    ///
    /// # Errors
    /// [`Error::PatchOperation`] for the first operation that cannot be done, a failed test among them;
    /// [`Error::CopiesTooLarge`] and [`Error::PatchTooDeep`] beyond `bounds`.
    pub fn apply(&self, document: &Value, bounds: &Bounds) -> Result<Value, Error> {
        let mut target = Target {
            document: document.clone(),
            copied: 0,
            depth: document.depth(),
            measurements_left: 100,
            bounds,
        };
        for (index, operation) in self.operations.iter().enumerate() {
            target.apply(operation).map_err(|failure| match failure {
                Failure::Message(message) => Error::PatchOperation { index, message },
                Failure::Error(error) => error,
            })?;
        }
        Ok(target.document)
    }
}

impl Operation {
    fn from_value(value: &Value) -> Result<Self, Error> {
        let map = match value {
            Value::Map(map) => map,
            Value::Null => return Ok(Self::default()),
            other => return Err(wrong_type(other, "value of type handlers.jsonPatchOp")),
        };
        let text = |field: &str| match map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_type(
                other,
                &format!("struct field jsonPatchOp.{field} of type string"),
            )),
        };
        Ok(Self {
            op: text("op")?,
            path: text("path")?,
            from: text("from")?,
            value: map.get("value").cloned().unwrap_or_default(),
        })
    }
}

fn wrong_type(value: &Value, wanted: &str) -> Error {
    Error::PatchShape(format!("json: cannot unmarshal {} into Go {wanted}", value.json_kind()))
}

/// Why an operation cannot be done: something to say of it, or an error of the whole patch.
enum Failure {
    Message(String),
    Error(Error),
}

impl Failure {
    /// The same with `context` in front of it.
    fn after(self, context: &str) -> Self {
        match self {
            Self::Message(message) => Self::Message(format!("{context}: {message}")),
            error => error,
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Message(message)
    }
}

/// A document on its way through the operations.
struct Target<'a> {
    document: Value,
    copied: usize,
    /// The document is at most this deep. Where that says too little, the true depth is measured, which takes a walk
    /// over the document and so is not done more often than an honest patch needs.
    depth: usize,
    measurements_left: u32,
    bounds: &'a Bounds,
}

/// A path taken apart: the tokens to the container, and the one within.
struct Place {
    parents: Vec<String>,
    last: String,
}

impl Place {
    /// `None` for a path without a slash, which the reference cannot follow.
    fn of(path: &str) -> Option<Self> {
        let mut tokens: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|token| unescape(token).into_owned())
            .collect();
        let last = tokens.pop()?;
        Some(Self { parents: tokens, last })
    }

    /// How deep a value at this place stands.
    fn depth(&self) -> usize {
        self.parents.len() + 1
    }
}

impl Target<'_> {
    fn apply(&mut self, operation: &Operation) -> Result<(), Failure> {
        let kind = operation.op.as_deref().unwrap_or("unknown");
        match kind {
            "add" => {
                let path = named(kind, "path", &operation.path)?;
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: doc is missing path: \"{path}\"")
                })?;
                self.grow(&place, &operation.value)?;
                within("add", path, self.add(&place, operation.value.clone()))
            }
            "remove" => {
                let path = named(kind, "path", &operation.path)?;
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: doc is missing path: \"{path}\"")
                })?;
                within("remove", path, self.remove(&place).map(drop))
            }
            "replace" => {
                let path = named(kind, "path", &operation.path)?;
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: doc is missing path: {path}")
                })?;
                if self.get(&place).is_err() {
                    let why = format!("{kind} operation does not apply: doc is missing key: {path}");
                    return Err(missing(&why));
                }
                self.grow(&place, &operation.value)?;
                // The reference says `remove` here.
                within("remove", path, self.set(&place, operation.value.clone()))
            }
            "move" => {
                let from = named(kind, "from", &operation.from)?;
                let source = self.place(from, || {
                    format!("{kind} operation does not apply: doc is missing from path: {from}")
                })?;
                let value = within("move", &source.last, self.get(&source))?;
                within("move", &source.last, self.remove(&source))?;
                let path = named(kind, "path", &operation.path)?;
                let place = self.destination(kind, path)?;
                self.grow_within(&source, &place, &value)?;
                within("move", path, self.add(&place, value))
            }
            "copy" => {
                let from = named(kind, "from", &operation.from)?;
                let source = self.place(from, || {
                    format!("{kind} operation does not apply: doc is missing from path: {from}")
                })?;
                let value = self
                    .get(&source)
                    .map_err(|failure| failure.after(&format!("error in copy for from: '{from}'")))?;
                let path = named(kind, "path", &operation.path)?;
                let place = self.destination(kind, path)?;
                self.count_copy(&value)?;
                self.grow_within(&source, &place, &value)?;
                let added = self.add(&place, value);
                added.map_err(|failure| failure.after("error while adding value during copy"))
            }
            "test" => {
                let path = named(kind, "path", &operation.path)?;
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: is missing path: {path}")
                })?;
                match is_same(&within("test", path, self.get(&place))?, &operation.value) {
                    true => Ok(()),
                    false => Err(format!("testing value {path} failed: test failed").into()),
                }
            }
            unknown => Err(format!("Unexpected kind: {unknown}").into()),
        }
    }

    /// The place that `path` names, if its container is there.
    fn place(&self, path: &str, refusal: impl Fn() -> String) -> Result<Place, Failure> {
        let place = Place::of(path).filter(|place| self.container(place).is_some());
        place.ok_or_else(|| missing(&refusal()))
    }

    fn destination(&self, kind: &str, path: &str) -> Result<Place, Failure> {
        self.place(path, || {
            format!("{kind} operation does not apply: doc is missing destination path: {path}")
        })
    }

    fn container(&self, place: &Place) -> Option<&Value> {
        let container = place
            .parents
            .iter()
            .try_fold(&self.document, |node, token| match node {
                Value::Map(map) => map.get(token),
                Value::List(items) => items.get(existing_index(token, items.len()).ok()?),
                _ => None,
            })?;
        matches!(container, Value::Map(_) | Value::List(_)).then_some(container)
    }

    /// The value at the place; a missing key is `null`.
    fn get(&self, place: &Place) -> Result<Value, Failure> {
        match self.container(place) {
            Some(Value::Map(map)) => Ok(map.get(&place.last).cloned().unwrap_or_default()),
            Some(Value::List(items)) => Ok(items[existing_index(&place.last, items.len())?].clone()),
            _ => Err(missing(&format!("doc is missing key: {}", place.last))),
        }
    }

    /// The container of the place for change. Only it and the containers on the way are copied, if they are shared.
    fn container_mut(&mut self, place: &Place) -> Result<&mut Value, Failure> {
        let found = place
            .parents
            .iter()
            .try_fold(&mut self.document, |node, token| match node {
                Value::Map(map) => map.get_mut(token),
                Value::List(items) => {
                    let index = existing_index(token, items.len()).ok()?;
                    items.make_mut().get_mut(index)
                }
                _ => None,
            });
        found.ok_or_else(|| missing(&format!("doc is missing key: {}", place.last)))
    }

    fn add(&mut self, place: &Place, value: Value) -> Result<(), Failure> {
        match self.container_mut(place)? {
            Value::Map(map) => {
                map.insert(place.last.as_str(), value);
                Ok(())
            }
            Value::List(items) if place.last == "-" => {
                items.make_mut().push(value);
                Ok(())
            }
            Value::List(items) => {
                // One place more than there are items: the one behind the last.
                let index = existing_index(&place.last, items.len() + 1)?;
                items.make_mut().insert(index, value);
                Ok(())
            }
            _ => Err(missing(&format!("doc is missing key: {}", place.last))),
        }
    }

    fn set(&mut self, place: &Place, value: Value) -> Result<(), Failure> {
        match self.container_mut(place)? {
            Value::Map(map) => {
                map.insert(place.last.as_str(), value);
                Ok(())
            }
            Value::List(items) => {
                let index = existing_index(&place.last, items.len())?;
                items.make_mut()[index] = value;
                Ok(())
            }
            _ => Err(missing(&format!("doc is missing key: {}", place.last))),
        }
    }

    fn remove(&mut self, place: &Place) -> Result<Value, Failure> {
        match self.container_mut(place)? {
            Value::Map(map) => map
                .remove(&place.last)
                .ok_or_else(|| missing(&format!("Unable to remove nonexistent key: {}", place.last))),
            Value::List(items) => {
                let index = existing_index(&place.last, items.len())?;
                Ok(items.make_mut().remove(index))
            }
            _ => Err(missing(&format!("doc is missing key: {}", place.last))),
        }
    }

    /// Counts the bytes of a copy against the bound.
    fn count_copy(&mut self, value: &Value) -> Result<(), Failure> {
        self.copied = self.copied.saturating_add(json::to_vec(value).len());
        let limit = self.bounds.max_copied_bytes;
        match self.copied > limit {
            true => Err(Failure::Error(Error::CopiesTooLarge {
                size: self.copied,
                limit,
            })),
            false => Ok(()),
        }
    }

    /// Makes sure that the document stays within the depth with `value` at `place`.
    fn grow(&mut self, place: &Place, value: &Value) -> Result<(), Failure> {
        self.grow_to(place.depth() + value.depth(), place, value)
    }

    /// The same for a value that has stood at `from`, which bounds its depth.
    fn grow_within(&mut self, from: &Place, place: &Place, value: &Value) -> Result<(), Failure> {
        self.grow_to(place.depth() + self.depth.saturating_sub(from.depth()), place, value)
    }

    fn grow_to(&mut self, depth: usize, place: &Place, value: &Value) -> Result<(), Failure> {
        let limit = self.bounds.max_depth;
        self.depth = self.depth.max(depth);
        if self.depth > limit && self.measurements_left > 0 {
            self.measurements_left -= 1;
            self.depth = self.document.depth().max(place.depth() + value.depth());
        }
        match self.depth > limit {
            true => Err(Failure::Error(Error::PatchTooDeep { limit })),
            false => Ok(()),
        }
    }
}

/// The position that a token names among `length` items. As Go's `Atoi` reads it: a sign and zeros in front are fine.
fn existing_index(token: &str, length: usize) -> Result<usize, Failure> {
    let invalid = || {
        Failure::Message(format!(
            "Unable to access invalid index: {token}: invalid index referenced"
        ))
    };
    let number = || {
        Failure::Message(format!(
            "value was not a proper array index: '{token}': strconv.Atoi: parsing {token:?}: invalid syntax"
        ))
    };
    let index: isize = token.parse().map_err(|_| number())?;
    let position = match index < 0 {
        true => length.checked_sub(index.unsigned_abs()),
        false => Some(index.unsigned_abs()),
    };
    position.filter(|position| *position < length).ok_or_else(invalid)
}

/// The path that `field` of an operation names.
fn named<'a>(kind: &str, field: &str, path: &'a Option<SmolStr>) -> Result<&'a str, Failure> {
    let path = path.as_deref();
    path.ok_or_else(|| missing(&format!("{kind} operation failed to decode {field}")))
}

/// What failed, in the words of the reference's library.
fn within<T>(kind: &str, path: &str, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.map_err(|failure| failure.after(&format!("error in {kind} for path: '{path}'")))
}

fn missing(what: &str) -> Failure {
    Failure::Message(format!("{what}: missing value"))
}

/// Whether two values have the same JSON text: integers and floats are never the same.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.same(b) || (a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b)))
        }
        (Value::Map(a), Value::Map(b)) => a.same(b) || is_same_map(a, b),
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Float(_), _) | (_, Value::Float(_)) => false,
        (a, b) => a == b,
    }
}

fn is_same_map(a: &Map, b: &Map) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b.iter())
            .all(|((a_key, a), (b_key, b))| a_key == b_key && is_same(a, b))
}

#[cfg(test)]
mod tests;
