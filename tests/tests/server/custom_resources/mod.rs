//! Custom resources from the creation to the deletion of their CRD, through the real binary: served at once, changed
//! while they are watched, kept over a restart, and deleted with their CRD.

mod changes;
mod crds;
mod ownership;
mod stored;

use std::time::Duration;

use bytes::Bytes;
use conformance::{Binary, Server, Target, race_with_crd_deletion};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Time limit of anything that happens asynchronously.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn crd(spec: &Value) -> Value {
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

/// Sends a request and parses the response as JSON; null if it is not JSON.
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

/// Repeats a GET until the response satisfies `wanted`.
async fn until(target: &Target, path: &str, wanted: impl Fn(StatusCode, &Value) -> bool) -> Value {
    let waited = tokio::time::timeout(WAIT_TIMEOUT, async {
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

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        let holds = |of: &str| {
            conditions
                .iter()
                .any(|condition| condition["type"] == of && condition["status"] == "True")
        };
        holds("NamesAccepted") && holds("Established")
    })
}

/// Creates the CRD of widgets. An established CRD is served without waiting.
async fn define(target: &Target, spec: &Value) {
    define_as(target, &crd(spec)).await;
}

async fn define_as(target: &Target, crd: &Value) {
    let (code, answer) = ask(target, Method::POST, CRDS, JSON, crd).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    until(target, CRD, |_, crd| is_established(crd)).await;
    let (code, list) = get(target, WIDGETS).await;
    assert_eq!((code, &list["kind"]), (StatusCode::OK, &json!("WidgetList")));
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;

    let sent = widget("one", &json!({"unknown": 1}));
    let (code, made) = ask(&target, Method::POST, WIDGETS, JSON, &sent).await;
    assert_eq!((code, &made["spec"]), (StatusCode::CREATED, &json!({"size": 3})));
    let (code, rejected) = ask(
        &target,
        Method::POST,
        WIDGETS,
        JSON,
        &widget("two", &json!({"size": 10})),
    )
    .await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        rejected["message"],
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

/// Returns the error message of a rejected write.
async fn rejected(target: &Target, method: Method, path: &str, media_type: &str, body: &Value) -> String {
    let (code, answer) = ask(target, method, path, media_type, body).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    message
        .split_once(" is invalid: ")
        .map_or(message, |(_, why)| why)
        .to_owned()
}

#[tokio::test]
async fn rules_hold_on_every_way_of_writing() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let replicas = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let mut spec = replicas.clone();
    spec["properties"]["fixed"] = json!({
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
    });
    spec["x-kubernetes-validations"] = json!([{"rule": "!has(self.replica)"}]);
    let broken = rejected(&target, Method::POST, CRDS, JSON, &crd(&spec)).await;
    assert!(
        broken.contains("compilation failed: ERROR: <input>:1:5: undefined field 'replica'"),
        "{broken}"
    );

    spec["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.replicas) || self.replicas <= 5",
        "messageExpression": "'%d are too many'.format([self.replicas])",
        "fieldPath": ".replicas",
        "reason": "FieldValueForbidden",
    }]);
    let mut crd = crd(&spec);
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = &mut version["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = replicas;
    schema["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.status) || self.status.replicas <= self.spec.replicas",
        "message": "status above spec",
    }]);
    define_as(&target, &crd).await;

    const TOO_MANY: &str = "spec.replicas: Forbidden: 6 are too many";
    let (path, too_many) = (format!("{WIDGETS}/one"), json!({"spec": {"replicas": 6}}));
    let sent = |spec: Value| widget("one", &spec);
    let made = rejected(&target, Method::POST, WIDGETS, JSON, &sent(json!({"replicas": 6}))).await;
    assert_eq!(made, TOO_MANY);
    let applied = format!("{path}?fieldManager=tests");
    let why = rejected(&target, Method::PATCH, &applied, APPLY, &sent(json!({"replicas": 6}))).await;
    assert_eq!(why, TOO_MANY);
    let (code, _) = ask(
        &target,
        Method::PATCH,
        &applied,
        APPLY,
        &sent(json!({"replicas": 3, "fixed": "a"})),
    )
    .await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(
        rejected(&target, Method::PATCH, &path, MERGE, &too_many).await,
        TOO_MANY
    );
    let scale = format!("{path}/scale");
    assert_eq!(
        rejected(&target, Method::PATCH, &scale, MERGE, &too_many).await,
        TOO_MANY
    );
    let (_, mut now) = get(&target, &path).await;
    now["spec"]["fixed"] = json!("b");
    assert_eq!(
        rejected(&target, Method::PUT, &path, JSON, &now).await,
        r#"spec.fixed: Invalid value: "b": fixed is immutable"#
    );
    let status = format!("{path}/status");
    assert_eq!(
        rejected(
            &target,
            Method::PATCH,
            &status,
            MERGE,
            &json!({"status": {"replicas": 4}})
        )
        .await,
        "<nil>: Invalid value: status above spec"
    );
    let (code, _) = ask(
        &target,
        Method::PATCH,
        &status,
        MERGE,
        &json!({"status": {"replicas": 3}}),
    )
    .await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        rejected(&target, Method::PATCH, &scale, MERGE, &json!({"spec": {"replicas": 2}})).await,
        "<nil>: Invalid value: status above spec"
    );
}

#[tokio::test]
async fn a_rule_that_comes_later_warns_of_what_is_as_it_was() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    define(&target, &spec).await;
    let bad = widget("one", &json!({"a": "bad"}));
    let (code, _) = ask(&target, Method::POST, WIDGETS, JSON, &bad).await;
    assert_eq!(code, StatusCode::CREATED);
    spec["properties"]["a"]["x-kubernetes-validations"] = json!([{"rule": "self != 'bad'", "message": "a is bad"}]);
    spec["properties"]["b"]["x-kubernetes-validations"] = json!([{"rule": "self != 'no'"}]);
    let (_, mut changed) = get(&target, CRD).await;
    changed["spec"] = crd(&spec)["spec"].clone();
    let (code, _) = ask(&target, Method::PUT, CRD, JSON, &changed).await;
    assert_eq!(code, StatusCode::OK);

    const WRONG: &str = r#"spec.a: Invalid value: "bad": a is bad"#;
    let other = widget("two", &json!({"a": "bad"}));
    assert_eq!(rejected(&target, Method::POST, WIDGETS, JSON, &other).await, WRONG);
    let path = format!("{WIDGETS}/one");
    let mut connection = target.connect().await.unwrap();
    for (body, code, warned) in [
        (json!({"spec": {"b": "1"}}), StatusCode::OK, true),
        (json!({"spec": {"b": "no"}}), StatusCode::UNPROCESSABLE_ENTITY, true),
        (json!({"spec": {"a": "good"}}), StatusCode::OK, false),
        (json!({"spec": {"a": "bad"}}), StatusCode::UNPROCESSABLE_ENTITY, false),
    ] {
        let answer = connection
            .open(Method::PATCH, &path, MERGE, Bytes::from(body.to_string()))
            .await
            .unwrap();
        assert_eq!(answer.status(), code, "{body}");
        let warnings: Vec<_> = answer.headers().get_all("warning").iter().cloned().collect();
        let expected = warned.then(|| format!("299 - {WRONG:?}"));
        assert_eq!(warnings, Vec::from_iter(expected), "{body}");
        answer.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn a_changed_crd_takes_effect_at_once_and_ends_watches() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let (code, made) = ask(&target, Method::POST, WIDGETS, JSON, &widget("one", &json!({}))).await;
    assert_eq!(code, StatusCode::CREATED);

    let mut watching = target.connect().await.unwrap();
    let watch = watching.get(&format!("{WIDGETS}?watch=1"), "").await.unwrap();
    let colors = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}});
    let changed = json!({"spec": {"versions": crd(&colors)["spec"]["versions"]}});
    let (code, _) = ask(&target, Method::PATCH, CRD, MERGE, &changed).await;
    assert_eq!(code, StatusCode::OK);

    // The watch sends the existing objects, and ends.
    let reported = tokio::time::timeout(WAIT_TIMEOUT, watch.into_body().collect())
        .await
        .unwrap();
    assert_eq!(
        reported
            .unwrap()
            .to_bytes()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count(),
        1
    );
    // A new default appears in stored objects without a write.
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
async fn crds_and_their_objects_outlive_a_restart() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
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
    let target = Target::new(&server).unwrap();
    // Served from the first request on.
    assert_eq!(get(&target, &format!("{WIDGETS}/one")).await, (StatusCode::OK, made));
    let (code, _) = get(&target, "/apis/example.com").await;
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test]
async fn a_crd_takes_its_objects_along() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let held = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    for object in [held, widget("one", &json!({}))] {
        let (code, _) = ask(&target, Method::POST, WIDGETS, JSON, &object).await;
        assert_eq!(code, StatusCode::CREATED);
    }
    let (code, deleted) = ask(&target, Method::DELETE, CRD, JSON, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        deleted["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    until(&target, &format!("{WIDGETS}/one"), |code, _| {
        code == StatusCode::NOT_FOUND
    })
    .await;
    let (code, rejected) = ask(&target, Method::POST, WIDGETS, JSON, &widget("late", &json!({}))).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{rejected}");

    let free = json!({"metadata": {"finalizers": null}});
    let (code, _) = ask(&target, Method::PATCH, &format!("{WIDGETS}/held"), MERGE, &free).await;
    assert_eq!(code, StatusCode::OK);
    until(&target, CRD, |code, _| code == StatusCode::NOT_FOUND).await;
    // The server's informer of the CRD may be a moment behind.
    let gone = until(&target, WIDGETS, |code, _| code == StatusCode::NOT_FOUND).await;
    assert_eq!(gone, Value::Null);
    define(&target, &sizes()).await;
    assert_eq!(get(&target, WIDGETS).await.1["items"], json!([]));
}

#[tokio::test]
async fn creators_leave_nothing_behind_a_deleted_crd() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    for round in 0..8 {
        let outcome = race_with_crd_deletion(std::slice::from_ref(&target)).await.unwrap();
        assert_eq!(outcome.left, 0, "round {round}: {outcome:?}");
    }
}

#[tokio::test]
async fn deleted_definition_takes_no_new_objects() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let (code, _) = ask(&target, Method::PATCH, CRD, MERGE, &hold).await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = ask(&target, Method::POST, WIDGETS, JSON, &widget("one", &json!({}))).await;
    assert_eq!(code, StatusCode::CREATED);
    let (code, _) = ask(&target, Method::DELETE, CRD, JSON, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    let held = until(&target, CRD, |_, held| {
        held["metadata"]["finalizers"] == json!(["example.com/hold"])
    })
    .await;
    let conditions = held["status"]["conditions"].as_array().unwrap();
    let terminating = conditions.iter().find(|condition| condition["type"] == "Terminating");
    assert_eq!(terminating.unwrap()["reason"], "InstanceDeletionCompleted");
    for (method, path, media_type) in [
        (Method::POST, WIDGETS.to_owned(), JSON),
        (Method::PATCH, format!("{WIDGETS}/late?fieldManager=m"), APPLY),
    ] {
        let (code, rejected) = ask(&target, method, &path, media_type, &widget("late", &json!({}))).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{rejected}");
        let why = "create not allowed while custom resource definition is terminating";
        assert!(rejected["message"].as_str().unwrap().ends_with(why), "{rejected}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    let (code, _) = ask(&target, Method::PATCH, CRD, MERGE, &free).await;
    assert_eq!(code, StatusCode::OK);
    until(&target, CRD, |code, _| code == StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn documents_have_custom_resources_and_follow_their_crd() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let (code, document) = get(&target, "/openapi/v3/apis/example.com/v1").await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        document["info"],
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    );
    assert_eq!(document["components"].get("securitySchemes"), None);
    let size = |document: &Value| {
        let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
        schema["properties"]["spec"]["properties"]["size"].clone()
    };
    assert_eq!(size(&document), json!({"type": "integer", "maximum": 9, "default": 3}));
    let operation = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets"]["post"];
    assert_eq!(operation["operationId"], "createExampleComV1NamespacedWidget");

    let larger = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let changed = json!({"spec": {"versions": crd(&larger)["spec"]["versions"]}});
    let (code, _) = ask(&target, Method::PATCH, CRD, MERGE, &changed).await;
    assert_eq!(code, StatusCode::OK);
    let (_, document) = get(&target, "/openapi/v3/apis/example.com/v1").await;
    assert_eq!(size(&document), json!({"type": "integer"}));
    let (_, discovered) = get(&target, "/apis/example.com/v1").await;
    assert_eq!(discovered["resources"][0]["name"], "widgets");
    assert_eq!(discovered["resources"][1]["name"], "widgets/status");
}
