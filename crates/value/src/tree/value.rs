use crate::tree::{List, Map};
use smol_str::SmolStr;

/// Node of an object tree: the JSON data model, with integers separate from floats.
///
/// Equality is that of the structured-merge reference: numbers are compared by value across [`Value::Int`],
/// [`Value::UInt`] and [`Value::Float`], and `null`, `{}` and `[]` are three different values.
///
/// ```
/// use holdfast_value::Value;
///
/// let mut deployment = Value::empty_map();
/// deployment.set_at(&["spec", "replicas"], Value::Int(3));
/// assert_eq!(deployment.at(&["spec", "replicas"]).and_then(Value::as_i64), Some(3));
/// assert_eq!(deployment.to_string(), r#"{"spec":{"replicas":3}}"#);
/// assert_eq!(Value::Int(1), Value::Float(1.0));
/// assert_ne!(Value::Null, Value::empty_map());
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that fits `i64`. Every integer in this range uses this variant.
    Int(i64),
    /// An integer above `i64::MAX`. Smaller integers never use this variant.
    UInt(u64),
    /// Any other number; always finite.
    Float(f64),
    /// Text.
    String(SmolStr),
    /// A list; a clone shares it.
    List(List),
    /// A map with text keys, sorted by key; a clone shares it.
    Map(Map),
}

impl Value {
    /// Returns the string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if this is one that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the list, if this is one.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the list for modification, if this is one; copies it first if it is shared.
    pub fn as_list_mut(&mut self) -> Option<&mut List> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the map for modification, if this is one; copies it first if it is shared.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// True if both are the same map or list in memory.
    pub fn shares(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Map(one), Value::Map(other)) => one.same(other),
            (Value::List(one), Value::List(other)) => one.same(other),
            _ => false,
        }
    }

    /// True if this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns the member `key`, if this is a map with that key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// Returns the node at the path `keys` through maps.
    ///
    /// ```
    /// use holdfast_value::{Limits, Value, json};
    ///
    /// let pod = json::parse(br#"{"metadata":{"name":"web"}}"#, &Limits::REQUEST)?;
    /// assert_eq!(pod.at(&["metadata", "name"]), Some(&Value::from("web")));
    /// assert_eq!(pod.at(&["metadata", "uid"]), None);
    /// # Ok::<(), holdfast_value::Error>(())
    /// ```
    pub fn at(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns the text at the path `keys` through maps.
    pub fn str_at(&self, keys: &[&str]) -> Option<&str> {
        self.at(keys)?.as_str()
    }

    /// Returns the node at the path `keys` for modification; copies shared maps on the way. `None` if a key is missing.
    pub fn at_mut(&mut self, keys: &[&str]) -> Option<&mut Value> {
        keys.iter().try_fold(self, |node, key| node.as_map_mut()?.get_mut(key))
    }

    /// Sets the node at the path `keys`; creates missing maps on the way and replaces nodes that are not maps.
    pub fn set_at(&mut self, keys: &[&str], value: Value) {
        let mut node = self;
        for key in keys {
            if !matches!(node, Value::Map(_)) {
                *node = Value::Map(Map::new());
            }
            let Value::Map(map) = node else { return };
            node = map.get_or_insert_null(key);
        }
        *node = value;
    }

    /// Removes the node at the path `keys` from its map. `None` if there is none.
    pub fn remove_at(&mut self, keys: &[&str]) -> Option<Value> {
        let (last, parents) = keys.split_last()?;
        // The check comes first so that shared maps stay shared if there is nothing to remove.
        self.at(keys)?;
        self.at_mut(parents)?.as_map_mut()?.remove(last)
    }

    /// Returns the name of this JSON type in the errors of Go's JSON reader (`cannot unmarshal array into Go value of
    /// …`).
    pub fn json_kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
        }
    }

    /// Returns the nesting of lists and maps: 0 for a scalar, 1 for a list of scalars.
    pub fn depth(&self) -> usize {
        let deepest = match self {
            Value::List(items) => items.iter().map(Value::depth).max(),
            Value::Map(entries) => entries.iter().map(|(_, value)| value.depth()).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }

    /// Returns a new empty map.
    pub fn empty_map() -> Value {
        Value::Map(Map::new())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(SmolStr::new(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(SmolStr::from(text))
    }
}

impl From<SmolStr> for Value {
    fn from(text: SmolStr) -> Self {
        Value::String(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Value::Int(number.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Value::UInt(number), Value::Int)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Value::List(list)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::List(List::from(items))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Map(map)
    }
}
