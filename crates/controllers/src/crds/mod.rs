//! The life cycle of CustomResourceDefinitions: their names are accepted or in conflict, they are established, and
//! their objects are deleted before them
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>).
//!
//! In the reference these controllers are parts of kube-apiserver itself, so they cannot be disabled. The server
//! derives the served resources from the status that they write.

mod cleanup;
mod names;
mod structure;

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::Client;

pub(crate) use cleanup::run as run_cleanup;
pub(crate) use names::run as run_names;
pub(crate) use structure::run as run_structure;

fn crds(client: &Client) -> Option<Arc<Resource>> {
    client.resource("apiextensions.k8s.io", "customresourcedefinitions")
}
