//! A server of our own to measure or to test: the release binary on a data directory that goes away with it.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::habits;

/// The token of the user `admin` of group `system:masters`.
pub(crate) const ADMIN_TOKEN: &str = "admintoken";

/// The users that the traces name, in kube-apiserver's format.
const TOKENS: &str = "admintoken,admin,admin-uid,\"system:masters\"\nusertoken,alice,alice-uid,\"devs\"\n";

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running server. It is ended when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its data directory and token file.
    folder: TempDir,
}

impl Server {
    /// Builds the release binary.
    pub(crate) fn build() -> Result<()> {
        habits::cargo(&["build", "--release", "--package", "holdfast"])
    }

    /// Starts the release binary on a new data directory and a free port, and waits until it accepts connections.
    pub(crate) fn start(more: &[&str]) -> Result<Self> {
        let folder = TempDir::new().context("a folder for the server's data")?;
        Self::start_on(folder, more)
    }

    /// Starts it again on the data that `previous` left.
    pub(crate) fn restart(mut previous: Self, more: &[&str]) -> Result<Self> {
        previous.end();
        let folder = std::mem::replace(&mut previous.folder, TempDir::new()?);
        Self::start_on(folder, more)
    }

    fn start_on(folder: TempDir, more: &[&str]) -> Result<Self> {
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, TOKENS).context("token file")?;
        let address = free_address()?;
        let binary = target_directory()?.join("release/holdfast");
        let child = Command::new(&binary)
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .arg(format!("--secure-port={}", address.port()))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).context("log file")?)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut server = Self { child, address, folder };
        server.wait_until_listening()?;
        Ok(server)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.log_tail());
            }
            if Instant::now() > end {
                bail!("the server does not listen:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether the process is still there.
    pub(crate) fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self) -> String {
        let Ok(file) = std::fs::File::open(self.folder.path().join("log")) else {
            return String::new();
        };
        let lines: Vec<String> = BufReader::new(file).lines().map_while(Result::ok).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Where its files are.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Processor time used so far, of all threads, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Field 2 is the name in parentheses and may hold blanks; utime and stime are fields 14 and 15.
        let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let ticks: u64 = behind_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        // The kernel counts in hundredths of a second for user space, whatever its own tick.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .context("VmRSS")?;
        Ok(kilobytes * 1024)
    }

    /// Asks it to end as a supervisor would, and waits.
    pub(crate) fn end(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))
        .context("a free port")?
        .local_addr()?)
}

fn target_directory() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("CARGO_TARGET_DIR") {
        return Ok(PathBuf::from(named));
    }
    Ok(habits::root().join("target"))
}
