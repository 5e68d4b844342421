//! Document during the operations of a patch. Containers that an operation changes are opened: a change in the middle
//! of a long list, or of a map with many members, is then cheap, however many operations there are. All other nodes
//! stay shared.

use std::collections::BTreeMap;

use crate::json;
use crate::tree::{List, Map, Value};
use smol_str::SmolStr;

/// Node of the document.
pub(super) enum Node {
    /// An unchanged value.
    Whole(Value),
    List(Items),
    Map(BTreeMap<SmolStr, Node>),
}

/// Read-only view of a node.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    Value(&'a Value),
    List(&'a Items),
    Map(&'a BTreeMap<SmolStr, Node>),
}

impl Default for Node {
    fn default() -> Self {
        Self::Whole(Value::Null)
    }
}

impl Node {
    pub(super) fn view(&self) -> View<'_> {
        match self {
            Self::Whole(value) => View::Value(value),
            Self::List(items) => View::List(items),
            Self::Map(members) => View::Map(members),
        }
    }

    /// Opens the node: its items or members, if it has any, become separate nodes.
    pub(super) fn open(&mut self) -> &mut Self {
        match self {
            Self::Whole(Value::List(list)) => {
                let items = std::mem::take(list).into_items();
                *self = Self::List(items.into_iter().map(Node::Whole).collect());
            }
            Self::Whole(Value::Map(map)) => {
                let entries = std::mem::take(map).into_entries().into_iter();
                *self = Self::Map(entries.map(|(key, value)| (key, Node::Whole(value))).collect());
            }
            _ => {}
        }
        self
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Whole(value) => value,
            Self::List(items) => Value::List(items.into_iter().map(Node::into_value).collect()),
            Self::Map(members) => {
                let entries = members.into_iter().map(|(key, node)| (key, node.into_value()));
                Value::Map(Map::from_sorted(entries.collect()))
            }
        }
    }
}

impl<'a> View<'a> {
    pub(super) const NULL: View<'static> = View::Value(&Value::Null);

    /// Returns the number of items of a list; `None` if this is not a list.
    pub(super) fn items(self) -> Option<usize> {
        match self {
            Self::Value(Value::List(list)) => Some(list.len()),
            Self::List(items) => Some(items.len()),
            _ => None,
        }
    }

    pub(super) fn is_map(self) -> bool {
        matches!(self, Self::Value(Value::Map(_)) | Self::Map(_))
    }

    pub(super) fn item(self, at: usize) -> Option<View<'a>> {
        match self {
            Self::Value(Value::List(list)) => list.get(at).map(View::Value),
            Self::List(items) => items.get(at).map(Node::view),
            _ => None,
        }
    }

    pub(super) fn member(self, key: &str) -> Option<View<'a>> {
        match self {
            Self::Value(Value::Map(map)) => map.get(key).map(View::Value),
            Self::Map(members) => members.get(key).map(Node::view),
            _ => None,
        }
    }

    /// Returns the nesting of lists and maps, like [`Value::depth`].
    pub(super) fn depth(self) -> usize {
        let deepest = match self {
            Self::Value(value) => return value.depth(),
            Self::List(items) => items.iter().map(|item| item.view().depth()).max(),
            Self::Map(members) => members.values().map(|member| member.view().depth()).max(),
        };
        1 + deepest.unwrap_or(0)
    }

    pub(super) fn to_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::List(items) => Value::List(items.iter().map(|item| item.view().to_value()).collect::<List>()),
            Self::Map(members) => {
                let entries = members.iter().map(|(key, node)| (key.clone(), node.view().to_value()));
                Value::Map(Map::from_sorted(entries.collect()))
            }
        }
    }

    /// Returns the size of the JSON in bytes.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Value(value) => json::length(value),
            Self::List(items) => {
                let within: usize = items.iter().map(|item| item.view().length()).sum();
                within + items.len().max(1) + 1
            }
            Self::Map(members) => {
                let entry = |(key, node): (&SmolStr, &Node)| json::string_length(key) + 1 + node.view().length();
                members.iter().map(entry).sum::<usize>() + members.len().max(1) + 1
            }
        }
    }

    /// True if the JSON text equals that of `value`: an integer never equals a float.
    pub(super) fn is_same(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Value(own), value) => is_same(own, value),
            (Self::List(items), Value::List(list)) => {
                items.len() == list.len() && items.iter().zip(list).all(|(own, other)| own.view().is_same(other))
            }
            (Self::Map(members), Value::Map(map)) => {
                members.len() == map.len()
                    && members
                        .iter()
                        .zip(map)
                        .all(|((key, own), (other_key, other))| key == other_key && own.view().is_same(other))
            }
            _ => false,
        }
    }
}

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

/// Items of an open list in runs: an insertion or removal moves only the items of one run.
#[derive(Default)]
pub(super) struct Items {
    runs: Vec<Vec<Node>>,
    length: usize,
}

impl Items {
    /// Maximum number of items in a run.
    const RUN: usize = 1024;

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.runs.iter().flatten()
    }

    /// Returns the run that contains the item and the index within it. The index after the last item is in the last
    /// run.
    fn place(&self, mut at: usize) -> Option<(usize, usize)> {
        let last = self.runs.len().checked_sub(1)?;
        for (number, run) in self.runs.iter().enumerate() {
            if at < run.len() || number == last {
                return Some((number, at));
            }
            at -= run.len();
        }
        None
    }

    pub(super) fn get(&self, at: usize) -> Option<&Node> {
        let (run, at) = self.place(at)?;
        self.runs.get(run)?.get(at)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Node> {
        let (run, at) = self.place(at)?;
        self.runs.get_mut(run)?.get_mut(at)
    }

    /// Inserts an item before the one at `at`, which is at most the number of items.
    pub(super) fn insert(&mut self, at: usize, item: Node) {
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        let Some((number, at)) = self.place(at.min(self.length)) else {
            return;
        };
        let Some(run) = self.runs.get_mut(number) else { return };
        run.insert(at, item);
        self.length += 1;
        if run.len() > Self::RUN {
            let behind = run.split_off(Self::RUN / 2);
            self.runs.insert(number + 1, behind);
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Node> {
        let (number, at) = self.place(at)?;
        let run = self.runs.get_mut(number)?;
        if at >= run.len() {
            return None;
        }
        let item = run.remove(at);
        self.length -= 1;
        if run.is_empty() {
            self.runs.remove(number);
        }
        Some(item)
    }
}

impl IntoIterator for Items {
    type Item = Node;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<Node>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.runs.into_iter().flatten()
    }
}

impl FromIterator<Node> for Items {
    fn from_iter<I: IntoIterator<Item = Node>>(items: I) -> Self {
        let mut made = Self::default();
        let mut items = items.into_iter();
        loop {
            let run: Vec<Node> = items.by_ref().take(Self::RUN).collect();
            if run.is_empty() {
                return made;
            }
            made.length += run.len();
            made.runs.push(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_moves_the_items_of_one_run_however_long_the_list() {
        let mut items: Items = (0..100_000).map(|at| Node::Whole(Value::Int(at))).collect();
        for step in 0..10_000 {
            items.insert(0, Node::default());
            items.insert(60_000, Node::default());
            if step % 2 == 0 {
                items.remove(70_000);
            }
        }
        assert_eq!(items.len(), 115_000);
        assert_eq!(items.iter().count(), items.len());
        assert!(items.runs.iter().all(|run| !run.is_empty() && run.len() <= Items::RUN));
        assert!(items.runs.len() <= 4 * items.len() / Items::RUN);
    }

    #[test]
    fn containers_that_nothing_changes_stay_whole() {
        let value = Value::from(vec![Value::from(vec![Value::Int(1)]), Value::empty_map()]);
        let mut node = Node::Whole(value.clone());
        assert!(node.view().is_same(&value) && node.view().depth() == 2);
        assert_eq!(node.view().length(), json::length(&value));
        assert!(matches!(node, Node::Whole(_)));
        let Node::List(items) = node.open() else {
            panic!("a list opens to its items")
        };
        assert!(items.iter().all(|item| matches!(item, Node::Whole(_))));
        assert!(node.view().is_same(&value) && node.view().depth() == 2);
        assert_eq!(node.view().length(), json::length(&value));
        assert_eq!(node.into_value(), value);
    }
}
