//! Requests that are passed on to kubelets, pods and services: logs, commands, proxies.

use std::time::Duration;

use bytes::Bytes;
use conformance::aggregated::Certificates;
use conformance::kubelet::{FakeKubelet, own_address};
use conformance::{Binary, Client, MERGE, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const JSON: &str = "application/json";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Time limit of everything that a test waits for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A server with two nodes of one kubelet: `local` at the loopback address, and `own` at another one of this machine.
struct Cluster {
    server: Server,
    kubelet: FakeKubelet,
    /// The folder of the files that the flags name.
    _certificates: Certificates,
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with(&["proxy.crt", "proxy.key", "back-ca.crt"], &[]).await
    }

    /// Starts a server with these files for its client certificate, key and authorities, and further flags.
    async fn start_with(files: &[&str], more: &[&str]) -> Self {
        let certificates = Certificates::new("kubelet");
        let names = ["client-certificate", "client-key", "certificate-authority"];
        let of_files = names.iter().zip(files);
        let given: Vec<String> = of_files
            .map(|(name, file)| format!("--kubelet-{name}={}", certificates.path(file).display()))
            .chain(more.iter().map(|&flag| flag.to_owned()))
            .collect();
        let flags: Vec<&str> = given.iter().map(String::as_str).collect();
        let cluster = Self {
            server: Server::start(&Binary::debug().unwrap(), &flags).unwrap(),
            kubelet: FakeKubelet::start(&certificates).await,
            _certificates: certificates,
        };
        let mut client = cluster.client().await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let _ = client
            .ask(
                Method::POST,
                "/api/v1/namespaces/default/serviceaccounts",
                JSON,
                account,
            )
            .await;
        cluster.node("local", "127.0.0.1").await;
        cluster.node("own", &own_address().to_string()).await;
        cluster.pod("web", json!([container("c")]), "127.0.0.1").await;
        cluster
    }

    async fn client(&self) -> Client {
        Client::new(&self.server).await
    }

    async fn node(&self, name: &str, address: &str) {
        let status = json!({"addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.port}}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let mut client = self.client().await;
        client.make("/api/v1/nodes", node).await;
        let path = format!("/api/v1/nodes/{name}/status");
        let (code, answer) = client.ask(Method::PATCH, &path, MERGE, json!({"status": status})).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
    }

    /// Makes a Pod on the node `local` with that address.
    async fn pod(&self, name: &str, containers: Value, address: &str) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": "local", "containers": containers}});
        let mut client = self.client().await;
        client.make(PODS, pod).await;
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
        let path = format!("{PODS}/{name}/status");
        let (code, answer) = client.ask(Method::PATCH, &path, MERGE, status).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.client().await.get(path).await
    }

    /// Returns the message of the `Status` of a GET.
    async fn error(&self, path: &str) -> (u16, String) {
        let (code, status) = self.get(path).await;
        (code.as_u16(), status["message"].as_str().unwrap_or_default().to_owned())
    }
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i"})
}

/// Sends a request to switch protocols on a connection of its own. Returns the head of the answer, and the connection.
async fn switch(server: &Server, path: &str, headers: &str) -> (String, impl AsyncStream + use<>) {
    let mut connection = Target::new(server).unwrap().raw().await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer admintoken\r\nConnection: Upgrade\r\n{headers}\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(connection.read_u8().await.unwrap());
    }
    (String::from_utf8(answer).unwrap(), connection)
}

trait AsyncStream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> AsyncStream for T {}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_that_of_kubelet_with_all_options() {
    let cluster = Cluster::start().await;
    let query = "previous=true&timestamps=true&sinceSeconds=5&tailLines=0&limitBytes=9";
    let mut connection = Target::new(&cluster.server).unwrap().connect().await.unwrap();
    let answer = connection.get(&format!("{PODS}/web/log?{query}"), "*/*").await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["content-type"]),
        (StatusCode::OK, &"text/plain".parse().unwrap())
    );
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let report: Value = serde_json::from_slice(&body).unwrap();
    let expected = "/containerLogs/default/web/c?limitBytes=9&previous=true&sinceSeconds=5&tailLines=0&timestamps=true";
    assert_eq!(
        (report["method"].as_str(), report["uri"].as_str()),
        (Some("GET"), Some(expected))
    );
    assert_eq!(report["authorization"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_log_is_passed_on_line_by_line() {
    let cluster = Cluster::start().await;
    let mut connection = Target::new(&cluster.server).unwrap().connect().await.unwrap();
    let answer = connection
        .get(&format!("{PODS}/web/log?follow=true"), "*/*")
        .await
        .unwrap();
    let mut body = answer.into_body();
    for line in 1..=3 {
        cluster.kubelet.log_line();
        let piece = tokio::time::timeout(WAIT_TIMEOUT, body.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(piece.into_data().unwrap(), format!("line {line}\n"));
    }
    assert!(body.frame().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn log_over_websocket_comes_in_messages() {
    let cluster = Cluster::start().await;
    let handshake = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                     Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n";
    let mut connection = Target::new(&cluster.server).unwrap().raw().await.unwrap();
    let path = format!("{PODS}/web/log?follow=true");
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer admintoken\r\nConnection: Upgrade\r\n{handshake}\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..3 {
        cluster.kubelet.log_line();
    }
    let mut received = Vec::new();
    // The server ends the session after the last line, and waits a moment for the reply.
    let read = tokio::time::timeout(WAIT_TIMEOUT, connection.read_to_end(&mut received))
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&received).to_ascii_lowercase();
    assert!(read.is_ok() || !received.is_empty());
    assert!(
        text.starts_with("http/1.1 101") && text.contains("sec-websocket-protocol: base64.binary.k8s.io"),
        "{text}"
    );
    let frames = received.split(|byte| *byte == b'\n').next_back().unwrap();
    let expected = [
        &b"\x81\x00\x81\x0cbGluZSAxCg==\x81\x0cbGluZSAyCg==\x81\x0cbGluZSAzCg=="[..],
        b"\x88\x02\x03\xe8",
    ]
    .concat();
    assert_eq!(frames, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_errors_are_those_of_reference() {
    let cluster = Cluster::start().await;
    for name in ["bad", "gone", "redirected"] {
        cluster.pod(name, json!([container(name)]), "127.0.0.1").await;
    }
    cluster
        .pod("two", json!([container("c"), container("d")]), "127.0.0.1")
        .await;
    let message = async |name: &str| cluster.error(&format!("{PODS}/{name}/log")).await;
    let two = "a container name must be specified for pod two, choose one of: [c d]";
    assert_eq!(message("two").await, (400, two.to_owned()));
    assert_eq!(message("bad").await, (400, "no such log".to_owned()));
    let gone = "the server could not find the requested resource ( pods/log gone)";
    assert_eq!(message("gone").await, (404, gone.to_owned()));
    let (code, text) = message("redirected").await;
    assert!(
        code == 500 && text.starts_with("Get \"https://127.0.0.1:") && text.ends_with(": redirects forbidden"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_kubelet_is_verified_if_authorities_are_given() {
    let log = format!("{PODS}/web/log");
    let unverified = Cluster::start_with(&["proxy.crt", "proxy.key"], &[]).await;
    assert_eq!(unverified.get(&log).await.0, StatusCode::OK);
    let other = Cluster::start_with(&["proxy.crt", "proxy.key", "proxy-ca.crt"], &[]).await;
    let (code, text) = other.error(&log).await;
    assert!(
        code == 500 && text.contains("tls: failed to verify certificate: x509: "),
        "{text}"
    );
    let skipping = format!("{log}?insecureSkipTLSVerifyBackend=true");
    assert_eq!(other.get(&skipping).await.0, StatusCode::OK);
    let anonymous = Cluster::start_with(&[], &[]).await;
    let (code, text) = anonymous.error(&log).await;
    assert!(code == 500 && text.contains("CertificateRequired"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_read_stops_the_kubelet() {
    let cluster = Cluster::start().await;
    cluster.pod("endless", json!([container("endless")]), "127.0.0.1").await;
    let before = cluster.server.memory().unwrap();
    let mut connection = Target::new(&cluster.server).unwrap().connect().await.unwrap();
    let answer = connection.get(&format!("{PODS}/endless/log"), "*/*").await.unwrap();
    let mut last = 0;
    let mut same = 0;
    while same < 5 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sent = cluster.kubelet.sent();
        same = if sent == last { same + 1 } else { 0 };
        last = sent;
        assert!(sent < 64 << 20, "{sent} bytes were taken and not read");
    }
    let grown = cluster.server.memory().unwrap().saturating_sub(before);
    assert!(grown < 4 << 20, "the server holds {grown} bytes more");
    drop(answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_proxy_passes_requests_on() {
    let cluster = Cluster::start_with(&["proxy.crt", "proxy.key"], &[]).await;
    let (code, text) = cluster.error("/api/v1/nodes/local/proxy/stats/summary").await;
    assert_eq!((code, text.as_str()), (400, "address not allowed"));
    let path = "/api/v1/nodes/own/proxy";
    let (code, report) = cluster.get(&format!("{path}/a%20b/?x=%2F")).await;
    assert_eq!(code, StatusCode::OK, "{report}");
    assert_eq!(report["uri"], "/a%20b/?x=%2F");
    assert_eq!(report["forwarded"], format!("{path}/a%20b/"));
    assert_eq!(
        (&report["host"], &report["authorization"]),
        (&json!("localhost"), &Value::Null)
    );
    let mut client = cluster.client().await;
    let (code, report) = client
        .ask(Method::PUT, &format!("{path}/run"), JSON, json!({"a": 1}))
        .await;
    assert_eq!(
        (code, &report["body"], &report["method"]),
        (StatusCode::OK, &json!("{\"a\":1}"), &json!("PUT"))
    );
    let port = format!("/api/v1/nodes/https:own:{}/proxy/b", cluster.kubelet.port);
    assert_eq!(client.get(&port).await.1["uri"], "/b");
    let (code, text) = cluster.error("/api/v1/nodes/own:1/proxy/").await;
    assert!(
        code == 503 && text.starts_with("error trying to reach service: dial tcp "),
        "{text}"
    );
    assert_eq!(cluster.error("/api/v1/nodes/none/proxy/").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_head_and_redirects() {
    let cluster = Cluster::start_with(&["proxy.crt", "proxy.key"], &[]).await;
    let path = "/api/v1/nodes/own/proxy";
    let mut connection = Target::new(&cluster.server).unwrap().connect().await.unwrap();
    let answer = connection
        .open(Method::HEAD, &format!("{path}/a"), "", Bytes::new())
        .await
        .unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["x-answer"]),
        (StatusCode::OK, &"own".parse().unwrap())
    );
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    let mut connection = Target::new(&cluster.server).unwrap().connect().await.unwrap();
    let answer = connection.get(&format!("{path}/redirected"), "*/*").await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
    assert_eq!(answer.headers()["location"], format!("{path}/elsewhere?a=b"));
    let _ = answer.into_body().collect().await;
    let answer = connection.get(&format!("{path}?a=b"), "*/*").await.unwrap();
    assert_eq!(answer.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(answer.headers()["location"], format!("{path}/?a=b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_and_service_proxies_reach_the_pod() {
    let cluster = Cluster::start().await;
    let (pod, address) = (FakeKubelet::start_plain().await, own_address().to_string());
    cluster.pod("app", json!([container("c")]), &address).await;
    let (code, report) = cluster.get(&format!("{PODS}/app:{}/proxy/a?b=c", pod.port)).await;
    assert_eq!((code, &report["uri"]), (StatusCode::OK, &json!("/a?b=c")));
    let (code, text) = cluster.error(&format!("{PODS}/web:80/proxy/")).await;
    assert_eq!((code, text.as_str()), (400, "address not allowed"));
    let mut client = cluster.client().await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "app"},
        "spec": {"ports": [{"name": "web", "port": 80}]}});
    client.make("/api/v1/namespaces/default/services", service).await;
    let target = json!({"kind": "Pod", "namespace": "default", "name": "app"});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "app"}, "subsets": [{
        "addresses": [{"ip": address, "targetRef": target}, {"ip": "198.51.100.1"}],
        "ports": [{"name": "web", "port": pod.port}]}]});
    client.make("/api/v1/namespaces/default/endpoints", endpoints).await;
    for name in ["app:web", "app:80", "http:app:web"] {
        let (code, report) = client
            .get(&format!("/api/v1/namespaces/default/services/{name}/proxy/s"))
            .await;
        assert_eq!((code, &report["uri"]), (StatusCode::OK, &json!("/s")), "{name}");
    }
    let (code, text) = cluster
        .error("/api/v1/namespaces/default/services/app:odd/proxy/")
        .await;
    assert_eq!(
        (code, text.as_str()),
        (503, "no endpoints available for service \"app:odd\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_switched_connection_pass_in_both_directions() {
    let cluster = Cluster::start().await;
    let path = format!("{PODS}/web/exec?command=a%20b&command=c&stdin=true&stdout=1&tty=false");
    let (head, mut connection) = switch(&cluster.server, &path, "Upgrade: SPDY/3.1\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 101") && head.to_ascii_lowercase().contains("upgrade: spdy/3.1"),
        "{head}"
    );
    connection.write_all(b"some bytes").await.unwrap();
    connection.shutdown().await.unwrap();
    let mut received = String::new();
    let read = connection.read_to_string(&mut received);
    tokio::time::timeout(WAIT_TIMEOUT, read).await.unwrap().unwrap();
    let expected = "POST /exec/default/web/c?command=a%20b&command=c&input=1&output=1\nsome bytesthe end";
    assert_eq!(received, expected);
    let (code, text) = cluster.error(&format!("{PODS}/web/exec?command=a")).await;
    assert_eq!((code, text.as_str()), (400, "Upgrade request required"));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_audited_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let rules = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, resources: [{group: '', resources: \
                 ['pods/attach']}]}]}";
    std::fs::write(&policy, rules).unwrap();
    let log = folder.path().join("audit.log");
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let files = ["proxy.crt", "proxy.key", "back-ca.crt"];
    let cluster = Cluster::start_with(&files, &[&flags[0], &flags[1]]).await;
    let stages = || -> Vec<String> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let stage = |line| {
            serde_json::from_str::<Value>(line).unwrap()["stage"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        text.lines().map(stage).collect()
    };
    let path = format!("{PODS}/web/attach?stdout=1");
    let (_, mut connection) = switch(&cluster.server, &path, "Upgrade: SPDY/3.1\r\n").await;
    let mut first = [0; 4];
    connection.read_exact(&mut first).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stages(), ["RequestReceived", "ResponseStarted"]);
    connection.shutdown().await.unwrap();
    let end = tokio::time::Instant::now() + WAIT_TIMEOUT;
    while stages().len() < 3 {
        assert!(tokio::time::Instant::now() < end, "{:?}", stages());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stages()[2], "ResponseComplete");
}

/// Sends the handshake of a command over a WebSocket, and returns the connection after the head of the answer.
async fn websocket_command(cluster: &Cluster, path: &str) -> impl AsyncStream + use<> {
    let handshake = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                     Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n";
    let (head, connection) = switch(&cluster.server, path, handshake).await;
    let head = head.to_ascii_lowercase();
    assert!(
        head.starts_with("http/1.1 101") && head.contains("sec-websocket-protocol: v5.channel.k8s.io"),
        "{head}"
    );
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_kubelet_is_not_success() {
    let cluster = Cluster::start().await;
    // This kubelet switches protocols and then speaks no SPDY.
    let mut connection = websocket_command(&cluster, &format!("{PODS}/web/exec?command=a&stdout=1")).await;
    let mut received = Vec::new();
    let _ = tokio::time::timeout(WAIT_TIMEOUT, connection.read_to_end(&mut received))
        .await
        .unwrap();
    assert!(
        received.starts_with(&[0x82, 1, 1]),
        "the first message is empty: {received:?}"
    );
    let text = String::from_utf8_lossy(&received);
    assert!(
        text.contains("\"status\":\"Failure\"") && text.contains("\"reason\":\"InternalError\""),
        "{text}"
    );
}
