//! What objects take beyond their number.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Field;
use holdfast_resource::schema::quantity::Quantity;
use holdfast_value::Value;

use super::{Amounts, Measure};
use crate::pod_resources::of_pod;
use crate::validation::resources::{is_extended, quantity};

/// What is counted of Pods, besides extended resources and huge pages.
const OF_PODS: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// What is counted of Services.
const OF_SERVICES: [&str; 2] = ["services.nodeports", "services.loadbalancers"];
/// What stands between a storage class and what is counted of it.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// What stands behind a device class whose devices are counted.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// How many devices a request for all of them is taken for: as many as can be allocated at once.
const ALL_DEVICES: i64 = 32;
/// The annotation that named the class of a claim before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether objects that are measured so may take something of that name.
pub(super) fn takes(measure: Measure, name: &str) -> bool {
    match measure {
        Measure::Pod => {
            let requests = name.strip_prefix("requests.");
            let huge = requests.unwrap_or(name).starts_with("hugepages-");
            huge || OF_PODS.contains(&name) || requests.is_some_and(is_extended)
        }
        Measure::Service => OF_SERVICES.contains(&name),
        Measure::Claim => name == "requests.storage" || name.contains(OF_STORAGE_CLASS),
        Measure::DeviceClaim => name.ends_with(OF_DEVICE_CLASS),
        Measure::Number => false,
    }
}

/// Adds what an object takes that is measured so.
pub(super) fn add(measure: Measure, object: &Value, usage: &mut Amounts) {
    let root = Field::root(object);
    let spec = root.child("spec");
    match measure {
        Measure::Number => {}
        Measure::Pod => usage.extend(named_as_in_quotas(&of_pod(&spec, "requests"), &of_pod(&spec, "limits"))),
        Measure::Service => add_ports(&spec, usage),
        Measure::Claim => add_storage(&root, usage),
        Measure::DeviceClaim => add_devices(&spec, usage),
    }
}

/// Whether a Pod came to its end, or should have: one whose node is lost must not keep others from its place.
pub(super) fn is_over(pod: &Value, now: SystemTime) -> bool {
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

/// Requests and limits under the names of quotas.
pub(crate) fn named_as_in_quotas(requests: &Amounts, limits: &Amounts) -> Amounts {
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

/// The ports of nodes and the load balancers that a Service takes.
fn add_ports(spec: &Field<'_, '_>, usage: &mut Amounts) {
    let ports = spec.child("ports");
    let allocates = spec.child("allocateLoadBalancerNodePorts");
    let (nodes, balancers) = match spec.child("type").text() {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates.is_set() && !allocates.is_true() => {
            let given = |port: &Field<'_, '_>| port.child("nodePort").number().unwrap_or_default() != 0;
            (ports.items().filter(given).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let nodes = Quantity::of_units(i64::try_from(nodes).unwrap_or(i64::MAX));
    for (name, amount) in OF_SERVICES.into_iter().zip([nodes, Quantity::of_units(balancers)]) {
        usage.insert(name.to_owned(), amount);
    }
}

/// The storage that a claim asks for or has, whichever is more, in all and of its class.
fn add_storage(claim: &Field<'_, '_>, usage: &mut Amounts) {
    let (metadata, spec, status) = (claim.child("metadata"), claim.child("spec"), claim.child("status"));
    let old_style = metadata.child("annotations").child(CLASS_ANNOTATION).text();
    let class = match old_style {
        "" => spec.child("storageClassName").text(),
        named => named,
    };
    let asked = quantity(&spec.child("resources").child("requests").child("storage"));
    let has = quantity(&status.child("allocatedResources").child("storage"));
    if let Some(size) = asked.max(has) {
        usage.insert("requests.storage".to_owned(), size);
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_STORAGE_CLASS}requests.storage"), size);
        }
    }
    if !class.is_empty() {
        let one = Quantity::of_units(1);
        usage.insert(format!("{class}{OF_STORAGE_CLASS}persistentvolumeclaims"), one);
    }
}

/// The devices of each class that a claim may come to have.
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
        usage.insert(format!("{class}{OF_DEVICE_CLASS}"), Quantity::of_units(number));
    }
}
