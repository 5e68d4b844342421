//! Descriptions of the columns in `columns.toml`: their own text, or that of the field that they print.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use holdfast_table_source::{Source, Table};
use serde_json::Value;

type Definitions = BTreeMap<String, Value>;

/// Returns the descriptions, then the columns, each with the number of its description; see `Columns` of the crate. `resources` are
/// the lines of the tables of resources, which map plural names to kinds.
pub(crate) fn described(definitions: &Definitions, resources: &str) -> Result<String, Box<dyn Error>> {
    let columns = column_lines(Path::new("tables"))?;
    let (mut descriptions, mut body) = (Vec::<String>::new(), String::new());
    let mut root = None;
    for line in columns.lines() {
        let Some(column) = line.strip_prefix("  ") else {
            if let Some((api_version, plural)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
                root = definition(definitions, resources, api_version, plural);
                writeln!(body, "\n{line}")?;
            }
            continue;
        };
        let mut parts: Vec<&str> = column.splitn(5, '|').map(str::trim).collect();
        let words = if parts.len() == 5 { parts.pop() } else { None };
        let rule = parts.last().copied().unwrap_or_default();
        let found = match words {
            None => of_field(definitions, root, first_path(rule)),
            Some(words) => match words.strip_prefix("of ") {
                Some(path) => of_field(definitions, root, path),
                None => Some(words.to_owned()),
            },
        };
        let description = found.ok_or_else(|| format!("no description: {column}"))?;
        let known = descriptions.iter().position(|known| *known == description);
        let number = known.unwrap_or(descriptions.len());
        if known.is_none() {
            descriptions.push(description);
        }
        writeln!(body, "  {} | {number}", parts.join(" | "))?;
    }
    let mut table = String::new();
    for description in &descriptions {
        writeln!(table, "= {}", super::escape(description))?;
    }
    Ok(table + &body)
}

/// Returns a line for each resource with columns, and below it a line for each column: `HEADING | TYPE[:FORMAT] | PRIORITY |
/// RULE [| WORDS]`. The words are `of PATH` or a description.
fn column_lines(tables: &Path) -> Result<String, String> {
    let source = crate::read(tables, "columns.toml")?;
    let (mut paths, mut lines) = (Vec::new(), String::new());
    for (name, value) in &source.parse()? {
        let table = source.table(value)?;
        if name.get_ref() == "paths" {
            for (name, value) in table {
                paths.push((name.get_ref().to_string(), source.text(value)?.to_owned()));
            }
            continue;
        }
        source.check_keys(table, &["columns"])?;
        lines += &format!("\n{}\n", name.get_ref());
        let columns = source.get(value, table, "columns")?;
        for column in columns.get_ref().as_array().into_iter().flatten() {
            lines += &column_line(&source, column, source.table(column)?)?;
        }
    }
    Ok(paths
        .iter()
        .fold(lines, |lines, (name, paths)| lines.replace(name, paths)))
}

fn column_line(
    source: &Source,
    column: &holdfast_table_source::Value<'_>,
    table: &Table<'_>,
) -> Result<String, String> {
    source.check_keys(table, &["heading", "type", "priority", "rule", "of", "description"])?;
    let text = |key| source.text(source.get(column, table, key)?);
    let priority = table
        .get("priority")
        .and_then(|value| value.get_ref().as_integer())
        .map_or("0", |priority| priority.as_str());
    let (heading, column_type, rule) = (text("heading")?, text("type")?, text("rule")?);
    let words = match (table.get("of"), table.get("description")) {
        (Some(path), None) => format!(" | of {}", source.text(path)?),
        (None, Some(words)) => format!(" | {}", source.text(words)?),
        (None, None) => String::new(),
        (Some(path), Some(_)) => return Err(source.error(path, "a column has `of` or `description`")),
    };
    Ok(format!("  {heading} | {column_type} | {priority} | {rule}{words}\n"))
}

/// Returns the definition of the kind of a resource. Descriptions for all resources are those of any kind's metadata.
fn definition<'d>(definitions: &'d Definitions, resources: &str, api_version: &str, plural: &str) -> Option<&'d Value> {
    let (api_version, plural) = if plural == "*" {
        ("v1", "configmaps")
    } else {
        (api_version, plural)
    };
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("core", api_version));
    let kind = if plural == "scale" {
        "Scale"
    } else {
        kind(resources, group, plural)?
    };
    // The package of one group has a different name.
    let package = match group {
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next()?,
    };
    let suffix = format!(".{package}.{version}.{kind}");
    let found = definitions.iter().find(|(name, _)| name.ends_with(&suffix));
    found.map(|(_, definition)| definition)
}

fn kind<'r>(resources: &'r str, group: &str, plural: &str) -> Option<&'r str> {
    let mut here = false;
    resources.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["group", name, ..] => here = name == group,
            ["resource", name, _, kind, ..] if here && name == plural => return Some(kind),
            _ => {}
        }
        None
    })
}

/// Returns the path at the start of a rule, or the first of several.
fn first_path(rule: &str) -> &str {
    let argument = rule.split_whitespace().nth(1).unwrap_or_default();
    argument.split(',').next().unwrap_or_default()
}

/// Returns the description of the field at `path`, or of the last field on the path that has one: values within maps
/// have none.
fn of_field(definitions: &Definitions, root: Option<&Value>, path: &str) -> Option<String> {
    let (mut schema, mut words) = (root?, None);
    for name in path.split('.') {
        while let Some(within) = within(definitions, schema) {
            schema = within;
        }
        let Some(field) = schema["properties"].get(name) else {
            break;
        };
        words = field["description"].as_str().or(words);
        schema = field;
    }
    words.map(|words| {
        words
            .split("\n\nPossible enum values:")
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// Returns the schema that a schema refers to, or that of its items.
fn within<'d>(definitions: &'d Definitions, schema: &'d Value) -> Option<&'d Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return definitions.get(name.rsplit('/').next()?);
    }
    let all = schema["allOf"].get(0).or_else(|| schema["anyOf"].get(0));
    all.or_else(|| schema.get("items"))
}
