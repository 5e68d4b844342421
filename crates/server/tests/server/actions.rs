//! Requests that change other objects than the one they name, and requests that are forwarded to nodes.

use crate::support::{MERGE, Server};
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn pod(server: &Server, name: &str, spec: &str) {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"x"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
    );
    assert_eq!(server.post(PODS, &body).await.code, 201);
}

#[tokio::test]
async fn a_binding_gives_a_pod_its_node_and_no_new_owner() {
    let server = Server::start().await;
    pod(&server, "a", "").await;
    let owners = server
        .get(&format!("{PODS}/a"))
        .await
        .at("/metadata/managedFields")
        .clone();
    let binding =
        r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"one"}}"#;
    let answer = server.post(&format!("{PODS}/a/binding?dryRun=All"), binding).await;
    assert_eq!((answer.code, answer.at("/status").as_str()), (201, Some("Success")));
    assert!(server.get(&format!("{PODS}/a")).await.at("/spec/nodeName").is_null());
    assert_eq!(
        server.post("/api/v1/namespaces/default/bindings", binding).await.code,
        201
    );
    let bound = server.get(&format!("{PODS}/a")).await;
    assert_eq!(bound.at("/spec/nodeName"), "one");
    assert_eq!(bound.at("/metadata/managedFields"), &owners);
    let again = server.post(&format!("{PODS}/a/binding"), binding).await;
    assert_eq!(
        (again.code, again.message()),
        (
            409,
            "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"one\""
        )
    );
}

#[tokio::test]
async fn bound_pod_gets_topology_labels_if_plugin_is_enabled() {
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"one","labels":{"topology.kubernetes.io/region":"r","other":"o"}}}"#;
    let binding = r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a","labels":{"brought":"b"}},"target":{"kind":"Node","name":"one"}}"#;
    let off = Server::start_without_plugin("PodTopologyLabels").await;
    for (server, labels) in [
        (
            Server::start().await,
            json!({"app": "x", "brought": "b", "topology.kubernetes.io/region": "r"}),
        ),
        (off, json!({"app": "x", "brought": "b"})),
    ] {
        assert_eq!(server.post("/api/v1/nodes", node).await.code, 201);
        pod(&server, "a", "").await;
        assert_eq!(server.post(&format!("{PODS}/a/binding"), binding).await.code, 201);
        assert_eq!(server.get(&format!("{PODS}/a")).await.at("/metadata/labels"), &labels);
    }
}

#[tokio::test]
async fn eviction_is_rejected_when_the_budget_is_exhausted() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        pod(&server, name, r#","nodeName":"one""#).await;
        let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        assert_eq!(
            server.patch(&format!("{PODS}/{name}/status"), MERGE, status).await.code,
            200
        );
    }
    let budget = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}"#;
    assert_eq!(server.post(BUDGETS, budget).await.code, 201);
    let evict = async |name: &str| {
        let body = format!(
            r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}"}},"deleteOptions":{{"gracePeriodSeconds":0}}}}"#
        );
        server.post(&format!("{PODS}/{name}/eviction"), &body).await
    };
    let unseen = evict("a").await;
    assert_eq!(
        (unseen.code, unseen.at("/details/retryAfterSeconds").as_i64()),
        (429, Some(10))
    );
    let status = r#"{"status":{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}}"#;
    assert_eq!(
        server.patch(&format!("{BUDGETS}/p/status"), MERGE, status).await.code,
        200
    );
    assert_eq!(evict("a").await.code, 201);
    assert_eq!(server.get(&format!("{PODS}/a")).await.code, 404);
    assert_eq!(
        server
            .get(&format!("{BUDGETS}/p"))
            .await
            .at("/status/disruptionsAllowed"),
        0
    );
    let spent = evict("b").await;
    assert_eq!(
        (spent.code, spent.at("/details/causes/0/reason").as_str()),
        (429, Some("DisruptionBudget"))
    );
    assert_eq!(server.get(&format!("{PODS}/b")).await.code, 200);
}

#[tokio::test]
async fn node_connection_reports_how_far_it_was_processed() {
    let server = Server::start().await;
    pod(&server, "a", "").await;
    assert_eq!(
        server.get(&format!("{PODS}/a/proxy/any/path")).await.message(),
        "address not allowed"
    );
    assert_eq!(
        server.get(&format!("{PODS}/none/log")).await.message(),
        "pods \"none\" not found"
    );
    let exec = server.post(&format!("{PODS}/a/exec?command=ls"), "").await;
    assert_eq!(exec.message(), "pod a does not have a host assigned");
    assert_eq!(
        server.get("/api/v1/nodes/one/proxy/").await.message(),
        "nodes \"one\" not found"
    );
}

#[tokio::test]
async fn pod_exec_and_attach_by_get_also_require_create() {
    let server = Server::start().await;
    pod(&server, "a", "").await;
    let role = |verbs: &str| {
        format!(
            r#"{{"metadata":{{"name":"r"}},"rules":[{{"apiGroups":[""],"resources":["pods/proxy","pods/exec","pods/attach","pods/portforward"],"verbs":[{verbs}]}}]}}"#
        )
    };
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(server.post(ROLES, &role(r#""get""#)).await.code, 201);
    let binding = r#"{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
        "subjects":[{"kind":"User","name":"ann"}]}"#;
    let bindings = ROLES.replace("/roles", "/rolebindings");
    assert_eq!(server.post(&bindings, binding).await.code, 201);
    let ask = async |subresource: &str| {
        let path = format!("{PODS}/a/{subresource}");
        let answer = server.send_as("ann", "GET", &path, "", "").await;
        answer.message().to_owned()
    };
    while ask("proxy").await != "address not allowed" {
        tokio::task::yield_now().await;
    }
    for subresource in ["exec?command=ls", "attach", "portforward"] {
        assert_eq!(ask(subresource).await, "pods \"a\" is forbidden: ", "{subresource}");
    }
    let changed = server.put(&format!("{ROLES}/r"), &role(r#""get","create""#)).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    while ask("exec?command=ls").await != "pod a does not have a host assigned" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn created_node_keeps_its_status_without_an_owner() {
    let server = Server::start().await;
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"one"},"status":{"capacity":{"cpu":"4"}}}"#;
    let made = server.post("/api/v1/nodes", node).await;
    assert_eq!(made.at("/status/capacity/cpu"), "4");
    assert!(!made.at("/metadata/managedFields").to_string().contains("f:status"));
}

#[tokio::test]
async fn a_dry_run_of_a_service_keeps_no_address_and_no_port() {
    let server = Server::start().await;
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30077}]},
        })
        .to_string()
    };
    let dry = format!("{SERVICES}?dryRun=All");
    for path in [dry.as_str(), &dry, SERVICES] {
        let answer = server.post(path, &service("a")).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
        assert_eq!(answer.at("/spec/clusterIP"), "10.0.0.77");
        assert_eq!(answer.at("/spec/ports/0/nodePort"), 30077);
    }
    // A dry run checks allocated addresses too, and does not release them.
    assert_eq!(server.post(&dry, &service("b")).await.code, 422);
    let path = format!("{SERVICES}/a");
    assert_eq!(server.delete(&format!("{path}?dryRun=All")).await.code, 200);
    let inside = r#"{"spec":{"type":"ClusterIP","ports":[{"port":80,"nodePort":null}]}}"#;
    assert_eq!(
        server.patch(&format!("{path}?dryRun=All"), MERGE, inside).await.code,
        200
    );
    assert_eq!(server.post(SERVICES, &service("b")).await.code, 422);
    assert_eq!(server.delete(&path).await.code, 200);
    assert_eq!(server.post(SERVICES, &service("b")).await.code, 201);
}
