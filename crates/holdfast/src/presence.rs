//! Entries that a server writes into the store about itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_controllers::{Identity, IdentityLease, KubernetesEndpoints, StorageVersions};
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::Registry;
use holdfast_schema::GroupResource;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::storage_versions::StorageVersionBarrier;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers};

use crate::endpoints;
use crate::flags::Serve;

/// Time limit for releasing the leases at shutdown.
pub(crate) const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// Entries that a server writes about itself: its lease, which shows others that it is alive, and its endpoint in a
/// shared store.
pub(crate) struct Presence {
    endpoints: Option<Arc<KubernetesEndpoints>>,
    lease: Option<Arc<IdentityLease>>,
}

impl Presence {
    /// Publishes the server's endpoint and its lease.
    pub(crate) fn begin(
        flags: &Serve,
        service: &Arc<Service>,
        features: Features,
        host: String,
        reached: SocketAddr,
    ) -> Self {
        let identity = Identity {
            host,
            uid: RandomIdentifiers::default().uid(),
            address: reached.to_string(),
        };
        let is_shared = service.context.shared.store.is_shared();
        let endpoints = match endpoints::advertised_address(reached) {
            _ if !is_shared => None,
            Some(advertised) => flags.endpoints.run(service, advertised, &identity),
            None => {
                tracing::warn!(
                    %reached,
                    "no other machine reaches this address, so it is not among the endpoints of the service kubernetes; \
                     set --advertise-address to one that is neither loopback nor link-local"
                );
                None
            }
        };
        let lease = features.has(Feature::APIServerIdentity).then(|| identity.run(service));
        Self {
            endpoints,
            lease: lease.flatten(),
        }
    }

    /// Removes the entries within the time limit.
    pub(crate) async fn end(self) {
        if let Some(endpoints) = self.endpoints {
            let _ = tokio::time::timeout(RELEASE_LIMIT, endpoints.end()).await;
        }
        if let Some(lease) = self.lease {
            let _ = tokio::time::timeout(RELEASE_LIMIT, lease.end()).await;
        }
    }
}

fn reports_storage_versions(features: Features) -> bool {
    features.has(Feature::StorageVersionAPI) && features.has(Feature::APIServerIdentity)
}

/// Returns the barrier that delays writes until the storage versions are reported, if they can be reported.
pub(crate) fn barrier(features: Features, registry: &Registry) -> Option<Arc<StorageVersionBarrier>> {
    let storage_versions = GroupResource {
        group: "internal.apiserver.k8s.io".into(),
        resource: "storageversions".into(),
    };
    let can = reports_storage_versions(features) && registry.resource(&storage_versions).is_some();
    can.then(Arc::default)
}

/// Returns the reporter of storage versions for a server on that host, if it reports them.
pub(crate) fn storage_versions(
    features: Features,
    host: &str,
    barrier: Option<&Arc<StorageVersionBarrier>>,
) -> Option<StorageVersions> {
    reports_storage_versions(features).then(|| StorageVersions {
        server: Identity::name_of(host),
        decodable: holdfast_kind_tables::decodable_versions,
        barrier: barrier.cloned().unwrap_or_default(),
    })
}
