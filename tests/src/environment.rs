//! One control plane, as controller-runtime's package `envtest` starts it: its flags, its order of start and stop, its checks
//! of health.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use test_support::free_address;

use crate::client::Target;
use crate::process::{self, Process};
use crate::reference::{END_LIMIT, KEY, PUBLIC_KEY, START_LIMIT, TOKEN_FILE, write_credentials};
use crate::server::{ADMIN_TOKEN, Binary, tail};

/// The logs of both, in the environment's folder.
const ETCD_LOG: &str = "etcd.log";
const API_SERVER_LOG: &str = "api-server.log";

/// An `etcd` and a `kube-apiserver`. They are ended when this is dropped.
pub struct Environment {
    etcd: Running,
    api_server: Option<Running>,
    etcd_port: u16,
    port: u16,
    /// Folder that envtest removes at the end.
    folder: TempDir,
}

/// One of the two programs.
struct Running {
    child: Child,
    log: PathBuf,
    began: Instant,
    /// Time from its start until its health check succeeded.
    took: Duration,
}

impl Binary {
    /// Makes the directory for `KUBEBUILDER_ASSETS`, as `holdfast envtest` does, and returns the path that it prints.
    ///
    /// # Errors
    /// If the command fails, or prints something else than the line to export.
    pub fn assets(&self, directory: &Path) -> Result<PathBuf> {
        let made = self.command().args(["envtest", "--dir"]).arg(directory).output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let line = String::from_utf8(made.stdout)?;
        let named = line.trim_end().strip_prefix("export KUBEBUILDER_ASSETS=");
        Ok(named.with_context(|| line.clone())?.into())
    }
}

impl Environment {
    /// Starts the two programs of a directory of assets, with further flags and variables for `kube-apiserver`, and
    /// waits until they are healthy.
    ///
    /// # Errors
    /// If one of them ends or does not become healthy; the end of its log is part of the error.
    pub fn start(assets: &Path, more: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let folder = TempDir::new()?;
        let path = |name: &str| folder.path().join(name);
        for name in ["etcd", "certs"] {
            std::fs::create_dir(path(name))?;
        }
        write_credentials(folder.path())?;
        let etcd_port = free_address()?.port();
        let url = format!("http://127.0.0.1:{etcd_port}");
        let mut etcd = Running::start(
            Command::new(assets.join("etcd"))
                .arg(format!("--advertise-client-urls={url}"))
                .arg(format!("--data-dir={}", path("etcd").display()))
                .arg(format!("--listen-client-urls={url}"))
                .arg(format!(
                    "--listen-peer-urls=http://127.0.0.1:{}",
                    free_address()?.port()
                ))
                .arg("--unsafe-no-fsync=true"),
            path(ETCD_LOG),
        )?;
        etcd.wait(|| Target::at(&url, None, None), "/health")?;
        let mut environment = Self {
            etcd,
            api_server: None,
            etcd_port,
            port: 0,
            folder,
        };
        environment.start_api_server(assets, more, variables)?;
        Ok(environment)
    }

    /// Starts the `kube-apiserver` again, after its end, and waits until it is healthy.
    ///
    /// # Errors
    /// The same as [`Environment::start`].
    pub fn start_api_server(&mut self, assets: &Path, more: &[&str], variables: &[(&str, &str)]) -> Result<()> {
        let path = |name: &str| self.folder.path().join(name);
        self.port = free_address()?.port();
        let mut command = Command::new(assets.join("kube-apiserver"));
        command
            .env_remove("HOLDFAST_CONTROLLERS")
            .envs(variables.iter().copied())
            .current_dir(self.folder.path())
            .arg("--allow-privileged=true")
            .arg("--authorization-mode=RBAC")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--cert-dir={}", path("certs").display()))
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port))
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--service-account-issuer=https://127.0.0.1:{}/", self.port))
            .arg(format!("--service-account-key-file={}", path(PUBLIC_KEY).display()))
            .arg(format!("--service-account-signing-key-file={}", path(KEY).display()))
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg(format!("--token-auth-file={}", path(TOKEN_FILE).display()))
            .args(more);
        let mut api_server = Running::start(&mut command, path(API_SERVER_LOG))?;
        // The certificate exists once the server has created it.
        api_server.wait(|| self.target(), "/healthz")?;
        self.api_server = Some(api_server);
        Ok(())
    }

    /// Returns the target for requests to the `kube-apiserver` as a user of `system:masters`.
    ///
    /// # Errors
    /// If it has no certificate yet.
    pub fn target(&self) -> Result<Target> {
        let url = format!("https://127.0.0.1:{}", self.port);
        let authority = self.folder.path().join("certs/apiserver.crt");
        Target::at(&url, Some(&authority), Some(ADMIN_TOKEN))
    }

    /// Returns the process of `etcd`, and how long it took until it was healthy.
    pub fn etcd(&self) -> (Process, Duration) {
        self.etcd.figures()
    }

    /// Returns the process of `kube-apiserver`, and how long it took until it was healthy; none after its end.
    pub fn api_server(&self) -> Option<(Process, Duration)> {
        self.api_server.as_ref().map(Running::figures)
    }

    /// Ends the `kube-apiserver`, as envtest does, and returns its exit code.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop_api_server(&mut self) -> Result<Option<i32>> {
        let mut running = self.api_server.take().context("it has ended already")?;
        running.stop()
    }

    /// Ends `etcd`, as envtest does, and returns its exit code.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop_etcd(&mut self) -> Result<Option<i32>> {
        self.etcd.stop()
    }

    /// Returns a file or folder of the environment: `etcd`, `certs`, `etcd.log`, `api-server.log`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the names of the files that the servers created in the environment's folder, except for their logs.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn made(&self) -> Result<Vec<String>> {
        let files = [TOKEN_FILE, KEY, PUBLIC_KEY, ETCD_LOG, API_SERVER_LOG];
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !files.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Running {
    fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let began = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        Ok(Self {
            child,
            log,
            began,
            took: Duration::ZERO,
        })
    }

    fn figures(&self) -> (Process, Duration) {
        (Process(self.child.id()), self.took)
    }

    /// Waits until its health check succeeds.
    fn wait(&mut self, target: impl Fn() -> Result<Target>, path: &str) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        loop {
            if target().is_ok_and(|target| runtime.block_on(target.is_healthy(path))) {
                self.took = self.began.elapsed();
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status}:\n{}", tail(&self.log));
            }
            let elapsed = self.began.elapsed();
            ensure!(elapsed < START_LIMIT, "not healthy:\n{}", tail(&self.log));
            // Twenty environments that poll without a pause would delay each other's start.
            std::thread::sleep((elapsed / 50).max(Duration::from_millis(1)));
        }
    }

    /// Asks it to end, and returns its exit code.
    fn stop(&mut self) -> Result<Option<i32>> {
        Process(self.child.id()).terminate();
        Ok(process::wait_for_end(&mut self.child, END_LIMIT)?.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = process::kill(&mut self.child);
    }
}
