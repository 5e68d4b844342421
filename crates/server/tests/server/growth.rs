//! Objects that would grow without bounds: the server rejects the expansion before it happens.

use crate::support;
use crate::support::{APPLY, Answer, CONFIG_MAPS, MERGE, Server};
use serde_json::{Value, json};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.x.example.com";
const WIDGETS: &str = "/apis/x.example.com/v1/namespaces/default/widgets";

/// Returns the versions of widgets, in which items of a list have a default of `default` bytes.
fn versions(default: usize) -> Value {
    let item = match default {
        0 => json!({"type": "object", "properties": {"d": {"type": "string"}}}),
        size => json!({"type": "object", "properties": {"d": {"type": "string", "default": "x".repeat(size)}}}),
    };
    json!([{
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "list": {"type": "array", "items": item},
        }}},
    }])
}

async fn define(server: &Server, default: usize) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.example.com"},
        "spec": {
            "group": "x.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions(default),
        },
    });
    server.define(&crd).await;
}

fn widget(name: &str, items: usize) -> String {
    let items = vec![json!({}); items];
    json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "list": items}).to_string()
}

#[track_caller]
fn assert_too_large(answer: &Answer) {
    let reported = (answer.code, answer.at("/reason").as_str().unwrap_or_default());
    assert_eq!(reported, (413, "RequestEntityTooLarge"), "{}", answer.message());
    assert_eq!(answer.message(), "Request entity too large: limit is 8388608");
}

#[tokio::test]
async fn growth_by_defaults_is_bounded_on_every_path() {
    let server = Server::start().await;
    define(&server, 50_000).await;
    let many = widget("many", 10_000);
    for path in [WIDGETS.to_owned(), format!("{WIDGETS}?dryRun=All")] {
        assert_too_large(&server.post(&path, &many).await);
    }
    let path = format!("{WIDGETS}/many");
    assert_too_large(&server.patch(&format!("{path}?fieldManager=m"), APPLY, &many).await);
    assert_eq!(server.post(WIDGETS, &widget("many", 2)).await.code, 201);
    let mut object = server.get(&path).await.body;
    object["list"] = vec![json!({}); 10_000].into();
    for dry in ["", "?dryRun=All"] {
        let path = format!("{path}{dry}");
        assert_too_large(&server.put(&path, &object.to_string()).await);
        let patch = json!({"list": object["list"]}).to_string();
        assert_too_large(&server.patch(&path, MERGE, &patch).await);
        let patch = json!([{"op": "replace", "path": "/list", "value": object["list"]}]).to_string();
        let answer = server.patch(&path, "application/json-patch+json", &patch).await;
        assert_too_large(&answer);
    }
    assert_eq!(server.get(&path).await.body["list"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn defaults_that_come_later_are_not_shown_without_end() {
    let server = Server::start().await;
    define(&server, 0).await;
    assert_eq!(server.post(WIDGETS, &widget("many", 10_000)).await.code, 201);
    let change = json!({"spec": {"versions": versions(50_000)}});
    let answer = server.patch(DEFINITION, MERGE, &change.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_too_large(&server.get(&format!("{WIDGETS}/many")).await);
    // The stored object can be deleted.
    assert_eq!(server.delete(&format!("{WIDGETS}/many")).await.code, 200);
}

#[tokio::test]
async fn policy_result_size_is_bounded() {
    let server = Server::start().await;
    // Ten levels of ten shared items each expand to 10^10.
    let variables: Vec<Value> = (0..10)
        .map(|level| {
            let below = match level {
                0 => "['x']".to_owned(),
                level => format!("variables.v{}", level - 1),
            };
            json!({"name": format!("v{level}"), "expression": format!("[{}]", vec![below; 10].join(","))})
        })
        .collect();
    let patch = "[JSONPatch{op: 'add', path: '/data', value: {'k': variables.v9}}]";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {
            "reinvocationPolicy": "Never", "failurePolicy": "Fail", "variables": variables,
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "p"}, "spec": {"policyName": "p"},
    });
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (plural, body) in [
        ("mutatingadmissionpolicies", policy),
        ("mutatingadmissionpolicybindings", binding),
    ] {
        let answer = server.post(&format!("{group}/{plural}"), &body.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    while server.service.context.shared.policies.mutating.now().hooks().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_too_large(&server.post(CONFIG_MAPS, &support::config_map("one", "v")).await);
}
