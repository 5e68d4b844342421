//! Who owns each field of an object.

use holdfast_merge::{Path, PathElement, Set};
use holdfast_value::{List, SmolStr, Value};

use crate::entry::{Entry, Operation, Source};
use crate::managed::Managed;

/// A field of an object that holds no other fields, with those who own it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    /// The path of the field. Items of a list are named as their owners name them, else by position.
    pub path: Path,
    /// What the field holds: a scalar, or a list or map without content.
    pub value: Value,
    /// Who owns it, itself or with all that it is in. Empty where nobody does.
    pub owners: Vec<Owner>,
}

/// An owner of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The manager.
    pub manager: SmolStr,
    /// How it came to own the field.
    pub operation: Operation,
    /// The subresource through which it writes; empty for the object itself.
    pub subresource: SmolStr,
    /// When it last changed something of what it owns, in seconds since 1970, if that is known.
    pub time: Option<i64>,
}

/// Tells for each field of `object` who owns it, by the object's own `managedFields` (which are left out themselves) and
/// without a schema: what is owned as a whole and what item by item shows in what is owned. Where the entries cannot be
/// read, nobody owns anything.
pub fn blame(object: &Value) -> Vec<Blame> {
    let managed = Managed::decode(object, Source::Request).unwrap_or_default();
    let mut owners = Vec::with_capacity(managed.0.len());
    let mut claims = Vec::with_capacity(managed.0.len());
    for record in managed.0.into_values() {
        claims.push(Claim {
            owner: owners.len(),
            below: record.set,
            whole: false,
        });
        owners.push(Owner::from(record.entry));
    }
    let mut walk = Walk {
        owners,
        path: Path::new(),
        blames: Vec::new(),
    };
    walk.value(object, &claims);
    walk.blames
}

impl From<Entry> for Owner {
    fn from(entry: Entry) -> Self {
        Self {
            manager: entry.manager,
            operation: entry.operation,
            subresource: entry.subresource,
            time: entry.time.map(|time| time.seconds),
        }
    }
}

/// What an owner claims of a value.
#[derive(Clone)]
struct Claim {
    /// The place of the owner in the list of all.
    owner: usize,
    /// The paths it owns below the value.
    below: Set,
    /// Whether it owns the value as a whole.
    whole: bool,
}

struct Walk {
    owners: Vec<Owner>,
    path: Path,
    blames: Vec<Blame>,
}

impl Walk {
    fn value(&mut self, value: &Value, claims: &[Claim]) {
        match value {
            Value::Map(map) if !map.is_empty() => {
                for (key, value) in map {
                    self.child(PathElement::Field(key.clone()), value, claims);
                }
            }
            Value::List(list) if !list.is_empty() => {
                for (at, item) in list.iter().enumerate() {
                    self.child(item_element(list, at, item, claims), item, claims);
                }
            }
            leaf => self.blames.push(Blame {
                path: self.path.clone(),
                value: leaf.clone(),
                owners: (claims.iter().filter(|claim| claim.whole))
                    .filter_map(|claim| self.owners.get(claim.owner).cloned())
                    .collect(),
            }),
        }
    }

    fn child(&mut self, element: PathElement, value: &Value, claims: &[Claim]) {
        self.path.push(element.clone());
        if self.path[..] != *Path::of_fields(["metadata", "managedFields"]) {
            let claims: Vec<Claim> = claims.iter().filter_map(|claim| claim.on(&element)).collect();
            self.value(value, &claims);
        }
        self.path.pop();
    }
}

impl Claim {
    /// What is left of the claim on a child.
    fn on(&self, element: &PathElement) -> Option<Claim> {
        // A member with nothing below it stands for all that its value holds.
        if self.whole && self.below.is_empty() {
            return Some(self.clone());
        }
        let below = self.below.with_prefix(element);
        let whole = self.below.has(std::slice::from_ref(element));
        (whole || !below.is_empty()).then_some(Claim {
            owner: self.owner,
            below,
            whole,
        })
    }
}

/// The element by which owners know an item of a list; its position where none does.
fn item_element(list: &List, at: usize, item: &Value, claims: &[Claim]) -> PathElement {
    let known = claims.iter().flat_map(|claim| {
        let below = &claim.below;
        below.members().chain(below.children().map(|(element, _)| element))
    });
    let mut fallback = None;
    for element in known {
        match element {
            PathElement::Value(value) if value == item => return element.clone(),
            PathElement::Key(key) => {
                let (mut equal, mut missing) = (0, 0);
                for (name, value) in key.fields() {
                    match item.get(name) {
                        Some(found) if found == value => equal += 1,
                        Some(_) => missing = usize::MAX,
                        None => missing = missing.saturating_add(1),
                    }
                    if missing == usize::MAX {
                        break;
                    }
                }
                match (equal, missing) {
                    (_, 0) => return element.clone(),
                    // A key field that the item leaves out may be one with a default.
                    (1.., 1..usize::MAX) => fallback = Some(element.clone()),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    debug_assert!(at < list.len());
    fallback.unwrap_or_else(|| PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)))
}
