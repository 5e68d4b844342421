//! Aggregated API servers: a second Holdfast that serves custom resources, and the API of metrics-server.

use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::aggregated::{Certificates, MetricsServer};
use conformance::{Binary, Client, MERGE, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use test_support::needs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The name of the documents of `metrics.k8s.io`.
const METRICS: &str = "apis/metrics.k8s.io/v1beta1";
const JSON: &str = "application/json";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const WIDGETS: &str = "/apis/x.example.com/v1/namespaces/default/widgets";

/// Time limit of anything that happens asynchronously.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn start(flags: &[String]) -> Server {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

/// Sends a request and returns the code and text of the response.
async fn ask(target: &Target, method: Method, path: &str, body: &str) -> (StatusCode, String) {
    let mut connection = target.connect().await.unwrap();
    let body = Bytes::copy_from_slice(body.as_bytes());
    let (code, answer) = connection.ask(method, path, JSON, body).await.unwrap();
    (code, String::from_utf8_lossy(&answer).into_owned())
}

async fn get(target: &Target, path: &str) -> (StatusCode, String) {
    ask(target, Method::GET, path, "").await
}

async fn read(target: &Target, path: &str, accept: &str) -> Value {
    let answer = target.connect().await.unwrap().get(path, accept).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap_or_default()
}

/// Repeats a GET until the response satisfies `right`.
async fn until(target: &Target, path: &str, accept: &str, right: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        let answer = read(target, path, accept).await;
        if right(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{path}: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn condition(api_service: &Value) -> (&str, &str, &str) {
    let condition = &api_service["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

/// Returns the service by which the host of this test is reached.
fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"}})
}

fn api_service(group: &str, version: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 2000, "versionPriority": 10}});
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

fn crd(versions: &[(&str, bool)]) -> Value {
    let version = |(at, (name, served)): (usize, &(&str, bool))| {
        json!({"name": name, "served": served, "storage": at == 0,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"size": {"type": "integer"}}}}}}})
    };
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.example.com"},
        "spec": {"group": "x.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3}})
}

/// A Holdfast that aggregates, and one as its backend.
struct Both {
    before: Server,
    behind: Server,
    certificates: Certificates,
}

impl Both {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts both, with additional flags of the front server.
    async fn start_with(flags: &[&str]) -> Self {
        let certificates = Certificates::new("widgets");
        let mut before = certificates.before();
        before.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let both = Self {
            behind: start(&certificates.behind()),
            before: start(&before),
            certificates,
        };
        let behind = both.behind();
        let (code, made) = ask(&behind, Method::POST, CRDS, &crd(&[("v1", true)]).to_string()).await;
        assert_eq!(code, StatusCode::CREATED, "{made}");
        until(&behind, WIDGETS, JSON, |list| list["kind"] == "WidgetList").await;
        let mut client = Client::new(&both.before).await;
        client
            .make("/api/v1/namespaces/default/services", service("widgets"))
            .await;
        client.make(API_SERVICES, both.api_service()).await;
        both.until_available().await;
        both
    }

    fn api_service(&self) -> Value {
        let place = json!({"namespace": "default", "name": "widgets", "port": self.behind.address.port()});
        api_service(
            "x.example.com",
            "v1",
            json!({"caBundle": self.certificates.bundle(), "service": place}),
        )
    }

    async fn until_available(&self) {
        let available = |object: &Value| condition(object) == ("True", "Passed", "all checks passed");
        until(
            &self.before(),
            &format!("{API_SERVICES}/v1.x.example.com"),
            JSON,
            available,
        )
        .await;
        // The server's informer of the condition may be a moment behind.
        until(&self.before(), WIDGETS, JSON, |list| list["kind"] == "WidgetList").await;
    }

    fn before(&self) -> Target {
        Target::new(&self.before).unwrap()
    }

    fn behind(&self) -> Target {
        let url = format!("https://{}", self.behind.address);
        let authority = self.certificates.path("back-ca.crt");
        Target::at(&url, Some(&authority), Some("admintoken")).unwrap()
    }
}

#[tokio::test]
async fn requests_are_proxied_in_the_name_of_the_user() {
    let both = Both::start().await;
    let (before, behind) = (both.before(), both.behind());
    let (code, made) = ask(&before, Method::POST, WIDGETS, &widget("a").to_string()).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    // The object exists on the backend and not on the front server.
    let path = format!("{WIDGETS}/a");
    assert_eq!(get(&before, &path).await, get(&behind, &path).await);
    let table = read(&before, WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!(table["rows"][0]["cells"][0], "a");
    let (code, reported) = ask(&before, Method::DELETE, &format!("{WIDGETS}/b"), "").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert!(
        reported.contains(r#"widgets.x.example.com \"b\" not found"#),
        "{reported}"
    );

    // The front server does not proxy an unauthorized request. The backend authorizes proxied ones under the same user
    // name.
    let alice = both.before().with_token(USER_TOKEN);
    let (code, reported) = get(&alice, WIDGETS).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(
        reported.contains(r#"User \"alice\" cannot list resource"#),
        "{reported}"
    );
    let mut client = Client::new(&both.before).await;
    let rights = "/apis/rbac.authorization.k8s.io/v1";
    client
        .make(
            &format!("{rights}/clusterroles"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "widgets"},
                "rules": [{"apiGroups": ["x.example.com"], "resources": ["*"], "verbs": ["*"]}]}),
        )
        .await;
    client
        .make(
            &format!("{rights}/clusterrolebindings"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "widgets"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widgets"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]}),
        )
        .await;
    let there = r#"User \"alice\" cannot delete resource \"widgets\""#;
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        // Reads use the permissions of the group `devs`, which the backend does not know either.
        let (code, reported) = ask(&alice, Method::DELETE, &path, "").await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{reported}");
        let (allowed, _) = get(&alice, "/apis/x.example.com/v1").await;
        if reported.contains(there) && allowed == StatusCode::OK {
            break;
        }
        assert!(Instant::now() < end, "{reported}");
    }
    assert_eq!(get(&before, &path).await.0, StatusCode::OK, "it was not deleted");
}

#[tokio::test]
async fn watches_stream_and_connections_are_upgraded_through() {
    let both = Both::start().await;
    let before = both.before();
    let mut connection = before.connect().await.unwrap();
    let watch = connection.get(&format!("{WIDGETS}?watch=1"), JSON).await.unwrap();
    assert_eq!(watch.status(), StatusCode::OK);
    let mut events = watch.into_body();
    let mut socket = before.raw().await.unwrap();
    let request = format!(
        "GET {WIDGETS}?watch=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    for name in ["a", "b"] {
        ask(&before, Method::POST, WIDGETS, &widget(name).to_string()).await;
        let bytes = events.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name))
        );
    }
    let mut seen = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&seen).contains(r#""name":"b""#) {
            assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, read).await.unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.starts_with("HTTP/1.1 101"), "{seen}");
    assert!(
        seen.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "the key is answered behind: {seen}"
    );
}

#[tokio::test]
async fn discovery_and_openapi_show_what_is_behind() {
    let both = Both::start().await;
    let before = both.before();
    let groups = read(&before, "/apis", JSON).await;
    let names = |groups: &Value| -> Vec<String> {
        let groups = groups["groups"].as_array().unwrap().iter();
        groups.map(|group| group["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&groups).last().unwrap(), "x.example.com");
    let group = read(&before, "/apis/x.example.com", JSON).await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "x.example.com/v1");
    let resources = read(&before, "/apis/x.example.com/v1", JSON).await;
    assert_eq!(resources["resources"][0]["name"], "widgets");
    let of_group = |list: &Value| -> Value {
        let groups = list["items"].as_array().cloned().unwrap_or_default();
        let found = groups
            .into_iter()
            .find(|group| group["metadata"]["name"] == "x.example.com");
        found.unwrap_or_default()
    };
    let list = until(&before, "/apis", AGGREGATED, |list| {
        of_group(list)["versions"][0]["resources"].is_array()
    })
    .await;
    let version = &of_group(&list)["versions"][0];
    assert_eq!(version["freshness"], "Current");
    assert_eq!(version["resources"][0]["responseKind"]["kind"], "Widget");

    let name = "apis/x.example.com/v1";
    let index = until(&before, "/openapi/v3", JSON, |index| index["paths"][name].is_object()).await;
    let url = index["paths"][name]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = read(&before, &url, JSON).await;
    let path = "/apis/x.example.com/v1/namespaces/{namespace}/widgets";
    assert!(document["paths"][path].is_object(), "{document}");
    let merged = until(&before, "/openapi/v2", JSON, |merged| merged["paths"][path].is_object()).await;
    assert!(merged["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"].is_object());
    let crd = &merged["definitions"]["com.example.x.v1.Widget"];
    assert_eq!(crd["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert!(merged["security"].is_array() && merged["swagger"] == "2.0");
}

#[tokio::test]
async fn objects_behind_are_migrated_through_this_server() {
    const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
    let flags = [
        "--feature-gates=StorageVersionMigrator=true",
        "--runtime-config=storagemigration.k8s.io/v1beta1=true",
    ];
    let both = Both::start_with(&flags).await;
    let (before, behind) = (both.before(), both.behind());
    let (code, early) = ask(&behind, Method::POST, WIDGETS, &widget("early").to_string()).await;
    assert_eq!(code, StatusCode::CREATED, "{early}");
    let stored_anew = crd(&[("v2", true), ("v1", true)]);
    let path = format!("{CRDS}/widgets.x.example.com");
    let patch = json!({"spec": {"versions": stored_anew["spec"]["versions"]}}).to_string();
    let mut connection = behind.connect().await.unwrap();
    let (code, _) = connection.ask(Method::PATCH, &path, MERGE, patch.into()).await.unwrap();
    assert_eq!(code, StatusCode::OK);
    until(&behind, &WIDGETS.replace("v1", "v2"), JSON, |list| {
        list["kind"] == "WidgetList"
    })
    .await;

    let mut client = Client::new(&both.before).await;
    let migrate = |resource: &str| json!({"metadata": {"name": resource}, "spec": {"resource": {"group": "x.example.com", "resource": resource}}});
    client.make(MIGRATIONS, migrate("widgets")).await;
    let ended = |migration: &Value| {
        let mut conditions = migration["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Running" && condition["status"] == "False")
    };
    let migration = until(&before, &format!("{MIGRATIONS}/widgets"), JSON, ended).await;
    let conditions = migration["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().any(|condition| condition["type"] == "Succeeded"),
        "{migration}"
    );
    let version = |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    let last: u64 = migration["status"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let early: Value = serde_json::from_str(&early).unwrap();
    let after = read(&behind, &format!("{WIDGETS}/early"), JSON).await;
    assert!(version(&early) <= last && version(&after) > last, "{migration} {after}");
}

#[tokio::test]
async fn a_server_that_is_away_is_reported_until_it_is_there_again() {
    let mut both = Both::start().await;
    let before = both.before();
    until(&before, "/apis", AGGREGATED, |list| list.to_string().contains("Widget")).await;
    both.behind.kill().unwrap();
    // A request detects this immediately, the condition on its next check.
    let (code, reported) = get(&before, WIDGETS).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        reported.starts_with("error trying to reach service: dial tcp ") || reported == "service unavailable\n",
        "{reported}"
    );
    let path = format!("{API_SERVICES}/v1.x.example.com");
    let mut client = Client::new(&both.before).await;
    client
        .ask(Method::PATCH, &path, MERGE, json!({"spec": {"versionPriority": 11}}))
        .await;
    let away = until(&before, &path, JSON, |object| condition(object).0 == "False").await;
    let (_, reason, message) = condition(&away);
    assert_eq!(reason, "FailedDiscoveryCheck");
    let port = both.behind.address.port();
    assert!(
        message.starts_with(&format!(
            "failing or missing response from https://localhost:{port}/apis/x.example.com/v1: Get \
             \"https://localhost:{port}/apis/x.example.com/v1\": dial tcp "
        )),
        "{message}"
    );
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        let (code, reported) = get(&before, WIDGETS).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        if reported == "service unavailable\n" {
            break;
        }
        assert!(Instant::now() < end, "{reported}");
    }
    until(&before, "/apis", AGGREGATED, |list| list.to_string().contains("Stale")).await;
    let (_, metrics) = get(&before, "/metrics").await;
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.x.example.com\"} 1"));
    assert!(metrics.contains(
        "aggregator_unavailable_apiservice_total{name=\"v1.x.example.com\",reason=\"FailedDiscoveryCheck\"} 1"
    ));

    let flags = both.certificates.behind();
    both.behind
        .start_anew(&flags.iter().map(String::as_str).collect::<Vec<_>>())
        .unwrap();
    let place = json!({"spec": {"service": {"port": both.behind.address.port()}}});
    client.ask(Method::PATCH, &path, MERGE, place).await;
    both.until_available().await;
}

#[tokio::test]
async fn the_certificate_is_read_again_and_a_bad_one_is_not_taken() {
    let both = Both::start().await;
    let (before, path) = (both.before(), format!("{API_SERVICES}/v1.x.example.com"));
    both.certificates.write("proxy.crt", "no certificate");
    both.before.until_logged(&["the old ones stay"]).await.unwrap();
    assert_eq!(get(&before, WIDGETS).await.0, StatusCode::OK);
    // The backend does not trust this common name.
    both.certificates.name_proxy("somebody");
    let end = Instant::now() + WAIT_TIMEOUT;
    while get(&before, WIDGETS).await.0 != StatusCode::UNAUTHORIZED {
        assert!(Instant::now() < end, "{}", both.before.log_tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut client = Client::new(&both.before).await;
    client
        .ask(Method::PATCH, &path, MERGE, json!({"spec": {"versionPriority": 11}}))
        .await;
    let rejected = until(&before, &path, JSON, |object| condition(object).0 == "False").await;
    assert!(
        condition(&rejected).2.ends_with(
            "bad status from https://localhost:{port}/apis/x.example.com/v1: 401"
                .replace("{port}", &both.behind.address.port().to_string())
                .as_str()
        ),
        "{rejected}"
    );
}

#[tokio::test]
async fn metrics_come_from_a_small_server_behind() {
    let (_certificates, _server, before, metrics) = before_metrics().await;
    let nodes = read(&before, "/apis/metrics.k8s.io/v1beta1/nodes", JSON).await;
    assert_eq!(nodes["items"][0]["usage"]["cpu"], "250m");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let pods = read(&before, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", table).await;
    assert_eq!(pods["rows"][0]["cells"], json!(["web", "100m", "64Mi"]));
    let requests = metrics.requests();
    assert!(
        requests.contains(&"admin GET /apis/metrics.k8s.io/v1beta1/nodes".to_owned()),
        "{requests:?}"
    );
    assert!(requests.contains(&"system:kube-aggregator GET /apis/metrics.k8s.io/v1beta1".to_owned()));
    // It only supports the older form of discovery.
    let list = until(&before, "/apis", AGGREGATED, |list| {
        list.to_string().contains("NodeMetrics")
    })
    .await;
    assert!(!list.to_string().contains("Stale"));
    // It only has OpenAPI v2.
    let index = until(&before, "/openapi/v3", JSON, |index| {
        index["paths"].get(METRICS).is_some()
    })
    .await;
    let place = index["paths"][METRICS]["serverRelativeURL"].as_str().unwrap();
    let document = read(&before, place, JSON).await;
    let answered = &document["paths"]["/apis/metrics.k8s.io/v1beta1/nodes"]["get"]["responses"]["200"];
    let schema = &answered["content"][JSON]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/NodeMetrics");
    assert_eq!(document["openapi"], "3.0.0");
    let forwarded = read(&before, "/apis/metrics.k8s.io/v1beta1/forwarded", JSON).await;
    assert_eq!(forwarded["headers"]["x-forwarded-for"], json!(["127.0.0.1"]));
    let (code, reported) = get(&before, "/apis/metrics.k8s.io/v1beta1/redirected").await;
    assert_eq!(
        (code, reported.as_str()),
        (
            StatusCode::BAD_GATEWAY,
            "the backend attempted to redirect this request, which is not permitted"
        )
    );
}

/// Headers with which a client tries to remove the identity that aggregated servers trust, or to state another one.
const FORGED_HEADERS: &str = "x-remote-user, x-remote-group, x-remote-uid, X-Remote-Extra-Scopes, audit-id, x-forwarded-for\r\n\
    X-Remote-User: forged\r\nX-Remote-Group: forged\r\nX-Remote-Uid: forged\r\nX-Remote-Extra-Scopes: forged\r\n\
    Impersonate-User: \r\nX-Forwarded-For: forged\r\nKeep-Alive: forged";

/// Sends a request with [`FORGED_HEADERS`] and returns the first bytes of the response that are complete.
async fn send_forged(before: &Target, connection: &str, path: &str, complete: impl Fn(&str) -> bool) -> String {
    let mut socket = before.raw().await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nAudit-ID: request-1\r\n\
         {connection}, {FORGED_HEADERS}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&seen).into_owned();
            if complete(&text) {
                return text;
            }
            assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0, "{text}");
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, read).await.unwrap()
}

#[tokio::test]
async fn connection_header_does_not_remove_forwarded_identity() {
    let (_certificates, _server, before, _metrics) = before_metrics().await;
    let check = |headers: &Value| {
        assert_eq!(headers["x-remote-user"], json!(["admin"]), "{headers}");
        let groups = json!(["system:masters", "system:authenticated"]);
        assert_eq!(headers["x-remote-group"], groups, "{headers}");
        assert_eq!(headers["audit-id"], json!(["request-1"]), "{headers}");
        assert_eq!(headers["x-forwarded-for"], json!(["127.0.0.1"]), "{headers}");
        assert!(!headers.to_string().contains("forged"), "{headers}");
        for absent in ["authorization", "impersonate-user", "keep-alive"] {
            assert!(headers.get(absent).is_none(), "{headers}");
        }
    };
    let path = "/apis/metrics.k8s.io/v1beta1/forwarded";
    let answer = send_forged(&before, "Connection: close", path, |text| text.contains("}}")).await;
    let rest = &answer[answer.find("\r\n\r\n").unwrap()..];
    let text = &rest[rest.find('{').unwrap()..=rest.rfind('}').unwrap()];
    let body: Value = serde_json::from_str(text).unwrap();
    check(&body["headers"]);
    assert!(body["headers"].get("connection").is_none(), "{body}");

    let answer = send_forged(&before, "Upgrade: SPDY/3.1\r\nConnection: Upgrade", path, |text| {
        text.contains("\r\n\r\n")
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("x-received-headers: "));
    let headers: Value = serde_json::from_str(line.unwrap()).unwrap();
    check(&headers);
    assert_eq!(headers["connection"], json!(["Upgrade"]), "{headers}");
    assert_eq!(headers["upgrade"], json!(["SPDY/3.1"]), "{headers}");
}

#[tokio::test]
async fn switch_that_nobody_requested_is_an_error() {
    let (_certificates, _server, before, _metrics) = before_metrics().await;
    let (status, text) = get(&before, "/apis/metrics.k8s.io/v1beta1/switched").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert!(text.contains("switched protocols without being asked"), "{text}");
}

#[tokio::test]
async fn reads_are_retried_if_the_backend_closes_the_connection() {
    let (_certificates, _server, before, _metrics) = before_metrics().await;
    for _ in 0..5 {
        let path = "/apis/metrics.k8s.io/v1beta1/closed";
        let answer = get(&before, path).await;
        assert_eq!(answer, (StatusCode::OK, json!({"kind": "Closed"}).to_string()));
    }
}

#[tokio::test]
async fn spdy_goes_through_to_a_server_behind() {
    let (_certificates, _server, before, _metrics) = before_metrics().await;
    let mut socket = before.raw().await.unwrap();
    let request = "POST /apis/metrics.k8s.io/v1beta1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\n\
                   Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let exchange = async {
        while !seen.ends_with(b"\r\n\r\n") {
            assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
        }
        let head = String::from_utf8_lossy(&seen).to_lowercase();
        assert!(
            head.starts_with("http/1.1 101") && head.contains("upgrade: spdy/3.1"),
            "{head}"
        );
        // The head of a SYN_STREAM, which no HTTP server would let pass.
        let frame = b"\x80\x03\x00\x01\x01\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        socket.write_all(frame).await.unwrap();
        let mut echoed = [0; 18];
        socket.read_exact(&mut echoed).await.unwrap();
        assert_eq!(&echoed, frame);
    };
    tokio::time::timeout(WAIT_TIMEOUT, exchange).await.unwrap();
}

/// Returns a server that has `metrics.k8s.io` from a small one behind.
async fn before_metrics() -> (Certificates, Server, Target, MetricsServer) {
    let certificates = Certificates::new("metrics");
    let metrics = MetricsServer::start(&certificates).await;
    let server = start(&certificates.before());
    let mut client = Client::new(&server).await;
    client
        .make("/api/v1/namespaces/default/services", service("metrics"))
        .await;
    let place = json!({"namespace": "default", "name": "metrics", "port": metrics.port});
    let spec = json!({"caBundle": certificates.bundle(), "service": place});
    client
        .make(API_SERVICES, api_service("metrics.k8s.io", "v1beta1", spec))
        .await;
    let before = Target::new(&server).unwrap();
    let path = format!("{API_SERVICES}/v1beta1.metrics.k8s.io");
    until(&before, &path, JSON, |object| condition(object).1 == "Passed").await;
    let resources = "/apis/metrics.k8s.io/v1beta1";
    until(&before, resources, JSON, |list| list["kind"] == "APIResourceList").await;
    (certificates, server, before, metrics)
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_top_works_through_it() {
    let (_certificates, server, before, _metrics) = before_metrics().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        "status": {"allocatable": {"cpu": "1", "memory": "4Gi"}, "capacity": {"cpu": "1", "memory": "4Gi"}}});
    ask(&before, Method::POST, "/api/v1/nodes", &node.to_string()).await;
    until(&before, "/apis", AGGREGATED, |list| {
        list.to_string().contains("NodeMetrics")
    })
    .await;
    let says = |arguments: &[&str]| {
        let output = Command::new("kubectl")
            .env("KUBECONFIG", server.kubeconfig())
            .env("HOME", server.data_dir())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = says(&["top", "pods"]);
    assert!(
        lines.contains("web") && lines.contains("100m") && lines.contains("64Mi"),
        "{lines}"
    );
    assert!(says(&["top", "nodes"]).contains("250m"));
    let raw = says(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"]);
    assert!(raw.contains("NodeMetricsList"), "{raw}");
    assert!(says(&["get", "pods.metrics.k8s.io"]).contains("64Mi"));
}

#[tokio::test]
async fn each_group_version_that_is_served_here_has_an_api_service() {
    let server = start(&[]);
    let (target, mut client) = (Target::new(&server).unwrap(), Client::new(&server).await);
    let all = read(&target, API_SERVICES, JSON).await;
    assert!(
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|item| condition(item).1 == "Local")
    );
    client
        .make(CRDS, crd(&[("v1", true), ("v1beta1", true), ("v0", false)]))
        .await;
    let service_path = |version: &str| format!("{API_SERVICES}/{version}.x.example.com");
    let made = client
        .until(&service_path("v1"), |code, _| code == StatusCode::OK)
        .await;
    let spec = json!({"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(made["spec"], spec);
    assert_eq!(
        made["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "true"
    );
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    client
        .until(&service_path("v1beta1"), |code, _| code == StatusCode::OK)
        .await;
    assert_eq!(client.get(&service_path("v0")).await.0, StatusCode::NOT_FOUND);

    // Changes by other clients are reverted.
    let uid = made["metadata"]["uid"].clone();
    client.delete(&service_path("v1"), Value::Null).await;
    client
        .until(&service_path("v1"), |code, object| {
            code == StatusCode::OK && object["metadata"]["uid"] != uid
        })
        .await;
    client
        .ask(
            Method::PATCH,
            &service_path("v1"),
            MERGE,
            json!({"spec": {"groupPriorityMinimum": 7}}),
        )
        .await;
    client
        .until(&service_path("v1"), |_, object| object["spec"] == spec)
        .await;

    // Its version is removed, and then the CRD.
    let path = format!("{CRDS}/widgets.x.example.com");
    let (_, stored) = client.get(&path).await;
    let mut next = stored.clone();
    next["spec"]["versions"][1]["served"] = json!(false);
    let (code, answer) = client.ask(Method::PUT, &path, JSON, next).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    client.until_gone(&service_path("v1beta1")).await;
    client.delete(&path, Value::Null).await;
    client.until_gone(&service_path("v1")).await;

    // Priorities determine the order of the listed groups.
    let groups = |list: &Value| {
        list["groups"].as_array().unwrap()[..3]
            .iter()
            .map(|group| group["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        groups(&read(&target, "/apis", JSON).await),
        ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    );
    let policy = format!("{API_SERVICES}/v1.policy");
    client
        .ask(
            Method::PATCH,
            &policy,
            MERGE,
            json!({"spec": {"groupPriorityMinimum": 19_000}}),
        )
        .await;
    let first = |list: &Value| groups(list) == ["apiregistration.k8s.io", "policy", "apps"];
    until(&target, "/apis", JSON, first).await;
    // APIServices of built-in groups are repaired at the next start.
    let server = server.restart(&[]).unwrap();
    let target = Target::new(&server).unwrap();
    assert_eq!(
        groups(&read(&target, "/apis", JSON).await),
        ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    );
}

#[tokio::test]
async fn the_condition_says_what_a_service_lacks() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for (name, ports) in [
        ("other-port", json!([{"port": 80}])),
        ("lonely", json!([{"port": 443, "name": "web"}])),
    ] {
        let object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}});
        client.make("/api/v1/namespaces/default/services", object).await;
    }
    let reported = [
        (
            "absent",
            "ServiceNotFound",
            "service/absent in \"default\" is not present",
        ),
        (
            "other-port",
            "ServicePortError",
            "service/other-port in \"default\" is not listening on port 443",
        ),
        (
            "lonely",
            "EndpointsNotFound",
            "cannot find endpointslices for service/lonely in \"default\"",
        ),
    ];
    for (name, reason, message) in reported {
        let group = format!("{name}.example.com");
        let place = json!({"service": {"namespace": "default", "name": name}});
        client.make(API_SERVICES, api_service(&group, "v1", place)).await;
        let path = format!("{API_SERVICES}/v1.{group}");
        let right = |_, object: &Value| condition(object) == ("False", reason, message);
        client.until(&path, right).await;
    }
    // The endpoints of a service are looked at when they change.
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "lonely-1", "labels": {"kubernetes.io/service-name": "lonely"}},
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": false}}], "ports": [{"name": "web", "port": 1}]});
    client
        .make("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice)
        .await;
    let missing = "endpointslices for service/lonely in \"default\" have no addresses with port name \"web\"";
    let right = |_, object: &Value| condition(object) == ("False", "MissingEndpoints", missing);
    client
        .until(&format!("{API_SERVICES}/v1.lonely.example.com"), right)
        .await;
}

#[tokio::test]
async fn aggregated_servers_learn_which_authorities_to_trust() {
    let certificates = Certificates::new("any");
    let server = start(&certificates.trusting_proxies());
    let mut client = Client::new(&server).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let reported = client.until(path, |code, _| code == StatusCode::OK).await;
    let authority = std::fs::read_to_string(certificates.path("proxy-ca.crt")).unwrap();
    assert_eq!(
        reported["data"]["requestheader-client-ca-file"],
        authority.replace("\r\n", "\n")
    );
    assert_eq!(
        reported["data"]["requestheader-allowed-names"],
        "[\"front-proxy-client\"]"
    );
    assert_eq!(
        reported["data"]["requestheader-username-headers"],
        "[\"X-Remote-User\"]"
    );
    assert_eq!(reported["data"]["requestheader-uid-headers"], "[\"X-Remote-Uid\"]");
    assert!(
        reported["data"]["client-ca-file"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
    // Entries of other clients stay; removed entries are restored.
    let patch = json!({"data": {"requestheader-allowed-names": "[\"other\"]", "requestheader-group-headers": null}});
    client.ask(Method::PATCH, path, MERGE, patch).await;
    let right = |_, object: &Value| {
        object["data"]["requestheader-allowed-names"] == "[\"other\",\"front-proxy-client\"]"
            && object["data"]["requestheader-group-headers"] == "[\"X-Remote-Group\"]"
    };
    client.until(path, right).await;
}

#[test]
fn bad_files_end_the_start_with_file_and_reason() {
    let certificates = Certificates::new("any");
    let binary = Binary::debug().unwrap();
    let rejected = |flags: &[String]| binary.rejection(flags).unwrap();
    certificates.write("proxy.key", "no key");
    let reported = rejected(&certificates.before());
    assert!(
        reported.contains("cannot read a private key from") && reported.contains("proxy.key"),
        "{reported}"
    );
    certificates.write("proxy-ca.crt", "");
    let reported = rejected(&certificates.trusting_proxies());
    assert!(
        reported.contains("--requestheader-client-ca-file") && reported.contains("proxy-ca.crt"),
        "{reported}"
    );
}
