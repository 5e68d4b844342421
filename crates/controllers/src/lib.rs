#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Controllers that an API server needs to fulfil its contract: deleting a namespace deletes its content, deleting an
//! object deletes its dependents, an aggregated role has the rules of the roles that it selects, a quota shows its
//! usage. In Kubernetes they are part of kube-controller-manager.
//!
//! Each controller is a client of the server's own API ([`Client`]): it has no access to the store, has no permissions
//! beyond those of a user in `system:masters`, and can be disabled in favour of kube-controller-manager. Each
//! controller is a task that sleeps until something changes; see `reconcile.rs`.
//!
//! Only one process may run them. If several servers use one store, the controllers that are not part of kube-apiserver
//! run on the server that holds the leader lease; see `election.rs`.

mod aggregation;
mod api_services;
mod apiserver;
mod claim_repair;
mod conditions;
mod coordinated_election;
mod crds;
mod dangling;
mod election;
mod endpoints;
mod events;
mod flow_control;
mod garbage;
mod identity;
mod migration;
mod namespace;
mod namespaced_default;
mod pod_notice;
mod policy_status;
mod pool_status;
mod queue;
mod quota;
mod reconcile;
mod rejection;
mod service_cidr;
mod service_cidr_protection;
mod storage_protection;
mod storage_versions;
mod token_tracking;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_server::operations::loopback::Client;
use holdfast_server::operations::service::Service;
use tokio::task::JoinHandle;

use crate::apiserver::MANAGER;
use crate::election::{Leadership, LeaseObject};

pub use api_services::ClusterTrust;
pub use coordinated_election::{CHECK as COORDINATED_ELECTION, NAME as COORDINATED_LEASE};
pub use election::Election;
pub use endpoints::{Address, KubernetesEndpoints, Reconciler, ServerLeases};
pub use identity::{Identity, IdentityLease};
pub use storage_versions::{CHECK as STORAGE_VERSIONS, StorageVersions};

/// Health check of the controllers of CRDs, with kube-apiserver's name.
pub const CRDS: &str = "poststarthook/start-apiextensions-controllers";
/// Health check of the controller of flow schemas, with kube-apiserver's name.
pub const FLOW_CONTROL: &str = "poststarthook/priority-and-fairness-config-consumer";

/// Health check of the controller of local APIServices, with kube-apiserver's name.
pub const API_SERVICES: &str = "poststarthook/kube-apiserver-autoregistration";
/// Health check of the controller that checks the availability of aggregated servers, with kube-apiserver's name.
pub const AVAILABILITY: &str = "poststarthook/apiservice-status-remote-available-controller";
/// Health check of the controller of the discovery of aggregated servers, with kube-apiserver's name.
pub const REMOTE_DISCOVERY: &str = "poststarthook/apiservice-discovery-controller";
/// Health check of the controller of the OpenAPI documents of aggregated servers, with kube-apiserver's name.
pub const REMOTE_OPENAPI: &str = "poststarthook/apiservice-openapi-controller";
/// Health check of the controller that publishes the trusted authorities for aggregated servers, with kube-apiserver's
/// name.
pub const AUTHENTICATION_INFO: &str = "poststarthook/start-cluster-authentication-info-controller";
/// Health check of the controller of the default flow schemas and priority levels, with kube-apiserver's name.
const FLOW_CONTROL_PRODUCER: &str = "poststarthook/priority-and-fairness-config-producer";

/// A controller that can be enabled and disabled.
struct Controller {
    /// Name in kube-controller-manager.
    name: &'static str,
    /// Health check that fails if the controller ends before the server does. It has the controller's name, as in
    /// kube-controller-manager, or the name of the check in kube-apiserver that the controller is a part of.
    check: &'static str,
    /// True if `*` includes it.
    by_default: bool,
    run: fn(Client, &ControllerContext) -> BoxFuture<'static, ()>,
}

/// Settings for controllers that are not available from the API.
#[derive(Clone, Debug, Default)]
pub struct ControllerContext {
    /// Name of this host, which events of this server's own controllers contain.
    pub host_name: Arc<str>,
    /// Authorities that signed the server's certificate (PEM).
    pub root_ca: Arc<str>,
    /// Authorities that aggregated servers trust, if this server publishes them.
    pub trust: Option<Arc<ClusterTrust>>,
    /// Interval at which the usage of all quotas is recounted; zero disables recounting.
    pub quota_sync_period: Duration,
    /// True if ResourcePoolStatusRequests are processed: the gate `DRAResourcePoolStatus`.
    pub answers_pool_requests: bool,
    /// Settings for reporting this server's storage versions, if it reports them: the gate `StorageVersionAPI`.
    pub storage_versions: Option<StorageVersions>,
}

/// All controllers that can be disabled.
const CONTROLLERS: [Controller; 13] = [
    Controller {
        name: namespace::NAME,
        check: namespace::NAME,
        by_default: true,
        run: |client, _| Box::pin(namespace::run(client)),
    },
    Controller {
        name: garbage::NAME,
        check: garbage::NAME,
        by_default: true,
        run: |client, _| Box::pin(garbage::run(client)),
    },
    Controller {
        name: aggregation::NAME,
        check: aggregation::NAME,
        by_default: true,
        run: |client, _| Box::pin(aggregation::run(client)),
    },
    Controller {
        name: quota::NAME,
        check: quota::NAME,
        by_default: true,
        run: |client, context| Box::pin(quota::run(client, context.quota_sync_period)),
    },
    // These two create objects in each namespace for the admission of service accounts, and are disabled by default
    // like it.
    Controller {
        name: "serviceaccount-controller",
        check: "serviceaccount-controller",
        by_default: false,
        run: |client, _| Box::pin(namespaced_default::run(client, namespaced_default::service_account())),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        check: "root-ca-certificate-publisher-controller",
        by_default: false,
        run: |client, context| {
            let authorities = namespaced_default::root_ca(&context.root_ca);
            Box::pin(namespaced_default::run(client, authorities))
        },
    },
    // Without a scheduler and nodes, nothing is bound or in use for long. These controllers are for clusters that use
    // claims nevertheless.
    Controller {
        name: storage_protection::CLAIMS,
        check: storage_protection::CLAIMS,
        by_default: false,
        run: |client, _| Box::pin(storage_protection::run_claims(client)),
    },
    Controller {
        name: storage_protection::VOLUMES,
        check: storage_protection::VOLUMES,
        by_default: false,
        run: |client, _| Box::pin(storage_protection::run_volumes(client)),
    },
    Controller {
        name: service_cidr_protection::NAME,
        check: service_cidr_protection::NAME,
        by_default: false,
        run: |client, _| Box::pin(service_cidr_protection::run(client)),
    },
    Controller {
        name: policy_status::NAME,
        check: policy_status::NAME,
        by_default: true,
        run: |client, _| Box::pin(policy_status::run(client)),
    },
    Controller {
        name: migration::NAME,
        check: migration::NAME,
        by_default: true,
        run: |client, _| Box::pin(migration::run(client)),
    },
    Controller {
        name: pool_status::NAME,
        check: pool_status::NAME,
        by_default: true,
        run: |client, context| match context.answers_pool_requests {
            true => Box::pin(pool_status::run(client)),
            false => idle(client),
        },
    },
    Controller {
        name: storage_versions::COLLECTOR,
        check: storage_versions::COLLECTOR,
        by_default: true,
        run: |client, context| match context.storage_versions {
            Some(_) => Box::pin(storage_versions::collect(client)),
            None => idle(client),
        },
    },
];

/// Controllers that are parts of kube-apiserver and always run.
const ESSENTIAL: [Controller; 14] = [
    Controller {
        name: flow_control::NAME,
        check: FLOW_CONTROL_PRODUCER,
        by_default: true,
        run: |client, _| Box::pin(flow_control::run(client)),
    },
    Controller {
        name: dangling::NAME,
        check: FLOW_CONTROL,
        by_default: true,
        run: |client, _| Box::pin(dangling::run(client)),
    },
    Controller {
        name: "naming-condition-controller",
        check: CRDS,
        by_default: true,
        run: |client, _| Box::pin(crds::run_names(client)),
    },
    Controller {
        name: "non-structural-schema-condition-controller",
        check: CRDS,
        by_default: true,
        run: |client, _| Box::pin(crds::run_structure(client)),
    },
    Controller {
        name: "custom-resource-cleanup",
        check: CRDS,
        by_default: true,
        run: |client, _| Box::pin(crds::run_cleanup(client)),
    },
    Controller {
        name: "autoregister",
        check: API_SERVICES,
        by_default: true,
        run: |client, _| Box::pin(api_services::run_registration(client)),
    },
    Controller {
        name: "available-condition-controller",
        check: AVAILABILITY,
        by_default: true,
        run: |client, _| Box::pin(api_services::run_availability(client)),
    },
    Controller {
        name: "discovery-manager",
        check: REMOTE_DISCOVERY,
        by_default: true,
        run: |client, _| Box::pin(api_services::run_discovery(client)),
    },
    Controller {
        name: "open-api-aggregation-controller",
        check: REMOTE_OPENAPI,
        by_default: true,
        run: |client, _| Box::pin(api_services::run_openapi(client)),
    },
    Controller {
        name: "cluster-authentication-trust-controller",
        check: AUTHENTICATION_INFO,
        by_default: true,
        run: |client, context| Box::pin(api_services::run_trust(client, context.trust.clone())),
    },
    Controller {
        name: service_cidr::NAME,
        check: service_cidr::CHECK,
        by_default: true,
        run: |client, _| Box::pin(service_cidr::run(client)),
    },
    Controller {
        name: "service-ip-repair-controllers",
        check: claim_repair::CHECK,
        by_default: true,
        run: |client, context| Box::pin(claim_repair::run(client, Arc::clone(&context.host_name))),
    },
    Controller {
        name: token_tracking::NAME,
        check: token_tracking::CHECK,
        by_default: true,
        run: |client, _| Box::pin(token_tracking::run(client)),
    },
    Controller {
        name: "storage-version-updater",
        check: storage_versions::CHECK,
        by_default: true,
        run: |client, context| match context.storage_versions.clone() {
            Some(own) => Box::pin(storage_versions::update(client, own)),
            None => idle(client),
        },
    },
];

/// Controllers of coordinated leader election, which run on the server that holds their own lease.
const COORDINATED: [Controller; 2] = [
    Controller {
        name: coordinated_election::NAME,
        check: coordinated_election::CHECK,
        by_default: true,
        run: |client, _| Box::pin(coordinated_election::elect(client)),
    },
    Controller {
        name: coordinated_election::COLLECTOR,
        check: coordinated_election::CHECK,
        by_default: true,
        run: |client, _| Box::pin(coordinated_election::collect(client)),
    },
];

/// Reports once, by an Event about a Pod, that the server has no nodes. For a server that is nobody's cluster yet: in a
/// cluster, Pods also wait for nodes that are about to join.
pub fn run_pod_notice(service: &Arc<Service>) {
    let work = pod_notice::run(Client::new(Arc::clone(service), pod_notice::NAME));
    let context = &service.context;
    context
        .background
        .spawn(pod_notice::NAME, pod_notice::NAME, &context.shutdown, work);
}

/// Waits for the end of the server: a controller without work.
fn idle(client: Client) -> BoxFuture<'static, ()> {
    Box::pin(async move { client.shutdown().closing().await })
}

/// Name of the election task.
const ELECTOR: &str = "leader-election";

/// Field manager of the lease of the controllers that can be disabled.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Elections of the servers that run controllers, if several servers share a store.
#[derive(Clone, Debug, Default)]
pub struct Elections {
    /// Election for the controllers that can be disabled; every server runs them if it is `None`.
    pub controllers: Option<Election>,
    /// Election for the controllers of coordinated leader election; no server runs them if it is `None`.
    pub coordinated: Option<Election>,
}

/// Error of a selection of controllers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No controller with this name can be enabled.
    #[error("there is no controller {name}; there are {known}")]
    Unknown {
        /// Unknown name.
        name: String,
        /// All valid names.
        known: String,
    },
}

/// Controllers that are selected to run.
pub struct Selection(Vec<&'static Controller>);

impl Selection {
    /// Parses the values of kube-controller-manager's `--controllers`: `*` for all that are enabled by default, `NAME`
    /// to enable one, `-NAME` to disable one. Controllers that only kube-controller-manager has can be disabled, but
    /// not enabled.
    ///
    /// # Errors
    /// [`Error::Unknown`]
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, Error> {
        let has = |wanted: &str| words.iter().any(|word| word.as_ref() == wanted);
        for word in words.iter().map(AsRef::as_ref) {
            let known = word == "*" || word.is_empty() || word.starts_with('-');
            if !known && !CONTROLLERS.iter().any(|controller| controller.name == word) {
                return Err(Error::Unknown {
                    name: word.to_owned(),
                    known: CONTROLLERS.map(|controller| controller.name).join(", "),
                });
            }
        }
        let chosen = CONTROLLERS
            .iter()
            .filter(|controller| !has(&format!("-{}", controller.name)))
            .filter(|controller| has(controller.name) || controller.by_default && has("*"));
        Ok(Self(chosen.collect()))
    }

    /// Returns the names of the controllers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|controller| controller.name)
    }

    /// Runs the selected controllers and the essential ones, each in a separate task, until the server ends. Those that
    /// have an election run only while it makes this server the leader. Each returned task ends when its lease is lost
    /// or released.
    pub fn run(
        &self,
        service: &Arc<Service>,
        context: &ControllerContext,
        elections: Elections,
    ) -> Vec<JoinHandle<()>> {
        let start_all = |controllers: &mut dyn Iterator<Item = &'static Controller>| {
            for controller in controllers {
                let work = (controller.run)(client(service, controller), context);
                start(service, controller, work);
            }
        };
        start_all(&mut ESSENTIAL.iter());
        let mut selected = self.0.iter().copied();
        let mut leases = Vec::new();
        match elections.controllers {
            None => start_all(&mut selected),
            Some(election) => leases.extend(lead(service, context, selected, election, CONTROLLER_MANAGER)),
        }
        if let Some(election) = elections.coordinated {
            leases.extend(lead(service, context, COORDINATED.iter(), election, MANAGER));
        }
        leases
    }
}

/// Runs controllers while `election` makes this server the leader. The fields of its lease have the field manager
/// `manager`. The returned task ends when the lease is lost or released.
fn lead(
    service: &Arc<Service>,
    context: &ControllerContext,
    controllers: impl Iterator<Item = &'static Controller>,
    election: Election,
    manager: &'static str,
) -> Option<JoinHandle<()>> {
    let leadership = Leadership::default();
    for controller in controllers {
        let (leadership, context) = (leadership.clone(), context.clone());
        let service_of = Arc::clone(service);
        start(service, controller, async move {
            let begin = || (controller.run)(client(&service_of, controller), &context);
            let shutdown = service_of.context.shutdown.clone();
            tokio::select! {
                () = leadership.during(begin) => {}
                () = shutdown.closing() => {}
            }
        });
    }
    let lock = LeaseObject::new(Client::new(Arc::clone(service), ELECTOR), election.clone(), manager)?;
    let shutdown = service.context.shutdown.clone();
    Some(tokio::spawn(async move {
        election::run(lock, election, leadership, shutdown.closing()).await;
    }))
}

fn client(service: &Arc<Service>, controller: &Controller) -> Client {
    Client::new(Arc::clone(service), controller.name)
}

fn start(service: &Arc<Service>, controller: &Controller, work: impl Future<Output = ()> + Send + 'static) {
    let context = &service.context;
    context
        .background
        .spawn(controller.check, controller.name, &context.shutdown, work);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use test_support::Layers;

    use super::*;

    /// Modules in order, lowest first.
    const LAYERS: [&str; 29] = [
        "queue",
        "reconcile",
        "rejection",
        "aggregation",
        "apiserver",
        "conditions",
        "events",
        "api_services",
        "claim_repair",
        "dangling",
        "crds",
        "election",
        "coordinated_election",
        "endpoints",
        "flow_control",
        "garbage",
        "identity",
        "migration",
        "namespace",
        "namespaced_default",
        "pod_notice",
        "policy_status",
        "pool_status",
        "quota",
        "service_cidr",
        "service_cidr_protection",
        "storage_protection",
        "storage_versions",
        "token_tracking",
    ];

    #[test]
    fn module_imports_only_modules_before_it() {
        Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
    }

    fn names(words: &[&str]) -> Vec<&'static str> {
        Selection::parse(words).unwrap().names().collect()
    }

    #[test]
    fn selection_parses_words_of_kube_controller_manager() {
        let by_default = CONTROLLERS.iter().filter(|controller| controller.by_default);
        let all: Vec<&str> = by_default.map(|controller| controller.name).collect();
        assert_eq!(names(&["*"]), all);
        assert_eq!(names(&["*", "-namespace-controller"]), all[1..]);
        assert_eq!(names(&["*", "serviceaccount-controller"]).len(), all.len() + 1);
        assert_eq!(names(&["namespace-controller"]), ["namespace-controller"]);
        assert_eq!(names(&["*", "-deployment-controller"]), all);
        assert!(names(&[""]).is_empty());
        assert!(Selection::parse(&["deployment-controller"]).is_err());
    }
}
