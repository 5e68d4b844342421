//! Other API servers behind this one: an APIService declares the group version that a service of the cluster serves,
//! and requests for it are forwarded there in the name of the user
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).
//!
//! The APIServices are observed as they are stored. A request that is served here only checks one flag, which is set if
//! there is any other server at all.

pub(crate) mod api_services;
mod availability;
pub(crate) mod discovery;
mod fetch;
pub(crate) mod forward;
mod identity;
mod openapi;
mod openapi_v2;
mod openapi_v3;
mod upgrade;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use holdfast_resource::Registry;
use holdfast_schema::{GroupResource, GroupVersion};
use parking_lot::Mutex;

use crate::api::context::Context;
use crate::identity::FrontProxy;
use crate::metrics::Metrics;
use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};
use crate::objects::{self, Store};
use crate::runtime::background;
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::{Backend, Routing, Services, Trust};

use api_services::{ApiService, ApiServices, Priority, Proxied, Remote};
use discovery::RemoteDiscovery;
use openapi::RemoteDocuments;

pub use availability::Availability;
pub use discovery::RemoteResource;
pub use identity::{IdentityError, ProxyIdentity};

/// The group of APIServices, which comes before all others in discovery.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// The configuration of aggregation.
#[derive(Default)]
pub struct AggregationConfig {
    /// The routing of requests to services.
    pub routing: Routing,
    /// The address of this server, which is used for the service `kubernetes`.
    pub own_address: (String, u16),
    /// The client certificate that this server presents to aggregated servers.
    pub identity: Option<Arc<ProxyIdentity>>,
    /// True if redirects of aggregated servers are rejected rather than passed on.
    pub reject_redirects: bool,
    /// The front proxies that this server trusts; their headers that name users are not forwarded.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// True if aggregated servers do not get the uids of users.
    pub hides_uids: bool,
}

/// The aggregated servers.
pub struct Aggregator {
    config: AggregationConfig,
    services: Services,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
    /// The priorities of built-in group versions.
    built_in: HashMap<GroupVersion, Priority>,
    known: ArcSwap<ApiServices>,
    /// True if any APIService is served elsewhere.
    any_remote: AtomicBool,
    /// A lock for changes of the APIServices.
    changing: Mutex<()>,
    discovery: RemoteDiscovery,
    documents: RemoteDocuments,
}

impl Aggregator {
    /// Creates the aggregator for the services in `store`; it has no APIServices until [`Aggregator::follow`].
    pub fn new(
        config: AggregationConfig,
        store: Arc<Store>,
        registry: Arc<ArcSwap<Registry>>,
        metrics: Arc<Metrics>,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let built_in = built_in_priorities(&registry.load());
        Arc::new(Self {
            config,
            services: Services::new(store, registry),
            metrics,
            shutdown,
            built_in,
            known: ArcSwap::default(),
            any_remote: AtomicBool::new(false),
            changing: Mutex::default(),
            discovery: RemoteDiscovery::default(),
            documents: RemoteDocuments::default(),
        })
    }

    /// Observes the APIServices for as long as the server serves.
    pub fn follow(self: &Arc<Self>, context: &Context) {
        let registry = context.registry();
        let storage = registry
            .resource(&api_services_resource())
            .and_then(|resource| resource.storage.as_ref());
        let Some(storage) = storage else { return };
        let scope = InformerScope {
            prefix: storage.prefix.clone(),
            check: background::API_SERVICES,
        };
        informers::start(
            &context.shared.store,
            &context.background,
            &context.shutdown,
            scope,
            Listener(Arc::clone(self)),
        );
    }

    /// Presents the current certificate to aggregated servers on new connections.
    pub fn identity_changed(&self) {
        let _changing = self.changing.lock();
        let known = self.known.load();
        let renewed = known.all().map(|service| (Arc::clone(service), None));
        self.publish(renewed.collect());
    }

    /// Returns the aggregated server that serves the path, if any.
    pub(crate) fn remote(&self, path: &str) -> Option<Arc<Proxied>> {
        if !self.any_remote.load(Ordering::Relaxed) {
            return None;
        }
        self.known.load().remote(path).cloned()
    }

    /// Returns the current APIServices.
    pub(crate) fn known(&self) -> Arc<ApiServices> {
        self.known.load_full()
    }

    /// Returns the APIService of that name, if another server serves it.
    fn proxied(&self, name: &str) -> Option<Arc<Proxied>> {
        self.known.load().proxied(name).cloned()
    }

    /// Returns the priority of a built-in group version.
    pub(crate) fn built_in_priority(&self, group_version: &GroupVersion) -> Option<Priority> {
        self.built_in.get(group_version).copied()
    }

    /// Publishes the APIServices; unchanged ones keep their connections.
    fn publish(&self, services: Vec<(Arc<ApiService>, Option<Arc<Proxied>>)>) {
        let mut next = ApiServices::default();
        for (service, before) in services {
            let proxied = service.remote.as_ref().map(|remote| {
                let same = before.filter(|before| before.service.remote.as_ref() == Some(remote));
                let backend = match same {
                    Some(before) => before.backend.clone(),
                    None => self.backend(remote),
                };
                let service = Arc::clone(&service);
                Arc::new(Proxied { service, backend })
            });
            next.insert(service, proxied);
        }
        self.discovery.keep(&next);
        self.documents.keep(&next);
        let any_remote = next.any_remote();
        self.known.store(Arc::new(next));
        self.any_remote.store(any_remote, Ordering::Relaxed);
    }

    fn backend(&self, remote: &Remote) -> Result<Backend, String> {
        let trust = match (&remote.authorities, remote.insecure) {
            (_, true) => Trust::Anyone,
            (Some(authorities), _) => Trust::Authorities(authorities),
            (None, _) => Trust::System,
        };
        let client_certificate = self.config.identity.as_ref().map(ProxyIdentity::resolver);
        Backend::new(remote.server_name(), trust, client_certificate)
    }

    /// Returns the host and port of a service.
    fn resolve(&self, remote: &Remote) -> Result<(String, u16), String> {
        let Remote {
            namespace,
            service,
            port,
            ..
        } = remote;
        if (namespace.as_str(), service.as_str(), *port) == ("default", "kubernetes", 443) {
            return Ok(self.config.own_address.clone());
        }
        self.services.resolve(self.config.routing, namespace, service, *port)
    }
}

/// Returns the group resource of APIServices.
fn api_services_resource() -> GroupResource {
    GroupResource {
        group: GROUP.into(),
        resource: "apiservices".into(),
    }
}

/// Returns the priorities of the initial APIServices.
fn built_in_priorities(registry: &Registry) -> HashMap<GroupVersion, Priority> {
    let resource = registry.resource(&api_services_resource());
    let initial = resource.and_then(|resource| resource.capabilities.initial_objects.as_ref());
    let objects = initial.map(|initial| initial.initial_objects()).unwrap_or_default();
    let read = objects.iter().filter_map(ApiService::read);
    read.map(|service| (service.group_version(), service.priority))
        .collect()
}

/// A listener that applies changes of APIServices.
struct Listener(Arc<Aggregator>);

impl InformerHandler for Listener {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        let aggregator = &self.0;
        let _changing = aggregator.changing.lock();
        let known = aggregator.known.load_full();
        let mut services: Vec<_> = known
            .all()
            .map(|service| (Arc::clone(service), known.proxied(&service.name).cloned()))
            .collect();
        for Difference { before, now } in differences {
            let Some(entry) = now.as_ref().or(before.as_ref()) else {
                continue;
            };
            let name = objects::name_of_key(entry.key());
            let proxied = known.proxied(name).cloned();
            services.retain(|(service, _)| service.name != name);
            let read = now.as_ref().and_then(|entry| objects::readable(entry));
            match read.as_ref().and_then(ApiService::read) {
                Some(service) => services.push((Arc::new(service), proxied)),
                None => aggregator.metrics.aggregation().forget(name),
            }
        }
        aggregator.publish(services);
    }
}
