//! The content of webhook calls, and the effects of their answers.

mod choice;
use crate::hook::{Hook, Reply, allow, patch};
use crate::support::{APPLY, CONFIG_MAPS, MERGE, Server, config_map};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "/v1/configmaps";
const ALL: [&str; 1] = ["*"];

/// Returns the operations and object names of the calls.
fn heard(hook: &Hook) -> Vec<String> {
    let calls = hook.calls();
    let texts = calls.iter().map(|call| {
        let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}", text("/request/operation"), text("/request/name"))
    });
    texts.collect()
}

fn add(path: &str, value: Value) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

#[tokio::test]
async fn every_write_is_heard_of_with_the_object_before_and_after() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    let webhook = hook.webhook("a.b.c", &ALL, CONFIG_MAP, json!({}));
    server.configure("validating", "a", &[webhook]).await;
    let (one, two) = (format!("{CONFIG_MAPS}/one"), format!("{CONFIG_MAPS}/two"));
    server.post(CONFIG_MAPS, &config_map("one", "1")).await;
    server.put(&one, &config_map("one", "2")).await;
    server.patch(&one, MERGE, r#"{"data":{"k":"3"}}"#).await;
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"},"data":{"k":"4"}}"#;
    server.patch(&format!("{two}?fieldManager=me"), APPLY, applied).await;
    server.delete(&one).await;
    server
        .delete(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name=two"))
        .await;
    server.get(CONFIG_MAPS).await;
    // The reference names no object when a collection is deleted.
    assert_eq!(
        heard(&hook),
        [
            "CREATE one",
            "UPDATE one",
            "UPDATE one",
            "CREATE two",
            "DELETE one",
            "DELETE "
        ]
    );
    let calls = hook.calls();
    let data: Vec<[&Value; 2]> = calls
        .iter()
        .map(|call| {
            [
                &call["request"]["object"]["data"]["k"],
                &call["request"]["oldObject"]["data"]["k"],
            ]
        })
        .collect();
    let none = &Value::Null;
    assert_eq!(
        data,
        [
            [&json!("1"), none],
            [&json!("2"), &json!("1")],
            [&json!("3"), &json!("2")],
            [&json!("4"), none],
            [none, &json!("3")],
            [none, &json!("4")],
        ]
    );
    let request = &calls[3]["request"];
    assert_eq!(request["userInfo"]["username"], "admin");
    assert_eq!(request["namespace"], "default");
    assert_eq!(request["dryRun"], false);
    assert_eq!(
        request["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"})
    );
    assert_eq!(calls[4]["request"]["options"]["kind"], "DeleteOptions");
}

#[tokio::test]
async fn a_rejection_has_the_code_and_the_words_of_the_webhook() {
    let server = Server::start().await;
    let hook = Hook::start(|_| {
        Reply::Response(json!({"allowed": false, "warnings": ["mind"], "status": {
            "code": 418, "reason": "Odd", "message": "teapot",
            "details": {"name": "x", "causes": [{"field": "data.k", "message": "bad"}]},
        }}))
    })
    .await;
    let webhook = hook.webhook("a.b.c", &["CREATE", "DELETE"], CONFIG_MAP, json!({}));
    for webhook_type in ["validating", "mutating"] {
        server
            .configure(webhook_type, "a", std::slice::from_ref(&webhook))
            .await;
        let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
        assert_eq!(
            (answer.code, answer.at("/reason")),
            (418, &json!("Odd")),
            "{}",
            answer.body
        );
        assert_eq!(
            answer.message(),
            "admission webhook \"a.b.c\" denied the request: teapot"
        );
        assert_eq!(
            answer.at("/details"),
            &json!({"name": "x", "causes": [{"field": "data.k", "message": "bad"}]})
        );
        let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
        assert_eq!(warnings, ["299 - \"mind\""]);
        server.unconfigure(webhook_type, "a").await;
    }
}

#[tokio::test]
async fn fields_added_by_webhook_are_unowned_but_validated() {
    let server = Server::start().await;
    let hook = Hook::start(|review| match review["request"]["name"].as_str() {
        Some("bad") => patch(&add("/metadata/labels", json!({"no good": "x"}))),
        Some("moved") => patch(&json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}])),
        Some("versioned") => patch(&add("/metadata/resourceVersion", json!("7"))),
        Some("wrong") => patch(&add("/data", json!("text"))),
        Some("lost") => patch(&add("/none/x", json!("1"))),
        _ => patch(&add("/data/extra", json!("1"))),
    })
    .await;
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
    server.configure("mutating", "a", &[webhook]).await;
    let made = server.post(CONFIG_MAPS, &config_map("fine", "1")).await;
    assert_eq!(made.at("/data"), &json!({"k": "1", "extra": "1"}));
    assert_eq!(
        made.at("/metadata/managedFields/0/fieldsV1"),
        &json!({"f:data": {".": {}, "f:k": {}}})
    );
    for (name, code, why) in [
        ("bad", 422, "metadata.labels: Invalid value: \"no good\""),
        (
            "moved",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "versioned",
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "wrong",
            500,
            "Internal error occurred: json: cannot unmarshal string into Go",
        ),
        (
            "lost",
            500,
            "Internal error occurred: add operation does not apply: doc is missing path: \"/none/x\": missing value",
        ),
    ] {
        let answer = server.post(CONFIG_MAPS, &config_map(name, "1")).await;
        assert_eq!(answer.code, code, "{name}: {}", answer.body);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
}

#[tokio::test]
async fn a_webhook_changes_neither_kind_nor_group() {
    let server = Server::start().await;
    let hook = Hook::start(|review| {
        let (path, value) = match review["request"]["name"].as_str() {
            Some("secret") => ("/kind", json!("Secret")),
            Some("gadget") => ("/kind", json!("Gadget")),
            Some("group") => ("/apiVersion", json!("apps/v1")),
            _ => return patch(&json!([{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}])),
        };
        patch(&json!([{"op": "replace", "path": path, "value": value}]))
    })
    .await;
    let webhook = hook.webhook(
        "a.b.c",
        &["CREATE", "UPDATE"],
        CONFIG_MAP,
        json!({"failurePolicy": "Ignore"}),
    );
    server.configure("mutating", "a", &[webhook]).await;
    for (name, why) in [
        (
            "secret",
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "gadget",
            "Internal error occurred: no kind \"Gadget\" is registered for version \"v1\" in scheme \"holdfast\"",
        ),
        (
            "group",
            "Internal error occurred: no kind \"ConfigMap\" is registered for version \"apps/v1\" in scheme \"holdfast\"",
        ),
    ] {
        let answer = server.post(CONFIG_MAPS, &config_map(name, "1")).await;
        assert_eq!((answer.code, answer.message()), (500, why), "{name}");
        assert_eq!(server.get(&format!("{CONFIG_MAPS}/{name}")).await.code, 404);
    }
    let fine = server.post(CONFIG_MAPS, &config_map("fine", "1")).await;
    assert_eq!((fine.code, fine.at("/kind")), (201, &json!("ConfigMap")));
}

#[tokio::test]
async fn a_webhook_that_spoils_who_owns_what_loses_that_change_alone() {
    let server = Server::start().await;
    let hook = Hook::start(|review| {
        let operation = match review["request"]["name"].as_str() {
            Some("spoilt") => "Guess",
            _ => "Apply",
        };
        patch(&json!([
            {"op": "add", "path": "/data/extra", "value": "1"},
            {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": operation},
        ]))
    })
    .await;
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
    server.configure("mutating", "a", &[webhook]).await;
    let spoilt = server.post(CONFIG_MAPS, &config_map("spoilt", "1")).await;
    assert_eq!((spoilt.code, spoilt.at("/data/extra")), (201, &json!("1")));
    assert_eq!(spoilt.at("/metadata/managedFields/0/operation"), "Update");
    let warning = spoilt.headers["warning"].to_str().unwrap();
    assert!(
        warning.starts_with("299 - \".metadata.managedFields was in an invalid state after admission; "),
        "{warning}"
    );
    assert!(
        warning.contains("metadata.managedFields[0].operation: Invalid value: \\\"Guess\\\""),
        "{warning}"
    );
    let fine = server.post(CONFIG_MAPS, &config_map("fine", "1")).await;
    assert_eq!(fine.at("/metadata/managedFields/0/operation"), "Apply");
    assert!(!fine.headers.contains_key("warning"));
}

#[tokio::test]
async fn fields_added_by_webhook_are_dropped_and_defaulted() {
    let server = Server::start().await;
    let hook = Hook::start(|_| {
        patch(&json!([
            {"op": "add", "path": "/status", "value": {"phase": "Running"}},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "i"}},
        ]))
    })
    .await;
    let webhook = hook.webhook("a.b.c", &["CREATE"], "/v1/pods", json!({}));
    server.configure("mutating", "a", &[webhook]).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = server.post("/api/v1/namespaces/default/pods", &pod.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.at("/status/phase"), "Pending");
    assert_eq!(
        made.at("/spec/containers/1/terminationMessagePath"),
        "/dev/termination-log"
    );
}

#[tokio::test]
async fn validating_webhook_sees_the_generated_name() {
    let server = Server::start().await;
    let (mutating, validating) = (Hook::start(|_| allow()).await, Hook::start(|_| allow()).await);
    for (webhook_type, hook) in [("mutating", &mutating), ("validating", &validating)] {
        let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
        server.configure(webhook_type, "a", &[webhook]).await;
    }
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-","uid":"mine"}}"#;
    let made = server.post(CONFIG_MAPS, body).await;
    let seen = |hook: &Hook, pointer: &str| hook.calls()[0].pointer(pointer).cloned().unwrap_or_default();
    for field in [
        "/request/name",
        "/request/object/metadata/name",
        "/request/object/metadata/uid",
    ] {
        assert_eq!(seen(&mutating, field), Value::Null, "{field}");
    }
    let name = made.at("/metadata/name");
    assert!(
        name.as_str().is_some_and(|name| name.starts_with("a-")),
        "{}",
        made.body
    );
    assert_eq!(&seen(&validating, "/request/name"), name);
    assert_eq!(
        &seen(&validating, "/request/object/metadata/uid"),
        made.at("/metadata/uid")
    );
}

#[tokio::test]
async fn a_webhook_may_be_called_again_after_others_and_after_plugins() {
    let server = Server::start().await;
    let first = Hook::start(|review| match &review["request"]["object"]["data"]["later"] {
        Value::Null => patch(&add("/data/first", json!("1"))),
        _ => patch(&add("/data/again", json!("1"))),
    })
    .await;
    let later = Hook::start(|_| patch(&add("/data/later", json!("1")))).await;
    let idle = Hook::start(|_| allow()).await;
    let wishes = json!({"reinvocationPolicy": "IfNeeded"});
    server
        .configure(
            "mutating",
            "a",
            &[
                first.webhook("first.b.c", &["CREATE"], CONFIG_MAP, wishes.clone()),
                later.webhook("later.b.c", &["CREATE"], CONFIG_MAP, json!({})),
                idle.webhook("idle.b.c", &["CREATE"], CONFIG_MAP, json!({})),
            ],
        )
        .await;
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(
        made.at("/data"),
        &json!({"k": "1", "first": "1", "later": "1", "again": "1"})
    );
    assert_eq!([&first, &later, &idle].map(|hook| hook.calls().len()), [2, 1, 1]);

    // A plugin adds tolerations to a pod; if a webhook removes one, the second round adds it again.
    let taker = Hook::start(|_| patch(&json!([{"op": "remove", "path": "/spec/tolerations"}]))).await;
    let webhook = taker.webhook("taker.b.c", &["CREATE"], "/v1/pods", json!({}));
    server.configure("mutating", "b", &[webhook]).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = server.post("/api/v1/namespaces/default/pods", &pod.to_string()).await;
    assert_eq!(
        made.at("/spec/tolerations").as_array().map(Vec::len),
        Some(2),
        "{}",
        made.body
    );
    assert_eq!(taker.calls().len(), 1);
}

#[tokio::test]
async fn failing_webhook_with_ignore_policy_lets_the_write_pass() {
    let server = Server::start().await;
    let (broken, fine) = (
        Hook::start(|_| Reply::Raw(500, String::new())).await,
        Hook::start(|_| allow()).await,
    );
    let ignore = json!({"failurePolicy": "Ignore"});
    for webhook_type in ["mutating", "validating"] {
        let webhooks = [
            broken.webhook("broken.b.c", &["CREATE"], CONFIG_MAP, ignore.clone()),
            fine.webhook("fine.b.c", &["CREATE"], CONFIG_MAP, json!({})),
        ];
        server.configure(webhook_type, "a", &webhooks).await;
    }
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    assert_eq!((broken.calls().len(), fine.calls().len()), (2, 2));
}

#[tokio::test]
async fn the_time_of_the_request_bounds_that_of_the_webhook() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({"timeoutSeconds": 30}));
    server.configure("validating", "a", &[webhook]).await;
    server
        .post(&format!("{CONFIG_MAPS}?timeout=3s"), &config_map("a", "1"))
        .await;
    server.post(CONFIG_MAPS, &config_map("b", "1")).await;
    assert_eq!(hook.paths(), ["/hook?timeout=3s", "/hook?timeout=30s"]);
}

#[tokio::test]
async fn webhook_beyond_request_timeout_fails_with_any_policy() {
    for policy in ["Ignore", "Fail"] {
        let server = Server::start().await;
        let (slow, later) = (Hook::start(|_| Reply::Nothing).await, Hook::start(|_| allow()).await);
        let more = json!({"timeoutSeconds": 30, "failurePolicy": policy});
        let slow = slow.webhook("a.b.c", &["CREATE"], CONFIG_MAP, more);
        let webhook = later.webhook("d.b.c", &["CREATE"], CONFIG_MAP, json!({}));
        server.configure("mutating", "a", &[slow, webhook]).await;
        let answer = server
            .post(&format!("{CONFIG_MAPS}?timeout=100ms"), &config_map("a", "1"))
            .await;
        assert_eq!(
            (answer.code, answer.message()),
            (504, "Timeout: request did not complete within the allotted timeout")
        );
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
        assert_eq!(later.calls().len(), 0);
    }
}

#[tokio::test]
async fn a_patch_is_for_objects_that_will_be_there() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let hook = Hook::start(|_| patch(&add("/data/extra", json!("1")))).await;
    let webhook = hook.webhook("a.b.c", &["DELETE"], CONFIG_MAP, json!({}));
    server.configure("mutating", "a", &[webhook]).await;
    let answer = server.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(
        answer.message(),
        "Internal error occurred: admission webhook \"a.b.c\" attempted to modify the object, which is not supported for this operation"
    );
}

#[tokio::test]
async fn dry_runs_are_marked_as_such() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    let webhook = hook.webhook("a.b.c", &ALL, CONFIG_MAP, json!({}));
    server.configure("validating", "a", &[webhook]).await;
    server
        .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a", "1"))
        .await;
    let request = &hook.calls()[0]["request"];
    assert_eq!(
        (&request["dryRun"], &request["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
}
