//! Tables of facts that are kept by hand, as the lines that the crate reads.

use std::path::Path;

use holdfast_table_source::{Source, Table, Value};

/// Keys of a gate after its stage and its default, in the order of the line.
const GATE_KEYS: [&str; 7] = ["locked", "needs", "in", "always", "absent", "lacks", "because"];

/// Returns a line for each feature gate: `NAME STAGE on|off [locked] [needs GATES] [in COMPONENTS] [always|absent|lacks|because TEXT]`.
pub(crate) fn features(tables: &Path) -> Result<String, String> {
    let source = crate::read(tables, "features.toml")?;
    let mut lines = String::new();
    for (name, gate) in source.parse()? {
        let table = source.table(&gate)?;
        source.check_keys(table, &[&["stage", "on"], &GATE_KEYS[..]].concat())?;
        let stage = source.text(source.get(&gate, table, "stage")?)?;
        let is_on = source.flag(source.get(&gate, table, "on")?)?;
        let mut line = format!("{} {stage} {}", name.get_ref(), if is_on { "on" } else { "off" });
        for (key, value) in GATE_KEYS.iter().filter_map(|key| Some((*key, table.get(*key)?))) {
            let argument = match key {
                "locked" => source.flag(value)?.then(String::new),
                "needs" | "in" => Some(format!(" {}", source.texts(value)?.join(","))),
                _ => Some(format!(" {}", source.text(value)?)),
            };
            line.extend(argument.map(|argument| format!(" {key}{argument}")));
        }
        lines.extend([line.as_str(), "\n"]);
    }
    Ok(lines)
}

/// Returns a line for each older version: the version that has its types, itself, and its kinds.
pub(crate) fn older_kinds(tables: &Path) -> Result<String, String> {
    let source = crate::read(tables, "older_kinds.toml")?;
    let mut lines = String::new();
    for (like, versions) in source.parse()? {
        for (version, kinds) in source.table(&versions)? {
            lines += &kinds_line(&source, &format!("{} {}", like.get_ref(), version.get_ref()), kinds)?;
        }
    }
    Ok(lines)
}

/// Returns a line for each version that has kinds which are not served: the version and the kinds.
pub(crate) fn unserved(tables: &Path) -> Result<String, String> {
    let source = crate::read(tables, "unserved.toml")?;
    let table: Table<'_> = source.parse()?;
    table
        .iter()
        .map(|(version, kinds)| kinds_line(&source, version.get_ref(), kinds))
        .collect()
}

fn kinds_line(source: &Source, versions: &str, kinds: &Value<'_>) -> Result<String, String> {
    Ok(format!("{versions} {}\n", source.texts(kinds)?.join(" ")))
}
