//! The page at `/ui`: its files need no credentials, and nothing else changes.

use bytes::Bytes;
use conformance::{Binary, Connection, Server, Target};
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt as _;

const JSON: &str = "application/json";

async fn anonymous(server: &Server) -> Connection {
    Target::new(server).unwrap().anonymous().connect().await.unwrap()
}

async fn get(connection: &mut Connection, path: &str) -> (StatusCode, HeaderMap, Bytes) {
    let (head, body) = connection.get(path, "text/html,*/*").await.unwrap().into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn files_of_page_need_no_credentials() {
    for flags in [&[][..], &["--anonymous-auth=false"]] {
        let server = Server::start(&Binary::debug().unwrap(), flags).unwrap();
        let mut connection = anonymous(&server).await;
        let (status, headers, page) = get(&mut connection, "/ui/").await;
        assert_eq!(
            (status, &headers[header::CONTENT_TYPE]),
            (StatusCode::OK, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(page.starts_with(b"<!doctype html>"));
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
        let (status, headers, _) = get(&mut connection, "/ui").await;
        assert_eq!(
            (status, &headers[header::LOCATION]),
            (StatusCode::TEMPORARY_REDIRECT, &"ui/".parse().unwrap())
        );
        let (status, headers, script) = get(&mut connection, "/ui/app.js").await;
        assert!(status == StatusCode::OK && headers.contains_key(header::ETAG));
        assert_eq!(headers[header::CONTENT_LENGTH], script.len().to_string());
    }
}

#[tokio::test]
async fn other_requests_below_the_page_stay_denied() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = anonymous(&server).await;
    for (method, path) in [
        (Method::POST, "/ui/"),
        (Method::DELETE, "/ui/app.js"),
        (Method::GET, "/ui/other"),
        (Method::GET, "/ui/session"),
        (Method::GET, "/uix"),
    ] {
        let (status, _) = connection.ask(method.clone(), path, JSON, Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
    }
    let mut admin = Target::new(&server).unwrap().connect().await.unwrap();
    for path in ["/ui/other", "/uix"] {
        let (status, _, body) = get(&mut admin, path).await;
        assert_eq!(
            (status, &body[..]),
            (StatusCode::NOT_FOUND, &b"404 page not found\n"[..]),
            "{path}"
        );
    }
}

#[tokio::test]
async fn page_that_is_off_is_an_unknown_path() {
    let server = Server::start(&Binary::debug().unwrap(), &["--ui=false"]).unwrap();
    let (mut nobody, mut admin) = (
        anonymous(&server).await,
        Target::new(&server).unwrap().connect().await.unwrap(),
    );
    for path in ["/ui", "/ui/", "/ui/app.js"] {
        let (status, headers, _) = get(&mut nobody, path).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        assert!(!headers.contains_key(header::CONTENT_SECURITY_POLICY));
        let (status, _, body) = get(&mut admin, path).await;
        assert_eq!(
            (status, &body[..]),
            (StatusCode::NOT_FOUND, &b"404 page not found\n"[..]),
            "{path}"
        );
    }
}
