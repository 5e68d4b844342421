//! The server as a value in the process of a test.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use holdfast_server::operations::service::Service;
use holdfast_server::operations::testing::ForkState;
use holdfast_server::wire::connection::{self, Service as _};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::command_line::try_read;
use crate::connection::Connection;
use crate::error::Error;
use crate::flags::Serve;
use crate::fork::ForkOrigin;
use crate::kubeconfig::Administrator;
use crate::serve::{Serving, Started, limits, start_server};

/// Number of connections from this process that may wait to be accepted.
const WAITING_CONNECTIONS: usize = 64;

/// A Kubernetes API server in this process.
///
/// It serves until [`Server::shutdown`]. Several servers can run in one process, and each has objects of its own. A server
/// runs on the tokio runtime that started it. If it is dropped, it stops serving without waiting for its requests.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use holdfast::Server;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, Patch, PatchParams};
///
/// let server = Server::builder().in_memory().controllers(["*"]).start().await?;
/// let client = kube::Client::new(server.connection(), "default");
///
/// let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
/// let settings = serde_json::json!({
///     "apiVersion": "v1",
///     "kind": "ConfigMap",
///     "metadata": {"name": "settings"},
///     "data": {"colour": "blue"},
/// });
/// let applied = config_maps.patch("settings", &PatchParams::apply("example"), &Patch::Apply(settings)).await?;
/// assert!(applied.metadata.resource_version.is_some());
///
/// server.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    serving: Serving,
    origin: ForkOrigin,
    url: String,
    administrator: Administrator,
    streams: mpsc::Sender<DuplexStream>,
    service: Arc<Service>,
    /// Task that serves the connections from this process.
    in_process: JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a builder with the defaults: in memory, on a free port of 127.0.0.1, with the controllers of `--controllers=*` and
    /// the admission plugins that the binary runs by default.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the URL, such as `https://127.0.0.1:41123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the administrator's kubeconfig. It contains its certificates and refers to no files.
    pub fn kubeconfig(&self) -> String {
        self.administrator.kubeconfig(&self.url)
    }

    /// Returns the certificates with which clients verify the server, in PEM.
    pub fn ca(&self) -> &[u8] {
        &self.administrator.authority
    }

    /// Returns the TLS configuration of a client with the administrator's certificate.
    ///
    /// # Errors
    /// If the certificate that the flags name cannot verify a server.
    pub fn rustls(&self) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&self.administrator.authority)?);
        let key = PrivateKeyDer::from_pem_slice(&self.administrator.key).map_err(anyhow::Error::from)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let verifying = builder.map_err(anyhow::Error::from)?.with_root_certificates(roots);
        let config = verifying.with_client_auth_cert(certificates(&self.administrator.certificate)?, key);
        Ok(config.map_err(anyhow::Error::from)?)
    }

    /// Returns a connection over memory, without the port and without TLS. `kube::Client::new(server.connection(), "default")` is
    /// a client.
    pub fn connection<B>(&self) -> Connection<B>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        Connection::new(self.streams.clone())
    }

    /// Starts another server with the current objects of this one, and with its flags and credentials. The fork shares the objects:
    /// nothing is copied until one of the servers changes them. It keeps its objects in memory, uses a free port, and does not end
    /// with this server.
    ///
    /// # Errors
    /// If other servers share the store of this one, or the fork does not start.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use holdfast::Server;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::api::{Api, DeleteParams};
    ///
    /// let prepared = Server::builder().controllers([""; 0]).start().await?;
    /// let fork = prepared.fork().await?;
    /// let namespaces = |server: &Server| Api::<Namespace>::all(kube::Client::new(server.connection(), "default"));
    /// namespaces(&fork).delete("kube-node-lease", &DeleteParams::default()).await?;
    /// assert!(namespaces(&prepared).get("kube-node-lease").await?.metadata.deletion_timestamp.is_none());
    /// fork.shutdown().await?;
    /// prepared.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fork(&self) -> Result<Self, Error> {
        let state = ForkState {
            snapshot: self.serving.snapshot(),
            ahead: self.serving.ahead(),
        };
        let started = self.origin.start(state).await?;
        Ok(Self::from_started(self.origin.flags(), started)?)
    }

    /// Returns the number of bindings of admission policies that are in effect.
    pub(crate) fn policy_bindings(&self) -> usize {
        let policies = &self.service.context.shared.policies;
        let (validating, mutating) = (policies.validating.now(), policies.mutating.now());
        let validating = validating.hooks().iter().map(|hook| hook.bindings.len());
        let mutating = mutating.hooks().iter().map(|hook| hook.bindings.len());
        validating.chain(mutating).sum()
    }

    /// Ends the server: closes the port, ends watches, waits for requests in progress and releases the store. Later requests of
    /// its clients fail.
    ///
    /// # Errors
    /// If a task of the server failed, or its store cannot be closed.
    pub async fn shutdown(self) -> Result<(), Error> {
        let stopped = self.serving.stop(std::future::ready(())).await;
        self.in_process.await.context("the server failed")?;
        Ok(stopped?)
    }
}

fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}

/// Builder of a [`Server`].
///
/// Each setting is a flag of the binary. [`ServerBuilder::args`] sets any other one.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `start`"]
pub struct ServerBuilder {
    data_dir: Option<PathBuf>,
    flags: Vec<OsString>,
}

impl ServerBuilder {
    /// Keeps objects, certificates and keys in memory. The server writes no files. This is the default.
    pub fn in_memory(mut self) -> Self {
        self.data_dir = None;
        self
    }

    /// Keeps objects, certificates and keys in this directory, as `--data-dir` does.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Selects the controllers, as `--controllers` does: `*` for the default ones, `name` to enable one, `-name` to disable one.
    /// An empty list disables all of them.
    pub fn controllers<T: AsRef<str>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list("controllers", names)
    }

    /// Enables admission plugins in addition to the default ones, as `--enable-admission-plugins` does.
    pub fn admission_plugins<T: AsRef<str>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list("enable-admission-plugins", names)
    }

    /// Disables admission plugins, as `--disable-admission-plugins` does.
    pub fn disable_admission_plugins<T: AsRef<str>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list("disable-admission-plugins", names)
    }

    /// Serves the endpoints for tests below `/testing/`, as `--testing-endpoints` does: faults of requests, watches and
    /// webhooks, checkpoints of the store, and the clock.
    pub fn testing_endpoints(mut self, enabled: bool) -> Self {
        self.flags.push(format!("--testing-endpoints={enabled}").into());
        self
    }

    /// Adds flags of the binary, such as `--feature-gates=WatchList=false`.
    ///
    /// Flags of the process have no effect: those for logs and `--worker-threads`, `--ready-file`. They belong to the caller.
    pub fn args<T: Into<OsString>>(mut self, flags: impl IntoIterator<Item = T>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    fn list<T: AsRef<str>>(mut self, flag: &str, names: impl IntoIterator<Item = T>) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self.flags.push(format!("--{flag}={}", names.join(",")).into());
        self
    }

    /// Starts the server on the current tokio runtime, which needs I/O and time. It serves requests when this returns.
    ///
    /// # Errors
    /// If a flag is invalid, a file that a flag names cannot be read, or the port is in use.
    pub async fn start(self) -> Result<Server, Error> {
        let flags = self.parse()?;
        let outcome = start_server(&flags, std::future::pending::<()>()).await?;
        let started = outcome.context("the start was cancelled")?;
        Ok(Server::from_started(&flags, started)?)
    }

    fn parse(self) -> anyhow::Result<Serve> {
        let defaults = ["holdfast", "--secure-port=0"].map(OsString::from);
        let selects = |flag: &OsString| flag.as_encoded_bytes().starts_with(b"--controllers");
        // A test expects no objects but its own.
        let controllers = (!self.flags.iter().any(selects)).then(|| "--controllers=*".into());
        let words = defaults.into_iter().chain(controllers).chain(self.flags).collect();
        let arguments = try_read(words).map_err(|error| anyhow!("{}", error.render().to_string().trim_end()))?;
        ensure!(arguments.command.is_none(), "the flags contain a command");
        let mut flags = arguments.serve;
        match self.data_dir {
            Some(directory) => flags.data_dir = directory,
            None => flags.keep_in_memory()?,
        }
        Ok(flags)
    }
}

impl Server {
    fn from_started(flags: &Serve, started: Started) -> anyhow::Result<Self> {
        let made = started.certificates.administrator.clone();
        let administrator = made.context("the server has no administrator")?;
        let (service, tls) = (Arc::clone(&started.service), started.tls.current());
        let presented = certificates(&administrator.certificate)?;
        let client = tls
            .authorities
            .as_deref()
            .map(|authorities| service.client(authorities, &presented));
        let url = started.url.clone();
        let origin = started.origin.clone();
        let serving = started.begin(flags)?;
        let (streams, received) = mpsc::channel(WAITING_CONNECTIONS);
        let accepted = connection::serve_in_process(
            received,
            client,
            Arc::clone(&service),
            limits(flags),
            serving.shutdown(),
        );
        Ok(Self {
            url,
            service,
            administrator,
            streams,
            in_process: tokio::spawn(accepted),
            serving,
            origin,
        })
    }
}
