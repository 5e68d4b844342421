//! JSON patches ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) as kube-apiserver's library applies them.
//!
//! It differs from the RFC: `replace`, `test` and `copy` treat a missing key as `null`; indices may have signs and
//! leading zeros, and negative ones count from the end; text before the first slash of a path is ignored; the root
//! cannot be addressed; `add` without a value adds `null`.

mod document;

use crate::error::Error;
use crate::finding::{Finding, Parsed};
use crate::json;
use crate::limits::Limits;
use crate::pointer::unescape;
use crate::tree::Value;
use smol_str::SmolStr;

use document::{Node, View};

/// Maximum number of operations that kube-apiserver accepts.
pub const MAX_OPERATIONS: usize = 10_000;

/// Maximum number of bytes that the copies of one patch may add to a document in kube-apiserver.
pub const MAX_COPIED_BYTES: usize = 3 << 20;

/// JSON patch: a sequence of operations.
///
/// ```
/// use holdfast_value::json_patch::{Bounds, Patch};
/// use holdfast_value::{Error, Limits, json};
///
/// let (patch, findings) = Patch::parse(br#"[{"op": "test", "path": "/a", "value": 1}]"#, &Limits::REQUEST)?;
/// assert!(findings.is_empty());
/// let failed = patch.apply(&json::parse(br#"{"a": 2}"#, &Limits::REQUEST)?, &Bounds::default());
/// assert!(matches!(failed, Err(Error::PatchOperation { index: 0, .. })));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
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

/// Limits on the result of a patch.
///
/// ```
/// use holdfast_value::json_patch::{Bounds, Patch};
/// use holdfast_value::{Error, Limits, json};
///
/// let (patch, _) = Patch::parse(br#"[{"op": "copy", "from": "/a", "path": "/b"}]"#, &Limits::REQUEST)?;
/// let document = json::parse(br#"{"a": "a text that is copied"}"#, &Limits::REQUEST)?;
/// let bounds = Bounds { max_copied_bytes: 10, ..Bounds::default() };
/// assert!(matches!(patch.apply(&document, &bounds), Err(Error::CopiesTooLarge { .. })));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of JSON bytes that all copies together may add.
    pub max_copied_bytes: usize,
    /// Maximum nesting of the patched document.
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
    /// Parses the JSON text of a patch. The findings name repeated keys and unknown fields of its operations; strict
    /// field validation rejects them with the prefix `json patch `.
    ///
    /// # Errors
    /// Returns [`Error::Json`] or a limit error; [`Error::PatchShape`] with the reference's message if the text is not
    /// a list of operations; [`Error::TooManyOperations`].
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

    /// Parses the JSON text of a patch like a library that checks the members of an operation only when it applies it:
    /// a member of the wrong type counts as missing.
    ///
    /// # Errors
    /// Returns the errors of [`Patch::parse`] with the library's messages.
    pub fn parse_untyped(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        Self::from_untyped(&json::parse(bytes, limits)?)
    }

    /// Converts a tree into a patch like [`Patch::parse_untyped`].
    ///
    /// # Errors
    /// Returns the errors of [`Patch::from_value`] with the library's messages.
    pub fn from_untyped(value: &Value) -> Result<Self, Error> {
        Self::from_tree(value, "jsonpatch.Patch", Operation::from_untyped)
    }

    /// Converts a tree, a list of operations, into a patch.
    ///
    /// # Errors
    /// Returns [`Error::PatchShape`] and [`Error::TooManyOperations`] like [`Patch::parse`].
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        Self::from_tree(value, "[]handlers.jsonPatchOp", Operation::from_value)
    }

    /// Converts a tree into a patch. `name` is the patch type in error messages, `operation` converts one operation.
    fn from_tree(
        value: &Value,
        name: &str,
        operation: impl Fn(&Value) -> Result<Operation, Error>,
    ) -> Result<Self, Error> {
        let items = match value {
            Value::List(items) => items,
            Value::Null => return Ok(Self::default()),
            other => return Err(wrong_type(other, &format!("value of type {name}"))),
        };
        let operations = items.iter().map(operation).collect::<Result<Vec<_>, _>>()?;
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations {
                count: operations.len(),
                limit: MAX_OPERATIONS,
            });
        }
        Ok(Self { operations })
    }

    /// Applies all operations to a document. Subtrees that no operation touches are shared with `document`.
    ///
    /// ```
    /// use holdfast_value::json_patch::{Bounds, MAX_COPIED_BYTES, Patch};
    /// use holdfast_value::{Limits, json};
    ///
    /// let (patch, _) = Patch::parse(br#"[{"op": "add", "path": "/a/0", "value": 1}]"#, &Limits::REQUEST)?;
    /// let document = json::parse(br#"{"a": [2]}"#, &Limits::REQUEST)?;
    /// let bounds = Bounds { max_copied_bytes: MAX_COPIED_BYTES, max_depth: 512 };
    /// assert_eq!(json::to_string(&patch.apply(&document, &bounds)?), r#"{"a":[1,2]}"#);
    /// # Ok::<(), holdfast_value::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::PatchOperation`] for the first operation that fails, which includes a failed `test`;
    /// [`Error::CopiesTooLarge`] and [`Error::PatchTooDeep`] beyond `bounds`.
    pub fn apply(&self, document: &Value, bounds: &Bounds) -> Result<Value, Error> {
        let mut target = Target {
            document: Node::Whole(document.clone()),
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
        Ok(target.document.into_value())
    }
}

impl Operation {
    fn from_untyped(value: &Value) -> Result<Self, Error> {
        Self::from_tree(value, "jsonpatch.Operation", |_, member| match member {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            _ => Ok(None),
        })
    }

    fn from_value(value: &Value) -> Result<Self, Error> {
        Self::from_tree(value, "handlers.jsonPatchOp", |field, member| match member {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_type(
                other,
                &format!("struct field jsonPatchOp.{field} of type string"),
            )),
        })
    }

    /// Converts a tree into an operation. `name` is the operation type in error messages, `text` reads the string
    /// members.
    fn from_tree(
        value: &Value,
        name: &str,
        text: impl Fn(&str, Option<&Value>) -> Result<Option<SmolStr>, Error>,
    ) -> Result<Self, Error> {
        let map = match value {
            Value::Map(map) => map,
            Value::Null => return Ok(Self::default()),
            other => return Err(wrong_type(other, &format!("value of type {name}"))),
        };
        let text = |field| text(field, map.get(field));
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

/// Failure of an operation: a message, or an error of the whole patch.
enum Failure {
    Message(String),
    Error(Error),
}

impl Failure {
    /// Prefixes the message with `context`.
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

/// Document while the operations are applied to it.
struct Target<'a> {
    document: Node,
    copied: usize,
    /// Upper bound of the document's depth. When the bound exceeds the limit, the true depth is measured by a walk over
    /// the document; the number of walks is limited to what a sensible patch needs.
    depth: usize,
    measurements_left: u32,
    bounds: &'a Bounds,
}

/// Parsed path: the tokens of the container and the token within it.
struct PathTarget {
    parents: Vec<String>,
    last: String,
}

impl PathTarget {
    /// Returns `None` for a path without a slash, which the reference cannot follow.
    fn parse(path: &str) -> Option<Self> {
        let mut tokens: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|token| unescape(token).into_owned())
            .collect();
        let last = tokens.pop()?;
        Some(Self { parents: tokens, last })
    }

    /// Returns the depth of a value at this path.
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
                let value = Node::Whole(operation.value.clone());
                within("add", path, self.add(&place, value))
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
                if path.is_empty() {
                    return self.replace_document(&operation.value);
                }
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: doc is missing path: {path}")
                })?;
                if self.get(&place).is_err() {
                    let why = format!("{kind} operation does not apply: doc is missing key: {path}");
                    return Err(missing(&why));
                }
                self.grow(&place, &operation.value)?;
                // The reference's message names `remove` here.
                within("remove", path, self.set(&place, Node::Whole(operation.value.clone())))
            }
            "move" => {
                let from = named(kind, "from", &operation.from)?;
                let source = self.place(from, || {
                    format!("{kind} operation does not apply: doc is missing from path: {from}")
                })?;
                within("move", &source.last, self.get(&source).map(drop))?;
                let value = within("move", &source.last, self.remove(&source))?;
                let path = named(kind, "path", &operation.path)?;
                let place = self.destination(kind, path)?;
                self.grow_within(&source, &place, value.view())?;
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
                // The size is counted before the copy is made, because a copy of an open container is not shared.
                let length = value.length();
                self.count_copy(length)?;
                let value = self.get(&source)?.to_value();
                self.grow_within(&source, &place, View::Value(&value))?;
                let added = self.add(&place, Node::Whole(value));
                added.map_err(|failure| failure.after("error while adding value during copy"))
            }
            "test" => {
                let path = named(kind, "path", &operation.path)?;
                let place = self.place(path, || {
                    format!("{kind} operation does not apply: is missing path: {path}")
                })?;
                match within("test", path, self.get(&place))?.is_same(&operation.value) {
                    true => Ok(()),
                    false => Err(format!("testing value {path} failed: test failed").into()),
                }
            }
            unknown => Err(format!("Unexpected kind: {unknown}").into()),
        }
    }

    /// Replaces the whole document. `replace` is the only operation whose empty path the reference follows.
    fn replace_document(&mut self, value: &Value) -> Result<(), Failure> {
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            let why = "replace operation value must be object or array: %!w(<nil>)";
            return Err(why.to_owned().into());
        }
        self.document = Node::Whole(value.clone());
        self.depth = value.depth();
        Ok(())
    }

    /// Resolves `path` if its container exists.
    fn place(&self, path: &str, rejection: impl Fn() -> String) -> Result<PathTarget, Failure> {
        let place = PathTarget::parse(path).filter(|place| self.container(place).is_some());
        place.ok_or_else(|| missing(&rejection()))
    }

    fn destination(&self, kind: &str, path: &str) -> Result<PathTarget, Failure> {
        self.place(path, || {
            format!("{kind} operation does not apply: doc is missing destination path: {path}")
        })
    }

    fn container(&self, place: &PathTarget) -> Option<View<'_>> {
        let container = place.parents.iter().try_fold(self.document.view(), |node, token| {
            node.member(token).or_else(|| {
                let length = node.items()?;
                node.item(existing_index(token, length).ok()?)
            })
        })?;
        (container.is_map() || container.items().is_some()).then_some(container)
    }

    /// Returns the value at the target; a missing key is `null`.
    fn get(&self, place: &PathTarget) -> Result<View<'_>, Failure> {
        let missing = || missing(&format!("doc is missing key: {}", place.last));
        let container = self.container(place).ok_or_else(missing)?;
        match container.items() {
            Some(length) => container.item(existing_index(&place.last, length)?).ok_or_else(missing),
            None => Ok(container.member(&place.last).unwrap_or(View::NULL)),
        }
    }

    /// Returns the target's container for modification. It and its ancestors are opened.
    fn container_mut(&mut self, place: &PathTarget) -> Result<&mut Node, Failure> {
        let found = place
            .parents
            .iter()
            .try_fold(self.document.open(), |node, token| match node {
                Node::Map(members) => members.get_mut(token.as_str()).map(Node::open),
                Node::List(items) => {
                    let index = existing_index(token, items.len()).ok()?;
                    items.get_mut(index).map(Node::open)
                }
                Node::Whole(_) => None,
            });
        found.ok_or_else(|| missing(&format!("doc is missing key: {}", place.last)))
    }

    fn add(&mut self, place: &PathTarget, value: Node) -> Result<(), Failure> {
        match self.container_mut(place)? {
            Node::Map(members) => {
                members.insert(SmolStr::new(&place.last), value);
                Ok(())
            }
            Node::List(items) => {
                // There is one more valid index than there are items: the one after the last item.
                let index = match place.last.as_str() {
                    "-" => items.len(),
                    token => existing_index(token, items.len() + 1)?,
                };
                items.insert(index, value);
                Ok(())
            }
            Node::Whole(_) => Err(missing(&format!("doc is missing key: {}", place.last))),
        }
    }

    fn set(&mut self, place: &PathTarget, value: Node) -> Result<(), Failure> {
        let none = || missing(&format!("doc is missing key: {}", place.last));
        match self.container_mut(place)? {
            Node::Map(members) => {
                members.insert(SmolStr::new(&place.last), value);
                Ok(())
            }
            Node::List(items) => {
                let index = existing_index(&place.last, items.len())?;
                *items.get_mut(index).ok_or_else(none)? = value;
                Ok(())
            }
            Node::Whole(_) => Err(none()),
        }
    }

    fn remove(&mut self, place: &PathTarget) -> Result<Node, Failure> {
        let none = || missing(&format!("doc is missing key: {}", place.last));
        match self.container_mut(place)? {
            Node::Map(members) => members
                .remove(place.last.as_str())
                .ok_or_else(|| missing(&format!("Unable to remove nonexistent key: {}", place.last))),
            Node::List(items) => {
                let index = existing_index(&place.last, items.len())?;
                items.remove(index).ok_or_else(none)
            }
            Node::Whole(_) => Err(none()),
        }
    }

    /// Counts the bytes of a copy against the limit.
    fn count_copy(&mut self, length: usize) -> Result<(), Failure> {
        self.copied = self.copied.saturating_add(length);
        let limit = self.bounds.max_copied_bytes;
        match self.copied > limit {
            true => Err(Failure::Error(Error::CopiesTooLarge {
                size: self.copied,
                limit,
            })),
            false => Ok(()),
        }
    }

    /// Checks that the document stays within the depth limit with `value` at `place`.
    fn grow(&mut self, place: &PathTarget, value: &Value) -> Result<(), Failure> {
        self.grow_to(place.depth() + value.depth(), place, View::Value(value))
    }

    /// Checks the depth like `grow`, for a value that already was at `from`, which bounds its depth.
    fn grow_within(&mut self, from: &PathTarget, place: &PathTarget, value: View<'_>) -> Result<(), Failure> {
        self.grow_to(place.depth() + self.depth.saturating_sub(from.depth()), place, value)
    }

    fn grow_to(&mut self, depth: usize, place: &PathTarget, value: View<'_>) -> Result<(), Failure> {
        let limit = self.bounds.max_depth;
        self.depth = self.depth.max(depth);
        if self.depth > limit && self.measurements_left > 0 {
            self.measurements_left -= 1;
            self.depth = self.document.view().depth().max(place.depth() + value.depth());
        }
        match self.depth > limit {
            true => Err(Failure::Error(Error::PatchTooDeep { limit })),
            false => Ok(()),
        }
    }
}

/// Parses a token as an index among `length` items. Like Go's `Atoi`, allows a sign and leading zeros.
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

/// Returns the path in `field` of an operation.
fn named<'a>(kind: &str, field: &str, path: &'a Option<SmolStr>) -> Result<&'a str, Failure> {
    let path = path.as_deref();
    path.ok_or_else(|| missing(&format!("{kind} operation failed to decode {field}")))
}

/// Adds the operation and path to a failure, in the words of the reference's library.
fn within<T>(kind: &str, path: &str, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.map_err(|failure| failure.after(&format!("error in {kind} for path: '{path}'")))
}

fn missing(what: &str) -> Failure {
    Failure::Message(format!("{what}: missing value"))
}

#[cfg(test)]
mod tests;
