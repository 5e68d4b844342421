//! Copies of all objects into etcd and back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::{needs, shared};

const JSON: &str = "application/json";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

async fn ask(target: &Target, method: Method, path: &str, body: Bytes) -> (StatusCode, Value) {
    let mut connection = target.connect().await.unwrap();
    let (code, answer) = connection.ask(method, path, JSON, body).await.unwrap();
    (code, serde_json::from_slice(&answer).unwrap_or_default())
}

async fn get(target: &Target, path: &str) -> (StatusCode, Value) {
    ask(target, Method::GET, path, Bytes::new()).await
}

async fn create(target: &Target, collection: &str, object: Value) {
    let (code, answer) = ask(target, Method::POST, collection, object.to_string().into()).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

/// Returns the uid of an object. Waits until it is served, because the resource of a CRD is served a little later.
async fn uid(target: &Target, path: &str) -> Value {
    served(target, path).await;
    let (_, object) = get(target, path).await;
    assert!(object["metadata"]["uid"].is_string(), "{object}");
    object["metadata"]["uid"].clone()
}

async fn served(target: &Target, path: &str) {
    let end = Instant::now() + WAIT_TIMEOUT;
    while get(target, path).await.0 != StatusCode::OK {
        assert!(Instant::now() < end, "{path} is not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"app": "web"}},
    })
}

/// Paths of the objects that the tests check.
const OBJECTS: [&str; 9] = [
    "/api/v1/namespaces/default/configmaps/settings",
    "/api/v1/namespaces/default/secrets/token",
    "/apis/apps/v1/namespaces/default/deployments/web",
    "/api/v1/namespaces/default/services/web",
    "/api/v1/namespaces/default/services/other",
    "/api/v1/namespaces/default",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
    "/apis/example.com/v1/namespaces/default/widgets/first",
];

async fn fill(target: &Target) {
    let core = "/api/v1/namespaces/default";
    create(
        target,
        &format!("{core}/configmaps"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"a": "b"}},
            "data": {"text": "a < \"b\"\n"}, "binaryData": {"bytes": "AP8="}}),
    )
    .await;
    create(
        target,
        &format!("{core}/secrets"),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"t": "secret"}}),
    )
    .await;
    for name in ["web", "other"] {
        create(target, SERVICES, service(name)).await;
    }
    create(
        target,
        "/apis/apps/v1/namespaces/default/deployments",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "web:1", "resources": {"limits": {"cpu": "500m"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}}),
    )
    .await;
    create(target, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd()).await;
    served(target, WIDGETS).await;
    create(
        target,
        WIDGETS,
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "first"},
            "spec": {"size": 1.5, "none": null, "list": [1, "two"]}}),
    )
    .await;
}

/// Returns the objects without their revisions.
async fn shown(target: &Target) -> Vec<Value> {
    let mut objects = Vec::new();
    for path in OBJECTS {
        served(target, path).await;
        let mut object = get(target, path).await.1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        assert!(metadata.remove("resourceVersion").is_some(), "{path}");
        objects.push(object);
    }
    objects
}

fn copy(binary: &Binary, from: &str, to: &str) -> (bool, String) {
    let output: Output = binary
        .command()
        .args(["copy", "--from", from, "--to", to])
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn done(binary: &Binary, from: &str, to: &str) -> String {
    let (done, said) = copy(binary, from, to);
    assert!(done, "{said}");
    said
}

#[track_caller]
fn rejected(binary: &Binary, from: &str, to: &str) -> String {
    let (done, said) = copy(binary, from, to);
    assert!(!done, "{said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Flag that disables all controllers, so that nothing changes by itself.
const IDLE: &str = "--controllers=";

#[needs(etcd)]
#[tokio::test]
async fn objects_go_to_etcd_and_back_as_they_are() {
    let binary = Binary::debug().unwrap();
    let etcd = Etcd::one().unwrap();
    let mut first = Server::start(&binary, &[]).unwrap();
    fill(&Target::new(&first).unwrap()).await;
    first.end();
    first.start_anew(&[IDLE]).unwrap();
    let expected = shown(&Target::new(&first).unwrap()).await;
    let address = &expected[3]["spec"]["clusterIP"];
    let address_path = format!("/apis/networking.k8s.io/v1/ipaddresses/{}", address.as_str().unwrap());
    let ip_address = uid(&Target::new(&first).unwrap(), &address_path).await;
    let (from, to) = (first.data_dir(), etcd.endpoints());
    assert!(rejected(&binary, text(&from), &to).contains("in use"));
    first.end();

    assert!(done(&binary, text(&from), &to).contains("read them back"));
    assert!(done(&binary, text(&from), &to).contains("read them back"), "again");
    // `/registry/configmaps/default/settings`, as after an attempt that failed halfway.
    let key = "L3JlZ2lzdHJ5L2NvbmZpZ21hcHMvZGVmYXVsdC9zZXR0aW5ncw==";
    let deleted = etcd.ask(0, "/v3/kv/deleterange", &format!(r#"{{"key": "{key}"}}"#));
    assert!(deleted.unwrap().contains(r#""deleted":"1""#));
    done(&binary, text(&from), &to);

    let servers = format!("--etcd-servers={to}");
    let mut second = Server::start(&binary, &[&servers, IDLE]).unwrap();
    let target = Target::new(&second).unwrap();
    assert_eq!(shown(&target).await, expected);
    // The addresses of the Services are copied as they are.
    assert_eq!(uid(&target, &address_path).await, ip_address);
    let mut taken = service("third");
    taken["spec"]["clusterIP"] = address.clone();
    let (code, _) = ask(&target, Method::POST, SERVICES, taken.to_string().into()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    second.end();

    let other = Etcd::one().unwrap();
    for _ in 0..2 {
        done(&binary, &to, &other.endpoints());
    }
    second
        .start_anew(&[&format!("--etcd-servers={}", other.endpoints()), IDLE])
        .unwrap();
    assert_eq!(shown(&Target::new(&second).unwrap()).await, expected);
    second.end();

    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("data");
    done(&binary, &to, text(&back));
    assert!(done(&binary, &to, text(&back)).contains("already"));
    let mut third = Server::start(&binary, &[IDLE]).unwrap();
    third.end();
    let place = third.data_dir();
    assert!(rejected(&binary, &to, text(&place)).contains("already exists"));
    for name in ["store.db", "acknowledged"] {
        std::fs::remove_file(place.join(name)).unwrap();
    }
    done(&binary, &to, text(&place));
    third.start_anew(&[IDLE]).unwrap();
    let target = Target::new(&third).unwrap();
    assert_eq!(shown(&target).await, expected);
    assert_eq!(uid(&target, &address_path).await, ip_address);
    // The allocations of a Service are free after its deletion.
    let (code, _) = ask(&target, Method::DELETE, &format!("{SERVICES}/web"), Bytes::new()).await;
    assert_eq!(code, StatusCode::OK);
    taken["metadata"]["name"] = "web".into();
    create(&target, SERVICES, taken).await;
}

/// Values of an etcd below `/registry/`, by their keys, both in base64.
fn values_of(etcd: &Etcd) -> BTreeMap<String, String> {
    let range = format!(
        r#"{{"key": "{}", "range_end": "{}"}}"#,
        STANDARD.encode("/registry/"),
        STANDARD.encode("/registry0")
    );
    let answer: Value = serde_json::from_str(&etcd.ask(0, "/v3/kv/range", &range).unwrap()).unwrap();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let entries = answer["kvs"].as_array().unwrap().iter();
    entries
        .map(|entry| (text(entry, "key"), text(entry, "value")))
        .collect()
}

/// Copies an etcd to a directory and from there to another etcd, and compares the bytes, except at the keys in `excluded`.
fn assert_copies_keep_bytes(binary: &Binary, etcd: &Etcd, excluded: &BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("data");
    done(binary, &etcd.endpoints(), text(&directory));
    let other = Etcd::one().unwrap();
    done(binary, text(&directory), &other.endpoints());
    let (before, after) = (values_of(etcd), values_of(&other));
    let decoded = |text: &str| STANDARD.decode(text).unwrap().escape_ascii().to_string();
    let mut changed = Vec::new();
    for (key, value) in &before {
        let is_excluded = STANDARD
            .decode(key)
            .is_ok_and(|key| excluded.contains(&*String::from_utf8_lossy(&key)));
        if !is_excluded && after.get(key) != Some(value) {
            let there = after.get(key).map(|value| decoded(value));
            changed.push(format!("{}: {}\ninstead of {there:?}", decoded(key), decoded(value)));
        }
    }
    assert!(
        changed.is_empty(),
        "{} differ:\n{}",
        changed.len(),
        changed.join("\n\n")
    );
}

fn put(etcd: &Etcd, key: &str, value: &str) {
    let key = STANDARD.encode(key);
    etcd.ask(0, "/v3/kv/put", &format!(r#"{{"key": "{key}", "value": "{value}"}}"#))
        .unwrap();
}

#[needs(etcd)]
#[test]
fn copied_objects_come_back_with_their_bytes() {
    let binary = Binary::debug().unwrap();
    let etcd = Etcd::one().unwrap();
    // Objects that kube-apiserver wrote as JSON (`--storage-media-type`) come back as protobuf, so these go through a copy once.
    let written = Etcd::one().unwrap();
    for (key, object) in [
        (
            "/registry/controllerrevisions/default/a",
            r#"{"kind":"ControllerRevision","apiVersion":"apps/v1","metadata":{"name":"a","namespace":"default"},"data":{"z":1,"a":2},"revision":1}"#,
        ),
        (
            "/registry/csidrivers/a",
            r#"{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{"name":"a"},"spec":{"attachRequired":true}}"#,
        ),
        (
            "/registry/persistentvolumeclaims/default/created",
            r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"created","namespace":"default"},"spec":{"volumeMode":"Filesystem"},"status":{}}"#,
        ),
        (
            "/registry/persistentvolumeclaims/default/updated",
            r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"updated","namespace":"default"},"spec":{"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#,
        ),
    ] {
        let value = STANDARD.encode(object);
        put(&written, key, &value);
        if key.ends_with("updated") {
            put(&written, key, &value);
        }
    }
    done(&binary, &written.endpoints(), &etcd.endpoints());
    let held = values_of(&etcd);
    let claim = |name: &str| {
        let key = STANDARD.encode(format!("/registry/persistentvolumeclaims/default/{name}"));
        STANDARD.decode(&held[&key]).unwrap().escape_ascii().to_string()
    };
    assert!(!claim("created").contains("Pending") && claim("updated").contains("Pending"));
    assert_copies_keep_bytes(&binary, &etcd, &BTreeSet::new());
}

#[needs(etcd)]
#[tokio::test]
async fn raw_json_in_etcd_keeps_its_form_after_a_restart() {
    const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
    const RAW: &str = r#"{ "z": "<&>",  "a" : 1 }"#;
    let etcd = Etcd::one().unwrap();
    let flag = format!("--etcd-servers={}", etcd.endpoints());
    let mut server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
    let object = |data: &str, labels: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"a","labels":{labels}}},"data":{data},"revision":1}}"#
        )
    };
    let target = Target::new(&server).unwrap();
    let (code, created) = ask(&target, Method::POST, REVISIONS, object(RAW, "{}").into()).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let stored = || {
        let key = STANDARD.encode("/registry/controllerrevisions/default/a");
        let value = STANDARD.decode(&values_of(&etcd)[&key]).unwrap();
        String::from_utf8_lossy(&value).into_owned()
    };
    assert!(stored().contains(RAW), "{}", stored());

    server.end();
    server.start_anew(&[&flag]).unwrap();
    let target = Target::new(&server).unwrap();
    let path = format!("{REVISIONS}/a");
    assert_eq!(get(&target, &path).await.1, created);
    // The field is immutable, and its bytes count, as in kube-apiserver.
    let compact = r#"{"z":"<&>","a":1}"#;
    let (code, _) = ask(&target, Method::PUT, &path, object(compact, "{}").into()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let labelled = object(RAW, r#"{"after":"restart"}"#);
    let (code, updated) = ask(&target, Method::PUT, &path, labelled.into()).await;
    assert_eq!(code, StatusCode::OK, "{updated}");
    assert!(stored().contains(RAW) && stored().contains("restart"), "{}", stored());
}

/// Returns true if a copy changes the bytes of a stored object of kube-apiserver (`docs/differences.md`).
fn is_changed_by_copies(object: &Value) -> bool {
    // The policy of a Service that became an ExternalName is stored and never served.
    object["spec"]["type"] == "ExternalName"
}

#[needs(etcd, shared)]
#[test]
fn copies_of_kube_apiserver_objects_keep_bytes() {
    let binary = Binary::debug().unwrap();
    let etcd = Etcd::one().unwrap();
    let (mut uids, mut excluded) = (BTreeMap::new(), BTreeSet::new());
    for file in ["initial", "objects", "custom"] {
        let lines = std::fs::read_to_string(shared(&format!("corpus/storage/{file}.jsonl"))).unwrap();
        for line in lines.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            let key = entry["key"].as_str().unwrap();
            // Entries that servers store about themselves, and those that they derive from Services, are not copied.
            let is_made = ["masterleases", "peerserverleases", "ranges", "ipaddresses"];
            if is_made.contains(&key.split('/').nth(2).unwrap()) {
                continue;
            }
            if is_changed_by_copies(&entry["object"]) {
                excluded.insert(key.to_owned());
            }
            let uid = entry["object"]["metadata"]["uid"].clone();
            if uids
                .insert(key.to_owned(), uid.clone())
                .is_some_and(|before| before != uid)
            {
                let deleted = format!(r#"{{"key": "{}"}}"#, STANDARD.encode(key));
                etcd.ask(0, "/v3/kv/deleterange", &deleted).unwrap();
            }
            put(&etcd, key, entry["value"].as_str().unwrap());
        }
    }
    assert!(excluded.len() < 10, "{excluded:?}");
    assert_copies_keep_bytes(&binary, &etcd, &excluded);
}

/// Returns an etcd with the values of another one, each written once, as a mirror writes them.
fn mirror_of(etcd: &Etcd) -> Etcd {
    let mirror = Etcd::one().unwrap();
    for (key, value) in values_of(etcd) {
        let put = format!(r#"{{"key": "{key}", "value": "{value}"}}"#);
        mirror.ask(0, "/v3/kv/put", &put).unwrap();
    }
    mirror
}

#[needs(etcd)]
#[test]
fn copies_of_mirrored_etcd_keep_bytes_of_updated_objects() {
    let binary = Binary::debug().unwrap();
    // The copy makes protobuf of these.
    let (written, etcd) = (Etcd::one().unwrap(), Etcd::one().unwrap());
    let labels = r#"{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"updated"}"#;
    for (key, object) in [
        (
            "/registry/jobs/default/updated",
            format!(
                r#"{{"kind":"Job","apiVersion":"batch/v1","metadata":{{"name":"updated","namespace":"default","labels":{labels}}},"spec":{{"template":{{"metadata":{{"labels":{labels}}},"spec":{{"containers":[{{"name":"c","image":"i"}}],"restartPolicy":"Never"}}}}}}}}"#
            ),
        ),
        (
            "/registry/persistentvolumeclaims/default/updated",
            r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"updated","namespace":"default"},"spec":{"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#.to_owned(),
        ),
    ] {
        for _ in 0..2 {
            put(&written, key, &STANDARD.encode(&object));
        }
    }
    done(&binary, &written.endpoints(), &etcd.endpoints());
    let mirror = mirror_of(&etcd);
    let (before, there) = (values_of(&etcd), values_of(&mirror));
    assert!(before == there && before.len() == 2, "{before:?}");
    let stored: Vec<String> = before
        .values()
        .map(|value| STANDARD.decode(value).unwrap().escape_ascii().to_string())
        .collect();
    assert!(
        stored.iter().any(|value| value.matches("job-name").count() == 2),
        "{stored:?}"
    );
    assert!(stored.iter().any(|value| value.contains("Pending")), "{stored:?}");
    assert_copies_keep_bytes(&binary, &mirror, &BTreeSet::new());
    let other = Etcd::one().unwrap();
    done(&binary, &mirror.endpoints(), &other.endpoints());
    assert_eq!(values_of(&other), before);
}

#[needs(etcd)]
#[tokio::test]
async fn an_etcd_that_holds_anything_else_is_left_alone() {
    let binary = Binary::debug().unwrap();
    let etcd = Etcd::one().unwrap();
    let to = etcd.endpoints();
    let mut server = Server::start(&binary, &[IDLE]).unwrap();
    server.end();
    // `/registry/configmaps/default/a`, with a value that cannot be decoded.
    let key = "L3JlZ2lzdHJ5L2NvbmZpZ21hcHMvZGVmYXVsdC9h";
    let put = format!(r#"{{"key": "{key}", "value": "AAAA"}}"#);
    etcd.ask(0, "/v3/kv/put", &put).unwrap();
    let said = rejected(&binary, text(&server.data_dir()), &to);
    assert!(
        said.contains("/registry/configmaps/default/a, which is not copied"),
        "{said}"
    );
    let all = r#"{"key": "AA==", "range_end": "AA==", "count_only": true}"#;
    let held = etcd.ask(0, "/v3/kv/range", all).unwrap();
    assert!(held.contains(r#""count":"1""#), "{held}");

    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("data");
    let said = rejected(&binary, &to, text(&place));
    assert!(said.contains("cannot be read"), "{said}");
    assert!(!place.join("store.db").exists());
}
