//! Lists and watches that return what their user may read instead of a denial: `authorizedOnly`.

use std::time::Duration;

use conformance::{Binary, Client, Connection, MERGE, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Time limit of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

async fn start() -> (Server, Client, Client) {
    let started =
        tokio::task::spawn_blocking(|| Server::start(&Binary::debug().unwrap(), &["--controllers=*"]).unwrap());
    let server = started.await.unwrap();
    let (admin, alice) = (
        Client::new(&server).await,
        Client::with_token(&server, USER_TOKEN).await,
    );
    (server, admin, alice)
}

/// Grants a rule to alice in a namespace; cluster-wide if it is empty.
async fn grant(admin: &mut Client, namespace: &str, name: &str, rule: Value) {
    let (path, kind) = match namespace {
        "" => (RBAC.to_owned(), "ClusterRole"),
        namespace => (format!("{RBAC}/namespaces/{namespace}"), "Role"),
    };
    let plural = kind.to_lowercase();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": [rule]});
    admin.make(&format!("{path}/{plural}s"), role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    admin.make(&format!("{path}/{plural}bindings"), binding).await;
}

fn config_maps(verbs: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs, "resourceNames": names})
}

/// Returns namespace and name of each object of a list.
fn places(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let place = |item: &Value| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    items.iter().map(place).collect()
}

#[tokio::test]
async fn list_has_only_objects_that_user_may_read() {
    let (_server, mut admin, mut alice) = start().await;
    for namespace in ["a", "b", "c"] {
        admin.namespace(namespace).await;
        for name in ["x", "y"] {
            admin.config_map(namespace, json!({"name": name})).await;
        }
    }
    let (status, denial) = alice.get(&format!("{CONFIG_MAPS}?authorizedOnly=true")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "nothing is readable");
    grant(&mut admin, "a", "all", config_maps(&["list"], &[])).await;
    grant(&mut admin, "b", "one", config_maps(&["get"], &["x"])).await;
    let (status, plain) = alice.get(CONFIG_MAPS).await;
    assert_eq!((status, &plain), (StatusCode::FORBIDDEN, &denial));

    let (_, list) = alice.get(&format!("{CONFIG_MAPS}?authorizedOnly=true")).await;
    assert_eq!(places(&list), ["a/x", "a/y", "b/x"]);
    let (_, list) = alice.get("/api/v1/namespaces/b/configmaps?authorizedOnly=true").await;
    assert_eq!(places(&list), ["b/x"]);
    let (_, list) = alice
        .get(&format!(
            "{CONFIG_MAPS}?authorizedOnly=true&fieldSelector=metadata.name%3Dy"
        ))
        .await;
    assert_eq!(places(&list), ["a/y"]);

    // Chunks do not count what is hidden.
    let (_, chunk) = alice.get(&format!("{CONFIG_MAPS}?authorizedOnly=true&limit=2")).await;
    assert_eq!(places(&chunk), ["a/x", "a/y"]);
    let token = chunk["metadata"]["continue"].as_str().unwrap();
    assert!(chunk["metadata"].get("remainingItemCount").is_none_or(Value::is_null));
    let (_, rest) = alice
        .get(&format!("{CONFIG_MAPS}?authorizedOnly=true&limit=2&continue={token}"))
        .await;
    assert_eq!(places(&rest), ["b/x"]);
    // Hidden objects follow the last one, but a token would tell so.
    let (_, whole) = alice.get(&format!("{CONFIG_MAPS}?authorizedOnly=true&limit=3")).await;
    assert_eq!(places(&whole), ["a/x", "a/y", "b/x"]);
    assert_eq!(whole["metadata"].get("continue"), None, "{whole}");

    // Who may list everything gets everything, and an option with another value has no effect.
    let (_, all) = admin.get(&format!("{CONFIG_MAPS}?authorizedOnly=true")).await;
    assert!(places(&all).contains(&"c/y".to_owned()));
    let (status, _) = alice.get(&format!("{CONFIG_MAPS}?authorizedOnly=false")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn other_requests_stay_denied() {
    let (_server, mut admin, mut alice) = start().await;
    admin.namespace("a").await;
    let every = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["x"]});
    grant(&mut admin, "", "named", every).await;
    let option = "authorizedOnly=true";
    for (method, path) in [
        (Method::DELETE, CONFIG_MAPS.replace("/v1/", "/v1/namespaces/a/")),
        (
            Method::GET,
            format!("{CONFIG_MAPS}/other").replace("/v1/", "/v1/namespaces/a/"),
        ),
        (Method::GET, "/metrics".to_owned()),
        (Method::GET, "/api/v1/componentstatuses".to_owned()),
        (Method::GET, "/apis/none.example.com/v1/things".to_owned()),
    ] {
        let (status, answer) = alice.ask(method, &format!("{path}?{option}"), MERGE, Value::Null).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {answer}");
    }
    // Cluster-scoped objects are readable by name.
    admin.namespace("x").await;
    let (_, list) = alice.get(&format!("/api/v1/namespaces?{option}")).await;
    assert_eq!(places(&list), ["/x"]);
}

/// Events of a watch.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    async fn open(connection: &mut Connection, path: &str) -> Self {
        let answer = connection.get(path, "application/json").await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        Self {
            body: answer.into_body(),
            text: String::new(),
        }
    }

    /// Returns the next event as its type and the name or code of its object; `None` after the last one.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let event: Value = serde_json::from_str(line).unwrap();
                self.text = rest.to_owned();
                let object = &event["object"];
                let subject = object["metadata"]["name"]
                    .as_str()
                    .map_or(object["code"].to_string(), str::to_owned);
                return Some(format!("{} {subject}", event["type"].as_str().unwrap()));
            }
            let frame = tokio::time::timeout(WAIT_TIMEOUT, self.body.frame()).await.unwrap()?;
            self.text += std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn watch_has_only_readable_objects_until_roles_change() {
    let (server, mut admin, _) = start().await;
    for namespace in ["a", "b", "c"] {
        admin.namespace(namespace).await;
    }
    grant(&mut admin, "a", "all", config_maps(&["list", "watch"], &[])).await;
    grant(&mut admin, "b", "one", config_maps(&["watch"], &["named"])).await;
    admin.config_map("c", json!({"name": "hidden"})).await;
    admin.config_map("a", json!({"name": "first"})).await;

    let target = Target::new(&server).unwrap().with_token(USER_TOKEN);
    let mut connection = target.connect().await.unwrap();
    let path = format!("{CONFIG_MAPS}?watch=true&authorizedOnly=true");
    let mut events = Events::open(&mut connection, &path).await;
    assert_eq!(events.next().await.unwrap(), "ADDED first");
    for (namespace, name) in [
        ("c", "other"),
        ("b", "unnamed"),
        ("b", "named"),
        ("c", "more"),
        ("a", "last"),
    ] {
        admin.config_map(namespace, json!({"name": name})).await;
    }
    assert_eq!(events.next().await.unwrap(), "ADDED named");
    assert_eq!(events.next().await.unwrap(), "ADDED last");

    // A role of somebody else changes nothing for alice.
    let other = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "unused"}, "rules": []});
    admin.make(&format!("{RBAC}/namespaces/c/roles"), other).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    admin.config_map("a", json!({"name": "still"})).await;
    assert_eq!(events.next().await.unwrap(), "ADDED still");

    // Less or more that is readable ends the watch, so that clients list again.
    admin
        .delete(&format!("{RBAC}/namespaces/b/rolebindings/one"), Value::Null)
        .await;
    assert_eq!(events.next().await.unwrap(), "ERROR 410");
    assert_eq!(events.next().await, None);
    let mut connection = target.connect().await.unwrap();
    let mut events = Events::open(&mut connection, &format!("{path}&resourceVersion=0")).await;
    assert!(events.next().await.unwrap().starts_with("ADDED"));
    grant(&mut admin, "c", "all", config_maps(&["list", "watch"], &[])).await;
    loop {
        match events.next().await.unwrap().as_str() {
            "ERROR 410" => break,
            event => assert!(event.starts_with("ADDED") && !event.contains("hidden"), "{event}"),
        }
    }
}
