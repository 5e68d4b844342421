//! Benchmark of the Node authorizer in a cluster of 5,000 nodes and 150,000 Pods: the time of a decision, the time to
//! follow a Pod, and the memory of the graph.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use holdfast_authorization::node::{GraphResource, NodeAuthorizer, NodeFeatures, NodeGraph};
use holdfast_authorization::{AccessTarget, Attributes, Authorizer, ResourceTarget, Rule, User};
use holdfast_value::{Limits, Value, yaml};

const NODES: usize = 5_000;
const PODS_OF_NODE: usize = 30;
const DECISIONS: u32 = 1_000_000;

/// Returns the resident memory of this process, in bytes.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Returns a Pod with a service account, a Secret of its own, a ConfigMap that all share, and a claim.
fn pod(node: usize, at: usize) -> Value {
    let text = format!(
        "{{spec: {{nodeName: node-{node}, serviceAccountName: default, containers: [{{name: c, envFrom: [{{configMapRef: {{name: \
         shared}}}}]}}], volumes: [{{name: a, secret: {{secretName: secret-{node}-{at}}}}}, {{name: b, persistentVolumeClaim: \
         {{claimName: claim-{node}-{at}}}}}]}}}}"
    );
    yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
}

fn volume(node: usize, at: usize) -> Value {
    let text = format!(
        "{{spec: {{claimRef: {{namespace: default, name: claim-{node}-{at}}}, csi: {{nodeStageSecretRef: {{namespace: storage, name: \
         shared}}}}}}}}"
    );
    yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
}

fn graph() -> NodeGraph {
    let graph = NodeGraph::default();
    let before = memory();
    let (mut spent, mut followed) = (0, 0);
    for node in 0..NODES {
        for at in 0..PODS_OF_NODE {
            let (pod, volume) = (pod(node, at), volume(node, at));
            let name = format!("deployment-7c5ddbdf54-{node}-{at}");
            let start = Instant::now();
            graph.set_object(GraphResource::Pods, "default", &name, Some(&pod));
            graph.set_object(
                GraphResource::PersistentVolumes,
                "",
                &format!("pv-{node}-{at}"),
                Some(&volume),
            );
            spent += start.elapsed().as_nanos();
            followed += 2;
        }
    }
    println!(
        "follow an object: {} ns; {} vertices in {} MiB",
        spent / followed,
        graph.len(),
        (memory() - before) >> 20
    );
    graph
}

fn main() {
    let rule = |resource: &str| Rule {
        verbs: vec!["get".into()],
        api_groups: vec!["".into()],
        resources: vec![resource.into()],
        ..Rule::default()
    };
    // As many rules as the reference has, the last of which fits.
    let rules = (0..27)
        .map(|at| rule(&format!("r{at}")))
        .chain([rule("services")])
        .collect();
    let features = NodeFeatures {
        pod_certificates: false,
        service_accounts: true,
    };
    let authorizer = NodeAuthorizer::new(Arc::new(graph()), rules, features);
    let user = User {
        name: "system:node:node-4321".into(),
        groups: vec!["system:nodes".into(), "system:authenticated".into()],
        ..User::default()
    };
    for (resource, namespace, name, allowed) in [
        ("secrets", "default", "secret-4321-7", true),
        ("secrets", "default", "secret-4320-7", false),
        ("secrets", "storage", "shared", true),
        ("configmaps", "default", "shared", true),
        ("persistentvolumes", "", "pv-4321-7", true),
        ("pods", "default", "deployment-7c5ddbdf54-4321-7", true),
        ("services", "default", "web", true),
    ] {
        let target = ResourceTarget {
            version: "v1",
            resource,
            namespace,
            name,
            ..ResourceTarget::default()
        };
        let attributes = Attributes {
            verb: "get",
            target: AccessTarget::Resource(target),
        };
        assert_eq!(
            authorizer.authorize(&user, &attributes).allows(),
            allowed,
            "{resource} {name}"
        );
        let start = Instant::now();
        for _ in 0..DECISIONS {
            black_box(authorizer.authorize(black_box(&user), black_box(&attributes)));
        }
        let each = start.elapsed() / DECISIONS;
        println!("{resource} {namespace}/{name} (allowed: {allowed}): {each:?}");
    }
}
