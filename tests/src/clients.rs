//! Clients in other languages, whose checks are in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

use crate::server::root;

/// Lock for installing one client at a time: several tests use the same folder.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Number of attempts of a command that downloads from a registry: one that fails once may succeed the next time.
const TRIES: usize = 3;

/// Returns the folder of a client's checks.
pub fn sources(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

/// Returns the folder below the build directory that a client is installed in: once for each text of the file `wants`
/// among its sources, by the commands for the sources and that folder.
///
/// # Errors
/// If a command fails; its words are part of the error.
pub fn installed(name: &str, wants: &str, commands: impl FnOnce(&Path, &Path) -> Vec<Command>) -> Result<PathBuf> {
    installed_from(&sources(name), name, wants, commands)
}

/// Does the same as [`installed`] for sources in another folder.
///
/// # Errors
/// If a command fails; its words are part of the error.
pub fn installed_from(
    sources: &Path,
    name: &str,
    wants: &str,
    commands: impl FnOnce(&Path, &Path) -> Vec<Command>,
) -> Result<PathBuf> {
    let _turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = root().join("target/clients").join(name);
    let stamp = folder.join("installed");
    let wants = std::fs::read_to_string(sources.join(wants))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|has| has == wants) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    for mut command in commands(sources, &folder) {
        tried(&mut command)?;
    }
    std::fs::write(stamp, wants)?;
    Ok(folder)
}

/// Runs a command until it succeeds, at most a few times.
fn tried(command: &mut Command) -> Result<()> {
    let mut tries = 1;
    loop {
        let output = command.output().with_context(|| format!("{command:?}"))?;
        if output.status.success() {
            return Ok(());
        }
        ensure!(
            tries < TRIES,
            "{command:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_fails_once_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder.path());
            command
        };
        tried(&mut shell("test -e asked || { touch asked; false; }")).unwrap();
        let error = tried(&mut shell("echo tried >>tries; echo no answer >&2; false")).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
        let tries = std::fs::read_to_string(folder.path().join("tries")).unwrap();
        assert_eq!(tries.lines().count(), TRIES);
    }
}
