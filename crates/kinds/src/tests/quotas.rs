//! Usage of quotas.

use std::time::{Duration, SystemTime};

use holdfast_schema::GroupResource;

use holdfast_resource::Counted;

use crate::config::Config;
use crate::harness::Harness;
use crate::registry::registry;

/// Returns the usage of an object as text.
fn usage(group: &str, plural: &str, text: &str) -> String {
    let registry = registry(&Config::default()).unwrap();
    let name = GroupResource {
        group: group.into(),
        resource: plural.into(),
    };
    let resource = registry.resource(&name).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let usage = Counted::for_resource(resource)
        .unwrap()
        .usage(&Harness::new().read(text), now);
    let usage_text: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    usage_text.join(" ")
}

#[test]
fn objects_go_by_the_names_of_their_resource() {
    let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {}, template: {}}}";
    assert_eq!(usage("apps", "deployments", deployment), "count/deployments.apps=1");
    let registry = registry(&Config::default()).unwrap();
    let resource = |group: &str, plural: &str| {
        let name = GroupResource {
            group: group.into(),
            resource: plural.into(),
        };
        std::sync::Arc::clone(registry.resource(&name).unwrap())
    };
    let deployments = resource("apps", "deployments");
    let counted = Counted::for_resource(&deployments).unwrap();
    assert!(counted.is_number("count/deployments.apps"));
    for other in [
        "deployments",
        "count/deployments",
        "count/deployments.apps.x",
        "count/deploymentsapps",
    ] {
        assert!(!counted.is_number(other), "{other}");
    }
    assert!(Counted::for_resource(&resource("", "events")).is_none());
    assert!(Counted::for_resource(&resource("", "nodes")).is_none());
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
