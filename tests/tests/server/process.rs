//! Guarantees of the process for its supervisor: data survives it, it exits on request, and no two processes share a
//! directory.

use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const APPLY: &str = "application/apply-patch+yaml";

fn config_map(name: &str, value: &str) -> Bytes {
    Bytes::from(format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: \"{value}\"}}\n"
    ))
}

fn resource_version(object: &[u8]) -> u64 {
    let object: serde_json::Value = serde_json::from_slice(object).unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn apply(target: &Target, name: &str, value: &str) -> Bytes {
    let path = format!("{CONFIG_MAPS}/{name}?fieldManager=tests");
    let mut connection = target.connect().await.unwrap();
    connection
        .send(Method::PATCH, &path, APPLY, config_map(name, value))
        .await
        .unwrap()
}

async fn get(target: &Target, name: &str) -> Bytes {
    let mut connection = target.connect().await.unwrap();
    connection
        .send(Method::GET, &format!("{CONFIG_MAPS}/{name}"), "", Bytes::new())
        .await
        .unwrap()
}

#[tokio::test]
async fn objects_outlive_a_restart_and_a_kill() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let before = apply(&Target::new(&server).unwrap(), "kept", "1").await;

    let server = server.restart(&[]).unwrap();
    let target = Target::new(&server).unwrap();
    assert_eq!(get(&target, "kept").await, before);
    let second = apply(&target, "second", "x").await;
    assert!(resource_version(&second) > resource_version(&before));

    let server = server.kill_and_restart(&[]).unwrap();
    let target = Target::new(&server).unwrap();
    assert_eq!(get(&target, "kept").await, before);
    assert_eq!(get(&target, "second").await, second);
}

#[tokio::test]
async fn a_watch_goes_on_from_its_version_after_a_restart() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let first = apply(&target, "seen", "1").await;
    apply(&target, "seen", "2").await;

    let server = server.restart(&[]).unwrap();
    let url = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", resource_version(&first));
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let mut events = connection
        .open(Method::GET, &url, "", Bytes::new())
        .await
        .unwrap()
        .into_body();
    let bytes = events.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["type"], "MODIFIED");
    assert_eq!(event["object"]["data"]["value"], "2");
}

#[tokio::test]
async fn watches_end_cleanly_when_the_server_ends() {
    let mut server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let url = format!("{CONFIG_MAPS}?watch=true");
    let answer = connection.open(Method::GET, &url, "", Bytes::new()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);

    server.terminate();
    // A stream that was cut off rather than ended would be an error here.
    answer.into_body().collect().await.unwrap();
    assert_eq!(server.wait_for_end(Duration::from_secs(60)).unwrap(), Some(0));
}

/// Opens `count` watches, each on a connection of its own, and returns the times until they end.
async fn watch_until_the_end(server: &Server, count: usize) -> Vec<tokio::task::JoinHandle<Instant>> {
    let target = Target::new(server).unwrap();
    let mut watches = Vec::new();
    for _ in 0..count {
        let mut connection = target.connect().await.unwrap();
        let url = format!("{CONFIG_MAPS}?watch=true");
        let answer = connection.open(Method::GET, &url, "", Bytes::new()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        watches.push(tokio::spawn(async move {
            // A stream that was cut off rather than ended would be an error here.
            answer.into_body().collect().await.unwrap();
            drop(connection);
            Instant::now()
        }));
    }
    watches
}

#[tokio::test]
async fn watches_end_one_after_the_other_with_a_grace_period() {
    for more in [&[][..], &["--shutdown-send-retry-after"]] {
        let flags = [&["--shutdown-watch-termination-grace-period=20s"], more].concat();
        let mut server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
        let watches = watch_until_the_end(&server, 101).await;
        server.terminate();
        let mut ends = Vec::new();
        for watch in watches {
            ends.push(watch.await.unwrap());
        }
        ends.sort_unstable();
        // 200 in a second is the minimum.
        let took = ends[100] - ends[0];
        assert!(took > Duration::from_millis(250), "{took:?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert_eq!(server.wait_for_end(Duration::from_secs(60)).unwrap(), Some(0));
    }
}

#[test]
fn negative_grace_period_of_watches_is_rejected() {
    let flag = "--shutdown-watch-termination-grace-period=-1s";
    let rejection = Binary::debug().unwrap().rejection(&[flag]).unwrap();
    let why = "shutdown-watch-termination-grace-period, if provided, can not be a negative value";
    assert!(rejection.contains(why), "{rejection}");
}

/// A read that waits three seconds for a resource version that does not exist yet.
const SLOW_READ: &str = "/api/v1/namespaces/default/configmaps?resourceVersion=1000000000";

#[tokio::test]
async fn requests_in_flight_finish_before_listening_stops() {
    let flags = ["--shutdown-send-retry-after"];
    let mut server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let target = Target::new(&server).unwrap();
    let mut connection = target.connect().await.unwrap();
    let slow = tokio::spawn(async move { connection.get(SLOW_READ, "").await.unwrap().status() });
    tokio::time::sleep(Duration::from_millis(500)).await;

    server.terminate();
    let denied = loop {
        let mut connection = target.connect().await.unwrap();
        let answer = connection.get(CONFIG_MAPS, "").await.unwrap();
        assert!(!slow.is_finished(), "no request was denied in time");
        if answer.status() != StatusCode::OK {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["retry-after"], "5");
    assert_eq!(denied.headers()["connection"], "close");
    let body = denied.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"The apiserver is shutting down, please try again later.\n");
    assert!(target.is_healthy("/livez").await);
    assert!(!target.is_healthy("/readyz").await);
    // The answer to a resource version that is too new.
    assert_eq!(slow.await.unwrap(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(server.wait_for_end(Duration::from_secs(60)).unwrap(), Some(0));
}

#[tokio::test]
async fn two_servers_listen_on_a_shared_port() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let port_flag = format!("--secure-port={port}");
    let flags = [port_flag.as_str(), "--permit-port-sharing"];
    let first = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let second = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    assert!(Target::new(&second).is_ok() && Target::new(&first).is_ok());
    let error = first.binary().rejection(&[port_flag.as_str()]).unwrap();
    assert!(error.contains("cannot listen on"), "{error}");
}

#[tokio::test]
async fn disabled_metrics_and_key_exchanges_follow_flags() {
    let flags = [
        "--disabled-metrics=apiserver_tls_handshake_errors_total",
        "--show-hidden-metrics-for-version=1.35",
        "--tls-curve-preferences=23,29",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let bytes = (connection.send(Method::GET, "/metrics", "", Bytes::new()).await).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains("\ndisabled_metrics_total 1\n"), "{text}");
    assert!(!text.contains("apiserver_tls_handshake_errors_total"), "{text}");
    let error = server.binary().rejection(&["--tls-curve-preferences=25"]).unwrap();
    assert!(error.contains("curve preference 25 is not supported"), "{error}");
}

#[tokio::test]
async fn json_log_has_one_object_on_each_line() {
    let mut server = Server::start(&Binary::debug().unwrap(), &["--logging-format=json"]).unwrap();
    server.terminate();
    assert_eq!(server.wait_for_end(Duration::from_secs(60)).unwrap(), Some(0));
    let lines: Vec<serde_json::Value> = (server.log_tail().lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let ready = lines.iter().find(|line| line["msg"] == "ready").unwrap();
    assert!(ready["ts"].as_f64().unwrap() > 1.7e12, "{ready}");
    assert_eq!(ready["v"], 0);
    assert!(ready["url"].as_str().unwrap().starts_with("https://"), "{ready}");
}

#[tokio::test]
async fn a_second_process_on_the_same_directory_is_rejected() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let kubeconfig = std::fs::read(server.kubeconfig()).unwrap();
    let second = server
        .binary()
        .command()
        .arg(format!("--data-dir={}", server.data_dir().display()))
        .arg("--secure-port=0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let complaint = String::from_utf8_lossy(&second.stderr);
    assert!(
        complaint.contains(&server.data_dir().display().to_string()),
        "{complaint}"
    );
    assert_eq!(
        std::fs::read(server.kubeconfig()).unwrap(),
        kubeconfig,
        "the first one's kubeconfig is left alone"
    );
    assert!(get_status(&server, "/readyz").await.is_success());
}

#[tokio::test]
async fn a_damaged_log_is_refused_until_the_loss_is_accepted() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    apply(&Target::new(&server).unwrap(), "kept", "1").await;
    // A graceful shutdown moves that into the file; later writes are only in the log.
    let mut server = server.restart(&[]).unwrap();
    let lost = apply(&Target::new(&server).unwrap(), "lost", "1").await;
    let log = server.data_dir().join("store.db-wal");
    server.kill().unwrap();
    std::fs::remove_file(log).unwrap();
    assert!(
        server.start_anew(&[]).is_err(),
        "it starts without what was acknowledged"
    );
    let message = server.log_tail();
    for reported in ["store.db is damaged", "were acknowledged", "--accept-data-loss"] {
        assert!(message.contains(reported), "{reported} is not in {message}");
    }

    server.start_anew(&["--accept-data-loss"]).unwrap();
    let target = Target::new(&server).unwrap();
    get(&target, "kept").await;
    let again = apply(&target, "lost", "1").await;
    assert!(
        resource_version(&again) > resource_version(&lost),
        "no revision is given away twice"
    );
    let server = server.restart(&[]).unwrap();
    assert_eq!(get(&Target::new(&server).unwrap(), "lost").await, again);
}

#[tokio::test]
async fn readiness_of_etcd_is_that_of_the_embedded_store() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    for path in ["/readyz/etcd", "/readyz?exclude=etcd", "/livez/etcd"] {
        let (status, body) = connection.ask(Method::GET, path, "", Bytes::new()).await.unwrap();
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"ok"[..]), "{path}");
    }
}

#[tokio::test]
async fn unstamped_build_reports_default_version() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let (_, body) = connection.ask(Method::GET, "/version", "", Bytes::new()).await.unwrap();
    let version: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let text = |field: &str| version[field].as_str().unwrap().to_owned();
    assert_eq!(text("gitCommit"), "0".repeat(40));
    assert_eq!(text("gitTreeState"), "archive");
    assert_eq!(text("buildDate"), "1970-01-01T00:00:00Z");
    assert!(text("goVersion").starts_with("go0 (rustc "), "{version}");
}

#[tokio::test]
async fn anonymous_requests_reach_only_health_checks_or_nothing() {
    let cases: [(&[&str], _, _); 2] = [
        (&[], StatusCode::OK, (StatusCode::FORBIDDEN, "Forbidden")),
        (
            &["--anonymous-auth=false"],
            StatusCode::UNAUTHORIZED,
            (StatusCode::UNAUTHORIZED, "Unauthorized"),
        ),
    ];
    for (flags, health, (code, reason)) in cases {
        let server = Server::start(&Binary::debug().unwrap(), flags).unwrap();
        let mut connection = Target::new(&server).unwrap().anonymous().connect().await.unwrap();
        let (status, _) = connection.ask(Method::GET, "/livez", "", Bytes::new()).await.unwrap();
        assert_eq!(status, health, "{flags:?}");
        let (status, body) = connection
            .ask(Method::GET, CONFIG_MAPS, "", Bytes::new())
            .await
            .unwrap();
        assert_eq!(status, code, "{flags:?}");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["reason"], reason);
    }
}

#[tokio::test]
async fn the_mode_of_authorization_decides_who_may_do_what() {
    // If everybody may do everything, no user is anonymous.
    for (mode, code) in [
        ("AlwaysAllow", StatusCode::UNAUTHORIZED),
        ("RBAC,AlwaysAllow", StatusCode::UNAUTHORIZED),
        ("AlwaysDeny", StatusCode::FORBIDDEN),
    ] {
        let flag = format!("--authorization-mode={mode}");
        let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
        let mut connection = Target::new(&server).unwrap().anonymous().connect().await.unwrap();
        let (status, _) = connection
            .ask(Method::GET, CONFIG_MAPS, "", Bytes::new())
            .await
            .unwrap();
        assert_eq!(status, code, "{mode}");
    }
}

#[tokio::test]
async fn roles_of_the_start_come_back_and_stay_as_they_are_otherwise() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    async fn read(server: &Server, name: &str) -> Bytes {
        let mut connection = Target::new(server).unwrap().connect().await.unwrap();
        let path = format!("{ROLES}/{name}");
        connection.send(Method::GET, &path, "", Bytes::new()).await.unwrap()
    }
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let (view, discovery) = (read(&server, "view").await, read(&server, "system:discovery").await);
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let path = format!("{ROLES}/system:discovery");
    let patch = Bytes::from_static(br#"{"rules":[]}"#);
    connection
        .send(Method::PATCH, &path, "application/merge-patch+json", patch)
        .await
        .unwrap();
    let server = server.restart(&[]).unwrap();
    assert_eq!(read(&server, "view").await, view);
    let rules = |role: &[u8]| serde_json::from_slice::<serde_json::Value>(role).unwrap()["rules"].clone();
    let again = rules(&read(&server, "system:discovery").await);
    // They come back one by one.
    assert_eq!(
        again.as_array().unwrap().len(),
        rules(&discovery)[0]["nonResourceURLs"].as_array().unwrap().len()
    );
}

async fn get_status(server: &Server, path: &str) -> StatusCode {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    connection.ask(Method::GET, path, "", Bytes::new()).await.unwrap().0
}

#[tokio::test]
async fn metrics_report_completed_operations() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    apply(&target, "counted", "1").await;
    let mut connection = target.connect().await.unwrap();
    let crd = br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"ruled.example.com"},"spec":{"group":"example.com","scope":"Cluster",
        "names":{"plural":"ruled","kind":"Ruled"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-validations":[{"rule":"has(self.metadata)"}]}}}]}}"#;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = Bytes::from_static(crd);
    let (code, answer) = connection
        .ask(Method::POST, crds, "application/json", body)
        .await
        .unwrap();
    assert_eq!(code, StatusCode::CREATED, "{answer:?}");
    let bytes = connection
        .send(Method::GET, "/metrics", "", Bytes::new())
        .await
        .unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let applied = "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",\
                   scope=\"resource\",subresource=\"\",verb=\"APPLY\",version=\"v1\"} 1\n";
    assert!(text.contains(applied), "{text}");
    for name in [
        "apiserver_resource_objects{group=\"\",resource=\"configmaps\"} ",
        "process_resident_memory_bytes ",
        "apiserver_cel_compilation_duration_seconds_count ",
        "registered_metrics_total{deprecated_version=\"\",stability_level=\"STABLE\"} ",
        "authentication_attempts{result=\"success\"} ",
        "authenticated_user_requests{username=\"other\"} ",
        "authorization_attempts_total{result=\"allowed\"} ",
    ] {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert!(value.parse::<f64>().unwrap() > 0.0, "{name}{value}");
    }
}

#[tokio::test]
async fn kubernetes_service_is_complete_on_a_loopback_address() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    for (path, address) in [
        (
            "/api/v1/namespaces/default/endpoints/kubernetes",
            "/subsets/0/addresses/0/ip",
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
            "/endpoints/0/addresses/0",
        ),
        ("/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1", "/metadata/name"),
    ] {
        let (code, body) = connection.ask(Method::GET, path, "", Bytes::new()).await.unwrap();
        let object: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(code, StatusCode::OK, "{object}");
        let expected = if path.contains("ipaddresses") {
            "10.0.0.1"
        } else {
            "127.0.0.1"
        };
        assert_eq!(object.pointer(address), Some(&expected.into()), "{object}");
    }
}

#[tokio::test]
async fn checks_of_health_stand_in_the_order_of_the_reference() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let (_, body) = connection
        .ask(Method::GET, "/livez?verbose", "", Bytes::new())
        .await
        .unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok"))
        .collect();
    let first = [
        "ping",
        "log",
        "loopback-serving-certificate",
        "etcd",
        "poststarthook/start-apiserver-admission-initializer",
        "poststarthook/generic-apiserver-start-informers",
        "poststarthook/priority-and-fairness-config-consumer",
    ];
    assert_eq!(names.get(..first.len()), Some(&first[..]), "{text}");
    // Failures of duties that kube-apiserver leaves to other components are reported.
    assert_eq!(
        names.last(),
        Some(&"poststarthook/apiservice-openapiv3-controller"),
        "{text}"
    );
}
