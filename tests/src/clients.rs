//! Clients in other languages, whose checks are in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

use crate::server::root;

/// Clients are installed one at a time: several tests use what is in one folder.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The folder of a client's checks.
pub fn sources(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

/// The folder below the build directory that a client is installed in: once for each text of the file `wants` among its
/// sources, by the commands for the sources and that folder.
///
/// # Errors
/// Where a command fails; its words are part of the error.
pub fn installed(name: &str, wants: &str, commands: impl FnOnce(&Path, &Path) -> Vec<Command>) -> Result<PathBuf> {
    let _turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (sources, folder) = (sources(name), root().join("target/clients").join(name));
    let stamp = folder.join("installed");
    let wants = std::fs::read_to_string(sources.join(wants))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|has| has == wants) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    for mut command in commands(&sources, &folder) {
        let output = command.output().with_context(|| format!("{command:?}"))?;
        ensure!(
            output.status.success(),
            "{command:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    std::fs::write(stamp, wants)?;
    Ok(folder)
}
