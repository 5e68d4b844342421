//! View of the other objects for strategies and admission plugins: one snapshot, so that the same state answers all
//! their lookups.

use std::ops::ControlFlow;

use holdfast_resource::{Lookup, Registry, Resource};
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_value::Value;

use crate::objects::Trees;
use crate::objects::{self, Snapshot};

/// The objects of a snapshot.
pub struct SnapshotLookup<'a> {
    /// The resources.
    pub registry: &'a Registry,
    /// The objects.
    pub snapshot: &'a Snapshot,
    /// Cache of parsed objects.
    pub trees: &'a Trees,
    /// True if the last write to the store failed.
    pub failing: bool,
}

impl Lookup for SnapshotLookup<'_> {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value> {
        let storage = self.registry.resource(resource)?.storage.as_ref()?;
        let entry = self.snapshot.get(storage.key(namespace, name).as_bytes())?;
        if objects::is_unreadable(entry) {
            return None;
        }
        Some(self.trees.looked_up(entry))
    }

    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        let Some(storage) = self
            .registry
            .resource(resource)
            .and_then(|resource| resource.storage.as_ref())
        else {
            return;
        };
        for entry in self.snapshot.range(storage.namespace_prefix(namespace).as_bytes()) {
            // Objects that cannot be read are reported elsewhere; lists skip them.
            if objects::readable(entry).is_some_and(|tree| visit(&tree).is_break()) {
                return;
            }
        }
    }

    fn list_revisions(
        &self,
        resource: &GroupResource,
        namespace: &str,
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Value),
    ) {
        let resource = self.registry.resource(resource);
        if let Some(storage) = resource.and_then(|resource| resource.storage.as_ref()) {
            for entry in self.snapshot.range(storage.namespace_prefix(namespace).as_bytes()) {
                visit(entry.mod_revision(), &|| objects::tree(entry));
            }
        }
    }

    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        self.registry.kind(kind).map(AsRef::as_ref)
    }

    fn storage_health(&self) -> Result<(), String> {
        if self.failing {
            return Err("the last write to the store failed".to_owned());
        }
        Ok(())
    }
}
