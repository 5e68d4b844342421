//! `cargo xtask generate`: writes the tables of the built-in kinds.
//!
//! Types come from the OpenAPI v2 document of a kube-apiserver. Properties that it lacks (protobuf numbers, pointers,
//! fields that JSON omits, defaults) come from the facts, checked against the sources of the crates `k8s-pb` and
//! `k8s-openapi`. Each disagreement is reported; the facts win. The build adds the validation tags, which are
//! maintained by hand in `tags.toml` next to the tables.

mod facts;
mod messages;
mod openapi;
mod reference_crates;
mod resources;
mod toml;
mod type_table;
mod types;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conformance::root;

use crate::commands::{say, shared};

/// The options of the command. Inputs that are not named are looked for below `facts` in the shared folder.
#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// OpenAPI v2 document of a kube-apiserver 1.36; the v3 documents are next to it in `v3`.
    #[arg(long)]
    openapi: Option<PathBuf>,
    /// Folder of the facts about kinds.
    #[arg(long)]
    facts: Option<PathBuf>,
    /// Folder of the discovery documents.
    #[arg(long)]
    discovery: Option<PathBuf>,
    /// Folder of the documents of a kube-apiserver 1.36 that serves everything (`--runtime-config=api/all=true
    /// --feature-gates=AllAlpha=true,AllBeta=true`): `v2.json`, and those of v3 in `v3`. Only the types of versions
    /// that are off by default are written, to one file for each version of a group.
    #[arg(long)]
    all: Option<PathBuf>,
    /// Output folder of the tables.
    #[arg(long, default_value = "crates/kind-tables/tables")]
    out: PathBuf,
    /// Write nothing; fail if the existing tables differ from the generated ones.
    #[arg(long)]
    check: bool,
}

const MARK: &str = "# Written by `cargo xtask generate`; change the generator, not this file.\n";

/// Folder, next to the tables, of the types of versions that are off by default.
const MORE: &str = "more";

/// Makes the tables and writes them.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let file = |name: &str| root().join(&arguments.out).join(name);
    let input = |named: &Option<PathBuf>, usual: &str| {
        let shared = || shared().map(|folder| folder.join("facts").join(usual));
        named
            .clone()
            .or_else(shared)
            .with_context(|| format!("no shared folder with facts/{usual}"))
    };
    if let Some(all) = &arguments.all {
        return more_types(
            &input(&arguments.facts, "kinds")?,
            all,
            &input(&arguments.discovery, "discovery")?,
            &file,
        );
    }
    let facts = facts::Facts::read(
        &input(&arguments.facts, "kinds")?,
        &input(&arguments.openapi, "openapi/v2.json")?,
        &input(&arguments.discovery, "discovery")?,
    )?;
    let mut disagreements = Vec::new();
    let table = types::table(&facts, &mut disagreements)?;
    reference_crates::check(&table, &facts, &mut disagreements)?;
    for disagreement in &disagreements {
        say(disagreement);
    }
    say(&format!(
        "{} types, {} fields, {} disagreements between sources",
        table.len(),
        table.iter().map(|(_, of)| of.fields().len()).sum::<usize>(),
        disagreements.len()
    ));
    let files = [
        ("types.toml", types::text(&table)),
        ("resources.toml", resources::text(&facts)?),
    ];
    for (name, text) in files {
        write_or_check(&file(name), &format!("{MARK}{text}"), arguments.check)?;
    }
    Ok(())
}

/// Writes the types of the versions that are off by default, a file for each version of a group.
fn more_types(kinds: &Path, all: &Path, discovery: &Path, file: &dyn Fn(&str) -> PathBuf) -> anyhow::Result<()> {
    let facts = facts::Facts::read(kinds, &all.join("v2.json"), discovery)?.with_unserved(kinds)?;
    let mut disagreements = Vec::new();
    let table = types::table(&facts, &mut disagreements)?;
    let known = std::fs::read_to_string(file("types.toml"))?;
    for disagreement in disagreements
        .iter()
        .filter(|text| text.contains("beta") || text.contains("alpha"))
    {
        say(disagreement);
    }
    for (package, text) in types::beyond(&known, &types::text(&table)) {
        write_or_check(
            &file(&format!("{MORE}/{package}.toml")),
            &format!("{MARK}{text}"),
            false,
        )?;
    }
    Ok(())
}

/// Writes the file, or with `check` looks whether it would change.
fn write_or_check(path: &Path, text: &str, check: bool) -> anyhow::Result<()> {
    if check {
        let there = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        anyhow::ensure!(there == text, "{} is not what would be generated", path.display());
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generating_again_gives_the_same_tables() {
        if shared().is_none() {
            say("passed over: no shared folder");
            return;
        }
        let arguments = Arguments {
            out: PathBuf::from("crates/kind-tables/tables"),
            check: true,
            ..Arguments::default()
        };
        run(&arguments).unwrap();
    }
}
