//! APIServices: one for each group version that this server serves; those of other servers show whether these are
//! available, and their discovery and OpenAPI documents are read periodically
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).
//!
//! In the reference these controllers are parts of kube-apiserver itself, so they cannot be disabled.

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

/// Returns true if another server serves the APIService.
fn is_remote(api_service: &Value) -> bool {
    api_service
        .at(&["spec", "service"])
        .is_some_and(|service| !service.is_null())
}
