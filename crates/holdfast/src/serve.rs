//! Start, service and end of the server.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use holdfast_authorization::rbac::Policy;
use holdfast_authorization::{AlwaysAllow, AlwaysDeny, Authorizer, Chain};
use holdfast_controllers::{Identity, IdentityLease, KubernetesEndpoints, Selection};
use holdfast_kinds::apis::Apis;
use holdfast_kinds::features::{Feature, FeatureGates};
use holdfast_resource::Registry;
use holdfast_resource::access::TokenAuthenticator;
use holdfast_server::api::context::{Config, Context, Parts, Shared};
use holdfast_server::identity::{
    Authenticator, Impersonation, IssuerDocuments, ServiceAccounts, Surroundings, TokenConfig, TokenFile, Tokens,
};
use holdfast_server::metrics::{EtcdCalls, Metrics};
use holdfast_server::objects::{Objects, Store};
use holdfast_server::objects::{claims, expiry};
use holdfast_server::operations::fairness;
use holdfast_server::operations::health::{Endpoint, Health, Hook};
use holdfast_server::operations::paths::Paths;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::start;
use holdfast_server::runtime::background::{self, Background};
use holdfast_server::runtime::shutdown::{Shutdown, ShutdownTrigger};
use holdfast_server::runtime::version::Build;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers, SystemClock};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::connection::{self, Limits};
use holdfast_server::wire::in_flight::InFlight;
use holdfast_server::wire::tls::{TlsFiles, TlsRules};
use holdfast_server::write::FieldManagers;
use holdfast_store::{Etcd, EtcdConfig, OpenError};
use smol_str::SmolStr;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::aggregation::Aggregation;
use crate::flags::{AuthorizationMode, Serve};
use crate::openapi::Documents;
use crate::pki::{self, Names, Pair, Pki};
use crate::token_keys::TokenKeys;
use crate::waiting::Waiting;
use crate::{admission, audit, compatible, files, kubeconfig, logging};

/// What `build.rs` found out about this build.
const BUILD: Build = Build {
    commit: env!("HOLDFAST_GIT_COMMIT"),
    tree_state: env!("HOLDFAST_GIT_TREE_STATE"),
    date: env!("HOLDFAST_BUILD_DATE"),
    compiler: env!("HOLDFAST_COMPILER"),
};

/// Serves until a signal says to end.
pub(crate) fn run(flags: &Serve) -> Result<()> {
    let started = Instant::now();
    logging::start(flags.log_format, flags.v);
    compatible::report(flags.ignored.iter().map(String::as_str).chain(flags.storage.unused()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(flags.worker_threads))
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(serve(flags, started));
    // What is still under way had its time to end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(flags: &Serve, started: Instant) -> Result<()> {
    // Signals that come during the start count, too.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;

    let gates = flags.served.gates()?;
    let controllers = Selection::parse(&flags.controllers)?;
    flags.endpoints.check()?;
    let rules = flags.transport.tls()?;
    let host = hostname();
    // Who has a store of its own need not ask anybody.
    let election = match flags.storage.etcd_servers.is_empty() {
        true => None,
        false => flags.election.election(&host)?,
    };
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let port = listener.local_addr().context("cannot tell where it listens")?.port();
    let reached = SocketAddr::new(reached_at(flags), port);
    let url = format!("https://{reached}");

    let trigger = ShutdownTrigger::new();
    let shutdown = trigger.shutdown();
    let kinds = holdfast_kinds::Config {
        service_cidr: flags.service_cluster_ip_range,
        node_ports: flags.service_node_port_range.clone(),
        secure_port: reached.port(),
        advertise_address: Some(reached.ip()),
        first_endpoints: flags.storage.etcd_servers.is_empty() && flags.endpoints.are_kept(),
        allow_privileged: flags.allow_privileged,
        features: gates.features(),
        apis: flags.served.apis()?,
        ..holdfast_kinds::Config::default()
    };
    let registry = holdfast_kinds::registry(&kinds).context("cannot read the built-in kinds")?;
    let registry = Arc::new(ArcSwap::from_pointee(registry));
    // The store's lock comes first: nothing in the directory is written while another process has it.
    files::private_folder(&flags.data_dir)?;
    // etcd has no such lock and may not be there yet, which those are told who ask.
    let (listener, waiting) = match flags.storage.etcd_servers.is_empty() {
        true => (listener, None),
        false => {
            let certificates = certificates(flags, &url, rules.clone())
                .await
                .context("cannot make certificates")??;
            let tls = certificates.tls.load()?;
            let (listener, other) = twice(listener).context("cannot wait for connections")?;
            (listener, Some(Waiting::begin(other, &tls.config)))
        }
    };
    let opened = tokio::select! {
        opened = open_store(flags, &registry, &kinds.apis) => opened,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    drop(waiting);
    let (store, clusters) = opened?;
    let new = store.snapshot().is_empty();
    // Certificates and the first objects wait for different things at a first start, and are made side by side.
    let certificates = certificates(flags, &url, rules);
    let milestones = Milestones::default();
    let (service, aggregation) = service(
        flags,
        registry,
        (Arc::clone(&store), clusters),
        &kinds,
        reached,
        shutdown.clone(),
        (&milestones, &controllers, &gates),
    )?;
    let outcome = start(&service.context).await;
    outcome.context("cannot prepare the store")?;
    flags.aggregation.follow(&aggregation, &service);
    if let Some(levels) = &service.fairness {
        fairness::follow(&service.context, levels);
    }
    if new {
        // Nobody has seen the store empty.
        store.begin_history();
    }
    if store.is_shared() {
        claims::repair(&store, &service.context.registry(), &milestones.background, &shutdown);
    } else {
        expiry::expire_events(&store, &milestones.background, &shutdown, flags.storage.event_ttl);
    }
    milestones.prepared.finish();
    let certificates = certificates.await.context("cannot make certificates")??;
    if let Some(own) = &certificates.own {
        let end = pki::end(own)?;
        milestones.certificate_end.get_or_init(|| end);
    }
    let tls = certificates.tls.load()?;

    let limits = Limits {
        concurrent_streams: flags.http2_max_streams_per_connection,
        connections_per_address: flags.max_connections_per_address,
        // As long as the work may take, and as long again to take the answer.
        exchange: 2 * flags.request_timeout,
        body: flags.request_timeout,
        ..Limits::default()
    };
    let mut server = tokio::spawn(connection::serve(listener, tls, Arc::clone(&service), limits, shutdown));
    tracing::info!(%url, took = ?started.elapsed(), "ready");
    announce(&url, certificates.kubeconfig.as_deref())?;
    if let Some(path) = &flags.ready_file {
        files::write_private(path, &format!("{url}\n"))?;
    }

    // Nobody waits for controllers, so they begin when all else is done.
    let surroundings = holdfast_controllers::ControllerContext {
        root_ca: certificates.root()?,
        trust: flags
            .aggregation
            .trust(flags.client_ca_file.is_some(), certificates.tls.client_authorities),
        quota_sync_period: flags.controller.resource_quota_sync_period,
        shares_store: store.is_shared(),
    };
    let presence = match store.is_shared() {
        true => Presence::begin(flags, &service, &store, host, reached),
        false => Presence::default(),
    };
    let released = controllers.run(&service, &surroundings, election);
    let auditor = service.auditor.clone();
    drop(service);

    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        // Who takes no connections any more had better be started anew.
        ended = &mut server => {
            ended.context("the server failed")?;
            bail!("the server ended by itself");
        }
    };
    tracing::info!(signal = name, "ending");
    trigger.not_ready();
    if let Some(path) = &flags.ready_file {
        let _ = std::fs::remove_file(path);
    }
    presence.end().await;
    tokio::select! {
        () = tokio::time::sleep(flags.shutdown_delay_duration) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    trigger.close();
    server.await.context("the server failed")?;
    if let Some(released) = released {
        // Whoever waits for the lease need not wait for its end.
        let _ = tokio::time::timeout(RELEASE_LIMIT, released).await;
    }
    if let Some(auditor) = auditor {
        auditor.close(audit::CLOSE_LIMIT).await;
    }
    store.close().await.context("cannot close the store")?;
    tracing::info!("ended");
    Ok(())
}

/// What a server writes into a store that it shares, so that others know that it lives.
#[derive(Default)]
struct Presence {
    endpoints: Option<Arc<KubernetesEndpoints>>,
    lease: Option<Arc<IdentityLease>>,
}

impl Presence {
    fn begin(flags: &Serve, service: &Arc<Service>, store: &Arc<Store>, host: String, reached: SocketAddr) -> Self {
        let identity = Identity {
            host,
            uid: RandomIdentifiers.uid(),
            address: reached.to_string(),
        };
        Self {
            endpoints: flags.endpoints.run(service, store, reached, &identity),
            lease: identity.run(service),
        }
    }

    /// Takes it away, in good time.
    async fn end(self) {
        if let Some(endpoints) = self.endpoints {
            let _ = tokio::time::timeout(RELEASE_LIMIT, endpoints.end()).await;
        }
        if let Some(lease) = self.lease {
            let _ = tokio::time::timeout(RELEASE_LIMIT, lease.end()).await;
        }
    }
}

/// What the server and its clients show each other.
struct Certificates {
    /// What connections are accepted with.
    tls: TlsFiles,
    /// The certificate that the server makes for itself; none where it makes none.
    own: Option<Pair>,
    /// What clients know the server by: its authority, or the certificate that was brought along.
    root: PathBuf,
    /// The administrator's kubeconfig; none where there is no administrator.
    kubeconfig: Option<PathBuf>,
}

impl Certificates {
    fn root(&self) -> Result<Arc<str>> {
        Ok(files::read_text(&self.root)?.into())
    }
}

/// Makes what the server and its first clients show each other, where it is not there. Clients are trusted if the server's own
/// authority or that of the flags signed their certificate.
fn certificates(flags: &Serve, url: &str, rules: TlsRules) -> JoinHandle<Result<Certificates>> {
    let (names, url, folder) = (names(flags), url.to_owned(), flags.data_dir.clone());
    let brought = match (&flags.tls_cert_file, &flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(Pair {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        _ => None,
    };
    let cert_dir = flags.cert_dir.clone();
    let client_authority = flags.client_ca_file.clone();
    let proxies = flags.aggregation.requestheader_client_ca_file.clone();
    let stands_alone = flags.as_kube_apiserver;
    tokio::task::spawn_blocking(move || {
        let now = OffsetDateTime::now_utc();
        let served = match (brought, cert_dir) {
            (None, Some(folder)) => Some(Pair::ensure(&folder, &names, now)?),
            (brought, _) => brought,
        };
        if let (true, Some(served)) = (stands_alone, &served) {
            return Ok(Certificates {
                tls: tls_files(served, client_authority.into_iter().collect(), proxies, rules),
                own: None,
                root: served.certificate.clone(),
                kubeconfig: None,
            });
        }
        let pki = Pki::ensure(&folder.join("pki"), &names, now)?;
        let root = served
            .as_ref()
            .map_or(&pki.authority, |served| served)
            .certificate
            .clone();
        let kubeconfig = folder.join("kubeconfig");
        kubeconfig::write(&kubeconfig, &url, &root, &pki)?;
        let mut authorities = vec![pki.authority.certificate];
        authorities.extend(client_authority);
        Ok(Certificates {
            tls: tls_files(served.as_ref().unwrap_or(&pki.server), authorities, proxies, rules),
            own: Some(pki.server),
            root,
            kubeconfig: Some(kubeconfig),
        })
    })
}

fn tls_files(server: &Pair, client_authorities: Vec<PathBuf>, proxies: Option<PathBuf>, rules: TlsRules) -> TlsFiles {
    TlsFiles {
        certificate: server.certificate.clone(),
        key: server.key.clone(),
        client_authorities,
        other_authorities: proxies.into_iter().collect(),
        rules,
    }
}

/// Two that take connections from the same queue.
fn twice(listener: TcpListener) -> std::io::Result<(TcpListener, TcpListener)> {
    let listener = listener.into_std()?;
    let other = listener.try_clone()?;
    Ok((TcpListener::from_std(listener)?, TcpListener::from_std(other)?))
}

/// Where clients reach the server.
fn reached_at(flags: &Serve) -> IpAddr {
    let listened = match flags.bind_address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    flags.advertise_address.unwrap_or(listened)
}

/// The names that the server's own certificate is for.
fn names(flags: &Serve) -> Names {
    const DNS: [&str; 5] = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names = Names {
        dns: DNS.map(str::to_owned).into(),
        addresses: [
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
            reached_at(flags),
        ]
        .into(),
    };
    let host = hostname();
    if !host.is_empty() {
        names.dns.insert(host);
    }
    names
}

/// The name of this host; empty where it has none.
fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    read.trim().to_owned()
}

async fn open_etcd(config: EtcdConfig, registry: &Arc<ArcSwap<Registry>>) -> Result<Store> {
    let opened = Etcd::open(config, Objects::new(Arc::clone(registry))).await;
    let (state, engine) = opened.context("cannot open the store")?;
    Ok(Store::with_engine(state, Box::new(engine)))
}

/// What is known of the etcds below a store.
struct Clusters {
    /// Who counts their calls.
    calls: EtcdCalls,
    /// For each store of its own, which of the other clusters has it.
    overrides: Vec<usize>,
}

/// Opens the store, with who counts its calls where it is etcd.
async fn open_store(
    flags: &Serve,
    registry: &Arc<ArcSwap<Registry>>,
    apis: &Apis,
) -> Result<(Arc<Store>, Option<Clusters>)> {
    flags.storage.check()?;
    if let Some(clusters) = flags.storage.etcd(registry, apis)? {
        let overrides = clusters.elsewhere.iter().map(|other| other.cluster).collect();
        let elsewhere = clusters
            .elsewhere
            .into_iter()
            .map(async |other| anyhow::Ok((other.prefix, open_etcd(other.config, registry).await?)));
        let (store, elsewhere) = tokio::try_join!(open_etcd(clusters.main, registry), try_join_all(elsewhere))?;
        let calls = clusters.calls;
        let store = Arc::new(store.with_elsewhere(elsewhere));
        return Ok((store, Some(Clusters { calls, overrides })));
    }
    let config = holdfast_store::Config {
        accept_data_loss: flags.accept_data_loss,
        sync: !flags.unsafe_no_fsync,
        ..holdfast_store::Config::new(&flags.data_dir)
    };
    let store = Store::open(config, Objects::new(Arc::clone(registry)));
    let store = store.map_err(|error| match error {
        OpenError::Damaged { .. } => anyhow!(
            "{error}. Nothing was changed: bring back a backup, or start with --accept-data-loss to go on with what can \
             still be read"
        ),
        other => other.into(),
    });
    Ok((Arc::new(store.context("cannot open the store")?), None))
}

/// What kube-apiserver does after its start and this server before it serves, or need not do as one process: the checks by
/// which it is asked for, in the order of kube-apiserver. Those that name tasks fail where one of these has ended.
const HOOKS: [&str; 31] = [
    "poststarthook/start-apiserver-admission-initializer",
    background::OBSERVERS,
    holdfast_controllers::FLOW_CONTROL,
    FAIRNESS_FILTER,
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    holdfast_controllers::DEFINITIONS,
    background::DEFINITIONS,
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    holdfast_controllers::AUTHENTICATION_INFO,
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    STORAGE_READINESS,
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    background::API_SERVICES,
    "poststarthook/apiservice-status-local-available-controller",
    holdfast_controllers::AVAILABILITY,
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    holdfast_controllers::REMOTE_DISCOVERY,
    holdfast_controllers::API_SERVICES,
    "autoregister-completion",
    holdfast_controllers::REMOTE_OPENAPI,
    "poststarthook/apiservice-openapiv3-controller",
];

/// The check of what gives requests their turns, and of what counts them where nothing does.
const FAIRNESS_FILTER: &str = "poststarthook/priority-and-fairness-filter";
const IN_FLIGHT_FILTER: &str = "poststarthook/max-in-flight-filter";

/// The check by which clients learn whether the store can be written to before they are sent here.
const STORAGE_READINESS: &str = "poststarthook/storage-readiness";

/// How long the end of the server waits until its leases are given away.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// What checks of health learn while the server starts.
#[derive(Default)]
struct Milestones {
    /// Whether the first objects are there.
    prepared: Hook,
    /// When the server's own certificate ends.
    certificate_end: Arc<OnceLock<OffsetDateTime>>,
    /// The tasks that run for as long as the server does.
    background: Background,
}

fn service(
    flags: &Serve,
    registry: Arc<ArcSwap<Registry>>,
    (store, clusters): (Arc<Store>, Option<Clusters>),
    kinds: &holdfast_kinds::Config,
    reached: SocketAddr,
    shutdown: Shutdown,
    (milestones, controllers, gates): (&Milestones, &Selection, &FeatureGates),
) -> Result<(Arc<Service>, Aggregation)> {
    let token_file = flags.token_auth_file.as_deref().map(TokenFile::load).transpose()?;
    let keys = TokenKeys::load(
        &flags.data_dir.join("pki"),
        flags.service_account_signing_key_file.as_deref(),
        &flags.service_account_key_file,
    )?;
    let issuer = IssuerDocuments::new(
        flags.service_account_issuer.first().map_or("", String::as_str),
        &keys_url(flags, reached),
        &keys.verifying,
    );
    let surroundings = Surroundings {
        registry: Arc::clone(&registry),
        store: Arc::clone(&store),
        clock: Arc::new(SystemClock),
        identifiers: Arc::new(RandomIdentifiers),
    };
    let accounts = ServiceAccounts::new(token_config(flags), keys.signing, keys.verifying, surroundings);
    let accounts = Arc::new(accounts);
    let tokens = Tokens::new([
        Arc::new(token_file.unwrap_or_default()) as Arc<dyn TokenAuthenticator>,
        Arc::clone(&accounts) as Arc<dyn TokenAuthenticator>,
    ]);
    let (ending, stored) = (shutdown.clone(), Arc::clone(&store));
    let overrides = clusters.as_ref().map_or(&[][..], |clusters| &clusters.overrides);
    let health = health(flags, (stored, overrides), milestones, controllers, ending);
    let config = Config {
        request_timeout: flags.request_timeout,
        min_watch_timeout: Duration::from_secs(flags.min_request_timeout),
        deletion_workers: flags.storage.delete_collection_workers.max(1),
        max_object_bytes: flags.max_object_bytes,
        watch_list: kinds.features.has(Feature::WatchList),
        cbor: kinds.features.has(Feature::CBORServingAndStorage),
        compress: kinds.features.has(Feature::APIResponseCompression),
    };
    let types = Arc::clone(registry.load().types());
    let documents = Documents::new(Arc::clone(&registry), Arc::clone(types.table()), kinds.features);
    let metrics = Metrics::new().and_then(|metrics| {
        metrics.count_objects(Arc::clone(&store), Arc::clone(&registry))?;
        metrics.tell_of_build(&BUILD)?;
        metrics.tell_of_features(gates.iter().map(|gate| (gate.name, gate.stage.name(), gate.on)))?;
        clusters.map_or(Ok(()), |clusters| metrics.count_etcd(clusters.calls))?;
        Ok(Arc::new(metrics))
    });
    let metrics = metrics.context("cannot set up metrics")?;
    let aggregation = flags
        .aggregation
        .load((&store, &registry), reached, &metrics, &shutdown)?;
    let documents = aggregation.aggregator.documents(Arc::new(documents));
    let limits = [flags.max_requests_inflight, flags.max_mutating_requests_inflight];
    let levels = flags.fairness.levels(limits, flags.request_timeout)?;
    let in_flight = Arc::new(InFlight::new(
        flags.max_requests_inflight,
        flags.max_mutating_requests_inflight,
    ));
    let observer = Arc::new(metrics.audit().clone());
    let auditor = flags.audit.auditor(observer, &milestones.background, &shutdown)?;
    let health = match &auditor {
        Some(_) => health.with(audit::CHECK, Endpoint::ALL, {
            let background = milestones.background.clone();
            move || background.outcome(audit::CHECK)
        }),
        None => health,
    };
    let context = Context::new(Parts {
        webhooks: Webhooks::new(Arc::clone(&kinds.webhooks), Arc::clone(&store), Arc::clone(&registry)),
        shared: Shared {
            registry: Arc::clone(&registry),
            policies: Arc::clone(&kinds.policies),
            store,
            authorizer: Arc::new(authorizer(flags, &kinds.policy)),
            tokens: Arc::new(tokens),
            identifiers: Arc::new(RandomIdentifiers),
            clock: Arc::new(SystemClock),
            metrics: Arc::clone(&metrics),
        },
        field_managers: FieldManagers::new(types),
        issuer: accounts,
        admission: admission::chain(
            &flags.enable_admission_plugins,
            &flags.disable_admission_plugins,
            &flags.tolerations.settings(kinds.features),
        )?,
        shutdown,
        background: milestones.background.clone(),
        config,
    });
    let service = Service {
        context: Arc::new(context),
        authenticator: Authenticator {
            anonymous: anonymous(flags),
            front_proxy: aggregation.front_proxy.clone(),
        },
        impersonation: Impersonation::default(),
        paths: Paths::new(registry, health, reached.to_string(), Arc::new(SystemClock))
            .with_build(&BUILD)
            .with_flags(flags.stated.clone())
            .with_openapi(documents)
            .with_aggregator(Arc::clone(&aggregation.aggregator))
            .with_metrics(metrics, Arc::clone(&in_flight))
            .with_fairness(levels.clone())
            .with_issuer(issuer),
        in_flight,
        fairness: levels,
        auditor,
        browsers: flags.transport.browsers()?,
        go_away: flags.transport.go_away()?,
    };
    Ok((Arc::new(service), aggregation))
}

/// The checks that only etcd has: its readiness, and the other clusters. `overrides` has the cluster of each store beside `store`.
fn with_etcds(health: Health, store: &Arc<Store>, overrides: &[usize]) -> Health {
    let main = Arc::clone(store);
    let health = health.with("etcd-readiness", &[Endpoint::Readyz], move || main.readiness());
    let clusters = 0..overrides.iter().max().map_or(0, |last| last + 1);
    clusters.fold(health, |health, cluster| {
        let stores = overrides.iter().enumerate().filter(|(_, of)| **of == cluster);
        with_override(health, store, cluster, stores.map(|(number, _)| number).collect())
    })
}

/// The checks of another etcd, which has these of the stores beside `store`.
fn with_override(health: Health, store: &Arc<Store>, cluster: usize, stores: Vec<usize>) -> Health {
    let check = |outcome: fn(&Store) -> Result<(), String>| {
        let (store, stores) = (Arc::clone(store), stores.clone());
        move || {
            let mut others = stores.iter().filter_map(|number| store.elsewhere().get(*number));
            others.try_for_each(|(_, other)| outcome(other))
        }
    };
    health
        .with(format!("etcd-override-{cluster}"), LIVE, check(Store::health))
        .with(
            format!("etcd-override-readiness-{cluster}"),
            &[Endpoint::Readyz],
            check(Store::readiness),
        )
}

/// Where a server had better be started anew if it is not well.
const LIVE: &[Endpoint] = &[Endpoint::Healthz, Endpoint::Livez];

/// Whether the store takes writes.
fn stored(store: &Arc<Store>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let store = Arc::clone(store);
    move || store.health()
}

/// The checks of health, in the order of kube-apiserver.
fn health(
    flags: &Serve,
    (store, overrides): (Arc<Store>, &[usize]),
    milestones: &Milestones,
    controllers: &Selection,
    ending: Shutdown,
) -> Health {
    let certificate_end = Arc::clone(&milestones.certificate_end);
    let (background, followers) = (&milestones.background, milestones.background.clone());
    let health = Health::new()
        // What is logged is written at once, so that nothing can be held up.
        .with("log", Endpoint::ALL, || Ok(()))
        // The server speaks to itself without a connection; what can end is the certificate that it made for others.
        .with("loopback-serving-certificate", LIVE, move || {
            let ended = certificate_end
                .get()
                .is_some_and(|end| OffsetDateTime::now_utc() > *end);
            if ended {
                Err("loopback serving certificate is expired".to_owned())
            } else {
                Ok(())
            }
        })
        .with("etcd", LIVE, stored(&store));
    let health = match store.is_shared() {
        true => with_etcds(health, &store, overrides),
        false => health,
    };
    let health = health
        // Nothing is served before the state in memory is complete, and all that follows it is there.
        .with("informer-sync", &[Endpoint::Readyz], move || followers.all());
    let hooks = HOOKS.iter().fold(health, |health, name| match *name {
        STORAGE_READINESS => health.with(STORAGE_READINESS, Endpoint::ALL, stored(&store)),
        // Where there are no levels, limits stand in their place.
        FAIRNESS_FILTER if !flags.fairness.enable_priority_and_fairness => health.with_hook(
            IN_FLIGHT_FILTER,
            &milestones.prepared,
            background,
            flags.livez_grace_period,
        ),
        holdfast_controllers::FLOW_CONTROL if !flags.fairness.enable_priority_and_fairness => health,
        name => health.with_hook(name, &milestones.prepared, background, flags.livez_grace_period),
    });
    let hooks = hooks.with_tasks(controllers.names(), background);
    hooks.with("shutdown", &[Endpoint::Readyz], move || {
        if ending.is_ready() {
            Ok(())
        } else {
            Err("process is shutting down".to_owned())
        }
    })
}

/// Those who decide what users may do, in the order of the flags.
fn authorizer(flags: &Serve, policy: &Arc<Policy>) -> Chain {
    let modes = flags.authorization_mode.iter();
    Chain::new(modes.filter_map(|mode| -> Option<Arc<dyn Authorizer>> {
        match mode {
            AuthorizationMode::Rbac => Some(Arc::clone(policy) as _),
            AuthorizationMode::AlwaysAllow => Some(Arc::new(AlwaysAllow)),
            AuthorizationMode::AlwaysDeny => Some(Arc::new(AlwaysDeny)),
            // It speaks of nodes alone.
            AuthorizationMode::Node => None,
        }
    }))
}

/// Whether requests without credentials are made as `system:anonymous`: not where everybody may do everything.
fn anonymous(flags: &Serve) -> bool {
    let allows_all = flags.authorization_mode.contains(&AuthorizationMode::AlwaysAllow);
    if flags.anonymous_auth && allows_all {
        tracing::warn!("the authorization mode AlwaysAllow switches --anonymous-auth off; use another mode");
    }
    flags.anonymous_auth && !allows_all
}

/// What the flags say of tokens of service accounts.
fn token_config(flags: &Serve) -> TokenConfig {
    let issuers = flags.service_account_issuer.clone();
    let audiences = if flags.api_audiences.is_empty() {
        issuers.first().into_iter().map(SmolStr::new).collect()
    } else {
        flags.api_audiences.iter().map(SmolStr::new).collect()
    };
    let longest = flags.service_account_max_token_expiration;
    TokenConfig {
        issuers,
        audiences,
        longest: longest.and_then(|longest| i64::try_from(longest.as_secs()).ok()),
        extends: flags.service_account_extend_token_expiration,
    }
}

/// Where others find the keys of the issuer.
fn keys_url(flags: &Serve, reached: SocketAddr) -> String {
    let own = || format!("https://{reached}{}", IssuerDocuments::KEYS_PATH);
    flags.service_account_jwks_uri.clone().unwrap_or_else(own)
}

/// Tells a newcomer what to do next.
fn announce(url: &str, kubeconfig: Option<&Path>) -> Result<()> {
    let mut text = format!("Holdfast serves {url}\n");
    if let Some(path) = kubeconfig {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        text += &format!(
            "\n    export KUBECONFIG={}\n    kubectl get namespaces\n\n",
            path.display()
        );
    }
    let mut out = std::io::stdout().lock();
    // Nobody may be reading, which is no reason to end.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}
