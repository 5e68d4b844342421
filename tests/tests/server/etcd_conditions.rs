//! Responses to clients if etcd rejects writes, is full or has no leader; etcd with TLS that requires a client
//! certificate; and the entries that several servers keep and repair there together.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use conformance::{Binary, Client, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use test_support::etcd::{Etcd, Settings};
use test_support::needs;
use tokio::net::{TcpStream, UnixListener};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn start(etcd: &Etcd, more: &[&str]) -> Server {
    let servers = format!("--etcd-servers={}", etcd.endpoints());
    let flags: Vec<&str> = [servers.as_str()].into_iter().chain(more.iter().copied()).collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

fn etcd_with(flags: &[&str]) -> Etcd {
    let flags = flags.iter().map(ToString::to_string).collect();
    Etcd::start(Settings {
        flags,
        ..Settings::default()
    })
    .unwrap()
}

fn config_map(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x".repeat(bytes)}})
}

fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap_or_default()
}

/// Waits until the server reports that etcd is in the expected state.
async fn until_ready(server: &Server, ready: bool) {
    let end = Instant::now() + WAIT_TIMEOUT;
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    loop {
        let answer = connection
            .ask(Method::GET, "/readyz/etcd-readiness", JSON, Bytes::new())
            .await;
        if answer.unwrap().0.is_success() == ready {
            return;
        }
        assert!(Instant::now() < end, "etcd is not said to be ready: {ready}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Certificates that one authority signed, in files.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let authority = Issuer::new(params, key);
        for (name, usage) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
            params.extended_key_usages = vec![usage];
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the flags of an etcd that requires certificates of its clients.
    fn flags_of_etcd(&self) -> Vec<String> {
        vec![
            self.flag("--cert-file", "server.pem"),
            self.flag("--key-file", "server-key.pem"),
            self.flag("--trusted-ca-file", "ca.pem"),
            "--client-cert-auth".to_owned(),
        ]
    }

    /// Returns the flags of a server that is a client of this etcd.
    fn flags_of_server(&self) -> [String; 3] {
        [
            self.flag("--etcd-cafile", "ca.pem"),
            self.flag("--etcd-certfile", "client.pem"),
            self.flag("--etcd-keyfile", "client-key.pem"),
        ]
    }

    fn flag(&self, flag: &str, name: &str) -> String {
        format!("{flag}={}", Path::display(&self.path(name)))
    }
}

#[needs(etcd)]
#[tokio::test]
async fn etcd_is_reached_by_tls_with_a_certificate_of_ones_own() {
    let certificates = Certificates::new();
    let etcd = Etcd::start(Settings {
        flags: certificates.flags_of_etcd(),
        tls: true,
        ..Settings::default()
    })
    .unwrap();
    let owned = certificates.flags_of_server();
    let own: Vec<&str> = owned.iter().map(String::as_str).collect();
    let (one, other) = (start(&etcd, &own), start(&etcd, &own));
    let (mut one, mut other) = (Client::new(&one).await, Client::new(&other).await);
    for round in 0..5 {
        let made = one.make(CONFIG_MAPS, config_map(&format!("c{round}"), 10)).await;
        assert_eq!(
            other.get(&format!("{CONFIG_MAPS}/c{round}")).await,
            (StatusCode::OK, made)
        );
    }
}

/// Passes the connections to a Unix socket on to the first member of an etcd.
fn listen_for(etcd: &Etcd, socket: &Path) {
    let (listener, member) = (UnixListener::bind(socket).unwrap(), etcd.client(0));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut etcd = TcpStream::connect(member).await?;
                tokio::io::copy_bidirectional(&mut client, &mut etcd).await
            });
        }
    });
}

#[needs(etcd)]
#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_through_unix_sockets() {
    let certificates = Certificates::new();
    let secure = Settings {
        flags: certificates.flags_of_etcd(),
        tls: true,
        ..Settings::default()
    };
    for (scheme, settings, flags) in [
        ("unix", Settings::default(), Vec::new()),
        ("unixs", secure, certificates.flags_of_server().to_vec()),
    ] {
        let etcd = Etcd::start(settings).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // The certificate has the name of the file.
        let socket = folder.path().join("localhost");
        listen_for(&etcd, &socket);
        let servers = format!("--etcd-servers={scheme}://{}", socket.display());
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain([servers.as_str()]).collect();
        let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
        let mut client = Client::new(&server).await;
        let made = client.make(CONFIG_MAPS, config_map("a", 10)).await;
        assert_eq!(
            client.get(&format!("{CONFIG_MAPS}/a")).await,
            (StatusCode::OK, made),
            "{scheme}"
        );
    }
}

#[needs(etcd)]
#[tokio::test]
async fn a_full_etcd_rejects_writes_and_is_read() {
    let etcd = etcd_with(&["--quota-backend-bytes=8388608"]);
    let server = start(&etcd, &[]);
    let mut objects = Client::new(&server).await;
    let mut made = 0;
    let rejected = loop {
        let object = config_map(&format!("c{made}"), 500_000);
        let (code, answer) = objects.ask(Method::POST, CONFIG_MAPS, JSON, object).await;
        if code != StatusCode::CREATED {
            break (code, message(&answer).to_owned());
        }
        made += 1;
        assert!(made < 100, "it is never full");
    };
    let expected = "etcdserver: mvcc: database space exceeded".to_owned();
    assert_eq!(rejected, (StatusCode::INTERNAL_SERVER_ERROR, expected));
    assert!(made > 0);
    assert_eq!(objects.get(&format!("{CONFIG_MAPS}/c0")).await.0, StatusCode::OK);
    let (code, list) = objects.get(CONFIG_MAPS).await;
    assert_eq!(code, StatusCode::OK);
    // etcd stores the write that fills it and still rejects it if it only detects the limit while it applies the write.
    let listed = list["items"].as_array().map(Vec::len);
    assert!(
        listed == Some(made) || listed == Some(made + 1),
        "{made} were made, {listed:?} are listed"
    );
}

#[needs(etcd)]
#[tokio::test]
async fn an_object_that_etcd_does_not_take_is_rejected_in_its_words() {
    let etcd = etcd_with(&["--max-request-bytes=100000"]);
    let server = start(&etcd, &[]);
    let mut objects = Client::new(&server).await;
    let (code, answer) = objects
        .ask(Method::POST, CONFIG_MAPS, JSON, config_map("large", 200_000))
        .await;
    let reported = (code, message(&answer));
    assert_eq!(
        reported,
        (StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: request is too large")
    );
    objects.make(CONFIG_MAPS, config_map("small", 10)).await;
}

#[needs(etcd)]
#[tokio::test]
async fn users_unknown_to_etcd_are_reported() {
    let etcd = Etcd::one().unwrap();
    let mut server = start(&etcd, &[]);
    let mut objects = Client::new(&server).await;
    objects.make(CONFIG_MAPS, config_map("c", 10)).await;
    for (path, body) in [
        ("/v3/auth/role/add", r#"{"name": "root"}"#),
        ("/v3/auth/user/add", r#"{"name": "root", "password": "secret"}"#),
        ("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        etcd.ask(0, path, body).unwrap();
    }
    let expected = "etcdserver: user name is empty";
    let (code, answer) = objects.get(&format!("{CONFIG_MAPS}/c")).await;
    assert_eq!((code, message(&answer)), (StatusCode::INTERNAL_SERVER_ERROR, expected));
    let (code, answer) = objects.ask(Method::POST, CONFIG_MAPS, JSON, config_map("d", 10)).await;
    assert_eq!((code, message(&answer)), (StatusCode::INTERNAL_SERVER_ERROR, expected));
    // A read without a required version is served from the state in memory.
    let (code, _) = objects.get(&format!("{CONFIG_MAPS}/c?resourceVersion=0")).await;
    assert_eq!(code, StatusCode::OK);
    // Waiting cannot repair this, so the start fails.
    server.end();
    let error = server
        .start_anew(&[&format!("--etcd-servers={}", etcd.endpoints())])
        .unwrap_err();
    assert!(format!("{error:#}").contains(expected), "{error:#}");
}

#[needs(etcd)]
#[tokio::test]
async fn without_a_leader_nothing_is_acknowledged_until_there_is_one() {
    let mut etcd = Etcd::three().unwrap();
    let server = start(&etcd, &[]);
    let mut objects = Client::new(&server).await;
    objects.make(CONFIG_MAPS, config_map("c", 10)).await;
    for member in [1, 2] {
        etcd.kill(member).unwrap();
    }
    let (code, answer) = objects.ask(Method::POST, CONFIG_MAPS, JSON, config_map("d", 10)).await;
    assert!(code.is_server_error(), "{code} {answer}");
    assert!(
        message(&answer).contains("etcd") || message(&answer).contains("connection error"),
        "{answer}"
    );
    until_ready(&server, false).await;
    etcd.revive(1).unwrap();
    until_ready(&server, true).await;
    objects.make(CONFIG_MAPS, config_map("e", 10)).await;
    let (code, _) = objects.get(&format!("{CONFIG_MAPS}/e")).await;
    assert_eq!(code, StatusCode::OK);
}

/// Bitmap of node ports in which only 30007 is allocated, in kube-apiserver's encoding.
const LEAKED: &[u8] = b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\x22\x0a\x10\x0a\0\x12\0\x1a\0\x22\0*\x002\08\0B\0\x12\x0b30000-32767\x1a\x01\x80\x1a\0\x22\0";

#[needs(etcd)]
#[tokio::test]
async fn service_allocations_are_repaired_and_leaked_port_rejected() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |name: &str, port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})
    };
    let etcd = Etcd::one().unwrap();
    let server = start(&etcd, &[]);
    let mut client = Client::new(&server).await;
    let made = client.make(SERVICES, service("a", 30001)).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    // A server that runs would repair the address, and might be ended before it reports that.
    drop(server);
    let key = STANDARD.encode(format!("/registry/ipaddresses/{address}"));
    etcd.ask(0, "/v3/kv/deleterange", &json!({"key": key}).to_string())
        .unwrap();
    let server = start(&etcd, &[]);
    let mut client = Client::new(&server).await;
    let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
    let mended = client.until(&path, |code, _| code == StatusCode::OK).await;
    assert_eq!(mended["spec"]["parentRef"]["name"], "a");
    const EVENTS: &str = "/api/v1/namespaces/default/events?fieldSelector=reason=ClusterIPNotAllocated";
    let events = client.until(EVENTS, |_, list| list["items"][0].is_object()).await;
    assert_eq!(events["items"][0]["involvedObject"]["name"], "a", "{events}");
    let put = json!({"key": STANDARD.encode("/registry/ranges/servicenodeports"), "value": STANDARD.encode(LEAKED)});
    etcd.ask(0, "/v3/kv/put", &put.to_string()).unwrap();
    let (code, answer) = client.ask(Method::POST, SERVICES, JSON, service("b", 30007)).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert!(
        message(&answer).contains("provided port is already allocated"),
        "{answer}"
    );
    client.make(SERVICES, service("c", 30008)).await;
}

#[needs(etcd)]
#[tokio::test]
async fn the_service_kubernetes_leads_to_the_servers_that_live() {
    const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
    const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let etcd = Etcd::one().unwrap();
    let one = start(&etcd, &["--advertise-address=192.0.2.2"]);
    let mut other = start(&etcd, &["--advertise-address=192.0.2.3"]);
    let mut client = Client::new(&one).await;
    let addresses = |endpoints: &Value| -> Vec<Value> {
        let listed = endpoints["subsets"][0]["addresses"].as_array().into_iter().flatten();
        listed.map(|address| address["ip"].clone()).collect()
    };
    client
        .until(ENDPOINTS, |_, endpoints| {
            addresses(endpoints) == ["192.0.2.2", "192.0.2.3"]
        })
        .await;
    client
        .until(SLICE, |_, slice| slice["endpoints"].as_array().map(Vec::len) == Some(2))
        .await;
    let range = json!({"key": STANDARD.encode("/registry/masterleases/"), "range_end": STANDARD.encode("/registry/masterleases0")});
    let leases: Value = serde_json::from_str(&etcd.ask(0, "/v3/kv/range", &range.to_string()).unwrap()).unwrap();
    let lives = |lease: &Value| lease["lease"].as_str().is_some_and(|id| id != "0");
    assert!(
        leases["kvs"]
            .as_array()
            .is_some_and(|leases| leases.len() == 2 && leases.iter().all(lives)),
        "{leases}"
    );
    // A server that exits removes its address.
    other.end();
    client
        .until(ENDPOINTS, |_, endpoints| addresses(endpoints) == ["192.0.2.2"])
        .await;
}

/// Returns the revision that created the lease of the only address; `None` if there is no lease.
fn address_created_at(etcd: &Etcd) -> Option<String> {
    let range = json!({"key": STANDARD.encode("/registry/masterleases/192.0.2.2")});
    let found: Value = serde_json::from_str(&etcd.ask(0, "/v3/kv/range", &range.to_string()).unwrap()).unwrap();
    Some(found["kvs"][0]["create_revision"].as_str()?.to_owned())
}

#[needs(etcd)]
#[tokio::test]
async fn second_server_at_one_address_logs_no_warning() {
    let etcd = Etcd::one().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let _first = start(&etcd, &["--advertise-address=192.0.2.2"]);
    while address_created_at(&etcd).is_none() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = address_created_at(&etcd);
    let second = start(&etcd, &["--advertise-address=192.0.2.2"]);
    // A server that starts removes a lease of its address, which a crash may have left, and makes its own.
    while address_created_at(&etcd).is_none_or(|now| Some(now) == before) {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        !second.logged(&["cannot update the endpoints"]),
        "{}",
        second.log_tail()
    );
}

#[needs(etcd)]
#[tokio::test]
async fn loopback_server_registers_address_of_host() {
    const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
    let etcd = Etcd::one().unwrap();
    let first = start(&etcd, &["--advertise-address=192.0.2.77"]);
    let second = start(&etcd, &[]);
    let mut client = Client::new(&first).await;
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let route = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    match route.ok().filter(|own| !own.ip().is_loopback()) {
        Some(own) => {
            let own = format!("\"ip\":\"{}\"", own.ip());
            client
                .until(ENDPOINTS, |_, endpoints| {
                    let text = endpoints.to_string();
                    text.contains("192.0.2.77") && text.contains(&own)
                })
                .await;
        }
        None => second
            .until_logged(&["no other machine reaches this address"])
            .await
            .unwrap(),
    }
    let (_, endpoints) = client.get(ENDPOINTS).await;
    assert!(!endpoints.to_string().contains("\"127."), "{endpoints}");
}

/// Disk size with enough space for etcd's log, which has two segments at first, and a small database.
const DISK: u64 = 150 << 20;

#[needs(etcd, full_disk)]
#[tokio::test]
async fn a_full_disk_of_etcd_loses_nothing_that_was_acknowledged() {
    let mut etcd = Etcd::start(Settings {
        disk: Some(DISK),
        ..Settings::default()
    })
    .unwrap();
    let server = start(&etcd, &[]);
    let mut objects = Client::new(&server).await;
    let before = objects.make(CONFIG_MAPS, config_map("before", 10)).await;
    etcd.fill_disk().unwrap();
    let (mut made, mut rejected) = (Vec::new(), None);
    while rejected.is_none() {
        let name = format!("c{}", made.len());
        let (code, answer) = objects
            .ask(Method::POST, CONFIG_MAPS, JSON, config_map(&name, 500_000))
            .await;
        match code {
            StatusCode::CREATED => made.push(answer),
            _ => rejected = Some((code, answer)),
        }
        assert!(made.len() < 1000, "it is never full");
    }
    let (code, answer) = rejected.unwrap();
    assert!(code.is_server_error(), "{code} {answer}");
    until_ready(&server, false).await;
    // Objects in memory are still served.
    let (code, _) = objects.get(&format!("{CONFIG_MAPS}/before?resourceVersion=0")).await;
    assert_eq!(code, StatusCode::OK);
    etcd.clear_disk().unwrap();
    if !etcd.runs(0).unwrap() {
        etcd.revive(0).unwrap();
    }
    until_ready(&server, true).await;
    for object in made.iter().chain([&before]) {
        let path = format!("{CONFIG_MAPS}/{}", object["metadata"]["name"].as_str().unwrap());
        assert_eq!(objects.get(&path).await, (StatusCode::OK, object.clone()));
    }
    objects.make(CONFIG_MAPS, config_map("after", 10)).await;
}

/// Returns the keys of an etcd that begin with `prefix`.
fn keys(etcd: &Etcd, prefix: &str) -> Vec<String> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    let range = json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "keys_only": true});
    let answer: Value = serde_json::from_str(&etcd.ask(0, "/v3/kv/range", &range.to_string()).unwrap()).unwrap();
    let keys = answer["kvs"].as_array().into_iter().flatten();
    keys.map(|kv| String::from_utf8(STANDARD.decode(kv["key"].as_str().unwrap()).unwrap()).unwrap())
        .collect()
}

fn event(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "sent", "name": "p"}})
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[needs(etcd)]
#[tokio::test]
async fn resources_in_another_etcd_have_their_own_versions() {
    const EVENTS: &str = "/api/v1/namespaces/sent/events";
    let (etcd, other) = (Etcd::one().unwrap(), Etcd::one().unwrap());
    let flag = format!("--etcd-servers-overrides=/events#{}", other.endpoint(0));
    let server = start(&etcd, &[&flag]);
    let mut objects = Client::new(&server).await;
    objects.namespace("sent").await;
    for number in 0..30 {
        let path = "/api/v1/namespaces/sent/configmaps";
        objects.make(path, config_map(&format!("c{number}"), 10)).await;
    }
    let first = objects.make(EVENTS, event("a")).await;
    objects.make(EVENTS, event("b")).await;
    assert_eq!(keys(&etcd, "/registry/events/"), [""; 0]);
    assert_eq!(keys(&other, "/registry/").len(), 2);
    // A list, a continued list and a watch use the versions of the other etcd.
    let (_, list) = objects.get(EVENTS).await;
    assert!(version(&list) < 30, "{list}");
    assert_eq!(version(&list), version(&list["items"][1]));
    let (_, page) = objects.get(&format!("{EVENTS}?limit=1")).await;
    let next = page["metadata"]["continue"].as_str().unwrap();
    let (_, page) = objects.get(&format!("{EVENTS}?limit=1&continue={next}")).await;
    assert_eq!(page["items"][0]["metadata"]["name"], "b");
    let mut change = first.clone();
    change["count"] = json!(2);
    let (code, changed) = objects
        .ask(Method::PUT, &format!("{EVENTS}/a"), JSON, change.clone())
        .await;
    assert_eq!((code, &changed["count"]), (StatusCode::OK, &json!(2)));
    assert_eq!(version(&changed), version(&list) + 1);
    let (code, _) = objects.ask(Method::PUT, &format!("{EVENTS}/a"), JSON, change).await;
    assert_eq!(code, StatusCode::CONFLICT, "it was changed since");
    let exact = format!("{EVENTS}?resourceVersion={}&resourceVersionMatch=Exact", version(&list));
    let (_, then) = objects.get(&exact).await;
    assert_eq!(then["items"], list["items"]);
    let watch = format!("{EVENTS}?watch=true&resourceVersion={}", version(&list));
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let watch = connection.get(&watch, JSON).await.unwrap();
    let frame = watch.into_body().frame().await.unwrap().unwrap();
    let reported: Value = serde_json::from_slice(&frame.into_data().unwrap()).unwrap();
    assert_eq!(
        (&reported["type"], &reported["object"]["count"]),
        (&json!("MODIFIED"), &json!(2))
    );
    // Controllers see existing objects: the deletion of a namespace also deletes its events.
    objects.delete("/api/v1/namespaces/sent", Value::Null).await;
    objects.until_gone("/api/v1/namespaces/sent").await;
    assert_eq!(keys(&other, "/registry/").len(), 0);
    for check in ["etcd-override-0", "etcd-override-readiness-0"] {
        let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
        let endpoint = if check.contains("readiness") { "readyz" } else { "livez" };
        let path = format!("/{endpoint}/{check}");
        let (code, _) = connection.ask(Method::GET, &path, JSON, Bytes::new()).await.unwrap();
        assert_eq!(code, StatusCode::OK, "{path}");
    }
}
