//! Tests with a real listener: TLS, both versions of HTTP, authentication, rejected requests, and shutdown.

use std::time::Duration;

use bytes::Bytes;
use holdfast_server::wire::connection::Limits;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wire::{ADMIN, Authority, Client, Server, Setup, request};

#[tokio::test]
async fn both_versions_of_http_answer_on_one_port() {
    let server = Server::start().await;
    let http1 = Client::http1(server.connect(b"http/1.1", None).await.unwrap()).await;
    let http2 = Client::http2(server.connect(b"h2", None).await.unwrap()).await;
    for mut client in [http1, http2] {
        let (code, headers, body) = client.get("/version", ADMIN).await;
        assert_eq!(
            (code, headers["content-type"].to_str().unwrap()),
            (200, "application/json")
        );
        assert!(body.contains("\"gitVersion\": \"v1.36.2+holdfast."), "{body}");
        // The connection is kept for the next request.
        assert_eq!(client.get("/livez", "").await.2, "ok");
    }
}

#[tokio::test]
async fn user_is_authenticated_by_token() {
    let mut client = Server::start().await.client().await;
    assert_eq!(client.get("/api", ADMIN).await.0, 200);
    let (code, _, body) = client.get("/api", "wrongtoken").await;
    assert_eq!(code, 401);
    assert_eq!(
        body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
    );
    let (code, _, body) = client.get("/api", "").await;
    assert_eq!(code, 403);
    assert!(
        body.contains(r#"User \"system:anonymous\" cannot get path \"/api\""#),
        "{body}"
    );
    let (code, _, body) = client.get("/api/v1/namespaces/default/pods", "usertoken").await;
    assert_eq!(code, 403);
    let message = r#"pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""#;
    assert!(body.contains(message), "{body}");
}

#[tokio::test]
async fn user_is_authenticated_by_client_certificate() {
    let server = Server::start().await;
    for (group, code) in [("system:masters", 200), ("devs", 403)] {
        let certificate = server.authority.client("alice", group);
        let stream = server.connect(b"h2", Some(certificate)).await.unwrap();
        let mut client = Client::http2(stream).await;
        assert_eq!(client.get("/", "").await.0, code, "{group}");
        // The certificate has precedence over a token.
        assert_eq!(client.get("/", "wrongtoken").await.0, code, "{group}");
    }
}

#[tokio::test]
async fn untrusted_certificate_falls_back_to_the_token() {
    let server = Server::start().await;
    let expired = server.authority.client_with(|parameters| {
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });
    let for_servers = server.authority.client_with(|parameters| {
        parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    let stranger = Authority::new().client("admin", "system:masters");
    for certificate in [stranger, expired, for_servers] {
        for protocol in [&b"http/1.1"[..], b"h2"] {
            // A client with an invalid certificate is not anonymous, and is rejected without a token. An HTTP/2
            // connection ends with that.
            for (path, token, code) in [("/livez", "", 401), ("/api", "wrongtoken", 401), ("/api", ADMIN, 200)] {
                let certificate = (certificate.0.clone(), certificate.1.clone_key());
                let stream = server.connect(protocol, Some(certificate)).await.unwrap();
                let mut client = match protocol {
                    b"h2" => Client::http2(stream).await,
                    _ => Client::http1(stream).await,
                };
                assert_eq!(client.get(path, token).await.0, code, "{path}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_that_names_no_user_counts_as_none() {
    let server = Server::start().await;
    let nameless = server.authority.client_with(|parameters| {
        parameters.distinguished_name = rcgen::DistinguishedName::new();
    });
    let stream = server.connect(b"http/1.1", Some(nameless)).await.unwrap();
    let mut client = Client::http1(stream).await;
    assert_eq!(client.get("/livez", "").await.0, 200);
    let (code, _, body) = client.get("/api", "").await;
    assert_eq!(code, 403);
    assert!(body.contains("system:anonymous"), "{body}");
}

#[tokio::test]
async fn names_in_headers_are_utf_8_on_both_versions_of_http() {
    let server = Server::start().await;
    for protocol in [&b"http/1.1"[..], b"h2"] {
        let stream = server.connect(protocol, None).await.unwrap();
        let mut client = match protocol {
            b"h2" => Client::http2(stream).await,
            _ => Client::http1(stream).await,
        };
        let mut ask = async |name: &[u8]| {
            let mut request = request(Method::GET, "/api/v1/secrets", ADMIN);
            let name = http::HeaderValue::from_bytes(name).unwrap();
            request.headers_mut().insert("impersonate-user", name);
            client.send(request).await.unwrap()
        };
        let (code, _, body) = ask("josé".as_bytes()).await;
        assert_eq!(code, StatusCode::FORBIDDEN);
        assert!(body.contains(r#"User \"josé\" cannot list"#), "{body}");
        assert_eq!(ask(b"jos\xe9").await.0, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn missing_paths_are_reported_like_the_reference() {
    let mut client = Server::start().await.client().await;
    let status = "the server could not find the requested resource";
    let page = "404 page not found\n";
    let cases = [
        ("/api/v9", status),
        ("/api/v1/gadgets", status),
        ("/api/v1/namespaces/a/nodes", status),
        ("/api/v1/namespaces/a/namespaces", status),
        ("/apis/apps/v1/namespaces/a/deployments/web/scale/status", status),
        ("/apis/apps/v9/deployments", status),
        ("/version/x", status),
        ("/apis/none", page),
        ("/apis/none/v1/gadgets", page),
        ("/apis//v1/pods", page),
        ("//api/v1/configmaps", page),
        ("/healthz/", page),
        ("/gadgets", page),
    ];
    for (path, text) in cases {
        let (code, _, body) = client.get(path, ADMIN).await;
        assert_eq!(code, 404, "{path}");
        assert!(body.contains(text), "{path}: {body}");
    }
}

#[tokio::test]
async fn names_that_mean_something_in_paths_are_refused() {
    let mut client = Server::start().await.client().await;
    for (name, why) in [
        ("%2e%2e", "\\\"..\\\": may not be '..'"),
        ("a%252Eb", "\\\"a%2Eb\\\": may not contain '%'"),
    ] {
        let path = format!("/api/v1/namespaces/n/configmaps/{name}");
        let (code, _, body) = client.get(&path, ADMIN).await;
        assert_eq!(code, 400);
        assert!(body.contains(&format!("Name parameter invalid: {why}")), "{body}");
    }
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_refused() {
    let server = Server::start().await;
    let mut client = Client::http2(server.connect(b"h2", None).await.unwrap()).await;
    let cases = [
        (Method::HEAD, "/api/v1/namespaces/a/pods", 405),
        (Method::OPTIONS, "/api/v1/namespaces/a/pods/b", 405),
        (Method::POST, "/apis/apps/v1/deployments", 405),
        (Method::PUT, "/api/v1/namespaces/a/pods", 405),
        (Method::GET, "/api/v1/componentstatuses?watch=1", 405),
        (
            Method::GET,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            405,
        ),
        (
            Method::GET,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/a",
            404,
        ),
        (Method::POST, "/version", 405),
        (Method::POST, "/apis/apps", 200),
        (Method::POST, "/apis", 200),
        (Method::HEAD, "/api", 405),
        (Method::POST, "/api/v1", 405),
        (Method::PUT, "/apis/apps/v1/", 405),
        (Method::PUT, "/apis/apps/v9", 404),
        (Method::PUT, "/api/v1/watch/namespaces/a/pods", 405),
        (Method::DELETE, "/api/v1/watch/namespaces/a/pods/b", 405),
        (Method::PUT, "/api/v1/watch/namespaces/a/pods/b/status", 404),
        (Method::GET, "/api/v1/watch/bindings", 404),
        (Method::GET, "/api/v1/watch", 500),
        (Method::GET, "/api/v1/proxy/namespaces/a/pods/b", 404),
        (Method::GET, "/api/v1/bindings", 404),
        (Method::GET, "/api/v1/namespaces//pods", 200),
        (Method::POST, "/api/v1/namespaces//pods", 400),
        (Method::GET, "/api/v1/namespaces//pods/b", 400),
        (Method::GET, "/api/v1/namespaces//nodes", 404),
        (Method::GET, "/api/v1/namespaces/a/pods//status", 400),
        (Method::GET, "/api/v1/namespaces/a/pods/%zz", 400),
        (Method::PUT, "/api/v1/namespaces/a/pods/%2e%2e", 400),
        (Method::OPTIONS, "/api/v1/nodes/a/proxy/b", 404),
        (Method::HEAD, "/api/v1/nodes/a/proxy", 404),
        (Method::TRACE, "/api/v1/nodes/a/proxy", 405),
        (Method::POST, "/api/v1/nodes/a/proxy?dryRun=All", 400),
        (Method::GET, "/openapi/v3/", 404),
        (Method::GET, "/index.html/", 404),
        (Method::GET, "/version/", 200),
        (Method::HEAD, "/healthz", 200),
    ];
    for (method, path, expected) in cases {
        let (code, _, body) = client.send(request(method.clone(), path, ADMIN)).await.unwrap();
        assert_eq!(code, expected, "{method} {path}");
        assert!(method != Method::HEAD || body.is_empty());
    }
}

#[tokio::test]
async fn documents_come_in_the_requested_form() {
    let mut client = Server::start().await.client().await;
    let mut ask = async |path: &str, accept: &str, known: &str| {
        let mut request = request(Method::GET, path, ADMIN);
        request.headers_mut().insert("accept", accept.parse().unwrap());
        if !known.is_empty() {
            request.headers_mut().insert("if-none-match", known.parse().unwrap());
        }
        client.send(request).await.unwrap()
    };
    let (_, headers, body) = ask("/apis/apps", "application/yaml", "").await;
    assert_eq!(headers["content-type"], "application/yaml");
    assert!(body.contains("\nkind: APIGroup\nname: apps\n"), "{body}");

    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, headers, body) = ask("/apis", &format!("application/json,{AGGREGATED}"), "").await;
    assert_eq!(headers["content-type"], AGGREGATED);
    assert!(body.contains("\"resource\":\"deployments\""));
    let etag = headers["etag"].to_str().unwrap();
    assert_eq!(ask("/apis", AGGREGATED, etag).await.0, StatusCode::NOT_MODIFIED);
    for (path, accept) in [
        ("/apis/apps", AGGREGATED),
        (
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
        ),
        ("/api", "text/html"),
        ("/version", "application/yaml"),
    ] {
        assert_eq!(
            ask(path, accept, "").await.0,
            StatusCode::NOT_ACCEPTABLE,
            "{path} {accept}"
        );
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let limits = Limits {
        head_bytes: 16 * 1024,
        ..Limits::default()
    };
    let server = Server::start_with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    let long = format!("/api?padding={}", "x".repeat(32 * 1024));
    let mut client = server.client().await;
    assert_eq!(client.get(&long, ADMIN).await.0, 431);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_given_up() {
    let server = Server::start().await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let read = tokio::io::AsyncReadExt::read(&mut socket, &mut [0; 1]).await;
    assert_eq!(read.unwrap(), 0);
}

#[tokio::test]
async fn the_end_comes_in_order() {
    let server = Server::start().await;
    let mut client = server.client().await;
    server.trigger.not_ready();
    assert_eq!(client.get("/readyz", "").await.0, 500);
    assert_eq!(client.get("/livez", "").await.0, 200);
    server.trigger.close();
    let ended = tokio::time::timeout(Duration::from_secs(30), server.task).await;
    ended.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    assert!(client.send(request(Method::GET, "/livez", "")).await.is_err());
}

#[tokio::test]
async fn a_client_that_answers_nothing_does_not_hold_up_the_end() {
    let server = Server::start().await;
    let mut silent = server.connect(b"h2", None).await.unwrap();
    // The preface and empty settings, and nothing from then on: neither the server's settings nor its GOAWAY is
    // acknowledged.
    silent
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut frame = [0; 9];
    silent.read_exact(&mut frame).await.unwrap();
    server.trigger.close();
    // This is much less than the time that requests have to end, and less than the time until pings count as
    // unanswered.
    let ended = tokio::time::timeout(Duration::from_secs(30), server.task).await;
    assert!(ended.is_ok(), "the server still waits");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_and_not_cut_off() {
    let mut client = Server::start().await.client().await;
    let large = Bytes::from(vec![b' '; 4 << 20]);
    let builder = Request::post("/api/v1/namespaces/default/configmaps")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {ADMIN}"));
    let request = builder.body(Full::new(large)).unwrap();
    let (code, _, body) = client.send(request).await.unwrap();
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{body}");
    assert_eq!(client.get("/livez", "").await.0, 200);
}

#[tokio::test]
async fn answers_bear_the_headers_that_proxies_and_logs_need() {
    let mut client = Server::start().await.client().await;
    let (_, headers, _) = client.get("/livez", "").await;
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-cache, private");
    assert_eq!(headers["audit-id"].len(), 36);
    let mut named = request(Method::GET, "/livez", "");
    named.headers_mut().insert("audit-id", "my-own-id".parse().unwrap());
    let (_, headers, _) = client.send(named).await.unwrap();
    assert_eq!(headers["audit-id"], "my-own-id");
}

#[tokio::test]
async fn an_unread_body_does_not_end_the_connection() {
    let mut client = Server::start().await.client().await;
    for _ in 0..50 {
        let builder = Request::post("/api/v1/gadgets").header("host", "localhost");
        let authorized = builder.header("authorization", format!("Bearer {ADMIN}"));
        let request = authorized.body(Full::new(Bytes::from(vec![b' '; 100_000]))).unwrap();
        let (code, _, _) = client.send(request).await.unwrap();
        assert_eq!(code, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn watches_that_share_a_connection_each_see_every_event() {
    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const EVENTS: usize = 30;
    let server = Server::start().await;
    let stream = server.connect(b"h2", None).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut watches = Vec::new();
    for _ in 0..20 {
        let watch = request(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), ADMIN);
        watches.push(sender.send_request(watch).await.unwrap().into_body());
    }
    let name = |number| format!("event-{number:02}");
    for number in 0..EVENTS {
        // Frames above some size are written differently.
        let text = "x".repeat(number * 500);
        let body = format!(
            r#"{{"metadata":{{"name":"{}"}},"data":{{"text":"{text}"}}}}"#,
            name(number)
        );
        let mut create = request(Method::POST, CONFIG_MAPS, ADMIN);
        *create.body_mut() = Full::new(Bytes::from(body));
        let answer = sender.send_request(create).await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
    }
    for mut watch in watches {
        let mut seen = Vec::new();
        while seen.iter().filter(|byte| **byte == b'\n').count() < EVENTS {
            seen.extend_from_slice(&watch.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        let seen = String::from_utf8(seen).unwrap();
        for (number, event) in seen.lines().enumerate() {
            assert!(
                event.starts_with(r#"{"type":"ADDED""#) && event.contains(&name(number)),
                "{event}"
            );
        }
    }
}
