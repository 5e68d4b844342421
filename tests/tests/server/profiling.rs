//! Profiles of the process and the verbosity of its log.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::{Binary, Client, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use test_support::needs;

const PROFILE: &str = "/debug/pprof/profile";

fn start(flags: &[&str]) -> Server {
    Server::start(&Binary::debug().unwrap(), flags).unwrap()
}

/// Returns the status and the body of a response to a GET.
async fn bytes(server: &Server, path: &str) -> (StatusCode, Vec<u8>) {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let response = connection.get(path, "*/*").await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, body.to_vec())
}

/// Reads objects until `done`, so that the server uses processors.
async fn keep_busy(mut client: Client, done: Arc<AtomicBool>) {
    while !done.load(Ordering::Relaxed) {
        client.get("/api/v1/namespaces?limit=1").await;
    }
}

#[needs(go)]
#[tokio::test]
async fn go_tool_reads_cpu_profile() {
    let server = start(&[]);
    let done = Arc::<AtomicBool>::default();
    let busy = tokio::spawn(keep_busy(Client::new(&server).await, Arc::clone(&done)));
    // Profiles after the first one work, too.
    for _ in 0..2 {
        let path = format!("{PROFILE}?seconds=2");
        let (profiled, second) = tokio::join!(bytes(&server, &path), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            bytes(&server, PROFILE).await
        });
        assert_eq!(second.0, StatusCode::INTERNAL_SERVER_ERROR);
        let (status, profile) = profiled;
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            let text = String::from_utf8_lossy(&profile).into_owned();
            let why = "this build has no profiler; build it with the feature `profiling`";
            assert_eq!(text, format!("Could not enable CPU profiling: {why}\n"));
            break;
        }
        assert_eq!(status, StatusCode::OK);
        let text = String::from_utf8_lossy(&second.1).into_owned();
        assert_eq!(text, "Could not enable CPU profiling: cpu profiling already in use\n");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile");
        std::fs::write(&file, &profile).unwrap();
        let output = Command::new("go")
            .args(["tool", "pprof", "-top", "-nodecount=400"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("Type: cpu"), "{text}");
        assert!(text.contains("holdfast_"), "no function of the server: {text}");
    }
    done.store(true, Ordering::Relaxed);
    busy.await.unwrap();
}

#[tokio::test]
async fn profile_that_cannot_be_made_is_an_error() {
    let server = start(&[]);
    let (status, text) = bytes(&server, "/debug/pprof/heap").await;
    assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
    assert!(String::from_utf8_lossy(&text).contains("the allocator of this build does not record"));
    assert_eq!(bytes(&server, "/debug/pprof/none").await.0, StatusCode::NOT_FOUND);
    let long = format!("{PROFILE}?seconds=100000");
    assert_eq!(bytes(&server, &long).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(bytes(&server, "/debug/pprof").await.0, StatusCode::FOUND);
    assert_eq!(bytes(&server, "/debug/pprof/").await.0, StatusCode::OK);
}

#[tokio::test]
async fn verbosity_of_the_log_is_changed_at_runtime() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let path = "/debug/flags/v";
    let (status, text) = client.ask(Method::PUT, path, "text/plain", json!("x")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    assert_eq!(client.get(path).await.0, StatusCode::NOT_ACCEPTABLE);
    let debug = &["DEBUG"];
    assert!(!server.logged(debug));
    let (status, text) = client.ask(Method::PUT, path, "text/plain", json!(2)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(text, Value::from("successfully set klog.logging.verbosity to 2\n"));
    client.get("/api/v1/namespaces").await;
    server.until_logged(debug).await.unwrap();
}

#[tokio::test]
async fn only_permitted_users_get_profiles() {
    let server = start(&[]);
    let mut alice = Client::with_token(&server, conformance::USER_TOKEN).await;
    let path = format!("{PROFILE}?seconds=1");
    assert_eq!(alice.get(&path).await.0, StatusCode::FORBIDDEN);
    let server = start(&["--profiling=false"]);
    for path in [PROFILE, "/debug/pprof/", "/debug/flags/v"] {
        assert_eq!(bytes(&server, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}
