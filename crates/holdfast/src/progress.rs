//! Progress reports on the standard error: one updated line on a terminal, else a log line at intervals.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

/// Interval of updates on a terminal.
const FOR_PEOPLE: Duration = Duration::from_millis(200);
/// Interval of log lines.
const FOR_LOGS: Duration = Duration::from_secs(5);

/// Progress report: number of finished entries and of all entries.
pub(crate) struct Progress {
    /// Past participle of the action, such as `saved`.
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

    /// Reports the number of finished entries.
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

    /// Reports the end of the work; `more` is appended as the result.
    pub(crate) fn finish(self, more: &str) {
        let start = if self.moving { "\r\x1b[K" } else { "" };
        self.write(&format!("{start}{} {} objects{more}\n", self.deed, self.of));
    }

    fn write(&self, text: &str) {
        // A closed terminal is no reason to end.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
