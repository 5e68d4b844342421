//! Authorizer of the mode `Node`: a kubelet may read the objects that the Pods on its node need, and maintain the objects
//! of the node itself (<https://kubernetes.io/docs/reference/access-authn-authz/node/>).
//!
//! [`NodeGraph`] follows the stored objects: the server reports each change of a [`GraphResource`] to it. Writes are
//! only checked roughly here; the admission plugin `NodeRestriction` checks their contents.

mod authorizer;
mod graph;
mod links;

pub use authorizer::{NODES, NodeAuthorizer, NodeFeatures, node_of};
pub use graph::VertexKind;
pub use links::GraphResource;

use holdfast_value::Value;
use parking_lot::RwLock;

use graph::{Graph, VertexName};

/// Relations between nodes and the objects that they may read.
///
/// ```
/// use holdfast_authorization::node::{GraphResource, NodeGraph, VertexKind};
/// use holdfast_value::{Limits, yaml};
///
/// let pod = "spec: {nodeName: n1, volumes: [{name: v, secret: {secretName: s}}]}";
/// let pod = yaml::parse(pod.as_bytes(), &Limits::REQUEST).unwrap();
/// let graph = NodeGraph::default();
/// graph.set_object(GraphResource::Pods, "default", "web", Some(&pod));
/// assert!(graph.leads_to(VertexKind::Secret, "default", "s", "n1"));
/// assert!(!graph.leads_to(VertexKind::Secret, "default", "s", "n2"));
/// ```
#[derive(Debug, Default)]
pub struct NodeGraph(RwLock<Graph>);

impl NodeGraph {
    /// Stores the current state of an object; `None` if it was deleted. `namespace` is empty for cluster-scoped ones.
    pub fn set_object(&self, resource: GraphResource, namespace: &str, name: &str, object: Option<&Value>) {
        let links = object.and_then(|object| resource.links(namespace, name, object));
        let vertex = VertexName::new(resource.vertex_kind(), namespace, name);
        self.0.write().set_links(&vertex, links.as_ref());
    }

    /// True if `node` may read the object because the object, or another one that refers to it, belongs to the node.
    ///
    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.hasPathFrom
    pub fn leads_to(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        self.0.read().leads_to(kind, namespace, name, node)
    }

    /// Returns the number of objects and nodes in the graph.
    pub fn len(&self) -> usize {
        self.0.read().len()
    }

    /// True if the graph is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
