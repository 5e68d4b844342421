//! Custom resources from their definition to their end, through the real binary: served at once, changed while they are
//! watched, kept over a restart, and gone with their definition.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "what fails here is the test")]

use std::time::Duration;

use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// How long anything takes at the longest that takes its own time.
const PATIENCE: Duration = Duration::from_secs(20);

fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn sizes() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 9, "default": 3}}})
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Asks, and reads the answer as JSON; null where it is none.
async fn ask(target: &Target, method: Method, path: &str, media_type: &str, body: &Value) -> (StatusCode, Value) {
    let mut connection = target.connect().await.unwrap();
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let (code, bytes) = connection.ask(method, path, media_type, body).await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(target: &Target, path: &str) -> (StatusCode, Value) {
    ask(target, Method::GET, path, "", &Value::Null).await
}

/// Asks until the answer is as it should be.
async fn until(target: &Target, path: &str, wanted: impl Fn(StatusCode, &Value) -> bool) -> Value {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let (code, answer) = get(target, path).await;
            if wanted(code, &answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        let holds = |of: &str| {
            conditions
                .iter()
                .any(|condition| condition["type"] == of && condition["status"] == "True")
        };
        holds("NamesAccepted") && holds("Established")
    })
}

/// Defines widgets; what is established is served, without waiting.
async fn define(target: &Target, spec: &Value) {
    let (code, answer) = ask(target, Method::POST, DEFINITIONS, JSON, &definition(spec)).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    until(target, DEFINITION, |_, definition| is_established(definition)).await;
    let (code, list) = get(target, WIDGETS).await;
    assert_eq!((code, &list["kind"]), (StatusCode::OK, &json!("WidgetList")));
}

#[tokio::test]
async fn objects_are_pruned_filled_in_and_checked_as_the_definition_says() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::of(&server).unwrap();
    define(&target, &sizes()).await;

    let sent = widget("one", &json!({"unknown": 1}));
    let (code, made) = ask(&target, Method::POST, WIDGETS, JSON, &sent).await;
    assert_eq!((code, &made["spec"]), (StatusCode::CREATED, &json!({"size": 3})));
    let (code, refused) = ask(
        &target,
        Method::POST,
        WIDGETS,
        JSON,
        &widget("two", &json!({"size": 10})),
    )
    .await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused["message"],
        "Widget.example.com \"two\" is invalid: spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"
    );
    let path = format!("{WIDGETS}/one");
    let applied = format!("{path}?fieldManager=tests&force=true");
    let (code, applied) = ask(
        &target,
        Method::PATCH,
        &applied,
        APPLY,
        &widget("one", &json!({"size": 5})),
    )
    .await;
    assert_eq!((code, &applied["spec"]), (StatusCode::OK, &json!({"size": 5})));
    assert_eq!(applied["metadata"]["generation"], 2);
    let (code, _) = ask(
        &target,
        Method::PATCH,
        &path,
        "application/strategic-merge-patch+json",
        &json!({}),
    )
    .await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_changed_definition_takes_effect_at_once_and_ends_watches() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::of(&server).unwrap();
    define(&target, &sizes()).await;
    let (code, made) = ask(&target, Method::POST, WIDGETS, JSON, &widget("one", &json!({}))).await;
    assert_eq!(code, StatusCode::CREATED);

    let mut watching = target.connect().await.unwrap();
    let watch = watching.get(&format!("{WIDGETS}?watch=1"), "").await.unwrap();
    let colors = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}});
    let changed = json!({"spec": {"versions": definition(&colors)["spec"]["versions"]}});
    let (code, _) = ask(&target, Method::PATCH, DEFINITION, MERGE, &changed).await;
    assert_eq!(code, StatusCode::OK);

    // The watch tells of what was there, and ends.
    let told = tokio::time::timeout(PATIENCE, watch.into_body().collect())
        .await
        .unwrap();
    assert_eq!(
        told.unwrap().to_bytes().iter().filter(|byte| **byte == b'\n').count(),
        1
    );
    // A new default shows in what is stored, without a change of it.
    let (_, shown) = get(&target, &format!("{WIDGETS}/one")).await;
    assert_eq!(shown["spec"], json!({"size": 3, "color": "red"}));
    assert_eq!(
        shown["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let (code, _) = ask(
        &target,
        Method::POST,
        WIDGETS,
        JSON,
        &widget("large", &json!({"size": 10})),
    )
    .await;
    assert_eq!(code, StatusCode::CREATED);
}

#[tokio::test]
async fn definitions_and_their_objects_outlive_a_restart() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::of(&server).unwrap();
    define(&target, &sizes()).await;
    let (_, made) = ask(
        &target,
        Method::POST,
        WIDGETS,
        JSON,
        &widget("one", &json!({"size": 4})),
    )
    .await;

    let server = server.restart(&[]).unwrap();
    let target = Target::of(&server).unwrap();
    // Served from the first request on.
    assert_eq!(get(&target, &format!("{WIDGETS}/one")).await, (StatusCode::OK, made));
    let (code, _) = get(&target, "/apis/example.com").await;
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::of(&server).unwrap();
    define(&target, &sizes()).await;
    let held = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    for object in [held, widget("one", &json!({}))] {
        let (code, _) = ask(&target, Method::POST, WIDGETS, JSON, &object).await;
        assert_eq!(code, StatusCode::CREATED);
    }
    let (code, deleted) = ask(&target, Method::DELETE, DEFINITION, JSON, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        deleted["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    until(&target, &format!("{WIDGETS}/one"), |code, _| {
        code == StatusCode::NOT_FOUND
    })
    .await;
    let (code, refused) = ask(&target, Method::POST, WIDGETS, JSON, &widget("late", &json!({}))).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");

    let free = json!({"metadata": {"finalizers": null}});
    let (code, _) = ask(&target, Method::PATCH, &format!("{WIDGETS}/held"), MERGE, &free).await;
    assert_eq!(code, StatusCode::OK);
    until(&target, DEFINITION, |code, _| code == StatusCode::NOT_FOUND).await;
    assert_eq!(get(&target, WIDGETS).await, (StatusCode::NOT_FOUND, Value::Null));
    define(&target, &sizes()).await;
    assert_eq!(get(&target, WIDGETS).await.1["items"], json!([]));
}

#[tokio::test]
async fn documents_tell_of_custom_resources_and_follow_their_definition() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::of(&server).unwrap();
    define(&target, &sizes()).await;
    let (code, document) = get(&target, "/openapi/v3/apis/example.com/v1").await;
    assert_eq!(code, StatusCode::OK);
    let size = |document: &Value| {
        let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
        schema["properties"]["spec"]["properties"]["size"].clone()
    };
    assert_eq!(size(&document), json!({"type": "integer", "maximum": 9, "default": 3}));
    let operation = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets"]["post"];
    assert_eq!(operation["operationId"], "createExampleComV1NamespacedWidget");

    let larger = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let changed = json!({"spec": {"versions": definition(&larger)["spec"]["versions"]}});
    let (code, _) = ask(&target, Method::PATCH, DEFINITION, MERGE, &changed).await;
    assert_eq!(code, StatusCode::OK);
    let (_, document) = get(&target, "/openapi/v3/apis/example.com/v1").await;
    assert_eq!(size(&document), json!({"type": "integer"}));
    let (_, discovered) = get(&target, "/apis/example.com/v1").await;
    assert_eq!(discovered["resources"][0]["name"], "widgets");
    assert_eq!(discovered["resources"][1]["name"], "widgets/status");
}
