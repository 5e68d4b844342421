//! Calls of webhooks: connections, certificates, services, timeouts and invalid answers.

use std::sync::Arc;

use crate::hook::{Hook, Identity, Reply, allow, deny};
use crate::support::{CONFIG_MAPS, Server, config_map};
use futures_util::future::join_all;
use rcgen::SanType;
use serde_json::{Value, json};
use tokio::sync::Barrier;

const CONFIG_MAP: &str = "/v1/configmaps";

/// Returns the client's error when a required webhook cannot be called.
async fn reported(server: &Server, webhook: Value) -> String {
    server.configure("validating", "a", &[webhook]).await;
    let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(answer.code, 500, "{}", answer.body);
    answer.message().to_owned()
}

fn at(url: &str, bundle: &str) -> Value {
    json!({"clientConfig": {"url": url, "caBundle": bundle}})
}

#[tokio::test]
async fn sequential_calls_share_one_connection() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
    server.configure("validating", "a", &[webhook]).await;
    for at in 0..5 {
        let answer = server.post(CONFIG_MAPS, &config_map(&format!("a{at}"), "1")).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    assert_eq!((hook.calls().len(), hook.connections()), (5, 1));
}

/// Returns the number of connections to a webhook whose concurrent calls all wait for each other, once one is open.
async fn connections_for_calls_together(client: impl Fn(&Hook) -> Value, hook: Hook, server: &Server) -> usize {
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, client(&hook));
    server.configure("validating", "a", &[webhook]).await;
    let first = server.post(CONFIG_MAPS, &config_map("first", "1")).await;
    assert_eq!(first.code, 201, "{}", first.body);
    let make = async |at: usize| server.post(CONFIG_MAPS, &config_map(&format!("a{at}"), "1")).await.code;
    assert_eq!(join_all((0..CALLS).map(make)).await, [201; CALLS]);
    hook.connections()
}

const CALLS: usize = 8;

/// Answers the first call immediately, and later ones once they are concurrent.
fn together() -> impl Fn(&Value) -> Reply + Send + Sync + 'static {
    let barrier = Arc::new(Barrier::new(CALLS));
    move |review| match review["request"]["name"].as_str() {
        Some("first") => allow(),
        _ => Reply::Together(Arc::clone(&barrier)),
    }
}

#[tokio::test]
async fn http2_calls_to_a_url_share_a_connection() {
    let server = Server::start().await;
    let url = |hook: &Hook| at(&hook.url("/hook"), &hook.bundle);
    let hook = Hook::start_http2(together()).await;
    assert_eq!(connections_for_calls_together(url, hook, &server).await, 1);
}

#[tokio::test]
async fn concurrent_calls_to_a_service_each_use_a_connection() {
    let server = Server::start().await;
    let hook = Hook::start_http2(together()).await;
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    let made = server.post("/api/v1/namespaces/default/services", service).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let by_name = |hook: &Hook| {
        let service = json!({"namespace": "default", "name": "web", "port": hook.port});
        json!({"clientConfig": {"service": service, "caBundle": hook.bundle}})
    };
    assert_eq!(connections_for_calls_together(by_name, hook, &server).await, CALLS);
}

#[tokio::test]
async fn a_slow_webhook_holds_up_no_other_request() {
    let server = Server::start().await;
    let hook = Hook::start(|review| match review["request"]["name"].as_str() {
        Some("slow") => Reply::Nothing,
        _ => allow(),
    })
    .await;
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({"timeoutSeconds": 5}));
    server.configure("validating", "a", &[webhook]).await;
    let (slow, fast) = (config_map("slow", "1"), config_map("fast", "1"));
    let ended = parking_lot::Mutex::new(Vec::new());
    let post = async |name: &'static str, body: &str| {
        let answer = server.post(CONFIG_MAPS, body).await;
        ended.lock().push(name);
        answer
    };
    let (slow, fast) = tokio::join!(post("slow", &slow), post("fast", &fast));
    assert_eq!((slow.code, fast.code), (500, 201));
    assert_eq!(*ended.lock(), ["fast", "slow"]);
    let url = hook.url("/hook?timeout=5s");
    assert_eq!(
        slow.message(),
        format!(
            "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \"{url}\": context deadline exceeded"
        )
    );
}

#[tokio::test]
async fn a_certificate_is_checked_as_go_does() {
    let server = Server::start().await;
    let failed = |url: &str, why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \"{url}?timeout=10s\": {why}"
        )
    };
    let x509 = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    let webhook =
        |hook: &Hook, url: &str, bundle: &str| hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, at(url, bundle));

    let (hook, other) = (Hook::start(|_| allow()).await, Identity::for_names(&[]));
    let other = Hook::start_as(other, |_| allow()).await;
    let url = hook.url("/x");
    assert_eq!(
        reported(&server, webhook(&hook, &url, &other.bundle)).await,
        failed(&url, &x509("certificate signed by unknown authority"))
    );

    let named = Hook::start_as(Identity::for_names(&["a.example", "b.example"]), |_| allow()).await;
    let url = format!("https://localhost:{}/x", named.port);
    assert_eq!(
        reported(&server, webhook(&named, &url, &named.bundle)).await,
        failed(
            &url,
            &x509("certificate is valid for a.example, b.example, not localhost")
        )
    );

    let identity = Identity::with(|params| {
        params.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
    });
    let nameless = Hook::start_as(identity, |_| allow()).await;
    let url = nameless.url("/x");
    assert_eq!(
        reported(&server, webhook(&nameless, &url, &nameless.bundle)).await,
        failed(
            &url,
            &x509("cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs")
        )
    );

    let identity = Identity::with(|params| {
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 3);
    });
    let expired = Hook::start_as(identity, |_| allow()).await;
    let said = reported(&server, webhook(&expired, &expired.url("/x"), &expired.bundle)).await;
    assert!(
        said.contains("x509: certificate has expired or is not yet valid: current time "),
        "{said}"
    );
    assert!(said.ends_with(" is after 2001-02-03T00:00:00Z"), "{said}");
}

#[tokio::test]
async fn a_certificate_that_stands_in_the_bundle_itself_is_trusted() {
    let server = Server::start().await;
    for identity in [
        Identity::of_authority_itself(),
        Identity::self_signed(),
        Identity::pinned(|_| {}),
        Identity::pinned(|params| params.is_ca = rcgen::IsCa::ExplicitNoCa),
    ] {
        let hook = Hook::start_as(identity, |_| deny("asked")).await;
        let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
        server.configure("validating", "a", &[webhook]).await;
        let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
        assert_eq!(
            answer.message(),
            "admission webhook \"a.b.c\" denied the request: asked"
        );
    }
}

#[tokio::test]
async fn a_certificate_in_the_bundle_is_still_checked() {
    let server = Server::start().await;
    let named = Identity::pinned(|params| {
        params.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
    });
    let expired = Identity::pinned(|params| {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 3);
    });
    let for_clients = Identity::pinned(|params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    for (identity, why) in [
        (
            named,
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (expired, " is after 2001-02-03T00:00:00Z"),
        (for_clients, "certificate specifies an incompatible key usage"),
    ] {
        let hook = Hook::start_as(identity, |_| allow()).await;
        let said = reported(&server, hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}))).await;
        assert!(
            said.contains("tls: failed to verify certificate: x509: ") && said.ends_with(why),
            "{said}"
        );
    }
    // A certificate that is trusted by itself cannot sign others.
    let (hook, other) = (Hook::start(|_| allow()).await, Identity::pinned(|_| {}));
    let other = Hook::start_as(other, |_| allow()).await;
    let url = hook.url("/x");
    let said = reported(
        &server,
        hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, at(&url, &other.bundle)),
    )
    .await;
    assert!(
        said.ends_with("x509: certificate signed by unknown authority"),
        "{said}"
    );
}

#[tokio::test]
async fn unreachable_webhook_reports_the_network_error() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    // The lookup of a name that does not exist may last many seconds.
    let webhook = |url: &str| {
        hook.webhook(
            "a.b.c",
            &["CREATE"],
            CONFIG_MAP,
            json!({"timeoutSeconds": 30, "clientConfig": {"url": url, "caBundle": hook.bundle}}),
        )
    };
    let said = reported(&server, webhook("https://127.0.0.1:1/gone")).await;
    assert!(
        said.ends_with(
            "Post \"https://127.0.0.1:1/gone?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused"
        ),
        "{said}"
    );
    let said = reported(&server, webhook("https://nowhere.invalid")).await;
    assert!(
        said.ends_with("Post \"https://nowhere.invalid/?timeout=30s\": dial tcp: lookup nowhere.invalid: no such host"),
        "{said}"
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.writable().await;
            let _ = stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let said = reported(&server, webhook(&format!("https://{plain}/x"))).await;
    assert!(
        said.ends_with("http: server gave HTTP response to HTTPS client"),
        "{said}"
    );
    let bundle = json!({"clientConfig": {"url": hook.url("/x"), "caBundle": "d2hhdD8="}});
    let said = reported(&server, hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, bundle)).await;
    assert_eq!(
        said,
        "Internal error occurred: failed calling webhook \"a.b.c\": could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    );
}

#[tokio::test]
async fn a_service_is_called_by_its_name_wherever_it_is() {
    let server = Server::start().await;
    let hook = Hook::start_as(Identity::for_names(&["s.default.svc"]), |_| deny("asked")).await;
    let of_service = json!({"clientConfig": {
        "service": {"name": "s", "namespace": "default", "path": "/p/", "port": hook.port}, "caBundle": hook.bundle,
    }});
    let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, of_service);
    let said = reported(&server, webhook).await;
    let url = format!("https://s.default.svc:{}/p?timeout=10s", hook.port);
    assert!(
        said.ends_with(&format!("Post \"{url}\": service \"s\" not found")),
        "{said}"
    );
    let services = "/api/v1/namespaces/default/services";
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "None", "ports": [{"port": hook.port}]}});
    server.post(services, &service.to_string()).await;
    let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert!(
        answer.message().ends_with("no endpoints available for service \"s\""),
        "{}",
        answer.message()
    );
    server.delete(&format!("{services}/s")).await;
    service["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
    let made = server.post(services, &service.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    assert_eq!(
        answer.message(),
        "admission webhook \"a.b.c\" denied the request: asked"
    );
    assert_eq!(hook.paths(), ["/p?timeout=10s"]);
}

#[tokio::test]
async fn answers_that_are_none_are_reported_by_their_errors() {
    let server = Server::start().await;
    let cases: [(u16, &str, &str); 6] = [
        (
            503,
            "oh no",
            "failed to call webhook: the server is currently unable to handle the request",
        ),
        (
            500,
            "oh no",
            "failed to call webhook: an error on the server (\"oh no\") has prevented the request from succeeding",
        ),
        (
            307,
            "",
            "failed to call webhook: the server responded with the status code 307 but did not return more information",
        ),
        (
            200,
            "{}",
            "received invalid webhook response: webhook response was absent",
        ),
        (
            200,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"other"}}"#,
            "received invalid webhook response: expected response.uid=",
        ),
        (
            200,
            "[]",
            "failed to call webhook: couldn't get version/kind; json parse error: ",
        ),
    ];
    for (code, body, why) in cases {
        let hook = Hook::start(move |_| Reply::Raw(code, body.to_owned())).await;
        let said = reported(&server, hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}))).await;
        assert!(
            said.starts_with(&format!(
                "Internal error occurred: failed calling webhook \"a.b.c\": {why}"
            )),
            "{said}"
        );
    }
}
