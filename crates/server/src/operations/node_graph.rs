//! Informers of the objects that the Node authorizer depends on.

use std::sync::Arc;

use holdfast_authorization::node::{GraphResource, NodeGraph};
use holdfast_resource::Resource;
use holdfast_schema::GroupResource;

use crate::api::context::Context;
use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};
use crate::objects::{self, Entry};
use crate::runtime::background;

/// Reports the stored objects and their changes to `graph` for as long as the server serves. The graph reflects all
/// stored objects when this returns.
pub fn follow(context: &Context, graph: &Arc<NodeGraph>) {
    let registry = context.registry();
    for followed in GraphResource::ALL {
        let (group, resource) = followed.group_resource();
        let name = GroupResource {
            group: group.into(),
            resource: resource.into(),
        };
        let Some(resource) = registry.resource(&name) else {
            continue;
        };
        let Some(storage) = &resource.storage else { continue };
        let scope = InformerScope {
            prefix: storage.prefix.clone(),
            check: background::OBSERVERS,
        };
        let handler = GraphHandler {
            graph: Arc::clone(graph),
            followed,
            resource: Arc::clone(resource),
        };
        let store = &context.shared.store;
        informers::start(store, &context.background, &context.shutdown, scope, handler);
    }
}

/// Handler that passes the objects of one resource to the graph.
struct GraphHandler {
    graph: Arc<NodeGraph>,
    followed: GraphResource,
    resource: Arc<Resource>,
}

impl InformerHandler for GraphHandler {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        for Difference { before, now } in differences {
            if let Some(entry) = now.as_ref().or(before.as_ref()) {
                self.set(entry, now.as_deref());
            }
        }
    }
}

impl GraphHandler {
    /// Reports the current state of the object of `entry`. An object that cannot be read gives access to nothing.
    fn set(&self, entry: &Entry, now: Option<&Entry>) {
        let key = entry.key();
        let (namespace, name) = (
            objects::namespace_of_key(&self.resource, key),
            objects::name_of_key(key),
        );
        let object = now.and_then(objects::readable);
        self.graph.set_object(self.followed, namespace, name, object.as_ref());
    }
}
