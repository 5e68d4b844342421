//! Sends one kind of request repeatedly, in process: decoded request in, response out. `cargo xtask bench --instructions`
//! runs this under callgrind with two counts for each row, so that the start does not count.
//!
//! `instructions ROW COUNT` sends that many requests. Without arguments it lists the rows, each with two counts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what fails here is the measurement"
)]

#[path = "../tests/server/support/mod.rs"]
mod support;

use std::sync::LazyLock;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{APPLY, MERGE, Server};

/// Rows, each with the lower and the higher count of requests. The counts are far enough apart that the differences between
/// starts (half a million instructions, and up to two percent of filling the store) are less than one percent of the
/// requests' instructions.
const ROWS: [(&str, usize, usize); 17] = [
    ("create", 20, 170),
    ("create by apply", 20, 170),
    ("apply that changes nothing", 20, 1520),
    ("apply that changes a field", 20, 170),
    ("merge patch", 20, 270),
    ("strategic merge patch", 20, 220),
    ("get", 50, 4050),
    ("list of 500", 2, 302),
    ("list of 2,000", 1, 301),
    ("table of 500", 1, 11),
    ("watch event to 100 watchers", 5, 65),
    ("create under a policy and beside a webhook", 20, 120),
    ("create of a custom resource with 50 rules", 20, 120),
    ("create from protobuf", 20, 120),
    ("get as protobuf", 20, 520),
    ("delete", 20, 320),
    ("refused create", 20, 220),
];

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| text != "--bench").collect();
    let [row, count] = arguments.as_slice() else {
        for (row, low, high) in ROWS {
            println!("{row}\t{low}\t{high}");
        }
        return;
    };
    let count = count.parse().expect("the count is a number");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run(row, count));
}

async fn run(row: &str, count: usize) {
    let server = Server::start().await;
    match row {
        "create" => create(&server, count).await,
        "create by apply" => {
            for at in 0..count {
                apply(&server, at, 1).await;
            }
        }
        "apply that changes nothing" => {
            for _ in 0..=count {
                apply(&server, 0, 1).await;
            }
        }
        "apply that changes a field" => {
            for at in 0..=count {
                apply(&server, 0, at % 2 + 1).await;
            }
        }
        "merge patch" => {
            create(&server, 1).await;
            let patch = |at: usize| json!({"metadata": {"annotations": {"at": format!("{:05}", at)}}});
            for at in 0..count {
                ask(&server, "PATCH", &path(0), MERGE, &patch(at).to_string(), JSON, 200).await;
            }
        }
        "strategic merge patch" => {
            create(&server, 1).await;
            for at in 0..count {
                let containers = json!([{"name": "sidecar", "image": format!("registry.example.com/sidecar:{at:05}")}]);
                let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
                ask(&server, "PATCH", &path(0), STRATEGIC, &patch.to_string(), JSON, 200).await;
            }
        }
        "get" => {
            create(&server, 1).await;
            read(&server, &path(0), JSON, count).await;
        }
        "get as protobuf" => {
            create(&server, 1).await;
            read(&server, &path(0), PROTOBUF, count).await;
        }
        "list of 500" => {
            create(&server, 500).await;
            read(&server, DEPLOYMENTS, JSON, count).await;
        }
        "list of 2,000" => {
            create(&server, 2000).await;
            read(&server, DEPLOYMENTS, JSON, count).await;
        }
        "table of 500" => {
            create(&server, 500).await;
            read(&server, DEPLOYMENTS, TABLE, count).await;
        }
        "watch event to 100 watchers" => watched(&server, count).await,
        "create under a policy and beside a webhook" => {
            admission(&server).await;
            create(&server, count).await;
        }
        "create of a custom resource with 50 rules" => custom(&server, count).await,
        "create from protobuf" => from_protobuf(&server, count).await,
        "delete" => {
            create(&server, 320).await;
            for at in 0..count {
                ask(&server, "DELETE", &path(at), JSON, "", JSON, 200).await;
            }
        }
        "refused create" => {
            let mut wrong = deployment(0, 1);
            wrong["spec"]["selector"] = json!({"matchLabels": {"other": "label"}});
            let wrong = wrong.to_string();
            for _ in 0..count {
                ask(&server, "POST", DEPLOYMENTS, JSON, &wrong, JSON, 422).await;
            }
        }
        unknown => panic!("no such row: {unknown}"),
    }
}

/// Sends a request and reads the whole response, which must have that code.
async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    media_type: &str,
    body: &str,
    accept: &str,
    code: u16,
) -> Vec<u8> {
    let response = server.respond(method, path, media_type, body, accept).await;
    let found = response.status().as_u16();
    let collected = response.into_body().collect().await.expect("a body never fails");
    let answer = collected.to_bytes();
    assert_eq!(found, code, "{method} {path}: {}", String::from_utf8_lossy(&answer));
    answer.to_vec()
}

fn name(at: usize) -> String {
    format!("bench-{at:05}")
}

fn path(at: usize) -> String {
    format!("{DEPLOYMENTS}/{}", name(at))
}

async fn create(server: &Server, count: usize) {
    for at in 0..count {
        ask(server, "POST", DEPLOYMENTS, JSON, &text(at, 1), JSON, 201).await;
    }
}

async fn apply(server: &Server, at: usize, replicas: usize) {
    let path = format!("{}?fieldManager=bench", path(at));
    let response = server.respond("PATCH", &path, APPLY, &text(at, replicas), JSON).await;
    assert!(response.status().is_success());
    response.into_body().collect().await.expect("a body never fails");
}

/// Reads with a paused clock: a list yields by elapsed time, which differs from run to run.
async fn read(server: &Server, path: &str, accept: &str, count: usize) {
    tokio::time::pause();
    for _ in 0..count {
        ask(server, "GET", path, "", "", accept, 200).await;
    }
    tokio::time::resume();
}

async fn watched(server: &Server, count: usize) {
    create(server, 1).await;
    let mut watches = Vec::new();
    for _ in 0..100 {
        let mut watch = server.watch(&format!("{DEPLOYMENTS}?watch=true")).await;
        watch.next().await;
        watches.push(watch);
    }
    for at in 0..count {
        let patch = json!({"metadata": {"annotations": {"at": format!("{at:05}")}}});
        ask(server, "PATCH", &path(0), MERGE, &patch.to_string(), JSON, 200).await;
        for watch in &mut watches {
            watch.next_line().await.expect("a watch goes on");
        }
    }
}

async fn admission(server: &Server) {
    let kind = |kind: &str| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "bench"}});
    let rule = json!({"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
    let mut policy = kind("ValidatingAdmissionPolicy");
    policy["spec"] = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [
        {"expression": "object.metadata.name != 'refused'"},
        {"expression": "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"},
        {"expression": "object.spec.replicas <= 10"},
    ]});
    let mut binding = kind("ValidatingAdmissionPolicyBinding");
    binding["spec"] = json!({"policyName": "bench", "validationActions": ["Deny"]});
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        let path = format!("{ADMISSION}/{plural}");
        ask(server, "POST", &path, JSON, &object.to_string(), JSON, 201).await;
    }
    let webhook = json!({
        "name": "bench.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {"no": "such"}}, "clientConfig": {"url": "https://localhost:1/"},
    });
    server.configure("validating", "bench", &[webhook]).await;
    while server
        .service
        .context
        .shared
        .policies
        .validating
        .now()
        .hooks()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
}

async fn custom(server: &Server, count: usize) {
    let properties = (0..50).map(|at| {
        let rule = json!([{"rule": format!("self >= 0 && self < {}", at + 100)}]);
        let property = json!({"type": "integer", "x-kubernetes-validations": rule});
        (format!("p{at:02}"), property)
    });
    let spec = json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()});
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.example.com"},
        "spec": {"group": "x.example.com", "scope": "Namespaced", "names": names, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        }]},
    });
    ask(server, "POST", DEFINITIONS, JSON, &crd.to_string(), JSON, 201).await;
    let conditions = json!([{"type": "Established", "status": "True"}]);
    let accepted = json!({"status": {"acceptedNames": names, "conditions": conditions, "storedVersions": ["v1"]}});
    let status = format!("{DEFINITIONS}/widgets.x.example.com/status");
    ask(server, "PATCH", &status, MERGE, &accepted.to_string(), JSON, 200).await;
    let spec: serde_json::Map<_, _> = (0..50).map(|at| (format!("p{at:02}"), json!(at))).collect();
    for at in 0..count {
        let metadata = json!({"name": name(at)});
        let widget = json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec});
        let path = "/apis/x.example.com/v1/namespaces/default/widgets";
        ask(server, "POST", path, JSON, &widget.to_string(), JSON, 201).await;
    }
}

/// Creates objects from protobuf as clients send it: without managed fields. The position of the name is searched once,
/// because the cost of encoding in the client is not measured.
async fn from_protobuf(server: &Server, count: usize) {
    let dry = format!("{DEPLOYMENTS}?dryRun=All");
    let body = deployment(0, 1).to_string();
    let sent = format!("{PROTOBUF};drop=metadata.managedFields");
    let message = ask(server, "POST", &dry, JSON, &body, &sent, 201).await;
    let first = name(0).into_bytes();
    let offsets = 0..=message.len() - first.len();
    let places: Vec<usize> = offsets.filter(|at| message[*at..].starts_with(&first)).collect();
    for at in 0..count {
        // All names have the same length, so nothing else in the message changes.
        let (mut bytes, name) = (message.clone(), name(at));
        for place in &places {
            bytes[*place..place + name.len()].copy_from_slice(name.as_bytes());
        }
        let response = server
            .respond_to_bytes("POST", DEPLOYMENTS, PROTOBUF, bytes, PROTOBUF)
            .await;
        assert_eq!(response.status().as_u16(), 201);
        response.into_body().collect().await.expect("a body never fails");
    }
}

/// Returns the text of a Deployment, made from a cached one: the cost of encoding in the client is not measured.
fn text(at: usize, replicas: usize) -> String {
    static KEPT: LazyLock<String> = LazyLock::new(|| deployment(0, 1).to_string());
    let text = KEPT.replace(&name(0), &name(at));
    text.replacen("\"replicas\":1,", &format!("\"replicas\":{replicas},"), 1)
}

/// Returns a Deployment as typical charts render it.
fn deployment(at: usize, replicas: usize) -> Value {
    let name = name(at);
    let labels = json!({
        "app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": name, "app.kubernetes.io/part-of": "shop",
    });
    let container = |container: &str, port: u16| {
        json!({
            "name": container, "image": format!("registry.example.com/{container}:1.2.3"),
            "ports": [{"name": "http", "containerPort": port}],
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "annotations": {"example.com/owner": "team-a"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "bench",
                "containers": [container("main", 8080), container("sidecar", 9090)],
                "volumes": [{"name": "config", "configMap": {"name": "bench"}}],
            }},
        },
    })
}
