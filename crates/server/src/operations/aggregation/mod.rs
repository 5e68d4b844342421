//! Requests for other API servers behind this one, which are forwarded in the name of the user
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).
//!
//! The crate `holdfast-aggregation` has the APIServices and merges documents. This module has the connections, observes the
//! APIServices as they are stored, and forwards requests.

mod connections;
pub(crate) mod forward;
mod upgrade;

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_aggregation::{ApiService, DocumentSource, Servers, api_services_resource};
use holdfast_egress::Dialer;
use holdfast_resource::Registry;

use self::connections::Connections;
use crate::api::context::Context;
use crate::identity::FrontProxy;
use crate::metrics::Metrics;
use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};
use crate::objects::{self, Store};
use crate::runtime::background;
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::{Backend, Routing, Services};

pub use holdfast_aggregation::{Availability, IdentityError, ProxyIdentity, RemoteResource};

/// The aggregated servers with the connections of this server.
pub(crate) type RemoteServers = Servers<Connections>;

/// An APIService that is served elsewhere.
pub(crate) type Proxied = holdfast_aggregation::Proxied<Backend>;

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
    /// Dialer through the proxy of the cluster's network; `None` for direct connections.
    pub dialer: Option<Dialer>,
}

/// The proxy to the aggregated servers.
pub struct Aggregator {
    config: Arc<AggregationConfig>,
    servers: Arc<RemoteServers>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
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
        let config = Arc::new(config);
        let initial = registry.load_full();
        let connections = Connections {
            config: Arc::clone(&config),
            services: Services::new(store, registry),
        };
        Arc::new(Self {
            config,
            servers: Arc::new(Servers::new(connections, &initial)),
            metrics,
            shutdown,
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

    /// Returns the aggregated servers.
    pub(crate) fn servers(&self) -> &Arc<RemoteServers> {
        &self.servers
    }

    /// Presents the current certificate to aggregated servers on new connections.
    pub fn identity_changed(&self) {
        self.servers.reconnect();
    }

    /// Returns the documents of `source` merged with those of other servers.
    pub fn documents(&self, source: Arc<dyn DocumentSource>) -> Arc<dyn DocumentSource> {
        self.servers.documents(source)
    }

    /// Returns the discovery entry of a resource of another server, in the version that comes first.
    pub fn remote_resource(&self, group: &str, plural: &str) -> Option<RemoteResource> {
        self.servers.remote_resource(group, plural)
    }

    /// Requests the resources of an APIService from its server.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub async fn refresh_discovery(&self, name: &str) -> Result<(), String> {
        self.servers.refresh_discovery(name).await
    }

    /// Requests the OpenAPI documents of an APIService from its server.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub async fn refresh_openapi(&self, name: &str) -> Result<(), String> {
        self.servers.refresh_openapi(name).await
    }

    /// Returns the availability of the APIService of that name; `None` if it does not exist.
    pub async fn check(&self, name: &str) -> Option<Availability> {
        self.servers.check(name).await
    }

    /// Counts the availability of an APIService: its current state, and its last transition given `was_available`.
    pub fn count(&self, name: &str, now: &Availability, was_available: bool) {
        self.metrics.aggregation().available(name, now.available);
        if was_available && !now.available {
            self.metrics.aggregation().became_unavailable(name, now.reason);
        }
    }
}

/// A listener that applies changes of APIServices.
struct Listener(Arc<Aggregator>);

impl InformerHandler for Listener {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        let aggregator = &self.0;
        let mut changes = Vec::new();
        for Difference { before, now } in differences {
            let Some(entry) = now.as_ref().or(before.as_ref()) else {
                continue;
            };
            let name = objects::name_of_key(entry.key());
            let object = now.as_ref().and_then(|entry| objects::readable(entry));
            let service = object.as_ref().and_then(ApiService::read);
            if service.is_none() {
                aggregator.metrics.aggregation().forget(name);
            }
            changes.push((name.into(), service));
        }
        aggregator.servers.apply(changes);
    }
}
