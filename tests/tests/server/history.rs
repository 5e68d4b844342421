//! `GET …/NAME/history`, `holdfast history`, `holdfast diff --from`, `holdfast undo` and `--history-retention`.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use conformance::{Binary, Client, MERGE, Server, USER_TOKEN};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/settings";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn start(flags: &'static [&'static str]) -> (Server, Client) {
    let started = tokio::task::spawn_blocking(move || Server::start(&Binary::debug().unwrap(), flags).unwrap());
    let server = started.await.unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

fn settings(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data})
}

/// Applies the ConfigMap and returns its resource version.
async fn apply(client: &mut Client, manager: &str, data: Value) -> String {
    let path = format!("{MAP}?fieldManager={manager}&force=true");
    let (status, object) = client.ask(Method::PATCH, &path, APPLY, settings(data)).await;
    assert!(status.is_success(), "{object}");
    version(&object)
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn history(client: &mut Client, path: &str) -> Value {
    let (status, answer) = client.get(path).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["kind"], "ObjectHistory");
    assert_eq!(answer["apiVersion"], "holdfast.dev/v1");
    answer
}

/// Returns `VERSION OPERATION MANAGERS FIELDS` for each item.
fn lines(history: &Value) -> Vec<String> {
    let texts = |value: &Value, name: &str| {
        let items = value.as_array().cloned().unwrap_or_default();
        let texts: Vec<String> = items
            .iter()
            .map(|item| item[name].as_str().unwrap().to_owned())
            .collect();
        texts.join(",")
    };
    let line = |item: &Value| {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let (managers, fields) = (texts(&item["managers"], "manager"), texts(&item["fields"], "field"));
        format!("{} {} {managers} {fields}", text("resourceVersion"), text("operation"))
    };
    history["items"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn history_has_each_version_with_managers_and_fields() {
    let (_server, mut client) = start(&[]).await;
    let (status, absent) = client.get(&format!("{MAP}/history")).await;
    assert_eq!((status, &absent["reason"]), (StatusCode::NOT_FOUND, &json!("NotFound")));
    let first = apply(&mut client, "ci", json!({"color": "blue", "size": "1"})).await;
    let second = apply(&mut client, "ci", json!({"color": "red"})).await;
    let patch = json!({"data": {"color": "green"}});
    let (_, patched) = client
        .ask(Method::PATCH, &format!("{MAP}?fieldManager=hand"), MERGE, patch)
        .await;
    let third = version(&patched);
    let (status, _) = client.ask(Method::DELETE, MAP, JSON, json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let deleted = history(&mut client, &format!("{MAP}/history")).await;
    let removal = deleted["items"][0]["resourceVersion"].as_str().unwrap().to_owned();
    let expected = [
        format!("{removal} Delete  "),
        format!("{third} Update hand .data.color"),
        format!("{second} Update ci .data.color,.data.size"),
        format!("{first} Create ci .data.color,.data.size"),
    ];
    assert_eq!(lines(&deleted), expected);
    let again = apply(&mut client, "new", json!({"a": "b"})).await;
    let all = history(&mut client, &format!("{MAP}/history?values=true")).await;
    assert_eq!(lines(&all)[1..], expected);
    assert_eq!(lines(&all)[0], format!("{again} Create new .data.a"));
    let changed = &all["items"][2]["fields"][0];
    assert_eq!(
        (&changed["before"], &changed["after"]),
        (&json!("red"), &json!("green"))
    );
    assert_eq!(changed["managers"][0]["manager"], "hand");
    assert!(all["items"][0]["time"].as_str().unwrap().ends_with('Z'));

    // The chunks together are the whole list.
    let mut chunks = Vec::new();
    let mut next = String::new();
    loop {
        let chunk = history(&mut client, &format!("{MAP}/history?limit=2&continue={next}")).await;
        assert!(chunk["items"].as_array().unwrap().len() <= 2);
        chunks.extend(lines(&chunk));
        match chunk["metadata"]["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!(chunks, lines(&all));
    for (query, code) in [
        ("limit=x", 400),
        ("continue=x", 400),
        ("to=5", 400),
        ("continue=1", 410),
    ] {
        let (status, _) = client.get(&format!("{MAP}/history?{query}")).await;
        assert_eq!(status.as_u16(), code, "{query}");
    }
    let (status, _) = client
        .ask(Method::POST, &format!("{MAP}/history"), JSON, json!({}))
        .await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn every_stored_kind_has_a_history() {
    let (_server, mut client) = start(&[]).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "toys", "kind": "Toy"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, answer) = client.ask(Method::POST, crds, JSON, crd).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let crd_path = format!("{crds}/toys.example.com");
    let is_established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    let established = |_, crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| conditions.iter().any(is_established))
    };
    client.until(&crd_path, established).await;
    let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "a"}, "size": 1});
    let toys = "/apis/example.com/v1/toys";
    let (status, answer) = client.ask(Method::POST, toys, JSON, toy).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let patch = json!({"size": 2});
    client.ask(Method::PATCH, &format!("{toys}/a"), MERGE, patch).await;
    let toy = history(&mut client, &format!("{toys}/a/history")).await;
    assert_eq!(toy["items"][0]["fields"][0]["field"], ".size");
    for path in [
        "/api/v1/namespaces/default/history",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.example.com/history",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/view/history",
    ] {
        let found = history(&mut client, path).await;
        assert!(!found["items"].as_array().unwrap().is_empty(), "{path}");
    }
    for path in [
        "/api/v1/configmaps/history",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews/x/history",
        "/api/v1/namespaces/default/configmaps/a/history/b",
    ] {
        assert_eq!(client.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn discovery_names_history_only_on_request() {
    let (_server, mut client) = start(&[]).await;
    let (_, other) = client.get("/apis/apps/v1").await;
    assert!(!other.to_string().contains("history"));
    let (_, asked) = client.get("/apis/apps/v1?subresources=history").await;
    let resources = asked["resources"].as_array().unwrap();
    let found = resources
        .iter()
        .find(|one| one["name"] == "deployments/history")
        .unwrap();
    assert_eq!(
        found,
        &json!({"name": "deployments/history", "singularName": "", "namespaced": true, "group": "holdfast.dev",
            "version": "v1", "kind": "ObjectHistory", "verbs": ["get"]})
    );
    let (_, after) = client.get("/apis/apps/v1").await;
    assert_eq!(after, other);
    let (_, schemas) = client.get("/openapi/v3/apis/apps/v1").await;
    assert!(!schemas.to_string().contains("/history"));

    let (_server, mut plain) = start(&["--holdfast-apis=false"]).await;
    let (_, asked) = plain.get("/apis/apps/v1?subresources=history").await;
    assert!(!asked.to_string().contains("history"));
    for path in [
        "/api/v1/namespaces/default/history",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt/history",
    ] {
        assert_eq!(plain.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn history_requires_both_rights() {
    let (server, mut admin) = start(&["--authorization-mode=RBAC"]).await;
    let mut user = Client::with_token(&server, USER_TOKEN).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    let (status, _) = admin.ask(Method::POST, secrets, JSON, secret).await;
    assert_eq!(status, StatusCode::CREATED);
    let role = |resources: &[&str]| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get"]}]})
    };
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "reader"}, "subjects": [{"kind": "Group", "name": "system:authenticated"}]});
    let (status, answer) = admin
        .ask(Method::POST, &format!("{RBAC}/clusterrolebindings"), JSON, binding)
        .await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let path = format!("{secrets}/s/history?values=true");
    for (resources, missing) in [
        (&["secrets/history"][..], Some("resource \"secrets\"")),
        (&["secrets"], Some("resource \"secrets/history\"")),
        (&["secrets", "secrets/history"], None),
    ] {
        let apply = format!("{RBAC}/clusterroles/reader?fieldManager=t&force=true");
        let (status, answer) = admin.ask(Method::PATCH, &apply, APPLY, role(resources)).await;
        assert!(status.is_success(), "{answer}");
        let (status, answer) = user.get(&path).await;
        match missing {
            Some(missing) => {
                assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
                assert!(answer["message"].as_str().unwrap().contains(missing), "{answer}");
            }
            None => assert_eq!(status, StatusCode::OK, "{answer}"),
        }
    }
}

fn command(server: &Server, arguments: &[&str]) -> Output {
    let binary = Binary::debug().unwrap();
    let mut command = Command::new(binary.path());
    command.args(arguments).arg("--kubeconfig").arg(server.kubeconfig());
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn commands_show_compare_and_restore_versions() {
    let (server, mut client) = start(&[]).await;
    let first = apply(&mut client, "ci", json!({"color": "blue"})).await;
    let second = apply(&mut client, "hand", json!({"color": "red"})).await;
    let shown = text(&command(&server, &["history", "cm", "settings"]).stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with(&second) && lines[0].ends_with("update by hand (Apply): .data.color"),
        "{shown}"
    );
    assert!(
        lines[1].starts_with(&first) && lines[1].ends_with("create by ci (Apply)"),
        "{shown}"
    );

    let compared = command(&server, &["diff", "cm/settings", "--from", &first, "--to", &second]);
    let expected = "configmap/settings in default: update\n  ~ .data.color: \"blue\" -> \"red\"\n";
    assert_eq!(
        (text(&compared.stdout).as_str(), compared.status.code()),
        (expected, Some(1))
    );
    let same = command(&server, &["diff", "cm/settings", "--from", &second]);
    assert_eq!(
        (text(&same.stdout).as_str(), same.status.code()),
        ("", Some(0)),
        "{}",
        text(&same.stderr)
    );

    let dry = command(&server, &["undo", "cm", "settings", "--to", &first, "--dry-run"]);
    let changed = "  ~ .data.color: \"red\" -> \"blue\"\n";
    assert_eq!(
        text(&dry.stdout),
        format!("configmap/settings: would be as at {first} again (server dry run)\n{changed}"),
        "{}",
        text(&dry.stderr)
    );
    assert_eq!(client.get(MAP).await.1["data"]["color"], "red");
    let undone = command(&server, &["undo", "cm", "settings", "--to", &first]);
    let (_, object) = client.get(MAP).await;
    let now = version(&object);
    assert_eq!(
        text(&undone.stdout),
        format!("configmap/settings: as at {first} again, now {now}\n{changed}")
    );
    assert_eq!(object["data"]["color"], "blue");
    client.ask(Method::DELETE, MAP, JSON, json!({})).await;
    let restored = command(&server, &["undo", "cm", "settings", "--to", &second]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert_eq!(client.get(MAP).await.1["data"]["color"], "red");

    let missing = command(&server, &["undo", "cm", "other", "--to", &first]);
    assert!(
        text(&missing.stderr).contains("there was no other at resource version"),
        "{missing:?}"
    );
}

#[tokio::test]
async fn undo_passes_validation_of_the_server() {
    let (server, mut client) = start(&[]).await;
    let first = apply(&mut client, "ci", json!({"color": "blue"})).await;
    let mut sealed = settings(json!({"color": "red"}));
    sealed["immutable"] = json!(true);
    let (status, answer) = client.ask(Method::PUT, MAP, JSON, sealed).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let rejected = command(&server, &["undo", "cm", "settings", "--to", &first]);
    assert!(!rejected.status.success());
    assert!(
        text(&rejected.stderr).contains("immutable"),
        "{}",
        text(&rejected.stderr)
    );
}

#[tokio::test]
async fn retained_versions_survive_a_restart() {
    const FLAGS: &[&str] = &["--history-retention=24h"];
    let (server, mut client) = start(FLAGS).await;
    let first = apply(&mut client, "ci", json!({"color": "blue"})).await;
    apply(&mut client, "ci", json!({"color": "red"})).await;
    let before = history(&mut client, &format!("{MAP}/history")).await;
    let restarted = tokio::task::spawn_blocking(move || server.restart(FLAGS).unwrap());
    let server = restarted.await.unwrap();
    let mut client = Client::new(&server).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = history(&mut client, &format!("{MAP}/history")).await;
    assert_eq!(after["items"], before["items"]);
    let exact =
        format!("{MAPS}?fieldSelector=metadata.name%3Dsettings&resourceVersion={first}&resourceVersionMatch=Exact");
    let (status, list) = client.get(&exact).await;
    assert_eq!(
        (status, &list["items"][0]["data"]["color"]),
        (StatusCode::OK, &json!("blue"))
    );
}
