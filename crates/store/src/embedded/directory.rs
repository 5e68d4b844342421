//! The data directory and its lock.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::salvage;
use crate::error::OpenError;

const LOCK: &str = "lock";
/// Name of the store's file.
pub(crate) const STORE: &str = "store.db";

/// A data directory that this process holds exclusively while the value lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The lock is the system's, on the open file: it ends with the process, however the process ends.
    _lock: File,
}

impl Directory {
    /// Opens and locks the directory and creates it if necessary. Only its owner can read it, because it contains
    /// secrets.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let io = OpenError::io(path);
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
            sync_folder_of(path).map_err(io)?;
        }
        let mut lock = private(&path.join(LOCK)).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let read = lock.read_to_string(&mut holder).is_ok();
                let holder = if read { holder.trim().parse().ok() } else { None };
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let pid = std::process::id();
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{pid}"));
        // On a full disk the name of the holder is missing, which must not prevent reads.
        if let Err(error) = written {
            tracing::warn!(directory = %path.display(), %error, "cannot write the process id to the lock file");
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the path of the store's file, which is created empty if it is absent.
    pub(crate) fn store_file(&self) -> Result<PathBuf, OpenError> {
        let path = self.path.join(STORE);
        salvage::finish(&path).map_err(OpenError::io(&path))?;
        if !fs::exists(&path).unwrap_or(false) {
            private(&path).map_err(OpenError::io(&path))?;
        }
        Ok(path)
    }
}

/// Makes the names in the parent folder of `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Opens a file that only its owner can access, and creates it if necessary.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
