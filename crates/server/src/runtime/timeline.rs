//! Timeline of the requests of a test server: one line for each request, in memory and in files.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use smol_str::SmolStr;

/// Maximum number of lines in memory.
const MAX_LINES: usize = 10_000;

/// Maximum size of the lines in memory in bytes.
const MAX_MEMORY_BYTES: usize = 8 << 20;

/// Maximum size of a line in bytes. The rest of a longer line is cut off.
pub const MAX_LINE_BYTES: usize = 4096;

/// Maximum size of a file in bytes. A full file replaces the one before it, so that a server has two of them.
pub const MAX_FILE_BYTES: u64 = 8 << 20;

/// Maximum number of files in a directory. A new server removes the oldest ones beyond it.
pub const MAX_FILES: usize = 64;

/// Beginning and end of the names of the files.
const PREFIX: &str = "timeline-";
const SUFFIX: &str = ".log";

/// Timeline of a server.
#[derive(Debug, Default)]
pub struct Timeline {
    lines: Mutex<Lines>,
    file: Option<Mutex<RecordFile>>,
}

/// The newest lines.
#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Line>,
    bytes: usize,
}

#[derive(Debug)]
struct Line {
    namespace: SmolStr,
    text: Box<str>,
}

/// File of a timeline.
#[derive(Debug)]
struct RecordFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// True after a line could not be written. The problem is reported once.
    is_broken: bool,
}

impl Timeline {
    /// Creates a timeline that is also written to a new file in `directory`. The name of the file begins with the time and
    /// contains `distinction`, so that several servers can share a directory.
    ///
    /// # Errors
    /// If the directory or the file cannot be created.
    pub fn in_directory(directory: &Path, time: &str, distinction: &str) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        remove_old_files(directory)?;
        let path = directory.join(format!("{PREFIX}{time}-{distinction}{SUFFIX}"));
        let file = RecordFile {
            file: create(&path)?,
            path,
            bytes: 0,
            is_broken: false,
        };
        Ok(Self {
            file: Some(Mutex::new(file)),
            ..Self::default()
        })
    }

    /// Returns the path of the file, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.file.as_ref()?.lock().path.clone())
    }

    /// Adds the line of a request in `namespace`, which is empty for requests outside of namespaces.
    pub fn record(&self, namespace: SmolStr, text: &str) {
        let text = cleaned(text);
        if let Some(file) = &self.file {
            file.lock().write(&text);
        }
        self.lines.lock().push(Line {
            namespace,
            text: text.into(),
        });
    }

    /// Returns up to `limit` of the newest lines, the oldest one first. `namespace` selects lines.
    pub fn newest(&self, namespace: Option<&str>, limit: usize) -> String {
        let lines = self.lines.lock();
        let newest = lines.lines.iter().rev();
        let selected = newest.filter(|line| namespace.is_none_or(|namespace| line.namespace == namespace));
        let mut found: Vec<&str> = selected.take(limit).map(|line| &*line.text).collect();
        found.reverse();
        let mut text = found.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Lines {
    fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.bytes > MAX_MEMORY_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

impl RecordFile {
    /// Appends a line. A file that cannot be written must not fail the request.
    fn write(&mut self, text: &str) {
        let outcome = self.append(text);
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.is_broken, true)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot write the timeline");
        }
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let line = format!("{text}\n");
        if self.bytes + line.len() as u64 > MAX_FILE_BYTES {
            fs::rename(&self.path, self.path.with_extension("1.log"))?;
            self.file = create(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)
}

/// Removes the oldest files, so that there is room for those of one more server.
fn remove_old_files(directory: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str()
            && name.starts_with(PREFIX)
            && name.ends_with(SUFFIX)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    let excess = names.len().saturating_sub(MAX_FILES - 2);
    for name in names.iter().take(excess) {
        match fs::remove_file(directory.join(name)) {
            // Another server that starts at the same time has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Returns a text as one line of bounded size.
fn cleaned(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LINE_BYTES);
    let (kept, _) = text.split_at(end);
    kept.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_lines_of_a_namespace_come_in_order() {
        let timeline = Timeline::default();
        for (namespace, text) in [("a", "1"), ("b", "2"), ("a", "3"), ("", "4"), ("a", "5")] {
            timeline.record(namespace.into(), text);
        }
        assert_eq!(timeline.newest(Some("a"), 2), "3\n5\n");
        assert_eq!(timeline.newest(None, 50), "1\n2\n3\n4\n5\n");
        assert_eq!(timeline.newest(Some("c"), 50), "");
    }

    #[test]
    fn memory_keeps_a_bounded_number_of_lines() {
        let timeline = Timeline::default();
        for number in 0..MAX_LINES + 5 {
            timeline.record(SmolStr::default(), &number.to_string());
        }
        let text = timeline.newest(None, usize::MAX);
        assert_eq!((text.lines().count(), text.lines().next()), (MAX_LINES, Some("5")));
        let large = "x".repeat(2 * MAX_LINE_BYTES);
        for _ in 0..MAX_LINES {
            timeline.record(SmolStr::default(), &large);
        }
        assert!(timeline.newest(None, usize::MAX).len() <= MAX_MEMORY_BYTES + MAX_LINES);
    }

    #[test]
    fn record_is_one_line_without_control_characters() {
        let timeline = Timeline::default();
        timeline.record(SmolStr::default(), "a\nb\u{1b}[31m");
        assert_eq!(timeline.newest(None, 1), "a\u{fffd}b\u{fffd}[31m\n");
    }

    #[test]
    fn full_file_is_rotated_and_stays_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let timeline = Timeline::in_directory(folder.path(), "now", "1").unwrap();
        let line = "x".repeat(MAX_LINE_BYTES);
        let lines = 3 * MAX_FILE_BYTES / MAX_LINE_BYTES as u64;
        for _ in 0..lines {
            timeline.record(SmolStr::default(), &line);
        }
        let files = fs::read_dir(folder.path()).unwrap();
        let mut sizes: Vec<(String, u64)> = files
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    entry.metadata().unwrap().len(),
                )
            })
            .collect();
        sizes.sort();
        let names: Vec<&str> = sizes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["timeline-now-1.1.log", "timeline-now-1.log"]);
        assert!(sizes.iter().all(|(_, size)| *size <= MAX_FILE_BYTES), "{sizes:?}");
    }

    #[test]
    fn new_server_removes_the_oldest_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        for number in 0..MAX_FILES + 10 {
            drop(Timeline::in_directory(folder.path(), &format!("{number:04}"), "1").unwrap());
        }
        let names = |name: &str| folder.path().join(name).exists();
        assert!(names("notes.txt") && names("timeline-0073-1.log") && !names("timeline-0000-1.log"));
        assert!(fs::read_dir(folder.path()).unwrap().count() <= MAX_FILES);
    }
}
