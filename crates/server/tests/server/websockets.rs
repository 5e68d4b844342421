//! Watches over WebSockets: the handshake, authentication, messages, and the end of such a connection.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use holdfast_server::wire::connection::Limits;
use http::header::HeaderName;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::wire::{ADMIN, Server, Setup, request};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=true";
const PROTOCOL: &str = "sec-websocket-protocol";

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Requests a WebSocket; returns only the status code if the request is rejected.
async fn open(
    server: &Server,
    path: &str,
    token: &str,
    more: &[(&str, &str)],
) -> Result<(HeaderMap, Socket), StatusCode> {
    let stream = server.connect(b"http/1.1", None).await.unwrap();
    let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = request(Method::GET, path, token);
    let handshake = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("origin", "https://example.org"),
    ];
    for (name, value) in handshake.iter().chain(more) {
        let name = HeaderName::try_from(*name).unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = sender.send_request(request).await.unwrap();
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(answer.status());
    }
    let headers = answer.headers().clone();
    let upgraded = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    Ok((headers, Socket::from_raw_socket(upgraded, Role::Client, None).await))
}

async fn make(server: &Server, name: &str, text: &str) {
    let body = format!("{{\"metadata\":{{\"name\":\"{name}\"}},\"data\":{{\"text\":\"{text}\"}}}}");
    let mut request = request(Method::POST, CONFIG_MAPS, ADMIN);
    *request.body_mut() = Full::new(body.into());
    let json = "application/json".parse().unwrap();
    request.headers_mut().insert("content-type", json);
    let (code, _, body) = server.client().await.send(request).await.unwrap();
    assert_eq!(code, StatusCode::CREATED, "{body}");
}

/// Returns the next event as `TYPE NAME`.
async fn next(socket: &mut Socket) -> String {
    let message = socket.next().await.unwrap().unwrap();
    let text = message.to_text().unwrap();
    assert!(message.is_text() && text.ends_with("}\n"), "{text}");
    let event: Value = serde_json::from_str(text).unwrap();
    let object = &event["object"];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap())
}

#[tokio::test]
async fn each_event_is_a_message_of_text() {
    let server = Server::start().await;
    make(&server, "a", "1").await;
    make(&server, "b", "1").await;
    let (headers, mut socket) = open(&server, WATCH, ADMIN, &[]).await.unwrap();
    assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(!headers.contains_key(PROTOCOL));
    let mut seen = Vec::new();
    while !seen.iter().any(|event: &String| event.starts_with("BOOKMARK")) {
        seen.push(next(&mut socket).await);
    }
    let of_tests: Vec<_> = seen.iter().filter(|event| !event.contains("kube-root-ca")).collect();
    assert_eq!(of_tests, ["ADDED a", "ADDED b", "BOOKMARK "]);
    make(&server, "c", "1").await;
    assert_eq!(next(&mut socket).await, "ADDED c");
}

#[tokio::test]
async fn protobuf_comes_as_binary_messages_without_their_length() {
    let server = Server::start().await;
    make(&server, "a", "1").await;
    let path = format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da");
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let (_, mut socket) = open(&server, &path, ADMIN, &accept).await.unwrap();
    let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() else {
        unreachable!("protobuf is binary");
    };
    assert!(bytes.starts_with(b"\x0a\x05ADDED\x12"), "{bytes:?}");
}

#[tokio::test]
async fn a_browser_brings_its_token_as_a_subprotocol() {
    let server = Server::start().await;
    let offer = |token: &str| {
        format!(
            "base64url.bearer.authorization.k8s.io.{}",
            URL_SAFE_NO_PAD.encode(token)
        )
    };
    let path = format!("{CONFIG_MAPS}?watch=1");
    for (protocols, code) in [
        (format!("{}, v1.k8s.io", offer(ADMIN)), 101),
        (format!("{}, v1.k8s.io", offer("usertoken")), 403),
        (format!("{}, v1.k8s.io", offer("wrong")), 401),
        (offer(ADMIN), 401),
        (format!("{}, a, b", offer(ADMIN)), 400),
    ] {
        match open(&server, &path, "", &[(PROTOCOL, &protocols)]).await {
            Ok((headers, _)) => assert_eq!((code, headers[PROTOCOL].as_bytes()), (101, &b"v1.k8s.io"[..])),
            Err(refused) => assert_eq!(refused, code, "{protocols}"),
        }
    }
}

#[tokio::test]
async fn a_handshake_that_is_not_as_it_should_be_is_refused() {
    let server = Server::start().await;
    for (header, value, code) in [
        ("sec-websocket-version", "8", 400),
        ("sec-websocket-key", "", 400),
        ("origin", "null", 403),
    ] {
        let refused = open(&server, WATCH, ADMIN, &[(header, value)]).await.err();
        assert_eq!(refused.unwrap(), code, "{header}");
    }
    // Requests other than watches are answered normally.
    assert_eq!(open(&server, CONFIG_MAPS, ADMIN, &[]).await.err().unwrap(), 200);
}

#[tokio::test]
async fn a_watch_that_ends_says_so() {
    let server = Server::start().await;
    let (_, mut over) = open(&server, &format!("{WATCH}&timeoutSeconds=-5"), ADMIN, &[])
        .await
        .unwrap();
    let (_, mut lasting) = open(&server, &format!("{CONFIG_MAPS}?watch=1"), ADMIN, &[])
        .await
        .unwrap();
    server.trigger.close();
    for socket in [&mut over, &mut lasting] {
        let mut last = None;
        while let Some(Ok(message)) = socket.next().await {
            last = Some(message);
        }
        let Some(Message::Close(Some(frame))) = last else {
            unreachable!("the last message is {last:?}");
        };
        assert_eq!(u16::from(frame.code), 1000);
    }
    // The server waited for its connections to close.
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let limits = Limits {
        // The test writes objects within this time first, perhaps on a busy machine.
        exchange: Duration::from_secs(5),
        connections: 1,
        ..Limits::default()
    };
    let server = Server::start_with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    let text = "x".repeat(950_000);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        make(&server, name, &text).await;
    }
    let (_, mut socket) = open(&server, &format!("{CONFIG_MAPS}?watch=1"), ADMIN, &[])
        .await
        .unwrap();
    // A slot becomes free only when the slow connection is closed.
    assert_eq!(server.client().await.get("/livez", "").await.0, 200);
    let mut received = 0;
    while let Some(Ok(message)) = socket.next().await {
        received += message.len();
    }
    assert!(received < 9 * 950_000, "{received}");
}
