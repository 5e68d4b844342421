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

use std::sync::{Arc, LazyLock};

use holdfast_proto::Messages;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{APPLY, MERGE, Server};

/// Rows, each with the lower and the higher count of requests. The counts are far enough apart that the differences between
/// starts (half a million instructions, and up to two percent of filling the store) are less than one percent of the
/// requests' instructions.
const ROWS: [(&str, usize, usize); 23] = [
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
    ("put of a node's lease", 20, 320),
    ("status of a pod by strategic merge patch", 20, 170),
    ("put of a Deployment's status as protobuf", 20, 170),
    ("post of an Event as protobuf", 20, 220),
    ("post of a pod's binding as protobuf", 20, 120),
    ("event as protobuf to 10 watchers", 10, 110),
];

/// Number of Pods that the row of bindings creates before it counts: the higher number of its bindings.
const UNBOUND_PODS: usize = 120;

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
        "watch event to 100 watchers" => watched(&server, 100, JSON, count).await,
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
        "put of a node's lease" => lease(&server, count).await,
        "status of a pod by strategic merge patch" => pod_status(&server, count).await,
        "put of a Deployment's status as protobuf" => deployment_status(&server, count).await,
        "post of an Event as protobuf" => events(&server, count).await,
        "post of a pod's binding as protobuf" => bindings(&server, count).await,
        "event as protobuf to 10 watchers" => {
            watched(&server, 10, &format!("{PROTOBUF};stream=watch"), count).await;
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

/// Reads with a paused clock: a list yields by elapsed time, which differs from run to run. The client drops what it
/// reads, because its copy is not measured.
async fn read(server: &Server, path: &str, accept: &str, count: usize) {
    tokio::time::pause();
    for _ in 0..count {
        let response = server.respond("GET", path, "", "", accept).await;
        assert_eq!(response.status().as_u16(), 200);
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.expect("a body never fails");
        }
    }
    tokio::time::resume();
}

/// Sends an event of a merge patch, which is counted as well, to many watchers. The clients drop what they read: to search
/// and copy it is not work of the server.
async fn watched(server: &Server, watchers: usize, accept: &str, count: usize) {
    create(server, 1).await;
    let mut watches = Vec::new();
    for _ in 0..watchers {
        let path = format!("{DEPLOYMENTS}?watch=true");
        let mut watch = server.respond("GET", &path, "", "", accept).await.into_body();
        watch
            .frame()
            .await
            .expect("a watch begins with what exists")
            .expect("a body never fails");
        watches.push(watch);
    }
    for at in 0..count {
        let patch = json!({"metadata": {"annotations": {"at": format!("{at:05}")}}});
        ask(server, "PATCH", &path(0), MERGE, &patch.to_string(), JSON, 200).await;
        for watch in &mut watches {
            watch
                .frame()
                .await
                .expect("a watch goes on")
                .expect("a body never fails");
        }
    }
}

/// Renews a Lease as a kubelet does: it sends the object of the last response with another time.
async fn lease(server: &Server, count: usize) {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-0"},
        "spec": {"holderIdentity": "node-0", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let first = ask(server, "POST", LEASES, JSON, &lease.to_string(), JSON, 201).await;
    put_again(server, &format!("{LEASES}/node-0"), JSON, first, b".000000Z\"", count).await;
}

/// Sends a status that differs in a condition's message, as the controller manager does with each change of a count.
async fn deployment_status(server: &Server, count: usize) {
    create(server, 1).await;
    let condition = json!({
        "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": "at 000000",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1, "conditions": [condition],
    }});
    let path = format!("{}/status", path(0));
    let first = ask(server, "PATCH", &path, MERGE, &status.to_string(), PROTOBUF, 200).await;
    put_again(server, &path, PROTOBUF, first, b" 000000", count).await;
}

/// Replaces an object by the response before, in which only the six zeros in `mark` are another number. The distance of the
/// mark from the end stays the same, so it is searched once.
async fn put_again(server: &Server, path: &str, media_type: &str, first: Vec<u8>, mark: &[u8], count: usize) {
    let found = first.windows(mark.len()).rposition(|window| window == mark);
    let from_end = first.len() - found.expect("the object has the mark") - 1;
    let mut object = first;
    for at in 1..=count {
        let start = object.len() - from_end;
        object[start..start + 6].copy_from_slice(format!("{at:06}").as_bytes());
        let response = server
            .respond_to_bytes("PUT", path, media_type, object, media_type)
            .await;
        assert_eq!(response.status().as_u16(), 200);
        let body = response.into_body().collect().await.expect("a body never fails");
        object = body.to_bytes().to_vec();
    }
}

/// Patches the status of a Pod as a kubelet does when a container starts again.
async fn pod_status(server: &Server, count: usize) {
    let pod = create_pods(server, 1).await.remove(0);
    let path = format!("{pod}/status");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let order = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let conditions: Vec<Value> = order.iter().map(|kind| condition(kind)).collect();
    let named: Vec<Value> = order.iter().map(|kind| json!({"type": kind})).collect();
    for at in 0..count {
        let container = json!({
            "name": "main", "image": "registry.example.com/main:1.2.3", "imageID": "registry.example.com/main@sha256:0123456789abcdef",
            "containerID": "containerd://0123456789abcdef", "ready": true, "started": true, "restartCount": at + 1, "lastState": {},
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        });
        let status = json!({
            "$setElementOrder/conditions": named, "conditions": conditions, "phase": "Running", "observedGeneration": 1,
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [container],
        });
        let patch = json!({"status": status}).to_string();
        ask(server, "PATCH", &path, STRATEGIC, &patch, PROTOBUF, 200).await;
    }
}

/// Creates Pods that no node runs, and returns their paths.
async fn create_pods(server: &Server, count: usize) -> Vec<String> {
    const CORE: &str = "/api/v1/namespaces/default";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = format!("{CORE}/serviceaccounts");
    ask(server, "POST", &accounts, JSON, &account.to_string(), JSON, 201).await;
    let template = &deployment(0, 1)["spec"]["template"];
    let mut paths = Vec::new();
    for at in 0..count {
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
        pod["metadata"]["name"] = name(at).into();
        pod["spec"]["serviceAccountName"] = "default".into();
        ask(
            server,
            "POST",
            &format!("{CORE}/pods"),
            JSON,
            &pod.to_string(),
            JSON,
            201,
        )
        .await;
        paths.push(format!("{CORE}/pods/{}", name(at)));
    }
    paths
}

async fn bindings(server: &Server, count: usize) {
    let pods = create_pods(server, UNBOUND_PODS).await;
    let document = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(0), "namespace": "default"},
        "target": {"kind": "Node", "name": "node-0"},
    });
    let binding = Named::new(&document);
    for (at, pod) in pods.iter().take(count).enumerate() {
        let path = format!("{pod}/binding");
        binding.post(server, &path, at).await;
    }
}

async fn events(server: &Server, count: usize) {
    let time = "2026-01-01T00:00:00Z";
    let document = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name(0), "namespace": "default"},
        "involvedObject": {
            "kind": "Pod", "namespace": "default", "name": name(0), "uid": "01234567-89ab-cdef-0123-456789abcdef",
            "apiVersion": "v1", "resourceVersion": "1234", "fieldPath": "spec.containers{main}",
        },
        "reason": "Started", "message": "Started container main", "type": "Normal", "count": 1,
        "source": {"component": "kubelet", "host": "node-0"}, "reportingComponent": "kubelet", "reportingInstance": "node-0",
        "firstTimestamp": time, "lastTimestamp": time,
    });
    let event = Named::new(&document);
    for at in 0..count {
        event.post(server, "/api/v1/namespaces/default/events", at).await;
    }
}

/// Object in protobuf that is created under many names. The positions of the name are searched once, because the cost of
/// encoding in the client is not measured.
struct Named {
    message: Vec<u8>,
    places: Vec<usize>,
}

impl Named {
    /// Encodes an object whose name is the first one.
    fn new(object: &Value) -> Self {
        let types = Arc::new(holdfast_kind_tables::types().expect("the tables are valid"));
        let text = |name: &str| object[name].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let object_type = types.id_of_object(api_version, kind).expect("a known kind");
        let messages = Messages::new(types);
        let json = object.to_string();
        let message = messages.envelope_of_text(object_type, api_version, kind, json.as_bytes());
        Self::from_message(message.expect("an object of its type"))
    }

    fn from_message(message: Vec<u8>) -> Self {
        let first = name(0).into_bytes();
        let offsets = 0..=message.len() - first.len();
        let places = offsets.filter(|at| message[*at..].starts_with(&first)).collect();
        Self { message, places }
    }

    /// Creates the object under another name. All names have the same length, so nothing else in the message changes.
    async fn post(&self, server: &Server, path: &str, at: usize) {
        let (mut bytes, name) = (self.message.clone(), name(at));
        for place in &self.places {
            bytes[*place..place + name.len()].copy_from_slice(name.as_bytes());
        }
        let response = server.respond_to_bytes("POST", path, PROTOBUF, bytes, PROTOBUF).await;
        assert_eq!(response.status().as_u16(), 201);
        response.into_body().collect().await.expect("a body never fails");
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

/// Creates objects from protobuf as clients send it: without managed fields.
async fn from_protobuf(server: &Server, count: usize) {
    let dry = format!("{DEPLOYMENTS}?dryRun=All");
    let body = deployment(0, 1).to_string();
    let sent = format!("{PROTOBUF};drop=metadata.managedFields");
    let named = Named::from_message(ask(server, "POST", &dry, JSON, &body, &sent, 201).await);
    for at in 0..count {
        named.post(server, DEPLOYMENTS, at).await;
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
