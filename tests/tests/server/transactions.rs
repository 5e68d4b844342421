//! `POST /apis/holdfast.dev/v1/transactions` and `holdfast apply --atomic`: all operations are stored, or none.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use conformance::{Binary, Client, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;

const TRANSACTIONS: &str = "/apis/holdfast.dev/v1/transactions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Time limit of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

async fn start(flags: Vec<String>) -> (Server, Client) {
    let started = tokio::task::spawn_blocking(move || {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::start(&Binary::debug().unwrap(), &flags).unwrap()
    });
    let server = started.await.unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

fn target(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name})
}

fn request(operations: &[Value]) -> Value {
    json!({"apiVersion": "holdfast.dev/v1", "kind": "Transaction", "spec": {"fieldManager": "tests", "operations": operations}})
}

async fn transact(client: &mut Client, operations: &[Value]) -> (StatusCode, Value) {
    client.ask(Method::POST, TRANSACTIONS, JSON, request(operations)).await
}

async fn committed(client: &mut Client, operations: &[Value]) -> Vec<Value> {
    let (status, answer) = transact(client, operations).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(
        (&answer["kind"], &answer["status"]["committed"]),
        (&json!("Transaction"), &json!(true))
    );
    answer["status"]["operations"].as_array().unwrap().clone()
}

/// Sends operations of which the one at `index` fails with `code`.
async fn rejected(client: &mut Client, operations: &[Value], index: usize, code: u16) -> Value {
    let (status, answer) = transact(client, operations).await;
    assert_eq!((status.as_u16(), &answer["kind"]), (code, &json!("Status")), "{answer}");
    assert_eq!(answer["details"]["operationIndex"], index, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("operations[{index}]: ")), "{message}");
    answer
}

fn revision(object: &Value) -> u64 {
    let version = &object["metadata"]["resourceVersion"];
    version.as_str().unwrap_or_else(|| panic!("{object}")).parse().unwrap()
}

async fn value(client: &mut Client, name: &str) -> Option<String> {
    let (_, object) = client.get(&format!("{CONFIG_MAPS}/{name}")).await;
    object["data"]["k"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn every_kind_of_operation_is_stored_in_one_step() {
    let (server, mut client) = start(vec!["--controllers=".to_owned()]).await;
    for name in ["updated", "patched", "deleted", "read", "same"] {
        client.make(CONFIG_MAPS, config_map(name, "1")).await;
    }
    let (_, read) = client.get(&format!("{CONFIG_MAPS}/read")).await;
    let (_, list) = client.get(CONFIG_MAPS).await;
    let before = revision(&list);
    let mut watch = Target::new(&server).unwrap().connect().await.unwrap();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={before}");
    let mut events = watch.get(&path, JSON).await.unwrap().into_body();

    let operations = [
        json!({"operation": "Check", "target": target("read"), "preconditions":
            {"uid": read["metadata"]["uid"], "resourceVersion": read["metadata"]["resourceVersion"]}}),
        json!({"operation": "Apply", "object": config_map("applied", "2")}),
        json!({"operation": "Create", "object":
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "generated-"}, "data": {"k": "2"}}}),
        json!({"operation": "Update", "object": config_map("updated", "2")}),
        json!({"operation": "Patch", "target": target("patched"), "patchType": "JSON",
            "patch": [{"op": "replace", "path": "/data/k", "value": "2"}]}),
        json!({"operation": "Delete", "target": target("deleted")}),
        json!({"operation": "Patch", "target": target("same"), "patch": {"data": {"k": "1"}}}),
        json!({"operation": "Check", "target": target("absent"), "preconditions": {"absent": true}}),
    ];
    let results = committed(&mut client, &operations).await;
    let kinds: Vec<&str> = results
        .iter()
        .map(|result| result["result"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "Checked",
            "Created",
            "Created",
            "Updated",
            "Updated",
            "Deleted",
            "Unchanged",
            "Checked"
        ]
    );
    let versions: Vec<u64> = results[1..6]
        .iter()
        .map(|result| result["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(versions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{versions:?}");
    assert!(results[2]["name"].as_str().unwrap().starts_with("generated-"));
    assert_eq!(results[4]["namespace"], "default");

    // A watch gets the events with these versions, so that it can resume between any two of them.
    let mut text = String::new();
    while text.lines().count() < 5 || !text.ends_with('\n') {
        let frame = tokio::time::timeout(WAIT_TIMEOUT, events.frame())
            .await
            .unwrap()
            .unwrap();
        text += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
    }
    let seen: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen_versions: Vec<u64> = seen.iter().map(|event| revision(&event["object"])).collect();
    assert_eq!(seen_versions, versions);
    assert_eq!(
        (&seen[4]["type"], &seen[4]["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("deleted"))
    );
    for name in ["applied", "updated", "patched"] {
        assert_eq!(value(&mut client, name).await.as_deref(), Some("2"), "{name}");
    }
    assert_eq!(value(&mut client, "deleted").await, None);
}

#[tokio::test]
async fn failed_operation_is_named_and_nothing_is_stored() {
    let (_server, mut client) = start(Vec::new()).await;
    client.make(CONFIG_MAPS, config_map("existing", "1")).await;
    let other = json!({"operation": "Apply", "object": config_map("new", "1")});
    let cases = [
        (
            json!({"operation": "Create", "object": config_map("existing", "2")}),
            409,
        ),
        (
            json!({"operation": "Create", "object": config_map("Bad_Name", "2")}),
            422,
        ),
        (
            json!({"operation": "Update", "object": config_map("missing", "2")}),
            404,
        ),
        (
            json!({"operation": "Patch", "target": target("missing"), "patch": {}}),
            404,
        ),
        (json!({"operation": "Delete", "target": target("missing")}), 404),
        (
            json!({"operation": "Apply", "object": config_map("existing", "2")}),
            409,
        ),
        (json!({"operation": "Apply", "object": config_map("new", "2")}), 400),
        (
            json!({"operation": "Check", "target": target("missing"), "preconditions": {"uid": "x"}}),
            404,
        ),
        (
            json!({"operation": "Check", "target": target("existing"), "preconditions": {"absent": true}}),
            409,
        ),
        (json!({"operation": "Check", "target": target("existing")}), 400),
        (
            json!({"operation": "Patch", "target": target("existing"), "patch": {"data": {"k": "2"}},
            "preconditions": {"resourceVersion": "1"}}),
            409,
        ),
        (
            json!({"operation": "Delete", "target": target("existing"), "options": {"preconditions": {"uid": "x"}}}),
            409,
        ),
        (
            json!({"operation": "Delete", "object": config_map("existing", "2")}),
            400,
        ),
        (
            json!({"operation": "Replace", "object": config_map("existing", "2")}),
            400,
        ),
        (
            json!({"operation": "Apply", "object": {"apiVersion": "none/v1", "kind": "None", "metadata": {"name": "x"}}}),
            400,
        ),
        (json!(5), 400),
    ];
    for (operation, code) in cases {
        let answer = rejected(&mut client, &[other.clone(), operation.clone()], 1, code).await;
        if code == 409 && operation["operation"] == "Apply" {
            assert_eq!(answer["details"]["conflicts"][0]["field"], ".data.k");
        }
        assert_eq!(value(&mut client, "new").await, None, "{operation}");
    }
    let (status, _) = transact(&mut client, &[]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let many = vec![other.clone(); 501];
    let (status, _) = transact(&mut client, &many).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // A dry run reports the same and stores nothing.
    let path = format!("{TRANSACTIONS}?dryRun=All");
    let (status, answer) = client.ask(Method::POST, &path, JSON, request(&[other])).await;
    assert_eq!(
        (status, &answer["status"]["committed"]),
        (StatusCode::CREATED, &json!(false))
    );
    assert_eq!(answer["status"]["operations"][0]["result"], "Created");
    assert_eq!(value(&mut client, "new").await, None);
}

#[tokio::test]
async fn later_operation_builds_on_earlier_one() {
    let (_server, mut client) = start(vec!["--controllers=*".to_owned()]).await;
    let in_new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "new"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    let apply = |object: &Value| json!({"operation": "Apply", "object": object});
    rejected(&mut client, &[apply(&in_new), apply(&namespace)], 0, 404).await;
    committed(&mut client, &[apply(&namespace), apply(&in_new)]).await;
    let (status, _) = client.get("/api/v1/namespaces/new/configmaps/a").await;
    assert_eq!(status, StatusCode::OK);

    // The charges of all operations add up in the quota.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/secrets": "3"}}});
    let quotas = "/api/v1/namespaces/new/resourcequotas";
    client.make(quotas, quota).await;
    let path = format!("{quotas}/q");
    client
        .until(&path, |_, quota| quota["status"]["used"]["count/secrets"] == "0")
        .await;
    let secret = |name: &str| {
        apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "new"}}))
    };
    committed(&mut client, &[secret("a"), secret("b")]).await;
    let (_, quota) = client.get(&path).await;
    assert_eq!(quota["status"]["used"]["count/secrets"], "2");
    rejected(&mut client, &[secret("c"), secret("d")], 1, 403).await;
    let (_, quota) = client.get(&path).await;
    assert_eq!(quota["status"]["used"]["count/secrets"], "2");
}

#[tokio::test]
async fn crd_of_a_transaction_is_served_after_it() {
    let (_server, mut client) = start(Vec::new()).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let operations = [
        json!({"operation": "Create", "object": crd}),
        json!({"operation": "Create", "object": config_map("a", "1")}),
    ];
    committed(&mut client, &operations).await;
    client
        .until("/apis/example.com/v1/namespaces/default/things", |status, _| {
            status == StatusCode::OK
        })
        .await;
    let thing = json!({"operation": "Create", "object":
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1}}});
    let results = committed(&mut client, &[thing]).await;
    assert_eq!(
        (&results[0]["result"], &results[0]["name"]),
        (&json!("Created"), &json!("t"))
    );
}

#[tokio::test]
async fn each_operation_needs_its_rights() {
    let (server, mut admin) = start(vec!["--authorization-mode=RBAC".to_owned()]).await;
    let mut alice = Client::with_token(&server, USER_TOKEN).await;
    let rules = json!([
        {"apiGroups": ["holdfast.dev"], "resources": ["transactions"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "t"}, "rules": rules});
    let create = |name: &str| json!({"operation": "Create", "object": config_map(name, "1")});
    let (status, _) = transact(&mut alice, &[create("a")]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    admin.make(&format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "t"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "t"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    admin.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
    committed(&mut alice, &[create("a")]).await;
    let forbidden = [
        json!({"operation": "Delete", "target": target("a")}),
        json!({"operation": "Update", "object": config_map("a", "2")}),
        json!({"operation": "Patch", "target": target("a"), "patch": {}}),
        json!({"operation": "Apply", "object": config_map("c", "2")}),
        json!({"operation": "Check", "target": target("a"), "preconditions": {"absent": true}}),
    ];
    for operation in forbidden {
        rejected(&mut alice, &[create("b"), operation], 1, 403).await;
    }
    assert_eq!(value(&mut admin, "b").await, None);
}

#[tokio::test]
async fn server_killed_in_a_transaction_has_all_of_it_or_nothing() {
    const OBJECTS: usize = 20;
    let (mut server, mut client) = start(Vec::new()).await;
    let operations = |text: &str| -> Vec<Value> {
        let objects = (0..OBJECTS).map(|at| config_map(&format!("c{at}"), text));
        objects
            .map(|object| json!({"operation": "Apply", "object": object}))
            .collect()
    };
    committed(&mut client, &operations("0")).await;
    let (mut acknowledged, mut next) = (0, 1);
    for round in 0..5 {
        let connected = Target::new(&server).unwrap().connect().await.unwrap();
        let (reached, progress) = tokio::sync::watch::channel(acknowledged);
        let writer = tokio::spawn(async move {
            let mut connection = connected;
            for number in next.. {
                let body = Bytes::from(request(&operations(&number.to_string())).to_string());
                match connection.ask(Method::POST, TRANSACTIONS, JSON, body).await {
                    Ok((status, _)) => assert_eq!(status, StatusCode::CREATED),
                    Err(_) => return,
                }
                reached.send_replace(number);
            }
        });
        tokio::time::sleep(Duration::from_millis(150 + 37 * round)).await;
        server.kill().unwrap();
        writer.await.unwrap();
        acknowledged = *progress.borrow();
        server = tokio::task::spawn_blocking(move || {
            server.start_anew(&[]).unwrap();
            server
        })
        .await
        .unwrap();
        let mut client = Client::new(&server).await;
        let (_, list) = client.get(CONFIG_MAPS).await;
        let items = list["items"].as_array().unwrap().iter();
        let values: Vec<u64> = items
            .filter_map(|item| item["data"]["k"].as_str()?.parse().ok())
            .collect();
        assert_eq!(values.len(), OBJECTS);
        let last = values[0];
        assert!(values.iter().all(|value| *value == last), "{values:?}");
        assert!(
            last == acknowledged || last == acknowledged + 1,
            "{last} after {acknowledged}"
        );
        next = last + 1;
    }
    assert!(
        acknowledged > 5,
        "the transactions are interrupted, not the start: {acknowledged}"
    );
}

fn command(server: &Server, arguments: &[&str]) -> Output {
    let binary = Binary::debug().unwrap();
    let mut command = Command::new(binary.path());
    command
        .args(["apply", "--atomic", "--kubeconfig"])
        .arg(server.data_dir().join("kubeconfig"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[tokio::test]
async fn command_applies_all_manifests_or_none() {
    let (server, mut client) = start(Vec::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, objects: &[Value]| {
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        fs::write(folder.path().join(file), documents.join("\n---\n")).unwrap();
        folder.path().join(file).to_str().unwrap().to_owned()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let bad = write("bad.yaml", &[config_map("a", "1"), config_map("Bad_Name", "1")]);
    let output = command(&server, &["-f", &bad]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("configmap/Bad_Name: nothing was applied"),
        "{complaint}"
    );
    assert_eq!(value(&mut client, "a").await, None);

    let good = write("good.yaml", &[config_map("a", "1"), config_map("b", "1")]);
    let output = command(&server, &["-f", &good, "--dry-run"]);
    assert!(text(&output.stdout).contains("configmap/a serverside-applied (server dry run)"));
    assert_eq!(value(&mut client, "a").await, None);
    let output = command(&server, &["-f", &good]);
    assert_eq!(
        text(&output.stdout),
        "configmap/a serverside-applied\nconfigmap/b serverside-applied\n",
        "{}",
        text(&output.stderr)
    );
    let other = write("other.yaml", &[config_map("new", "1"), config_map("b", "2")]);
    let output = command(&server, &["-f", &other, "--field-manager=ci"]);
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("configmap/b: these fields conflict") && complaint.contains(".data.k"),
        "{complaint}"
    );
    assert_eq!(value(&mut client, "new").await, None);
    let output = command(&server, &["-f", &other, "--field-manager=ci", "--yes-to=.data.k"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(value(&mut client, "b").await.as_deref(), Some("2"));
}

#[needs(etcd)]
#[tokio::test]
async fn transaction_on_etcd_is_one_transaction_within_its_limits() {
    let etcd = Etcd::one().unwrap();
    let (_server, mut client) = start(vec![format!("--etcd-servers={}", etcd.endpoints())]).await;
    let apply = |count: usize, text: &str| -> Vec<Value> {
        let objects = (0..count).map(|at| config_map(&format!("c{at}"), text));
        objects
            .map(|object| json!({"operation": "Apply", "object": object}))
            .collect()
    };
    let results = committed(&mut client, &apply(50, "1")).await;
    assert!(
        results
            .iter()
            .all(|result| result["resourceVersion"] == results[0]["resourceVersion"])
    );
    rejected(
        &mut client,
        &[
            apply(1, "2"),
            vec![json!({"operation": "Delete", "target": target("none")})],
        ]
        .concat(),
        1,
        404,
    )
    .await;
    assert_eq!(value(&mut client, "c0").await.as_deref(), Some("1"));
    let (status, answer) = transact(&mut client, &apply(200, "3")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("200 writes") && message.contains("too many operations"),
        "{message}"
    );
    let (status, answer) = transact(&mut client, &apply(20, &"x".repeat(100_000))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    assert_eq!(value(&mut client, "c0").await.as_deref(), Some("1"));
}
