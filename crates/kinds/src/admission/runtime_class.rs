use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::metadata::formats::path_segment;
use holdfast_resource::{Field, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::group_resource;
use crate::defaults::is_zero;
use crate::validation::same;

/// Pods take on what their runtime class asks for: <https://kubernetes.io/docs/concepts/containers/runtime-class/>.
pub(super) struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new("", "pods")] }
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        _resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(pod) = object else {
            return Ok(());
        };
        let Some(class) = class_of(context, pod)? else {
            return Ok(());
        };
        set_overhead(pod, &class)?;
        set_scheduling(pod, &class)
    }

    fn validate(
        &self,
        context: &WriteContext<'_>,
        _resource: &Resource,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(pod) = object else {
            return Ok(());
        };
        let class = class_of(context, pod)?;
        let stated = pod.at(&["spec", "overhead"]);
        let fixed = class.as_ref().and_then(|class| class.at(&["overhead", "podFixed"]));
        if !is_zero(stated) && is_zero(fixed) {
            return Err(rejected(
                "Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ));
        }
        Ok(())
    }
}

fn rejected(reason: &str) -> Refusal {
    Refusal::forbidden(format!("pod rejected: {reason}"))
}

/// Why the reference's client does not even ask for an object of that name.
fn unaddressable(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_owned());
    }
    let faults = path_segment(name);
    (!faults.is_empty()).then(|| format!("invalid resource name {name:?}: [{}]", faults.join(" ")))
}

fn class_of(context: &WriteContext<'_>, pod: &Value) -> Result<Option<Value>, Refusal> {
    let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else {
        return Ok(None);
    };
    if let Some(fault) = unaddressable(name) {
        return Err(Refusal::Failed(fault));
    }
    let found = context
        .lookup
        .get(&group_resource("node.k8s.io", "runtimeclasses"), "", name);
    found
        .map(Some)
        .ok_or_else(|| rejected(&format!("RuntimeClass \"{name}\" not found")))
}

fn set_overhead(pod: &mut Value, class: &Value) -> Result<(), Refusal> {
    let Some(fixed) = class
        .at(&["overhead", "podFixed"])
        .filter(|fixed| !is_zero(Some(fixed)))
    else {
        return Ok(());
    };
    let stated = pod.at(&["spec", "overhead"]);
    if !is_zero(stated) && !same(stated, Some(fixed)) {
        return Err(rejected("Pod's Overhead doesn't match RuntimeClass's defined Overhead"));
    }
    pod.set_at(&["spec", "overhead"], fixed.clone());
    Ok(())
}

fn set_scheduling(pod: &mut Value, class: &Value) -> Result<(), Refusal> {
    let class = Field::root(class);
    let scheduling = class.child("scheduling");
    for (label, value) in scheduling.child("nodeSelector").entries() {
        let place = ["spec", "nodeSelector", label];
        match pod.str_at(&place) {
            Some(stated) if stated != value.text() => {
                return Err(Refusal::forbidden(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {stated}",
                    value.text()
                )));
            }
            Some(_) => {}
            None => pod.set_at(&place, value.text().into()),
        }
    }
    let added = scheduling.child("tolerations");
    if !added.is_empty() {
        let root = Field::root(pod);
        let mut all = root.child("spec").child("tolerations").slice().to_vec();
        for toleration in added.slice() {
            if !all.contains(toleration) {
                all.push(toleration.clone());
            }
        }
        pod.set_at(&["spec", "tolerations"], all.into());
    }
    Ok(())
}
