//! Defaults of fields that an object leaves out.

use holdfast_schema::types::{ListRebuild, MapRebuild};
use holdfast_value::{Error, Growth, Map, Value};

use crate::node::Node;

impl Node {
    /// Returns the value with its defaults; `None` if it has them all. A field that is `null` but not nullable counts
    /// as left out. Defaults are shared, but their serialized size is drawn from `growth`.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#Default
    ///
    /// # Errors
    /// [`Error::Overgrown`].
    pub(super) fn with_defaults(&self, value: &Value, growth: &mut Growth) -> Result<Option<Value>, Error> {
        if !self.within.defaults {
            return Ok(None);
        }
        match (value, self.items.as_deref()) {
            (Value::Map(map), _) => self.map_with_defaults(map, growth),
            (Value::List(list), Some(of)) => {
                let mut rebuild = ListRebuild::new(list);
                for (at, item) in list.iter().enumerate() {
                    rebuild.replace(at, of.filled_in(item, growth)?);
                }
                Ok(rebuild.finish())
            }
            _ => Ok(None),
        }
    }

    fn map_with_defaults(&self, map: &Map, growth: &mut Growth) -> Result<Option<Value>, Error> {
        let mut rebuild = MapRebuild::new(map);
        let mut missing = self.properties.iter().filter(|(_, of)| of.within.defaults).peekable();
        for (at, (name, value)) in map.iter().enumerate() {
            while let Some((absent, of)) = missing.next_if(|(field, _)| field < name) {
                if let Some(default) = of.own_default(growth)? {
                    growth.draw(absent.len())?;
                    rebuild.insert_before(at, absent.clone(), default);
                }
            }
            missing.next_if(|(field, _)| field == name);
            let filled = match self.field(name) {
                Some(of) => of.filled_in(value, growth)?,
                None => None,
            };
            rebuild.keep_or_replace(at, filled);
        }
        for (absent, of) in missing {
            if let Some(default) = of.own_default(growth)? {
                growth.draw(absent.len())?;
                rebuild.insert_before(map.len(), absent.clone(), default);
            }
        }
        Ok(rebuild.finish())
    }

    /// Returns the value of a field with its defaults; the field's default instead of a `null`.
    fn filled_in(&self, value: &Value, growth: &mut Growth) -> Result<Option<Value>, Error> {
        if self.is_wrong_null(value) {
            return self.own_default(growth);
        }
        self.with_defaults(value, growth)
    }

    /// Returns the default of the field, with its own defaults filled in.
    fn own_default(&self, growth: &mut Growth) -> Result<Option<Value>, Error> {
        let Some(default) = &self.default else {
            return Ok(None);
        };
        growth.draw_value(default)?;
        let filled = self.with_defaults(default, growth)?;
        Ok(Some(filled.unwrap_or_else(|| default.clone())))
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
        for (sent, filled) in [
            (
                r#"{"spec":{}}"#,
                r#"{"spec":{"n":3,"od":{"x":"in","y":"given"},"z":1}}"#,
            ),
            (
                r#"{"spec":{"l":[{},{"p":1}],"m":{"k":{}},"n":null,"o":{},"od":{},"z":null}}"#,
                r#"{"spec":{"l":[{"p":80},{"p":1}],"m":{"k":{"v":"dv"}},"n":3,"o":{"x":"in"},"od":{"x":"in"},"z":null}}"#,
            ),
        ] {
            let defaulted = node.with_defaults(&value(sent), &mut Growth::default());
            assert_eq!(json::to_string(&defaulted.unwrap().unwrap()), filled);
        }
        let other = node.with_defaults(&value(r#"{"other":1}"#), &mut Growth::default());
        assert!(other.unwrap().is_none());
    }

    #[test]
    fn defaults_that_multiply_end_where_there_is_no_more_room() {
        let large = "x".repeat(50_000);
        let many = vec!["{}"; 100_000].join(",");
        let node = Node::read(&value(&format!(
            r#"{{"properties":{{"l":{{"items":{{"properties":{{"d":{{"default":"{large}"}}}}}}}}}}}}"#
        )));
        let limit = Growth::OBJECT;
        let filled = |object: &str| node.with_defaults(&value(object), &mut Growth::default());
        assert_eq!(filled(&format!(r#"{{"l":[{many}]}}"#)), Err(Error::Overgrown { limit }));
        assert!(filled(r#"{"l":[{},{}]}"#).unwrap().is_some());

        // Each level multiplies by 100, even if the list itself is a default.
        let mut schema = r#"{"default":1}"#.to_owned();
        for _ in 0..20 {
            let items = vec!["{}"; 100].join(",");
            schema = format!(r#"{{"default":[{items}],"items":{{"properties":{{"l":{schema}}}}}}}"#);
        }
        let node = Node::read(&value(&format!(r#"{{"properties":{{"l":{schema}}}}}"#)));
        let filled = node.with_defaults(&Value::empty_map(), &mut Growth::default());
        assert_eq!(filled, Err(Error::Overgrown { limit }));
    }
}
