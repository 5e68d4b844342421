//! `holdfast ui`: the local process passes only the requests of its own page on.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use conformance::{Binary, Server};
use serde_json::Value;

const NAMESPACES: &str = "/api/v1/namespaces";

/// A running `holdfast ui`. It ends when this is dropped.
struct Page {
    child: Child,
    /// Host and port.
    address: String,
    code: String,
    /// The pipe stays open, so that the process can write further lines.
    _output: BufReader<ChildStdout>,
}

impl Page {
    fn start(server: &Server) -> Self {
        Self::start_with(server, &["--no-browser"], &[])
    }

    fn start_with(server: &Server, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Binary::debug()
            .unwrap()
            .command()
            .arg("ui")
            .args(flags)
            .arg(format!("--kubeconfig={}", server.kubeconfig().display()))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let link = line.trim().strip_prefix("Open http://").unwrap();
        let (address, code) = link.split_once("/ui/#code=").unwrap();
        Self {
            address: address.to_owned(),
            code: code.to_owned(),
            child,
            _output: output,
        }
    }

    /// Sends a request with further headers. Returns the status and the whole text of the answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let usual = [
            ("Host", self.address.clone()),
            ("Content-Length", body.len().to_string()),
        ];
        for (name, value) in usual {
            if !headers.iter().any(|(given, _)| *given == name) {
                request += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let answer = String::from_utf8_lossy(&bytes).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    /// Exchanges a code. Returns the status, and the session if there is one.
    fn exchange(&self, code: &str) -> (u16, Option<String>) {
        let body = format!(r#"{{"code":"{code}"}}"#);
        let (status, answer) = self.ask("POST", "/ui/session", &[("Content-Type", "application/json")], &body);
        let (_, document) = answer.split_once("\r\n\r\n").unwrap();
        let document: Value = serde_json::from_str(document).unwrap();
        (status, document["session"].as_str().map(str::to_owned))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ui_command_passes_requests_with_session_on() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let page = Page::start(&server);
    let (status, answer) = page.ask("GET", "/ui/", &[], "");
    assert!(status == 200 && answer.contains("<!doctype html>"), "{answer}");
    assert_eq!(page.ask("GET", NAMESPACES, &[], "").0, 401);

    assert_eq!(page.exchange("wrong"), (401, None));
    let (status, session) = page.exchange(&page.code);
    let session = session.unwrap();
    assert_eq!(status, 200);
    assert_eq!(page.exchange(&page.code), (401, None), "the code is valid once");

    let admitted = ("X-Holdfast-Session", session.as_str());
    let (status, answer) = page.ask("GET", NAMESPACES, &[admitted], "");
    assert!(status == 200 && answer.contains("\"kube-system\""), "{answer}");
    assert!(
        answer.contains("content-security-policy: default-src 'none'; sandbox"),
        "{answer}"
    );
    // The user is the one of the client certificate in the kubeconfig, whatever the page sends.
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let headers = [
        admitted,
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer none"),
        ("Impersonate-User", "eve"),
    ];
    let (status, answer) = page.ask(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &headers,
        review,
    );
    assert!(
        status == 201 && answer.contains("system:masters") && !answer.contains("eve"),
        "{answer}"
    );
    // Errors of the server keep their form.
    let (status, answer) = page.ask("GET", "/api/v1/namespaces/none", &[admitted], "");
    assert!(status == 404 && answer.contains(r#""reason":"NotFound""#), "{answer}");
}

#[test]
fn ui_command_rejects_requests_of_other_pages() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let page = Page::start(&server);
    let (_, session) = page.exchange(&page.code);
    let session = session.unwrap();
    let admitted = ("X-Holdfast-Session", session.as_str());
    let own = format!("http://{}", page.address);
    assert_eq!(page.ask("GET", NAMESPACES, &[admitted, ("Origin", &own)], "").0, 200);
    for headers in [
        &[admitted, ("Origin", "http://example.com")][..],
        &[admitted, ("Origin", "null")],
        // A name of another site that resolves to this machine.
        &[admitted, ("Host", "example.com")],
        &[("Host", "example.com")],
    ] {
        assert_eq!(page.ask("GET", NAMESPACES, headers, "").0, 403, "{headers:?}");
    }
    assert_eq!(page.ask("GET", "/ui/", &[("Host", "example.com")], "").0, 403);
    for session in ["", "guess", &session[1..]] {
        assert_eq!(
            page.ask("GET", NAMESPACES, &[("X-Holdfast-Session", session)], "").0,
            401
        );
    }
    // A form of another page can only send this type.
    let (status, _) = page.ask("POST", "/ui/session", &[("Content-Type", "text/plain")], "{}");
    assert_eq!(status, 405);
    let (status, _) = page.ask("POST", NAMESPACES, &[admitted, ("Content-Length", "5000000")], "");
    assert_eq!(status, 413, "the body is not awaited");
}

/// Other users can see the arguments of the program that opens the browser.
#[cfg(target_os = "linux")]
#[test]
fn ui_command_hides_the_code_from_other_users() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("xdg-open");
    fs::write(
        &program,
        "#!/bin/sh\nstat -c '%a' \"$@\" > \"$0.mode\"\ncat \"$@\" > \"$0.page\"\necho \"$@\" > \"$0.arguments\"\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let page = Page::start_with(&server, &[], &[("PATH", &path)]);
    let written = |name: &str| fs::read_to_string(folder.path().join(format!("xdg-open.{name}"))).unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(60);
    while written("arguments").is_empty() {
        assert!(Instant::now() < end, "no browser was opened");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!written("arguments").contains(&page.code));
    assert_eq!(written("mode").trim(), "600");
    let link = format!("url=http://{}/ui/#code={}\"", page.address, page.code);
    assert!(written("page").contains(&link), "{}", written("page"));
}

#[test]
fn ui_command_reports_a_server_that_does_not_answer() {
    let mut server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let page = Page::start(&server);
    let (_, session) = page.exchange(&page.code);
    let session = session.unwrap();
    server.kill().unwrap();
    let (status, answer) = page.ask("GET", NAMESPACES, &[("X-Holdfast-Session", &session)], "");
    assert!(
        status == 502 && answer.contains("The server cannot be reached"),
        "{answer}"
    );
    let output = Binary::debug()
        .unwrap()
        .command()
        .args(["ui", "--no-browser"])
        .arg(format!("--kubeconfig={}", server.kubeconfig().display()))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("cannot connect to https://"), "{message}");
}
