//! Filling in what an object leaves out.

use holdfast_value::{Map, Value};

use super::Node;
use crate::schema::{ListRebuild, MapRebuild};

impl Node {
    /// The value with its defaults; `None` if it has them all. A field that holds `null` where none may stand counts as
    /// left out.
    pub(super) fn with_defaults(&self, value: &Value) -> Option<Value> {
        if !self.within.defaults {
            return None;
        }
        match value {
            Value::Map(map) => self.map_with_defaults(map),
            Value::List(list) => {
                let of = self.items.as_deref()?;
                let mut rebuild = ListRebuild::new(list);
                for (at, item) in list.iter().enumerate() {
                    rebuild.settle(at, of.filled_in(item));
                }
                rebuild.finish()
            }
            _ => None,
        }
    }

    fn map_with_defaults(&self, map: &Map) -> Option<Value> {
        let mut rebuild = MapRebuild::new(map);
        let mut missing = self.properties.iter().filter(|(_, of)| of.within.defaults).peekable();
        for (at, (name, value)) in map.iter().enumerate() {
            while let Some((absent, of)) = missing.next_if(|(field, _)| field < name) {
                if let Some(default) = of.own_default() {
                    rebuild.insert_before(at, absent.clone(), default);
                }
            }
            missing.next_if(|(field, _)| field == name);
            match self.field(name).and_then(|of| of.filled_in(value)) {
                Some(value) => rebuild.replace(at, value),
                None => rebuild.keep(at),
            }
        }
        for (absent, of) in missing {
            if let Some(default) = of.own_default() {
                rebuild.insert_before(map.len(), absent.clone(), default);
            }
        }
        rebuild.finish()
    }

    /// A value that stands there, with its defaults; the default itself in the place of a `null`.
    fn filled_in(&self, value: &Value) -> Option<Value> {
        if self.is_wrong_null(value) {
            return self.own_default();
        }
        self.with_defaults(value)
    }

    /// The default of the field, with the defaults of what it leaves out.
    fn own_default(&self) -> Option<Value> {
        let default = self.default.clone()?;
        Some(self.with_defaults(&default).unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn defaults_are_set_where_the_parent_is_there() {
        let schema = r#"{"properties":{"spec":{"properties":{
            "n":{"default":3},
            "o":{"properties":{"x":{"default":"in"}}},
            "od":{"default":{"y":"given"},"properties":{"x":{"default":"in"},"y":{}}},
            "l":{"items":{"properties":{"p":{"default":80}}}},
            "m":{"additionalProperties":{"properties":{"v":{"default":"dv"}}}},
            "z":{"nullable":true,"default":1}}}}}"#;
        let node = Node::read(&value(schema));
        for (given, filled) in [
            (
                r#"{"spec":{}}"#,
                r#"{"spec":{"n":3,"od":{"x":"in","y":"given"},"z":1}}"#,
            ),
            (
                r#"{"spec":{"l":[{},{"p":1}],"m":{"k":{}},"n":null,"o":{},"od":{},"z":null}}"#,
                r#"{"spec":{"l":[{"p":80},{"p":1}],"m":{"k":{"v":"dv"}},"n":3,"o":{"x":"in"},"od":{"x":"in"},"z":null}}"#,
            ),
        ] {
            assert_eq!(json::to_string(&node.with_defaults(&value(given)).unwrap()), filled);
        }
        assert!(node.with_defaults(&value(r#"{"other":1}"#)).is_none());
    }
}
