//! What a server writes into a store that it shares with others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_controllers::{Identity, IdentityLease, KubernetesEndpoints, StorageVersions};
use holdfast_kinds::features::{Feature, Features};
use holdfast_server::operations::service::Service;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers};

use crate::flags::Serve;

/// How long the end of the server waits until its leases are given away.
pub(crate) const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// What a server writes into a store that it shares, so that others know that it lives.
#[derive(Default)]
pub(crate) struct Presence {
    endpoints: Option<Arc<KubernetesEndpoints>>,
    lease: Option<Arc<IdentityLease>>,
}

impl Presence {
    /// Says where the server is, and that it lives.
    pub(crate) fn begin(
        flags: &Serve,
        service: &Arc<Service>,
        features: Features,
        host: String,
        reached: SocketAddr,
    ) -> Self {
        let identity = Identity {
            host,
            uid: RandomIdentifiers.uid(),
            address: reached.to_string(),
        };
        Self {
            endpoints: service
                .context
                .shared
                .store
                .is_shared()
                .then(|| {
                    flags
                        .endpoints
                        .run(service, &service.context.shared.store, reached, &identity)
                })
                .flatten(),
            lease: features
                .has(Feature::APIServerIdentity)
                .then(|| identity.run(service))
                .flatten(),
        }
    }

    /// Takes it away, in good time.
    pub(crate) async fn end(self) {
        if let Some(endpoints) = self.endpoints {
            let _ = tokio::time::timeout(RELEASE_LIMIT, endpoints.end()).await;
        }
        if let Some(lease) = self.lease {
            let _ = tokio::time::timeout(RELEASE_LIMIT, lease.end()).await;
        }
    }
}

/// What a server of that host tells of the versions that it keeps objects in, where it does.
pub(crate) fn storage_versions(features: Features, host: &str) -> Option<StorageVersions> {
    let tells = features.has(Feature::StorageVersionAPI) && features.has(Feature::APIServerIdentity);
    tells.then(|| StorageVersions {
        server: Identity::name_of(host),
        decodable: holdfast_kinds::decodable_versions,
    })
}
