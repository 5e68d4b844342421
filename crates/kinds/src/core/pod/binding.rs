//! Bindings: a scheduler assigns a Pod to a node.

use holdfast_gotext::errors::aggregate;
use holdfast_resource::{ActionStep, Rejection, SubresourceAction, WriteContext};
use holdfast_schema::metadata::formats::check_key;
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use super::super::of_core;
use crate::time::time_text;
use crate::validation::Errors;

/// Action that assigns a Pod to a node: the Pod of the path, or for the resource `bindings` the Pod that the body
/// names.
pub(crate) struct Binding;

impl SubresourceAction for Binding {
    /// upstream: pkg/registry/core/pod/storage#BindingREST.Create
    fn check(&self, context: &WriteContext<'_>, request: &Value) -> Result<(), Rejection> {
        let name = request.str_at(&["metadata", "name"]).unwrap_or_default();
        if !context.name.is_empty() && context.name != name {
            return Err(Rejection::BadRequest(
                "name in URL does not match name in Binding object".to_owned(),
            ));
        }
        validate(request)
    }

    fn plan(&self, context: &WriteContext<'_>, request: &Value) -> Result<Vec<ActionStep>, Rejection> {
        let name = request.str_at(&["metadata", "name"]).unwrap_or_default();
        check_key(true, context.namespace, name).map_err(Rejection::BadRequest)?;
        let pods = of_core("pods");
        let Some(pod) = context.lookup.get(&pods, context.namespace, name) else {
            return Err(Rejection::NotFound {
                resource: pods,
                name: name.to_owned(),
            });
        };
        check_preconditions(context, request, &pod)?;
        if let Some(why) = unassignable(&pod) {
            return Err(Rejection::ConflictOn {
                resource: of_core("pods/binding"),
                name: name.to_owned(),
                why,
            });
        }
        Ok(vec![ActionStep::Replace {
            resource: pods,
            object: assigned(context, request, pod),
        }])
    }
}

/// Validates a binding. Like the reference, it returns an error without a status reason.
///
/// upstream: pkg/apis/core/validation#ValidatePodBinding
fn validate(request: &Value) -> Result<(), Rejection> {
    let root = Field::root(request);
    let target = root.child("target");
    let (kind, name) = (target.child("kind"), target.child("name"));
    let mut errors = Errors::new();
    if !matches!(kind.text(), "" | "Node") {
        errors.push(kind.not_supported(&["Node", "<empty>"]));
    }
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => Err(Rejection::Failed(aggregate(&texts))),
    }
}

/// upstream: pkg/registry/core/pod/storage#BindingREST.setPodNodeAndMetadata
fn check_preconditions(context: &WriteContext<'_>, request: &Value, pod: &Value) -> Result<(), Rejection> {
    let name = context_name(pod);
    // A dry run of the reference does not reach the layer that prefixes keys.
    let prefix = if context.dry_run { "" } else { "/registry" };
    // A create clears the uid of the body, as for any new object, except on subresources.
    let uid = context.subresource.map(|_| ("uid", "UID", "UID"));
    let version = ("resourceVersion", "ResourceVersion", "ResourceVersion");
    for (field, called, found) in uid.into_iter().chain([version]) {
        let text = |object: &Value| object.str_at(&["metadata", field]).unwrap_or_default().to_owned();
        let (wanted, present) = (text(request), text(pod));
        if !wanted.is_empty() && wanted != present {
            return Err(Rejection::ConflictOn {
                resource: of_core("pods"),
                name: name.to_owned(),
                why: format!(
                    "StorageError: invalid object, Code: 4, Key: {prefix}/pods/{}/{name}, ResourceVersion: 0, \
                     AdditionalErrorMsg: Precondition failed: {called} in precondition: {wanted}, {found} in object meta: \
                     {present}",
                    context.namespace
                ),
            });
        }
    }
    Ok(())
}

fn context_name(pod: &Value) -> &str {
    pod.str_at(&["metadata", "name"]).unwrap_or_default()
}

/// Returns the reason why a Pod cannot be assigned to a node, if there is one.
///
/// upstream: pkg/registry/core/pod/storage#BindingREST.setPodNodeAndMetadata
fn unassignable(pod: &Value) -> Option<String> {
    let (root, name) = (Field::root(pod), context_name(pod));
    let (metadata, spec) = (root.child("metadata"), root.child("spec"));
    if metadata.child("deletionTimestamp").is_set() {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = spec.child("nodeName");
    if !node.text().is_empty() {
        return Some(format!("pod {name} is already assigned to node {:?}", node.text()));
    }
    let gated = !spec.child("schedulingGates").is_empty();
    gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

/// Returns the Pod with its node and with the annotations and labels of the binding.
fn assigned(context: &WriteContext<'_>, request: &Value, mut pod: Value) -> Value {
    let node = request.str_at(&["target", "name"]).unwrap_or_default();
    pod.set_at(&["spec", "nodeName"], node.into());
    for (field, overwrites) in [("annotations", true), ("labels", false)] {
        let root = Field::root(request);
        let metadata = root.child("metadata");
        for (key, value) in metadata.child(field).entries() {
            let path = ["metadata", field, key];
            if overwrites || pod.at(&path).is_none() {
                pod.set_at(&path, value.text().into());
            }
        }
    }
    set_scheduled(context, &mut pod);
    pod
}

/// Sets the condition PodScheduled in the status.
fn set_scheduled(context: &WriteContext<'_>, pod: &mut Value) {
    let mut scheduled = Value::empty_map();
    scheduled.set_at(&["status"], "True".into());
    scheduled.set_at(&["type"], "PodScheduled".into());
    set_condition(context, pod, scheduled);
}

/// Replaces the condition of the same type, or adds it, with the current time as transition time.
pub(super) fn set_condition(context: &WriteContext<'_>, pod: &mut Value, mut condition: Value) {
    condition.set_at(&["lastProbeTime"], Value::Null);
    condition.set_at(&["lastTransitionTime"], time_text(context.now()));
    let list = pod.at(&["status", "conditions"]).and_then(Value::as_list);
    let mut conditions: Vec<Value> = list.into_iter().flat_map(|list| list.iter()).cloned().collect();
    match conditions
        .iter_mut()
        .find(|one| one.get("type") == condition.get("type"))
    {
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
    pod.set_at(&["status", "conditions"], conditions.into());
}

#[cfg(test)]
mod tests {
    use holdfast_resource::ActionStep;

    use crate::harness::{Harness, at};

    fn pod(spec: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: default, uid: u, labels: {{l: a}}}}, spec: \
             {{containers: [{{name: c, image: i}}]{spec}}}}}"
        )
    }

    fn binding(metadata: &str, target: &str) -> String {
        format!("{{apiVersion: v1, kind: Binding, metadata: {{name: a{metadata}}}, target: {{{target}}}}}")
    }

    fn plan(pod: &str, binding: &str) -> Result<Vec<ActionStep>, String> {
        Harness::new().with(pod).plan("pods", "binding", "a", binding)
    }

    #[test]
    fn a_pod_is_looked_for_under_a_name_that_can_stand_in_a_path() {
        let message = |name: &str| {
            let body =
                format!("{{apiVersion: v1, kind: Binding, metadata: {{name: '{name}'}}, target: {{name: one}}}}");
            Harness::new().plan("bindings", "", "", &body).err()
        };
        assert_eq!(
            message("").as_deref(),
            Some(r#"BadRequest("Name parameter required.")"#)
        );
        let slash = message("a/b").unwrap_or_default();
        assert!(
            slash.contains("Name parameter invalid: ") && slash.contains("may not contain '/'"),
            "{slash}"
        );
    }

    #[test]
    fn a_pod_is_put_on_a_node_and_gets_what_the_binding_brings() {
        let steps = plan(
            &pod(""),
            &binding(", labels: {l: b, m: c}, annotations: {x: z}", "name: one"),
        )
        .unwrap();
        let [ActionStep::Replace { object, .. }] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        assert_eq!(at(object, "spec.nodeName"), r#""one""#);
        assert_eq!(at(object, "metadata.labels"), r#"{"l":"a","m":"c"}"#);
        assert_eq!(at(object, "metadata.annotations"), r#"{"x":"z"}"#);
        assert_eq!(at(object, "status.conditions.0.type"), r#""PodScheduled""#);
    }

    #[test]
    fn a_pod_is_bound_once_and_not_behind_a_gate() {
        let refused = |spec: &str| plan(&pod(spec), &binding("", "name: one")).unwrap_err();
        assert!(refused(", nodeName: two").contains("pod a is already assigned to node \\\"two\\\""));
        assert!(refused(", schedulingGates: [{name: g}]").contains("pod a has non-empty .spec.schedulingGates"));
        let other = plan(&pod(""), &binding(", uid: v", "name: one")).unwrap_err();
        assert!(
            other.contains("UID in precondition: v, UID in object meta: u"),
            "{other}"
        );
    }

    #[test]
    fn a_binding_names_its_pod_and_a_node() {
        let refused = |binding: &str| plan(&pod(""), binding).unwrap_err();
        assert!(refused(&binding("", "kind: Pod")).contains("[target.kind: Unsupported value"));
        let elsewhere = binding("", "name: one").replace("name: a", "name: b");
        assert!(refused(&elsewhere).contains("name in URL does not match name in Binding object"));
    }
}
