//! The scopes within which quotas count.

use holdfast_resource::Field;
use holdfast_value::Value;

use super::Measure;

/// Whether all scopes of a quota hold for an object.
pub(super) fn all_hold(measure: Measure, quota: &Value, object: &Value) -> bool {
    let root = Field::root(quota);
    let spec = root.child("spec");
    let selector = spec.child("scopeSelector");
    let named = spec
        .child("scopes")
        .items()
        .all(|scope| holds(measure, object, scope.text(), "Exists", &[]));
    named
        && selector.child("matchExpressions").items().all(|wanted| {
            let (scope, operator) = (wanted.child("scopeName"), wanted.child("operator"));
            let values = wanted.child("values");
            let values: Vec<&str> = values.slice().iter().filter_map(Value::as_str).collect();
            holds(measure, object, scope.text(), operator.text(), &values)
        })
}

fn holds(measure: Measure, object: &Value, scope: &str, operator: &str, values: &[&str]) -> bool {
    let root = Field::root(object);
    let (spec, status) = (root.child("spec"), root.child("status"));
    let terminating = || {
        let deadline = spec.child("activeDeadlineSeconds").number();
        deadline.is_some_and(|seconds| seconds >= 0)
    };
    let best_effort = || status.child("qosClass").text() == "BestEffort";
    match (measure, scope) {
        (Measure::Pod, "Terminating") => terminating(),
        (Measure::Pod, "NotTerminating") => !terminating(),
        (Measure::Pod, "BestEffort") => best_effort(),
        (Measure::Pod, "NotBestEffort") => !best_effort(),
        (Measure::Pod, "PriorityClass") => selects(spec.child("priorityClassName").text(), operator, values),
        (Measure::Pod, "CrossNamespacePodAffinity") => crosses_namespaces(&spec),
        (Measure::Claim, "VolumeAttributesClass") => {
            let target = status.child("modifyVolumeStatus");
            let classes = [
                spec.child("volumeAttributesClassName").text(),
                status.child("currentVolumeAttributesClassName").text(),
                target.child("targetVolumeAttributesClassName").text(),
            ];
            let mut named = classes.iter().filter(|class| !class.is_empty()).peekable();
            if named.peek().is_none() {
                return selects("", operator, values);
            }
            named.any(|class| selects(class, operator, values))
        }
        _ => false,
    }
}

fn selects(value: &str, operator: &str, values: &[&str]) -> bool {
    let there = !value.is_empty();
    match operator {
        "Exists" => there,
        "DoesNotExist" => !there,
        "In" => there && values.contains(&value),
        "NotIn" => !there || !values.contains(&value),
        _ => false,
    }
}

/// Whether a Pod asks to be near to, or far from, Pods of other namespaces.
fn crosses_namespaces(spec: &Field<'_, '_>) -> bool {
    let crosses =
        |term: &Field<'_, '_>| !term.child("namespaces").is_empty() || term.child("namespaceSelector").is_set();
    let affinity = spec.child("affinity");
    ["podAffinity", "podAntiAffinity"].iter().any(|sort| {
        let sort = affinity.child(sort);
        let required = sort.child("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = sort.child("preferredDuringSchedulingIgnoredDuringExecution");
        required.items().any(|term| crosses(&term))
            || preferred.items().any(|term| crosses(&term.child("podAffinityTerm")))
    })
}
