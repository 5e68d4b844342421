//! Builds the page at `/ui` from its sources in the folder `ui`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::{print, root};

/// Options of the build.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Compare the kept files with the sources instead of writing them. Ends with success and a message without Node.js.
    #[arg(long)]
    check: bool,
}

/// Installs the packages of the page, checks its types, runs its unit tests and builds it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check && Command::new("npm").arg("--version").output().is_err() {
        print("not run: npm is not on the path");
        return Ok(());
    }
    npm(&["ci", "--no-audit", "--no-fund", "--ignore-scripts"])?;
    npm(&["run", "--silent", "check"])?;
    npm(&["test", "--silent"])?;
    let kept = root().join("crates/ui/dist");
    if !arguments.check {
        return npm(&["run", "--silent", "build", "--", text(&kept)?]);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let built = target.join("ui");
    if built.exists() {
        fs::remove_dir_all(&built)?;
    }
    npm(&["run", "--silent", "build", "--", text(&built)?])?;
    compare(&files(&kept)?, &files(&built)?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path of the repository is not UTF-8")
}

fn npm(arguments: &[&str]) -> Result<()> {
    let line = format!("npm {}", arguments.join(" "));
    let status = Command::new("npm")
        .args(arguments)
        .current_dir(root().join("ui"))
        .status()
        .with_context(|| line.clone())?;
    ensure!(status.success(), "{line} failed");
    Ok(())
}

/// Returns the names and contents of the files of a folder.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        found.insert(name.into_owned(), fs::read(&path)?);
    }
    Ok(found)
}

/// Fails if a kept file differs from the built one.
fn compare(kept: &BTreeMap<String, Vec<u8>>, built: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let names = kept.keys().chain(built.keys());
    let mut different: Vec<&String> = names.filter(|name| kept.get(*name) != built.get(*name)).collect();
    different.sort();
    different.dedup();
    if let Some(first) = different.first() {
        bail!("crates/ui/dist/{first} is not what the sources give; run `cargo xtask ui`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let pairs = files.iter();
        pairs
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn different_missing_and_further_files_are_reported() {
        let built = content(&[("app.css", "b"), ("app.js", "a")]);
        assert!(compare(&built, &built).is_ok());
        for (kept, name) in [
            (content(&[("app.css", "b"), ("app.js", "c")]), "app.js"),
            (content(&[("app.js", "a")]), "app.css"),
            (content(&[("app.css", "b"), ("app.js", "a"), ("old.js", "")]), "old.js"),
        ] {
            let error = compare(&kept, &built).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains(name)), "{name}");
        }
    }
}
