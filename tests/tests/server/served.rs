//! Features and APIs: `--feature-gates` and `--runtime-config` of the real binary.

use bytes::Bytes;
use conformance::{Binary, Client, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;

/// Sends a request with a body and returns the response, as text.
async fn send(server: &Server, method: Method, path: &str, body: &str) -> (u16, serde_json::Value) {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let body = Bytes::from(body.to_owned());
    let response = connection.open(method, path, "application/json", body).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn text(server: &Server, path: &str) -> String {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let response = connection.get(path, "*/*").await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the error with which a start with these flags fails.
fn rejected(flags: &[&str]) -> String {
    match Server::start(&Binary::debug().unwrap(), flags) {
        Ok(_) => String::new(),
        Err(error) => format!("{error:#}"),
    }
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"os":{"name":"linux"},
    "containers":[{"name":"c","image":"i","lifecycle":{"stopSignal":"SIGUSR1"}}]}}"#;
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";
const SIGNAL: &str = "/spec/containers/0/lifecycle/stopSignal";
const WATCH: &str = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=3";

#[tokio::test]
async fn metrics_show_admission_queues_and_the_store() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    assert_eq!(send(&server, Method::POST, PODS, POD).await.0, 201);
    let list = WATCH.replace("timeoutSeconds=3", "timeoutSeconds=3&allowWatchBookmarks=true");
    assert_eq!(send(&server, Method::GET, &list, "").await.0, 200);
    let step = "operation=\"CREATE\",rejected=\"false\"";
    let parts = [
        format!("apiserver_admission_step_admission_duration_seconds_count{{{step},type=\"admit\"}} "),
        format!("apiserver_admission_step_admission_duration_seconds_summary{{{step},type=\"validate\",quantile=\"0.9\"}} "),
        format!("apiserver_admission_controller_admission_duration_seconds_count{{name=\"Priority\",{step},type=\"admit\"}} "),
        format!("apiserver_admission_controller_admission_duration_seconds_count{{name=\"ResourceQuota\",{step},type=\"validate\"}} "),
        "pod_security_evaluations_total{decision=\"allow\",mode=\"enforce\",policy_level=\"privileged\",policy_version=\"latest\",request_operation=\"create\",resource=\"pod\",subresource=\"\"} 1\n".to_owned(),
        "pod_security_exemptions_total{request_operation=\"update\",resource=\"controller\",subresource=\"\"} 0\n".to_owned(),
        "workqueue_adds_total{name=\"autoregister\"} ".to_owned(),
        "workqueue_depth{name=\"namespace\"} 0\n".to_owned(),
        "apiserver_storage_size_bytes{storage_cluster_id=\"embedded\"} ".to_owned(),
        "apiserver_watch_list_duration_seconds_count{group=\"\",resource=\"pods\",scope=\"cluster\",version=\"v1\"} 1\n".to_owned(),
    ];
    // Controllers may start after the server is ready.
    let are_shown = |metrics: &serde_json::Value| parts.iter().all(|part| metrics.as_str().unwrap().contains(part));
    let mut client = Client::new(&server).await;
    client.until("/metrics", |_, metrics| are_shown(metrics)).await;
    text(&server, "/readyz").await;
    let health = text(&server, "/metrics/slis").await;
    assert!(
        health.contains("kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} "),
        "{health}"
    );
}

#[tokio::test]
async fn feature_gates_switch_what_they_name() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let (_, pod) = send(&server, Method::POST, PODS, POD).await;
    assert_eq!(pod.pointer(SIGNAL), None, "{pod}");
    assert_eq!(send(&server, Method::GET, WATCH, "").await.0, 200);
    let metrics = text(&server, "/metrics").await;
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"ContainerStopSignals\",stage=\"ALPHA\"} 0"));

    let flags = [
        "--feature-gates=ContainerStopSignals=true",
        "--feature-gates=WatchList=false,AllAlpha=false",
    ];
    let server = server.restart(&flags).unwrap();
    let (_, pod) = send(&server, Method::POST, PODS, POD).await;
    assert_eq!(pod.pointer(SIGNAL).unwrap(), "SIGUSR1");
    let (status, rejection) = send(&server, Method::GET, WATCH, "").await;
    assert_eq!(status, 422);
    let message = rejection["message"].as_str().unwrap();
    assert!(
        message.contains("forbidden for watch unless the WatchList feature gate is enabled"),
        "{message}"
    );
    let metrics = text(&server, "/metrics").await;
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"ContainerStopSignals\",stage=\"ALPHA\"} 1"));
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"WatchList\",stage=\"BETA\"} 0"));
}

#[tokio::test]
async fn pages_and_checks_go_with_their_gates() {
    let off = "--feature-gates=ComponentFlagz=false,ComponentStatusz=false,WatchCacheInitializationPostStartHook=false";
    let server = Server::start(&Binary::debug().unwrap(), &[off]).unwrap();
    const CHECK: &str = "poststarthook/storage-readiness";
    let seen = async |server: &Server| {
        let paths = text(server, "/").await;
        [
            send(server, Method::GET, "/flagz", "").await.0 != 404,
            send(server, Method::GET, "/statusz", "").await.0 != 404,
            text(server, "/readyz?verbose").await.contains(CHECK),
            paths.contains(CHECK),
        ]
    };
    assert_eq!(seen(&server).await, [false; 4]);
    let server = server.restart(&[]).unwrap();
    assert_eq!(seen(&server).await, [true; 4]);
}

/// Returns status, content type and body of the response to a request that accepts `accept`.
async fn answer(server: &Server, path: &str, accept: &str) -> (u16, String, Bytes) {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let response = connection.get(path, accept).await.unwrap();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let status = response.status().as_u16();
    (
        status,
        content_type,
        response.into_body().collect().await.unwrap().to_bytes(),
    )
}

#[tokio::test]
async fn pages_are_served_as_cbor_with_the_gate() {
    const CBOR_TAG: [u8; 3] = [0xd9, 0xd9, 0xf7];
    let server = Server::start(
        &Binary::debug().unwrap(),
        &["--feature-gates=CBORServingAndStorage=true"],
    )
    .unwrap();
    for (path, kind, deprecated) in [("/statusz", "Statusz", "v1alpha1"), ("/flagz", "Flagz", "v1alpha1")] {
        for version in ["v1beta1", deprecated] {
            let wanted = format!("application/cbor;g=config.k8s.io;v={version};as={kind}");
            let (status, content_type, body) = answer(&server, path, &wanted).await;
            assert_eq!((status, content_type), (200, wanted));
            assert!(body.starts_with(&CBOR_TAG), "{body:?}");
        }
        let (status, content_type, body) = answer(&server, path, "application/cbor").await;
        assert_eq!((status, content_type.as_str()), (406, "application/cbor"));
        assert!(body.starts_with(&CBOR_TAG), "{body:?}");
    }
    let server = server.restart(&[]).unwrap();
    let wanted = "application/cbor;g=config.k8s.io;v=v1beta1;as=Statusz";
    let (status, content_type, _) = answer(&server, "/statusz", wanted).await;
    assert_eq!((status, content_type.as_str()), (406, "application/json"));
}

#[tokio::test]
async fn json_answers_end_as_in_the_reference() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let json = "application/json";
    let group = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let meta = "g=meta.k8s.io;v=v1";
    let (table, partial) = (
        format!("{json};as=Table;{meta}"),
        format!("{json};as=PartialObjectMetadata;{meta}"),
    );
    let partials = format!("{json};as=PartialObjectMetadataList;{meta}");
    let discovery = format!("{json};{group}");
    let status = format!("{json};as=Statusz;g=config.k8s.io;v=v1beta1");
    let namespaces = "/api/v1/namespaces";
    let namespace = format!("{namespaces}/default");
    for (path, accept) in [
        (namespace.as_str(), json),
        (namespaces, json),
        ("/api/v1/namespaces/default/configmaps?limit=1", json),
        ("/api/v1/namespaces/default/secrets", json),
        (namespace.as_str(), table.as_str()),
        (namespaces, table.as_str()),
        (namespace.as_str(), partial.as_str()),
        (namespaces, partials.as_str()),
        ("/api/v1/namespaces/none", json),
        ("/apis/apps/v1/none", json),
        ("/apis", json),
        ("/apis", discovery.as_str()),
        ("/api/v1", json),
        ("/statusz", status.as_str()),
        ("/api/v1/namespaces?watch=true&timeoutSeconds=1", json),
    ] {
        let (_, _, body) = answer(&server, path, accept).await;
        assert!(body.ends_with(b"}\n"), "{path} {accept}");
        if path.contains("watch") {
            continue;
        }
        let separator = if path.contains('?') { '&' } else { '?' };
        let (_, _, pretty) = answer(&server, &format!("{path}{separator}pretty=true"), accept).await;
        assert!(pretty.ends_with(b"\n}"), "{path} {accept}");
        let read = |body: &Bytes| serde_json::from_slice::<serde_json::Value>(body).unwrap();
        assert_eq!(read(&pretty)["kind"], read(&body)["kind"]);
    }
    for path in ["/version", "/openapi/v2", "/openapi/v3/apis/apps/v1", "/openid/v1/jwks"] {
        let (_, _, body) = answer(&server, path, "*/*").await;
        assert!(body.ends_with(b"}"), "{path}");
    }
    let (_, _, body) = answer(&server, &namespace, "text/html").await;
    assert!(
        body.ends_with(b"\n}"),
        "an answer that the client does not accept is indented"
    );
}

#[test]
fn gates_that_cannot_be_set_end_the_start() {
    let complaint = rejected(&["--feature-gates=Nope=true"]);
    assert!(complaint.contains("unrecognized feature gate: Nope"), "{complaint}");
    let complaint = rejected(&["--feature-gates=APIServerTracing=false"]);
    let why = "cannot set feature gate APIServerTracing to false, feature is locked to true";
    assert!(complaint.contains(why), "{complaint}");
}

#[test]
fn gates_that_will_go_are_named_in_the_log() {
    let server = Server::start(&Binary::debug().unwrap(), &["--feature-gates=APIServerTracing=true"]).unwrap();
    let reported = "setting GA feature gate APIServerTracing=true. It will be removed in a future release.";
    assert!(server.logged(&[reported]), "{}", server.log_tail());
}

#[test]
fn help_lists_the_flags() {
    let out = Binary::debug().unwrap().command().arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&out.stdout);
    assert!(help.contains("--feature-gates <GATES>") && help.contains("--runtime-config <APIS>"));
}

const CLAIMS: &str = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims";
const CLAIM: &str = r#"{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim","metadata":{"name":"c"},
    "spec":{"devices":{"requests":[{"name":"r","deviceClassName":"gpu"}]}}}"#;

#[tokio::test]
async fn runtime_config_switches_versions_on_and_off() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    assert_eq!(send(&server, Method::GET, CLAIMS, "").await.0, 404);
    let groups = text(&server, "/apis").await;
    assert!(
        !groups.contains("v1beta1") && !groups.contains("internal.apiserver"),
        "{groups}"
    );

    let server = server
        .restart(&["--runtime-config=resource.k8s.io/v1beta1=true,batch/v1/cronjobs=false"])
        .unwrap();
    let (status, claim) = send(&server, Method::POST, CLAIMS, CLAIM).await;
    assert_eq!(status, 201, "{claim}");
    assert_eq!(
        claim.pointer("/spec/devices/requests/0/allocationMode").unwrap(),
        "ExactCount"
    );
    let stable = CLAIMS.replace("v1beta1", "v1") + "/c";
    let (_, claim) = send(&server, Method::GET, &stable, "").await;
    assert_eq!(claim.pointer("/spec/devices/requests/0/exactly/count").unwrap(), 1);
    assert_eq!(send(&server, Method::GET, "/apis/batch/v1/cronjobs", "").await.0, 404);
    assert_eq!(send(&server, Method::GET, "/apis/batch/v1/jobs", "").await.0, 200);
    let resources = text(&server, "/apis/batch/v1").await;
    assert!(
        resources.contains("\"jobs\"") && !resources.contains("cronjobs"),
        "{resources}"
    );
    let metrics = text(&server, "/metrics").await;
    let deprecated = "apiserver_requested_deprecated_apis{group=\"resource.k8s.io\",removed_release=\"1.38\",resource=\"resourceclaims\",subresource=\"\",version=\"v1beta1\"} 1";
    assert!(metrics.contains(deprecated), "{metrics}");

    // Objects written in a version that is disabled again exist in the other versions.
    let server = server.restart(&[]).unwrap();
    let (status, claim) = send(&server, Method::GET, &stable, "").await;
    assert_eq!(
        (status, claim["apiVersion"].as_str()),
        (200, Some("resource.k8s.io/v1"))
    );
}

#[tokio::test]
async fn answers_of_deprecated_versions_carry_warnings() {
    let server = Server::start(&Binary::debug().unwrap(), &["--runtime-config=api/beta=true"]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let path = "/apis/storage.k8s.io/v1beta1/volumeattributesclasses";
    let response = connection.get(path, "application/json").await.unwrap();
    assert_eq!(
        response.headers()["warning"],
        "299 - \"storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; use \
         storage.k8s.io/v1 VolumeAttributesClass\""
    );
}

/// Versions and plural names of resources that are off by default.
const BEYOND: [(&str, &str); 24] = [
    ("admissionregistration.k8s.io/v1alpha1", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io/v1alpha1",
        "mutatingadmissionpolicybindings",
    ),
    ("admissionregistration.k8s.io/v1beta1", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io/v1beta1",
        "mutatingadmissionpolicybindings",
    ),
    ("certificates.k8s.io/v1alpha1", "clustertrustbundles"),
    ("certificates.k8s.io/v1beta1", "clustertrustbundles"),
    ("certificates.k8s.io/v1beta1", "podcertificaterequests"),
    ("coordination.k8s.io/v1alpha2", "leasecandidates"),
    ("coordination.k8s.io/v1beta1", "leasecandidates"),
    ("internal.apiserver.k8s.io/v1alpha1", "storageversions"),
    ("networking.k8s.io/v1beta1", "ipaddresses"),
    ("networking.k8s.io/v1beta1", "servicecidrs"),
    ("resource.k8s.io/v1alpha3", "devicetaintrules"),
    ("resource.k8s.io/v1alpha3", "resourcepoolstatusrequests"),
    ("resource.k8s.io/v1beta1", "deviceclasses"),
    ("resource.k8s.io/v1beta1", "resourceclaims"),
    ("resource.k8s.io/v1beta1", "resourceclaimtemplates"),
    ("resource.k8s.io/v1beta1", "resourceslices"),
    ("resource.k8s.io/v1beta2", "devicetaintrules"),
    ("resource.k8s.io/v1beta2", "resourceslices"),
    ("scheduling.k8s.io/v1alpha2", "podgroups"),
    ("scheduling.k8s.io/v1alpha2", "workloads"),
    ("storage.k8s.io/v1beta1", "volumeattributesclasses"),
    ("storagemigration.k8s.io/v1beta1", "storageversionmigrations"),
];

#[tokio::test]
async fn all_that_is_off_by_default_can_be_switched_on() {
    let flags = [
        "--runtime-config=api/all=true",
        "--feature-gates=AllAlpha=true,AllBeta=true",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let groups = text(&server, "/apis").await;
    for (group_version, plural) in BEYOND {
        let (status, list) = send(&server, Method::GET, &format!("/apis/{group_version}/{plural}"), "").await;
        assert_eq!(
            (status, list["apiVersion"].as_str()),
            (200, Some(group_version)),
            "{plural}: {list}"
        );
        assert!(
            groups.contains(&format!("\"groupVersion\":\"{group_version}\"")),
            "{group_version} is not in /apis"
        );
        let document = text(&server, &format!("/openapi/v3/apis/{group_version}")).await;
        assert!(document.contains(&format!("/apis/{group_version}/")), "{group_version}");
    }
}

#[test]
fn apis_that_are_not_there_end_the_start() {
    let complaint = rejected(&["--runtime-config=nope.io/v1=true"]);
    assert!(complaint.contains("unknown api groups nope.io/v1"), "{complaint}");
    let complaint = rejected(&["--runtime-config=api/all=false"]);
    assert!(
        complaint.contains("invalid runtime-config with only api/all=false"),
        "{complaint}"
    );
}

/// Returns a short text in CBOR.
fn cbor(text: &str) -> Vec<u8> {
    let mut item = vec![0x40 | u8::try_from(text.len()).unwrap()];
    item.extend_from_slice(text.as_bytes());
    item
}

/// Returns a ConfigMap in CBOR.
fn cbor_config_map(name: &str) -> Bytes {
    let mut item = vec![0xd9, 0xd9, 0xf7, 0xa4];
    for text in ["apiVersion", "v1", "kind", "ConfigMap", "metadata"] {
        item.extend(cbor(text));
    }
    item.push(0xa1);
    for text in ["name", name, "data"] {
        item.extend(cbor(text));
    }
    item.push(0xa1);
    for text in ["key", "value"] {
        item.extend(cbor(text));
    }
    item.into()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn objects_are_served_in_cbor_where_the_gate_says_so() {
    const CBOR: &str = "application/cbor";
    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let made = connection
        .ask(Method::POST, CONFIG_MAPS, CBOR, cbor_config_map("a"))
        .await;
    assert_eq!(made.unwrap().0, 415);
    assert_eq!(connection.get(CONFIG_MAPS, CBOR).await.unwrap().status(), 406);
    drop(connection);

    let server = server.restart(&["--feature-gates=CBORServingAndStorage=true"]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let made = connection
        .ask(Method::POST, CONFIG_MAPS, CBOR, cbor_config_map("a"))
        .await;
    assert_eq!(made.unwrap().0, 201);
    let applied = format!("{CONFIG_MAPS}/b?fieldManager=m");
    let apply = "application/apply-patch+cbor";
    let made = connection
        .ask(Method::PATCH, &applied, apply, cbor_config_map("b"))
        .await;
    assert_eq!(made.unwrap().0, 201);
    let mut data = cbor("data");
    data.push(0xa1);
    data.extend(cbor("key"));
    data.extend(cbor("value"));
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=3");
    for (path, media_type, found) in [
        (format!("{CONFIG_MAPS}/a"), CBOR, 1),
        (CONFIG_MAPS.to_owned(), CBOR, 2),
        (watch, "application/cbor-seq", 2),
    ] {
        let answer = connection.get(&path, CBOR).await.unwrap();
        assert_eq!(answer.headers()["content-type"], media_type, "{path}");
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.starts_with(&[0xd9, 0xd9, 0xf7]), "{path}");
        assert_eq!(
            bytes.windows(data.len()).filter(|window| *window == data).count(),
            found,
            "{path}"
        );
    }
    let missing = connection.get(&format!("{CONFIG_MAPS}/none"), CBOR).await.unwrap();
    assert_eq!(
        (missing.status().as_u16(), &missing.headers()["content-type"]),
        (404, &CBOR.parse().unwrap())
    );
    let rejection = missing.into_body().collect().await.unwrap().to_bytes();
    assert!(holds(&rejection, &cbor("NotFound")));
    let broken = connection
        .ask(Method::POST, CONFIG_MAPS, CBOR, Bytes::from_static(b"\xa1\xff"))
        .await;
    assert_eq!(broken.unwrap().0, 400);
    // Documents that describe resources are not objects.
    assert_eq!(
        connection
            .get("/apis", "application/cbor,application/json")
            .await
            .unwrap()
            .headers()["content-type"],
        "application/json"
    );
}

#[tokio::test]
async fn clients_are_reached_as_flags_say() {
    let flags = [
        "--cors-allowed-origins=^https://console\\.example$",
        "--strict-transport-security-directives=max-age=600,includeSubDomains",
        "--disable-http2-serving",
        "--tls-min-version=VersionTLS13",
        "--default-not-ready-toleration-seconds=7",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let target = Target::new(&server).unwrap();
    assert!(target.connect_http2().await.is_err());
    let mut socket = target.raw().await.unwrap();
    let request =
        "OPTIONS /api HTTP/1.1\r\nHost: localhost\r\nOrigin: https://console.example\r\nConnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut socket, request.as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut socket, &mut answer)
        .await
        .unwrap();
    let answer = answer.to_lowercase();
    assert!(answer.starts_with("http/1.1 204"), "{answer}");
    for header in [
        "access-control-allow-origin: https://console.example\r",
        "access-control-allow-credentials: true\r",
        "strict-transport-security: max-age=600; includesubdomains\r",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    let (_, pod) = send(&server, Method::POST, PODS, POD).await;
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    let seconds: Vec<_> = tolerations
        .iter()
        .map(|one| one["tolerationSeconds"].as_i64())
        .collect();
    assert_eq!(seconds, [Some(7), Some(300)]);
    for flags in [
        ["--cors-allowed-origins=example.com"],
        ["--tls-cipher-suites=TLS_NONE"],
        ["--goaway-chance=1"],
    ] {
        assert_ne!(rejected(&flags), "", "{flags:?}");
    }
}

#[tokio::test]
async fn flags_without_value_have_their_defaults() {
    let flags = [
        "--http2-max-streams-per-connection=0",
        "--client-ca-file=",
        "--cors-allowed-origins=",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut connection = Target::new(&server).unwrap().connect_http2().await.unwrap();
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), connection.get("/version", "*/*"));
    assert_eq!(answer.await.expect("an answer").unwrap().status(), 200);
}

#[tokio::test]
async fn connections_end_by_chance_where_a_flag_says_so() {
    let server = Server::start(&Binary::debug().unwrap(), &["--goaway-chance=0.02"]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect_http2().await.unwrap();
    // The probability that none of these is the last request is 1 in 10^87.
    let mut answered = 0;
    while answered < 10_000
        && let Ok(answer) = connection.get("/version", "*/*").await
        && answer.into_body().collect().await.is_ok()
    {
        answered += 1;
    }
    assert!(answered < 10_000);
    let mut another = Target::new(&server).unwrap().connect().await.unwrap();
    assert_eq!(another.get("/version", "*/*").await.unwrap().status(), 200);
}

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const IP_ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// Returns a Service named `name` with more fields in its specification.
fn service(name: &str, more: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{{"port":80}}]{more}}}}}"#)
}

#[tokio::test]
async fn second_service_cidr_gives_addresses() {
    let server = Server::start(&Binary::debug().unwrap(), &["--service-cluster-ip-range=10.0.0.0/29"]).unwrap();
    let mut client = Client::new(&server).await;
    let is_ready = |object: &serde_json::Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    client
        .until(&format!("{SERVICE_CIDRS}/kubernetes"), |_, object| is_ready(object))
        .await;

    let wanted = service("wanted", r#","clusterIP":"10.77.0.5""#);
    let (code, rejection) = send(&server, Method::POST, SERVICES, &wanted).await;
    assert_eq!(code, 422);
    assert_eq!(
        rejection["message"],
        "Service \"wanted\" is invalid: spec.clusterIPs: Invalid value: [\"10.77.0.5\"]: failed to allocate IP 10.77.0.5: the \
         provided network does not match the current range"
    );
    let second = r#"{"metadata":{"name":"second"},"spec":{"cidrs":["10.77.0.0/28"]}}"#;
    assert_eq!(send(&server, Method::POST, SERVICE_CIDRS, second).await.0, 201);
    let (code, made) = send(&server, Method::POST, SERVICES, &wanted).await;
    assert_eq!((code, &made["spec"]["clusterIP"]), (201, &"10.77.0.5".into()));
    let (code, address) = send(&server, Method::GET, &format!("{IP_ADDRESSES}/10.77.0.5"), "").await;
    assert_eq!((code, &address["spec"]["parentRef"]["name"]), (200, &"wanted".into()));
    let again = service("again", r#","clusterIP":"10.77.0.5""#);
    assert_eq!(send(&server, Method::POST, SERVICES, &again).await.0, 422);

    // The first block has five addresses for Services; after that the second one is used.
    let mut addresses = Vec::new();
    for number in 0..7 {
        let (code, made) = send(&server, Method::POST, SERVICES, &service(&format!("s{number}"), "")).await;
        assert_eq!(code, 201, "{made}");
        addresses.push(made["spec"]["clusterIP"].as_str().unwrap().to_owned());
    }
    let of_second = addresses.iter().filter(|address| address.starts_with("10.77.0."));
    assert_eq!(of_second.count(), 2, "{addresses:?}");

    let path = format!("{SERVICES}/wanted");
    assert_eq!(send(&server, Method::DELETE, &path, "").await.0, 200);
    let path = format!("{IP_ADDRESSES}/10.77.0.5");
    assert_eq!(send(&server, Method::GET, &path, "").await.0, 404);
}

#[tokio::test]
async fn dual_stack_services_get_two_addresses() {
    let range = "--service-cluster-ip-range=10.0.0.0/24,fd00:1::/112";
    let server = Server::start(&Binary::debug().unwrap(), &[range]).unwrap();
    let (_, cidr) = send(&server, Method::GET, &format!("{SERVICE_CIDRS}/kubernetes"), "").await;
    assert_eq!(
        cidr["spec"]["cidrs"],
        serde_json::json!(["10.0.0.0/24", "fd00:1::/112"])
    );
    for (more, families) in [
        ("", vec!["IPv4"]),
        (r#","ipFamilyPolicy":"PreferDualStack""#, vec!["IPv4", "IPv6"]),
        (
            r#","ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv6"]"#,
            vec!["IPv6", "IPv4"],
        ),
        (r#","ipFamilies":["IPv6"]"#, vec!["IPv6"]),
    ] {
        let path = format!("{SERVICES}?dryRun=All");
        let (code, made) = send(&server, Method::POST, &path, &service("a", more)).await;
        assert_eq!(
            (code, &made["spec"]["ipFamilies"]),
            (201, &serde_json::json!(families)),
            "{made}"
        );
        assert_eq!(made["spec"]["clusterIPs"].as_array().unwrap().len(), families.len());
    }
    let requested = service("b", r#","ipFamilyPolicy":"RequireDualStack","clusterIP":"10.88.0.1""#);
    let (_, rejection) = send(&server, Method::POST, SERVICES, &requested).await;
    assert_eq!(
        rejection["message"],
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.88.0.1\",\"\"]: failed to allocate IP 10.88.0.1: the \
         provided network does not match the current range"
    );

    // A Service becomes dual-stack and single-stack again.
    let mut client = Client::new(&server).await;
    let (code, made) = send(&server, Method::POST, SERVICES, &service("c", "")).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{SERVICES}/c");
    let policy = |policy: &str| serde_json::json!({"spec": {"ipFamilyPolicy": policy}});
    let (_, dual) = client
        .ask(Method::PATCH, &path, conformance::MERGE, policy("PreferDualStack"))
        .await;
    let addresses = dual["spec"]["clusterIPs"].as_array().unwrap().clone();
    assert_eq!((addresses.len(), &addresses[0]), (2, &made["spec"]["clusterIP"]));
    let second = format!("{IP_ADDRESSES}/{}", addresses[1].as_str().unwrap());
    assert_eq!(send(&server, Method::GET, &second, "").await.0, 200);
    let (_, single) = client
        .ask(Method::PATCH, &path, conformance::MERGE, policy("SingleStack"))
        .await;
    assert_eq!(
        single["spec"]["clusterIPs"],
        serde_json::json!([made["spec"]["clusterIP"]])
    );
    assert_eq!(send(&server, Method::GET, &second, "").await.0, 404);

    for (ranges, why) in [
        ("10.0.0.0/24,10.1.0.0/24", "must be of different IP family"),
        (
            "10.0.0.0/24,fd00::/112,10.2.0.0/24",
            "must not contain more than two entries",
        ),
    ] {
        let flag = format!("--service-cluster-ip-range={ranges}");
        let error = rejected(&[&flag]);
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn used_service_cidr_stays_until_its_addresses_are_gone() {
    let controllers = "--controllers=*,service-cidr-controller";
    let server = Server::start(&Binary::debug().unwrap(), &[controllers]).unwrap();
    let mut client = Client::new(&server).await;
    let second = r#"{"metadata":{"name":"second"},"spec":{"cidrs":["10.77.0.0/28"]}}"#;
    assert_eq!(send(&server, Method::POST, SERVICE_CIDRS, second).await.0, 201);
    let path = format!("{SERVICE_CIDRS}/second");
    let ready = |object: &serde_json::Value| object["status"]["conditions"][0]["status"].clone();
    let made = client.until(&path, |_, object| ready(object) == "True").await;
    let finalizer = "networking.k8s.io/service-cidr-finalizer";
    assert_eq!(made["metadata"]["finalizers"], serde_json::json!([finalizer]));

    let wanted = service("wanted", r#","clusterIP":"10.77.0.5""#);
    assert_eq!(send(&server, Method::POST, SERVICES, &wanted).await.0, 201);
    assert_eq!(send(&server, Method::DELETE, &path, "").await.0, 200);
    let kept = client.until(&path, |_, object| ready(object) == "False").await;
    assert_eq!(kept["status"]["conditions"][0]["reason"], "Terminating");
    // Its addresses are no longer allocated.
    let other = service("other", r#","clusterIP":"10.77.0.6""#);
    assert_eq!(send(&server, Method::POST, SERVICES, &other).await.0, 422);
    assert_eq!(
        send(&server, Method::DELETE, &format!("{SERVICES}/wanted"), "").await.0,
        200
    );
    client.until(&path, |code, _| code == 404).await;
}

#[tokio::test]
async fn issued_certificates_are_counted_by_duration() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use serde_json::json;

    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2026, 1, 2);
    let certificate = params.self_signed(&key).unwrap().pem();
    const DAY_SECONDS: u32 = 24 * 3600;
    for (name, seconds) in [("honored", DAY_SECONDS), ("shortened", 2 * DAY_SECONDS)] {
        let wanted = json!({
            "metadata": {"name": name},
            "spec": {"request": STANDARD.encode(&request), "signerName": "example.com/signer", "usages": ["client auth"],
                "expirationSeconds": seconds},
        });
        let (code, mut object) = send(&server, Method::POST, path, &wanted.to_string()).await;
        assert_eq!(code, 201, "{object}");
        object["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
        let (code, mut object) = send(
            &server,
            Method::PUT,
            &format!("{path}/{name}/approval"),
            &object.to_string(),
        )
        .await;
        assert_eq!(code, 200, "{object}");
        object["status"]["certificate"] = json!(STANDARD.encode(&certificate));
        let issued = object.to_string();
        let status = format!("{path}/{name}/status");
        assert_eq!(
            send(&server, Method::PUT, &format!("{status}?dryRun=All"), &issued)
                .await
                .0,
            200
        );
        let (code, object) = send(&server, Method::PUT, &status, &issued).await;
        assert_eq!(code, 200, "{object}");
    }
    let (_, metrics) = client.get("/metrics").await;
    for line in [
        "apiserver_certificates_registry_csr_requested_duration_total{signerName=\"other\"} 2\n",
        "apiserver_certificates_registry_csr_honored_duration_total{signerName=\"other\"} 1\n",
    ] {
        assert!(metrics.as_str().unwrap().contains(line), "{line}");
    }
}

#[tokio::test]
async fn rejected_status_of_a_service_cidr_is_an_event() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let server = Server::start(&Binary::debug().unwrap(), &["--controllers=*,service-cidr-controller"]).unwrap();
    let mut client = Client::new(&server).await;
    let policy = serde_json::json!({"metadata": {"name": "no-status"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"],
            "operations": ["UPDATE"], "resources": ["servicecidrs/status"]}]},
        "validations": [{"expression": "false"}]}});
    client.make(POLICIES, policy).await;
    let binding = serde_json::json!({"metadata": {"name": "no-status"},
        "spec": {"policyName": "no-status", "validationActions": ["Deny"]}});
    client.make(BINDINGS, binding).await;
    // A policy is in force a little after its creation.
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason=KubernetesServiceCIDRError";
    for number in 0..100 {
        let cidr = serde_json::json!({"metadata": {"name": format!("other-{number}")},
            "spec": {"cidrs": [format!("10.{number}.0.0/24")]}});
        client.make(SERVICE_CIDRS, cidr).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let (_, list) = client.get(events).await;
        let event = &list["items"][0];
        // The controller tries again: a repeated event is counted.
        if event["count"].as_i64() > Some(1) {
            assert_eq!(event["message"], "The ServiceCIDR Status can not be set to Ready=True");
            assert_eq!(event["source"]["component"], "service-cidr-controller");
            return;
        }
    }
    panic!("no event reports the rejected status");
}

#[tokio::test]
async fn removed_address_of_a_service_is_restored_with_an_event() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let service = serde_json::json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let made = client.make(SERVICES, service).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
    let (_, before) = client.get(&path).await;
    for count in [1, 2] {
        client.delete(&path, serde_json::json!({})).await;
        let restored = client
            .until(&path, |code, object| {
                code == 200 && object["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
            })
            .await;
        assert_eq!(restored["spec"]["parentRef"]["name"], "web");
        let is_counted = |event: &serde_json::Value| event["series"]["count"].as_i64().unwrap_or(1) >= count;
        let list = client
            .until(EVENTS, |_, list| {
                list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|event| event["reason"] == "ClusterIPNotAllocated" && is_counted(event))
            })
            .await;
        let events: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["reason"] == "ClusterIPNotAllocated")
            .collect();
        assert_eq!(events.len(), 1, "{list}");
        let event = events[0];
        assert_eq!(
            event["note"],
            format!("Cluster IP [IPv4]: {address} is not allocated; repairing")
        );
        assert_eq!(event["action"], "ClusterIPAllocation");
        assert_eq!(event["reportingController"], "ipallocator-repair-controller");
        assert_eq!(event["regarding"]["uid"], made["metadata"]["uid"]);
    }
    // A removed Service gives its address back.
    client.delete(&format!("{SERVICES}/web"), serde_json::json!({})).await;
    client.until(&path, |code, _| code == 404).await;
}

/// Texts of events are those of kube-apiserver.
#[tokio::test]
async fn default_service_cidr_follows_flags_to_dual_stack_only() {
    let cidrs = |object: &serde_json::Value| object["spec"]["cidrs"].clone();
    let default = format!("{SERVICE_CIDRS}/kubernetes");
    let server = Server::start(&Binary::debug().unwrap(), &["--service-cluster-ip-range=10.0.0.0/24"]).unwrap();
    let single = serde_json::json!(["10.0.0.0/24"]);
    Client::new(&server)
        .await
        .until(&default, |_, object| cidrs(object) == single)
        .await;

    let server = server
        .restart(&["--service-cluster-ip-range=10.0.0.0/24,fd00::/64"])
        .unwrap();
    let dual = serde_json::json!(["10.0.0.0/24", "fd00::/64"]);
    let mut client = Client::new(&server).await;
    client.until(&default, |_, object| cidrs(object) == dual).await;
    let both = service("both", r#","ipFamilyPolicy":"RequireDualStack""#);
    let (code, made) = send(&server, Method::POST, SERVICES, &both).await;
    assert_eq!(code, 201, "{made}");
    let addresses: Vec<_> = made["spec"]["clusterIPs"].as_array().unwrap().iter().collect();
    assert!(
        addresses.len() == 2 && addresses[1].as_str().unwrap().starts_with("fd00:"),
        "{made}"
    );

    // Ranges have no limit of size.
    let server = server.restart(&["--service-cluster-ip-range=10.0.0.0/8"]).unwrap();
    let events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=ServiceCIDR";
    let mut client = Client::new(&server).await;
    let events = client.until(events, |_, list| list["items"][0].is_object()).await;
    let event = &events["items"][0];
    assert_eq!(event["reason"], "KubernetesDefaultServiceCIDRInconsistent");
    assert_eq!(
        event["message"],
        "The default ServiceCIDR [10.0.0.0/24 fd00::/64] does not match the controller flag configurations [10.0.0.0/8]"
    );
    assert_eq!(event["source"]["component"], "kubernetes-service-cidr-controller");
    assert_eq!(cidrs(&client.get(&default).await.1), dual);
}
