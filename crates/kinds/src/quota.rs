//! Quota usage of objects beyond their number, by kind.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use holdfast_gotext::quantity::Quantity;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::quota::{Amounts, QuotaUsage, amounts, quantity};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::pod_resources::of_pod;
use crate::validation::resources::{CLAIMED_STORAGE, OF_SERVICES, is_counted_of_pods, is_extended};

/// Separator between a storage class and the resource that is counted for it.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Suffix of a device class whose devices are counted.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Number of devices that a request for all devices counts as: the maximum of one allocation.
const ALL_DEVICES: i64 = 32;
/// Annotation that named the class of a claim before the field existed.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Resources that each container must set if a quota counts them.
const DEMANDED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

/// Quota usage of Pods: the resources of their containers.
pub(crate) struct Pods;

impl QuotaUsage for Pods {
    fn takes(&self, name: &str) -> bool {
        let requests = name.strip_prefix("requests.");
        let huge = requests.unwrap_or(name).starts_with("hugepages-");
        huge || is_counted_of_pods(name) || requests.is_some_and(is_extended)
    }

    fn add(&self, pod: &Value, usage: &mut Amounts) {
        let root = Field::root(pod);
        let spec = root.child("spec");
        usage.extend(named_as_in_quotas(&of_pod(&spec, "requests"), &of_pod(&spec, "limits")));
    }

    fn changed_by(&self) -> &'static str {
        "resize"
    }

    fn changes_scope(&self, pod: &Value, old: &Value) -> bool {
        is_terminating(pod) != is_terminating(old)
    }

    fn may_end(&self) -> bool {
        true
    }

    fn has_ended(&self, pod: &Value, now: SystemTime) -> bool {
        is_over(pod, now)
    }

    fn is_within(&self, pod: &Value, scope: &str, operator: &str, values: &[&str]) -> bool {
        let root = Field::root(pod);
        let (spec, status) = (root.child("spec"), root.child("status"));
        let terminating = || is_terminating(pod);
        let best_effort = || status.child("qosClass").text() == "BestEffort";
        match scope {
            "Terminating" => terminating(),
            "NotTerminating" => !terminating(),
            "BestEffort" => best_effort(),
            "NotBestEffort" => !best_effort(),
            "PriorityClass" => selects(spec.child("priorityClassName").text(), operator, values),
            "CrossNamespacePodAffinity" => crosses_namespaces(&spec),
            _ => false,
        }
    }

    fn unstated(&self, counted: &[&str], pod: &Value) -> Option<String> {
        missing(counted, pod)
    }
}

/// Returns true if a Pod has a deadline.
///
/// upstream: pkg/quota/v1/evaluator/core#IsTerminating
fn is_terminating(pod: &Value) -> bool {
    let deadline = pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64);
    deadline.is_some_and(|seconds| seconds >= 0)
}

/// Quota usage of Services: node ports and load balancers.
pub(crate) struct Services;

impl QuotaUsage for Services {
    fn takes(&self, name: &str) -> bool {
        OF_SERVICES.contains(&name)
    }

    fn add(&self, service: &Value, usage: &mut Amounts) {
        add_ports(&Field::root(service).child("spec"), usage);
    }
}

/// Quota usage of claims: the requested storage.
pub(crate) struct Claims;

impl QuotaUsage for Claims {
    fn takes(&self, name: &str) -> bool {
        name == CLAIMED_STORAGE || name.contains(OF_STORAGE_CLASS)
    }

    fn add(&self, claim: &Value, usage: &mut Amounts) {
        add_storage(&Field::root(claim), usage);
    }

    fn is_within(&self, claim: &Value, scope: &str, operator: &str, values: &[&str]) -> bool {
        if scope != "VolumeAttributesClass" {
            return false;
        }
        let root = Field::root(claim);
        let (spec, status) = (root.child("spec"), root.child("status"));
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
}

/// Quota usage of device claims: the requested devices.
pub(crate) struct DeviceClaims;

impl QuotaUsage for DeviceClaims {
    fn takes(&self, name: &str) -> bool {
        name.ends_with(OF_DEVICE_CLASS)
    }

    fn add(&self, claim: &Value, usage: &mut Amounts) {
        add_devices(&Field::root(claim).child("spec"), usage);
    }
}

/// Returns true if a Pod has ended, or its grace period has: a Pod on a lost node must not count forever.
fn is_over(pod: &Value, now: SystemTime) -> bool {
    let root = Field::root(pod);
    if matches!(root.child("status").child("phase").text(), "Succeeded" | "Failed") {
        return true;
    }
    let metadata = root.child("metadata");
    let grace = metadata.child("deletionGracePeriodSeconds").number();
    let deleted = Timestamp::parse(metadata.child("deletionTimestamp").text(), Precision::Seconds);
    match (grace.and_then(|grace| u64::try_from(grace).ok()), deleted) {
        (Some(grace), Ok(deleted)) => SystemTime::from(deleted)
            .checked_add(Duration::from_secs(grace))
            .is_some_and(|end| now > end),
        _ => false,
    }
}

/// Returns requests and limits under the names of quotas.
fn named_as_in_quotas(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
    for (name, amount) in requests {
        let huge = name.starts_with("hugepages-");
        if huge || matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(name.clone(), *amount);
            usage.insert(format!("requests.{name}"), *amount);
        } else if is_extended(name) {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// Returns a description of the resources that the quota counts and containers do not set, with the containers.
fn missing(counted: &[&str], pod: &Value) -> Option<String> {
    let root = Field::root(pod);
    let spec = root.child("spec");
    let stated = |resources: &Field<'_, '_>| {
        let (requests, limits) = (resources.child("requests"), resources.child("limits"));
        named_as_in_quotas(&amounts(&requests), &amounts(&limits))
    };
    let by_pod = stated(&spec.child("resources"));
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            let stated = stated(&container.child("resources"));
            for name in counted.iter().filter(|name| DEMANDED.contains(name)) {
                if !stated.contains_key(*name) && !by_pod.contains_key(*name) {
                    missing
                        .entry(name)
                        .or_default()
                        .push(container.child("name").text().to_owned());
                }
            }
        }
    }
    let texts: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort();
            containers.dedup();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Adds the node ports and the load balancers of a Service.
fn add_ports(spec: &Field<'_, '_>, usage: &mut Amounts) {
    let ports = spec.child("ports");
    let allocates = spec.child("allocateLoadBalancerNodePorts");
    let (nodes, balancers) = match spec.child("type").text() {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates.is_set() && !allocates.is_true() => {
            let is_chosen = |port: &Field<'_, '_>| port.child("nodePort").number().unwrap_or_default() != 0;
            (ports.items().filter(is_chosen).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let nodes = Quantity::from_units(i64::try_from(nodes).unwrap_or(i64::MAX));
    for (name, amount) in OF_SERVICES.into_iter().zip([nodes, Quantity::from_units(balancers)]) {
        usage.insert(name.to_owned(), amount);
    }
}

/// Adds the requested or allocated storage of a claim, whichever is larger, in total and for its class.
fn add_storage(claim: &Field<'_, '_>, usage: &mut Amounts) {
    let (metadata, spec, status) = (claim.child("metadata"), claim.child("spec"), claim.child("status"));
    let old_style = metadata.child("annotations").child(CLASS_ANNOTATION).text();
    let class = match old_style {
        "" => spec.child("storageClassName").text(),
        named => named,
    };
    let requested = quantity(&spec.child("resources").child("requests").child("storage"));
    let has = quantity(&status.child("allocatedResources").child("storage"));
    if let Some(size) = requested.max(has) {
        usage.insert(CLAIMED_STORAGE.to_owned(), size);
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_STORAGE_CLASS}{CLAIMED_STORAGE}"), size);
        }
    }
    if !class.is_empty() {
        let one = Quantity::from_units(1);
        usage.insert(format!("{class}{OF_STORAGE_CLASS}persistentvolumeclaims"), one);
    }
}

/// Adds the maximum number of devices of each class that a claim may get.
fn add_devices(spec: &Field<'_, '_>, usage: &mut Amounts) {
    let count = |request: &Field<'_, '_>| match request.child("allocationMode").text() {
        "All" => ALL_DEVICES,
        _ => request.child("count").number().unwrap_or(1).max(1),
    };
    let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
    for request in spec.child("devices").child("requests").items() {
        let (exactly, alternatives) = (request.child("exactly"), request.child("firstAvailable"));
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for wanted in alternatives.items().chain(exactly.is_set().then_some(exactly)) {
            let of_class = most.entry(wanted.child("deviceClassName").text()).or_default();
            *of_class = count(&wanted).max(*of_class);
        }
        for (class, number) in most {
            let sum = devices.entry(class).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    for (class, number) in devices {
        usage.insert(format!("{class}{OF_DEVICE_CLASS}"), Quantity::from_units(number));
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

/// Returns true if a Pod has affinity or anti-affinity to Pods of other namespaces.
fn crosses_namespaces(spec: &Field<'_, '_>) -> bool {
    let crosses =
        |term: &Field<'_, '_>| !term.child("namespaces").is_empty() || term.child("namespaceSelector").is_set();
    let affinity = spec.child("affinity");
    ["podAffinity", "podAntiAffinity"].iter().any(|name| {
        let terms = affinity.child(name);
        let required = terms.child("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = terms.child("preferredDuringSchedulingIgnoredDuringExecution");
        required.items().any(|term| crosses(&term))
            || preferred.items().any(|term| crosses(&term.child("podAffinityTerm")))
    })
}
