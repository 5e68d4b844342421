//! `cargo xtask upstream`: compares two releases of Kubernetes, and checks the `upstream:` lines of this repository.
//!
//! A Go program in `devtools/upstream` parses the published modules of a release and prints an inventory. This command
//! compares two inventories. `docs/contributing/next-kubernetes-release.md` describes how to work with the list.

mod changes;
mod fields;
mod inventory;
mod lines;
mod page;
mod release;
mod roles;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::commands::say;
use inventory::Inventory;
use lines::UpstreamLine;
use release::Release;

/// Version that this repository follows.
const REFERENCE: &str = "v1.36.3";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Release that the code mirrors: a version, or a folder that contains the unpacked modules.
    #[arg(long, value_name = "RELEASE", default_value = REFERENCE)]
    from: String,
    /// Release to compare with: a version, or a folder that contains the unpacked modules.
    #[arg(long, value_name = "RELEASE", required_unless_present = "check")]
    to: Option<String>,
    /// Check that each `upstream:` line of the code names a declaration of the release `--from`. Modules that are not
    /// in Go's module cache are not downloaded.
    #[arg(long, conflicts_with = "to")]
    check: bool,
    /// Write the list to docs/contributing/kubernetes-MINOR.md instead of printing it.
    #[arg(long, conflicts_with_all = ["check", "show"])]
    write: bool,
    /// Print the difference in the text of one declaration, such as `pkg/apis/apps/validation#ValidateDeploymentSpec`.
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    show: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let lines = lines::of_repository()?;
    let from = Release::named(&arguments.from);
    if arguments.check {
        return check(&from, &lines);
    }
    let Some(to) = arguments.to.as_deref().map(Release::named) else {
        bail!("--to is missing");
    };
    let mut names: BTreeSet<&str> = lines.iter().map(|line| line.symbol.as_str()).collect();
    names.extend(arguments.show.as_deref());
    let before = Inventory::read(&from, &names, release::Access::Download)?;
    let after = Inventory::read(&to, &names, release::Access::Download)?;
    if let Some(name) = &arguments.show {
        return show(name, &before, &after, &lines);
    }
    let list = changes::list(&before, &after, &names);
    if arguments.write {
        let path = page::write(&to, &arguments.from, &list)?;
        say(&format!("wrote {path}"));
    } else {
        say(list.trim_end());
    }
    Ok(())
}

/// Checks that each line names a declaration of the release.
fn check(release: &Release, lines: &[UpstreamLine]) -> Result<()> {
    let names = lines.iter().map(|line| line.symbol.as_str()).collect();
    let inventory = Inventory::read(release, &names, release::Access::CacheOnly)?;
    let unknown: Vec<String> = unknown(&inventory, lines).map(UpstreamLine::to_string).collect();
    ensure!(
        unknown.is_empty(),
        "{} upstream lines name no declaration of {release}:\n  {}",
        unknown.len(),
        unknown.join("\n  ")
    );
    say(&format!(
        "all {} upstream lines name a declaration of {release}",
        lines.len()
    ));
    Ok(())
}

/// Returns the lines that name no declaration.
fn unknown<'a>(inventory: &Inventory, lines: &'a [UpstreamLine]) -> impl Iterator<Item = &'a UpstreamLine> {
    lines
        .iter()
        .filter(|line| !inventory.symbols.contains_key(&line.symbol))
}

/// Prints the places that mirror a declaration, and how its text changed.
fn show(name: &str, before: &Inventory, after: &Inventory, lines: &[UpstreamLine]) -> Result<()> {
    let texts = [before, after].map(|inventory| inventory.symbols.get(name));
    ensure!(texts.iter().any(Option::is_some), "neither release declares {name}");
    for line in lines.iter().filter(|line| line.symbol == name) {
        say(&format!("{}:{}", line.file.display(), line.number));
    }
    let [old, new] = texts.map(|symbol| symbol.map_or("", |symbol| symbol.text.as_str()));
    let folder = tempfile::tempdir().context("no folder for the texts")?;
    for (file, text) in [("from", old), ("to", new)] {
        std::fs::write(folder.path().join(file), format!("{text}\n"))?;
    }
    let output = std::process::Command::new("diff")
        .args(["-U", "3", "from", "to"])
        .current_dir(folder.path())
        .output()
        .context("diff")?;
    say(String::from_utf8_lossy(&output.stdout).trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use conformance::root;
    use test_support::needs;

    use super::*;

    fn fixture(name: &str) -> Release {
        let folder = root().join("devtools/upstream/testdata").join(name);
        Release::named(&folder.to_string_lossy())
    }

    fn names() -> BTreeSet<&'static str> {
        [
            "pkg/apis/core/validation#ValidateThing",
            "pkg/apis/core/validation#validateUnchanged",
            "pkg/apis/core/validation#validateRemoved",
        ]
        .into()
    }

    fn read(name: &str) -> Inventory {
        Inventory::read(&fixture(name), &names(), release::Access::CacheOnly).unwrap()
    }

    #[needs(go)]
    #[test]
    fn fixture_modules_give_the_expected_list() {
        let list = changes::list(&read("from"), &read("to"), &names());
        let expected = root().join("devtools/upstream/testdata/changes.md");
        assert_eq!(list, std::fs::read_to_string(expected).unwrap(), "{list}");
    }

    #[needs(go)]
    #[test]
    fn equal_releases_have_no_changes() {
        let list = changes::list(&read("from"), &read("from"), &names());
        let (compared, _) = list.split_once("## Not compared").unwrap();
        assert!(!compared.contains("\n- "), "{list}");
    }

    #[needs(go)]
    #[test]
    fn lines_without_a_declaration_are_reported() {
        let line = |symbol: &str| UpstreamLine {
            file: "lib.rs".into(),
            number: 1,
            symbol: symbol.to_owned(),
        };
        let known = [
            "pkg/apis/core/validation#ValidateThing",
            "k8s.io/api/core/v1#Thing",
            "pkg/registry/core/thing#strategy.Validate",
        ];
        let all: Vec<_> = known.into_iter().chain(["pkg/apis/core#Missing"]).map(line).collect();
        let inventory = read("from");
        let found: Vec<_> = unknown(&inventory, &all).map(|line| line.symbol.as_str()).collect();
        assert_eq!(found, ["pkg/apis/core#Missing"]);
    }

    #[test]
    fn tests_have_the_same_reference() {
        let text = std::fs::read_to_string(root().join("tests/support/src/kube_apiserver.rs")).unwrap();
        assert!(text.contains(&format!("version: \"{REFERENCE}\"")), "{REFERENCE}");
    }
}
