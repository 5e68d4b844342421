//! Effect of feature gates on the kinds.

use crate::harness::{Harness, at};

#[test]
fn objects_keep_the_fields_of_features_that_they_use() {
    let lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: b}, spec: {strategy: \
                 OldestEmulationVersion, preferredHolder: h}}";
    let harness = Harness::new();
    let mut old = harness.read(lease);
    old.remove_at(&["spec", "preferredHolder"]);
    let kept = harness.update(&old, lease);
    assert_eq!(at(&kept, "spec"), r#"{"strategy":"OldestEmulationVersion"}"#);
    let pod = |containers: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: [{containers}]}}}}")
    };
    let stops = |name: &str| format!("{{name: {name}, image: i, lifecycle: {{stopSignal: SIGTERM}}}}");
    let (one, two) = (pod(&stops("a")), pod(&format!("{}, {}", stops("a"), stops("b"))));
    let kept = harness.update(&harness.read(&one), &two);
    assert_eq!(at(&kept, "spec.containers.1.lifecycle.stopSignal"), "\"SIGTERM\"");
    assert_eq!(at(&harness.create(&two), "spec.containers.1.lifecycle"), "nothing");
}

#[test]
fn kinds_keep_the_fields_of_features_that_are_on() {
    for (gates, object, path, kept) in [
        (
            "MaxUnavailableStatefulSet=true",
            "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: s, selector: \
             {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, \
             updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}}",
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            "1",
        ),
        (
            "CoordinatedLeaderElection=true",
            "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: b}, spec: {strategy: \
             OldestEmulationVersion}}",
            "spec.strategy",
            "\"OldestEmulationVersion\"",
        ),
        (
            "VolumeLimitScaling=true",
            "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {}}",
            "spec.preventPodSchedulingIfMissing",
            "false",
        ),
        (
            "GenericWorkload=true",
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {schedulingGroup: {podGroupName: g}, containers: \
             [{name: c, image: i}]}}",
            "spec.schedulingGroup.podGroupName",
            "\"g\"",
        ),
    ] {
        assert_eq!(at(&Harness::with_gates(gates).create(object), path), kept, "{gates}");
        assert_eq!(at(&Harness::new().create(object), path), "nothing", "{gates}");
    }
    let scaler = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {minReplicas: 0, \
                  maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, metrics: [{type: External, \
                  external: {metric: {name: m}, target: {type: Value, value: 1}}}]}}";
    let refused = ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"];
    assert_eq!(Harness::new().errors(scaler), refused);
    assert_eq!(
        Harness::with_gates("HPAScaleToZero=true").errors(scaler),
        Vec::<String>::new()
    );
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostnameOverride: h, resources: {limits: {cpu: 1}}, \
     initContainers: [{name: i, image: i, restartPolicy: Always}], containers: [{name: c, image: i, restartPolicy: Never, \
     restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}], env: [{name: E, valueFrom: \
     {fileKeyRef: {volumeName: v, path: p, key: k}}}]}], volumes: [{name: v, emptyDir: {}}]}}";

/// Returns the gated fields that a Pod keeps.
fn fields_of_pod(gates: &str, old: Option<&str>) -> Vec<String> {
    let harness = Harness::with_gates(gates);
    let pod = match old {
        None => harness.create(POD),
        Some(old) => harness.shaped(None, &Harness::new().create(old), harness.read(POD)),
    };
    let paths = [
        "spec.hostnameOverride",
        "spec.resources.limits.cpu",
        "spec.initContainers.0.restartPolicy",
        "spec.containers.0.restartPolicy",
        "spec.containers.0.env.0.valueFrom.fileKeyRef.key",
    ];
    paths.iter().map(|path| at(&pod, path)).collect()
}

#[test]
fn fields_are_dropped_while_their_features_are_off() {
    let all = fields_of_pod("WatchList=true", None);
    let off = "HostnameOverride=false,PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false,\
               ContainerRestartRules=false,RestartAllContainersOnContainerExits=false,EnvFiles=false";
    let none = fields_of_pod(off, None);
    let kept: Vec<bool> = all.iter().zip(&none).map(|(with, without)| with == without).collect();
    // The restart policy of a sidecar does not depend on these features.
    assert_eq!(kept, [false, false, true, false, false]);
    assert_eq!(fields_of_pod(off, Some(POD)), all);
}

#[test]
fn legacy_addresses_are_accepted_only_without_strict_gate() {
    const OBJECTS: [&str; 7] = [
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}], hostAliases: [{ip: \
         010.1.2.3}], dnsConfig: {nameservers: ['::ffff:1.2.3.4']}}}",
        "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}], externalIPs: [010.1.2.3]}}",
        "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 80}], \
         loadBalancerSourceRanges: [10.0.0.1/8]}}",
        "{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {podCIDR: 10.0.0.1/8, podCIDRs: [10.0.0.1/8]}}",
        "{apiVersion: v1, kind: Endpoints, metadata: {name: e}, subsets: [{addresses: [{ip: 010.1.2.3}], ports: [{port: \
         80}]}]}",
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv4, endpoints: \
         [{addresses: [010.1.2.3]}]}",
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: net}, spec: {podSelector: {}, ingress: \
         [{from: [{ipBlock: {cidr: 10.0.0.1/8, except: [010.1.0.0/16]}}]}]}}",
    ];
    let (strict, lenient) = (
        Harness::with_gates("StrictIPCIDRValidation=true"),
        Harness::with_gates("StrictIPCIDRValidation=false"),
    );
    for object in OBJECTS {
        assert_ne!(strict.errors(object), [""; 0], "{object}");
        assert_eq!(lenient.errors(object), [""; 0], "{object}");
        // An update may keep stored values.
        let update_of_all = !object.contains("kind: Pod") && !object.contains("kind: Node");
        if update_of_all {
            assert_eq!(strict.update_errors(object, object), [""; 0], "{object}");
        }
    }
    let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv6, endpoints: \
         [{addresses: ['2001:DB8::1']}]}";
    assert_ne!(lenient.errors(slice), [""; 0]);
}

#[test]
fn writes_of_service_blocks_keep_or_change_their_status() {
    let block = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.1.0.0/16]}, \
                 status: {conditions: [{type: Ready, status: 'True', reason: R, message: m, lastTransitionTime: \
                 '2024-01-01T00:00:00Z'}]}}";
    let reason = |gates| at(&Harness::with_gates(gates).create(block), "status.conditions.0.reason");
    assert_eq!(reason("ServiceCIDRStatusFieldWiping=true"), "nothing");
    assert_eq!(reason("ServiceCIDRStatusFieldWiping=false"), "\"R\"");
}

#[test]
fn fields_of_templates_go_as_those_of_pods() {
    let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, \
         template: {metadata: {labels: {a: b}}, spec: {hostnameOverride: h, containers: [{name: c, image: i}]}}}}";
    let with = |gates| {
        at(
            &Harness::with_gates(gates).create(deployment),
            "spec.template.spec.hostnameOverride",
        )
    };
    assert_ne!(with("HostnameOverride=true"), with("HostnameOverride=false"));
}

#[test]
fn values_are_refused_or_taken_as_their_features_say() {
    let pod = |spec: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i}}], {spec}}}}}"
        )
    };
    let compares = pod("tolerations: [{key: a, operator: Gt, value: '5'}]");
    let wrong = pod("tolerations: [{key: a, operator: Gt, value: '05'}]");
    let labels = pod("securityContext: {seLinuxChangePolicy: MountOption}");
    let network = pod("hostUsers: false, hostNetwork: true");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: 1a}, spec: {ports: [{port: 80}]}}";
    let cost = "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {controller.kubernetes.io/pod-deletion-cost: x}}, \
         spec: {containers: [{name: c, image: i}]}}";
    for (object, allowing, refusing) in [
        (
            compares.as_str(),
            "TaintTolerationComparisonOperators=true",
            "TaintTolerationComparisonOperators=false",
        ),
        (&labels, "SELinuxMount=true", "SELinuxMount=false"),
        (
            &network,
            "UserNamespacesHostNetworkSupport=true",
            "UserNamespacesHostNetworkSupport=false",
        ),
        (
            service,
            "RelaxedServiceNameValidation=true",
            "RelaxedServiceNameValidation=false",
        ),
        (cost, "PodDeletionCost=false", "PodDeletionCost=true"),
    ] {
        assert_eq!(
            Harness::with_gates(allowing).errors(object),
            Vec::<String>::new(),
            "{allowing}"
        );
        assert_eq!(Harness::with_gates(refusing).errors(object).len(), 1, "{refusing}");
    }
    assert_eq!(
        Harness::with_gates("TaintTolerationComparisonOperators=true").errors(&wrong),
        ["spec.tolerations[0].value: Invalid value: \"05\": must be a valid decimal integer in canonical form"]
    );
}
