//! Quotas from end to end: created objects are charged at once, and deleted ones are released.

use conformance::{Binary, Client, MERGE, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn quota(client: &mut Client, spec: Value) {
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    client.make("/api/v1/namespaces/default/resourcequotas", object).await;
}

/// Waits until so much is used.
async fn until_used(client: &mut Client, used: Value) {
    client.until(QUOTA, |_, quota| quota["status"]["used"] == used).await;
}

fn pod(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container],
        "terminationGracePeriodSeconds": 0}})
}

#[tokio::test]
async fn a_quota_counts_what_is_there_what_comes_and_what_goes() {
    // Other controllers create ConfigMaps, too.
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    client.config_map("default", json!({"name": "early"})).await;
    client.make(PODS, pod("a", "300m")).await;
    let hard = json!({"count/configmaps": "2", "requests.cpu": "500m", "pods": "9", "count/nothings": "1"});
    quota(&mut client, json!({"hard": hard})).await;
    until_used(
        &mut client,
        json!({"count/configmaps": "1", "requests.cpu": "300m", "pods": "1"}),
    )
    .await;

    client.config_map("default", json!({"name": "late"})).await;
    let (_, now) = client.get(QUOTA).await;
    assert_eq!(
        now["status"]["used"]["count/configmaps"], "2",
        "charged with the object"
    );
    let (status, rejected) = client
        .ask(Method::POST, PODS, "application/json", pod("b", "201m"))
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        rejected["message"],
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=201m, used: requests.cpu=300m, limited: \
         requests.cpu=500m"
    );

    client
        .delete("/api/v1/namespaces/default/configmaps/early", Value::Null)
        .await;
    // A finished Pod only counts as an object.
    let over = json!({"status": {"phase": "Succeeded"}});
    let (status, _) = client
        .ask(Method::PATCH, &format!("{PODS}/a/status"), MERGE, over)
        .await;
    assert_eq!(status, StatusCode::OK);
    until_used(
        &mut client,
        json!({"count/configmaps": "1", "requests.cpu": "0", "pods": "0"}),
    )
    .await;
    client.make(PODS, pod("b", "500m")).await;
}

#[tokio::test]
async fn changed_limits_are_recounted_within_their_scopes() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    quota(&mut client, json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]})).await;
    until_used(&mut client, json!({"pods": "0"})).await;
    let mut ends = pod("ends", "1");
    ends["spec"]["activeDeadlineSeconds"] = json!(60);
    client.make(PODS, ends).await;
    client.make(PODS, pod("lasts", "1")).await;
    until_used(&mut client, json!({"pods": "1"})).await;
    let more = json!({"spec": {"hard": {"pods": "3", "requests.cpu": "4"}}});
    let (status, _) = client.ask(Method::PATCH, QUOTA, MERGE, more).await;
    assert_eq!(status, StatusCode::OK);
    until_used(&mut client, json!({"pods": "1", "requests.cpu": "1"})).await;
    let (_, now) = client.get(QUOTA).await;
    assert_eq!(now["status"]["hard"], json!({"pods": "3", "requests.cpu": "4"}));
}

#[tokio::test]
async fn a_quota_may_be_there_before_what_it_counts_is_defined() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let name = "count/widgets.example.com";
    quota(&mut client, json!({"hard": {name: "1"}})).await;
    until_used(&mut client, json!({name: "0"})).await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.make(crds, crd).await;
    let established = |_, crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    client.until(&format!("{crds}/widgets.example.com"), established).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    client.make(widgets, widget("a")).await;
    let (status, rejected) = client.ask(Method::POST, widgets, "application/json", widget("b")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{rejected}");
    client.delete(&format!("{widgets}/a"), Value::Null).await;
    until_used(&mut client, json!({name: "0"})).await;
    client.make(widgets, widget("b")).await;
}

#[tokio::test]
async fn charge_without_an_object_is_released_by_the_resync() {
    let server = Server::start(&Binary::debug().unwrap(), &["--resource-quota-sync-period=100ms"]).unwrap();
    let mut client = Client::new(&server).await;
    quota(&mut client, json!({"hard": {"pods": "5"}})).await;
    until_used(&mut client, json!({"pods": "0"})).await;
    // A kube-apiserver on the same store charges a Pod like this whose creation then fails.
    let charge = json!({"status": {"used": {"pods": "1"}}});
    let (status, charged) = client
        .ask(Method::PATCH, &format!("{QUOTA}/status"), MERGE, charge)
        .await;
    assert_eq!(
        (status, &charged["status"]["used"]["pods"]),
        (StatusCode::OK, &json!("1"))
    );
    until_used(&mut client, json!({"pods": "0"})).await;
}
