//! Start, service and end of the server.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use holdfast_audit::Auditor;
use holdfast_authorization::node::NodeGraph;
use holdfast_controllers::{ControllerContext, Elections, Selection, run_pod_notice};
use holdfast_kind_tables::features::{Feature, FeatureGates};
use holdfast_resource::Registry;
use holdfast_schema::TableTypes;
use holdfast_server::objects::expiry::{self, ExpiryTime};
use holdfast_server::objects::{Snapshot, Store, claims};
use holdfast_server::operations::fairness;
use holdfast_server::operations::node_graph;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::start;
use holdfast_server::operations::testing::{ForkState, Testing};
use holdfast_server::runtime::drain::RequestDrain;
use holdfast_server::runtime::shutdown::{Shutdown, ShutdownTrigger};
use holdfast_server::wire::connection::{self, CurrentTls, Limits};
use holdfast_server::wire::tls::TlsRules;
use holdfast_traces::Tracer;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::aggregation::Aggregation;
use crate::authorization::{AuthorizationMode, Configured};
use crate::certificates::{Certificates, certificates, hostname, load_tls, reached_at};
use crate::egress::Egress;
use crate::flags::Serve;
use crate::fork::ForkOrigin;
use crate::health::Milestones;
use crate::presence::{self, Presence, RELEASE_LIMIT};
use crate::service::Assembly;
use crate::signing::TokenSigner;
use crate::store::{self, Opened};
use crate::testing::{self, ForTests};
use crate::token_keys::TokenKeys;
use crate::waiting::Waiting;
use crate::{audit, compatible, encryption, files, logging, reload, validation};

/// Serves until a termination signal.
pub(crate) fn run(flags: &mut Serve) -> Result<()> {
    let started = Instant::now();
    flags.verbosity = Some(logging::start(flags.logging_format, flags.v));
    let flags = &*flags;
    in_runtime(flags, serve(flags, started)).flatten()
}

/// Runs `work` with the threads and limits of a server.
///
/// # Errors
/// If the threads cannot be started.
pub(crate) fn in_runtime<T>(flags: &Serve, work: impl Future<Output = T>) -> Result<T> {
    raise_file_limit();
    compatible::report(flags.ignored.iter().map(String::as_str).chain(flags.storage.unused()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(flags.worker_threads))
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(work);
    // The remaining tasks already had their time to finish.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome)
}

/// Raises the soft limit of open files to the hard one, as Go programs do at their start. Each connection needs a file.
fn raise_file_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

async fn serve(flags: &Serve, started: Instant) -> Result<()> {
    // Signals that come during the start count, too.
    let mut signals = Signals::new()?;
    let Some(server) = start_server(flags, signals.next()).await? else {
        return Ok(());
    };
    tracing::info!(url = %server.url, took = ?started.elapsed(), "ready");
    announce(
        &server.url,
        server.certificates.kubeconfig.as_deref(),
        flags.is_small_cluster(),
    )?;
    if let Some(path) = &flags.ready_file {
        files::write_private(path, &format!("{}\n", server.url))?;
    }
    server.begin(flags)?.end(flags, &mut signals).await
}

/// A server that serves clients, before its background tasks run.
pub(crate) struct Started {
    /// URL of the server.
    pub(crate) url: String,
    /// Certificates of the server and its first clients.
    pub(crate) certificates: Certificates,
    /// Current TLS configuration.
    pub(crate) tls: Arc<CurrentTls>,
    /// The service.
    pub(crate) service: Arc<Service>,
    /// Origin of forks.
    pub(crate) origin: ForkOrigin,
    trigger: ClosingTrigger,
    server: JoinHandle<()>,
    settings: Settings,
    reached: SocketAddr,
}

impl Started {
    /// Starts the tasks that no client waits for.
    pub(crate) fn begin(self, flags: &Serve) -> Result<Serving> {
        Serving::begin(flags, self)
    }
}

/// Configuration of a server before its store is opened.
struct Base {
    settings: Settings,
    kinds: holdfast_kinds::Config,
    /// Types of the built-in kinds, which forks share.
    types: Arc<TableTypes>,
    registry: Arc<ArcSwap<Registry>>,
    reached: SocketAddr,
}

impl Base {
    /// Reads the built-in kinds. `types` are those of a server with the same flags, if there is one.
    fn new(flags: &Serve, settings: Settings, reached: SocketAddr, types: Option<Arc<TableTypes>>) -> Result<Self> {
        const UNREADABLE: &str = "cannot read the built-in kinds";
        let kinds = settings.kinds(flags, reached)?;
        let shared = match types {
            Some(types) => types,
            None => holdfast_kinds::table_types(&kinds).context(UNREADABLE)?,
        };
        let built_in = holdfast_kinds::registry_with_types(&kinds, &shared).context(UNREADABLE)?;
        Ok(Self {
            settings,
            kinds,
            types: shared,
            registry: Arc::new(ArcSwap::from_pointee(built_in)),
            reached,
        })
    }

    /// Returns the parts of the service on the opened store.
    #[expect(
        clippy::too_many_arguments,
        reason = "each argument becomes one field of the assembly"
    )]
    fn assembly<'a>(
        &'a self,
        flags: &'a Serve,
        opened: &'a Opened,
        nodes: &'a Arc<NodeGraph>,
        milestones: &'a Milestones,
        shutdown: Shutdown,
        for_tests: ForTests,
        token_signer: &'a TokenSigner,
    ) -> Assembly<'a> {
        Assembly {
            flags,
            registry: Arc::clone(&self.registry),
            opened,
            kinds: &self.kinds,
            nodes,
            gates: &self.settings.gates,
            controllers: &self.settings.controllers,
            authorization: &self.settings.authorization,
            milestones,
            reached: self.reached,
            shutdown,
            testing: for_tests.endpoints,
            timeline: for_tests.timeline,
            token_signer,
            egress: self.settings.egress.as_ref(),
        }
    }
}

/// Starts a server: opens the store, creates what is missing, and accepts connections. `None` if `cancelled` completes
/// while the store is opened.
pub(crate) async fn start_server<T>(flags: &Serve, cancelled: impl Future<Output = T>) -> Result<Option<Started>> {
    begin(flags, cancelled, None).await
}

/// Starts a server with the state and the credentials of another one. Its flags select memory and a free port.
pub(crate) async fn start_fork(flags: &Serve, beginning: Beginning) -> Result<Started> {
    let started = begin(flags, std::future::pending::<()>(), Some(beginning)).await?;
    started.context("the start was cancelled")
}

/// State and credentials with which a fork begins.
pub(crate) struct Beginning {
    /// Objects and clock.
    pub(crate) state: ForkState,
    /// Certificates of the server and its first clients.
    pub(crate) certificates: Certificates,
    /// Keys of service account tokens.
    pub(crate) token_signer: TokenSigner,
    /// Types of the built-in kinds.
    pub(crate) types: Arc<TableTypes>,
}

async fn begin<T>(
    flags: &Serve,
    cancelled: impl Future<Output = T>,
    beginning: Option<Beginning>,
) -> Result<Option<Started>> {
    let settings = Settings::read(flags)?;
    let (listener, reached) = listen(flags)?;
    let url = format!("https://{reached}");
    // A failed start stops the tasks that already run. Only the reason for the failure is worth reporting.
    let grace = flags.shutdown_watch_termination_grace_period;
    let trigger = ClosingTrigger(ShutdownTrigger::with_watch_grace(grace));
    let types = beginning.as_ref().map(|beginning| Arc::clone(&beginning.types));
    let base = Base::new(flags, settings, reached, types)?;
    // The store's lock is acquired first: nothing in the directory is written while another process holds it.
    if !flags.in_memory {
        files::private_folder(&flags.data_dir)?;
    }
    let (listener, waiting) = wait_for_store(flags, listener, &url, &base.settings.rules).await?;
    let for_tests = flags.testing.load(reached.port())?;
    let testing = for_tests.endpoints.clone();
    let store_clock = testing::store_clock(testing.as_ref());
    let (state, credentials) = match beginning {
        Some(beginning) => (
            Some(beginning.state),
            Some((beginning.certificates, beginning.token_signer)),
        ),
        None => (None, None),
    };
    if let (Some(testing), Some(state)) = (&testing, &state) {
        testing.clock.advance(state.ahead).map_err(|why| anyhow!(why))?;
    }
    let snapshot = state.as_ref().map(|state| &state.snapshot);
    let egress = base.settings.egress.as_ref();
    let opened = tokio::select! {
        opened = store::open(flags, &base.registry, &base.kinds.apis, store_clock, snapshot, egress) => opened,
        _ = cancelled => return Ok(None),
    };
    drop((waiting, state));
    let opened = opened?;
    // At a first start, certificates and the initial objects wait for different things, so they are created
    // concurrently.
    let (certificates, token_signer) = match credentials {
        Some((certificates, signer)) => (Prepared::Ready(Box::new(certificates)), signer),
        None => {
            let made = certificates(flags, &url, base.settings.rules.clone());
            (Prepared::Later(made), TokenSigner::from_flags(flags).await?)
        }
    };
    let milestones = Milestones::default();
    let nodes = Arc::<NodeGraph>::default();
    let assembly = base.assembly(
        flags,
        &opened,
        &nodes,
        &milestones,
        trigger.0.shutdown(),
        for_tests,
        &token_signer,
    );
    let (service, aggregation) = assembly.service()?;
    prepare(flags, &service, &aggregation, &milestones).await?;
    if base.settings.authorization.has(AuthorizationMode::Node) {
        node_graph::follow(&service.context, &nodes);
    }
    let static_admission = flags
        .static_admission
        .read(base.kinds.features, &service.context.write.admission)?;
    static_admission
        .begin(&service, &base.kinds, &base.settings.host)
        .await?;
    let certificates = certificates.get().await?;
    if let Some(end) = certificates.end {
        milestones.certificate_end.get_or_init(|| end);
    }
    let tls: Arc<CurrentTls> = load_tls(flags, &certificates.tls)?.into();
    encryption::follow(&flags.storage.encryption, &opened, &service);
    if let Some(signing) = token_signer.external() {
        signing.follow(&service);
    }
    reload::follow_tls(&service, certificates.tls.clone(), Arc::clone(&tls));
    let shutdown = trigger.0.shutdown();
    let accepted = connection::serve(
        listener,
        Arc::clone(&tls),
        Arc::clone(&service),
        limits(flags),
        shutdown,
    );
    let server = tokio::spawn(accepted);
    let origin = ForkOrigin::new(flags, &certificates, token_signer, base.types);
    if let Some(testing) = testing {
        testing.forks.set_starter(origin.clone());
    }
    Ok(Some(Started {
        url,
        certificates,
        tls,
        service,
        origin,
        trigger,
        server,
        settings: base.settings,
        reached,
    }))
}

/// Certificates that exist, or that are still created.
enum Prepared {
    Ready(Box<Certificates>),
    Later(JoinHandle<Result<Certificates>>),
}

impl Prepared {
    async fn get(self) -> Result<Certificates> {
        match self {
            Self::Ready(certificates) => Ok(*certificates),
            Self::Later(made) => made.await.context("cannot make certificates")?,
        }
    }
}

/// Parts of a server that a configuration describes.
pub(crate) struct Rehearsal {
    /// Feature gates with their values.
    pub(crate) gates: FeatureGates,
    /// Names of the controllers that would run.
    pub(crate) controllers: Vec<&'static str>,
    /// Names of the admission plugins that would run, in their order.
    pub(crate) plugins: Vec<String>,
}

/// Does everything that [`start_server`] does before it serves, with objects and certificates in memory: it reads the same files
/// and reports the same errors. It neither listens, nor connects to etcd, nor writes.
pub(crate) async fn rehearse(flags: &mut Serve) -> Result<Rehearsal> {
    let settings = Settings::read(flags)?;
    let reached = SocketAddr::new(reached_at(flags), flags.secure_port);
    let base = Base::new(flags, settings, reached, None)?;
    flags.storage.check()?;
    flags.storage.etcd(&base.registry, &base.kinds.apis, None, None)?;
    flags.storage.etcd_servers.clear();
    flags.storage.etcd_servers_overrides.clear();
    flags.in_memory = true;
    flags.cert_dir = None;
    flags.audit.keep_nothing();
    flags.testing.keep_nothing();
    let flags = &*flags;
    let trigger = ClosingTrigger(ShutdownTrigger::new());
    let for_tests = flags.testing.load(flags.secure_port)?;
    let clock = testing::store_clock(for_tests.endpoints.as_ref());
    let opened = store::open(flags, &base.registry, &base.kinds.apis, clock, None, None).await?;
    let (milestones, nodes) = (Milestones::default(), Arc::<NodeGraph>::default());
    let token_signer = TokenSigner::Local(TokenKeys::from_flags(flags)?);
    let assembly = base.assembly(
        flags,
        &opened,
        &nodes,
        &milestones,
        trigger.0.shutdown(),
        for_tests,
        &token_signer,
    );
    let (service, _) = assembly.service()?;
    let admission = &service.context.write.admission;
    let plugins = admission.names().map(|name| name.to_string()).collect();
    let static_admission = flags.static_admission.read(base.kinds.features, admission)?;
    static_admission
        .begin(&service, &base.kinds, &base.settings.host)
        .await?;
    let made = certificates(flags, &format!("https://{reached}"), base.settings.rules.clone()).await;
    load_tls(flags, &made.context("cannot make certificates")??.tls)?;
    Ok(Rehearsal {
        controllers: base.settings.controllers.names().collect(),
        gates: base.settings.gates,
        plugins,
    })
}

/// Trigger of the shutdown that stops the tasks alongside the server when the server ends for any reason.
struct ClosingTrigger(ShutdownTrigger);

impl Drop for ClosingTrigger {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The signals that end the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot wait for signals")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for signals")?,
        })
    }

    /// Waits for the next signal and returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Flag values that may be invalid, read before anything starts.
struct Settings {
    gates: FeatureGates,
    controllers: Selection,
    authorization: Configured,
    rules: TlsRules,
    /// The name of this host.
    host: String,
    elections: Elections,
    /// Proxies of networks, if there are any.
    egress: Option<Egress>,
}

impl Settings {
    fn read(flags: &Serve) -> Result<Self> {
        let (gates, controllers) = (flags.served.gates()?, Selection::parse(&flags.controllers)?);
        validation::check(flags)?;
        flags.endpoints.check()?;
        let authorization = flags.authorization.read()?;
        let rules = flags.transport.tls()?;
        let host = hostname();
        let elections = Elections {
            // A server with its own store runs its controllers without an election.
            controllers: match flags.storage.etcd_servers.is_empty() {
                true => None,
                false => flags.election.election(&host)?,
            },
            coordinated: match gates.features().has(Feature::CoordinatedLeaderElection) {
                true => Some(flags.coordination.election(&host)?),
                false => None,
            },
        };
        Ok(Self {
            gates,
            controllers,
            authorization,
            rules,
            host,
            elections,
            egress: Egress::load(flags)?,
        })
    }

    /// Returns the configuration of the built-in kinds for a server that clients reach at `reached`.
    fn kinds(&self, flags: &Serve, reached: SocketAddr) -> Result<holdfast_kinds::Config> {
        Ok(holdfast_kinds::Config {
            service_cidr: flags.service_cluster_ip_range.primary,
            secondary_service_cidr: flags.service_cluster_ip_range.secondary,
            node_ports: flags.service_node_port_range.clone(),
            secure_port: reached.port(),
            advertise_address: Some(reached.ip()),
            first_endpoints: flags.storage.etcd_servers.is_empty() && flags.endpoints.are_kept(),
            kubelets: flags.kubelets.addresses()?,
            allow_privileged: flags.allow_privileged,
            features: self.gates.features(),
            apis: flags.served.apis()?,
            ..holdfast_kinds::Config::default()
        })
    }
}

/// Starts to listen and returns the address at which clients reach the server.
fn listen(flags: &Serve) -> Result<(TcpListener, SocketAddr)> {
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    let bound = bind(flags, address);
    let listener = bound.with_context(|| format!("cannot listen on {address}"))?;
    let port = listener.local_addr().context("cannot tell where it listens")?.port();
    Ok((listener, SocketAddr::new(reached_at(flags), port)))
}

/// Number of connections that wait to be accepted.
const ACCEPT_QUEUE_LENGTH: u32 = 1024;

/// Binds the socket on which the server listens.
///
/// Other than with Go's sockets, a port whose former connections still end can always be bound anew. Therefore
/// `--permit-address-sharing` changes nothing.
fn bind(flags: &Serve, address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(flags.permit_port_sharing)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_QUEUE_LENGTH)
}

/// Responds to health checks while etcd cannot be reached. The embedded store does not need this.
async fn wait_for_store(
    flags: &Serve,
    listener: TcpListener,
    url: &str,
    rules: &TlsRules,
) -> Result<(TcpListener, Option<Waiting>)> {
    if flags.storage.etcd_servers.is_empty() {
        return Ok((listener, None));
    }
    let certificates = certificates(flags, url, rules.clone())
        .await
        .context("cannot make certificates")??;
    let tls = load_tls(flags, &certificates.tls)?;
    let (listener, other) = twice(listener).context("cannot wait for connections")?;
    Ok((listener, Some(Waiting::begin(other, &tls.config))))
}

/// Returns two listeners that accept connections from the same queue.
fn twice(listener: TcpListener) -> std::io::Result<(TcpListener, TcpListener)> {
    let listener = listener.into_std()?;
    let other = listener.try_clone()?;
    Ok((TcpListener::from_std(listener)?, TcpListener::from_std(other)?))
}

/// Creates the initial objects and starts the informers that the service itself depends on.
async fn prepare(
    flags: &Serve,
    service: &Arc<Service>,
    aggregation: &Aggregation,
    milestones: &Milestones,
) -> Result<()> {
    let context = &service.context;
    let (store, background, shutdown) = (&context.shared.store, &context.background, &context.shutdown);
    let new = store.snapshot().is_empty();
    let outcome = start(context).await;
    outcome.context("cannot prepare the store")?;
    flags.aggregation.follow(aggregation, service);
    if let Some(levels) = &service.fairness {
        fairness::follow(context, levels);
    }
    if new {
        // No client has seen the store empty.
        store.begin_history();
    }
    if !store.is_shared() {
        let repaired = claims::repair(store, &context.registry()).await;
        repaired.map_err(|error| anyhow!("cannot repair the allocations of objects: {error}"))?;
        let time = ExpiryTime {
            life: flags.storage.event_ttl,
            clock: Arc::clone(&context.shared.clock),
            advances: testing::advances(service.testing.as_ref()),
        };
        expiry::expire_events(store, background, shutdown, time);
    }
    milestones.prepared.finish();
    Ok(())
}

/// Time for the connections of watches to close after the last watch has ended.
const WATCH_CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Returns the limits of connections.
pub(crate) fn limits(flags: &Serve) -> Limits {
    let defaults = Limits::default();
    Limits {
        // Zero, the default in kube-apiserver, asks for the default of the server.
        concurrent_streams: match flags.http2_max_streams_per_connection {
            0 => defaults.concurrent_streams,
            streams => streams,
        },
        connections_per_address: flags.max_connections_per_address,
        // The time limit of the request, and the same time again for reading the response.
        exchange: 2 * flags.request_timeout,
        body: flags.request_timeout,
        // The last watch ends with the grace period.
        drain: defaults
            .drain
            .max(flags.shutdown_watch_termination_grace_period + WATCH_CLOSE_LIMIT),
        ..defaults
    }
}

/// Time limit of the export of the last spans.
const TRACES_LIMIT: Duration = Duration::from_secs(2);

/// A server at work, and all that has to end with it.
pub(crate) struct Serving {
    trigger: ClosingTrigger,
    server: JoinHandle<()>,
    store: Arc<Store>,
    presence: Presence,
    /// Tasks that end when the leases of controllers are released.
    leases: Vec<JoinHandle<()>>,
    auditor: Option<Arc<Auditor>>,
    tracer: Option<Arc<Tracer>>,
    /// Drain that denies requests while running ones finish.
    drain: Option<Arc<RequestDrain>>,
    /// Endpoints for tests.
    testing: Option<Arc<Testing>>,
}

impl Serving {
    /// Starts the tasks that no client waits for: controllers, and in a shared store the presence of this server.
    fn begin(flags: &Serve, started: Started) -> Result<Self> {
        let Started {
            certificates,
            service,
            trigger,
            server,
            settings,
            reached,
            ..
        } = started;
        let service = &service;
        let (store, features) = (&service.context.shared.store, settings.gates.features());
        let context = ControllerContext {
            host_name: settings.host.as_str().into(),
            root_ca: certificates.root()?,
            trust: flags
                .aggregation
                .trust(flags.client_ca_file.is_some(), certificates.tls.client_authorities),
            quota_sync_period: flags.controller.resource_quota_sync_period,
            answers_pool_requests: features.has(Feature::DRAResourcePoolStatus),
            storage_versions: presence::storage_versions(features, &settings.host, service.storage_versions.as_ref()),
        };
        let presence = Presence::begin(flags, service, features, settings.host, reached);
        let leases = settings.controllers.run(service, &context, settings.elections);
        if flags.is_small_cluster() {
            run_pod_notice(service);
        }
        Ok(Self {
            trigger,
            server,
            store: Arc::clone(store),
            presence,
            leases,
            auditor: service.auditor.clone(),
            tracer: service.tracer.clone(),
            drain: service.drain.clone(),
            testing: service.testing.clone(),
        })
    }

    /// Waits for a signal, and then for the end of all tasks.
    async fn end(mut self, flags: &Serve, signals: &mut Signals) -> Result<()> {
        let name = tokio::select! {
            name = signals.next() => name,
            // A server that accepts no connections has to be restarted.
            error = self.failed() => return Err(error),
        };
        tracing::info!(signal = name, "ending");
        self.trigger.0.not_ready();
        if let Some(path) = &flags.ready_file {
            let _ = std::fs::remove_file(path);
        }
        let delay = async {
            tokio::select! {
                () = tokio::time::sleep(flags.shutdown_delay_duration) => {}
                _ = signals.next() => {}
            }
        };
        self.stop(delay).await
    }

    /// Waits until the server ends by itself, and returns the reason.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.server).await {
            Ok(()) => anyhow!("the server ended by itself"),
            Err(error) => anyhow!(error).context("the server failed"),
        }
    }

    /// Returns the current state of all objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// Returns the time by which the clock is ahead.
    pub(crate) fn ahead(&self) -> Duration {
        self.testing
            .as_ref()
            .map_or(Duration::ZERO, |testing| testing.clock.ahead())
    }

    /// Returns the receiver of the phases of the shutdown.
    pub(crate) fn shutdown(&self) -> Shutdown {
        self.trigger.0.shutdown()
    }

    /// Stops serving new clients after `delay`, and waits for the end of all tasks.
    pub(crate) async fn stop(self, delay: impl Future<Output = ()>) -> Result<()> {
        self.trigger.0.not_ready();
        if let Some(testing) = &self.testing {
            testing.forks.close().await;
        }
        self.presence.end().await;
        delay.await;
        if let Some(drain) = &self.drain {
            // Every request that counts has a time limit.
            tokio::join!(drain.drain(), self.trigger.0.end_watches());
        }
        self.trigger.0.close();
        self.server.await.context("the server failed")?;
        // The next leader need not wait until the leases expire.
        let _ = tokio::time::timeout(RELEASE_LIMIT, join_all(self.leases)).await;
        if let Some(tracer) = self.tracer {
            tracer.close(TRACES_LIMIT).await;
        }
        if let Some(auditor) = self.auditor {
            auditor.close(audit::CLOSE_LIMIT).await;
        }
        self.store.close().await.context("cannot close the store")?;
        tracing::info!("ended");
        Ok(())
    }
}

/// Explanation for a server that is a whole small cluster.
const NO_NODES: &str = "Nothing runs Pods here until nodes join: connect a kubelet, or simulate nodes with KWOK \
                        (https://kwok.sigs.k8s.io).\n\n";

/// Prints the next steps for a new user.
fn announce(url: &str, kubeconfig: Option<&Path>, is_small_cluster: bool) -> Result<()> {
    let mut text = format!("Holdfast serves {url}\n");
    if let Some(path) = kubeconfig {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        text += &format!(
            "\n    export KUBECONFIG={}\n    kubectl get namespaces\n\n",
            path.display()
        );
    }
    if is_small_cluster {
        text += NO_NODES;
    }
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason to end.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}
