//! Scenarios of kube's own tests that need a cluster and no node: entries, metadata only, events, waits for conditions,
//! certificates, tokens, nodes, evictions, ephemeral containers, scale, and predicates of streams.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event as StoredEvent;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::entry::CommitError;
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, ValidationDirective, WatchEvent,
    WatchParams,
};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::Config as WatcherConfig;
use kube::runtime::{PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Resource as _, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::kube_rs::objects::deployment;
use crate::kube_rs::{WAIT_TIMEOUT, next, rejection, start, until};

fn object<K: DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn config_map(value: &str) -> ConfigMap {
    object(json!({"data": {"key": value}}))
}

fn value(map: &ConfigMap) -> &str {
    map.data
        .as_ref()
        .and_then(|data| data.get("key"))
        .map_or("", String::as_str)
}

fn pod(name: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
    }))
}

#[tokio::test]
async fn entry_creates_changes_and_rejects_a_concurrent_creation() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let all = PostParams::default();
    let (first, second) = (maps.entry("one").await.unwrap(), maps.entry("one").await.unwrap());
    assert!(first.get().is_none() && second.get().is_none());

    let mut first = first.or_insert(|| config_map("a"));
    first.commit(&all).await.unwrap();
    assert_eq!(value(&maps.get("one").await.unwrap()), "a");
    *first.get_mut() = ConfigMap {
        data: config_map("b").data,
        ..first.get().clone()
    };
    first.commit(&all).await.unwrap();
    assert_eq!(value(first.get()), "b");

    let mut second = second.or_insert(|| config_map("c"));
    assert!(matches!(
        second.commit(&all).await,
        Err(CommitError::Save(kube::Error::Api(status))) if status.is_already_exists()
    ));
    let mut stale = maps.entry("one").await.unwrap().or_insert(|| config_map("none"));
    let newer = maps
        .entry("one")
        .await
        .unwrap()
        .and_modify(|map| map.data = config_map("d").data)
        .get_mut()
        .unwrap()
        .clone();
    maps.replace("one", &all, &newer).await.unwrap();
    stale.get_mut().data = config_map("e").data;
    assert!(matches!(
        stale.commit(&all).await,
        Err(CommitError::Save(kube::Error::Api(status))) if status.is_conflict()
    ));
    let mut dry = maps.entry("one").await.unwrap().or_insert(|| config_map("none"));
    dry.get_mut().data = config_map("f").data;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    dry.commit(&dry_run).await.unwrap();
    assert_eq!(value(&maps.get("one").await.unwrap()), "d");
}

#[tokio::test]
async fn metadata_is_read_watched_and_patched_alone() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut made = config_map("a");
    made.metadata.name = Some("one".to_owned());
    let made = maps.create(&PostParams::default(), &made).await.unwrap();
    let read = maps.get_metadata("one").await.unwrap();
    assert_eq!(read.metadata.uid, made.metadata.uid);
    assert!(maps.get_metadata_opt("none").await.unwrap().is_none());

    let stream = maps
        .watch_metadata(&WatchParams::default(), &made.resource_version().unwrap())
        .await
        .unwrap();
    let mut changes = Box::pin(stream);
    let labels = Patch::Merge(json!({"metadata": {"labels": {"team": "one"}}}));
    let patched = maps
        .patch_metadata("one", &PatchParams::default(), &labels)
        .await
        .unwrap();
    assert_eq!(patched.labels().get("team").map(String::as_str), Some("one"));
    match next(&mut changes).await.unwrap() {
        WatchEvent::Modified(map) => assert_eq!(map.labels().get("team").map(String::as_str), Some("one")),
        other => panic!("{other:?}"),
    }
    let listed = maps
        .list_metadata(&ListParams::default().labels("team=one"))
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(value(&maps.get("one").await.unwrap()), "a");
}

#[tokio::test]
async fn unknown_fields_are_rejected_or_left_out_as_a_client_asks() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let made = json!({"metadata": {"name": "one"}, "data": {"key": "a"}});
    maps.create(&PostParams::default(), &object(made)).await.unwrap();
    let wish = Patch::Merge(json!({"date": {"key": "b"}}));
    let by = |how: ValidationDirective| PatchParams {
        field_validation: Some(how),
        ..PatchParams::default()
    };
    let rejected = maps.patch("one", &by(ValidationDirective::Strict), &wish).await;
    assert_eq!(rejection(rejected), (422, "Invalid".to_owned()));
    let left = maps
        .patch("one", &by(ValidationDirective::Ignore), &wish)
        .await
        .unwrap();
    assert_eq!(value(&left), "a");
}

#[tokio::test]
async fn events_are_recorded_and_joined_to_a_series() {
    let (_server, client) = start().await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let service = services.get("kubernetes").await.unwrap().object_ref(&());
    let recorder = Recorder::new(client.clone(), "tests".into());
    let event = |note: &str| Event {
        type_: EventType::Normal,
        reason: "Seen".to_owned(),
        note: Some(note.to_owned()),
        action: "Looking".to_owned(),
        secondary: None,
    };
    let events: Api<StoredEvent> = Api::default_namespaced(client);
    let seen = async || {
        let listed = events.list(&ListParams::default().fields("reason=Seen")).await.unwrap();
        listed.items
    };
    recorder.publish(&event("once"), &service).await.unwrap();
    let [first] = &seen().await[..] else {
        panic!("one event")
    };
    assert_eq!(first.note.as_deref(), Some("once"));
    assert_eq!(first.reporting_controller.as_deref(), Some("tests"));
    assert!(first.series.is_none());
    recorder.publish(&event("twice"), &service).await.unwrap();
    let [first] = &seen().await[..] else {
        panic!("one event")
    };
    assert_eq!(first.series.as_ref().map(|series| series.count), Some(2));
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let (_server, client) = start().await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = object(json!({
        "metadata": {"name": "cups.kube.example.com"},
        "spec": {
            "group": "kube.example.com",
            "scope": "Namespaced",
            "names": {"plural": "cups", "kind": "Cup"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }));
    let name = "cups.kube.example.com";
    let established = tokio::spawn(await_condition(crds.clone(), name, conditions::is_crd_established()));
    crds.create(&PostParams::default(), &crd).await.unwrap();
    let found = tokio::time::timeout(WAIT_TIMEOUT, established)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let uid = found.unwrap().uid().unwrap();
    let gone = await_condition(crds.clone(), name, conditions::is_deleted(&uid));
    crds.delete(name, &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(WAIT_TIMEOUT, gone).await.unwrap().unwrap();

    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("runs")).await.unwrap();
    let running = await_condition(pods.clone(), "runs", conditions::is_pod_running());
    let reported = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("runs", &PatchParams::default(), &reported)
        .await
        .unwrap();
    let found = tokio::time::timeout(WAIT_TIMEOUT, running).await.unwrap().unwrap();
    assert_eq!(found.unwrap().name_any(), "runs");
}

/// A request for a certificate of the user kube.
const REQUEST: &str = include_str!("request.pem");

#[tokio::test]
async fn certificates_are_approved_by_their_subresource() {
    use base64::Engine as _;
    let (_server, client) = start().await;
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let request: CertificateSigningRequest = object(json!({
        "metadata": {"name": "kube"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(REQUEST),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": 86400,
            "usages": ["client auth"],
        },
    }));
    requests.create(&PostParams::default(), &request).await.unwrap();
    let approved = Patch::Merge(json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Tested", "message": "by kube"},
    ]}}));
    requests
        .patch_approval("kube", &PatchParams::default(), &approved)
        .await
        .unwrap();
    let status = requests.get_approval("kube").await.unwrap().status.unwrap();
    let conditions: Vec<String> = status
        .conditions
        .unwrap()
        .into_iter()
        .map(|condition| condition.type_)
        .collect();
    assert_eq!(conditions, ["Approved"]);
}

#[tokio::test]
async fn tokens_are_requested_and_reviewed() {
    let (_server, client) = start().await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    accounts
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "robot"}})))
        .await
        .unwrap();
    let wish: TokenRequest = object(json!({"spec": {"audiences": ["tests"], "expirationSeconds": 3600}}));
    let made = accounts
        .create_token_request("robot", &PostParams::default(), &wish)
        .await
        .unwrap();
    let token = made.status.unwrap().token;
    let reviews: Api<TokenReview> = Api::all(client);
    let review: TokenReview = object(json!({"spec": {"audiences": ["tests"], "token": token}}));
    let status = reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.authenticated, Some(true));
    assert_eq!(
        status.user.unwrap().username.as_deref(),
        Some("system:serviceaccount:default:robot")
    );
}

#[tokio::test]
async fn nodes_are_cordoned_and_workloads_restarted() {
    let (_server, client) = start().await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "one"}})))
        .await
        .unwrap();
    let unschedulable = |node: Node| node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    assert!(unschedulable(nodes.cordon("one").await.unwrap()));
    assert!(!unschedulable(nodes.uncordon("one").await.unwrap()));

    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let web: Deployment = object(deployment("web"));
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let restarted = deployments.restart("web").await.unwrap();
    assert_eq!(restarted.metadata.generation, Some(2));
    let template = restarted.spec.unwrap().template.metadata.unwrap();
    assert!(
        template
            .annotations
            .unwrap()
            .contains_key("kube.kubernetes.io/restartedAt")
    );
}

#[tokio::test]
async fn pods_are_evicted_and_get_containers_for_a_look() {
    let (_server, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("one")).await.unwrap();
    let look = json!({"spec": {"ephemeralContainers": [{"name": "look", "image": "registry.example.com/look:1"}]}});
    let patched = pods
        .patch_ephemeral_containers("one", &PatchParams::default(), &Patch::Strategic(look))
        .await
        .unwrap();
    let containers = patched.spec.unwrap().ephemeral_containers.unwrap();
    assert_eq!(containers.len(), 1);
    let mut read = pods.get_ephemeral_containers("one").await.unwrap();
    read.spec.as_mut().unwrap().ephemeral_containers = None;
    let taken_away = pods
        .replace_ephemeral_containers("one", &PostParams::default(), &read)
        .await;
    assert_eq!(rejection(taken_away), (422, "Invalid".to_owned()));

    pods.evict("one", &EvictParams::default()).await.unwrap();
    until("the pod is gone", || async {
        pods.get_opt("one").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn scale_is_read_patched_and_replaced() {
    let (_server, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let web: Deployment = object(deployment("web"));
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let five = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scale = deployments
        .patch_scale("web", &PatchParams::default(), &five)
        .await
        .unwrap();
    assert_eq!(scale.spec.as_ref().and_then(|spec| spec.replicas), Some(5));
    let mut scale = deployments.get_scale("web").await.unwrap();
    scale.spec.as_mut().unwrap().replicas = Some(7);
    let replaced = deployments
        .replace_scale("web", &PostParams::default(), &scale)
        .await
        .unwrap();
    assert_eq!(replaced.spec.and_then(|spec| spec.replicas), Some(7));
    assert_eq!(
        rejection(deployments.replace_scale("web", &PostParams::default(), &scale).await).0,
        409
    );
}

#[tokio::test]
async fn predicates_leave_out_what_does_not_change() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["one", "two"] {
        let map = json!({"metadata": {"name": name}, "data": {"key": "a"}});
        maps.create(&PostParams::default(), &object(map)).await.unwrap();
    }
    let stream = watcher(maps.clone(), WatcherConfig::default())
        .applied_objects()
        .predicate_filter(predicates::labels, PredicateConfig::default());
    let mut changes = Box::pin(stream);
    let first = [next(&mut changes).await.unwrap(), next(&mut changes).await.unwrap()];
    assert_eq!(first.map(|map| map.name_any()), ["one", "two"]);
    let data = Patch::Merge(json!({"data": {"key": "b"}}));
    maps.patch("one", &PatchParams::default(), &data).await.unwrap();
    let labels = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    maps.patch("two", &PatchParams::default(), &labels).await.unwrap();
    assert_eq!(next(&mut changes).await.unwrap().name_any(), "two");
}
