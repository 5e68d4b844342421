//! Files that are written whole or not at all, and that only their owner can read.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use holdfast_server::runtime::files;
pub(crate) use holdfast_server::runtime::files::{read as read_bounded, read_all};

/// Returns the bytes of the file `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    files::read(path).with_context(|| unreadable(path))
}

/// Returns the text of the file `path`.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    files::read_text(path).with_context(|| unreadable(path))
}

/// Rejects a file of more than `max_bytes` bytes. A file whose size is unknown passes: reading it tells why.
pub(crate) fn check_size(path: &Path, max_bytes: u64) -> Result<()> {
    let size = fs::metadata(path).map_or(0, |file| file.len());
    ensure!(size <= max_bytes, "the file has {size} bytes, more than {max_bytes}");
    Ok(())
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Creates the folder `path` and its parents; only this user may enter it. Reports an existing folder that other users
/// may enter. Its mode stays, because the folder may serve other purposes, too.
pub(crate) fn private_folder(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make the folder {}", path.display()))?;
    if let Some(mode) = loose_mode(path) {
        tracing::warn!(folder = %path.display(), mode = format!("{mode:o}"), "other users may enter the folder; run chmod 700");
    }
    Ok(())
}

/// Removes the permissions of other users from the file `path`, and reports that they had some. Ignores a missing file.
pub(crate) fn restrict(path: &Path) {
    let Some(mode) = loose_mode(path) else { return };
    let (file, mode) = (path.display(), format!("{mode:o}"));
    match fs::set_permissions(path, fs::Permissions::from_mode(0o600)) {
        Ok(()) => tracing::warn!(%file, mode, "other users had rights to the file, which are removed now"),
        Err(error) => {
            tracing::warn!(%file, mode, %error, "other users have rights to the file, which cannot be removed")
        }
    }
}

/// Returns the permission bits of `path` if they include any for other users.
fn loose_mode(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Opens the file `path` for locking. Creates it if it is missing, for this user only.
pub(crate) fn open_lock(path: &Path) -> std::io::Result<fs::File> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    restrict(path);
    Ok(opened)
}

/// Writes the file `path`, which only this user may read. A reader sees the old text or the new one, each whole.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        // A file from an earlier attempt may have other permissions.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// YAML document of a text.
pub(crate) struct Document {
    /// First line of the document in the text, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Splits a text into its non-empty YAML documents.
pub(crate) fn documents(text: &str) -> Vec<Document> {
    let empty = |line| Document {
        line,
        text: String::new(),
    };
    let mut all = vec![empty(1)];
    for (index, line) in text.lines().enumerate() {
        if line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty()) {
            all.push(empty(index + 2));
        } else if let Some(last) = all.last_mut() {
            last.text.push_str(line);
            last.text.push('\n');
        }
    }
    all.retain(|document| !document.text.trim().is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_file_is_only_for_this_user_and_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/key");
        private_folder(path.parent().unwrap()).unwrap();
        for text in ["one", "two"] {
            write_private(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn loose_modes_of_files_are_tightened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        restrict(&path);
        assert!(!path.exists());
        fs::write(&path, "key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        restrict(&path);
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        open_lock(&path).unwrap();
        assert_eq!((mode(), fs::read_to_string(&path).unwrap().as_str()), (0o600, "key"));
        fs::remove_file(&path).unwrap();
        open_lock(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }
}
