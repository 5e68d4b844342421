//! Applies whose options ask about conflicts: `conflictDetails`, `forceFields` and `unset`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Client, MERGE, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/c";

async fn start() -> (Server, Client) {
    let started = tokio::task::spawn_blocking(|| Server::start(&Binary::debug().unwrap(), &[]).unwrap());
    let server = started.await.unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

/// Returns a Deployment with these fields in its `spec`.
fn deployment(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    object["spec"] = spec;
    object
}

/// Returns a `spec` with the image and the number of replicas.
fn whole(image: &str, replicas: u32) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web", "app.kubernetes.io/name": image}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        },
    })
}

async fn apply(client: &mut Client, path: &str, query: &str, object: Value) -> (StatusCode, Value) {
    client
        .ask(Method::PATCH, &format!("{path}?{query}"), APPLY, object)
        .await
}

async fn applied(client: &mut Client, path: &str, query: &str, object: Value) -> Value {
    let (status, answer) = apply(client, path, query, object).await;
    assert!(status.is_success(), "{answer}");
    answer
}

/// Returns the managers that own the field at this path of `fieldsV1`.
fn owners(object: &Value, path: &[&str]) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().filter(|entry| {
        let fields = path
            .iter()
            .try_fold(&entry["fieldsV1"], |fields, field| fields.get(field));
        fields.is_some()
    });
    own.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect()
}

/// Removes the time, which the entry of a scale does not have.
fn without_time(mut conflict: Value) -> Value {
    let time = conflict.as_object_mut().unwrap().remove("time").unwrap_or_default();
    let expects_time = conflict["manager"] == "platform";
    assert_eq!(
        time.as_str().is_some_and(|time| time.ends_with('Z')),
        expects_time,
        "{time}"
    );
    conflict
}

#[tokio::test]
async fn conflict_shows_owners_and_values_if_requested() {
    let (server, mut client) = start().await;
    applied(
        &mut client,
        DEPLOYMENT,
        "fieldManager=platform",
        deployment(whole("a-1", 2)),
    )
    .await;
    let scale = json!({"spec": {"replicas": 3}});
    let path = format!("{DEPLOYMENT}/scale?fieldManager=scaler");
    let (status, _) = client.ask(Method::PATCH, &path, MERGE, scale).await;
    assert_eq!(status, StatusCode::OK);

    let wish = deployment(whole("b-1", 5));
    let (status, plain) = apply(&mut client, DEPLOYMENT, "fieldManager=ci", wish.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(plain["details"].get("conflicts").is_none());
    let query = "fieldManager=ci&conflictDetails=true";
    let (status, detailed) = apply(&mut client, DEPLOYMENT, query, wish.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT);
    let conflicts = detailed["details"]["conflicts"].as_array().unwrap().clone();
    let image = r#".spec.template.spec.containers[name="main"].image"#;
    let by_platform = |field: &str, stored: &str, requested: &str| {
        json!({"field": field, "manager": "platform", "operation": "Apply", "apiVersion": "apps/v1", "stored": stored,
            "requested": requested})
    };
    assert_eq!(
        conflicts.into_iter().map(without_time).collect::<Vec<_>>(),
        [
            by_platform(".spec.template.metadata.labels.app.kubernetes.io/name", "a-1", "b-1"),
            by_platform(image, "a-1", "b-1"),
            json!({"field": ".spec.replicas", "manager": "scaler", "operation": "Update", "apiVersion": "apps/v1",
                "subresource": "scale", "stored": 3, "requested": 5}),
        ]
    );

    // All else is the answer of the reference.
    let mut rest = detailed;
    rest["details"].as_object_mut().unwrap().remove("conflicts");
    assert_eq!(rest, plain);

    // Protobuf has no place for more fields.
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let (accept, path) = ("application/vnd.kubernetes.protobuf", format!("{DEPLOYMENT}?{query}"));
    let body = Bytes::from(wish.to_string());
    let opened = connection
        .open_accepting(accept, Method::PATCH, &path, APPLY, body)
        .await;
    let answer = opened.unwrap();
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(bytes.starts_with(b"k8s\0") && !String::from_utf8_lossy(&bytes).contains("requested"));
}

#[tokio::test]
async fn conflict_details_truncate_long_values() {
    let (_server, mut client) = start().await;
    let object = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": value}});
    let config =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": value}});
    applied(&mut client, CONFIG_MAP, "fieldManager=a", config("short")).await;
    let query = "fieldManager=b&conflictDetails=true";
    let (_, answer) = apply(&mut client, CONFIG_MAP, query, config(&"x".repeat(5000))).await;
    let conflict = &answer["details"]["conflicts"][0];
    assert_eq!(conflict["stored"], "short");
    assert!(conflict.get("requested").is_none());
    let truncated = conflict["requestedTruncated"].as_str().unwrap();
    assert_eq!(truncated, format!("\"{}…", "x".repeat(4095)));
    applied(&mut client, SECRET, "fieldManager=a", object("one")).await;
    let (status, answer) = apply(&mut client, SECRET, query, object("two")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(answer["details"]["conflicts"][0]["requested"], "two");
}

#[tokio::test]
async fn forced_fields_leave_other_conflicts() {
    let (_server, mut client) = start().await;
    applied(
        &mut client,
        DEPLOYMENT,
        "fieldManager=platform",
        deployment(whole("a-1", 2)),
    )
    .await;
    let wish = deployment(whole("b-1", 5));
    let (status, answer) = apply(
        &mut client,
        DEPLOYMENT,
        "fieldManager=ci&forceFields=.spec.replicas",
        wish.clone(),
    )
    .await;
    assert_eq!(status, StatusCode::CONFLICT);
    let fields: Vec<&str> = (answer["details"]["causes"].as_array().unwrap().iter())
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            ".spec.template.metadata.labels.app.kubernetes.io/name",
            r#".spec.template.spec.containers[name="main"].image"#,
        ]
    );

    // A path names a field or everything below it.
    let all = "fieldManager=ci&forceFields=.spec.replicas,.spec.template.metadata.labels.app.kubernetes.io/name&forceFields=\
               .spec.template.spec.containers%5Bname=%22main%22%5D";
    let object = applied(&mut client, DEPLOYMENT, all, wish.clone()).await;
    assert_eq!(object["spec"]["replicas"], 5);
    assert_eq!(owners(&object, &["f:spec", "f:replicas"]), ["ci"]);
    // Entries are in the order of their times, which have seconds.
    let mut sharing = owners(&object, &["f:spec", "f:selector"]);
    sharing.sort_unstable();
    assert_eq!(sharing, ["ci", "platform"]);

    for (query, why) in [
        (
            "forceFields=spec.replicas",
            "forceFields: \"spec.replicas\" is not the path of a field: expected a dot at byte 0",
        ),
        (
            "force=true&forceFields=.spec",
            "force and forceFields may not be specified together",
        ),
    ] {
        let (status, answer) = apply(
            &mut client,
            DEPLOYMENT,
            &format!("fieldManager=ci&{query}"),
            wish.clone(),
        )
        .await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(
            (answer["reason"].as_str(), answer["message"].as_str()),
            (Some("BadRequest"), Some(why))
        );
    }
}

#[tokio::test]
async fn repeated_apply_obeys_options_of_each_request() {
    let (_server, mut client) = start().await;
    applied(
        &mut client,
        DEPLOYMENT,
        "fieldManager=platform",
        deployment(whole("a-1", 2)),
    )
    .await;
    let share = deployment(json!({"replicas": 2}));
    // The second of two equal applies may be answered from memory.
    for _ in 0..2 {
        applied(&mut client, DEPLOYMENT, "fieldManager=ci", share.clone()).await;
    }
    let query = "fieldManager=ci&unset=.spec.paused,.spec.replicas";
    let (status, answer) = apply(&mut client, DEPLOYMENT, query, share.clone()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
}

#[tokio::test]
async fn unset_removes_field_and_its_owners() {
    let (_server, mut client) = start().await;
    let mut spec = whole("a-1", 2);
    spec["minReadySeconds"] = json!(7);
    spec["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    applied(&mut client, DEPLOYMENT, "fieldManager=platform", deployment(spec)).await;
    let bare = deployment(json!({"revisionHistoryLimit": 3}));
    let env = ".spec.template.spec.containers%5Bname=%22main%22%5D.env%5Bname=%22A%22%5D";
    let unset = format!("fieldManager=ci&conflictDetails=true&unset=.spec.replicas,.spec.minReadySeconds,{env}");

    // Fields of other managers conflict.
    let (status, answer) = apply(&mut client, DEPLOYMENT, &unset, bare.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    let conflicts = answer["details"]["conflicts"].as_array().unwrap();
    let replicas = conflicts
        .iter()
        .find(|conflict| conflict["field"] == ".spec.replicas")
        .unwrap();
    assert_eq!((&replicas["stored"], replicas.get("requested")), (&json!(2), None));
    let (status, _) = apply(
        &mut client,
        DEPLOYMENT,
        &format!("{unset}&forceFields=.spec.replicas"),
        bare.clone(),
    )
    .await;
    assert_eq!(status, StatusCode::CONFLICT);

    // By force they are removed, and defaults come back.
    let object = applied(&mut client, DEPLOYMENT, &format!("{unset}&force=true"), bare.clone()).await;
    assert_eq!(object["spec"]["replicas"], 1);
    assert_eq!(object["spec"].get("minReadySeconds"), None);
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{"name": "B", "value": "2"}]));
    for field in ["f:replicas", "f:minReadySeconds"] {
        assert!(owners(&object, &["f:spec", field]).is_empty(), "{field}");
    }
    assert_eq!(owners(&object, &["f:spec", "f:revisionHistoryLimit"]), ["ci"]);

    // A second time, there is nothing to remove but the default, which has no owner.
    let again = applied(&mut client, DEPLOYMENT, &unset, bare.clone()).await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        object["metadata"]["resourceVersion"]
    );

    for (path, why) in [
        (".spec.revisionHistoryLimit", "the applied configuration sets it"),
        (".spec", "the applied configuration sets it"),
        (".metadata.name", "it identifies the object or is set by the server"),
        (
            ".spec.selector.matchLabels",
            "it is part of a field that is replaced as a whole",
        ),
        (
            r#".spec.template.spec.containers[name="main"].name"#,
            "it is a key of a list item",
        ),
        (".status", "a request to this resource does not change it"),
    ] {
        let mut status = json!({"status": {"replicas": 1}});
        status["apiVersion"] = json!("apps/v1");
        status["kind"] = json!("Deployment");
        let (code, _) = client
            .ask(Method::PATCH, &format!("{DEPLOYMENT}/status"), MERGE, status)
            .await;
        assert_eq!(code, StatusCode::OK);
        let escaped = path.replace('[', "%5B").replace(']', "%5D").replace('"', "%22");
        let query = format!("fieldManager=ci&force=true&unset={escaped}");
        let (status, answer) = apply(&mut client, DEPLOYMENT, &query, bare.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {answer}");
        assert_eq!(answer["message"], format!("{path} cannot be unset: {why}"));
    }
}

/// Each of thousands of conflicts is looked up among thousands of forced fields. The bound is generous, but a comparison of
/// all with all needs minutes.
#[tokio::test]
async fn thousands_of_forced_fields_take_little_time() {
    const FIELDS: usize = 4500;
    let (_server, mut client) = start().await;
    let config_map = |value: &str| {
        let data: serde_json::Map<_, _> = (0..FIELDS).map(|at| (format!("{at:x}"), json!(value))).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
    };
    applied(&mut client, CONFIG_MAP, "fieldManager=one", config_map("a")).await;
    let fields: Vec<String> = (0..FIELDS).map(|at| format!(".data.{at:x}")).collect();
    let lists = fields.chunks(64).map(|list| list.join(","));
    let forced: Vec<String> = lists.map(|list| format!("forceFields={list}")).collect();
    let query = format!("fieldManager=two&{}", forced.join("&"));
    let began = Instant::now();
    let answer = applied(&mut client, CONFIG_MAP, &query, config_map("b")).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(answer["data"]["0"], "b");

    let unset = format!("fieldManager=two&unset={}&unset=.data.0", fields[..64].join(","));
    let (status, answer) = apply(&mut client, CONFIG_MAP, &unset, config_map("b")).await;
    assert_eq!(
        (status, answer["message"].as_str()),
        (StatusCode::BAD_REQUEST, Some("unset: at most 64 paths are allowed"))
    );
}

#[tokio::test]
async fn items_with_one_key_are_named_or_kept() {
    let (_server, mut client) = start().await;
    let with_env = |env: Value| {
        let mut spec = whole("a-1", 1);
        spec["template"]["spec"]["containers"][0]["env"] = env;
        deployment(spec)
    };
    let env = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let both = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "x"}, {"name": "A", "value": "2"}]);
    let (status, plain) = apply(&mut client, DEPLOYMENT, "fieldManager=ci", with_env(both.clone())).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(
        plain["message"]
            .as_str()
            .unwrap()
            .contains(r#"duplicate entries for key [name="A"]"#),
        "{plain}"
    );
    assert!(plain.get("details").is_none());

    let query = "fieldManager=ci&conflictDetails=true";
    let (_, detailed) = apply(&mut client, DEPLOYMENT, query, with_env(both.clone())).await;
    assert_eq!(detailed["message"], plain["message"]);
    let collision = &detailed["details"]["collisions"][0];
    let path = r#".spec.template.spec.containers[name="main"].env[name="A"]"#;
    assert_eq!(
        (&collision["field"], &collision["positions"]),
        (&json!(path), &json!([0, 2]))
    );
    assert_eq!(collision["items"], json!([both[0], both[2]]));
    let smallest = detailed["details"]["smallestApply"].clone();
    assert_eq!(env(&smallest), json!([both[0], both[1]]));

    // Both stay if the client requests it, and the same apply changes nothing again.
    let query = "fieldManager=ci&allowDuplicates=true";
    let first = applied(&mut client, DEPLOYMENT, query, with_env(both.clone())).await;
    let stored = json!([both[0], both[2], both[1]]);
    assert_eq!(env(&first), stored);
    let second = applied(&mut client, DEPLOYMENT, query, with_env(both.clone())).await;
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    let (_, other) = apply(
        &mut client,
        DEPLOYMENT,
        "fieldManager=other&conflictDetails=true",
        with_env(both),
    )
    .await;
    assert_eq!(other["details"]["collisions"][0]["managers"], json!([r#""ci""#]));

    // The smallest apply succeeds.
    let last = applied(&mut client, DEPLOYMENT, "fieldManager=ci", smallest).await;
    assert_eq!(env(&last).as_array().unwrap().len(), 2);
}
