use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::tree::Value;

/// List of values. A clone shares the items; the first change of a shared list copies the items (their subtrees stay
/// shared).
///
/// ```
/// use holdfast_value::{List, Value};
///
/// let mut ports: List = [Value::from(80)].into_iter().collect();
/// let shared = ports.clone();
/// assert!(shared.same(&ports));
/// ports.make_mut().push(Value::from(443));
/// assert_eq!((ports.len(), shared.len()), (2, 1));
/// ```
#[derive(Clone, Default)]
pub struct List(Option<Arc<Vec<Value>>>);

impl List {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the items for modification; copies them first if they are shared.
    pub fn make_mut(&mut self) -> &mut Vec<Value> {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// Returns the items, copied if they are shared.
    pub fn into_items(self) -> Vec<Value> {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    /// True if both are the same list in memory, which implies equality without comparing the items.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        self.0.as_ref().map_or(&[], |items| items)
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<_>>())
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
