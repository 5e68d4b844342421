//! Admission webhooks: a mutating one that adds a container to every Pod, and a validating one that rejects.

use conformance::hook::{Hook, allow, deny, patch};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::kube_rs::{rejection, start, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_puts_a_container_into_pods() {
    let (_server, client) = start().await;
    let hook = Hook::start(|_| {
        patch(&json!([
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "registry.example.com/proxy"}},
            {"op": "add", "path": "/metadata/labels", "value": {"injected": "yes"}},
        ]))
    })
    .await;
    let configuration = json!({
        "metadata": {"name": "injector"},
        "webhooks": [hook.webhook("injector.example.com", &["CREATE"], "/v1/pods", json!({}))],
    });
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = serde_json::from_value(configuration).unwrap();
    configurations
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/web"}]},
    }))
    .unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("the webhook is called", async || {
        let made = pods.create(&dry, &pod).await.unwrap();
        made.metadata.labels.is_some()
    })
    .await;
    // By apply, too, and the container has no owner: another apply leaves it.
    for _ in 0..2 {
        let applied = pods
            .patch("web", &PatchParams::apply("test"), &Patch::Apply(&pod))
            .await
            .unwrap();
        let containers = applied.spec.unwrap().containers;
        let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["web", "proxy"]);
        assert_eq!(containers[1].termination_message_policy.as_deref(), Some("File"));
        let owners = applied.metadata.managed_fields.unwrap();
        assert_eq!(owners.len(), 1);
        assert!(!serde_json::to_string(&owners).unwrap().contains("proxy"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validating_webhook_rejects_in_its_own_words() {
    let (_server, client) = start().await;
    let hook = Hook::start(|review| match review["request"]["object"]["data"]["level"].as_str() {
        Some("high") => deny("the level is too high"),
        _ => allow(),
    })
    .await;
    let configuration = json!({
        "metadata": {"name": "levels"},
        "webhooks": [hook.webhook("levels.example.com", &["CREATE", "UPDATE"], "/v1/configmaps", json!({}))],
    });
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = serde_json::from_value(configuration).unwrap();
    configurations
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = |level: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": level}});
    let apply = async |level: &str| {
        let parameters = PatchParams::apply("test");
        maps.patch("settings", &parameters, &Patch::Apply(map(level))).await
    };
    apply("low").await.unwrap();
    let tried = PatchParams::apply("test").dry_run();
    until("the webhook is called", async || {
        maps.patch("settings", &tried, &Patch::Apply(map("high")))
            .await
            .is_err()
    })
    .await;
    let (code, _) = rejection(apply("high").await);
    assert_eq!(code, 400);
    let reported = apply("high").await.unwrap_err().to_string();
    let words = "admission webhook \"levels.example.com\" denied the request: the level is too high";
    assert!(reported.contains(words), "{reported}");
    let kept = maps.get("settings").await.unwrap();
    assert_eq!(kept.data.unwrap()["level"], "low");
}
