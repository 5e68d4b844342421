#![forbid(unsafe_code)]
//! Other API servers behind this one: an APIService declares the group version that a service of the cluster serves
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).
//!
//! [`Servers`] has the current APIServices, chooses the server of a path, checks the availability of servers, and merges their
//! discovery and OpenAPI documents into those of this server. Requests go through a [`Transport`], which the caller implements. A
//! path that is served here only checks one flag, which is set if there is any other server at all.

mod api_services;
mod availability;
mod discovery;
mod identity;
mod openapi;
mod openapi_v2;
mod openapi_v3;
mod refresh_discovery;
mod remote_discovery;
mod remote_documents;
mod servers;
#[cfg(test)]
mod tests;
mod transport;

pub use api_services::{ApiService, ApiServices, Priority, Proxied, Remote, by_group_and_version, by_highest_priority};
pub use availability::Availability;
pub use discovery::{
    ApiResource, ApiResources, Freshness, KindDiscovery, ResourceDiscovery, SubresourceDiscovery, VersionDiscovery,
};
pub use identity::{IdentityError, ProxyIdentity};
pub use openapi::DocumentSource;
pub use remote_discovery::{RemoteResource, RemoteVersions};
pub use servers::{GROUP, Servers, api_services_resource};
pub use transport::{Fetched, Question, Transport, Unreachable, authority};

#[cfg(test)]
mod layers {
    use test_support::Layers;

    /// The modules in order, lowest first.
    const LAYERS: [&str; 13] = [
        "api_services",
        "transport",
        "identity",
        "openapi_v2",
        "openapi_v3",
        "discovery",
        "remote_discovery",
        "remote_documents",
        "servers",
        "availability",
        "refresh_discovery",
        "openapi",
        "tests",
    ];

    #[test]
    fn module_imports_only_modules_before_it() {
        Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
    }
}
