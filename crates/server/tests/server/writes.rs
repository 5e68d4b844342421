//! Writes through the whole server.

use crate::support::{APPLY, CONFIG_MAPS, MERGE, Server, config_map};
use futures_util::future::join_all;
use serde_json::json;

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
async fn object_created_by_status_apply_is_validated_as_a_whole() {
    let server = Server::start().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "A", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    let path = "/api/v1/namespaces/default/services/a/status?fieldManager=alpha";
    let refused = server.patch(path, APPLY, &service.to_string()).await;
    let message = "Service \"a\" is invalid: spec.ports: Required value";
    assert_eq!((refused.code, refused.message()), (422, message));
}

#[tokio::test]
async fn status_apply_creates_where_status_storage_allows_it() {
    let server = Server::start().await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "a"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "validations": [{"expression": "true"}],
        },
        "status": {"observedGeneration": 3},
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/a/status?fieldManager=alpha";
    let made = server.patch(path, APPLY, &policy.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["status"], json!({}));
    assert_eq!(
        made.body["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:status": {"f:observedGeneration": {}}})
    );
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "status": {"phase": "Active"}});
    let absent = server
        .patch(
            "/api/v1/namespaces/a/status?fieldManager=alpha",
            APPLY,
            &namespace.to_string(),
        )
        .await;
    assert_eq!(absent.code, 404);
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
async fn a_dry_run_names_the_key_of_another_object_without_its_prefix() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let other = config_map("a", "2").replace("\"name\":", "\"uid\":\"other\",\"name\":");
    for (query, key) in [
        ("", "/registry/configmaps/default/a"),
        ("?dryRun=All", "/configmaps/default/a"),
    ] {
        let refused = server.put(&format!("{CONFIG_MAPS}/a{query}"), &other).await;
        let reported = format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0");
        assert_eq!(refused.code, 409);
        assert!(refused.message().contains(&reported), "{}", refused.message());
    }
}

#[tokio::test]
async fn options_of_logs_are_read_and_checked() {
    let server = Server::start().await;
    for (query, code, reported) in [
        (
            "sinceTime=x",
            400,
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        (
            "stream=All",
            422,
            "PodLogOptions \"p\" is invalid: stream: Forbidden: may not be specified",
        ),
        ("sinceTime=2020-01-01T00:00:00Z", 404, "pods \"p\" not found"),
    ] {
        let answer = server
            .get(&format!("/api/v1/namespaces/default/pods/p/log?{query}"))
            .await;
        assert_eq!((answer.code, answer.message()), (code, reported));
    }
}

#[tokio::test]
async fn unknown_fields_warn_or_refuse_as_requested() {
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
async fn preconditions_of_a_deletion_come_before_admission() {
    let server = Server::start().await;
    assert_eq!(server.delete("/api/v1/namespaces/default").await.code, 403);
    let refused = server.delete("/api/v1/namespaces/default?resourceVersion=999").await;
    assert_eq!(refused.code, 409, "{}", refused.body);
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
    let existing = server.get(path).await;
    assert_eq!(
        (existing.at("/spec/replicas"), existing.at("/metadata/generation")),
        (&json!(5), &json!(2))
    );
    assert_eq!(existing.at("/metadata/managedFields/1/subresource"), "scale");
    // The store checks the uid in a PUT; for a patch, the scale subresource checks the uid of the result.
    let scale = r#"{"metadata":{"name":"web","uid":"x"},"spec":{"replicas":1}}"#;
    let put = server.put(&format!("{path}/scale"), scale).await;
    let uid = made.at("/metadata/uid").as_str().unwrap();
    let why = format!("Precondition failed: UID in precondition: x, UID in object meta: {uid}");
    assert_eq!(
        put.message(),
        format!(
            "Operation cannot be fulfilled on deployments.apps \"web\": StorageError: invalid object, Code: 4, Key: \
             /registry/deployments/default/web, ResourceVersion: 0, AdditionalErrorMsg: {why}"
        )
    );
    let patched = server
        .patch(&format!("{path}/scale"), MERGE, r#"{"metadata":{"uid":"x"}}"#)
        .await;
    let expected = format!("Operation cannot be fulfilled on deployments/scale.apps \"web\": {why}");
    assert_eq!(patched.message(), expected);
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
        // Invalid base64 is reported first, as far as the object is decoded at all.
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
    // A directive in a new list item is an unknown field.
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

#[tokio::test]
async fn create_with_resource_version_is_validated_then_rejected() {
    let server = Server::start().await;
    let with = |version: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": version},
        })
        .to_string()
    };
    let refused = server.post(CONFIG_MAPS, &with("7", "a")).await;
    assert_eq!(
        (refused.code, refused.message()),
        (500, "resourceVersion should not be set on objects to be created")
    );
    assert_eq!(server.post(CONFIG_MAPS, &with("7", "A_b")).await.code, 422);
    // A dry run ends before this check.
    let dry = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &with("7", "a")).await;
    assert_eq!((dry.code, dry.version()), (201, "7"));
    for (at, version) in ["", "0", "abc", "+7"].into_iter().enumerate() {
        let made = server.post(CONFIG_MAPS, &with(version, &format!("a{at}"))).await;
        assert_eq!(made.code, 201, "{version:?}: {}", made.body);
        assert!(made.version().parse::<u64>().is_ok(), "{version:?}");
    }
}

#[tokio::test]
async fn an_unknown_field_that_is_repeated_is_reported_once() {
    let server = Server::start().await;
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"},
        "odd":{"x":1,"x":2},"odd":1}"#;
    let refused = server.post(&strict, body).await;
    assert!(
        refused
            .message()
            .ends_with(r#"strict decoding error: duplicate field "data.k", unknown field "odd""#),
        "{}",
        refused.message()
    );
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let patch = r#"[{"op":"add","path":"/data/x","value":"1","foo":1,"foo":2},{"op":"add","op":"add","path":"/data/y","value":"1"}]"#;
    let strict = format!("{CONFIG_MAPS}/a?fieldValidation=Strict");
    let refused = server.patch(&strict, "application/json-patch+json", patch).await;
    assert!(
        refused
            .message()
            .contains(r#"json patch unknown field "[0].foo", json patch duplicate field "[1].op""#),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn repeated_owners_are_written_once_and_warned_of() {
    let server = Server::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "v"});
    let owners = json!([owner, other, owner]);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": owners}});
    let once = json!([owner, other]);
    const SAID: &str = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u\"";
    let made = server.post(CONFIG_MAPS, &body.to_string()).await;
    assert_eq!(made.at("/metadata/ownerReferences"), &once);
    let said = format!("299 - \".metadata.ownerReferences contains duplicate entries; {SAID}");
    assert_eq!(made.headers["warning"].to_str().unwrap(), said);
    let path = format!("{CONFIG_MAPS}/a");
    let put = server.put(&path, &body.to_string()).await;
    assert_eq!(put.headers["warning"].to_str().unwrap(), said);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let patched = server.patch(&path, MERGE, &patch.to_string()).await;
    let said = format!(
        "299 - \".metadata.ownerReferences contains duplicate entries after mutating admission happens; {SAID}"
    );
    assert_eq!(patched.headers["warning"].to_str().unwrap(), said);
    assert_eq!(patched.at("/metadata/ownerReferences"), &once);
}

#[tokio::test]
async fn an_object_above_the_limit_is_not_stored() {
    let server = Server::start().await;
    let with = |bytes: usize| {
        let node = json!({"metadata": {"name": "n"}, "status": {"images": [{"names": ["x".repeat(bytes)]}]}});
        node.to_string()
    };
    let refused = server.post("/api/v1/nodes", &with(1_600_000)).await;
    assert_eq!(refused.code, 500, "{}", refused.message());
    assert_eq!(refused.message(), "etcdserver: request is too large");
    assert_eq!(server.post("/api/v1/nodes", &with(1_500_000)).await.code, 201);
    let grown = json!({"metadata": {"annotations": {"a": "x".repeat(100_000)}}}).to_string();
    assert_eq!(server.patch("/api/v1/nodes/n", MERGE, &grown).await.code, 500);
    assert_eq!(server.delete("/api/v1/nodes/n").await.code, 200);
}

#[tokio::test]
async fn a_namespace_whose_name_is_made_up_has_the_label() {
    let server = Server::start().await;
    let made = server
        .post("/api/v1/namespaces", r#"{"metadata":{"generateName":"team-"}}"#)
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(
        made.at("/metadata/labels/kubernetes.io~1metadata.name"),
        made.at("/metadata/name")
    );
}

#[tokio::test]
async fn delete_collection_includes_system_priority_classes() {
    const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let server = Server::start().await;
    let class = format!("{CLASSES}/system-node-critical");
    assert_eq!(server.delete(&class).await.code, 403);
    assert_eq!(server.delete(CLASSES).await.code, 200);
    assert_eq!(server.get(&class).await.code, 404);
}

#[tokio::test]
async fn strategic_patch_decodes_as_the_kind_of_its_endpoint() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let strategic = "application/strategic-merge-patch+json";
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let refused = server
        .patch(
            &path,
            strategic,
            r#"{"data":"x","metadata":{"$retainKeys":["name"],"name":"a"}}"#,
        )
        .await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            " \"\" is invalid: patch: Invalid value: \"map[data:x metadata:map[name:a]]\": cannot restore map from string"
        )
    );
    let patched = server
        .patch(&path, strategic, r#"{"kind":"Secret","data":{"k":"2"}}"#)
        .await;
    assert_eq!(
        (patched.at("/kind"), patched.at("/data/k")),
        (&json!("ConfigMap"), &json!("2"))
    );
    let patched = server.patch(&path, MERGE, r#"{"kind":null,"data":{"k":"3"}}"#).await;
    assert_eq!(
        (patched.at("/kind"), patched.at("/data/k")),
        (&json!("ConfigMap"), &json!("3"))
    );
}

/// kube-apiserver 1.36.3 stores at most 1,572,614 characters here, after it has dropped the managed fields of the object.
/// That request has a space before the value, and identifiers of ten bytes in that etcd; in one with the default flags,
/// they have nine.
#[tokio::test]
async fn size_limit_is_that_of_a_request_to_etcd() {
    let server = Server::start().await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let revision =
        |size: usize| json!({"metadata": {"name": "r"}, "revision": 1, "data": {"v": "x".repeat(size)}}).to_string();
    // The manager is `Python-urllib` in the request to kube-apiserver.
    let path = format!("{revisions}?fieldManager=Python-urllib");
    assert_eq!(server.post(&path, &revision(1_572_617)).await.code, 500);
    let made = server.post(&path, &revision(1_572_616)).await;
    assert_eq!(
        (made.code, made.at("/metadata/managedFields")),
        (201, &serde_json::Value::Null)
    );
}

#[tokio::test]
async fn object_too_large_without_managers_is_rejected() {
    let server = Server::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |name: &str, size: usize| {
        json!({"metadata": {"name": name}, "spec": {"holderIdentity": "x".repeat(size)}}).to_string()
    };
    assert_eq!(server.post(leases, &lease("there", 1)).await.code, 201);
    let (large, there) = (lease("large", 3 << 19), lease("there", 3 << 19));
    for (dry, created, patched) in [("", 500, 500), ("?dryRun=All", 201, 200)] {
        let answers = [
            server.post(&format!("{leases}{dry}"), &large).await,
            server.patch(&format!("{leases}/there{dry}"), MERGE, &there).await,
        ];
        assert_eq!(answers.each_ref().map(|answer| answer.code), [created, patched]);
        for answer in answers.iter().filter(|answer| answer.code == 500) {
            assert_eq!(answer.message(), "etcdserver: request is too large");
        }
    }
}

fn scaler(version: &str, spec: &serde_json::Value) -> String {
    let mut whole =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    json!({
        "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": whole,
    })
    .to_string()
}

#[tokio::test]
async fn apply_changing_only_managers_keeps_the_object() {
    let server = Server::start().await;
    let path = |version: &str, manager: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/a?fieldManager={manager}")
    };
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1k"}}});
    let metrics = json!([cpu, pods]);
    let made = server
        .patch(&path("v2", "alpha"), APPLY, &scaler("v2", &json!({"metrics": metrics})))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    // In v1 the metric of the CPU has a field of its own, and would move to the end of the list.
    let shared = server
        .patch(&path("v1", "bravo"), APPLY, &scaler("v1", &json!({})))
        .await;
    assert_eq!(shared.code, 200, "{}", shared.body);
    let kept = server.get(&path("v2", "")).await;
    assert_eq!(kept.at("/spec/metrics"), &metrics);
    assert_eq!(kept.at("/metadata/managedFields/0/manager"), "bravo");
}

#[tokio::test]
async fn conversion_default_stays_when_other_version_drops_field() {
    let server = Server::start().await;
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/a?fieldManager=alpha")
    };
    let made = server
        .patch(
            &path("v1"),
            APPLY,
            &scaler("v1", &json!({"targetCPUUtilizationPercentage": 60})),
        )
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let given_up = server.patch(&path("v2"), APPLY, &scaler("v2", &json!({}))).await;
    assert_eq!(given_up.at("/spec/metrics/0/resource/target/averageUtilization"), 60);
}

#[tokio::test]
async fn create_on_update_keeps_fields_that_create_clears() {
    let server = Server::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "selfLink": "/x", "deletionGracePeriodSeconds": 5, "creationTimestamp": "2001-01-01T00:00:00Z"},
    })
    .to_string();
    let applied = server
        .patch(&format!("{leases}/a?dryRun=All&fieldManager=alpha"), APPLY, &lease)
        .await;
    let put = server.put(&format!("{leases}/a?dryRun=All"), &lease).await;
    for made in [&applied, &put] {
        assert_eq!(made.code, 201, "{}", made.body);
        assert_eq!(made.at("/metadata/selfLink"), "/x");
        assert_eq!(made.at("/metadata/deletionGracePeriodSeconds"), 5);
        assert_ne!(made.at("/metadata/creationTimestamp"), "2001-01-01T00:00:00Z");
    }
    let owned = put.at("/metadata/managedFields/0/fieldsV1");
    assert_eq!(owned, &json!({"f:metadata": {"f:deletionGracePeriodSeconds": {}}}));
    let posted = server.post(&format!("{leases}?dryRun=All"), &lease).await;
    assert_eq!(posted.body["metadata"].get("deletionGracePeriodSeconds"), None);
}
