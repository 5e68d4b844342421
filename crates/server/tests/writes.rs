//! What writes do to objects, through the whole server.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

mod support;

use futures_util::future::join_all;
use serde_json::json;
use support::{APPLY, CONFIG_MAPS, MERGE, Server, config_map};

#[tokio::test]
async fn a_created_object_gets_identity_and_an_owner() {
    let server = Server::start().await;
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(made.code, 201);
    assert_eq!(made.at("/metadata/uid").as_str().unwrap().len(), 36);
    assert_eq!(made.at("/metadata/managedFields/0/manager"), "tests");
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await.body, made.body);

    let again = server.post(CONFIG_MAPS, &config_map("a", "2")).await;
    assert_eq!((again.code, again.message()), (409, "configmaps \"a\" already exists"));
    let nowhere = server
        .post("/api/v1/namespaces/none/configmaps", &config_map("a", "1"))
        .await;
    assert_eq!(
        (nowhere.code, nowhere.message()),
        (404, "namespaces \"none\" not found")
    );
}

#[tokio::test]
async fn a_creation_stands_although_its_namespace_changes_meanwhile() {
    let server = Server::start().await;
    let makes = (0..8).map(|at| {
        let object = config_map(&format!("m{at}"), "1");
        let server = &server;
        async move { server.post(CONFIG_MAPS, &object).await.code }
    });
    let changes = (0..3).map(|at| {
        let label = format!("{{\"metadata\":{{\"labels\":{{\"at\":\"{at}\"}}}}}}");
        let server = &server;
        async move { server.patch("/api/v1/namespaces/default", MERGE, &label).await.code }
    });
    let (made, changed) = tokio::join!(join_all(makes), join_all(changes));
    assert_eq!((made, changed), (vec![201; 8], vec![200; 3]));
}

#[tokio::test]
async fn an_apply_makes_conflicts_with_others_unless_forced() {
    let server = Server::start().await;
    let path = |manager: &str| format!("{CONFIG_MAPS}/a?fieldManager={manager}");
    let made = server.patch(&path("alpha"), APPLY, &config_map("a", "1")).await;
    assert_eq!(made.code, 201);
    let refused = server.patch(&path("bravo"), APPLY, &config_map("a", "2")).await;
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"alpha\": .data.k"
    );
    assert_eq!(refused.at("/details/causes/0/reason"), "FieldManagerConflict");
    let forced = server
        .patch(&(path("bravo") + "&force=true"), APPLY, &config_map("a", "2"))
        .await;
    assert_eq!((forced.code, forced.at("/data/k")), (200, &json!("2")));
    let again = server.patch(&path("bravo"), APPLY, &config_map("a", "2")).await;
    assert_eq!(again.version(), forced.version());
}

#[tokio::test]
async fn a_replacement_needs_the_version_that_it_names() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(server.put(&path, &config_map("a", "2")).await.code, 200);
    let mut stale = made.body.clone();
    stale["data"]["k"] = json!("3");
    let refused = server.put(&path, &stale.to_string()).await;
    assert_eq!((refused.code, refused.at("/reason")), (409, &json!("Conflict")));
    assert_eq!(server.get(&path).await.at("/data/k"), "2");
    let missing = server.put(&format!("{CONFIG_MAPS}/b"), &config_map("b", "1")).await;
    assert_eq!(missing.code, 404);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let server = Server::start().await;
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let patched = server.patch(&path, MERGE, r#"{"data":{"k":"1"}}"#).await;
    assert_eq!(patched.version(), made.version());
    assert_eq!(server.put(&path, &config_map("a", "1")).await.version(), made.version());
}

#[tokio::test]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = Server::start().await;
    let made = server
        .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a", "1"))
        .await;
    assert_eq!((made.code, made.version()), (201, ""));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
}

#[tokio::test]
async fn unknown_fields_warn_or_refuse_as_asked() {
    let server = Server::start().await;
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dat":{}}"#;
    let warned = server.post(CONFIG_MAPS, body).await;
    assert_eq!(warned.headers["warning"], r#"299 - "unknown field \"dat\"""#);
    let refused = server
        .post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), body)
        .await;
    assert_eq!(
        refused.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dat\""
    );
}

#[tokio::test]
async fn an_object_with_finalizers_goes_with_the_last_of_them() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/x"]}}"#;
    server.post(CONFIG_MAPS, body).await;
    let marked = server.delete(&path).await;
    assert_eq!((marked.code, marked.at("/kind")), (200, &json!("ConfigMap")));
    assert_eq!(marked.at("/metadata/deletionGracePeriodSeconds"), 0);
    assert_eq!(server.delete(&path).await.version(), marked.version());
    let taken = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(
        taken.message(),
        "object is being deleted: configmaps \"a\" already exists"
    );
    let freed = server.patch(&path, MERGE, r#"{"metadata":{"finalizers":null}}"#).await;
    assert_eq!(freed.code, 200);
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_deletion_answers_with_a_status_and_minds_preconditions() {
    let server = Server::start().await;
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let options = r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"other"}}"#;
    let refused = server.send("DELETE", &path, "application/json", options).await;
    assert_eq!(refused.code, 409);
    let gone = server.delete(&path).await;
    assert_eq!((gone.code, gone.at("/status")), (200, &json!("Success")));
    assert_eq!(gone.at("/details/uid"), made.at("/metadata/uid"));
}

#[tokio::test]
async fn a_scale_is_a_view_of_the_object_that_can_be_written() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let body = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"main","image":"i"}]}}}}"#;
    let made = server.patch(&format!("{path}?fieldManager=alpha"), APPLY, body).await;
    assert_eq!((made.code, made.at("/metadata/generation")), (201, &json!(1)));
    let scaled = server
        .patch(&format!("{path}/scale"), MERGE, r#"{"spec":{"replicas":5}}"#)
        .await;
    assert_eq!(scaled.at("/spec"), &json!({"replicas": 5}));
    assert_eq!(scaled.at("/status/selector"), "a=b");
    let live = server.get(path).await;
    assert_eq!(
        (live.at("/spec/replicas"), live.at("/metadata/generation")),
        (&json!(5), &json!(2))
    );
    assert_eq!(live.at("/metadata/managedFields/1/subresource"), "scale");
}

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default";
    let both = r#"{"metadata":{"labels":{"x":"y"}},"status":{"phase":"Terminating"}}"#;
    let main = server.patch(path, MERGE, both).await;
    assert_eq!(
        (main.at("/metadata/labels/x"), main.at("/status/phase")),
        (&json!("y"), &json!("Active"))
    );
}

#[tokio::test]
async fn a_patch_that_changes_the_kind_is_read_as_that_kind() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let cases = [
        // What is no base64 is found first, as far as the object is read at all.
        (
            r#"{"kind":"Secret","data":{"k":"1"}}"#,
            "illegal base64 data at input byte 0",
        ),
        (
            r#"{"kind":"Secret","data":null}"#,
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            r#"{"kind":"Gadget"}"#,
            "no kind \"Gadget\" is registered for version \"v1\" in scheme \"holdfast\"",
        ),
    ];
    for (patch, why) in cases {
        let refused = server.patch(&path, MERGE, patch).await;
        assert_eq!(
            (refused.code, refused.at("/details/causes/0/field")),
            (422, &json!("patch"))
        );
        assert!(refused.message().ends_with(why), "{}", refused.message());
    }
}

#[tokio::test]
async fn nulls_in_items_that_a_strategic_patch_adds_are_zero_values() {
    let server = Server::start().await;
    let body = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"i"}]}}"#;
    let pods = "/api/v1/namespaces/default/pods";
    let made = server.post(pods, body).await;
    assert_eq!(made.code, 201, "{}", made.message());
    let patch =
        r#"{"metadata":{"ownerReferences":[{"uid":"u","name":"n","kind":"K","apiVersion":"v1","controller":null}]}}"#;
    let strategic = "application/strategic-merge-patch+json";
    let patched = server.patch(&format!("{pods}/p"), strategic, patch).await;
    assert_eq!(patched.code, 200, "{}", patched.message());
    let owner = json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"});
    assert_eq!(patched.at("/metadata/ownerReferences/0"), &owner);
    // A directive in an item that is new is a field that nothing knows.
    let patch = r#"{"metadata":{"ownerReferences":[{"uid":"v","name":"n","kind":"K","apiVersion":"v1","$retainKeys":["uid"]}]}}"#;
    let strict = format!("{pods}/p?fieldValidation=Strict");
    let refused = server.patch(&strict, strategic, patch).await;
    assert!(
        refused
            .message()
            .contains("unknown field \"metadata.ownerReferences[0].$retainKeys\""),
        "{}",
        refused.message()
    );
}
