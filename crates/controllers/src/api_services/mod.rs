//! APIServices: there is one for each group version that is served here, those of other servers show whether these are available, and
//! what other servers serve is read again and again
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).
//!
//! In the reference these controllers are parts of kube-apiserver itself, so they cannot be switched off.

mod availability;
mod registration;
mod remote;
mod trust;

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::Client;
use holdfast_value::Value;

pub(crate) use availability::run as run_availability;
pub(crate) use registration::run as run_registration;
pub(crate) use remote::{run_discovery, run_openapi};
pub use trust::ClusterTrust;
pub(crate) use trust::run as run_trust;

fn api_services(client: &Client) -> Option<Arc<Resource>> {
    client.resource("apiregistration.k8s.io", "apiservices")
}

/// Whether the APIService is served by another server.
fn is_remote(api_service: &Value) -> bool {
    api_service
        .at(&["spec", "service"])
        .is_some_and(|service| !service.is_null())
}
