//! A kube-apiserver on an etcd of the test, alongside servers of our own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use test_support::free_address;

use crate::client::Target;
use crate::process::{self, Process};
use crate::server::{ADMIN_TOKEN, TOKENS, tail};

/// Time limit for becoming ready, on a machine that also runs builds.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(300);
/// Time limit for the shutdown.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(60);

/// The files of users and of the key for tokens of service accounts.
pub(crate) const TOKEN_FILE: &str = "tokens.csv";
pub(crate) const KEY: &str = "sa.key";
pub(crate) const PUBLIC_KEY: &str = "sa.pub";

/// Makes these files, with a new key.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn write_credentials(folder: &Path) -> Result<()> {
    std::fs::write(folder.join(TOKEN_FILE), TOKENS)?;
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(folder.join(KEY), key.serialize_pem())?;
    std::fs::write(folder.join(PUBLIC_KEY), key.public_key_pem())?;
    Ok(())
}

/// A running kube-apiserver. It is ended when this is dropped.
pub struct Reference {
    child: Child,
    address: SocketAddr,
    /// Its certificate, its key for tokens, the file of tokens, its log.
    folder: TempDir,
}

impl Reference {
    /// Starts the program on the etcd of these addresses, with further flags, and waits until it is ready.
    ///
    /// # Errors
    /// If it ends or does not become ready; the end of its log is part of the error.
    pub async fn start(program: &Path, etcd: &str, more: &[&str]) -> Result<Self> {
        let folder = TempDir::new().context("a folder for kube-apiserver")?;
        let at = |name: &str| folder.path().join(name);
        write_credentials(folder.path())?;
        let address = free_address()?;
        let child = Command::new(program)
            .arg(format!("--etcd-servers={etcd}"))
            .arg(format!("--secure-port={}", address.port()))
            .arg(format!("--cert-dir={}", at("certificates").display()))
            .arg(format!("--token-auth-file={}", at(TOKEN_FILE).display()))
            .arg(format!("--service-account-signing-key-file={}", at(KEY).display()))
            .arg(format!("--service-account-key-file={}", at(PUBLIC_KEY).display()))
            .args([
                "--service-account-issuer=https://kubernetes.default.svc",
                "--bind-address=127.0.0.1",
            ])
            .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
            // No controller creates the service accounts of namespaces.
            .arg("--disable-admission-plugins=ServiceAccount")
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(at("log"))?)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let mut reference = Self { child, address, folder };
        reference.wait_until_ready().await?;
        Ok(reference)
    }

    /// Returns the target for requests to it as a user of `system:masters`.
    ///
    /// # Errors
    /// If it has no certificate yet.
    pub fn target(&self) -> Result<Target> {
        let url = format!("https://{}", self.address);
        let certificate = self.folder.path().join("certificates/apiserver.crt");
        Target::at(&url, Some(&certificate), Some(ADMIN_TOKEN))
    }

    /// Returns the key by which it signs tokens of service accounts.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join(KEY)
    }

    /// Returns the public half of that key.
    pub fn public_key(&self) -> PathBuf {
        self.folder.path().join(PUBLIC_KEY)
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Ends it, as a supervisor would.
    pub fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.process().terminate();
        if process::wait_for_end(&mut self.child, END_LIMIT).is_err() {
            let _ = process::kill(&mut self.child);
        }
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.folder.path().join("log"))
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while !self.is_ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("kube-apiserver ended with {status}:\n{}", self.log_tail());
            }
            ensure!(
                Instant::now() < end,
                "kube-apiserver is not ready:\n{}",
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        match self.target() {
            Ok(target) => target.is_healthy("/readyz").await,
            Err(_) => false,
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.end();
    }
}
