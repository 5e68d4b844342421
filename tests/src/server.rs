//! A server for tests and measurements: the real binary on a data directory that is deleted with it.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use test_support::free_address;

use crate::process::{self, Process};

/// The token of the user `admin` of group `system:masters`.
pub const ADMIN_TOKEN: &str = "admintoken";

/// Token of the user alice, who has only the permissions that a test grants.
pub const USER_TOKEN: &str = "usertoken";

/// Token of the agent of the node `n`, which has only the permissions that a test grants.
pub const NODE_TOKEN: &str = "nodetoken";

/// The users that the traces name, in kube-apiserver's format.
pub(crate) const TOKENS: &str = "admintoken,admin,admin-uid,\"system:masters\"\nusertoken,alice,alice-uid,\"devs\"\n\
     nodetoken,system:node:n,node-uid,\"system:nodes\"\n";

/// Flag that selects controllers.
const CONTROLLERS: &str = "--controllers";

/// Flags of a server whose namespaces contain only the objects of the test. Without them, a server with its own store creates
/// a ConfigMap and a ServiceAccount in each namespace.
const TEST_FLAGS: &[&str] = &["--controllers=*"];

/// File next to the data directory that a server writes when it is ready and deletes when it exits.
const READY: &str = "ready";

/// Time limit for a server to become ready.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Time limit for a message to appear in the log.
const LOG_LIMIT: Duration = Duration::from_secs(60);

/// Time limit of the shutdown before the server is killed, if a test relies on its actions at the end.
const END_LIMIT: Duration = Duration::from_secs(90);

/// The same if its state at the end is not checked.
const DROP_LIMIT: Duration = Duration::from_secs(10);

/// A running server. It is ended when this is dropped.
pub struct Server {
    child: Child,
    binary: Binary,
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Flags that each start adds to those of the test.
    base_flags: &'static [&'static str],
    /// Its data directory and token file.
    folder: TempDir,
}

/// A build of the binary.
#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
}

impl Binary {
    /// Builds the binary as packages have it.
    ///
    /// # Errors
    /// If the build fails.
    pub fn dist() -> Result<Self> {
        Self::build(&["--package", "holdfast", "--profile", "dist"], "dist/holdfast")
    }

    /// Returns the build that tests use, brought up to date once for each program that runs them.
    ///
    /// # Errors
    /// If the build fails.
    pub fn debug() -> Result<Self> {
        static BUILT: Mutex<Option<Binary>> = Mutex::new(None);
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binary) = built.as_ref() {
            return Ok(binary.clone());
        }
        // The whole workspace is selected, so that dependencies have the features that they have in `cargo test`.
        let binary = Self::build(&["--workspace", "--bin", "holdfast"], "debug/holdfast")?;
        Ok(built.insert(binary).clone())
    }

    /// Builds the binary as tests use it, or as packages have it.
    ///
    /// # Errors
    /// If the build fails.
    pub fn new(debug: bool) -> Result<Self> {
        if debug { Self::debug() } else { Self::dist() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a command that runs it.
    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }

    /// Returns its error message for flags with which it does not start.
    ///
    /// # Errors
    /// If it cannot be run, or exits with success.
    pub fn rejection(&self, flags: &[impl AsRef<OsStr> + Debug]) -> Result<String> {
        let folder = TempDir::new().context("a folder for the server's data")?;
        let output = self
            .command()
            .arg(format!("--data-dir={}", folder.path().display()))
            .arg("--secure-port=0")
            .args(flags)
            .stdin(Stdio::null())
            .output()?;
        ensure!(!output.status.success(), "{flags:?} are taken");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn build(selection: &[&str], path: &str) -> Result<Self> {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet"])
            .args(selection)
            .current_dir(root())
            .status()
            .context("cargo build")?;
        ensure!(status.success(), "cargo build failed");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        Ok(Self {
            path: target.join(path),
        })
    }
}

impl Server {
    /// Starts `binary` on a new data directory and a free port, with further flags, and waits until it is ready.
    ///
    /// If the flags select no controllers, it runs those of `--controllers=*`. They create no objects in a namespace.
    ///
    /// # Errors
    /// If it ends or does not become ready; the end of its log is part of the error.
    pub fn start(binary: &Binary, more: &[&str]) -> Result<Self> {
        Self::start_with(TEST_FLAGS, binary, more)
    }

    /// Starts `binary` as [`Server::start`] does, with the controllers that users get if they select none.
    ///
    /// # Errors
    /// The same as [`Server::start`].
    pub fn start_with_default_controllers(binary: &Binary, more: &[&str]) -> Result<Self> {
        Self::start_with(&[], binary, more)
    }

    /// Asks it to end and starts it again on its data.
    ///
    /// # Errors
    /// The same as [`Server::start`].
    pub fn restart(mut self, more: &[&str]) -> Result<Self> {
        self.end();
        self.start_anew(more)?;
        Ok(self)
    }

    /// Kills it immediately and starts it again on its data.
    ///
    /// # Errors
    /// The same as [`Server::start`].
    pub fn kill_and_restart(mut self, more: &[&str]) -> Result<Self> {
        self.kill()?;
        self.start_anew(more)?;
        Ok(self)
    }

    /// Kills it immediately. Its data stays.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn kill(&mut self) -> Result<()> {
        process::kill(&mut self.child)
    }

    /// Starts it again on its data, after its end.
    ///
    /// # Errors
    /// The same as [`Server::start`].
    pub fn start_anew(&mut self, more: &[&str]) -> Result<()> {
        self.address = free_address()?;
        let flags = all_flags(self.base_flags, more);
        self.child = Self::spawn(&self.folder, &self.binary, self.address, &flags)?;
        self.wait_until_ready()
    }

    fn start_with(base_flags: &'static [&'static str], binary: &Binary, more: &[&str]) -> Result<Self> {
        let folder = TempDir::new().context("a folder for the server's data")?;
        let address = free_address()?;
        let mut server = Self {
            child: Self::spawn(&folder, binary, address, &all_flags(base_flags, more))?,
            binary: binary.clone(),
            address,
            base_flags,
            folder,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn spawn(folder: &TempDir, binary: &Binary, address: SocketAddr, flags: &[&str]) -> Result<Child> {
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, TOKENS).context("token file")?;
        // A killed server does not delete the file.
        let _ = std::fs::remove_file(folder.path().join(READY));
        binary
            .command()
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .arg(format!("--secure-port={}", address.port()))
            .arg(format!("--ready-file={}", folder.path().join(READY).display()))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).context("log file")?)
            .spawn()
            .with_context(|| format!("start {}", binary.path.display()))
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while !self.folder.path().join(READY).exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.log_tail());
            }
            ensure!(Instant::now() < end, "the server is not ready:\n{}", self.log_tail());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns true if the process still exists.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.folder.path().join("log"))
    }

    /// Returns true if its log, since the last start, has a line with all these parts.
    pub fn logged(&self, parts: &[&str]) -> bool {
        let bytes = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&bytes);
        log.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    }

    /// Waits until its log has a line with all these parts.
    ///
    /// # Errors
    /// If it has none after a minute.
    pub async fn until_logged(&self, parts: &[&str]) -> Result<()> {
        let end = Instant::now() + LOG_LIMIT;
        while !self.logged(parts) {
            ensure!(Instant::now() < end, "{parts:?} are missing: {}", self.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Returns the binary that runs.
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// Returns the kubeconfig that it wrote for its administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    /// Returns the directory of its files.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Processor time used so far, of all threads, user and system.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu(&self) -> Result<Duration> {
        self.process().cpu()
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn memory(&self) -> Result<u64> {
        self.process().memory()
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Asks it to end as a supervisor would (SIGTERM).
    pub fn terminate(&self) {
        self.process().terminate();
    }

    /// Waits until it has ended, and returns its exit code.
    ///
    /// # Errors
    /// If it is still running after `limit`.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<Option<i32>> {
        let status = process::wait_for_end(&mut self.child, limit)
            .with_context(|| format!("the server did not end:\n{}", self.log_tail()))?;
        Ok(status.code())
    }

    /// Sends the termination signal and waits; kills it if the shutdown exceeds the time limit.
    pub fn end(&mut self) {
        self.end_within(END_LIMIT);
    }

    fn end_within(&mut self, limit: Duration) {
        if !self.running() {
            return;
        }
        self.terminate();
        if self.wait_for_end(limit).is_err() {
            let _ = self.kill();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_within(DROP_LIMIT);
    }
}

impl From<&Server> for Process {
    fn from(server: &Server) -> Self {
        server.process()
    }
}

/// Returns the flags of a start: those of the test, after `base` if the test does not select controllers itself.
fn all_flags<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let selects = |flag: &&str| flag.split('=').next() == Some(CONTROLLERS);
    let base = if more.iter().any(selects) { &[] } else { base };
    [base, more].concat()
}

/// Returns the last lines of a file; none if it cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    let Ok(file) = std::fs::File::open(path) else {
        return String::new();
    };
    let lines: Vec<String> = BufReader::new(file).lines().map_while(Result::ok).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_a_test_replace_the_default() {
        let more = ["--v=1"];
        assert_eq!(all_flags(TEST_FLAGS, &more), ["--controllers=*", "--v=1"]);
        assert_eq!(all_flags(&[], &more), more);
        for more in [
            ["--controllers=", "--v=1"],
            ["--controllers", "*,-namespace-controller"],
        ] {
            assert_eq!(all_flags(TEST_FLAGS, &more), more);
        }
    }
}
