//! The resources that other servers have reported.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_schema::GroupVersion;
use http::header::HeaderValue;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::api_services::{ApiServices, Proxied, Remote};
use crate::discovery::VersionDiscovery;

/// The discovery of other servers, by the names of their APIServices.
pub type RemoteVersions = BTreeMap<SmolStr, Arc<VersionDiscovery>>;

/// The discovery entry of a resource of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteResource {
    /// Its group and version.
    pub group_version: GroupVersion,
    /// The kind of its objects.
    pub kind: SmolStr,
    /// Its plural name.
    pub plural: SmolStr,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: Vec<SmolStr>,
}

/// The discovery of other servers.
#[derive(Default)]
pub(crate) struct RemoteDiscovery {
    pub(crate) versions: ArcSwap<RemoteVersions>,
    /// The last answer of each service about all its group versions.
    pub(crate) answers: Mutex<HashMap<ServiceKey, ServerDiscovery>>,
}

/// The namespace, name and port of a service.
pub(crate) type ServiceKey = (SmolStr, SmolStr, u16);

/// The answer of a server about all its group versions.
#[derive(Clone)]
pub(crate) struct ServerDiscovery {
    pub(crate) etag: Option<HeaderValue>,
    pub(crate) versions: Arc<HashMap<GroupVersion, VersionDiscovery>>,
}

impl RemoteDiscovery {
    /// Removes the entries of services that are no longer served elsewhere.
    pub(crate) fn keep<B>(&self, services: &ApiServices<B>) {
        let known = self.versions.load();
        if known.keys().any(|name| services.proxied(name).is_none()) {
            let proxied = known.iter().filter(|(name, _)| services.proxied(name).is_some());
            let kept: RemoteVersions = proxied
                .map(|(name, version)| (name.clone(), Arc::clone(version)))
                .collect();
            self.versions.store(Arc::new(kept));
        }
        let used: Vec<ServiceKey> = services.proxied_all().filter_map(|proxied| key_of(proxied)).collect();
        self.answers.lock().retain(|key, _| used.contains(key));
    }

    /// Sets the discovery of an APIService.
    pub(crate) fn set(&self, name: &SmolStr, version: VersionDiscovery) {
        if self.versions.load().get(name).is_some_and(|known| **known == version) {
            return;
        }
        let version = Arc::new(version);
        self.versions.rcu(|known| {
            let mut next = RemoteVersions::clone(known);
            next.insert(name.clone(), Arc::clone(&version));
            next
        });
    }
}

/// Returns the service of an APIService that is served elsewhere.
pub(crate) fn key_of<B>(proxied: &Proxied<B>) -> Option<ServiceKey> {
    let Remote {
        namespace,
        service,
        port,
        ..
    } = proxied.service.remote.as_ref()?;
    Some((namespace.clone(), service.clone(), *port))
}
