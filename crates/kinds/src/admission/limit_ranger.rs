//! Limit ranges at work: <https://kubernetes.io/docs/concepts/policy/limit-range/>.

use std::ops::ControlFlow;

use holdfast_resource::schema::quantity::Quantity;
use holdfast_resource::{AdmissionPlugin, Field, Operation, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::group_resource;
use crate::pod_resources::{amounts, of_containers};
use crate::quota::Amounts;

/// Fills in what containers leave out and refuses what does not keep to the limits of the namespace.
pub(super) struct LimitRanger;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// What is limited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limited {
    Pod,
    Claim,
}

/// Both lists of containers that limits hold for, each with what it is called in the annotation.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        if limited(context, resource, old) != Some(Limited::Pod) {
            return Ok(());
        }
        if let Some(pod) = object {
            for range in ranges(context) {
                fill_in(pod, &Field::root(&range));
            }
        }
        Ok(())
    }

    fn validate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let (Some(limited), Some(object)) = (limited(context, resource, old), object) else {
            return Ok(());
        };
        let root = Field::root(object);
        let spec = root.child("spec");
        for range in ranges(context) {
            let mut faults = Vec::new();
            for limit in Field::root(&range).child("spec").child("limits").items() {
                match limited {
                    Limited::Pod => check_pod(&limit, &spec, &mut faults),
                    Limited::Claim => check_claim(&limit, &spec, &mut faults),
                }
            }
            if !faults.is_empty() {
                return Err(Refusal::forbidden(together(faults)));
            }
        }
        Ok(())
    }
}

/// What this write is to keep to, if anything. The containers of a Pod stay as they are but for their resources, so that
/// other updates need no look.
fn limited(context: &WriteContext<'_>, resource: &Resource, old: Option<&Value>) -> Option<Limited> {
    if !resource.group.is_empty() {
        return None;
    }
    let limited = match (resource.plural.as_str(), context.operation, context.subresource) {
        ("pods", Operation::Create, None) | ("pods", Operation::Update, Some("resize")) => Limited::Pod,
        ("persistentvolumeclaims", Operation::Create | Operation::Update, None) => Limited::Claim,
        _ => return None,
    };
    let going = old.is_some_and(|old| old.at(&["metadata", "deletionTimestamp"]).is_some());
    (!going).then_some(limited)
}

fn ranges(context: &WriteContext<'_>) -> Vec<Value> {
    let mut ranges = Vec::new();
    let of = group_resource("", "limitranges");
    context.lookup.list(&of, context.namespace, &mut |range| {
        ranges.push(range.clone());
        ControlFlow::Continue(())
    });
    ranges
}

/// Several faults are told in brackets, each once.
fn together(mut faults: Vec<String>) -> String {
    let mut told: Vec<String> = Vec::with_capacity(faults.len());
    for fault in faults.drain(..) {
        if !told.contains(&fault) {
            told.push(fault);
        }
    }
    match told.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Gives each container the requests and limits that it does not state, and says so in an annotation.
fn fill_in(pod: &mut Value, range: &Field<'_, '_>) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for limit in range.child("spec").child("limits").items() {
        if limit.child("type").text() == "Container" {
            for (list, part) in [(&mut requests, "defaultRequest"), (&mut limits, "default")] {
                let part = limit.child(part);
                list.extend(
                    part.entries()
                        .filter_map(|(name, amount)| Some((name, amount.value()?.clone()))),
                );
            }
        }
    }
    let mut told = Vec::new();
    for (list, called) in CONTAINERS {
        let mut containers = Field::root(pod).child("spec").child(list).slice().to_vec();
        let already_told = told.len();
        for container in &mut containers {
            for (part, called_part, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let mut set = Vec::new();
                for (name, amount) in defaults {
                    let place = ["resources", part, *name];
                    if container.at(&place).is_none() {
                        container.set_at(&place, amount.clone());
                        set.push(*name);
                    }
                }
                if !set.is_empty() {
                    set.sort_unstable();
                    let name = container.str_at(&["name"]).unwrap_or_default();
                    told.push(format!("{} {called_part} for {called} {name}", set.join(", ")));
                }
            }
        }
        if told.len() > already_told {
            pod.set_at(&["spec", list], containers.into());
        }
    }
    if !told.is_empty() {
        let text = format!("LimitRanger plugin set: {}", told.join("; "));
        pod.set_at(&["metadata", "annotations", ANNOTATION], text.into());
    }
}

fn check_pod(limit: &Field<'_, '_>, spec: &Field<'_, '_>, faults: &mut Vec<String>) {
    match limit.child("type").text() {
        "Container" => {
            for (list, _) in CONTAINERS {
                for container in spec.child(list).items() {
                    let resources = container.child("resources");
                    let (requests, limits) = (resources.child("requests"), resources.child("limits"));
                    check(limit, "Container", &amounts(&requests), &amounts(&limits), faults);
                }
            }
        }
        "Pod" => {
            let (requests, limits) = (of_containers(spec, "requests"), of_containers(spec, "limits"));
            check(limit, "Pod", &requests, &limits, faults);
        }
        _ => {}
    }
}

fn check(limit: &Field<'_, '_>, sort: &str, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    for (name, least) in amounts(&limit.child("min")) {
        let bound = format!("minimum {name} usage per {sort} is {least}");
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => faults.push(format!("{bound}.  No request is specified")),
            (Some(request), _) if *request < least => faults.push(format!("{bound}, but request is {request}")),
            (_, Some(limit)) if *limit < least => faults.push(format!("{bound}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, most) in amounts(&limit.child("max")) {
        let bound = format!("maximum {name} usage per {sort} is {most}");
        match (requests.get(&name), limits.get(&name)) {
            (_, None) => faults.push(format!("{bound}.  No limit is specified")),
            (_, Some(limit)) if *limit > most => faults.push(format!("{bound}, but limit is {limit}")),
            (Some(request), _) if *request > most => faults.push(format!("{bound}, but request is {request}")),
            _ => {}
        }
    }
    for (name, most) in amounts(&limit.child("maxLimitRequestRatio")) {
        let bound = format!("{name} max limit to request ratio per {sort} is {most}");
        let given = |list: &Amounts| list.get(&name).copied().filter(|amount| !amount.is_zero());
        match (given(requests), given(limits)) {
            (None, _) => faults.push(format!("{bound}, but no request is specified or request is 0")),
            (_, None) => faults.push(format!("{bound}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.ratio(request).unwrap_or_default();
                if most.ratio(Quantity::of_units(1)).is_some_and(|most| ratio > most) {
                    faults.push(format!("{bound}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

fn check_claim(limit: &Field<'_, '_>, spec: &Field<'_, '_>, faults: &mut Vec<String>) {
    const SORT: &str = "PersistentVolumeClaim";
    if limit.child("type").text() != SORT {
        return;
    }
    let requests = amounts(&spec.child("resources").child("requests"));
    for (bound, called, outside) in [
        ("min", "minimum", Quantity::lt as fn(&Quantity, &Quantity) -> bool),
        ("max", "maximum", Quantity::gt),
    ] {
        for (name, enforced) in amounts(&limit.child(bound)) {
            let bound = format!("{called} {name} usage per {SORT} is {enforced}");
            match requests.get(&name) {
                None => faults.push(format!("{bound}.  No request is specified")),
                Some(request) if outside(request, &enforced) => {
                    faults.push(format!("{bound}, but request is {request}"))
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const PLUGIN: &str = "LimitRanger";

    fn range(limits: &str) -> Harness {
        Harness::new().with(&format!(
            "{{apiVersion: v1, kind: LimitRange, metadata: {{name: l, namespace: default}}, spec: {{limits: [{limits}]}}}}"
        ))
    }

    fn pod(resources: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i, resources: \
             {{{resources}}}}}]}}}}"
        )
    }

    #[test]
    fn containers_get_what_they_do_not_state_and_the_pod_tells_of_it() {
        let harness = range("{type: Container, default: {cpu: 500m, memory: 1Gi}, defaultRequest: {cpu: 100m}}");
        let admitted = harness.admit(PLUGIN, &pod("requests: {cpu: 200m}")).unwrap();
        assert_eq!(
            at(&admitted, "spec.containers.0.resources"),
            r#"{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"200m","memory":"1Gi"}}"#
        );
        assert_eq!(
            admitted.str_at(&["metadata", "annotations", "kubernetes.io/limit-ranger"]),
            Some("LimitRanger plugin set: memory request for container c; cpu, memory limit for container c")
        );
        let full = pod("requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}");
        let admitted = harness.admit(PLUGIN, &full).unwrap();
        assert_eq!(at(&admitted, "metadata.annotations"), "nothing");
    }

    #[test]
    fn containers_keep_to_least_most_and_ratio() {
        let harness = range("{type: Container, min: {cpu: 100m}, max: {cpu: 1}, maxLimitRequestRatio: {cpu: 2}}");
        let refusal = |request: &str, limit: &str| {
            let text = pod(&format!("requests: {{cpu: {request}}}, limits: {{cpu: {limit}}}"));
            harness.admit(PLUGIN, &text).unwrap_err()
        };
        assert_eq!(
            refusal("50m", "60m"),
            "minimum cpu usage per Container is 100m, but request is 50m"
        );
        assert_eq!(
            refusal("2", "2"),
            "maximum cpu usage per Container is 1, but limit is 2"
        );
        assert_eq!(
            refusal("100m", "1"),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000"
        );
        assert!(
            harness
                .admit(PLUGIN, &pod("requests: {cpu: 500m}, limits: {cpu: 1}"))
                .is_ok()
        );
    }

    #[test]
    fn pods_keep_to_the_sum_of_their_containers() {
        let harness = range("{type: Pod, max: {memory: 1Gi}}");
        assert_eq!(
            harness.admit(PLUGIN, &pod("limits: {cpu: 1}")).unwrap_err(),
            "maximum memory usage per Pod is 1Gi.  No limit is specified"
        );
        let two = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: i, image: i, \
                   resources: {limits: {memory: 900Mi}}}], containers: [{name: a, image: i, resources: {limits: {memory: \
                   600Mi}}}, {name: b, image: i, resources: {limits: {memory: 600Mi}}}]}}";
        assert_eq!(
            harness.admit(PLUGIN, two).unwrap_err(),
            "maximum memory usage per Pod is 1Gi, but limit is 1200Mi"
        );
        assert!(harness.admit(PLUGIN, &two.replace("600Mi", "300Mi")).is_ok());
    }

    #[test]
    fn claims_keep_to_least_and_most() {
        let harness = range("{type: PersistentVolumeClaim, min: {storage: 2Gi}, max: {storage: 4Gi}}");
        let claim = |size: &str| {
            let text = format!(
                "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: v}}, spec: {{resources: {{requests: \
                 {{storage: {size}}}}}}}}}"
            );
            harness.admit(PLUGIN, &text).map(|_| ())
        };
        assert_eq!(
            claim("1Gi").unwrap_err(),
            "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
        );
        assert_eq!(
            claim("5Gi").unwrap_err(),
            "maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"
        );
        assert!(claim("3Gi").is_ok());
    }
}
