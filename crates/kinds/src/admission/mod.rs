//! Checks and changes that all writes pass, whatever the kind: kube-apiserver's compiled-in admission plugins.
//!
//! See <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>. One file a plugin; the order of
//! [`plugins`] is that of the reference.

mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod namespace_lifecycle;
mod persistent_volume_claim_resize;
mod priority;
mod runtime_class;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;

use std::ops::ControlFlow;

use holdfast_resource::{AdmissionPlugin, GroupResource, Operation, Resource, WriteContext};
use holdfast_value::Value;

/// The plugins that are on unless flags turn them off, in the order in which writes pass them.
pub fn plugins() -> Vec<Box<dyn AdmissionPlugin>> {
    vec![
        Box::new(namespace_lifecycle::NamespaceLifecycle),
        Box::new(taint_nodes_by_condition::TaintNodesByCondition),
        Box::new(priority::Priority),
        Box::new(default_toleration_seconds::DefaultTolerationSeconds),
        Box::new(default_storage_class::DefaultStorageClass),
        Box::new(storage_object_in_use_protection::StorageObjectInUseProtection),
        Box::new(runtime_class::RuntimeClass),
        Box::new(default_ingress_class::DefaultIngressClass),
        Box::new(persistent_volume_claim_resize::PersistentVolumeClaimResize),
    ]
}

/// Whether a write is one to objects of this resource, rather than to a part of them that has its own address.
fn is_of(context: &WriteContext<'_>, resource: &Resource, group: &str, plural: &str) -> bool {
    context.subresource.is_none() && resource.plural == plural && resource.group == group
}

/// Whether a write makes a new object of this resource.
fn creates(context: &WriteContext<'_>, resource: &Resource, group: &str, plural: &str) -> bool {
    context.operation == Operation::Create && is_of(context, resource, group, plural)
}

fn group_resource(group: &'static str, resource: &'static str) -> GroupResource {
    GroupResource {
        group: group.into(),
        resource: resource.into(),
    }
}

/// The class that an annotation marks as the default: the newest, and of those made at once the first by name.
fn default_class(
    context: &WriteContext<'_>,
    group: &'static str,
    classes: &'static str,
    annotation: &str,
) -> Option<Value> {
    let mut found: Option<Value> = None;
    context.lookup.list(&group_resource(group, classes), "", &mut |class| {
        let marked = class.str_at(&["metadata", "annotations", annotation]) == Some("true");
        let time = |class: &Value| {
            class
                .str_at(&["metadata", "creationTimestamp"])
                .unwrap_or_default()
                .to_owned()
        };
        if marked && found.as_ref().is_none_or(|before| time(class) > time(before)) {
            found = Some(class.clone());
        }
        ControlFlow::Continue(())
    });
    found
}
