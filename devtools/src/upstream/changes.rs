//! Changes between two releases, as a list in Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::fields::{self, ByPackage, split};
use super::inventory::{Flag, Gate, Inventory, Metric, Plugin, Stage, Symbol};

/// Longest text of a declaration, in lines, whose changed lines are counted one by one.
const MAX_COUNTED_LINES: usize = 3000;

/// Parts of the names of generated functions. They follow from tags and types, which have their own sections.
const GENERATED: [&str; 7] = [
    "Convert_",
    "DeepCopy",
    "OpenAPIModelName",
    "RegisterValidations",
    "SetObjectDefaults_",
    "SwaggerDoc",
    "Validate_",
];

/// Returns the list of changes. `names` are the declarations that this repository mirrors.
pub(super) fn list(before: &Inventory, after: &Inventory, names: &BTreeSet<&str>) -> String {
    let mut text = String::new();
    grouped(&mut text, "Types and fields", &fields::fields(before, after));
    grouped(&mut text, "Tags of types and fields", &fields::tags(before, after));
    flat(&mut text, "Feature gates", &gates(before, after));
    grouped(&mut text, "Mirrored functions", &mirrored(before, after, names));
    grouped(
        &mut text,
        "New functions next to mirrored ones",
        &new_neighbours(before, after, names),
    );
    flat(&mut text, "Default roles", &roles(before, after));
    flat(&mut text, "Flags", &flags(before, after));
    flat(&mut text, "Metrics", &metrics(before, after));
    flat(&mut text, "Admission plugins", &plugins(before, after));
    flat(&mut text, "Not compared", &unresolved(after));
    text
}

/// Writes a section of one list.
fn flat(text: &mut String, title: &str, lines: &[String]) {
    // Writes to a string cannot fail.
    let _ = writeln!(text, "## {title}\n");
    write_lines(text, lines);
}

/// Writes a section with one list for each package.
fn grouped(text: &mut String, title: &str, groups: &ByPackage<'_>) {
    let _ = writeln!(text, "## {title}\n");
    if groups.is_empty() {
        write_lines(text, &[]);
    }
    for (package, lines) in groups {
        let _ = writeln!(text, "### `{package}`\n");
        write_lines(text, lines);
    }
}

fn write_lines(text: &mut String, lines: &[String]) {
    if lines.is_empty() {
        text.push_str("Nothing.\n");
    }
    for line in lines {
        let _ = writeln!(text, "- {line}");
    }
    text.push('\n');
}

/// Returns a line for each entry that only one map has or that differs.
fn differences<T: PartialEq>(
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
    describe: impl Fn(&T) -> String,
    change: impl Fn(&T, &T) -> String,
) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let line = |name: &String| match (before.get(name), after.get(name)) {
        (None, Some(new)) => Some(format!("`{name}` added: {}", describe(new))),
        (Some(_), None) => Some(format!("`{name}` removed")),
        (Some(old), Some(new)) if old != new => Some(format!("`{name}`: {}", change(old, new))),
        _ => None,
    };
    names.into_iter().filter_map(line).collect()
}

fn gates(before: &Inventory, after: &Inventory) -> Vec<String> {
    let describe = |gate: &Gate| format!("{} (`{}`)", stages(&gate.stages), gate.package);
    let change = |old: &Gate, new: &Gate| match old.stages == new.stages {
        true => format!("moved from `{}` to `{}`", old.package, new.package),
        false => format!("{} → {}", stages(&old.stages), stages(&new.stages)),
    };
    differences(&before.gates, &after.gates, describe, change)
}

fn stages(stages: &[Stage]) -> String {
    let shown = stages.iter().map(|stage| {
        let default = if stage.default { "on" } else { "off" };
        let locked = if stage.locked { ", locked" } else { "" };
        let minimum = match stage.minimum.is_empty() {
            true => String::new(),
            false => format!(" from compatibility version {}", stage.minimum),
        };
        format!("{} {} {default}{locked}{minimum}", stage.version, stage.stage)
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Returns the mirrored declarations that changed.
fn mirrored<'a>(before: &'a Inventory, after: &'a Inventory, names: &BTreeSet<&'a str>) -> ByPackage<'a> {
    let mut changes = ByPackage::new();
    for symbol in names {
        let (package, name) = split(symbol);
        let line = match (before.symbols.get(*symbol), after.symbols.get(*symbol)) {
            (Some(_), None) => format!("`{name}` removed"),
            (Some(old), Some(new)) if old.hash != new.hash => changed_lines(name, old, new),
            _ => continue,
        };
        changes.entry(package).or_default().push(line);
    }
    changes
}

fn changed_lines(name: &str, old: &Symbol, new: &Symbol) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.text.lines().collect(), new.text.lines().collect());
    if old.len().max(new.len()) > MAX_COUNTED_LINES {
        return format!("`{name}` changed");
    }
    let common = common_lines(&old, &new);
    format!("`{name}` changed: +{} −{}", new.len() - common, old.len() - common)
}

/// Returns the length of the longest common subsequence.
fn common_lines(old: &[&str], new: &[&str]) -> usize {
    let mut row = vec![0; new.len() + 1];
    for left in old {
        let mut diagonal = 0;
        for (index, right) in new.iter().enumerate() {
            let above = row[index + 1];
            row[index + 1] = match left == right {
                true => diagonal + 1,
                false => above.max(row[index]),
            };
            diagonal = above;
        }
    }
    row[new.len()]
}

/// Returns the new functions of packages with a mirrored function: a new check is often among them.
fn new_neighbours<'a>(before: &'a Inventory, after: &'a Inventory, names: &BTreeSet<&'a str>) -> ByPackage<'a> {
    let packages: BTreeSet<&str> = names.iter().map(|name| split(name).0).collect();
    let mut changes = ByPackage::new();
    for (symbol, new) in &after.symbols {
        let (package, name) = split(symbol);
        let is_generated = GENERATED.iter().any(|part| name.contains(part));
        if new.kind == "func" && !is_generated && packages.contains(package) && !before.symbols.contains_key(symbol) {
            changes.entry(package).or_default().push(format!("`{name}`"));
        }
    }
    changes
}

fn roles(before: &Inventory, after: &Inventory) -> Vec<String> {
    let list = |facts: Vec<&String>| {
        let facts: Vec<String> = facts.into_iter().map(|fact| format!("`{fact}`")).collect();
        facts.join(", ")
    };
    let change = |old: &BTreeSet<String>, new: &BTreeSet<String>| {
        let parts = [
            ("added", new.difference(old).collect::<Vec<_>>()),
            ("removed", old.difference(new).collect()),
        ];
        let shown: Vec<String> = parts
            .into_iter()
            .filter(|(_, facts)| !facts.is_empty())
            .map(|(verb, facts)| format!("{verb} {}", list(facts)))
            .collect();
        shown.join("; ")
    };
    differences(
        &before.roles,
        &after.roles,
        |facts| list(facts.iter().collect()),
        change,
    )
}

fn flags(before: &Inventory, after: &Inventory) -> Vec<String> {
    let describe = |flag: &Flag| {
        let mut parts = vec![match flag.value_type.is_empty() {
            true => "value of a type of its own".to_owned(),
            false => flag.value_type.clone(),
        }];
        if !flag.default.is_empty() {
            parts.push(format!("default `{}`", flag.default));
        }
        let tags = [("deprecated", flag.deprecated), ("hidden", flag.hidden)];
        parts.extend(tags.iter().filter(|(_, set)| *set).map(|(tag, _)| (*tag).to_owned()));
        format!("{} (`{}`)", parts.join(", "), flag.package)
    };
    differences(&before.flags, &after.flags, describe, |old, new| {
        format!("{} → {}", describe(old), describe(new))
    })
}

fn metrics(before: &Inventory, after: &Inventory) -> Vec<String> {
    let describe = |metric: &Metric| {
        let mut parts = vec![metric.value_type.clone(), metric.stability.clone()];
        if !metric.deprecated.is_empty() {
            parts.push(format!("deprecated since {}", metric.deprecated));
        }
        if !metric.labels.is_empty() {
            parts.push(format!("labels `{}`", metric.labels.join(", ")));
        }
        format!("{} (`{}`)", parts.join(", "), metric.package)
    };
    differences(&before.metrics, &after.metrics, describe, |old, new| {
        format!("{} → {}", describe(old), describe(new))
    })
}

fn plugins(before: &Inventory, after: &Inventory) -> Vec<String> {
    let by_name = |plugins: &[Plugin]| -> BTreeMap<String, (bool, String)> {
        let entries = plugins.iter().map(|plugin| {
            let facts = (plugin.on_by_default, plugin.package.clone());
            (plugin.name.clone(), facts)
        });
        entries.collect()
    };
    let (old, new) = (by_name(&before.plugins), by_name(&after.plugins));
    let describe = |(on, package): &(bool, String)| {
        let default = if *on { "on" } else { "off" };
        format!("{default} by default (`{package}`)")
    };
    let mut lines = differences(&old, &new, describe, |old, new| {
        format!("{} → {}", describe(old), describe(new))
    });
    let shared = |plugins: &[Plugin]| -> Vec<String> {
        let names = plugins.iter().map(|plugin| plugin.name.clone());
        names
            .filter(|name| old.contains_key(name) && new.contains_key(name))
            .collect()
    };
    let order = shared(&after.plugins);
    if shared(&before.plugins) != order {
        lines.push(format!("order: {}", order.join(", ")));
    }
    lines
}

/// Returns the kinds of declarations whose names are computed at run time, with the packages to read.
fn unresolved(after: &Inventory) -> Vec<String> {
    let lines = after.unresolved.iter().map(|(kind, packages)| {
        let packages: Vec<String> = packages.iter().map(|package| format!("`{package}`")).collect();
        format!("computed names of the kind {kind}: {}", packages.join(", "))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_keep_their_order() {
        assert_eq!(common_lines(&["a", "b", "c"], &["a", "x", "c"]), 2);
        assert_eq!(common_lines(&["a", "b"], &["b", "a"]), 1);
        assert_eq!(common_lines(&[], &["a"]), 0);
    }

    #[test]
    fn stages_name_version_stage_and_default() {
        let stage = |version: &str, default, minimum: &str| Stage {
            version: version.to_owned(),
            default,
            stage: "Beta".to_owned(),
            locked: default,
            minimum: minimum.to_owned(),
        };
        let text = stages(&[stage("1.36", false, ""), stage("1.37", true, "1.36")]);
        assert_eq!(
            text,
            "1.36 Beta off; 1.37 Beta on, locked from compatibility version 1.36"
        );
    }
}
