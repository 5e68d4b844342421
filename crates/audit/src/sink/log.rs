//! Log backend: one thread writes to a file or the standard output.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use holdfast_limits::TokenBucket;
use tokio::sync::oneshot;

use super::queue::{Entry, Queue, QueueEnd};
use crate::Observer;

pub use super::rotation::Retention;
use super::rotation::Rotating;

/// Name of this backend in metrics.
pub(crate) const NAME: &str = "log";

/// Format of a log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Human-readable text with fewer fields.
    Legacy,
}

impl Format {
    /// Formats as named by flags, in the reference's order.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Legacy, "legacy"), (Self::Json, "json")];

    /// Returns the format with that name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(format, _)| *format)
    }
}

/// Destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The standard output.
    Stdout,
    /// A file that grows without limit.
    Growing(PathBuf),
    /// A file that is rotated when it is too large.
    Rotating(Retention),
}

impl Target {
    /// Opens the log, so that errors occur at startup.
    ///
    /// # Errors
    /// Fails if the file or its directory cannot be created.
    pub fn open(self) -> io::Result<Output> {
        match self {
            Self::Stdout => Ok(Output::Stdout),
            Self::Growing(path) => Ok(Output::Growing(ensure(&path)?)),
            Self::Rotating(retention) => {
                ensure(&retention.path)?;
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the names of rotated files have the time of the system"
                )]
                let now = SystemTime::now;
                Ok(Output::Rotating(Box::new(Rotating::new(retention, now))))
            }
        }
    }
}

/// Creates a log file if there is none, readable only by this user.
fn ensure(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        && !fs::exists(folder)?
    {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Open log.
pub enum Output {
    /// The standard output.
    Stdout,
    /// A file that grows without limit.
    Growing(File),
    /// A file that is rotated when it is too large.
    Rotating(Box<Rotating>),
}

impl Output {
    /// True if `bytes` can be written after the pending bytes.
    fn fits(&self, pending: usize, bytes: usize) -> bool {
        match self {
            Self::Stdout | Self::Growing(_) => true,
            Self::Rotating(file) => file.has_room((pending + bytes) as u64),
        }
    }

    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        match self {
            Self::Stdout | Self::Growing(_) => Ok(()),
            Self::Rotating(file) => file.make_room(bytes as u64),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::Growing(file) => file.write_all(bytes),
            Self::Rotating(file) => file.write(bytes),
        }
    }
}

/// Writer thread.
pub(crate) struct Writer {
    output: Output,
    observer: Arc<dyn Observer>,
    throttle: Option<TokenBucket<Instant>>,
    /// Buffer that is written at once, and its entries.
    pending: Vec<u8>,
    entries: Vec<Entry>,
}

/// Maximum number of bytes that are written at once.
const RUN: usize = 1 << 20;

impl Writer {
    /// Starts the thread. The receiver resolves when it ends.
    ///
    /// # Errors
    /// Fails if no thread can be created.
    pub(crate) fn start(
        output: Output,
        queue: Arc<Queue>,
        throttle: Option<TokenBucket<Instant>>,
        observer: Arc<dyn Observer>,
    ) -> io::Result<(JoinHandle<()>, oneshot::Receiver<()>)> {
        let mut writer = Self {
            output,
            observer,
            throttle,
            pending: Vec::new(),
            entries: Vec::new(),
        };
        let (ends, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || {
                let _ends: oneshot::Sender<()> = ends;
                let end = QueueEnd::new(NAME, Arc::clone(&queue), Arc::clone(&writer.observer));
                while let Some(entries) = queue.wait() {
                    writer.take(entries, &queue);
                }
                drop(end);
            })?;
        Ok((thread, ended))
    }

    fn take(&mut self, entries: VecDeque<Entry>, queue: &Queue) {
        if let Some(wait) = self
            .throttle
            .as_mut()
            .map(|throttle| throttle.reserve(tokio::time::Instant::now().into_std()))
            && wait > Duration::ZERO
            && !queue.is_closed()
        {
            std::thread::sleep(wait);
        }
        for entry in entries {
            self.add(entry);
        }
        self.flush();
    }

    fn add(&mut self, entry: Entry) {
        let bytes = entry.text.len();
        if !self.output.fits(self.pending.len(), bytes) || self.pending.len() + bytes > RUN {
            self.flush();
            if !self.output.fits(0, bytes)
                && let Err(error) = self.output.make_room(bytes)
            {
                self.failed(&error, 1);
                return entry.finish(false);
            }
        }
        self.pending.extend_from_slice(&entry.text);
        self.entries.push(entry);
    }

    fn flush(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let outcome = self.output.write(&self.pending);
        if let Err(error) = &outcome {
            self.failed(error, self.entries.len());
        }
        for entry in self.entries.drain(..) {
            entry.finish(outcome.is_ok());
        }
        self.pending.clear();
        self.pending.shrink_to(RUN);
    }

    fn failed(&self, error: &io::Error, events: usize) {
        self.observer.failed(NAME, events);
        tracing::error!(plugin = NAME, events, %error, "audit events could not be written");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::queue::Gathering;
    use super::super::tests::Counts;
    use super::*;

    fn queue() -> Arc<Queue> {
        Arc::new(Queue::new(Gathering {
            capacity: 100,
            enough: 1,
            linger: Duration::from_millis(1),
        }))
    }

    fn push(queue: &Queue, text: &'static str) -> oneshot::Receiver<bool> {
        let (done, outcome) = oneshot::channel();
        let entry = Entry {
            text: Bytes::from_static(text.as_bytes()),
            done: Some(done),
        };
        queue.push(entry, true).unwrap();
        outcome
    }

    #[test]
    fn queued_events_are_written_before_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.log");
        let output = Target::Growing(path.clone()).open().unwrap();
        let (queue, counts) = (queue(), Arc::new(Counts::default()));
        let outcomes = [push(&queue, "a\n"), push(&queue, "b\n")];
        queue.close();
        let (thread, ended) = Writer::start(output, queue, None, Arc::clone(&counts) as _).unwrap();
        thread.join().unwrap();
        assert!(ended.blocking_recv().is_err());
        assert_eq!(fs::read_to_string(path).unwrap(), "a\nb\n");
        assert!(outcomes.into_iter().all(|outcome| outcome.blocking_recv().unwrap()));
        assert_eq!(counts.failures(), []);
    }

    #[test]
    fn write_failure_is_counted_and_reported() {
        let (queue, counts) = (queue(), Arc::new(Counts::default()));
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (thread, _) = Writer::start(
            Output::Growing(full),
            Arc::clone(&queue),
            None,
            Arc::clone(&counts) as _,
        )
        .unwrap();
        assert!(!push(&queue, "a\n").blocking_recv().unwrap());
        queue.close();
        thread.join().unwrap();
        assert_eq!(counts.failures(), [("log", 1)]);
    }

    #[test]
    fn a_batch_is_spread_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention {
            path: folder.path().join("audit.log"),
            max_bytes: 6,
            max_age_days: 0,
            max_backups: 0,
            compress: false,
        };
        let (queue, counts) = (queue(), Arc::new(Counts::default()));
        let outcomes = ["aaaa\n", "bbbbbbbb\n", "cc\n", "dd\n"].map(|text| push(&queue, text));
        queue.close();
        let output = Target::Rotating(retention).open().unwrap();
        let (thread, _) = Writer::start(output, queue, None, Arc::clone(&counts) as _).unwrap();
        thread.join().unwrap();
        let outcomes = outcomes.map(|outcome| outcome.blocking_recv().unwrap());
        assert_eq!(outcomes, [true, false, true, true]);
        assert_eq!(counts.failures(), [("log", 1)]);
        assert_eq!(fs::read_to_string(folder.path().join("audit.log")).unwrap(), "cc\ndd\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
