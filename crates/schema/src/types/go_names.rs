//! Go names of the types of fields, for messages: `v1.PullPolicy` rather than `string`.

use crate::types::{Type, TypeTable};

impl TypeTable {
    /// Returns the same table with these Go type names: a line for each field that has one,
    /// `core.v1.Container.imagePullPolicy v1.PullPolicy`. They are looked up only when a value is rejected.
    #[must_use]
    pub fn with_go_types(mut self, lines: &'static str) -> Self {
        self.go_types = lines;
        self
    }

    /// Returns the name of the type of a field; `None` if it follows from the shape of the field.
    pub(crate) fn go_type(&self, of: &Type, field: &str) -> Option<&'static str> {
        self.go_types.lines().find_map(|line| {
            let (place, name) = line.split_once(' ')?;
            let owner = place.strip_suffix(field)?.strip_suffix('.')?;
            let package = of.name.strip_suffix(owner)?;
            package.ends_with('.').then_some(name)
        })
    }
}

/// Returns the type of the items or values of the Go type `name`; `None` if it is not part of the name.
pub(crate) fn item_of(name: &str) -> Option<&str> {
    match name.strip_prefix("map[") {
        Some(rest) => rest.split_once(']').map(|(_, value)| value),
        None => name.strip_prefix("[]"),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;
    use crate::types::{decode, decode_tree};

    #[test]
    fn refusals_name_types_as_go_does() {
        let text = "package core.v1 io.k8s.api.core.v1\ntype core.v1.Container struct\n  list []string 1\n  map {}string 2\n  \
            name string 3\n  policy string 4\n";
        let names = "# comment\ncore.v1.Container.policy v1.PullPolicy\ncore.v1.Container.list []v1.Mode\n\
            core.v1.Container.map map[v1.Key]v1.Mode\n";
        let table = TypeTable::parse(text).unwrap().with_go_types(names);
        let id = table.id("io.k8s.api.core.v1.Container").unwrap();
        let refused = |object: &str| {
            let object = json::parse(object.as_bytes(), &Limits::default()).unwrap();
            let of_json = decode(&table, id, &object).unwrap_err().to_string();
            (of_json, decode_tree(&table, id, &object).unwrap_err().to_string())
        };
        for (object, place, name, in_tree) in [
            (r#"{"name":1}"#, "name", "string", "cannot convert int64 to string"),
            (
                r#"{"policy":1}"#,
                "policy",
                "v1.PullPolicy",
                "cannot convert int64 to v1.PullPolicy",
            ),
            (r#"{"list":[1]}"#, "list", "v1.Mode", "cannot convert int64 to v1.Mode"),
            (r#"{"list":1}"#, "list", "[]v1.Mode", "cannot restore slice from int64"),
            (
                r#"{"map":{"a":1}}"#,
                "map",
                "v1.Mode",
                "cannot convert int64 to v1.Mode",
            ),
            (
                r#"{"policy":true}"#,
                "policy",
                "v1.PullPolicy",
                "unrecognized type: string",
            ),
        ] {
            let found = if object.contains("true") { "bool" } else { "number" };
            let of_json =
                format!("json: cannot unmarshal {found} into Go struct field Container.{place} of type {name}");
            assert_eq!(refused(object), (of_json, in_tree.to_owned()), "{object}");
        }
    }
}
