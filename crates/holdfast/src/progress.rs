//! How far work has come, on the standard error: one line that moves where a person looks on, else a line now and then.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often progress is shown on a terminal.
const FOR_PEOPLE: Duration = Duration::from_millis(200);
/// How often progress is logged.
const FOR_LOGS: Duration = Duration::from_secs(5);

/// Reports how many of so many entries are done.
pub(crate) struct Progress {
    /// What is done to them, such as `saved`.
    deed: &'static str,
    of: u64,
    terminal: bool,
    reported: Instant,
    moving: bool,
}

impl Progress {
    /// Reports on `of` entries.
    pub(crate) fn new(deed: &'static str, of: u64) -> Self {
        Self {
            deed,
            of,
            terminal: std::io::stderr().is_terminal(),
            reported: Instant::now(),
            moving: false,
        }
    }

    /// So many are done.
    pub(crate) fn reached(&mut self, done: u64) {
        let pause = if self.terminal { FOR_PEOPLE } else { FOR_LOGS };
        if self.reported.elapsed() < pause {
            return;
        }
        self.reported = Instant::now();
        let (start, end) = if self.terminal { ("\r", "") } else { ("", "\n") };
        self.moving = self.terminal;
        self.write(&format!("{start}{} {done} of {} objects{end}", self.deed, self.of));
    }

    /// All is done; `more` says what came of it.
    pub(crate) fn finish(self, more: &str) {
        let start = if self.moving { "\r\x1b[K" } else { "" };
        self.write(&format!("{start}{} {} objects{more}\n", self.deed, self.of));
    }

    fn write(&self, text: &str) {
        // A closed terminal is no reason to end.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
