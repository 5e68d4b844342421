//! Custom resources whose objects a webhook converts: reads, writes, watches and managers in all versions, a storage
//! version that changes, and webhooks that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::hook::{Hook, Identity, Reply};
use crate::support::{APPLY, Answer, MERGE, Server};
use serde_json::{Value, json};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.x.example.com";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// The name of the converted field in each version.
const HOST: [(&str, &str); 3] = [("v1", "hostPort"), ("v2", "host"), ("v3", "address")];

fn path(version: &str, name: &str) -> String {
    let collection = format!("/apis/x.example.com/{version}/namespaces/default/widgets");
    match name {
        "" => collection,
        name => format!("{collection}/{name}"),
    }
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap()
}

fn field_of(version: &str) -> &'static str {
    HOST.iter().find(|(known, _)| *known == version).unwrap().1
}

fn versions(storage: &str) -> Value {
    let version = |(name, field): &(&str, &str)| {
        json!({
            "name": name, "served": true, "storage": *name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object",
                "properties": {*field: {"type": "string"}, "size": {"type": "integer"}},
            }}}},
            "additionalPrinterColumns": [{"name": "Host", "type": "string", "jsonPath": format!(".spec.{field}")}],
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        })
    };
    HOST.iter().map(version).collect()
}

/// Defines widgets, which `hook` converts, and waits until they are served.
async fn define(server: &Server, hook: &Hook, review_version: &str) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.example.com"},
        "spec": {
            "group": "x.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions("v1"),
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": [review_version],
                "clientConfig": {"url": hook.url("/convert"), "caBundle": hook.bundle},
            }},
        },
    });
    server.define(&crd).await;
}

async fn store_in(server: &Server, version: &str) {
    let change = json!({"spec": {"versions": versions(version)}});
    let answer = server.patch(DEFINITION, MERGE, &change.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

/// Returns the response to a review with these converted objects.
fn converted(review: &Value, objects: &[Value]) -> Reply {
    let answer = json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
    });
    Reply::Raw(200, answer.to_string())
}

/// Converts an object to another version as the webhook of these tests does.
fn moved(object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    let from = field_of(version_of(&object));
    let host = object["spec"].as_object_mut().and_then(|spec| spec.remove(from));
    object["apiVersion"] = api_version.into();
    if let Some(host) = host {
        let field = field_of(version_of(&object));
        object["spec"][field] = host;
    }
    object
}

fn moving(review: &Value) -> Reply {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let sent = review["request"]["objects"].as_array().unwrap();
    let objects: Vec<Value> = sent.iter().map(|object| moved(object, wanted)).collect();
    converted(review, &objects)
}

/// Starts a server with widgets.
async fn start() -> (Server, Hook) {
    let (server, hook) = (Server::start().await, Hook::start(moving).await);
    define(&server, &hook, "v1").await;
    (server, hook)
}

#[tokio::test]
async fn webhook_with_its_own_certificate_in_bundle_converts() {
    let server = Server::start().await;
    let hook = Hook::start_as(Identity::pinned(|_| {}), moving).await;
    define(&server, &hook, "v1").await;
    create(&server, "v1", "a", "h").await;
    assert_eq!(spec(&server, "v2", "a").await[field_of("v2")], "h");
}

fn widget(version: &str, name: &str, host: &str) -> Value {
    json!({
        "apiVersion": format!("x.example.com/{version}"), "kind": "Widget", "metadata": {"name": name},
        "spec": {field_of(version): host},
    })
}

async fn create(server: &Server, version: &str, name: &str, host: &str) -> Answer {
    let answer = server
        .post(&path(version, ""), &widget(version, name, host).to_string())
        .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer
}

async fn spec(server: &Server, version: &str, name: &str) -> Value {
    let answer = server.get(&path(version, name)).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(version_of(&answer.body), version);
    answer.at("/spec").clone()
}

/// Returns the number of objects in each conversion review that the webhook received.
fn questions(hook: &Hook) -> Vec<usize> {
    let reviews = hook.calls();
    let lengths = reviews
        .iter()
        .map(|review| review["request"]["objects"].as_array().unwrap().len());
    lengths.collect()
}

#[tokio::test]
async fn objects_are_read_and_written_in_every_version() {
    let (server, hook) = start().await;
    let made = create(&server, "v2", "a", "a:1").await;
    assert_eq!(made.at("/spec"), &json!({"host": "a:1"}));
    for (version, field) in HOST {
        assert_eq!(spec(&server, version, "a").await, json!({field: "a:1"}));
    }
    let mut replaced = widget("v3", "a", "b:2");
    replaced["metadata"]["resourceVersion"] = made.version().into();
    let answer = server.put(&path("v3", "a"), &replaced.to_string()).await;
    assert_eq!(
        (answer.code, answer.at("/spec")),
        (200, &json!({"address": "b:2"})),
        "{}",
        answer.body
    );
    let answer = server.patch(&path("v2", "a"), MERGE, r#"{"spec":{"size":4}}"#).await;
    assert_eq!(
        answer.at("/spec"),
        &json!({"host": "b:2", "size": 4}),
        "{}",
        answer.body
    );
    assert_eq!(spec(&server, "v1", "a").await, json!({"hostPort": "b:2", "size": 4}));
    // The patch changes nothing, so nothing is written.
    let again = server.patch(&path("v2", "a"), MERGE, r#"{"spec":{"size":4}}"#).await;
    assert_eq!(again.version(), answer.version());

    let scale = server.get(&format!("{}/scale", path("v2", "a"))).await;
    assert_eq!(scale.at("/spec/replicas"), &json!(4), "{}", scale.body);
    let scaled = server
        .patch(
            &format!("{}/scale", path("v3", "a")),
            MERGE,
            r#"{"spec":{"replicas":5}}"#,
        )
        .await;
    assert_eq!(scaled.at("/spec/replicas"), &json!(5), "{}", scaled.body);
    assert_eq!(spec(&server, "v1", "a").await, json!({"hostPort": "b:2", "size": 5}));

    // Requests for the storage version call no webhook.
    let before = hook.calls().len();
    assert_eq!(apply(&server, "v1", "b", "mine", "b:1", "").await.code, 201);
    let listed = server.get(&path("v1", "")).await;
    assert_eq!(listed.at("/items/0/spec/size"), &json!(5));
    assert_eq!(hook.calls().len(), before);
    assert_eq!(server.delete(&path("v2", "a")).await.code, 200);
    assert_eq!(server.get(&path("v1", "a")).await.code, 404);
}

#[tokio::test]
async fn a_dry_run_is_shown_as_it_would_be_stored() {
    let (server, _hook) = start().await;
    let body = widget("v2", "a", "a:1").to_string();
    let answer = server.post(&format!("{}?dryRun=All", path("v2", "")), &body).await;
    assert_eq!(
        (answer.code, answer.at("/spec/host")),
        (201, &json!("a:1")),
        "{}",
        answer.body
    );
    assert_eq!(server.get(&path("v2", "a")).await.code, 404);
}

#[tokio::test]
async fn a_list_is_converted_a_run_of_objects_at_a_time() {
    let (server, hook) = start().await;
    for at in 0..70 {
        create(&server, "v1", &format!("w{at:02}"), &format!("h:{at}")).await;
    }
    assert!(hook.calls().is_empty());
    let listed = server.get(&path("v2", "")).await;
    let items = listed.at("/items").as_array().unwrap();
    assert_eq!(items.len(), 70);
    for (at, item) in items.iter().enumerate() {
        assert_eq!(item["spec"], json!({"host": format!("h:{at}")}));
        assert!(item["metadata"]["resourceVersion"].is_string());
    }
    assert_eq!(questions(&hook), [64, 6]);
    let first = hook.calls()[0]["request"]["objects"][0].clone();
    assert_eq!(first["metadata"]["resourceVersion"], Value::Null, "{first}");

    let page = server.get(&format!("{}?limit=3", path("v2", ""))).await;
    assert_eq!(page.at("/items/2/spec/host"), "h:2");
    assert_eq!(page.at("/metadata/remainingItemCount"), 67);
    let token = page.at("/metadata/continue").as_str().unwrap();
    let page = server
        .get(&format!("{}?limit=3&continue={token}", path("v2", "")))
        .await;
    assert_eq!(page.at("/items/0/spec/host"), "h:3");
    assert_eq!(questions(&hook)[2..], [3, 3]);

    let table = server.get_as(&format!("{}?limit=2", path("v3", "")), TABLE).await;
    assert_eq!(table.at("/rows/1/cells"), &json!(["w01", "h:1"]), "{}", table.body);
    let table = server.get_as(&path("v3", "w05"), TABLE).await;
    assert_eq!(table.at("/rows/0/cells"), &json!(["w05", "h:5"]), "{}", table.body);
    let metadata = server.get_as(&path("v3", "w05"), METADATA).await;
    assert_eq!(metadata.at("/metadata/name"), "w05", "{}", metadata.body);

    // A field selector uses the field of its own version.
    let selected = server
        .get(&format!("{}?fieldSelector=spec.address%3Dh:7&limit=5", path("v3", "")))
        .await;
    assert_eq!(selected.at("/items/0/metadata/name"), "w07", "{}", selected.body);
    assert_eq!(selected.at("/items").as_array().unwrap().len(), 1);
}

/// Answers like a webhook that adds a label to objects of `v2`.
fn labelling(review: &Value) -> Reply {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = moved(object, wanted);
        let label = object["spec"][field_of(version_of(&object))].clone();
        object["metadata"]["labels"] = json!({"at": label});
        object["metadata"]["finalizers"] = json!(["x.example.com/mine"]);
        object["spec"]["junk"] = json!(1);
        object
    });
    let objects: Vec<Value> = objects.collect();
    converted(review, &objects)
}

#[tokio::test]
async fn selectors_go_by_what_the_webhook_shows() {
    let (server, hook) = (Server::start().await, Hook::start(labelling).await);
    define(&server, &hook, "v1").await;
    create(&server, "v1", "a", "one").await;
    create(&server, "v1", "b", "two").await;
    let shown = server.get(&path("v2", "a")).await;
    // Changes to other metadata are reverted, and fields that the version does not specify are dropped.
    assert_eq!(shown.at("/metadata/labels"), &json!({"at": "one"}));
    assert_eq!(
        (shown.at("/metadata/finalizers"), shown.at("/spec")),
        (&Value::Null, &json!({"host": "one"}))
    );
    let selector = "labelSelector=at%3Dtwo";
    let listed = server.get(&format!("{}?{selector}", path("v2", ""))).await;
    assert_eq!(listed.at("/items/0/metadata/name"), "b", "{}", listed.body);
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 1);
    let stored = server.get(&format!("{}?{selector}", path("v1", ""))).await;
    assert_eq!(stored.at("/items").as_array().unwrap().len(), 0);

    let mut watch = server.watch(&format!("{}?watch=1&{selector}", path("v2", ""))).await;
    for host in ["two", "three"] {
        let change = json!({"spec": {"hostPort": host}}).to_string();
        assert_eq!(server.patch(&path("v1", "a"), MERGE, &change).await.code, 200);
    }
    assert_eq!(watch.events(2).await, ["ADDED b", "ADDED a"]);
    let (left, event) = watch.next().await.unwrap();
    // An object that is no longer selected is sent in its previous state.
    assert_eq!(
        (left.as_str(), &event["object"]["spec"]),
        ("DELETED a", &json!({"host": "two"}))
    );
}

#[tokio::test]
async fn watches_in_other_versions_share_conversions() {
    let (server, hook) = start().await;
    create(&server, "v1", "a", "a:1").await;
    let mut watches = Vec::new();
    for version in ["v1", "v2", "v2", "v3"] {
        watches.push((version, server.watch(&format!("{}?watch=1", path(version, ""))).await));
    }
    let mut table = server.watch_as(&format!("{}?watch=1", path("v2", "")), TABLE).await;
    create(&server, "v2", "b", "b:1").await;
    assert_eq!(
        server
            .patch(&path("v3", "b"), MERGE, r#"{"spec":{"address":"b:2"}}"#)
            .await
            .code,
        200
    );
    assert_eq!(server.delete(&path("v1", "b")).await.code, 200);
    let before = hook.calls().len();
    for (version, watch) in &mut watches {
        for (short, host) in [
            ("ADDED a", "a:1"),
            ("ADDED b", "b:1"),
            ("MODIFIED b", "b:2"),
            ("DELETED b", "b:2"),
        ] {
            let (found, event) = watch.next().await.unwrap();
            assert_eq!((found.as_str(), version_of(&event["object"])), (short, *version));
            assert_eq!(event["object"]["spec"][field_of(version)], host, "{event}");
        }
    }
    // Three watches sent one initial object each, and two versions converted three events each.
    assert_eq!(hook.calls().len() - before, 3 + 2 * 3);
    for cells in [json!(["a", "a:1"]), json!(["b", "b:1"]), json!(["b", "b:2"])] {
        let (_, event) = table.next().await.unwrap();
        assert_eq!(event["object"]["rows"][0]["cells"], cells);
    }
}

#[tokio::test]
async fn old_objects_are_read_from_the_version_they_are_stored_in() {
    let (server, hook) = start().await;
    create(&server, "v1", "old", "a:1").await;
    create(&server, "v1", "changed", "b:1").await;
    create(&server, "v1", "gone", "c:1").await;
    store_in(&server, "v2").await;
    create(&server, "v1", "new", "d:1").await;
    let before = hook.calls().len();
    assert_eq!(spec(&server, "v1", "old").await, json!({"hostPort": "a:1"}));
    assert_eq!(hook.calls().len(), before, "it is stored in the requested version");
    assert_eq!(spec(&server, "v3", "old").await, json!({"address": "a:1"}));
    let last = hook.calls().pop().unwrap();
    assert_eq!(version_of(&last["request"]["objects"][0]), "v1");

    let answer = server
        .patch(&path("v3", "changed"), MERGE, r#"{"spec":{"size":2}}"#)
        .await;
    assert_eq!(
        answer.at("/spec"),
        &json!({"address": "b:1", "size": 2}),
        "{}",
        answer.body
    );
    let before = hook.calls().len();
    assert_eq!(spec(&server, "v2", "changed").await, json!({"host": "b:1", "size": 2}));
    assert_eq!(hook.calls().len(), before, "it was stored anew");

    let listed = server.get(&path("v2", "")).await;
    let hosts: Vec<&Value> = listed
        .at("/items")
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["spec"]["host"])
        .collect();
    assert_eq!(hosts, ["b:1", "c:1", "d:1", "a:1"]);
    assert_eq!(questions(&hook).pop(), Some(2), "the old ones alone are converted");

    // Any write of an object migrates it to the new storage version, even if it changes nothing.
    let touched = server.patch(&path("v1", "old"), MERGE, "{}").await;
    assert_eq!(touched.code, 200, "{}", touched.body);
    let before = hook.calls().len();
    assert_eq!(spec(&server, "v2", "old").await, json!({"host": "a:1"}));
    assert_eq!(hook.calls().len(), before);

    let finalizer = r#"{"metadata":{"finalizers":["x.example.com/held"]}}"#;
    assert_eq!(server.patch(&path("v2", "gone"), MERGE, finalizer).await.code, 200);
    assert_eq!(server.delete(&path("v2", "gone")).await.code, 200);
    assert!(
        server
            .get(&path("v1", "gone"))
            .await
            .at("/metadata/deletionTimestamp")
            .is_string()
    );
    let released = server
        .patch(&path("v1", "gone"), MERGE, r#"{"metadata":{"finalizers":null}}"#)
        .await;
    assert_eq!(released.at("/spec/hostPort"), "c:1", "{}", released.body);
    assert_eq!(server.get(&path("v2", "gone")).await.code, 404);
}

async fn apply(server: &Server, version: &str, name: &str, manager: &str, host: &str, more: &str) -> Answer {
    let path = format!("{}?fieldManager={manager}{more}", path(version, name));
    server
        .patch(&path, APPLY, &widget(version, name, host).to_string())
        .await
}

#[tokio::test]
async fn managers_of_other_versions_own_the_converted_fields() {
    let (server, hook) = start().await;
    assert_eq!(apply(&server, "v1", "a", "one", "a:1", "").await.code, 201);
    // Two managers share an equal value in another version.
    let shared = apply(&server, "v2", "a", "two", "a:1", "").await;
    assert_eq!(shared.code, 200, "{}", shared.body);
    let conflict = apply(&server, "v3", "a", "three", "b:1", "").await;
    assert_eq!(conflict.code, 409, "{}", conflict.body);
    let causes = conflict.at("/details/causes").as_array().unwrap();
    let reported: Vec<(&str, &str)> = causes
        .iter()
        .map(|cause| (cause["message"].as_str().unwrap(), cause["field"].as_str().unwrap()))
        .collect();
    assert_eq!(
        reported,
        [
            (r#"conflict with "one""#, ".spec.hostPort"),
            (r#"conflict with "two""#, ".spec.host"),
        ]
    );
    let forced = apply(&server, "v3", "a", "three", "b:1", "&force=true").await;
    assert_eq!(
        (forced.code, forced.at("/spec/address")),
        (200, &json!("b:1")),
        "{}",
        forced.body
    );
    let owners = |answer: &Answer| -> Vec<String> {
        let entries = answer.at("/metadata/managedFields").as_array().unwrap().iter();
        entries
            .map(|entry| format!("{} {}", entry["manager"].as_str().unwrap(), entry["fieldsV1"]["f:spec"]))
            .collect()
    };
    let three = r#"three {"f:address":{}}"#;
    assert_eq!(owners(&forced), [three.to_owned()], "{}", forced.body);

    // An update in one version becomes the owner of the fields that it changes; a manager in another version loses them.
    let updated = server
        .patch(&path("v1", "a"), MERGE, r#"{"spec":{"hostPort":"c:1"}}"#)
        .await;
    assert_eq!(updated.code, 200, "{}", updated.body);
    let of_update = owners(&updated);
    assert!(
        of_update.iter().any(|owner| owner == r#"tests {"f:hostPort":{}}"#),
        "{of_update:?}"
    );
    assert!(!of_update.contains(&three.to_owned()), "{of_update:?}");

    // Fields that an applier omits are removed, even if it applied in another version before.
    assert_eq!(apply(&server, "v1", "a", "four", "d:1", "&force=true").await.code, 200);
    let nothing = r#"{"apiVersion":"x.example.com/v2","kind":"Widget","metadata":{"name":"a"}}"#;
    let emptied = server
        .patch(&format!("{}?fieldManager=four", path("v2", "a")), APPLY, nothing)
        .await;
    assert_eq!(
        (emptied.code, emptied.at("/spec/host")),
        (200, &Value::Null),
        "{}",
        emptied.body
    );
    assert!(hook.calls().len() > 10);
}

#[tokio::test]
async fn a_webhook_that_fails_fails_what_needs_it_and_nothing_else() {
    let (server, failing) = (Server::start().await, Arc::new(AtomicBool::new(false)));
    let fails = Arc::clone(&failing);
    let hook = Hook::start(move |review| match fails.load(Ordering::Relaxed) {
        true => Reply::Raw(500, "out of order".to_owned()),
        false => moving(review),
    })
    .await;
    define(&server, &hook, "v1").await;
    create(&server, "v1", "a", "a:1").await;
    create(&server, "v1", "b", "b:1").await;
    let mut by_webhook = server.watch(&format!("{}?watch=1", path("v2", ""))).await;
    let mut stored = server.watch(&format!("{}?watch=1", path("v1", ""))).await;
    assert_eq!(by_webhook.events(2).await, ["ADDED a", "ADDED b"]);
    assert_eq!(stored.events(2).await, ["ADDED a", "ADDED b"]);
    failing.store(true, Ordering::Relaxed);
    let why = "conversion webhook for x.example.com/v1, Kind=Widget failed: an error on the server (\"out of order\") has prevented the request from succeeding";
    for refused in [
        server.get(&path("v2", "a")).await,
        server.get(&path("v2", "")).await,
        server.get(&format!("{}?labelSelector=a%3Db", path("v2", ""))).await,
        server.patch(&path("v2", "a"), MERGE, r#"{"spec":{"size":1}}"#).await,
    ] {
        assert_eq!(
            (refused.code, refused.message(), refused.at("/reason")),
            (500, why, &Value::Null)
        );
    }
    let refused = server
        .post(&path("v2", ""), &widget("v2", "c", "c:1").to_string())
        .await;
    assert_eq!(
        (refused.code, refused.message()),
        (500, why.replace("v1", "v2").as_str())
    );
    assert_eq!(server.get(&path("v1", "c")).await.code, 404);

    // Requests for the storage version still work, and so do requests that only need metadata.
    let changed = server.patch(&path("v1", "a"), MERGE, r#"{"spec":{"size":1}}"#).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let (end, event) = by_webhook.next().await.unwrap();
    assert_eq!((end.as_str(), &event["object"]["message"]), ("ERROR ", &json!(why)));
    assert_eq!(event["object"]["reason"], "InternalError");
    assert!(by_webhook.next().await.is_none());
    assert_eq!(server.delete(&path("v2", "b")).await.code, 500);
    assert_eq!(server.delete(&path("v1", "b")).await.code, 200);
    assert_eq!(stored.events(2).await, ["MODIFIED a", "DELETED b"]);
}

#[tokio::test]
async fn the_older_reviews_ask_for_no_uid() {
    let server = Server::start().await;
    let hook = Hook::start(|review| {
        let object = moved(&review["request"]["objects"][0], "x.example.com/v2");
        let answer = json!({"response": {"result": {"status": "Success"}, "convertedObjects": [object]}});
        Reply::Raw(200, answer.to_string())
    })
    .await;
    define(&server, &hook, "v1beta1").await;
    create(&server, "v1", "a", "a:1").await;
    assert_eq!(spec(&server, "v2", "a").await, json!({"host": "a:1"}));
    assert_eq!(hook.calls()[0]["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(hook.paths()[0], "/convert?timeout=30s");
}

#[tokio::test]
async fn delete_fails_if_object_cannot_be_converted() {
    let server = Server::start().await;
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let hook = Hook::start(move |review| {
        if failing.load(Ordering::Relaxed) {
            return Reply::Raw(500, "{}".to_owned());
        }
        moving(review)
    })
    .await;
    define(&server, &hook, "v1").await;
    create(&server, "v1", "a", "x").await;
    create(&server, "v1", "b", "x").await;
    fails.store(true, Ordering::Relaxed);
    for name in ["a", ""] {
        let refused = server.delete(&path("v2", name)).await;
        assert_eq!(refused.code, 500, "{name:?}: {}", refused.body);
    }
    for name in ["a", "b"] {
        assert_eq!(server.get(&path("v1", name)).await.code, 200);
    }
    // Their storage version needs no webhook.
    assert_eq!(server.delete(&path("v1", "a")).await.code, 200);
    fails.store(false, Ordering::Relaxed);
    assert_eq!(server.delete(&path("v2", "")).await.code, 200);
    assert_eq!(server.get(&path("v1", "b")).await.code, 404);
}
