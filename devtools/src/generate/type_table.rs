//! Writes a table of types as TOML. `holdfast_table_source::type_lines` reads it in the build.

use std::fmt::Write as _;

use holdfast_schema::GroupVersionKind;
use holdfast_schema::types::{
    Field, ListType, MapType, MergeKey, Omission, PLAIN_SHAPES, Shape, Type, TypeKind, TypeTable, Union,
};
use holdfast_value::{Value, json};

use super::toml::{list, text};

/// Longest list on one line, in bytes.
const MAX_LINE_BYTES: usize = 100;

/// Returns the text of a table, with short names for `packages` (short and full name of each). Validation tags are left out: the
/// build adds them from their own file.
pub(super) fn write_table(table: &TypeTable, packages: &[(&str, &str)]) -> String {
    let mut out = String::from("\n[packages]\n");
    for (short, long) in packages {
        let _ = writeln!(out, "{} = {}", text(short), text(long));
    }
    let writer = Writer { table, packages };
    for (_, of) in table.iter() {
        writer.write_type(of, &mut out);
    }
    out
}

struct Writer<'a> {
    table: &'a TypeTable,
    packages: &'a [(&'a str, &'a str)],
}

impl Writer<'_> {
    fn short_name(&self, name: &str) -> String {
        name.rsplit_once('.')
            .and_then(|(package, last)| {
                let (short, _) = self.packages.iter().find(|(_, long)| *long == package)?;
                Some(format!("{short}.{last}"))
            })
            .unwrap_or_else(|| name.to_owned())
    }

    fn write_type(&self, of: &Type, out: &mut String) {
        let _ = writeln!(out, "\n[{}]", text(&self.short_name(&of.name)));
        if let TypeKind::Scalar(scalar) = &of.kind {
            let _ = writeln!(out, "scalar = {}", text(scalar.name()));
        }
        if let Some(map_type) = of.map_type {
            let _ = writeln!(out, "map = {}", text(map_word(map_type)));
        }
        if !of.published {
            out.push_str("unpublished = true\n");
        }
        if !of.kinds.is_empty() {
            let name = |kind: &GroupVersionKind| format!("{}/{}", kind.group_version, kind.kind);
            let kinds: Vec<String> = of.kinds.iter().map(name).collect();
            let _ = writeln!(out, "kinds = {}", broken_list(&kinds));
        }
        let unions: Vec<String> = of.unions.iter().map(union).collect();
        if !unions.is_empty() {
            let _ = writeln!(out, "unions = [{}]", unions.join(", "));
        }
        let mut fields: Vec<&Field> = of.fields().iter().collect();
        fields.sort_by_key(|field| field.place);
        if !fields.is_empty() {
            out.push_str("fields = [\n");
            for field in fields {
                let _ = writeln!(out, "    {{ {} }},", self.keys(field).join(", "));
            }
            out.push_str("]\n");
        }
    }

    /// Returns the keys of a field with their values.
    fn keys(&self, field: &Field) -> Vec<String> {
        let mut keys = vec![
            format!("name = {}", text(&field.name)),
            format!("type = {}", text(&self.shape(&field.shape))),
        ];
        match field.proto.numbers() {
            [] => {}
            [number] => keys.push(format!("proto = {number}")),
            path => keys.push(format!("proto = {path:?}")),
        }
        let flags = [
            (field.required, "required = true"),
            (field.pointer, "pointer = true"),
            (field.omission == Omission::Never, "omit = \"never\""),
            (field.omission == Omission::Zero, "omit = \"zero\""),
            (field.list_type == Some(ListType::Atomic), "list = \"atomic\""),
            (field.list_type == Some(ListType::Set), "list = \"set\""),
            (field.map_type == Some(MapType::Atomic), "map = \"atomic\""),
            (field.map_type == Some(MapType::Granular), "map = \"granular\""),
            (field.patch.merge, "merge = true"),
            (field.patch.replace, "replace = true"),
            (field.patch.retain_keys, "retain-keys = true"),
            (field.undefaulted, "undefaulted = true"),
        ];
        keys.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, key)| key.to_owned()));
        if field.list_type == Some(ListType::Map) {
            let merge_keys: Vec<String> = field.keys.iter().map(merge_key).collect();
            keys.push(format!("keys = [{}]", merge_keys.join(", ")));
        }
        keys.extend(
            field
                .patch
                .merge_key
                .iter()
                .map(|key| format!("merge-key = {}", text(key))),
        );
        if !field.enum_values.is_empty() {
            keys.push(format!("enum = {}", list(&field.enum_values)));
        }
        if field.default_published {
            keys.push("published = true".to_owned());
        }
        keys.extend(
            field
                .default
                .iter()
                .map(|default| format!("default = {}", value(default))),
        );
        keys
    }

    fn shape(&self, shape: &Shape) -> String {
        match shape {
            Shape::List(item) => format!("[]{}", self.shape(item)),
            Shape::Map(value) => format!("{{}}{}", self.shape(value)),
            Shape::Ref(id) => self.short_name(&self.table.get(*id).name),
            plain => PLAIN_SHAPES
                .iter()
                .find(|(shape, _)| shape == plain)
                .map_or_else(String::new, |(_, name)| (*name).to_owned()),
        }
    }
}

fn map_word(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

fn union(of: &Union) -> String {
    let pairs: Vec<String> = of
        .fields
        .iter()
        .map(|(field, value)| format!("{field} = {}", text(value)))
        .collect();
    let discriminator = of
        .discriminator
        .iter()
        .map(|name| format!("discriminator = {}, ", text(name)));
    format!(
        "{{ {}fields = {{ {} }} }}",
        discriminator.collect::<String>(),
        pairs.join(", ")
    )
}

fn merge_key(key: &MergeKey) -> String {
    match &key.default {
        Some(default) => format!("{{ name = {}, default = {} }}", text(&key.name), value(default)),
        None => text(&key.name),
    }
}

/// Returns a list on one line, or on a line for each item if it is long.
fn broken_list(items: &[String]) -> String {
    let line = list(items);
    if line.len() < MAX_LINE_BYTES {
        return line;
    }
    let lines: String = items.iter().map(|item| format!("    {},\n", text(item))).collect();
    format!("[\n{lines}]")
}

/// Returns a JSON value in TOML.
fn value(of: &Value) -> String {
    match of {
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) if map.is_empty() => "{}".to_owned(),
        Value::Map(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, of)| format!("{key} = {}", value(of))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        plain => json::to_string(plain),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_table_source::{Source, type_lines};

    use super::*;

    const TEXT: &str = r#"
[packages]
"a.v1" = "io.example.a.v1"

["a.v1.Port"]
map = "atomic"
kinds = ["v1/Port", "a/v1/Port"]
unions = [{ discriminator = "type", fields = { tcp = "TCP", udp = "UDP" } }]
fields = [
    { name = "number", type = "int32", proto = 1, required = true, omit = "never" },
    { name = "protocol", type = "string", proto = [2, 3], enum = ["", "TCP", "UDP 8"], published = true, default = "TCP" },
]

["a.v1.Ports"]
unpublished = true
kinds = [
    "admissionregistration.k8s.io/v1alpha1/PortOfSomeServer",
    "admissionregistration.k8s.io/v1beta1/PortOfSomeServer",
]
fields = [
    { name = "extra", type = "{}[]string", proto = 1, pointer = true, map = "atomic", default = { b = [1, true] } },
    { name = "ports", type = "[]a.v1.Port", merge = true, replace = true, retain-keys = true, keys = ["number", { name = "protocol", default = "TCP" }], merge-key = "number" },
    { name = "when", type = "a.v1.Time", proto = 3, omit = "zero", undefaulted = true, default = {} },
]

["a.v1.Time"]
scalar = "time"
"#;

    #[test]
    fn table_is_written_as_it_was_read() {
        let lines = type_lines(&Source::new("types.toml", TEXT)).unwrap();
        let table = TypeTable::parse(&lines).unwrap();
        assert_eq!(write_table(&table, &[("a.v1", "io.example.a.v1")]), TEXT);
    }
}
