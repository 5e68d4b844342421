//! Steps that several plugins share.

use std::ops::ControlFlow;

use holdfast_resource::table::items;
use holdfast_resource::{Rejection, WriteContext};
use holdfast_schema::{Field, GroupResource};
use holdfast_value::Value;

/// Returns a resource by group and plural name.
pub(crate) fn group_resource(group: &'static str, resource: &'static str) -> GroupResource {
    GroupResource {
        group: group.into(),
        resource: resource.into(),
    }
}

/// Returns the texts of the list `field`.
pub(crate) fn texts(object: &Value, field: &str) -> Vec<String> {
    let list = items(object, &[field]).iter();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Rejects fields that the configuration does not have, as the strict decoder of the reference does.
pub(crate) fn check_fields(object: &Value, place: &str, known: &[&str]) -> Result<(), String> {
    let fields = object.as_map().into_iter().flatten();
    let unknown = fields
        .map(|(name, _)| name)
        .find(|name| !known.contains(&name.as_str()));
    match unknown {
        Some(name) => Err(format!("strict decoding error: unknown field \"{place}{name}\"")),
        None => Ok(()),
    }
}

/// Adds `finalizer` to a new object.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let root = Field::root(object);
    let mut finalizers = root.child("metadata").child("finalizers").slice().to_vec();
    if !finalizers.iter().any(|known| known.as_str() == Some(finalizer)) {
        finalizers.push(finalizer.into());
        object.set_at(&["metadata", "finalizers"], finalizers.into());
    }
}

/// Update of a Pod that is assigned to a node.
pub(crate) struct PodUpdate<'a> {
    pub(crate) pod: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) node: &'a str,
}

impl<'a> PodUpdate<'a> {
    /// Returns the update of a write, or `None` if the Pod has no node.
    pub(crate) fn new(object: Option<&'a Value>, old: Option<&'a Value>) -> Option<Self> {
        let (pod, old) = (object?, old?);
        let node = pod.str_at(&["spec", "nodeName"]).filter(|node| !node.is_empty())?;
        Some(Self { pod, old, node })
    }

    /// Returns the node of the Pod.
    pub(crate) fn node(&self, context: &WriteContext<'_>) -> Result<Value, Rejection> {
        let node = context.lookup.get(&group_resource("", "nodes"), "", self.node);
        node.ok_or_else(|| Rejection::forbidden(format!("node {:?} not found", self.node)))
    }
}

/// Returns the class that an annotation marks as the default: the newest, and among equally new ones the first by name.
///
/// upstream: pkg/volume/util#GetDefaultClass
/// upstream: plugin/pkg/admission/network/defaultingressclass#getDefaultClass
pub(crate) fn default_class(
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
