//! Health checks with kube-apiserver's names.

use std::sync::{Arc, OnceLock};

use holdfast_at_rest::encryption::Encryption;
use holdfast_controllers::Selection;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_server::objects::Store;
use holdfast_server::operations::health::{Endpoint, Health, Hook};
use holdfast_server::operations::storage_versions::StorageVersionBarrier;
use holdfast_server::runtime::background::{self, Background};
use holdfast_server::runtime::shutdown::Shutdown;
use time::OffsetDateTime;

use crate::encryption;
use crate::flags::Serve;

/// The checks of kube-apiserver's post-start hooks, in its order. This server does the same before it serves, or does not need
/// it as a single process. A check that names a task fails when that task has ended.
const HOOKS: [&str; 32] = [
    "poststarthook/start-apiserver-admission-initializer",
    background::OBSERVERS,
    holdfast_controllers::FLOW_CONTROL,
    FAIRNESS_FILTER,
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    holdfast_controllers::CRDS,
    background::DEFINITIONS,
    "poststarthook/start-system-namespaces-controller",
    holdfast_controllers::COORDINATED_ELECTION,
    "poststarthook/peer-endpoint-reconciler-controller",
    holdfast_controllers::AUTHENTICATION_INFO,
    IDENTITY_LEASE,
    IDENTITY_LEASES,
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

/// Check of the request queues of priority and fairness, or of the request limits if that is disabled.
const FAIRNESS_FILTER: &str = "poststarthook/priority-and-fairness-filter";
const IN_FLIGHT_FILTER: &str = "poststarthook/max-in-flight-filter";

/// Check that tells load balancers if the store is writable before they send clients here.
const STORAGE_READINESS: &str = "poststarthook/storage-readiness";

/// Health checks of the lease that shows that a server is alive, and of the cleanup of leases of stopped servers.
const IDENTITY_LEASE: &str = "poststarthook/start-kube-apiserver-identity-lease-controller";
const IDENTITY_LEASES: &str = "poststarthook/start-kube-apiserver-identity-lease-garbage-collector";

/// State of the start that health checks read.
#[derive(Default)]
pub(crate) struct Milestones {
    /// Completion of the creation of the initial objects.
    pub(crate) prepared: Hook,
    /// Expiration time of the server's own certificate.
    pub(crate) certificate_end: Arc<OnceLock<OffsetDateTime>>,
    /// The tasks that run for as long as the server does.
    pub(crate) background: Background,
}

/// Adds the checks that exist only for etcd: its readiness, and the other clusters. `overrides` has the cluster of each
/// additional store.
fn with_etcds(health: Health, store: &Arc<Store>, overrides: &[usize]) -> Health {
    let main = Arc::clone(store);
    let health = health.with("etcd-readiness", &[Endpoint::Readyz], move || main.readiness());
    let clusters = 0..overrides.iter().max().map_or(0, |last| last + 1);
    clusters.fold(health, |health, cluster| {
        let stores = overrides.iter().enumerate().filter(|(_, of)| **of == cluster);
        with_override(health, store, cluster, stores.map(|(number, _)| number).collect())
    })
}

/// Adds the checks of another etcd cluster, which holds the additional stores `stores`.
fn with_override(health: Health, store: &Arc<Store>, cluster: usize, stores: Vec<usize>) -> Health {
    let check = |outcome: fn(&Store) -> Result<(), String>| {
        let (store, stores) = (Arc::clone(store), stores.clone());
        move || {
            let mut others = stores.iter().filter_map(|number| store.overrides().get(*number));
            others.try_for_each(|(_, other)| outcome(other))
        }
    };
    health
        .with(format!("etcd-override-{cluster}"), Endpoint::ALL, check(Store::health))
        .with(
            format!("etcd-override-readiness-{cluster}"),
            &[Endpoint::Readyz],
            check(Store::readiness),
        )
}

/// Endpoints that fail if the server should be restarted.
const LIVE: &[Endpoint] = &[Endpoint::Healthz, Endpoint::Livez];

/// Endpoint that fails while the server should get no requests.
const READY: &[Endpoint] = &[Endpoint::Readyz];

/// Checks that the store accepts writes.
fn stored(store: &Arc<Store>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let store = Arc::clone(store);
    move || store.health()
}

/// Adds the check of the task that publishes storage versions. The server is not ready before writes are accepted, which wait for
/// that task.
fn with_storage_versions(health: Health, barrier: Arc<StorageVersionBarrier>, background: &Background) -> Health {
    const NAME: &str = holdfast_controllers::STORAGE_VERSIONS;
    let (ready, livez) = (background.clone(), background.clone());
    health
        .with(NAME, &[Endpoint::Healthz, Endpoint::Readyz], move || {
            if !barrier.is_complete() {
                return Err("not finished".to_owned());
            }
            ready.outcome(NAME)
        })
        .with(NAME, &[Endpoint::Livez], move || livez.outcome(NAME))
}

/// Parts of the server that the health checks look at.
pub(crate) struct Sources<'a> {
    /// Flags of the server.
    pub(crate) flags: &'a Serve,
    /// Store of all objects.
    pub(crate) store: Arc<Store>,
    /// Indices of the etcd clusters that hold single resources.
    pub(crate) overrides: &'a [usize],
    /// Encryption at rest, if it is configured.
    pub(crate) encryption: Option<&'a Arc<Encryption>>,
    /// Steps of the start.
    pub(crate) milestones: &'a Milestones,
    /// Feature gates.
    pub(crate) features: Features,
    /// Controllers that run.
    pub(crate) controllers: &'a Selection,
    /// Barrier of the storage versions, if they are reported.
    pub(crate) storage_versions: Option<Arc<StorageVersionBarrier>>,
    /// Shutdown of the process.
    pub(crate) ending: Shutdown,
}

/// Returns the health checks in kube-apiserver's order.
pub(crate) fn checks(sources: Sources<'_>) -> Health {
    let Sources {
        flags,
        store,
        overrides,
        encryption,
        milestones,
        features,
        controllers,
        storage_versions,
        ending,
    } = sources;
    let certificate_end = Arc::clone(&milestones.certificate_end);
    let (background, followers) = (&milestones.background, milestones.background.clone());
    let health = Health::new()
        // Log messages are written immediately, so nothing can block.
        .with("log", Endpoint::ALL, || Ok(()))
        // The server calls itself without a connection. Only the certificate that it created for others can expire.
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
        // Monitoring tools expect this name. It denotes the embedded store, too.
        .with("etcd", LIVE, stored(&store));
    let health = match store.is_shared() {
        true => with_etcds(health.with("etcd", READY, stored(&store)), &store, overrides),
        // The check `storage-readiness` reports the same.
        false => health.with_alias("etcd", READY, stored(&store)),
    };
    let reloads_encryption = flags.storage.encryption.encryption_provider_config_automatic_reload;
    let health = match encryption.filter(|encryption| reloads_encryption || encryption.has_plugins()) {
        Some(encryption) => {
            let encryption = Arc::clone(encryption);
            health.with(encryption::CHECK, encryption::CHECKED, move || encryption.check())
        }
        None => health,
    };
    let health = health
        // Nothing is served before the state in memory is complete and all informers are synced.
        .with("informer-sync", &[Endpoint::Readyz], move || followers.all());
    let hooks = HOOKS.iter().fold(health, |health, name| match *name {
        STORAGE_READINESS if !features.has(Feature::WatchCacheInitializationPostStartHook) => health,
        IDENTITY_LEASE | IDENTITY_LEASES if !features.has(Feature::APIServerIdentity) => health,
        holdfast_controllers::COORDINATED_ELECTION if !features.has(Feature::CoordinatedLeaderElection) => health,
        STORAGE_READINESS => health.with(STORAGE_READINESS, Endpoint::ALL, stored(&store)),
        // Without priority levels, the limits of concurrent requests replace them.
        FAIRNESS_FILTER if !flags.fairness.enable_priority_and_fairness => health.with_hook(
            IN_FLIGHT_FILTER,
            &milestones.prepared,
            background,
            flags.livez_grace_period,
        ),
        holdfast_controllers::FLOW_CONTROL if !flags.fairness.enable_priority_and_fairness => health,
        name => health.with_hook(name, &milestones.prepared, background, flags.livez_grace_period),
    });
    let hooks = match encryption.filter(|_| reloads_encryption) {
        Some(_) => {
            let prepared = &milestones.prepared;
            hooks.with_hook(encryption::RELOAD_CHECK, prepared, background, flags.livez_grace_period)
        }
        None => hooks,
    };
    let storage_hooks = match storage_versions {
        Some(barrier) => with_storage_versions(hooks, barrier, background),
        None => hooks,
    };
    let hooks = storage_hooks.with_tasks(controllers.names(), background);
    hooks.with("shutdown", &[Endpoint::Readyz], move || {
        if ending.is_ready() {
            Ok(())
        } else {
            Err("process is shutting down".to_owned())
        }
    })
}
