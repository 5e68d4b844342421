use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_schema::metadata::formats::path_segment;
use holdfast_value::Value;

use crate::common::group_resource;
use holdfast_kinds::defaults::is_zero;
use holdfast_schema::same;

/// Plugin that applies the overhead and the scheduling of the runtime class to Pods:
/// <https://kubernetes.io/docs/concepts/containers/runtime-class/>.
pub(super) struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create])
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/runtimeclass#RuntimeClass.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let Some(class) = class_of(context, pod)? else {
            return Ok(());
        };
        set_overhead(pod, &class)?;
        set_scheduling(pod, &class)
    }

    /// upstream: plugin/pkg/admission/runtimeclass#RuntimeClass.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let class = class_of(context, pod)?;
        let stated = pod.at(&["spec", "overhead"]);
        let defined = class.as_ref().and_then(|class| class.get("overhead"));
        match defined.filter(|defined| !defined.is_null()) {
            // An empty overhead equals a missing one.
            Some(defined) => {
                let [fixed, stated] =
                    [defined.get("podFixed"), stated].map(|amounts| amounts.filter(|_| !is_zero(amounts)));
                match same(stated, fixed) {
                    true => Ok(()),
                    false => Err(rejected("Pod's Overhead doesn't match RuntimeClass's defined Overhead")),
                }
            }
            None if stated.is_some_and(|stated| !stated.is_null()) => Err(rejected(
                "Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            None => Ok(()),
        }
    }
}

fn rejected(reason: &str) -> Rejection {
    Rejection::forbidden(format!("pod rejected: {reason}"))
}

/// Returns the error with which the reference's client rejects a name without a request.
fn unaddressable(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_owned());
    }
    let errors = path_segment(name);
    (!errors.is_empty()).then(|| format!("invalid resource name {name:?}: [{}]", errors.join(" ")))
}

fn class_of(context: &WriteContext<'_>, pod: &Value) -> Result<Option<Value>, Rejection> {
    let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else {
        return Ok(None);
    };
    if let Some(message) = unaddressable(name) {
        return Err(Rejection::Failed(message));
    }
    let found = context
        .lookup
        .get(&group_resource("node.k8s.io", "runtimeclasses"), "", name);
    found
        .map(Some)
        .ok_or_else(|| rejected(&format!("RuntimeClass \"{name}\" not found")))
}

/// upstream: plugin/pkg/admission/runtimeclass#setOverhead
fn set_overhead(pod: &mut Value, class: &Value) -> Result<(), Rejection> {
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

/// upstream: plugin/pkg/admission/runtimeclass#setScheduling
fn set_scheduling(pod: &mut Value, class: &Value) -> Result<(), Rejection> {
    let class = Field::root(class);
    let scheduling = class.child("scheduling");
    for (label, value) in scheduling.child("nodeSelector").entries() {
        let place = ["spec", "nodeSelector", label];
        match pod.str_at(&place) {
            Some(stated) if stated != value.text() => {
                return Err(Rejection::forbidden(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {stated}",
                    value.text()
                )));
            }
            Some(_) => {}
            None => pod.set_at(&place, value.text().into()),
        }
    }
    let root = Field::root(pod);
    let own = root.child("spec").child("tolerations").slice();
    let merged = merged_tolerations(own, scheduling.child("tolerations").slice());
    if merged.len() != own.len() {
        pod.set_at(&["spec", "tolerations"], merged.into());
    }
    Ok(())
}

/// Maximum number of tolerations that are compared with each other. With more, only duplicates are removed.
const MOST_COMPARED: usize = 1000;

/// Merges both lists without the tolerations that others cover.
///
/// upstream: pkg/util/tolerations#MergeTolerations
fn merged_tolerations(own: &[Value], added: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = own.iter().chain(added).collect();
    let mut merged: Vec<Value> = Vec::new();
    if all.len() > MOST_COMPARED {
        let mut seen = own.to_vec();
        seen.extend(added.iter().filter(|toleration| !own.contains(toleration)).cloned());
        return seen;
    }
    for (at, toleration) in all.iter().enumerate() {
        let covered = |other: &Value| tolerates_all_of(&Field::root(other), &Field::root(toleration));
        let later = all.iter().skip(at + 1);
        if !merged.iter().any(covered) && !later.into_iter().any(|later| later != toleration && covered(later)) {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Returns true if `wide` tolerates whatever `narrow` tolerates.
///
/// upstream: pkg/util/tolerations#isSuperset
fn tolerates_all_of(wide: &Field<'_, '_>, narrow: &Field<'_, '_>) -> bool {
    if wide.value() == narrow.value() {
        return true;
    }
    let text = |toleration: &Field<'_, '_>, name: &str| toleration.child(name).text().to_owned();
    let (operator, effect) = (text(wide, "operator"), text(wide, "effect"));
    let every_key = text(wide, "key").is_empty() && operator == "Exists";
    if text(wide, "key") != text(narrow, "key") && !every_key || !effect.is_empty() && effect != text(narrow, "effect")
    {
        return false;
    }
    let seconds = |toleration: &Field<'_, '_>| toleration.child("tolerationSeconds").number();
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match operator.as_str() {
        "Equal" | "" => text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value"),
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_that_others_hold_are_not_kept() {
        let read = |text: &str| {
            let limits = holdfast_value::Limits::TRUSTED;
            let value = holdfast_value::json::parse(text.as_bytes(), &limits).unwrap();
            value.as_list().unwrap().to_vec()
        };
        let own = read(
            r#"[{"key":"k","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":5},{"key":"l","operator":"Exists"}]"#,
        );
        let every = read(r#"[{"key":"k","operator":"Exists"}]"#);
        let merged = Value::from(merged_tolerations(&own, &every));
        assert_eq!(
            holdfast_value::json::to_string(&merged),
            r#"[{"key":"l","operator":"Exists"},{"key":"k","operator":"Exists"}]"#
        );
        assert_eq!(merged_tolerations(&own, &own), own);
        let shorter = read(r#"[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":4}]"#);
        assert_eq!(merged_tolerations(&own, &shorter).len(), 3);
    }
}
