//! Admission by limit ranges: <https://kubernetes.io/docs/concepts/policy/limit-range/>.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_gotext::errors::aggregate;
use holdfast_gotext::quantity::Quantity;
use holdfast_resource::quota::{Amounts, amounts};
use holdfast_resource::{Operation, Rejection, SharedState, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::group_resource;
use holdfast_kinds::pod_resources::of_containers;

/// Plugin that sets the default resources of containers and rejects objects outside the limits of the namespace.
#[derive(Default)]
pub(super) struct LimitRanger {
    /// Cache of parsed limit ranges, by the resource version of each.
    read: SharedState<HashMap<u64, Arc<Limits>>>,
}

/// Maximum number of cached limit ranges. With more, the cache is cleared.
const KEPT: usize = 1024;

const CLAIMS: &str = "persistentvolumeclaims";
const CONTAINER: &str = "Container";
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Lists of containers that limits apply to, each with its name in the annotation.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create, Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[
                Interest::in_new("", "pods"),
                Interest {
                    subresources: &["resize"],
                    ..Interest::in_objects("", "pods", &[Operation::Update])
                },
                Interest::in_written("", CLAIMS),
            ]
        }
    }

    /// upstream: plugin/pkg/admission/limitranger#LimitRanger.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object.filter(|_| context.resource.plural != CLAIMS && !is_going(old)) else {
            return Ok(());
        };
        for limits in self.limits(context) {
            fill_in(pod, &limits);
        }
        Ok(())
    }

    /// upstream: plugin/pkg/admission/limitranger#LimitRanger.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(object) = object.filter(|_| !is_going(old)) else {
            return Ok(());
        };
        let root = Field::root(object);
        let spec = root.child("spec");
        for limits in self.limits(context) {
            let mut findings = Vec::new();
            for limit in limits.iter() {
                match context.resource.plural.as_str() {
                    CLAIMS => check_claim(limit, &spec, &mut findings),
                    _ => check_pod(limit, &spec, &mut findings),
                }
            }
            if !findings.is_empty() {
                return Err(Rejection::forbidden(aggregate(&findings)));
            }
        }
        Ok(())
    }
}

impl LimitRanger {
    /// Returns the limits of the namespace.
    fn limits(&self, context: &WriteContext<'_>) -> Vec<Arc<Limits>> {
        let mut found = Vec::new();
        let limit_ranges = group_resource("", "limitranges");
        context
            .lookup
            .list_revisions(&limit_ranges, context.namespace, &mut |revision, read| {
                found.push(self.limits_at(revision, read));
            });
        found
    }

    fn limits_at(&self, revision: u64, read: &dyn Fn() -> Value) -> Arc<Limits> {
        // The limits follow from the revision, which the run has read. So the state of the cache changes no result.
        let known = self.read.outside_run().get(&revision).cloned();
        known.unwrap_or_else(|| {
            let limits = Arc::new(read_limits(&read()));
            if revision != 0 {
                let mut kept = self.read.outside_run();
                if kept.len() >= KEPT {
                    kept.clear();
                }
                kept.insert(revision, Arc::clone(&limits));
            }
            limits
        })
    }
}

/// Limits of one limit range.
type Limits = Vec<Limit>;

/// Limits for one type of object.
struct Limit {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    limit_type: String,
    least: Amounts,
    most: Amounts,
    ratio: Amounts,
    /// Requests for containers that set none.
    default_requests: Defaults,
    /// Limits for containers that set none.
    default_limits: Defaults,
}

type Defaults = Vec<(String, Value)>;

fn read_limits(range: &Value) -> Limits {
    let root = Field::root(range);
    let spec = root.child("spec");
    let limits = spec.child("limits");
    let read = |limit: Field<'_, '_>| {
        let stated = |part| {
            let part = limit.child(part);
            let entries = part.entries();
            entries
                .filter_map(|(name, amount)| Some((name.to_owned(), amount.value()?.clone())))
                .collect()
        };
        Limit {
            limit_type: limit.child("type").text().to_owned(),
            least: amounts(&limit.child("min")),
            most: amounts(&limit.child("max")),
            ratio: amounts(&limit.child("maxLimitRequestRatio")),
            default_requests: stated("defaultRequest"),
            default_limits: stated("default"),
        }
    };
    limits.items().map(read).collect()
}

/// Returns true if the object is being deleted, which exempts it from limits.
fn is_going(old: Option<&Value>) -> bool {
    old.is_some_and(|old| old.at(&["metadata", "deletionTimestamp"]).is_some())
}

/// Sets the requests and limits that each container lacks, and lists them in an annotation.
///
/// upstream: plugin/pkg/admission/limitranger#mergePodResourceRequirements
fn fill_in(pod: &mut Value, limits: &[Limit]) {
    let of_containers = || limits.iter().filter(|limit| limit.limit_type == CONTAINER);
    let requests: Vec<_> = of_containers().flat_map(|limit| &limit.default_requests).collect();
    let limits: Vec<_> = of_containers().flat_map(|limit| &limit.default_limits).collect();
    let mut messages = Vec::new();
    for (list, called) in CONTAINERS {
        let mut containers = Field::root(pod).child("spec").child(list).slice().to_vec();
        let already_reported = messages.len();
        for container in &mut containers {
            for (part, called_part, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let mut set = Vec::new();
                for (name, amount) in defaults {
                    let place = ["resources", part, name.as_str()];
                    if container.at(&place).is_none() {
                        container.set_at(&place, amount.clone());
                        set.push(name.as_str());
                    }
                }
                if !set.is_empty() {
                    set.sort_unstable();
                    let name = container.str_at(&["name"]).unwrap_or_default();
                    messages.push(format!("{} {called_part} for {called} {name}", set.join(", ")));
                }
            }
        }
        if messages.len() > already_reported {
            pod.set_at(&["spec", list], containers.into());
        }
    }
    if !messages.is_empty() {
        let text = format!("LimitRanger plugin set: {}", messages.join("; "));
        pod.set_at(&["metadata", "annotations", ANNOTATION], text.into());
    }
}

/// upstream: plugin/pkg/admission/limitranger#PodValidateLimitFunc
fn check_pod(limit: &Limit, spec: &Field<'_, '_>, findings: &mut Vec<String>) {
    match limit.limit_type.as_str() {
        CONTAINER => {
            for (list, _) in CONTAINERS {
                for container in spec.child(list).items() {
                    let resources = container.child("resources");
                    let (requests, limits) = (resources.child("requests"), resources.child("limits"));
                    check(limit, &amounts(&requests), &amounts(&limits), findings);
                }
            }
        }
        "Pod" => {
            let [requests, limits] = ["requests", "limits"].map(|part| {
                let mut total = of_containers(spec, part);
                let of_pod = amounts(&spec.child("resources").child(part)).into_iter();
                total.extend(of_pod.filter(|(name, _)| ["cpu", "memory"].contains(&name.as_str())));
                total
            });
            check(limit, &requests, &limits, findings);
        }
        _ => {}
    }
}

/// upstream: plugin/pkg/admission/limitranger#minConstraint
/// upstream: plugin/pkg/admission/limitranger#maxConstraint
/// upstream: plugin/pkg/admission/limitranger#limitRequestRatioConstraint
fn check(limit: &Limit, requests: &Amounts, limits: &Amounts, findings: &mut Vec<String>) {
    let limit_type = &limit.limit_type;
    for (name, least) in &limit.least {
        let bound = || format!("minimum {name} usage per {limit_type} is {least}");
        match (requests.get(name), limits.get(name)) {
            (None, _) => findings.push(format!("{}.  No request is specified", bound())),
            (Some(request), _) if request < least => findings.push(format!("{}, but request is {request}", bound())),
            (_, Some(limit)) if limit < least => findings.push(format!("{}, but limit is {limit}", bound())),
            _ => {}
        }
    }
    for (name, most) in &limit.most {
        let bound = || format!("maximum {name} usage per {limit_type} is {most}");
        match (requests.get(name), limits.get(name)) {
            (_, None) => findings.push(format!("{}.  No limit is specified", bound())),
            (_, Some(limit)) if limit > most => findings.push(format!("{}, but limit is {limit}", bound())),
            (Some(request), _) if request > most => findings.push(format!("{}, but request is {request}", bound())),
            _ => {}
        }
    }
    for (name, most) in &limit.ratio {
        let bound = || format!("{name} max limit to request ratio per {limit_type} is {most}");
        let stated = |list: &Amounts| list.get(name).copied().filter(|amount| !amount.is_zero());
        match (stated(requests), stated(limits)) {
            (None, _) => findings.push(format!("{}, but no request is specified or request is 0", bound())),
            (_, None) => findings.push(format!("{}, but no limit is specified or limit is 0", bound())),
            (Some(request), Some(limit)) => {
                let ratio = limit.ratio(request).unwrap_or_default();
                if most.ratio(Quantity::from_units(1)).is_some_and(|most| ratio > most) {
                    findings.push(format!("{}, but provided ratio is {ratio:.6}", bound()));
                }
            }
        }
    }
}

/// upstream: plugin/pkg/admission/limitranger#PersistentVolumeClaimValidateLimitFunc
fn check_claim(limit: &Limit, spec: &Field<'_, '_>, findings: &mut Vec<String>) {
    const SORT: &str = "PersistentVolumeClaim";
    if limit.limit_type != SORT {
        return;
    }
    let requests = amounts(&spec.child("resources").child("requests"));
    for (bounds, called, outside) in [
        (
            &limit.least,
            "minimum",
            Quantity::lt as fn(&Quantity, &Quantity) -> bool,
        ),
        (&limit.most, "maximum", Quantity::gt),
    ] {
        for (name, enforced) in bounds {
            let bound = || format!("{called} {name} usage per {SORT} is {enforced}");
            match requests.get(name) {
                None => findings.push(format!("{}.  No request is specified", bound())),
                Some(request) if outside(request, enforced) => {
                    findings.push(format!("{}, but request is {request}", bound()));
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
    fn containers_get_what_they_do_not_state_and_the_pod_notes_it() {
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
        let rejection = |request: &str, limit: &str| {
            let text = pod(&format!("requests: {{cpu: {request}}}, limits: {{cpu: {limit}}}"));
            harness.admit(PLUGIN, &text).unwrap_err()
        };
        assert_eq!(
            rejection("50m", "60m"),
            "minimum cpu usage per Container is 100m, but request is 50m"
        );
        assert_eq!(
            rejection("2", "2"),
            "maximum cpu usage per Container is 1, but limit is 2"
        );
        assert_eq!(
            rejection("100m", "1"),
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
        // Pod-level resources count instead of the sum, for the resources that a Pod may set.
        let whole = |limits: &str| {
            two.replacen(
                "{initContainers",
                &format!("{{resources: {{limits: {{{limits}}}, requests: {{{limits}}}}}, initContainers"),
                1,
            )
        };
        assert!(harness.admit(PLUGIN, &whole("memory: 1Gi")).is_ok());
        assert!(harness.admit(PLUGIN, &whole("cpu: 1")).is_err());
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

    #[test]
    fn a_limit_range_is_read_once_for_each_of_its_revisions() {
        let range = Harness::new().read(
            "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: 1}}]}}",
        );
        let plugin = super::LimitRanger::default();
        let reads = std::cell::Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            range.clone()
        };
        for (revision, so_far) in [(7, 1), (7, 1), (8, 2), (0, 3), (0, 4), (7, 4)] {
            let limits = plugin.limits_at(revision, &read);
            assert_eq!((limits.len(), reads.get()), (1, so_far), "{revision}");
        }
    }
}
