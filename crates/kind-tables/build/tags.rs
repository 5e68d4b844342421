//! Validation tags of types, and the tables of types with these tags.
//!
//! ```toml
//! ["networking.v1.IngressSpec"]
//! rules = "Ingress"
//! order = ["@backends", "defaultBackend", "rules", "tls", "ingressClassName"]
//! fields.ingressClassName = ["optional", { format = "k8s-long-name" }]
//! ```
//! A tag is its name, or a table of its name and its value. Other keys of that table are further arguments: `detail`,
//! `shortCircuit`, `inPlace`, `withHolder` and `unless`. In the tables of types, tags have the form
//! `+minimum(1,"must be positive")`.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::DeValue;

use holdfast_table_source::{Source, Table, Value};

/// Keys of a tag that are no name, with the text before their value.
const ARGUMENTS: [(&str, &str); 5] = [
    ("detail", ","),
    ("shortCircuit", ",shortCircuit"),
    ("inPlace", ",inPlace"),
    ("withHolder", ",withHolder"),
    ("unless", ",unless="),
];

/// Validation tags of all types in a file.
#[derive(Default)]
pub(crate) struct TagTable {
    /// Sets of rules that a set includes, with file and line.
    pub(crate) includes: BTreeMap<String, (String, Vec<String>)>,
    /// Tags by type.
    pub(crate) types: BTreeMap<String, Tags>,
}

/// Validation tags of a type and of its fields.
pub(crate) struct Tags {
    /// File and line.
    pub(crate) place: String,
    /// Set of the rules that the orders name.
    pub(crate) rules: Option<String>,
    /// Order of the checks of values.
    pub(crate) order: Vec<String>,
    /// Order of the checks of changes.
    pub(crate) changes: Vec<String>,
    /// Name of the members of the union.
    union: Option<String>,
    /// File and line of each field, and its tags as in a table of types.
    pub(crate) fields: BTreeMap<String, (String, String)>,
}

/// Reads the tags in a file.
///
/// # Errors
/// If a value has an unknown form, with its file and line.
pub(crate) fn read(tables: &Path, name: &str) -> Result<TagTable, String> {
    let source = crate::read(tables, name)?;
    let mut tag_table = TagTable::default();
    for (key, value) in source.parse()? {
        let name = key.get_ref().to_string();
        let table = source.table(&value)?;
        if name == "includes" {
            for (set, others) in table {
                let place = source.place(set.span().start);
                tag_table
                    .includes
                    .insert(set.get_ref().to_string(), (place, source.texts(others)?));
            }
        } else {
            let place = source.place(key.span().start);
            tag_table.types.insert(name, tags(&source, table, place)?);
        }
    }
    Ok(tag_table)
}

fn tags(source: &Source, table: &Table<'_>, place: String) -> Result<Tags, String> {
    let mut tags = Tags {
        place,
        rules: None,
        order: Vec::new(),
        changes: Vec::new(),
        union: None,
        fields: BTreeMap::new(),
    };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "rules" => tags.rules = Some(source.text(value)?.to_owned()),
            "order" => tags.order = source.texts(value)?,
            "changes" => tags.changes = source.texts(value)?,
            "union" => tags.union = Some(source.text(value)?.to_owned()),
            "fields" => {
                for (name, value) in source.table(value)? {
                    let place = source.place(name.span().start);
                    tags.fields
                        .insert(name.get_ref().to_string(), (place, field_tags(source, value)?));
                }
            }
            _ => return Err(source.error_at(key.span().start, "this is no tag of a type")),
        }
    }
    Ok(tags)
}

/// Returns the tags of a field as in a table of types.
fn field_tags(source: &Source, value: &Value<'_>) -> Result<String, String> {
    let tags = value
        .get_ref()
        .as_array()
        .ok_or_else(|| source.error(value, "this is no list of tags"))?;
    let texts = tags.iter().map(|tag| Ok(format!(" +{}", tag_text(source, tag)?)));
    texts.collect()
}

fn tag_text(source: &Source, tag: &Value<'_>) -> Result<String, String> {
    if let Some(name) = tag.get_ref().as_str() {
        return Ok(name.to_owned());
    }
    let table = source.table(tag)?;
    let is_argument = |key: &str| ARGUMENTS.iter().any(|(argument, _)| *argument == key);
    let mut names = table.iter().filter(|(key, _)| !is_argument(key.get_ref()));
    let (Some((name, value)), None) = (names.next(), names.next()) else {
        return Err(source.error(tag, "a tag has one name"));
    };
    if ["each", "keys"].contains(&name.get_ref().as_ref()) {
        return Ok(format!("{}:{}", name.get_ref(), tag_text(source, value)?));
    }
    let mut inside = value_text(source, value)?;
    for (argument, before) in ARGUMENTS {
        match table.get(argument) {
            None => {}
            Some(flag) if flag.get_ref().as_bool() == Some(true) => inside += before,
            Some(value) => inside.extend([before.to_owned(), value_text(source, value)?]),
        }
    }
    Ok(format!("{}({inside})", name.get_ref()))
}

fn value_text(source: &Source, value: &Value<'_>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(quoted(text)),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Array(items) => {
            let texts: Result<Vec<String>, String> = items.iter().map(|item| value_text(source, item)).collect();
            Ok(texts?.join(","))
        }
        _ => Err(source.error(value, "this is no text, number or list")),
    }
}

/// Returns a text in quotes if it is not a plain word.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./*".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

impl TagTable {
    /// Returns a table of types with the tags of the types in it.
    pub(crate) fn joined(&self, types: &str) -> String {
        let mut out = String::with_capacity(2 * types.len());
        let mut tags = None;
        for line in types.lines() {
            let added = if let Some(head) = line.strip_prefix("type ") {
                tags = self.types.get(first_word(head));
                tags.map(Tags::text)
            } else {
                let name = line.strip_prefix("  ").map(first_word);
                name.and_then(|name| Some(tags?.fields.get(name)?.1.clone()))
            };
            let (before, default) = line.split_at(line.find(" default=").unwrap_or(line.len()));
            out.extend([before, added.as_deref().unwrap_or_default(), default, "\n"]);
        }
        out
    }
}

impl Tags {
    /// Returns the tags of the type itself as in a table of types.
    fn text(&self) -> String {
        let mut text = String::new();
        text.extend(self.rules.iter().map(|set| format!(" +rules({set})")));
        for (name, order) in [("order", &self.order), ("changes", &self.changes)] {
            if !order.is_empty() {
                text += &format!(" +{name}({})", order.join(","));
            }
        }
        text.extend(self.union.iter().map(|union| format!(" +union({})", quoted(union))));
        text
    }
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}
