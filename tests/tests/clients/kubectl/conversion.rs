//! Custom resources in versions that a webhook converts.

use serde_json::{Value, json};

use conformance::hook::{Hook, Reply};
use test_support::needs;

use super::Kubectl;

fn version(name: &str, field: &str, stored: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": stored,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
            "type": "object", "properties": {field: {"type": "string"}},
        }}}},
        "additionalPrinterColumns": [{"name": "Host", "type": "string", "jsonPath": format!(".spec.{field}")}],
    })
}

fn crd(hook: &Hook) -> String {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.example.com"},
        "spec": {
            "group": "x.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", "hostPort", true), version("v2", "host", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": hook.url("/convert"), "caBundle": hook.bundle},
            }},
        },
    });
    crd.to_string()
}

/// Converts objects: `hostPort` of `v1` is `host` in `v2`.
fn convert(review: &Value) -> Reply {
    let wanted = &review["request"]["desiredAPIVersion"];
    let (from, to) = match wanted == "x.example.com/v2" {
        true => ("hostPort", "host"),
        false => ("host", "hostPort"),
    };
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = wanted.clone();
        if let Some(host) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = host;
        }
    }
    let answer = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
    });
    Reply::Raw(200, answer.to_string())
}

fn widget(version: &str, field: &str, host: &str) -> String {
    let widget = json!({
        "apiVersion": format!("x.example.com/{version}"), "kind": "Widget", "metadata": {"name": "a"},
        "spec": {field: host},
    });
    widget.to_string()
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn webhook_converts_applied_patched_and_listed_objects() {
    let kubectl = Kubectl::start();
    let hook = Hook::start(convert).await;
    let (old, new) = ("widgets.v1.x.example.com/a", "widgets.v2.x.example.com/a");
    kubectl.says(&["apply", "-f", "-"], &crd(&hook));
    kubectl.wait_for_crds();
    kubectl.says(&["apply", "-f", "-"], &widget("v1", "hostPort", "a:1"));
    assert_eq!(kubectl.field(new, "{.spec.host}"), "a:1");
    let patch = ["patch", new, "--type=merge", "-p", r#"{"spec":{"host":"b:2"}}"#];
    kubectl.says(&patch, "");
    assert_eq!(kubectl.field(old, "{.spec.hostPort}"), "b:2");
    let listed = kubectl.says(&["get", "widgets.v2.x.example.com"], "");
    assert!(listed.lines().last().unwrap().ends_with("b:2"), "{listed}");

    // Ownership is tracked in the paths of the other version.
    let apply = ["apply", "--server-side", "--field-manager=mine", "-f", "-"];
    let conflict = kubectl.rejects(&apply, &widget("v1", "hostPort", "c:3"));
    assert!(
        conflict.contains(r#""kubectl-patch" using x.example.com/v2: .spec.host"#),
        "{conflict}"
    );
    let forced = [&apply[..], &["--force-conflicts"]].concat();
    kubectl.says(&forced, &widget("v1", "hostPort", "c:3"));
    assert_eq!(kubectl.field(new, "{.spec.host}"), "c:3");
    kubectl.says(&["delete", new], "");
    assert!(kubectl.rejects(&["get", old], "").contains("NotFound"));
}
