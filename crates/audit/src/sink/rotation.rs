//! Rotation of a log file with lumberjack's rules: `audit.log` becomes `audit-2026-01-02T15-04-05.000.log`; old files
//! are compressed and removed in the background.

use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Retention of a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Path of the file.
    pub path: PathBuf,
    /// Maximum size of the file in bytes.
    pub max_bytes: u64,
    /// Days for which old files are kept; 0 for ever.
    pub max_age_days: u32,
    /// Number of old files to keep; 0 for all.
    pub max_backups: u32,
    /// True if old files are compressed.
    pub compress: bool,
}

/// Format of the time in the name of an old file, in UTC.
const STAMP: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]-[minute]-[second].[subsecond digits:3]");

const COMPRESSED: &str = ".gz";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Permissions of a new log file, which reveals the actions of users.
const MODE: u32 = 0o600;

/// Log file that is rotated when it becomes too large.
pub struct Rotating {
    retention: Arc<Retention>,
    clock: fn() -> SystemTime,
    file: Option<File>,
    size: u64,
    /// Lock of the task that cleans up old files.
    tidying: Arc<Mutex<()>>,
}

impl Rotating {
    pub(crate) fn new(retention: Retention, clock: fn() -> SystemTime) -> Self {
        Self {
            retention: Arc::new(retention),
            clock,
            file: None,
            size: 0,
            tidying: Arc::default(),
        }
    }

    /// True if `bytes` more bytes fit before the file is rotated.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.file.is_some() && self.size + bytes <= self.retention.max_bytes
    }

    /// Opens or rotates the file so that `bytes` bytes fit.
    ///
    /// # Errors
    /// Fails if they exceed the size of a file, or if the file cannot be opened or renamed.
    pub(crate) fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let most = self.retention.max_bytes;
        if bytes > most {
            let why = format!("write length {bytes} exceeds maximum file size {most}");
            return Err(io::Error::other(why));
        }
        if self.file.is_none() {
            self.tidy();
            let size = match fs::metadata(&self.retention.path) {
                Ok(found) => Some(found.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if let Some(size) = size.filter(|size| size + bytes < most)
                && let Ok(file) = OpenOptions::new().append(true).open(&self.retention.path)
            {
                (self.file, self.size) = (Some(file), size);
                return Ok(());
            }
            self.begin()?;
            self.tidy();
        }
        if !self.has_room(bytes) {
            self.file = None;
            self.begin()?;
            self.tidy();
        }
        Ok(())
    }

    /// Writes bytes that fit.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| io::Error::other("the log file is not open"))?;
        file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Rotates an existing file, and creates a new one with the same permissions.
    fn begin(&mut self) -> io::Result<()> {
        let path = &self.retention.path;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mode = match fs::metadata(path) {
            Ok(found) => {
                fs::rename(path, backup_name(path, (self.clock)()))?;
                found.permissions().mode() & 0o777
            }
            Err(_) => MODE,
        };
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(true).mode(mode).open(path)?;
        (self.file, self.size) = (Some(file), 0);
        Ok(())
    }

    /// Compresses and removes old files on a separate thread, so that no event waits for it.
    fn tidy(&self) {
        let (retention, tidying) = (Arc::clone(&self.retention), Arc::clone(&self.tidying));
        let now = (self.clock)();
        if retention.max_backups == 0 && retention.max_age_days == 0 && !retention.compress {
            return;
        }
        let work = move || {
            let _tidying = tidying.lock();
            if let Err(error) = tidy(&retention, now) {
                tracing::warn!(%error, "cannot compress or delete old audit logs");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("audit-tidy".to_owned()).spawn(work) {
            tracing::warn!(%error, "cannot compress or delete old audit logs");
        }
    }
}

/// Splits a file name into the part before its extension with a hyphen, and the extension.
fn prefix_and_extension(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.rfind('.') {
        Some(at) => {
            let (stem, extension) = name.split_at(at);
            (format!("{stem}-"), extension.to_owned())
        }
        None => (format!("{name}-"), String::new()),
    }
}

fn backup_name(path: &Path, now: SystemTime) -> PathBuf {
    let (prefix, extension) = prefix_and_extension(path);
    let stamp = OffsetDateTime::from(now).format(STAMP).unwrap_or_default();
    path.with_file_name(format!("{prefix}{stamp}{extension}"))
}

/// Parses the time in a name between `prefix` and `extension`.
fn stamp_of(name: &str, prefix: &str, extension: &str) -> Option<OffsetDateTime> {
    let stamp = name.strip_prefix(prefix)?.strip_suffix(extension)?;
    let time = PrimitiveDateTime::parse(stamp, STAMP).ok()?;
    Some(time.assume_utc())
}

/// Returns old files, the newest first.
fn backups(path: &Path) -> io::Result<Vec<(OffsetDateTime, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (prefix, extension) = prefix_and_extension(path);
    let compressed = format!("{extension}{COMPRESSED}");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let file_name = entry.file_name();
        let name = file_name.to_string_lossy();
        let stamp = stamp_of(&name, &prefix, &extension).or_else(|| stamp_of(&name, &prefix, &compressed));
        if let Some(stamp) = stamp.filter(|_| entry.file_type().is_ok_and(|file_type| !file_type.is_dir())) {
            found.push((stamp, entry.path()));
        }
    }
    found.sort_by_key(|(stamp, _)| Reverse(*stamp));
    Ok(found)
}

fn is_compressed(path: &Path) -> bool {
    path.to_string_lossy().ends_with(COMPRESSED)
}

/// Removes old files that are too many or too old, and compresses the others.
fn tidy(retention: &Retention, now: SystemTime) -> io::Result<()> {
    let mut kept = Vec::new();
    let mut outcome = Ok(());
    let mut names: Vec<String> = Vec::new();
    let oldest = now.checked_sub(DAY * retention.max_age_days).map(OffsetDateTime::from);
    for (stamp, path) in backups(&retention.path)? {
        // A file and its compressed form count as one.
        let name = path.to_string_lossy().trim_end_matches(COMPRESSED).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
        let too_many = retention.max_backups > 0 && names.len() > retention.max_backups as usize;
        let too_old = retention.max_age_days > 0 && oldest.is_some_and(|oldest| stamp < oldest);
        if too_many || too_old {
            outcome = outcome.and(fs::remove_file(&path));
        } else {
            kept.push(path);
        }
    }
    for path in kept.iter().filter(|path| retention.compress && !is_compressed(path)) {
        outcome = outcome.and(compress(path));
    }
    outcome
}

/// Compresses a file and removes it. The output of an earlier attempt is overwritten.
fn compress(path: &Path) -> io::Result<()> {
    let mut target_name = path.as_os_str().to_owned();
    target_name.push(COMPRESSED);
    let target = PathBuf::from(target_name);
    let write = || -> io::Result<()> {
        let mut source = File::open(path)?;
        let mode = source.metadata()?.permissions().mode() & 0o777;
        let mut options = OpenOptions::new();
        let out = options
            .create(true)
            .write(true)
            .truncate(true)
            .mode(mode)
            .open(&target)?;
        out.set_permissions(Permissions::from_mode(mode))?;
        let mut encoder = GzEncoder::new(out, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?.sync_all()
    };
    match write() {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&target);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::UNIX_EPOCH;

    use super::*;

    /// Returns a time that advances by a second with each call.
    fn clock() -> SystemTime {
        static SECONDS: AtomicU64 = AtomicU64::new(1_700_000_000);
        UNIX_EPOCH + Duration::from_secs(SECONDS.fetch_add(1, Ordering::Relaxed))
    }

    fn retention(folder: &Path) -> Retention {
        Retention {
            path: folder.join("audit.log"),
            max_bytes: 10,
            max_age_days: 0,
            max_backups: 0,
            compress: false,
        }
    }

    fn write(log: &mut Rotating, text: &str) -> io::Result<()> {
        let bytes = text.len() as u64;
        if !log.has_room(bytes) {
            log.make_room(bytes)?;
        }
        log.write(text.as_bytes())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_full_is_put_aside_under_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Rotating::new(retention(folder.path()), || {
            UNIX_EPOCH + Duration::from_millis(1_700_000_000_042)
        });
        fs::write(folder.path().join("audit.log"), "old").unwrap();
        fs::set_permissions(folder.path().join("audit.log"), Permissions::from_mode(0o640)).unwrap();
        write(&mut log, "12345").unwrap();
        write(&mut log, "67").unwrap();
        assert_eq!(names(folder.path()), ["audit.log"]);
        write(&mut log, "8").unwrap();
        let put_aside = folder.path().join("audit-2023-11-14T22-13-20.042.log");
        assert_eq!(fs::read_to_string(put_aside).unwrap(), "old1234567");
        let file = folder.path().join("audit.log");
        assert_eq!(fs::read_to_string(&file).unwrap(), "8");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn entry_larger_than_file_limit_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Rotating::new(retention(folder.path()), clock);
        let error = write(&mut log, "12345678901").unwrap_err();
        assert_eq!(error.to_string(), "write length 11 exceeds maximum file size 10");
        write(&mut log, "1234567890").unwrap();
    }

    #[test]
    fn old_files_that_are_too_many_or_too_old_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::write(folder.path().join(name), "x").unwrap();
        for name in [
            "audit-2023-01-01T00-00-00.000.log",
            "audit-2023-01-04T00-00-00.000.log",
            "audit-2023-01-03T00-00-00.000.log.gz",
            "audit-2023-01-02T00-00-00.000.log",
            "audit-other.log",
            "audit.log",
        ] {
            file(name);
        }
        let now: SystemTime = PrimitiveDateTime::parse("2023-01-04T12-00-00.000", STAMP)
            .unwrap()
            .assume_utc()
            .into();
        let kept = Retention {
            max_backups: 3,
            ..retention(folder.path())
        };
        tidy(&kept, now).unwrap();
        let left = names(folder.path());
        assert_eq!(left.len(), 5);
        assert!(!left.contains(&"audit-2023-01-01T00-00-00.000.log".to_owned()));
        let kept = Retention {
            max_age_days: 2,
            ..retention(folder.path())
        };
        tidy(&kept, now).unwrap();
        assert_eq!(
            names(folder.path()),
            [
                "audit-2023-01-03T00-00-00.000.log.gz",
                "audit-2023-01-04T00-00-00.000.log",
                "audit-other.log",
                "audit.log"
            ]
        );
    }

    #[test]
    fn old_files_are_compressed_with_their_rights() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("audit-2023-01-01T00-00-00.000.log");
        fs::write(&old, "what was written").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o600)).unwrap();
        let kept = Retention {
            compress: true,
            ..retention(folder.path())
        };
        tidy(&kept, UNIX_EPOCH).unwrap();
        let compressed = folder.path().join("audit-2023-01-01T00-00-00.000.log.gz");
        assert_eq!(names(folder.path()), ["audit-2023-01-01T00-00-00.000.log.gz"]);
        let mut text = String::new();
        let file = File::open(&compressed).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "what was written");
    }
}
