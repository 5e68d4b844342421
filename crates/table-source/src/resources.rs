//! Resources of the built-in groups.
//!
//! ```toml
//! [[groups]]
//! name = "apps"
//! versions = ["v1"]
//!
//! [[groups.resources]]
//! name = "deployments"
//! singular = "deployment"
//! kind = "Deployment"
//! scope = "namespaced"
//!
//! [[groups.resources.versions]]
//! name = "v1"
//! verbs = ["create", "get"]
//! subresources = [
//!     { name = "status", kind = "apps/v1/Deployment", verbs = ["get"], reset = ["spec"] },
//! ]
//! ```
//! Groups, resources and versions are in the order of discovery. A resource of a later table that an earlier one has gets more versions.

use std::fmt::Write as _;

use crate::source::{Source, Table, Value};

/// Keys of a resource that have one line each, in the order of the lines, and true if the value is a list.
const RESOURCE_KEYS: [(&str, bool); 9] = [
    ("short-names", true),
    ("categories", true),
    ("storage", false),
    ("names", false),
    ("rules", true),
    ("garbage-collection", false),
    ("generation", false),
    ("field-selectors", true),
    ("feature", false),
];

/// Returns the lines of a table of resources, as `holdfast-kind-tables` reads them.
///
/// # Errors
/// If a value has an unknown form, with file and line.
pub fn resource_lines(source: &Source) -> Result<String, String> {
    let table = source.parse()?;
    source.check_keys(&table, &["groups"])?;
    let mut lines = String::new();
    for value in list(source, &table, "groups")? {
        let group = Row::new(source, value, &["name", "versions", "resources"])?;
        let _ = writeln!(lines, "\ngroup {} {}", group.text("name")?, group.joined("versions")?);
        for resource in list(source, group.table, "resources")? {
            resource_block(source, resource, &mut lines)?;
        }
    }
    Ok(lines)
}

fn resource_block(source: &Source, value: &Value<'_>, lines: &mut String) -> Result<(), String> {
    let mut keys = vec!["name", "singular", "kind", "scope", "versions"];
    keys.extend(RESOURCE_KEYS.map(|(key, _)| key));
    let resource = Row::new(source, value, &keys)?;
    lines.push_str("\nresource");
    for key in ["name", "singular", "kind", "scope"] {
        lines.extend([" ", resource.text(key)?]);
    }
    lines.push('\n');
    for (key, is_list) in RESOURCE_KEYS {
        let Some(value) = resource.table.get(key) else {
            continue;
        };
        let words = match key {
            "storage" => Row::new(source, value, &["prefix", "version", "encoding"])?
                .words(&["prefix", "version", "encoding"])?,
            "generation" => generation(source, value)?,
            _ if is_list => source.texts(value)?.join(","),
            _ => source.text(value)?.to_owned(),
        };
        let _ = writeln!(lines, "  {key} {words}");
    }
    for version in list(source, resource.table, "versions")? {
        version_lines(source, version, lines)?;
    }
    Ok(())
}

/// Returns the words of `"unmanaged"`, or of a table with `start`, `fields` and `subresources`.
fn generation(source: &Source, value: &Value<'_>) -> Result<String, String> {
    if let Some(word) = value.get_ref().as_str() {
        return Ok(word.to_owned());
    }
    let rule = Row::new(source, value, &["start", "fields", "subresources"])?;
    let mut words = format!("from-{}", rule.text("start")?);
    if let Some(fields) = source.joined_texts(rule.table, "fields")? {
        words.extend([" ", &fields]);
    }
    if let Some(subresources) = source.joined_texts(rule.table, "subresources")? {
        words.extend([" via ", &subresources]);
    }
    Ok(words)
}

fn version_lines(source: &Source, value: &Value<'_>, lines: &mut String) -> Result<(), String> {
    let keys = ["name", "verbs", "hash", "reset", "deprecated", "subresources"];
    let version = Row::new(source, value, &keys)?;
    let _ = write!(
        lines,
        "  version {} {}",
        version.text("name")?,
        version.joined("verbs")?
    );
    if let Some(hash) = source.optional_text(version.table, "hash")? {
        let _ = write!(lines, " hash({hash})");
    }
    version.reset(lines)?;
    if let Some(value) = version.table.get("deprecated") {
        let deprecated = Row::new(source, value, &["since", "removed", "replacement"])?;
        let _ = write!(
            lines,
            " deprecated({},{}",
            deprecated.text("since")?,
            deprecated.text("removed")?
        );
        if let Some(replacement) = source.optional_text(deprecated.table, "replacement")? {
            lines.extend([",", replacement]);
        }
        lines.push(')');
    }
    lines.push('\n');
    for value in list(source, version.table, "subresources")? {
        let subresource = Row::new(source, value, &["name", "kind", "verbs", "reset"])?;
        let words = subresource.words(&["name", "kind"])?;
        let _ = write!(lines, "    subresource {words} {}", subresource.joined("verbs")?);
        subresource.reset(lines)?;
        lines.push('\n');
    }
    Ok(())
}

/// A value that is a table with checked keys.
struct Row<'s, 'v, 't> {
    source: &'s Source,
    value: &'v Value<'t>,
    table: &'v Table<'t>,
}

impl<'s, 'v, 't> Row<'s, 'v, 't> {
    fn new(source: &'s Source, value: &'v Value<'t>, keys: &[&str]) -> Result<Self, String> {
        let table = source.table(value)?;
        source.check_keys(table, keys)?;
        Ok(Self { source, value, table })
    }

    fn text(&self, key: &str) -> Result<&'v str, String> {
        self.source.text(self.source.get(self.value, self.table, key)?)
    }

    /// Returns the texts of a list, joined by commas.
    fn joined(&self, key: &str) -> Result<String, String> {
        let value = self.source.get(self.value, self.table, key)?;
        Ok(self.source.texts(value)?.join(","))
    }

    /// Returns the texts of several keys, joined by blanks.
    fn words(&self, keys: &[&str]) -> Result<String, String> {
        let words: Result<Vec<&str>, String> = keys.iter().map(|key| self.text(key)).collect();
        Ok(words?.join(" "))
    }

    /// Adds the fields that a write resets: ` reset(a,b.c)`.
    fn reset(&self, lines: &mut String) -> Result<(), String> {
        if let Some(reset) = self.source.joined_texts(self.table, "reset")? {
            let _ = write!(lines, " reset({reset})");
        }
        Ok(())
    }
}

/// Returns the items of an optional list.
fn list<'v, 't>(source: &Source, table: &'v Table<'t>, key: &str) -> Result<&'v [Value<'t>], String> {
    table.get(key).map_or(Ok(&[]), |value| source.list(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_words_of_the_lines() {
        let text = r#"
[[groups]]
name = "a"
versions = ["v1", "v1beta1"]

[[groups.resources]]
name = "ports"
singular = "port"
kind = "Port"
scope = "cluster"
feature = "Ports"
storage = { prefix = "/registry/ports/", version = "a/v1", encoding = "json" }
generation = { start = "one", fields = ["spec"], subresources = ["resize", "scale"] }
short-names = ["po"]

[[groups.resources.versions]]
name = "v1beta1"
verbs = ["get", "list"]
hash = "x="
reset = ["status"]
deprecated = { since = "1.34", removed = "1.37", replacement = "a/v1/Port" }
subresources = [{ name = "status", kind = "a/v1/Port", verbs = ["get"], reset = ["metadata", "spec"] }]
"#;
        let expected = "
group a v1,v1beta1

resource ports port Port cluster
  short-names po
  storage /registry/ports/ a/v1 json
  generation from-one spec via resize,scale
  feature Ports
  version v1beta1 get,list hash(x=) reset(status) deprecated(1.34,1.37,a/v1/Port)
    subresource status a/v1/Port get reset(metadata,spec)
";
        assert_eq!(resource_lines(&Source::new("r.toml", text)).as_deref(), Ok(expected));
    }

    #[test]
    fn error_names_file_and_line() {
        let text = "[[groups]]\nname = \"a\"\nversions = []\n[[groups.resources]]\nplural = \"b\"\n";
        let error = resource_lines(&Source::new("r.toml", text)).unwrap_err();
        assert_eq!(error, "r.toml:5: unknown key `plural`");
    }
}
