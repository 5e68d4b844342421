//! YAML reader: builds the tree from the parser's events, with a stack of open collections.
//!
//! Aliases share the tree of their anchor, so they cost no memory, but their expanded size counts against the limits.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::Documents;
use super::scalar::{Tag, resolve_plain, resolve_tagged, shown_key, to_json_value, to_key};
use super::syntax::{Syntax, without_escaped_apostrophes};
use crate::error::Error;
use crate::finding::MAX_FINDINGS;
use crate::finding::{Finding, Parsed};
use crate::limits::Limits;
use crate::tree::{Entry, List, Map, Value};
use smol_str::SmolStr;

/// Maximum number of bytes that are parsed again because of escapes that the parser does not know.
const MAX_REREAD_BYTES: usize = 16 << 20;

/// Reads a document of `text`.
pub(super) fn read(text: &str, limits: &Limits, documents: Documents) -> Result<Parsed, Error> {
    let (mut text, mut left) = (Cow::Borrowed(text), MAX_REREAD_BYTES);
    loop {
        let escape = match read_once(&text, limits, documents) {
            Err(Failure::Escape(error, at)) => (error, at),
            Err(Failure::Final(error)) => return Err(error),
            Ok(parsed) => return Ok(parsed),
        };
        let (error, at) = escape;
        let without = without_escaped_apostrophes(&text, at);
        let (Some(without), Some(rest)) = (without, left.checked_sub(text.len())) else {
            return Err(error);
        };
        (text, left) = (Cow::Owned(without), rest);
    }
}

/// Failure to read a text.
pub(super) enum Failure {
    Final(Error),
    /// The parser does not know an escape in the scalar that begins at this byte.
    Escape(Error, usize),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

fn read_once(text: &str, limits: &Limits, documents: Documents) -> Result<Parsed, Failure> {
    // The parser's own default nesting limit is lower. Allowing one level more than our limit makes the error ours.
    let nesting = limits.max_depth.saturating_add(1);
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: nesting,
        block_nesting_limit: nesting,
    };
    let mut reader = Reader::new(text, limits);
    reader.syntax.check_directives()?;
    let mut finished = false;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| reader.syntax.failure(&error, limits))?;
        match event {
            Event::DocumentEnd if documents == Documents::First => break,
            Event::DocumentEnd => finished = true,
            Event::DocumentStart(..) if finished => {
                let message = "expected a single document in the stream but found another document";
                return Err(reader.syntax.error(message, &span).into());
            }
            event => reader.event(event, &span)?,
        }
    }
    Ok(Parsed {
        value: reader.root,
        findings: reader.findings,
    })
}

struct Reader<'a> {
    syntax: Syntax<'a>,
    limits: &'a Limits,
    root: Value,
    open: Vec<Collection>,
    anchors: HashMap<usize, Node>,
    findings: Vec<Finding>,
    /// Number of values so far; each alias counts the values of its anchor again.
    nodes: usize,
    /// Number of these values that come from aliases.
    aliased_nodes: usize,
    /// Number of bytes of all scalars so far; each alias counts those of its anchor again.
    bytes: usize,
}

/// Complete value with its size for the limits.
#[derive(Clone, Debug)]
struct Node {
    /// Resolved value: floats may be infinite, whole floats are still floats.
    value: Value,
    /// True if it is the plain `<<`, which merges maps when used as a key.
    is_merge: bool,
    line: usize,
    nodes: usize,
    bytes: usize,
}

struct Collection {
    content: Content,
    anchor: usize,
    line: usize,
    nodes_before: usize,
    bytes_before: usize,
}

enum Content {
    List(Vec<Value>),
    Map(Mapping),
}

/// Open mapping. The entries are in the order of the text, and a later entry of the same key wins.
#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// Key that waits for its value.
    key: Option<Node>,
    seen: Keys,
}

/// Keys of an open mapping so far. Text and numbers that look the same are different keys.
#[derive(Default)]
struct Keys {
    few: Vec<Value>,
    /// All keys in Go's form, once there are more than a few.
    many: HashSet<SmolStr>,
}

impl Keys {
    const FEW: usize = 16;

    /// Adds a key; returns false if it was there before.
    fn insert(&mut self, key: &Value) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(shown_key(key));
        }
        if self.few.contains(key) {
            return false;
        }
        if self.few.len() == Self::FEW {
            self.many = self.few.drain(..).map(|key| shown_key(&key)).collect();
            return self.many.insert(shown_key(key));
        }
        self.few.push(key.clone());
        true
    }
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, limits: &'a Limits) -> Self {
        Self {
            syntax: Syntax::new(text),
            limits,
            root: Value::Null,
            open: Vec::new(),
            anchors: HashMap::new(),
            findings: Vec::new(),
            nodes: 0,
            aliased_nodes: 0,
            bytes: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Error> {
        self.syntax.check(&event, span)?;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let parts = tag
                    .as_deref()
                    .map(|tag| (tag.handle(), tag.suffix(), tag.core_suffix()));
                let tag = match parts {
                    // The tag `!` resolves a scalar as if it were plain.
                    None | Some(("", "!", _)) => None,
                    Some((_, _, Some(name))) => Some(Tag::named(name)),
                    Some((handle, name @ "binary", None)) if handle != "!" => Some(Tag::named(name)),
                    Some(_) => Some(Tag::Text),
                };
                let is_plain = style == ScalarStyle::Plain;
                let resolved = match tag {
                    Some(tag) => resolve_tagged(tag, &text),
                    None if is_plain => Ok(resolve_plain(&text)),
                    None => Ok(Value::from(&*text)),
                };
                let value = resolved.map_err(|message| self.syntax.error(&message, span))?;
                let is_merge = is_plain && tag.is_none() && text == "<<";
                let node = Node {
                    value,
                    is_merge,
                    line: span.start.line(),
                    nodes: 1,
                    bytes: text.len(),
                };
                self.count(node.nodes, node.bytes, span)?;
                self.complete(node, anchor, span)
            }
            Event::SequenceStart(_, anchor, _) => self.start(Content::List(Vec::new()), anchor, span),
            Event::MappingStart(_, anchor, _) => self.start(Content::Map(Mapping::default()), anchor, span),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(id) => {
                let Some(mut node) = self.anchors.get(&id).cloned() else {
                    let name = span
                        .slice(self.syntax.text())
                        .unwrap_or_default()
                        .trim_start_matches('*');
                    return Err(self
                        .syntax
                        .error(&format!("anchor '{name}' value contains itself"), span));
                };
                node.line = span.start.line();
                self.aliased_nodes += node.nodes;
                self.count(node.nodes + 1, node.bytes, span)?;
                self.complete(node, 0, span)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, content: Content, anchor: usize, span: &Span) -> Result<(), Error> {
        if self.open.len() >= self.limits.max_depth {
            return Err(self.syntax.too_deep(self.limits, &span.start));
        }
        let (nodes_before, bytes_before) = (self.nodes, self.bytes);
        self.count(1, 0, span)?;
        self.open.push(Collection {
            content,
            anchor,
            line: span.start.line(),
            nodes_before,
            bytes_before,
        });
        Ok(())
    }

    fn end(&mut self, span: &Span) -> Result<(), Error> {
        let Some(collection) = self.open.pop() else {
            return Ok(());
        };
        let value = match collection.content {
            Content::List(items) => Value::List(List::from(items)),
            Content::Map(mapping) => Value::Map(Map::from_unsorted(mapping.entries)),
        };
        let node = Node {
            value,
            is_merge: false,
            line: collection.line,
            nodes: self.nodes - collection.nodes_before,
            bytes: self.bytes - collection.bytes_before,
        };
        self.complete(node, collection.anchor, span)
    }

    /// Passes a complete value to the enclosing collection.
    fn complete(&mut self, node: Node, anchor: usize, span: &Span) -> Result<(), Error> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|collection| &mut collection.content) {
            None => {
                self.root = to_json_value(node.value).map_err(|message| self.syntax.json_error(&message, span))?;
                Ok(())
            }
            Some(Content::List(items)) => {
                items.push(to_json_value(node.value).map_err(|message| self.syntax.json_error(&message, span))?);
                Ok(())
            }
            Some(Content::Map(mapping)) => match mapping.key.take() {
                None => {
                    mapping.key = Some(node);
                    Ok(())
                }
                Some(key) if key.is_merge => self.merge(node, span),
                Some(key) => self.set(key.value, node, span),
            },
        }
    }

    /// Inserts the entries of a map, or of several maps in a list, at the merge key. Earlier maps of the list win over
    /// later ones; existing keys are overwritten.
    fn merge(&mut self, node: Node, span: &Span) -> Result<(), Error> {
        let line = node.line;
        let maps = match node.value {
            Value::Map(map) => vec![Value::Map(map)],
            Value::List(items) => items.into_items(),
            _ => Vec::new(),
        };
        let is_list_of_maps = !maps.is_empty() && maps.iter().all(|map| matches!(map, Value::Map(_)));
        if !is_list_of_maps {
            let message = "map merge requires map or sequence of maps as the value";
            return Err(self.syntax.error(message, span));
        }
        for map in maps.iter().rev().filter_map(Value::as_map) {
            self.count(map.len(), 0, span)?;
            for (key, value) in map {
                let node = Node {
                    value: value.clone(),
                    is_merge: false,
                    line,
                    nodes: 0,
                    bytes: 0,
                };
                self.set(Value::String(key.clone()), node, span)?;
            }
        }
        Ok(())
    }

    /// Inserts an entry into the innermost mapping.
    fn set(&mut self, key: Value, node: Node, span: &Span) -> Result<(), Error> {
        let Some(Content::Map(mapping)) = self.open.last_mut().map(|collection| &mut collection.content) else {
            return Ok(());
        };
        if !mapping.seen.insert(&key) {
            let finding = Finding::DuplicateKey {
                line: node.line,
                key: shown_key(&key),
            };
            if self.findings.len() < MAX_FINDINGS {
                self.findings.push(finding);
            }
        }
        let syntax = &self.syntax;
        let key = to_key(key, &node.value).map_err(|message| syntax.json_error(&message, span))?;
        let value = to_json_value(node.value).map_err(|message| syntax.json_error(&message, span))?;
        mapping.entries.push((key, value));
        Ok(())
    }

    /// Counts values and bytes of text. Rejects input beyond the limits, and input that consists mostly of aliases.
    fn count(&mut self, nodes: usize, bytes: usize, span: &Span) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > self.limits.max_nodes {
            let position = self.syntax.position(&span.start);
            return Err(Error::TooManyNodes {
                limit: self.limits.max_nodes,
                position,
            });
        }
        self.limits.check_bytes(self.bytes)?;
        let share = self.aliased_nodes as f64 / self.nodes.max(1) as f64;
        if self.aliased_nodes > 100 && self.nodes > 1000 && share > allowed_share_of_aliases(self.nodes) {
            return Err(self.syntax.error("document contains excessive aliasing", span));
        }
        Ok(())
    }
}

/// Returns the share of aliased values that the reference allows: nearly all up to 400,000 values, a tenth from
/// 4,000,000.
fn allowed_share_of_aliases(nodes: usize) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let nodes = nodes as f64;
    0.99 - 0.89 * ((nodes.clamp(LOW, HIGH) - LOW) / (HIGH - LOW))
}
