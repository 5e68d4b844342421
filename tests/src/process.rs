//! Kernel statistics of a process, and its end.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// A running process, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    /// Processor time used so far, of all threads, user and system.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu(self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        // Field 2 is the name in parentheses and may contain spaces; utime and stime are fields 14 and 15.
        let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let ticks: u64 = behind_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        // The kernel reports hundredths of a second to user space, regardless of its own tick.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn memory(self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Returns its anonymous resident memory in bytes: what the process allocated.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn anonymous_memory(self) -> Result<u64> {
        self.status("RssAnon:")
    }

    /// Returns its peak resident memory in bytes.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn peak_memory(self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// Its share of memory in bytes: pages that several processes have are divided among them.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn share_of_memory(self) -> Result<u64> {
        self.kilobytes("smaps_rollup", "Pss:")
    }

    /// Asks it to end as a supervisor would (SIGTERM).
    pub fn terminate(self) {
        // A process that has already exited needs no signal.
        let _ = Command::new("kill").arg(self.0.to_string()).status();
    }

    fn status(self, field: &str) -> Result<u64> {
        self.kilobytes("status", field)
    }

    fn kilobytes(self, file: &str, field: &str) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.0))?;
        let kilobytes = text
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .with_context(|| field.to_owned())?;
        Ok(kilobytes * 1024)
    }
}

/// Waits until a process has ended.
///
/// # Errors
/// If it is still running after `limit`.
pub fn wait_for_end(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        ensure!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills a process immediately.
///
/// # Errors
/// If the system call fails.
pub(crate) fn kill(child: &mut Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}
