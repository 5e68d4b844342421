//! What is served: `--feature-gates` and `--runtime-config` of the real binary.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "what fails here is the test")]

use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;

/// The answer to a request with a body, as text.
async fn send(server: &Server, method: Method, path: &str, body: &str) -> (u16, serde_json::Value) {
    let mut connection = Target::of(server).unwrap().connect().await.unwrap();
    let body = Bytes::from(body.to_owned());
    let response = connection.open(method, path, "application/json", body).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn text(server: &Server, path: &str) -> String {
    let mut connection = Target::of(server).unwrap().connect().await.unwrap();
    let response = connection.get(path, "*/*").await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Why a start with these flags ends.
fn refused(flags: &[&str]) -> String {
    match Server::start(&Binary::debug().unwrap(), flags) {
        Ok(_) => String::new(),
        Err(error) => format!("{error:#}"),
    }
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"os":{"name":"linux"},
    "containers":[{"name":"c","image":"i","lifecycle":{"stopSignal":"SIGUSR1"}}]}}"#;
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";
const SIGNAL: &str = "/spec/containers/0/lifecycle/stopSignal";
const WATCH: &str = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";

#[tokio::test]
async fn feature_gates_switch_what_they_name() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let (_, pod) = send(&server, Method::POST, PODS, POD).await;
    assert_eq!(pod.pointer(SIGNAL), None, "{pod}");
    assert_eq!(send(&server, Method::GET, WATCH, "").await.0, 200);
    let metrics = text(&server, "/metrics").await;
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"ContainerStopSignals\",stage=\"ALPHA\"} 0"));

    let flags = [
        "--feature-gates=ContainerStopSignals=true",
        "--feature-gates=WatchList=false,AllAlpha=false",
    ];
    let server = server.restart(&flags).unwrap();
    let (_, pod) = send(&server, Method::POST, PODS, POD).await;
    assert_eq!(pod.pointer(SIGNAL).unwrap(), "SIGUSR1");
    let (status, refusal) = send(&server, Method::GET, WATCH, "").await;
    assert_eq!(status, 422);
    let message = refusal["message"].as_str().unwrap();
    assert!(
        message.contains("forbidden for watch unless the WatchList feature gate is enabled"),
        "{message}"
    );
    let metrics = text(&server, "/metrics").await;
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"ContainerStopSignals\",stage=\"ALPHA\"} 1"));
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"WatchList\",stage=\"BETA\"} 0"));
}

#[test]
fn gates_that_cannot_be_set_end_the_start() {
    let complaint = refused(&["--feature-gates=Nope=true"]);
    assert!(complaint.contains("unrecognized feature gate: Nope"), "{complaint}");
    let complaint = refused(&["--feature-gates=APIServerTracing=false"]);
    let why = "cannot set feature gate APIServerTracing to false, feature is locked to true";
    assert!(complaint.contains(why), "{complaint}");
}

#[test]
fn gates_that_will_go_are_told_of_in_the_log() {
    let server = Server::start(&Binary::debug().unwrap(), &["--feature-gates=APIServerTracing=true"]).unwrap();
    let told = "setting GA feature gate APIServerTracing=true. It will be removed in a future release.";
    assert!(server.log_tail().contains(told), "{}", server.log_tail());
}

#[test]
fn help_tells_of_the_flags() {
    let out = Binary::debug().unwrap().command().arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&out.stdout);
    assert!(help.contains("--feature-gates <GATES>") && help.contains("--runtime-config <APIS>"));
}

#[test]
fn apis_that_are_not_there_end_the_start() {
    let complaint = refused(&["--runtime-config=nope.io/v1=true"]);
    assert!(complaint.contains("unknown api groups nope.io/v1"), "{complaint}");
    let complaint = refused(&["--runtime-config=api/all=false"]);
    assert!(
        complaint.contains("invalid runtime-config with only api/all=false"),
        "{complaint}"
    );
}
