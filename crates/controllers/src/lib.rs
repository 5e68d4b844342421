#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Controllers that an API server's promises need: a namespace that is deleted takes everything in it along, an object
//! that is deleted takes its dependents, an aggregated role has the rules of the roles it is made of, a quota knows what is
//! used of it. Elsewhere they are part of kube-controller-manager.
//!
//! Each controller is a client of the server's own API ([`Client`]): it knows nothing of the store, has no rights that a
//! user of `system:masters` lacks, and can be switched off for those who run kube-controller-manager. Each is a task that
//! sleeps until something changes; see `reconcile.rs`.
//!
//! Only one process may run them. Where several serve one store, those that are not part of kube-apiserver run on the one that
//! has the lease of the leader; see `election.rs`.

mod aggregation;
mod api_services;
mod apiserver;
mod conditions;
mod dangling;
mod definitions;
mod election;
mod endpoints;
mod flow_control;
mod garbage;
mod identity;
mod migration;
mod namespace;
mod namespaced_default;
mod policy_status;
mod pool_status;
mod queue;
mod quota;
mod reconcile;
mod refusal;
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

use crate::election::{Leadership, LeaseObject};

pub use api_services::ClusterTrust;
pub use election::Election;
pub use endpoints::{Address, KubernetesEndpoints, Reconciler, ServerLeases};
pub use identity::{Identity, IdentityLease};
pub use storage_versions::{CHECK as STORAGE_VERSIONS, StorageVersions};

/// The health check of the controllers of definitions, as kube-apiserver has it.
pub const DEFINITIONS: &str = "poststarthook/start-apiextensions-controllers";
/// The health check of the controller of flow schemas, as kube-apiserver has it.
pub const FLOW_CONTROL: &str = "poststarthook/priority-and-fairness-config-consumer";

/// The health check of the controller of local APIServices, as kube-apiserver has it.
pub const API_SERVICES: &str = "poststarthook/kube-apiserver-autoregistration";
/// The health check of the controller that looks whether aggregated servers are there, as kube-apiserver has it.
pub const AVAILABILITY: &str = "poststarthook/apiservice-status-remote-available-controller";
/// The health check of the controller of the discovery of aggregated servers, as kube-apiserver has it.
pub const REMOTE_DISCOVERY: &str = "poststarthook/apiservice-discovery-controller";
/// The health check of the controller of the documents of aggregated servers, as kube-apiserver has it.
pub const REMOTE_OPENAPI: &str = "poststarthook/apiservice-openapi-controller";
/// The health check of the controller that publishes the trusted authorities for aggregated servers, as kube-apiserver has it.
pub const AUTHENTICATION_INFO: &str = "poststarthook/start-cluster-authentication-info-controller";
/// The health check of the controller of the flow schemas and levels that every server has, as kube-apiserver has it.
const FLOW_CONTROL_PRODUCER: &str = "poststarthook/priority-and-fairness-config-producer";

/// A controller that can be switched on and off.
struct Controller {
    /// Its name, as kube-controller-manager has it.
    name: &'static str,
    /// The health check that fails where it ends before the server does: of its name, as in kube-controller-manager, or that
    /// of kube-apiserver of which it is a part.
    check: &'static str,
    /// Whether `*` includes it.
    by_default: bool,
    run: fn(Client, &ControllerContext) -> BoxFuture<'static, ()>,
}

/// What controllers need to know that the API does not show.
#[derive(Clone, Debug, Default)]
pub struct ControllerContext {
    /// The authorities that signed the server's certificate (PEM).
    pub root_ca: Arc<str>,
    /// The authorities that aggregated servers trust, if this server publishes them.
    pub trust: Option<Arc<ClusterTrust>>,
    /// How often the use of all quotas is counted again; never where it is zero.
    pub quota_sync_period: Duration,
    /// Whether ResourcePoolStatusRequests are answered: the gate `DRAResourcePoolStatus`.
    pub answers_pool_requests: bool,
    /// What this server needs to report the versions that it keeps objects in, where it does so: the gate `StorageVersionAPI`.
    pub storage_versions: Option<StorageVersions>,
}

/// All controllers.
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
    // These two make objects in each namespace, which belong to the admission of service accounts and are as it is: off.
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
    // Without a scheduler and nodes nothing is bound or used for long: they are for those who make claims all the same.
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

/// The controllers that are parts of kube-apiserver, and run always.
const ESSENTIAL: [Controller; 12] = [
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
        check: DEFINITIONS,
        by_default: true,
        run: |client, _| Box::pin(definitions::run_names(client)),
    },
    Controller {
        name: "custom-resource-cleanup",
        check: DEFINITIONS,
        by_default: true,
        run: |client, _| Box::pin(definitions::run_cleanup(client)),
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

/// A controller that has nothing to do.
fn idle(client: Client) -> BoxFuture<'static, ()> {
    Box::pin(async move { client.shutdown().closing().await })
}

/// Who takes part in the election.
const ELECTOR: &str = "leader-election";

/// Why a choice of controllers makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such controller to switch on.
    #[error("there is no controller {name}; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
}

/// The controllers that are to run.
pub struct Selection(Vec<&'static Controller>);

impl Selection {
    /// The controllers that `words` choose, in the words of kube-controller-manager's `--controllers`: `*` for all that are
    /// on by default, `NAME` for one, `-NAME` to leave one out. Controllers that exist there alone may be left out, but not
    /// chosen.
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

    /// The names of the controllers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|controller| controller.name)
    }

    /// Runs the chosen controllers, and those that the server is nothing without, each as a task of its own, until the server
    /// ends. Where others serve the same store, the chosen ones run while this server is the one that `election` chooses; the
    /// task ends when the lease is lost or released.
    pub fn run(
        &self,
        service: &Arc<Service>,
        context: &ControllerContext,
        election: Option<Election>,
    ) -> Option<JoinHandle<()>> {
        for controller in &ESSENTIAL {
            start(
                service,
                controller,
                (controller.run)(client(service, controller), context),
            );
        }
        let Some(election) = election else {
            for controller in &self.0 {
                start(
                    service,
                    controller,
                    (controller.run)(client(service, controller), context),
                );
            }
            return None;
        };
        let leadership = Leadership::default();
        for controller in self.0.iter().copied() {
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
        let lock = LeaseObject::new(Client::new(Arc::clone(service), ELECTOR), election.clone())?;
        let shutdown = service.context.shutdown.clone();
        Some(tokio::spawn(async move {
            election::run(lock, election, leadership, shutdown.closing()).await;
        }))
    }
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
    use super::*;

    fn names(words: &[&str]) -> Vec<&'static str> {
        Selection::parse(words).unwrap().names().collect()
    }

    #[test]
    fn controllers_are_chosen_in_the_words_of_kube_controller_manager() {
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
