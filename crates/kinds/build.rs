#![forbid(unsafe_code)]
//! Generates an enum of the rules of each set that validation tags name, so that the compiler compares them with the
//! rules in code.

#[path = "../kind-tables/build/rules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rules::{RuleSets, Rules, variant};

const TABLES: &str = "../kind-tables/tables";

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["build.rs", "../kind-tables/build/rules.rs", TABLES] {
        writeln!(std::io::stdout(), "cargo::rerun-if-changed={path}")?;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("rules.rs"), enums(&rules::read(Path::new(TABLES))?)?)?;
    Ok(())
}

/// Returns the enums of all sets.
fn enums(sets: &RuleSets) -> Result<String, fmt::Error> {
    let (values, changes) = rules::listed(sets);
    let numbers: BTreeMap<_, usize> = (values.iter().map(|name| (false, *name)))
        .chain(changes.iter().map(|name| (true, *name)))
        .zip(0..)
        .collect();
    let mut text = String::new();
    for (set, of) in sets {
        let of_sets = |rules: fn(&rules::RuleSet) -> &Rules| {
            let has_rules = |name: &&String| sets.get(*name).is_some_and(|set| !rules(set).is_empty());
            of.includes.iter().filter(has_rules).map(String::as_str).collect()
        };
        let number = |is_change, rule| {
            numbers
                .get(&(is_change, (set.as_str(), rule)))
                .copied()
                .unwrap_or_default()
        };
        let (includes, changes) = (of_sets(|set| &set.values), of_sets(|set| &set.changes));
        write_enum(&mut text, set, "Rule", &of.values, &includes, |rule| {
            number(false, rule)
        })?;
        write_enum(&mut text, set, "Change", &of.changes, &changes, |rule| {
            number(true, rule)
        })?;
    }
    Ok(text)
}

/// Writes one enum, unless it is empty.
fn write_enum<'r>(
    text: &mut String,
    set: &str,
    suffix: &str,
    rules: &'r Rules,
    includes: &Vec<&str>,
    number: impl Fn(&'r str) -> usize,
) -> fmt::Result {
    if rules.is_empty() && includes.is_empty() {
        return Ok(());
    }
    let checks = if suffix == "Rule" { "values" } else { "changes" };
    writeln!(text, "/// Rules of {checks} of the set `{set}`.")?;
    writeln!(text, "#[derive(Clone, Copy, Debug)]\npub(crate) enum {set}{suffix} {{")?;
    for (rule, places) in rules {
        writeln!(
            text,
            "    /// `@{rule}` of {}.\n    {},",
            places.join(", "),
            variant(rule)
        )?;
    }
    for other in includes {
        writeln!(
            text,
            "    /// A rule of the set `{other}`.\n    {other}({other}{suffix}),"
        )?;
    }
    writeln!(text, "}}\n\nimpl RuleSet for {set}{suffix} {{")?;
    writeln!(
        text,
        "    fn from_id(id: RuleId) -> Option<Self> {{\n        Some(match id.number() {{"
    )?;
    for rule in rules.keys() {
        writeln!(text, "            {} => Self::{},", number(rule), variant(rule))?;
    }
    let others: Vec<String> = includes
        .iter()
        .map(|other| format!("{other}{suffix}::from_id(id).map(Self::{other})"))
        .collect();
    let rest = if others.is_empty() {
        "None".to_owned()
    } else {
        others.join(".or_else(|| ") + &")".repeat(others.len() - 1)
    };
    writeln!(text, "            _ => return {rest},\n        }})\n    }}\n}}\n")
}
