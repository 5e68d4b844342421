//! Responses that differ from kube-apiserver's on purpose or due to the storage of objects: each row of
//! `docs/differences.md` that a request can show. If a difference disappears, its test fails, and its row is removed.

use bytes::Bytes;
use conformance::{ADMIN_TOKEN, Binary, Client, MERGE, Server, Target, USER_TOKEN};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRDS_DRY: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

/// Sends a request and returns the status and body of the response.
async fn ask(server: &Server, method: Method, path: &str, media_type: &str, body: &str) -> (u16, Value) {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let body = Bytes::from(body.to_owned());
    let (status, bytes) = connection.ask(method, path, media_type, body).await.unwrap();
    (status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn post(server: &Server, path: &str, body: Value) -> (u16, Value) {
    ask(server, Method::POST, path, JSON, &body.to_string()).await
}

async fn start() -> Server {
    tokio::task::spawn_blocking(|| Server::start(&Binary::debug().unwrap(), &[]).unwrap())
        .await
        .unwrap()
}

/// Returns a CRD whose objects have this schema as their `spec`.
fn crd(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.differences.example.com"},
        "spec": {
            "group": "differences.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn rule(rule: &str) -> Value {
    crd(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }))
}

#[tokio::test]
async fn raw_bytes_change_by_the_form_they_were_sent_in() {
    let server = start().await;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let append = r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#;
    // kube-apiserver's responses to a merge patch, a JSON patch and a strategic merge patch.
    for (at, (data, codes)) in [
        (r#"{"a":1}"#, [200, 200, 200]),
        (r#"{"a":"\u003c"}"#, [200, 200, 200]),
        (r#"{"b":1,"a":1}"#, [200, 200, 422]),
        (r#"{"a":1.0}"#, [200, 200, 422]),
        (r#"{"a": 1}"#, [422, 422, 422]),
        (r#"{ }"#, [422, 422, 422]),
        (r#"{"a":"<"}"#, [422, 422, 422]),
    ]
    .into_iter()
    .enumerate()
    {
        // White space around the raw value does not count: clients end a body with a line break, and some indent it.
        for (indented, body) in [
            format!(
                r#"{{"metadata":{{"name":"r{at}-0"}},"revision":1,"data":{data}}}{}"#,
                "\n"
            ),
            format!("{{\n  \"metadata\": {{\"name\": \"r{at}-1\"}},\n  \"revision\": 1,\n  \"data\" : {data}\n}}"),
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(ask(&server, Method::POST, path, JSON, body).await.0, 201, "{body}");
            let one = format!("{path}/r{at}-{indented}?dryRun=All");
            let patches = [(MERGE, label), (JSON_PATCH, append), (STRATEGIC, label)];
            for ((media_type, patch), code) in patches.into_iter().zip(codes) {
                let (answered, answer) = ask(&server, Method::PATCH, &one, media_type, patch).await;
                assert_eq!(answered, code, "{media_type} of {body}: {answer}");
            }
        }
    }
    // A client that sends back the text of an answer changes no raw extension; one that sorts the keys does.
    let one = format!("{path}/r2-0");
    let (_, stored) = ask(&server, Method::GET, &one, JSON, "").await;
    let version = stored["metadata"]["resourceVersion"].as_str().unwrap();
    for (data, code) in [(r#"{"b":1,"a":1}"#, 200), (r#"{"a":1,"b":1}"#, 422)] {
        let body =
            format!(r#"{{"metadata":{{"name":"r2-0","resourceVersion":"{version}"}},"revision":1,"data":{data}}}"#);
        assert_eq!(
            ask(&server, Method::PUT, &format!("{one}?dryRun=All"), JSON, &body)
                .await
                .0,
            code,
            "{data}"
        );
    }
    let spaced = r#"{"metadata":{"name":"r4-0"},"revision":2,"data":{"a": 1}}"#;
    let one = format!("{path}/r4-0");
    assert_eq!(ask(&server, Method::PUT, &one, JSON, spaced).await.0, 200);
    let compact = spaced.replace("2,", "3,").replace("\"a\": 1", "\"a\":1");
    assert_eq!(ask(&server, Method::PUT, &one, JSON, &compact).await.0, 422);
    // An apply that changes no field leaves the bytes as they are.
    let applied = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r4-0"},"revision":2,"data":{"a":1}}"#;
    let by_other = format!("{one}?fieldManager=other");
    assert_eq!(ask(&server, Method::PATCH, &by_other, APPLY, applied).await.0, 200);
    let again = spaced.replace("2,", "3,");
    assert_eq!(ask(&server, Method::PUT, &one, JSON, &again).await.0, 200);
    let wider = again.replace("\"a\": 1", "\"a\":  1");
    assert_eq!(ask(&server, Method::PUT, &one, JSON, &wider).await.0, 422);
}

#[tokio::test]
async fn claims_with_parameters_can_be_annotated() {
    let server = start().await;
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let claim = |name: &str, parameters: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"devices":{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"c"}}}}],"config":[{{"opaque":{{"driver":"d.example.com","parameters":{parameters}}}}}]}}}}}}{}"#,
            "\n"
        )
    };
    let annotation = r#"{"metadata":{"annotations":{"a":"b"}}}"#;
    for (name, parameters, code) in [("one", r#"{"a":1}"#, 200), ("two", r#"{"a": 1}"#, 422)] {
        let made = ask(&server, Method::POST, path, JSON, &claim(name, parameters)).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let (answered, answer) = ask(&server, Method::PATCH, &format!("{path}/{name}"), MERGE, annotation).await;
        assert_eq!(answered, code, "{answer}");
    }
}

#[tokio::test]
async fn empty_lists_are_absent_in_places() {
    let server = start().await;
    let keyword = crd(json!({"type": "object", "anyOf": []}));
    assert_eq!(post(&server, CRDS_DRY, keyword).await.0, 201);
}

#[tokio::test]
async fn times_are_read_by_what_they_mean() {
    let server = start().await;
    let zero = json!({"metadata": {"name": "zero", "creationTimestamp": "0001-01-01T01:00:00+01:00"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(post(&server, maps, zero.clone()).await.0, 201);
    let updated = ask(&server, Method::PUT, &format!("{maps}/zero"), JSON, &zero.to_string()).await;
    assert_eq!(updated.0, 200);

    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let containers = json!([{"name": "main", "image": "registry.example.com/main:1"}]);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    let job = json!({"metadata": {"name": "one"}, "spec": {"template": template}});
    assert_eq!(post(&server, jobs, job).await.0, 201);
    for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z"] {
        let reported = json!({"status": {"startTime": time}}).to_string();
        let (status, job) = ask(&server, Method::PATCH, &format!("{jobs}/one/status"), MERGE, &reported).await;
        assert_eq!(
            (status, &job["status"]["startTime"]),
            (200, &json!("2026-01-01T00:00:00Z"))
        );
    }
}

#[tokio::test]
async fn numbers_that_no_float_holds_are_no_amounts() {
    let server = start().await;
    let path = "/api/v1/namespaces/default/resourcequotas?dryRun=All";
    let quota = |cpu: &str| format!(r#"{{"metadata":{{"name":"one"}},"spec":{{"hard":{{"cpu":{cpu}}}}}}}"#);
    assert_eq!(ask(&server, Method::POST, path, JSON, &quota("1e400")).await.0, 400);
    assert_eq!(ask(&server, Method::POST, path, JSON, &quota("\"1e400\"")).await.0, 201);
}

#[tokio::test]
async fn expressions_have_bounds_and_no_messages_of_protocol_buffers() {
    let server = start().await;
    let sum = |terms: usize| rule(&format!("{} > 0", vec!["1"; terms].join("+")));
    assert_eq!(post(&server, CRDS_DRY, sum(200)).await.0, 201);
    assert_eq!(post(&server, CRDS_DRY, sum(260)).await.0, 422);
    let message = rule("google.protobuf.Int32Value{value: 1} == 1");
    assert_eq!(post(&server, CRDS_DRY, message).await.0, 422);
}

#[tokio::test]
async fn histories_that_are_not_kept_are_refused() {
    let server = start().await;
    let path = "/api/v1/configmaps?resourceVersion=1&resourceVersionMatch=Exact";
    assert_eq!(ask(&server, Method::GET, path, "", "").await.0, 410);
}

#[tokio::test]
async fn documents_are_512_levels_deep_at_most() {
    let server = start().await;
    let nested = |levels: usize| {
        let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"unknown":{value}}}"#)
    };
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    assert_eq!(ask(&server, Method::POST, path, JSON, &nested(500)).await.0, 201);
    let (status, rejection) = ask(&server, Method::POST, path, JSON, &nested(600)).await;
    assert_eq!(status, 400);
    assert!(rejection["message"].as_str().unwrap().contains("depth"), "{rejection}");
}

#[tokio::test]
async fn empty_sums_are_numbers() {
    let server = start().await;
    let rule = "self.seconds.sum() == duration('0')";
    let seconds = json!({"type": "array", "maxItems": 2, "items": {"type": "string", "format": "duration"}});
    let mut client = Client::new(&server).await;
    let defined = crd(json!({
        "type": "object",
        "properties": {"seconds": seconds},
        "x-kubernetes-validations": [{"rule": rule}],
    }));
    client.make(CRDS, defined).await;
    let things = "/apis/differences.example.com/v1/namespaces/default/things";
    client.until(things, |status, _| status == 200).await;
    let thing = json!({
        "apiVersion": "differences.example.com/v1", "kind": "Thing",
        "metadata": {"name": "one"}, "spec": {"seconds": []},
    });
    let (status, rejection) = post(&server, things, thing).await;
    assert_eq!(status, 422);
    assert!(rejection["message"].as_str().unwrap().contains(rule), "{rejection}");
}

#[tokio::test]
async fn a_target_ends_at_a_number_sign() {
    let server = start().await;
    let mut socket = Target::new(&server).unwrap().raw().await.unwrap();
    let request = format!(
        "GET /api/v1/namespaces/default#x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\
         Connection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn roles_are_those_of_kubernetes() {
    let server = start().await;
    let mut alice = Target::new(&server)
        .unwrap()
        .with_token(USER_TOKEN)
        .connect()
        .await
        .unwrap();
    let answer = alice.get("/.well-known/openid-configuration", JSON).await.unwrap();
    assert_eq!(answer.status(), 403);
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let (_, roles) = ask(&server, Method::GET, path, "", "").await;
    let names: Vec<&str> = roles["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"system:service-account-issuer-discovery"));
    assert!(!names.iter().any(|name| name.contains("openshift")), "{names:?}");
}

#[tokio::test]
async fn roles_that_gather_others_have_their_rules_from_the_start() {
    let off = ["--controllers=-clusterrole-aggregation-controller"];
    let server = Server::start(&Binary::debug().unwrap(), &off).unwrap();
    for name in ["admin", "edit", "view"] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        let (_, role) = ask(&server, Method::GET, &path, "", "").await;
        assert!(role["aggregationRule"].is_object(), "{role}");
        assert!(
            role["rules"].as_array().is_some_and(|rules| !rules.is_empty()),
            "{role}"
        );
    }
}

#[tokio::test]
async fn text_is_utf_8() {
    let server = start().await;
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let body = Bytes::from_static(b"{\"metadata\":{\"name\":\"one\"},\"data\":{\"k\":\"\xff\"}}");
    let (status, made) = connection.ask(Method::POST, path, JSON, body).await.unwrap();
    assert_eq!(status, 201);
    let made: Value = serde_json::from_slice(&made).unwrap();
    assert_eq!(made["data"]["k"], "\u{fffd}");
}
