//! Types of the built-in kinds.
//!
//! ```toml
//! [packages]
//! "core.v1" = "io.k8s.api.core.v1"
//!
//! ["core.v1.ServiceSpec"]
//! fields = [
//!     { name = "ports", type = "[]core.v1.ServicePort", proto = 1, keys = ["port", { name = "protocol", default = "TCP" }] },
//! ]
//! ```
//! `packages` contains the short names of packages. Each other table is a type: a struct with `fields`, or a `scalar`. The keys of types
//! and fields are in [`TYPE_KEYS`] and [`FIELD_KEYS`]; `holdfast_schema::types` describes their meaning.

use std::fmt::Write as _;

use toml::de::DeValue;

use crate::source::{Source, Table, Value, in_order};

/// Keys of a type.
const TYPE_KEYS: [&str; 6] = ["scalar", "map", "unpublished", "kinds", "unions", "fields"];

/// Keys of a field. `proto` is the number in protobuf, or the numbers of nested messages.
const FIELD_KEYS: [&str; 16] = [
    "name",
    "type",
    "proto",
    "required",
    "pointer",
    "omit",
    "list",
    "map",
    "merge",
    "replace",
    "retain-keys",
    "undefaulted",
    "keys",
    "merge-key",
    "enum",
    "published",
];

/// Key of the default of a field, which is the last word of its line.
const DEFAULT: &str = "default";

/// Returns the lines of a table of types, as `holdfast_schema::types::TypeTable` reads them.
///
/// # Errors
/// If a value has an unknown form, with file and line.
pub fn type_lines(source: &Source) -> Result<String, String> {
    let mut lines = String::new();
    let table = source.parse()?;
    for (name, at, value) in in_order(&table) {
        if name == "packages" {
            for (short, _, long) in in_order(source.table(value)?) {
                lines.extend(["package ", short, " ", source.text(long)?, "\n"]);
            }
        } else {
            if name.contains(' ') {
                return Err(source.error_at(at, "a name with a blank"));
            }
            lines.extend(["\ntype ", name]);
            type_words(source, source.table(value)?, &mut lines)?;
        }
    }
    Ok(lines)
}

/// Adds the words of a type and the lines of its fields.
fn type_words(source: &Source, table: &Table<'_>, lines: &mut String) -> Result<(), String> {
    source.check_keys(table, &TYPE_KEYS)?;
    lines.extend([" ", source.optional_text(table, "scalar")?.unwrap_or("struct")]);
    if let Some(map) = table.get("map") {
        lines.extend([
            " ",
            one_of(source, map, &[("atomic", "atomic"), ("granular", "granular")])?,
        ]);
    }
    if source.is_set(table, "unpublished")? {
        lines.push_str(" unpublished");
    }
    for kind in table.get("kinds").map_or(Ok(Vec::new()), |kinds| source.texts(kinds))? {
        let _ = write!(lines, " kind({kind})");
    }
    for union in table.get("unions").map_or(Ok(&[][..]), |unions| source.list(unions))? {
        let table = source.table(union)?;
        source.check_keys(table, &["discriminator", "fields"])?;
        let fields = source.table(source.get(union, table, "fields")?)?;
        let pairs: Result<Vec<String>, String> = in_order(fields)
            .into_iter()
            .map(|(field, _, value)| Ok(format!("{field}={}", source.text(value)?)))
            .collect();
        let discriminator = source.optional_text(table, "discriminator")?.unwrap_or_default();
        let _ = write!(lines, " union({discriminator}:{})", pairs?.join(","));
    }
    lines.push('\n');
    for field in table.get("fields").map_or(Ok(&[][..]), |fields| source.list(fields))? {
        field_line(source, field, lines)?;
    }
    Ok(())
}

fn field_line(source: &Source, field: &Value<'_>, lines: &mut String) -> Result<(), String> {
    let table = source.table(field)?;
    source.check_keys(table, &[&FIELD_KEYS[..], &[DEFAULT]].concat())?;
    let text = |key: &str| source.text(source.get(field, table, key)?);
    let _ = write!(
        lines,
        "  {} {} {}",
        text("name")?,
        text("type")?,
        numbers(source, table)?
    );
    for key in FIELD_KEYS.iter().skip(3) {
        let Some(value) = table.get(*key) else {
            continue;
        };
        match *key {
            "omit" => lines.extend([" ", one_of(source, value, &[("never", "never"), ("zero", "zero")])?]),
            "list" => lines.extend([" ", one_of(source, value, &[("atomic", "atomic"), ("set", "set")])?]),
            "map" => {
                let words = [("atomic", "map-atomic"), ("granular", "map-granular")];
                lines.extend([" ", one_of(source, value, &words)?]);
            }
            "keys" => {
                let keys: Result<Vec<String>, String> =
                    source.list(value)?.iter().map(|key| key_word(source, key)).collect();
                let _ = write!(lines, " keys({})", keys?.join(","));
            }
            "merge-key" => {
                let _ = write!(lines, " merge-key({})", source.text(value)?);
            }
            "enum" => {
                let values: Vec<String> = source.texts(value)?.iter().map(|value| quoted(value)).collect();
                let _ = write!(lines, " enum({})", values.join(","));
            }
            flag if source.flag(value)? => lines.extend([" ", flag]),
            _ => {}
        }
    }
    if let Some(default) = table.get(DEFAULT) {
        let _ = write!(lines, " default={}", json(source, default)?);
    }
    lines.push('\n');
    Ok(())
}

/// Returns the numbers of a field: `2/1` is field 1 of the message in field 2, and `-` is no field.
fn numbers(source: &Source, table: &Table<'_>) -> Result<String, String> {
    let Some(value) = table.get("proto") else {
        return Ok("-".to_owned());
    };
    let number = |value: &Value<'_>| match value.get_ref() {
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        _ => Err(source.error(value, "this is no number")),
    };
    match value.get_ref() {
        DeValue::Array(path) => Ok(path.iter().map(number).collect::<Result<Vec<_>, _>>()?.join("/")),
        _ => number(value),
    }
}

/// Returns the word of a merge key: its name, or a table of name and default.
fn key_word(source: &Source, key: &Value<'_>) -> Result<String, String> {
    if let Some(name) = key.get_ref().as_str() {
        return Ok(name.to_owned());
    }
    let table = source.table(key)?;
    source.check_keys(table, &["name", DEFAULT])?;
    let name = source.text(source.get(key, table, "name")?)?;
    let default = json(source, source.get(key, table, DEFAULT)?)?;
    Ok(format!("{name}={default}"))
}

/// Returns the word of a text that is one of those in `words`.
fn one_of(source: &Source, value: &Value<'_>, words: &[(&str, &'static str)]) -> Result<&'static str, String> {
    let text = source.text(value)?;
    let found = words.iter().find(|(known, _)| *known == text);
    found
        .map(|(_, word)| *word)
        .ok_or_else(|| source.error(value, &format!("unknown value `{text}`")))
}

/// Returns a value as JSON.
fn json(source: &Source, value: &Value<'_>) -> Result<String, String> {
    Ok(match value.get_ref() {
        DeValue::String(text) => json_text(text),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Array(items) => {
            let items: Result<Vec<String>, String> = items.iter().map(|item| json(source, item)).collect();
            format!("[{}]", items?.join(","))
        }
        DeValue::Table(table) => {
            let pairs: Result<Vec<String>, String> = in_order(table)
                .into_iter()
                .map(|(key, _, value)| Ok(format!("{}:{}", json_text(key), json(source, value)?)))
                .collect();
            format!("{{{}}}", pairs?.join(","))
        }
        _ => return Err(source.error(value, "this is no text, integer, boolean, list or table")),
    })
}

/// Returns a text in quotes if it has blanks, commas or quotes.
fn quoted(text: &str) -> String {
    match text.contains([' ', ',', '"']) {
        true => json_text(text),
        false => text.to_owned(),
    }
}

/// Returns a text in quotes, escaped as in JSON.
fn json_text(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<String, String> {
        type_lines(&Source::new("t.toml", text))
    }

    #[test]
    fn all_keys_are_words_of_the_line() {
        let text = r#"
[packages]
"a.v1" = "io.example.a.v1"

["a.v1.Port"]
map = "atomic"
unpublished = true
kinds = ["v1/Port", "a/v1/Port"]
unions = [{ discriminator = "type", fields = { udp = "UDP", tcp = "TCP" } }]
fields = [
    { name = "number", type = "int32", proto = 1, required = true, pointer = false, omit = "never" },
    { name = "protocol", type = "string", proto = [2, 3], enum = ["", "TCP", "UDP 8"], published = true, default = "a\"b" },
    { name = "ports", type = "[]a.v1.Port", keys = ["n", { name = "p", default = "TCP" }], merge = true, merge-key = "n" },
    { name = "extra", type = "{}string", proto = 4, map = "granular", default = { b = [1, true], a = {} } },
]

["a.v1.Time"]
scalar = "time"
"#;
        let expected = r#"package a.v1 io.example.a.v1

type a.v1.Port struct atomic unpublished kind(v1/Port) kind(a/v1/Port) union(type:udp=UDP,tcp=TCP)
  number int32 1 required never
  protocol string 2/3 enum(,TCP,"UDP 8") published default="a\"b"
  ports []a.v1.Port - merge keys(n,p="TCP") merge-key(n)
  extra {}string 4 map-granular default={"b":[1,true],"a":{}}

type a.v1.Time time
"#;
        assert_eq!(lines(text).as_deref(), Ok(expected));
    }

    #[test]
    fn error_names_file_and_line() {
        for (text, error) in [
            ("[a]\nfields = [\n  { name = \"x\" }]", "t.toml:3: there is no `type`"),
            ("[a]\nodd = 1", "t.toml:2: unknown key `odd`"),
            ("[a]\nmap = \"odd\"", "t.toml:2: unknown value `odd`"),
            (
                "[a]\nfields = [{ name = \"x\", type = \"string\", default = 1.5 }]",
                "t.toml:2: this is no text, integer, boolean, list or table",
            ),
            ("[\"a b\"]", "t.toml:1: a name with a blank"),
        ] {
            assert_eq!(lines(text).unwrap_err(), error);
        }
    }
}
