//! The life of CustomResourceDefinitions: their names are accepted or in conflict, they are established, and when they go
//! their objects go first
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>).
//!
//! In the reference these controllers are parts of kube-apiserver itself, so they cannot be switched off. What is served
//! follows the status that they write, which is the server's own matter.

mod cleanup;
mod names;

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::Client;

pub(crate) use cleanup::run as run_cleanup;
pub(crate) use names::run as run_names;

fn definitions(client: &Client) -> Option<Arc<Resource>> {
    client.resource("apiextensions.k8s.io", "customresourcedefinitions")
}
