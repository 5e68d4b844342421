//! Tests of the servers with a transport that answers from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use holdfast_resource::Registry;
use holdfast_value::{Limits, Value, json, yaml};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use parking_lot::Mutex;

use crate::{ApiService, DocumentSource, Fetched, Question, Remote, Servers, Transport, Unreachable};

/// Transport that counts connections and answers requests by their paths.
#[derive(Default)]
struct Fake {
    connections: AtomicUsize,
    answers: Mutex<Vec<(&'static str, &'static str)>>,
    /// Paths of the requests, with their `If-None-Match`.
    requests: Mutex<Vec<String>>,
}

impl Transport for Fake {
    type Backend = usize;

    fn backend(&self, _remote: &Remote) -> Result<usize, String> {
        Ok(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    fn address(&self, remote: &Remote) -> Result<(String, u16), String> {
        Ok((remote.service.to_string(), remote.port))
    }

    fn check(&self, remote: &Remote) -> Result<(), Unreachable> {
        match remote.service.as_str() {
            "gone" => Err(Unreachable {
                reason: "ServiceNotFound",
                message: "it is not present".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    async fn ask(&self, _: &usize, _: &(String, u16), question: Question<'_>) -> Result<Fetched, String> {
        let etag = question.etag.as_ref().and_then(|etag| etag.to_str().ok());
        self.requests
            .lock()
            .push(format!("{} {}", question.path, etag.unwrap_or("-")));
        let found = self
            .answers
            .lock()
            .iter()
            .find(|(path, _)| *path == question.path)
            .copied();
        let (_, body) = found.ok_or("connection refused")?;
        let newer = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        Ok(Fetched {
            status: match etag {
                Some(_) => StatusCode::NOT_MODIFIED,
                None => StatusCode::OK,
            },
            headers: HeaderMap::from_iter([
                (header::CONTENT_TYPE, HeaderValue::from_static(newer)),
                (header::ETAG, HeaderValue::from_static("\"1\"")),
            ]),
            body: Bytes::from_static(body.as_bytes()),
        })
    }
}

fn service(group: &str, server: &str) -> ApiService {
    let text = format!(
        "{{metadata: {{name: v1.{group}}}, spec: {{group: {group}, version: v1, service: {{namespace: ns, name: {server}}}}}, \
         status: {{conditions: [{{type: Available, status: 'True'}}]}}}}"
    );
    ApiService::read(&yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()).unwrap()
}

fn servers(services: &[(&str, &str)]) -> Arc<Servers<Fake>> {
    let servers = Arc::new(Servers::new(Fake::default(), &Registry::default()));
    set(&servers, services);
    servers
}

fn set(servers: &Servers<Fake>, services: &[(&str, &str)]) {
    let named = |&(group, server): &(&str, &str)| (format!("v1.{group}").into(), Some(service(group, server)));
    servers.apply(services.iter().map(named).collect());
}

fn connection(servers: &Servers<Fake>, path: &str) -> Option<usize> {
    let remote = servers.remote(path)?;
    remote.backend.clone().ok()
}

#[test]
fn unchanged_server_keeps_its_connections() {
    let servers = servers(&[("a.x", "one"), ("b.x", "two")]);
    assert_eq!(connection(&servers, "/apis/a.x/v1/things"), Some(0));
    set(&servers, &[("a.x", "one"), ("b.x", "three")]);
    assert_eq!(connection(&servers, "/apis/a.x/v1"), Some(0));
    assert_eq!(connection(&servers, "/apis/b.x/v1"), Some(2));
    servers.reconnect();
    assert_eq!(connection(&servers, "/apis/a.x/v1"), Some(3));
    servers.apply(vec![("v1.a.x".into(), None), ("v1.b.x".into(), None)]);
    assert_eq!(connection(&servers, "/apis/a.x/v1"), None);
    assert_eq!(servers.services().all().count(), 0);
}

#[tokio::test]
async fn availability_names_the_reason_of_a_failure() {
    let servers = servers(&[("a.x", "one"), ("b.x", "gone")]);
    let state = servers.check("v1.b.x").await.unwrap();
    assert_eq!((state.available, state.reason), (false, "ServiceNotFound"));
    let state = servers.check("v1.a.x").await.unwrap();
    assert_eq!((state.available, state.reason), (false, "FailedDiscoveryCheck"));
    assert_eq!(
        state.message,
        "failing or missing response from https://one:443/apis/a.x/v1: Get \"https://one:443/apis/a.x/v1\": connection refused"
    );
    servers.transport().answers.lock().push(("/apis/a.x/v1", "{}"));
    assert!(servers.check("v1.a.x").await.unwrap().available);
    assert_eq!(servers.check("v1.c.x").await, None);
}

#[tokio::test]
async fn discovery_is_kept_while_its_etag_is_current() {
    let servers = servers(&[("a.x", "one")]);
    servers.refresh_discovery("v1.a.x").await.unwrap_err();
    assert_eq!(servers.remote_resource("a.x", "things"), None);
    servers.transport().answers.lock().push((
        "/apis",
        r#"{"items":[{"metadata":{"name":"a.x"},"versions":[{"version":"v1","resources":[{"resource":"things","scope":"Cluster",
            "responseKind":{"kind":"Thing"},"verbs":["get"]}]}]}]}"#,
    ));
    for _ in 0..2 {
        servers.refresh_discovery("v1.a.x").await.unwrap();
        let resource = servers.remote_resource("a.x", "things").unwrap();
        assert_eq!((resource.kind.as_str(), resource.namespaced), ("Thing", false));
    }
    let requests = servers.transport().requests.lock().clone();
    assert_eq!(requests, ["/apis -", "/apis -", "/apis \"1\""]);
}

/// The documents of a server without resources of its own.
struct Empty;

impl DocumentSource for Empty {
    fn paths(&self) -> Vec<String> {
        vec!["api/v1".to_owned()]
    }

    fn fingerprint_3(&self, _path: &str) -> Option<Vec<u8>> {
        None
    }

    fn fingerprint_2(&self) -> Vec<u8> {
        vec![1]
    }

    fn version_3(&self, _path: &str) -> Option<Vec<u8>> {
        None
    }

    fn version_2(&self, take: &mut dyn FnMut(&'static str, Value)) {
        take("paths", Value::empty_map());
        take("definitions", Value::empty_map());
    }
}

#[tokio::test]
async fn documents_of_other_servers_are_merged() {
    let servers = servers(&[("a.x", "one")]);
    servers.transport().answers.lock().extend([
        (
            "/openapi/v3",
            r#"{"paths":{"apis/a.x/v1":{"serverRelativeURL":"/openapi/v3/apis/a.x/v1?hash=1"}}}"#,
        ),
        (
            "/openapi/v2",
            r#"{"paths":{"/apis/a.x/v1/things":{"get":{}},"/other":{}},"definitions":{}}"#,
        ),
    ]);
    let merged = servers.documents(Arc::new(Empty));
    assert_eq!(merged.fingerprint_2(), [1]);
    servers.refresh_openapi("v1.a.x").await.unwrap();
    assert_eq!(merged.elsewhere()["apis/a.x/v1"], "/openapi/v3/apis/a.x/v1?hash=1");
    assert!(merged.fingerprint_2().len() > 1);
    let mut text = String::new();
    merged.version_2(&mut |member, part| text += &format!("{member} {}\n", json::to_string(&part)));
    assert!(
        text.contains("/apis/a.x/v1/things") && !text.contains("/other"),
        "{text}"
    );
    assert!(servers.remote_document("apis/a.x/v1", |_| false).is_some());
    servers.apply(vec![("v1.a.x".into(), None)]);
    assert!(merged.elsewhere().is_empty());
}
