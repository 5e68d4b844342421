//! Traces of requests, which a collector of the test gets.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use conformance::hook::{Hook, allow};
use conformance::{Binary, Client, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;
use test_support::trace_collector::{CollectedSpan, TraceCollector};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn configuration(folder: &TempDir, rest: &str) -> PathBuf {
    let path = folder.path().join("tracing.yaml");
    let text = format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n{rest}\n");
    std::fs::write(&path, text).unwrap();
    path
}

/// A server that exports traces to a collector.
struct Traced {
    collector: TraceCollector,
    server: Server,
    _folder: TempDir,
}

impl Traced {
    fn start(rate: u32) -> Self {
        let (folder, collector) = (tempfile::tempdir().unwrap(), TraceCollector::start().unwrap());
        let rest = format!("endpoint: {}\nsamplingRatePerMillion: {rate}", collector.address);
        let flag = format!("--tracing-config-file={}", configuration(&folder, &rest).display());
        let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
        Self {
            collector,
            server,
            _folder: folder,
        }
    }

    /// Sends a request with a parent, as the user of the token.
    async fn send(&self, token: &'static str, method: Method, path: &str, body: &str, flags: &str) -> StatusCode {
        let mut stream = Target::new(&self.server).unwrap().raw().await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nTraceparent: 00-{TRACE}-{PARENT}-{flags}\r\n\
             Tracestate: vendor=1\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The end of the connection may have no notification of TLS.
        let _ = stream.read_to_end(&mut response).await;
        let text = String::from_utf8_lossy(&response);
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Waits for a span of that name.
    async fn span(&self, name: &str, matches: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let spans = self.collector.spans();
            if let Some(span) = spans.iter().find(|span| span.name == name && matches(span)) {
                return span.clone();
            }
            let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
            assert!(Instant::now() < end, "no span {name} among {names:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn privileged_client_continues_its_trace() {
    let traced = Traced::start(0);
    let hook = Hook::start(|_| allow()).await;
    let webhook = hook.webhook("a.b.c", &["CREATE"], "/v1/configmaps", json!({}));
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "traced"}, "webhooks": [webhook]});
    let mut admin = Client::new(&traced.server).await;
    admin.make(HOOKS, object).await;
    let of_trace = |span: &CollectedSpan| span.trace == TRACE;
    // The webhook may also get ConfigMaps of the server's own controllers.
    let parents = || -> Vec<String> {
        let all = hook.trace_parents();
        all.into_iter().filter(|parent| parent.contains(TRACE)).collect()
    };
    let end = Instant::now() + WAIT_TIMEOUT;
    let mut number = 0;
    while parents().is_empty() {
        assert!(Instant::now() < end, "the webhook is not called");
        number += 1;
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}")}});
        let status = traced
            .send(
                conformance::ADMIN_TOKEN,
                Method::POST,
                CONFIG_MAPS,
                &body.to_string(),
                "01",
            )
            .await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let call = traced.span("HTTP POST", of_trace).await;
    assert_eq!(parents(), [format!("00-{TRACE}-{}-01", call.id)]);
    let webhook = traced
        .span("Call validating webhook", |span| span.id == call.parent)
        .await;
    assert_eq!(webhook.attributes["configuration"], "traced");
    assert_eq!(webhook.attributes["webhook"], "a.b.c");
    let create = traced.span("Create", |span| span.id == webhook.parent).await;
    assert_eq!(create.attributes["resource"], "configmaps");
    assert_eq!(create.attributes["verb"], "create");
    let name = "POST /api/v1/namespaces/{:namespace}/configmaps";
    let request = traced.span(name, |span| span.id == create.parent).await;
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, PARENT));
    assert_eq!((request.kind, create.kind, call.kind), (2, 1, 3));
    assert_eq!(request.attributes["http.response.status_code"], "201");
    assert_eq!(request.attributes["http.target"], CONFIG_MAPS);
    assert_eq!(request.attributes["audit-id"].len(), 36);
    assert_eq!(request.resource["service.name"], "apiserver");
    assert!(request.resource["service.instance.id"].starts_with("apiserver-"));
    assert!(request.nanoseconds >= create.nanoseconds);
    // Requests without a sampled parent are not recorded.
    traced
        .send(conformance::ADMIN_TOKEN, Method::GET, "/version", "", "00")
        .await;
    admin.get("/version").await;
    let mine = |span: &CollectedSpan| span.trace == TRACE || span.name == "GET";
    assert!(
        traced
            .collector
            .spans()
            .iter()
            .all(|span| mine(span) && span.name != "GET")
    );
}

#[tokio::test]
async fn other_client_starts_a_linked_trace() {
    let traced = Traced::start(1_000_000);
    let status = traced.send(USER_TOKEN, Method::GET, "/api/v1/nodes", "", "01").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let span = traced.span("GET /api/v1/nodes", |span| !span.links.is_empty()).await;
    assert_ne!(span.trace, TRACE);
    assert_eq!(
        (span.parent.as_str(), span.links.as_slice()),
        ("", &[TRACE.to_owned()][..])
    );
    assert_eq!(span.attributes["http.response.status_code"], "403");
    let mut admin = Client::new(&traced.server).await;
    admin.get("/version").await;
    let span = traced
        .span("GET", |span| span.attributes["url.path"] == "/version")
        .await;
    assert_eq!(span.attributes["http.response.status_code"], "200");
}

#[tokio::test]
async fn spans_that_wait_are_exported_at_the_end() {
    let mut traced = Traced::start(1_000_000);
    let mut admin = Client::new(&traced.server).await;
    admin.get("/readyz").await;
    traced.server.end();
    let spans = traced.collector.spans();
    assert!(
        spans
            .iter()
            .any(|span| span.attributes.get("url.path").is_some_and(|path| path == "/readyz"))
    );
}

#[test]
fn invalid_file_ends_the_start() {
    let (binary, folder) = (Binary::debug().unwrap(), tempfile::tempdir().unwrap());
    for (rest, why) in [
        (
            "samplingRatePerMillion: 1000001",
            "samplingRatePerMillion: Invalid value: 1000001: ",
        ),
        ("endpoint: http://a", "unsupported scheme: http."),
        ("rate: 1", "strict decoding error: unknown field \"rate\""),
    ] {
        let path = configuration(&folder, rest);
        let rejection = binary
            .rejection(&[format!("--tracing-config-file={}", path.display())])
            .unwrap();
        assert!(
            rejection.contains("tracing.yaml") && rejection.contains(why),
            "{rejection}"
        );
    }
    let rejection = binary.rejection(&["--tracing-config-file=/nowhere"]).unwrap();
    assert!(rejection.contains("failed to read tracing config"), "{rejection}");
}
