//! The aggregated servers: their APIServices, and the server of a path.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use holdfast_resource::Registry;
use holdfast_schema::{GroupResource, GroupVersion};
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::api_services::{ApiService, ApiServices, Priority, Proxied};
use crate::remote_discovery::RemoteDiscovery;
use crate::remote_documents::RemoteDocuments;
use crate::transport::{Fetched, Question, Transport};

/// The group of APIServices, which comes before all others in discovery.
pub const GROUP: &str = "apiregistration.k8s.io";

/// The aggregated servers, which are reached through a [`Transport`].
pub struct Servers<T: Transport> {
    pub(crate) transport: T,
    /// The priorities of built-in group versions.
    built_in: HashMap<GroupVersion, Priority>,
    services: ArcSwap<ApiServices<T::Backend>>,
    /// True if any APIService is served elsewhere.
    any_remote: AtomicBool,
    /// A lock for changes of the APIServices.
    pub(crate) changing: Mutex<()>,
    pub(crate) discovery: RemoteDiscovery,
    pub(crate) documents: RemoteDocuments,
}

impl<T: Transport> Servers<T> {
    /// Creates the servers of no APIService. `registry` has the initial APIServices, which are those of this server.
    pub fn new(transport: T, registry: &Registry) -> Self {
        Self {
            transport,
            built_in: built_in_priorities(registry),
            services: ArcSwap::default(),
            any_remote: AtomicBool::new(false),
            changing: Mutex::default(),
            discovery: RemoteDiscovery::default(),
            documents: RemoteDocuments::default(),
        }
    }

    /// Returns the connections to other servers.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the aggregated server that serves the path, if any.
    pub fn remote(&self, path: &str) -> Option<Arc<Proxied<T::Backend>>> {
        if !self.any_remote() {
            return None;
        }
        self.services.load().remote(path).cloned()
    }

    /// Returns the current APIServices.
    pub fn services(&self) -> Arc<ApiServices<T::Backend>> {
        self.services.load_full()
    }

    /// Returns the priority of a built-in group version.
    pub fn built_in_priority(&self, group_version: &GroupVersion) -> Option<Priority> {
        self.built_in.get(group_version).copied()
    }

    /// Sets or removes APIServices by their names. Servers that do not change keep their connections.
    pub fn apply(&self, changes: Vec<(SmolStr, Option<ApiService>)>) {
        let _changing = self.changing.lock();
        let before = self.services();
        let mut services: Vec<_> = before
            .all()
            .map(|service| NextService {
                service: Arc::clone(service),
                before: before.proxied(&service.name).cloned(),
            })
            .collect();
        for (name, service) in changes {
            let proxied = before.proxied(&name).cloned();
            services.retain(|next| next.service.name != name);
            services.extend(service.map(|service| NextService {
                service: Arc::new(service),
                before: proxied,
            }));
        }
        self.publish(services);
    }

    /// Connects to all servers anew, because the identity of this server has changed.
    pub fn reconnect(&self) {
        let _changing = self.changing.lock();
        let services = self.services();
        let anew = services.all().map(|service| NextService {
            service: Arc::clone(service),
            before: None,
        });
        self.publish(anew.collect());
    }

    /// Returns true if any APIService is served elsewhere.
    pub(crate) fn any_remote(&self) -> bool {
        self.any_remote.load(Ordering::Relaxed)
    }

    /// Returns the APIService of that name, if another server serves it.
    pub(crate) fn proxied(&self, name: &str) -> Option<Arc<Proxied<T::Backend>>> {
        self.services.load().proxied(name).cloned()
    }

    /// Sends a request to the server of an APIService, even if it is not available.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub(crate) async fn fetch(&self, from: &Proxied<T::Backend>, question: Question<'_>) -> Result<Fetched, String> {
        let limit = question.limit;
        let fetched = tokio::time::timeout(limit, self.ask(from, question)).await;
        fetched.unwrap_or_else(|_| Err("request timed out".to_owned()))
    }

    /// Does the same as [`Servers::fetch`], for callers that measure the time themselves.
    pub(crate) async fn ask(&self, from: &Proxied<T::Backend>, question: Question<'_>) -> Result<Fetched, String> {
        let remote = from.service.remote.as_ref().ok_or("it is served here")?;
        let backend = from.backend.as_ref()?;
        let address = self.transport.address(remote)?;
        self.transport.ask(backend, &address, question).await
    }

    /// Publishes the APIServices; unchanged ones keep their connections.
    fn publish(&self, services: Vec<NextService<T::Backend>>) {
        let mut next = ApiServices::default();
        for NextService { service, before } in services {
            let proxied = service.remote.as_ref().map(|remote| {
                let same = before.filter(|before| before.service.remote.as_ref() == Some(remote));
                let backend = match same {
                    Some(before) => before.backend.clone(),
                    None => self.transport.backend(remote),
                };
                let service = Arc::clone(&service);
                Arc::new(Proxied { service, backend })
            });
            next.insert(service, proxied);
        }
        self.discovery.keep(&next);
        self.documents.keep(&next);
        let any_remote = next.any_remote();
        self.services.store(Arc::new(next));
        self.any_remote.store(any_remote, Ordering::Relaxed);
    }
}

/// An APIService that is published next.
struct NextService<B> {
    service: Arc<ApiService>,
    /// The same APIService before, whose connections are kept if its server is the same.
    before: Option<Arc<Proxied<B>>>,
}

/// Returns the group resource of APIServices.
pub fn api_services_resource() -> GroupResource {
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
