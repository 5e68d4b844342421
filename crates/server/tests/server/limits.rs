//! Limits for clients that send too much, too little or too slowly, or too many requests at once.

use std::time::Duration;

use bytes::Bytes;
use holdfast_server::api::context::Config;
use holdfast_server::wire::connection::Limits;
use holdfast_server::wire::in_flight::InFlight;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::{ADMIN, Client, Server, Setup, request};

/// A time limit below the tests' own timeouts, and short enough not to delay the test run.
const SHORT: Duration = Duration::from_millis(150);
/// A time limit for tests where a write or another step must finish first, even on a busy machine.
const ENOUGH: Duration = Duration::from_secs(5);
/// A time limit longer than the runtime of any test.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server(limits: Limits) -> Server {
    Server::start_with(Setup {
        limits,
        ..Setup::default()
    })
    .await
}

fn post(path: &str, token: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = request(Method::POST, path, token);
    *request.body_mut() = Full::new(body.into());
    request
        .headers_mut()
        .insert("content-type", "application/json".parse().unwrap());
    request
}

/// Stores more bytes than socket buffers hold.
async fn store_nine_megabytes(server: &Server) {
    let mut client = server.client().await;
    let text = "x".repeat(950_000);
    for number in 0..10 {
        let body = format!("{{\"metadata\":{{\"name\":\"large-{number}\"}},\"data\":{{\"text\":\"{text}\"}}}}");
        let (code, _, body) = client.send(post(CONFIG_MAPS, ADMIN, body)).await.unwrap();
        assert_eq!(code, StatusCode::CREATED, "{body}");
    }
}

/// Returns the head of an HTTP/1.1 request as bytes, so that it can be cut at any position.
fn head(method: &str, path: &str, token: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

async fn read_all(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = Vec::new();
    // The kind of the connection's end does not matter.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_given_up_in_its_time() {
    let limits = |handshake| Limits {
        handshake,
        ..Limits::default()
    };
    let patient = server(limits(NEVER)).await;
    let silent = patient.socket().await.unwrap();
    patient.answers().await;
    let mut late = Client::http1(patient.shake_hands(silent, b"http/1.1", None).await.unwrap()).await;
    assert_eq!(late.get("/livez", "").await.0, 200);

    let server = server(limits(SHORT)).await;
    let mut silent = server.socket().await.unwrap();
    assert_eq!(read_all(&mut silent).await, "");
}

#[tokio::test]
async fn request_without_exactly_one_host_is_bad() {
    let server = server(Limits::default()).await;
    for (hosts, expected) in [
        ("", "400 Bad Request: missing required Host header"),
        ("Host: a\r\nHost: a\r\n", "400 Bad Request: too many Host headers"),
        ("Host: a/b\r\n", "400 Bad Request: malformed Host header"),
        ("Host: [::1]:6443\r\nConnection: close\r\n", "ok"),
    ] {
        let mut stream = server.connect(b"http/1.1", None).await.unwrap();
        let head = format!("GET /livez HTTP/1.1\r\n{hosts}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // The answer ends the connection, or the read would not end.
        let answer = read_all(&mut stream).await;
        assert!(answer.ends_with(expected), "{hosts:?}: {answer}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_end_is_given_up_in_its_time() {
    let limits = |head| Limits {
        head,
        ..Limits::default()
    };
    const BEGIN: &[u8] = b"GET /livez HTTP/1.1\r\nHost: local";
    let patient = server(limits(NEVER)).await;
    let mut stream = patient.connect(b"http/1.1", None).await.unwrap();
    stream.write_all(BEGIN).await.unwrap();
    patient.answers().await;
    stream.write_all(b"host\r\nConnection: close\r\n\r\n").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");

    let server = server(limits(SHORT)).await;
    let mut stream = server.connect(b"http/1.1", None).await.unwrap();
    // The time limit may be exceeded before this write.
    let _ = stream.write_all(BEGIN).await;
    let answer = read_all(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = server(Limits {
        body: SHORT,
        ..Limits::default()
    })
    .await;
    let mut stream = server.connect(b"http/1.1", None).await.unwrap();
    let more = "Content-Type: application/json\r\nContent-Length: 100\r\n";
    let head = head("POST", CONFIG_MAPS, ADMIN, more);
    stream.write_all(format!("{head}{{").as_bytes()).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"reason\":\"Timeout\""), "{answer}");
}

/// The beginning of a head, which has `bytes` bytes.
fn partial_head(bytes: usize) -> Vec<u8> {
    let mut head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Filler: ".to_vec();
    head.resize(bytes, b'x');
    head
}

#[tokio::test]
async fn partial_heads_share_a_budget_of_bytes() {
    let server = server(Limits {
        head: NEVER,
        head_arrival: NEVER,
        pending_head_bytes: 80 * 1024,
        ..Limits::default()
    })
    .await;
    let mut first = server.connect(b"http/1.1", None).await.unwrap();
    first.write_all(&partial_head(60 * 1024)).await.unwrap();
    // The second goes beyond the budget, whichever of the two is read first.
    let mut second = server.connect(b"http/1.1", None).await.unwrap();
    let _ = second.write_all(&partial_head(60 * 1024)).await;
    let (_, _) = tokio::select! {
        text = read_all(&mut first) => (text, String::new()),
        text = read_all(&mut second) => (String::new(), text),
    };
    // Ordinary heads do not need the budget.
    server.answers().await;
}

#[tokio::test]
async fn complete_head_frees_its_part_of_the_budget() {
    let server = server(Limits {
        pending_head_bytes: 80 * 1024,
        ..Limits::default()
    })
    .await;
    let mut stream = server.connect(b"http/1.1", None).await.unwrap();
    for _ in 0..3 {
        stream.write_all(&partial_head(60 * 1024)).await.unwrap();
        stream.write_all(b"\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn head_that_trickles_in_is_given_up() {
    let server = server(Limits {
        head: NEVER,
        head_arrival: SHORT,
        ..Limits::default()
    })
    .await;
    for protocol in [&b"http/1.1"[..], b"h2"] {
        let mut stream = server.connect(protocol, None).await.unwrap();
        let begin = match protocol {
            b"h2" => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\x40\0\x01\0\0\0\0\x01x".to_vec(),
            _ => partial_head(1000),
        };
        // The time may be over before.
        let _ = stream.write_all(&begin).await;
        read_all(&mut stream).await;
    }
}

#[tokio::test]
async fn connections_of_one_address_beyond_its_limit_are_closed() {
    let server = server(Limits {
        connections_per_address: 1,
        ..Limits::default()
    })
    .await;
    let mut first = server.client().await;
    assert!(server.connect(b"http/1.1", None).await.is_err());
    assert_eq!(first.get("/livez", "").await.0, 200);
    drop(first);
    // A slot becomes free once the server has noticed that the first connection is closed.
    while server.connect(b"http/1.1", None).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_others_to_end() {
    let server = server(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let mut first = server.client().await;
    assert_eq!(first.get("/livez", "").await.0, 200);
    let waiting = server.connect(b"http/1.1", None);
    tokio::pin!(waiting);
    // The first connection is still served while the second waits.
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("there was no place for a second connection"),
        answer = first.get("/livez", "") => assert_eq!(answer.0, 200),
    }
    drop(first);
    let mut second = Client::http1(waiting.await.unwrap()).await;
    assert_eq!(second.get("/livez", "").await.0, 200);
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let server = server(Limits {
        exchange: ENOUGH,
        connections: 1,
        ..Limits::default()
    })
    .await;
    store_nine_megabytes(&server).await;
    let mut slow = server.connect(b"http/1.1", None).await.unwrap();
    let head = head("GET", CONFIG_MAPS, ADMIN, "");
    slow.write_all(head.as_bytes()).await.unwrap();
    // A slot becomes free only when the slow connection is closed.
    let mut other = server.client().await;
    assert_eq!(other.get("/livez", "").await.0, 200);
    let answer = read_all(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() < 9_000_000);
}

#[tokio::test]
async fn stream_with_unread_answer_is_reset_but_not_a_watch() {
    let server = server(Limits {
        exchange: ENOUGH,
        concurrent_streams: 2,
        ..Limits::default()
    })
    .await;
    store_nine_megabytes(&server).await;
    let stream = server.connect(b"h2", None).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(64 * 1024)
        .initial_max_send_streams(2);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);

    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Dlate");
    let watch = sender.send_request(request(Method::GET, &path, ADMIN)).await.unwrap();
    let held = sender
        .send_request(request(Method::GET, CONFIG_MAPS, ADMIN))
        .await
        .unwrap();
    assert_eq!((watch.status(), held.status()), (StatusCode::OK, StatusCode::OK));
    // A slot for a third stream becomes free only when the blocked stream is reset.
    let third = sender
        .send_request(request(Method::GET, "/livez", ADMIN))
        .await
        .unwrap();
    assert_eq!(third.status(), StatusCode::OK);
    assert!(held.into_body().collect().await.is_err());

    let mut client = server.client().await;
    let late = "{\"metadata\":{\"name\":\"late\"}}";
    assert_eq!(
        client.send(post(CONFIG_MAPS, ADMIN, late)).await.unwrap().0,
        StatusCode::CREATED
    );
    let frame = watch.into_body().frame().await.unwrap().unwrap();
    let event = frame.into_data().unwrap();
    assert!(event.starts_with(b"{\"type\":\"ADDED\""));
}

/// Requests an object of a megabyte over a separate connection, and reads only the head of the answer.
async fn hold_an_answer(server: &Server) -> hyper::body::Incoming {
    let mut client = server.client().await;
    let body = format!(
        "{{\"metadata\":{{\"name\":\"large\"}},\"data\":{{\"text\":\"{}\"}}}}",
        "x".repeat(950_000)
    );
    let (code, _, body) = client.send(post(CONFIG_MAPS, ADMIN, body)).await.unwrap();
    assert_eq!(code, StatusCode::CREATED, "{body}");
    let stream = server.connect(b"h2", None).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 * 1024);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let path = format!("{CONFIG_MAPS}/large");
    let held = sender.send_request(request(Method::GET, &path, ADMIN)).await.unwrap();
    assert_eq!(held.status(), StatusCode::OK);
    held.into_body()
}

#[tokio::test]
async fn a_request_keeps_its_place_until_its_answer_is_taken() {
    let server = Server::start_with(Setup {
        in_flight: InFlight::new(1, 0),
        ..Setup::default()
    })
    .await;
    let held = hold_an_answer(&server).await;
    let mut client = server.client().await;
    assert_eq!(client.get(CONFIG_MAPS, "usertoken").await.0, 429);
    assert!(held.collect().await.unwrap().to_bytes().len() > 950_000);
    // The client may receive the last bytes before the server notices that they were sent.
    while client.get(CONFIG_MAPS, "usertoken").await.0 == 429 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.get(CONFIG_MAPS, "usertoken").await.0, 403);
}

#[tokio::test]
async fn unread_buffered_answer_closes_the_connection() {
    let server = server(Limits {
        exchange: ENOUGH,
        connections: 2,
        ..Limits::default()
    })
    .await;
    let held = hold_an_answer(&server).await;
    let _other = server.client().await;
    // A slot for a third connection becomes free only when the connection with the answer is closed.
    let mut third = server.client().await;
    assert_eq!(third.get("/livez", "").await.0, 200);
    assert!(held.collect().await.is_err());
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_on_a_stream_too() {
    let server = server(Limits {
        head_bytes: 16 * 1024,
        ..Limits::default()
    })
    .await;
    let mut client = Client::http2(server.connect(b"h2", None).await.unwrap()).await;
    let mut large = request(Method::GET, "/livez", "");
    large
        .headers_mut()
        .insert("padding", "x".repeat(32 * 1024).parse().unwrap());
    let answer = client.send(large).await;
    assert!(answer.is_err() || answer.is_ok_and(|(code, ..)| code == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    assert_eq!(client.get("/livez", "").await.0, 200);
}

/// Sends a request whose body never arrives, and returns once the server waits for the body.
async fn begin_write(server: &Server) -> impl AsyncReadExt + Unpin {
    begin_write_as(server, ADMIN, CONFIG_MAPS).await
}

async fn begin_write_as(server: &Server, token: &str, path: &str) -> impl AsyncReadExt + Unpin + use<> {
    let mut stream = announce_write(server, token, path).await;
    let mut go_on = [0; 12];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    stream
}

async fn announce_write(server: &Server, token: &str, path: &str) -> impl AsyncReadExt + Unpin + use<> {
    let mut stream = server.connect(b"http/1.1", None).await.unwrap();
    let more = "Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n";
    let head = head("POST", path, token, more);
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_with_a_time_to_retry() {
    let server = Server::start_with(Setup {
        in_flight: InFlight::new(1, 1),
        ..Setup::default()
    })
    .await;
    store_nine_megabytes(&server).await;
    // A list whose answer is not read stays in flight until it is read.
    let mut slow = server.connect(b"http/1.1", None).await.unwrap();
    let head = head("GET", CONFIG_MAPS, ADMIN, "");
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.read_exact(&mut [0; 12]).await.unwrap();
    let mut client = server.client().await;
    let (code, headers, body) = client.get(CONFIG_MAPS, "usertoken").await;
    assert_eq!(code, 429);
    assert_eq!(
        (&*body, &headers["retry-after"]),
        ("Too many requests, please try again later.\n", &"1".parse().unwrap())
    );
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    // Mutating requests have a limit of their own, long-running ones have none, and requests of administrators and
    // probes are never rejected.
    assert_eq!(client.send(post(CONFIG_MAPS, "usertoken", "{}")).await.unwrap().0, 403);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}?watch=1"), "usertoken").await.0, 403);
    assert_eq!(client.get("/livez", "").await.0, 200);
    assert_eq!(client.get("/api", ADMIN).await.0, 200);
    drop(slow);
}

#[tokio::test]
async fn bodies_that_do_not_come_hold_up_no_other_request() {
    let server = Server::start_with(Setup {
        in_flight: InFlight::new(8, 8).with_bodies(8, 1 << 20),
        ..Setup::default()
    })
    .await;
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    // Half of the slots for bodies belong to one user, whose next request is rejected.
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(begin_write_as(&server, "usertoken", reviews).await);
    }
    let mut refused = announce_write(&server, "usertoken", reviews).await;
    let (mut answer, mut buffer) = (String::new(), [0; 1024]);
    while !answer.contains("Too many requests") {
        let bytes = refused.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    assert!(
        answer.contains("HTTP/1.1 429 ") && answer.contains("retry-after: 1"),
        "{answer}"
    );
    // Other users are served normally.
    let mut client = server.client().await;
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    for _ in 0..20 {
        let (code, _, body) = client.send(post(reviews, "othertoken", review)).await.unwrap();
        assert_eq!(code, StatusCode::CREATED, "{body}");
    }
    // The slow user is served too if the body is complete.
    let (code, ..) = client.send(post(reviews, "usertoken", review)).await.unwrap();
    assert_eq!(code, StatusCode::CREATED);
    drop(slow);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_ended() {
    let config = Config {
        request_timeout: ENOUGH,
        ..Config::default()
    };
    let server = Server::start_with(Setup {
        config,
        ..Setup::default()
    })
    .await;
    let mut stream = begin_write(&server).await;
    // The connection stays open for the rest of the body.
    let (mut answer, mut buffer) = (String::new(), [0; 1024]);
    let message = "Timeout: request did not complete within the allotted timeout";
    while !answer.contains(message) {
        let bytes = stream.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    assert!(answer.contains("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn a_client_may_have_less_time_than_the_server_gives() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let future = format!("{CONFIG_MAPS}?resourceVersion=1000000&timeout=1ms");
    let (code, headers, body) = client.get(&future, ADMIN).await;
    assert_eq!(code, 504);
    // Clients parse no status from plain text, and report that the server was unable to return a response in the time
    // allotted.
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    let status = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;
    assert_eq!(body.trim_end(), status);
    let (code, _, body) = client.get("/livez?timeout=soon", "").await;
    assert_eq!(code, 400);
    let message = r#"invalid timeout specified in the request URL - time: invalid duration \"soon\""#;
    assert!(body.contains(message), "{body}");
}
