//! How quotas count: what objects take, under which names, and within which scopes
//! (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>). The admission plugin charges by it, the controller of
//! quotas counts by it.

mod measure;
mod scopes;

use std::collections::BTreeMap;
use std::time::SystemTime;

use holdfast_resource::schema::quantity::Quantity;
use holdfast_resource::{Field, Resource};
use holdfast_value::Value;

use crate::pod_resources::amounts;
pub(crate) use measure::named_as_in_quotas;

/// Amounts by the name of what they are amounts of.
pub type Amounts = BTreeMap<String, Quantity>;

/// How objects of a kind are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// By what their containers ask for.
    Pod,
    /// By the ports of nodes and the load balancers that they take.
    Service,
    /// By the storage that they ask for.
    Claim,
    /// By the devices that they ask for.
    DeviceClaim,
    /// By their number alone.
    Number,
}

/// The kinds that are measured by more than their number.
const MEASURED: [(&str, &str, Measure); 4] = [
    ("", "pods", Measure::Pod),
    ("", "services", Measure::Service),
    ("", "persistentvolumeclaims", Measure::Claim),
    ("resource.k8s.io", "resourceclaims", Measure::DeviceClaim),
];

/// Core resources that are counted by their plain name too.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Objects of a resource, as quotas count them.
#[derive(Clone, Copy)]
pub struct Counted<'r> {
    measure: Measure,
    resource: &'r Resource,
}

impl<'r> Counted<'r> {
    /// The objects of `resource`; `None` where quotas do not count them.
    pub fn of(resource: &'r Resource) -> Option<Self> {
        if !resource.namespaced() || resource.storage.is_none() || resource.plural == "events" {
            return None;
        }
        let measured = MEASURED
            .iter()
            .find(|(group, plural, _)| resource.plural == *plural && resource.group == *group);
        Some(Self {
            measure: measured.map_or(Measure::Number, |(_, _, measure)| *measure),
            resource,
        })
    }

    /// How the objects are measured.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// Whether the number of these objects goes by `name`.
    pub fn is_number(&self, name: &str) -> bool {
        let (group, plural) = (self.resource.group.as_str(), self.resource.plural.as_str());
        match name.strip_prefix("count/") {
            Some(counted) if group.is_empty() => counted == plural,
            Some(counted) => counted
                .strip_prefix(plural)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| rest == group),
            None => group.is_empty() && name == plural && PLAIN.contains(&name),
        }
    }

    /// Whether `name` counts all objects, whatever has become of them. `pods` counts those that are not over.
    pub fn is_number_of_all(&self, name: &str) -> bool {
        self.is_number(name) && (self.measure != Measure::Pod || name.starts_with("count/"))
    }

    /// The names by which the number of objects is counted.
    fn numbers(&self) -> impl Iterator<Item = String> {
        let (group, plural) = (&self.resource.group, &self.resource.plural);
        let qualified = match group.as_str() {
            "" => format!("count/{plural}"),
            group => format!("count/{plural}.{group}"),
        };
        let plain = (group.is_empty() && PLAIN.contains(&plural.as_str())).then(|| plural.to_string());
        [Some(qualified), plain].into_iter().flatten()
    }

    /// Whether these objects may take something of that name.
    pub fn takes(&self, name: &str) -> bool {
        self.is_number(name) || measure::takes(self.measure, name)
    }

    /// What an object takes at the time `now`. Pods that came to their end are counted as objects alone.
    pub fn usage(&self, object: &Value, now: SystemTime) -> Amounts {
        let one = Quantity::of_units(1);
        let mut usage: Amounts = self.numbers().map(|name| (name, one)).collect();
        if self.measure == Measure::Pod && measure::is_over(object, now) {
            usage.retain(|name, _| name.starts_with("count/"));
        } else {
            measure::add(self.measure, object, &mut usage);
        }
        usage
    }

    /// Whether an object is within all scopes of a quota.
    pub fn is_within_scopes_of(&self, quota: &Value, object: &Value) -> bool {
        scopes::all_hold(self.measure, quota, object)
    }
}

/// The limits that the specification of a quota sets.
pub fn limits(quota: &Value) -> Amounts {
    amounts(&Field::root(quota).child("spec").child("hard"))
}

/// The limits that are in force, and what is used of them as far as it was counted.
pub fn status(quota: &Value) -> (Amounts, Amounts) {
    let root = Field::root(quota);
    let status = root.child("status");
    (amounts(&status.child("hard")), amounts(&status.child("used")))
}

/// Whether a quota counts within scopes alone.
pub fn has_scopes(quota: &Value) -> bool {
    let root = Field::root(quota);
    let spec = root.child("spec");
    !spec.child("scopes").is_empty() || !spec.child("scopeSelector").child("matchExpressions").is_empty()
}

/// Adds `more` to `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    crate::pod_resources::add(to, more);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use holdfast_resource::GroupResource;

    use super::*;
    use crate::harness::Harness;

    /// What an object takes, as text.
    fn usage(group: &str, plural: &str, text: &str) -> String {
        let registry = crate::registry(&crate::Config::default()).unwrap();
        let name = GroupResource {
            group: group.into(),
            resource: plural.into(),
        };
        let resource = registry.resource(&name).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let usage = Counted::of(resource).unwrap().usage(&Harness::new().read(text), now);
        let told: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        told.join(" ")
    }

    #[test]
    fn objects_go_by_the_names_of_their_resource() {
        let deployment =
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {}, template: {}}}";
        assert_eq!(usage("apps", "deployments", deployment), "count/deployments.apps=1");
        let registry = crate::registry(&crate::Config::default()).unwrap();
        let of = |group: &str, plural: &str| {
            let name = GroupResource {
                group: group.into(),
                resource: plural.into(),
            };
            std::sync::Arc::clone(registry.resource(&name).unwrap())
        };
        let deployments = of("apps", "deployments");
        let counted = Counted::of(&deployments).unwrap();
        assert!(counted.is_number("count/deployments.apps"));
        for other in [
            "deployments",
            "count/deployments",
            "count/deployments.apps.x",
            "count/deploymentsapps",
        ] {
            assert!(!counted.is_number(other), "{other}");
        }
        assert!(Counted::of(&of("", "events")).is_none());
        assert!(Counted::of(&of("", "nodes")).is_none());
    }

    #[test]
    fn a_pod_takes_what_runs_at_once_and_what_it_states_as_a_whole() {
        let pod = |part: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i, resources: \
                 {{requests: {{cpu: 100m, example.com/gpu: 2, hugepages-2Mi: 4Mi}}, limits: {{memory: 1Gi}}}}}}], \
                 overhead: {{cpu: 50m}}{part}}}}}"
            )
        };
        assert_eq!(
            usage("", "pods", &pod("")),
            "count/pods=1 cpu=150m hugepages-2Mi=4Mi limits.memory=1Gi memory=1Gi pods=1 requests.cpu=150m \
             requests.example.com/gpu=2 requests.hugepages-2Mi=4Mi requests.memory=1Gi"
        );
        let whole = pod(", resources: {requests: {cpu: 1}}");
        assert!(usage("", "pods", &whole).contains("requests.cpu=1050m"));
    }

    #[test]
    fn a_pod_that_is_over_is_an_object_and_nothing_more() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, resources: \
                   {requests: {cpu: 1}}}]}, status: {phase: Succeeded}}";
        assert_eq!(usage("", "pods", pod), "count/pods=1");
        let stuck = pod.replace("Succeeded", "Running").replace(
            "name: p}",
            "name: p, deletionTimestamp: '2020-01-01T00:00:00Z', deletionGracePeriodSeconds: 30}",
        );
        assert_eq!(usage("", "pods", &stuck), "count/pods=1");
        let going = stuck.replace("2020", "2026");
        assert!(usage("", "pods", &going).contains(" pods=1"));
    }

    #[test]
    fn services_and_claims_take_more_than_their_number() {
        let balancer = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, \
                        allocateLoadBalancerNodePorts: false, ports: [{port: 1, nodePort: 30001}, {name: b, port: 2}]}}";
        assert_eq!(
            usage("", "services", balancer),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"
        );
        let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v}, spec: {storageClassName: fast, \
                     resources: {requests: {storage: 3Gi}}}, status: {allocatedResources: {storage: 5Gi}}}";
        assert_eq!(
            usage("", "persistentvolumeclaims", claim),
            "count/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/requests.storage=5Gi persistentvolumeclaims=1 requests.storage=5Gi"
        );
        let devices = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: r}, spec: {devices: {requests: \
                       [{name: a, exactly: {deviceClassName: gpu, count: 2}}, {name: b, exactly: {deviceClassName: gpu, \
                       allocationMode: All}}, {name: c, firstAvailable: [{name: s, deviceClassName: net, count: 1}, {name: \
                       t, deviceClassName: net, count: 3}]}]}}}";
        assert_eq!(
            usage("resource.k8s.io", "resourceclaims", devices),
            "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=34 \
             net.deviceclass.resource.k8s.io/devices=3"
        );
    }
}
