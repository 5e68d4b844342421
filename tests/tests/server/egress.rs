//! Connections through proxies: to the cluster, to webhooks and to etcd.

use std::collections::BTreeMap;
use std::net::TcpListener as StdListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::aggregated::Certificates;
use conformance::hook::{Hook, Identity, deny};
use conformance::kubelet::{FakeKubelet, own_address};
use conformance::{Binary, Client, MERGE, Server, clients};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::etcd::Etcd;
use test_support::{free_address, needs};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};

const PODS: &str = "/api/v1/namespaces/default/pods";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A proxy that speaks HTTP CONNECT.
#[derive(Clone, Default)]
struct Proxy {
    /// Replacements for addresses that clients ask for. Other addresses are used unchanged.
    routes: BTreeMap<String, String>,
    /// Addresses that clients asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn with_route(address: &str, to: impl Into<String>) -> Self {
        Self {
            routes: BTreeMap::from([(address.to_owned(), to.into())]),
            ..Self::default()
        }
    }

    /// Serves clients on a Unix socket.
    fn serve_socket(&self, socket: &Path) {
        let (listener, proxy) = (UnixListener::bind(socket).unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().connect(stream));
            }
        });
    }

    /// Serves clients with the certificate `proxy.crt`, and returns the port.
    async fn serve_tls(&self, certificates: &Certificates) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (acceptor, proxy) = (certificates.acceptor(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, proxy) = (acceptor.clone(), proxy.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        proxy.connect(stream).await;
                    }
                });
            }
        });
        port
    }

    async fn connect(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let text = String::from_utf8(head).unwrap();
        let address = text.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
        self.asked.lock().push(address.to_owned());
        let to = self.routes.get(address).map_or(address, String::as_str);
        match TcpStream::connect(to).await {
            Ok(mut other) => {
                stream
                    .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    .await
                    .unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
            }
            Err(_) => {
                let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
            }
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

fn configuration(folder: &TempDir, selections: &Value) -> String {
    let path = folder.path().join("egress.yaml");
    let object = json!({"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
        "egressSelections": selections});
    std::fs::write(&path, object.to_string()).unwrap();
    format!("--egress-selector-config-file={}", path.display())
}

fn through_socket(name: &str, socket: &Path) -> Value {
    json!({"name": name, "connection": {"proxyProtocol": "HTTPConnect",
        "transport": {"uds": {"udsName": socket.display().to_string()}}}})
}

fn start(flags: &[&str]) -> Server {
    Server::start(&Binary::debug().unwrap(), flags).unwrap()
}

/// Makes a Pod with this address.
async fn make_far_pod(admin: &mut Client, address: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let _ = admin.ask(Method::POST, accounts, "application/json", account).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "far"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    admin.make(PODS, pod).await;
    let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
    let (code, answer) = admin
        .ask(Method::PATCH, &format!("{PODS}/far/status"), MERGE, status)
        .await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_is_reached_through_the_proxy_of_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let pod = FakeKubelet::start_plain().await;
    let proxy = Proxy::with_route("10.99.0.1:8080", format!("127.0.0.1:{}", pod.port));
    proxy.serve_socket(&socket);
    let server = start(&[&configuration(&folder, &json!([through_socket("cluster", &socket)]))]);
    let mut admin = Client::new(&server).await;
    // This machine does not reach the address.
    make_far_pod(&mut admin, "10.99.0.1").await;
    let (code, report) = admin.get(&format!("{PODS}/far:8080/proxy/a?b=c")).await;
    assert_eq!(code, StatusCode::OK, "{report}");
    assert_eq!(report["uri"], "/a?b=c");
    assert_eq!(proxy.asked(), ["10.99.0.1:8080"]);
    let (_, metrics) = admin.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        r#"apiserver_egress_dialer_dial_start_total{protocol="http_connect",transport="uds"} 1"#,
        r#"apiserver_egress_dialer_dial_duration_seconds_count{protocol="http_connect",transport="uds"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing");
    }
    // A proxy that does not answer is an error.
    std::fs::remove_file(&socket).unwrap();
    let (code, answer) = admin.get(&format!("{PODS}/far:8081/proxy/")).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    assert!(answer.to_string().contains("dial unix"), "{answer}");
    let (_, metrics) = admin.get("/metrics").await;
    let line =
        r#"apiserver_egress_dialer_dial_failure_count{protocol="http_connect",stage="connect",transport="uds"} 1"#;
    assert!(metrics.as_str().unwrap().contains(line));
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_reached_through_the_proxy_of_the_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new("egress");
    let hook = Hook::start_as(Identity::for_names(&["hook.invalid"]), |_| deny("not through here")).await;
    let proxy = Proxy::with_route("hook.invalid:9443", format!("127.0.0.1:{}", hook.port));
    let port = proxy.serve_tls(&certificates).await;
    let file = |name: &str| certificates.path(name).display().to_string();
    let tls = json!({"caBundle": file("back-ca.crt"), "clientCert": file("proxy.crt"), "clientKey": file("proxy.key"),
        "tlsServerName": "egress.default.svc"});
    let selection = json!({"name": "ControlPlane", "connection": {"proxyProtocol": "HTTPConnect",
        "transport": {"tcp": {"url": format!("https://127.0.0.1:{port}"), "tlsConfig": tls}}}});
    let server = start(&[&configuration(&folder, &json!([selection]))]);
    let mut admin = Client::new(&server).await;
    let mut webhook = hook.webhook("a.b.c", &["CREATE"], "/v1/configmaps", json!({}));
    webhook["clientConfig"]["url"] = json!("https://hook.invalid:9443/hook");
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "far"}, "webhooks": [webhook]});
    admin.make(HOOKS, object).await;
    let end = Instant::now() + WAIT_TIMEOUT;
    let path = "/api/v1/namespaces/default/configmaps";
    let rejection = loop {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c"}});
        let (code, answer) = admin.ask(Method::POST, path, "application/json", object).await;
        if code != StatusCode::CREATED {
            break answer;
        }
        assert!(Instant::now() < end, "the webhook is not called");
    };
    let message = rejection["message"].as_str().unwrap();
    assert_eq!(
        message,
        "admission webhook \"a.b.c\" denied the request: not through here"
    );
    assert_eq!(proxy.asked(), ["hook.invalid:9443"]);
}

#[needs(etcd)]
#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_through_its_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let etcd = Etcd::one().unwrap();
    let proxy = Proxy::with_route("etcd.invalid:2379", etcd.client(0).to_string());
    proxy.serve_socket(&socket);
    let flag = configuration(&folder, &json!([through_socket("etcd", &socket)]));
    let server = start(&[&flag, "--etcd-servers=http://etcd.invalid:2379"]);
    let mut admin = Client::new(&server).await;
    admin.config_map("default", json!({"name": "far"})).await;
    let (code, answer) = admin.get("/api/v1/namespaces/default/configmaps/far").await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    let asked = proxy.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|address| address == "etcd.invalid:2379"),
        "{asked:?}"
    );
}

/// The server of konnectivity and an agent, which are built from their module.
struct Konnectivity {
    server: Child,
    agent: Child,
}

impl Konnectivity {
    /// Starts both. The server serves `mode` on `socket`.
    fn start(certificates: &Certificates, mode: &str, socket: &Path) -> Self {
        let built = clients::installed("konnectivity", "go.mod", |sources, folder| {
            let mut build = Command::new("go");
            build
                .args(["build", "-ldflags=-s -w", "-o"])
                .arg(folder)
                .args(["server", "agent"].map(|name| format!("sigs.k8s.io/apiserver-network-proxy/cmd/{name}")))
                .env("CGO_ENABLED", "0")
                .current_dir(sources);
            vec![build]
        });
        let folder = built.unwrap();
        let port = || free_address().unwrap().port();
        let file = |name: &str| certificates.path(name).display().to_string();
        let agent_port = port();
        let server = run(
            folder.join("server"),
            &[
                format!("--mode={mode}"),
                format!("--uds-name={}", socket.display()),
                "--server-port=0".to_owned(),
                "--agent-bind-address=127.0.0.1".to_owned(),
                format!("--agent-port={agent_port}"),
                format!("--admin-port={}", port()),
                format!("--health-port={}", port()),
                format!("--cluster-cert={}", file("back.crt")),
                format!("--cluster-key={}", file("back.key")),
            ],
        );
        let agent = run(
            folder.join("agent"),
            &[
                format!("--ca-cert={}", file("back-ca.crt")),
                "--proxy-server-host=127.0.0.1".to_owned(),
                format!("--proxy-server-port={agent_port}"),
                format!("--admin-server-port={}", port()),
                format!("--health-server-port={}", port()),
            ],
        );
        Self { server, agent }
    }
}

impl Drop for Konnectivity {
    fn drop(&mut self) {
        for child in [&mut self.agent, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(program: PathBuf, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Reaches a pod through the real server of konnectivity, until its agent is gone.
async fn reach_pod_through_konnectivity(mode: &str, protocol: &str, metric: &str) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("konnectivity.sock");
    let certificates = Certificates::new("konnectivity");
    let mut proxy = Konnectivity::start(&certificates, mode, &socket);
    let pod = FakeKubelet::start_plain().await;
    let selection = json!({"name": "cluster", "connection": {"proxyProtocol": protocol,
        "transport": {"uds": {"udsName": socket.display().to_string()}}}});
    let server = start(&[&configuration(&folder, &json!([selection]))]);
    let mut admin = Client::new(&server).await;
    make_far_pod(&mut admin, &own_address().to_string()).await;
    let path = format!("{PODS}/far:{}/proxy", pod.port);
    // The agent connects after a moment.
    let end = Instant::now() + WAIT_TIMEOUT;
    let report = loop {
        match admin.get(&format!("{path}/a?b=c")).await {
            (StatusCode::OK, report) => break report,
            (code, answer) => assert!(Instant::now() < end, "{code} {answer}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(report["uri"], "/a?b=c");
    // Several requests at once, each on a connection of its own.
    let mut others = Vec::new();
    for number in 0..8 {
        let (path, mut client) = (path.clone(), Client::new(&server).await);
        others.push(tokio::spawn(async move {
            let (code, report) = client.get(&format!("{path}/{number}")).await;
            assert_eq!(
                (code, report["uri"].as_str()),
                (StatusCode::OK, Some(format!("/{number}").as_str()))
            );
        }));
    }
    for other in others {
        other.await.unwrap();
    }
    let (_, metrics) = admin.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains(metric), "{metric} is missing");
    // A port that nothing listens on is an error of the agent.
    let closed = StdListener::bind((own_address(), 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (code, answer) = admin.get(&format!("{PODS}/far:{closed}/proxy/")).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    proxy.agent.kill().unwrap();
    proxy.agent.wait().unwrap();
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        let (code, answer) = admin.get(&format!("{path}/")).await;
        if code == StatusCode::SERVICE_UNAVAILABLE {
            break;
        }
        assert!(Instant::now() < end, "{code} {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[needs(clients, go)]
#[tokio::test(flavor = "multi_thread")]
async fn pod_is_reached_through_konnectivity_over_grpc() {
    let metric = r#"apiserver_egress_dialer_dial_duration_seconds_count{protocol="grpc",transport="uds"}"#;
    reach_pod_through_konnectivity("grpc", "GRPC", metric).await;
}

#[needs(clients, go)]
#[tokio::test(flavor = "multi_thread")]
async fn pod_is_reached_through_konnectivity_over_connect() {
    let metric = r#"apiserver_egress_dialer_dial_duration_seconds_count{protocol="http_connect",transport="uds"}"#;
    reach_pod_through_konnectivity("http-connect", "HTTPConnect", metric).await;
}

#[test]
fn invalid_egress_file_ends_the_start() {
    let (binary, folder) = (Binary::debug().unwrap(), tempfile::tempdir().unwrap());
    let selection = json!([{"name": "nodes", "connection": {"proxyProtocol": "Direct"}}]);
    let rejection = binary.rejection(&[configuration(&folder, &selection)]).unwrap();
    let why = "failed to validate egress selector configuration: service.connection: Unsupported value: \"nodes\"";
    assert!(
        rejection.contains("egress.yaml") && rejection.contains(why),
        "{rejection}"
    );
    let rejection = binary.rejection(&["--egress-selector-config-file=/nowhere"]).unwrap();
    assert!(
        rejection.contains("failed to read egress selector config"),
        "{rejection}"
    );
}
