//! Lists of the names that passed once, and the report if a name is lost.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::commands::say;

/// Maximum number of lost or gained names that are printed individually.
const SHOWN: usize = 50;

/// Number of retries before a name counts as lost.
const AGAIN: usize = 3;

/// Returns the names of a list, one a line.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read(list: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(list).with_context(|| list.display().to_string())?;
    Ok(text
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect())
}

/// Writes a list, one name a line, sorted.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(list: &Path, names: &BTreeSet<String>) -> Result<()> {
    if let Some(folder) = list.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = String::new();
    for name in names {
        text.push_str(name);
        text.push('\n');
    }
    std::fs::write(list, text).with_context(|| list.display().to_string())
}

/// Retries names that seem lost, a few times: a case may have a time limit, which a busy machine may exceed. `replay`
/// returns the names that pass now.
///
/// # Errors
/// If `replay` fails.
pub(crate) fn again(
    known: &BTreeSet<String>,
    passing: &mut BTreeSet<String>,
    mut replay: impl FnMut(&[&str]) -> Result<BTreeSet<String>>,
) -> Result<()> {
    for _ in 0..AGAIN {
        let lost: Vec<&str> = known.difference(passing).map(String::as_str).collect();
        if lost.is_empty() {
            break;
        }
        let now = replay(&lost)?;
        passing.extend(now);
    }
    Ok(())
}

/// Prints the names that newly pass, and fails if a name is lost. `what` is the plural of the things, and the command
/// that maintains the list.
///
/// # Errors
/// If a known name does not pass.
pub(crate) fn compare(what: &str, known: &BTreeSet<String>, passing: &BTreeSet<String>) -> Result<()> {
    let gained: Vec<&String> = passing.difference(known).collect();
    for name in gained.iter().take(SHOWN) {
        say(&format!("{what}: {name} passes now"));
    }
    if !gained.is_empty() {
        say(&format!(
            "{what}: {} pass that are not listed; `cargo xtask {what} --bless` lists them",
            gained.len()
        ));
    }
    let lost: Vec<&str> = known.difference(passing).map(String::as_str).collect();
    ensure!(
        lost.is_empty(),
        "{} {what} that passed before fail now:\n  {}",
        lost.len(),
        lost[..lost.len().min(SHOWN)].join("\n  ")
    );
    say(&format!("{what}: all {} that passed before pass", known.len()));
    Ok(())
}
