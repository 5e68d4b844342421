//! Coordinated leader election: the server elects the holders of Leases among LeaseCandidates.

use std::time::Duration;

use conformance::{Binary, Client, MERGE, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;
use tokio::task::JoinHandle;

const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/component";
/// Lease of the server that elects.
const OWN_LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader-election-controller";
const CLOCK: &str = "/testing/clock";

const API: &str = "--runtime-config=coordination.k8s.io/v1beta1=true";
const GATE: &str = "--feature-gates=CoordinatedLeaderElection=true";
const OLDEST: &str = "OldestEmulationVersion";

/// Returns the flags of a server that elects.
fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [API, GATE, "--testing-endpoints"].iter().chain(more).copied().collect()
}

async fn electing_server() -> (Server, Client) {
    let server = Server::start(&Binary::debug().unwrap(), &flags(&[])).unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

/// Returns the time of the server.
async fn now(client: &mut Client) -> Value {
    client.get(CLOCK).await.1["now"].clone()
}

async fn advance(client: &mut Client, by: &str) {
    let answer = client
        .ask(Method::POST, CLOCK, "application/json", json!({"advance": by}))
        .await;
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
}

fn path_of(candidate: &str) -> String {
    format!("{CANDIDATES}/{candidate}")
}

/// Returns a time that is so long ago that the server asks a candidate to renew.
async fn past(client: &mut Client) -> Value {
    let past = now(client).await;
    advance(client, "10s").await;
    past
}

/// Makes a candidate for the Lease that was renewed at `renewed`.
async fn nominate(client: &mut Client, name: &str, emulation_version: &str, renewed: &Value) {
    nominate_by(client, OLDEST, name, emulation_version, renewed).await;
}

async fn nominate_now(client: &mut Client, name: &str, emulation_version: &str) {
    let renewed = now(client).await;
    nominate(client, name, emulation_version, &renewed).await;
}

async fn nominate_by(client: &mut Client, strategy: &str, name: &str, emulation_version: &str, renewed: &Value) {
    let spec = json!({"leaseName": "component", "strategy": strategy, "binaryVersion": "1.36.0",
                      "emulationVersion": emulation_version, "renewTime": renewed});
    client
        .make(CANDIDATES, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
}

async fn patch(client: &mut Client, path: &str, spec: Value) -> Value {
    let (status, answer) = client.ask(Method::PATCH, path, MERGE, json!({"spec": spec})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer
}

/// True if the server asked the candidate to renew, and it has not done so.
fn is_pending(candidate: &Value) -> bool {
    let time = |field: &str| candidate["spec"][field].as_str().unwrap_or_default().to_owned();
    time("pingTime") > time("renewTime")
}

/// Component that renews its nomination when the server asks for it, and the Lease while it holds it.
struct Component(JoinHandle<()>);

impl Component {
    async fn start(server: &Server, name: &'static str) -> Self {
        let mut client = Client::new(server).await;
        Self(tokio::spawn(async move {
            loop {
                let (_, candidate) = client.get(&path_of(name)).await;
                if is_pending(&candidate) {
                    let renewed = now(&mut client).await;
                    patch(&mut client, &path_of(name), json!({"renewTime": renewed})).await;
                }
                let (_, lease) = client.get(LEASE).await;
                if holder(&lease) == name {
                    let renewed = now(&mut client).await;
                    let spec = json!({"renewTime": renewed, "leaseDurationSeconds": 15});
                    patch(&mut client, LEASE, spec).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }))
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

async fn until_held_by(client: &mut Client, name: &str) -> Value {
    client.until(LEASE, |_, lease| holder(lease) == name).await
}

async fn until_pending(client: &mut Client, name: &str) {
    client.until(&path_of(name), |_, candidate| is_pending(candidate)).await;
}

/// Returns true if the check of the controllers is among those of the server.
async fn has_check(client: &mut Client) -> bool {
    let (_, checks) = client.get("/readyz?verbose").await;
    let check = "[+]poststarthook/start-kube-apiserver-coordinated-leader-election-controller ok";
    checks.as_str().unwrap().contains(check)
}

#[tokio::test]
async fn without_the_gate_no_leader_is_elected() {
    let server = Server::start(&Binary::debug().unwrap(), &[API, "--testing-endpoints"]).unwrap();
    let mut client = Client::new(&server).await;
    let past = past(&mut client).await;
    let renewed = now(&mut client).await;
    nominate(&mut client, "a", "1.35.0", &renewed).await;
    nominate(&mut client, "b", "1.35.0", &past).await;
    // With the gate, an election ends within milliseconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for path in [LEASE, OWN_LEASE] {
        assert_eq!(client.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(client.get(&path_of("b")).await.1["spec"].get("pingTime"), None);
    assert!(!has_check(&mut client).await);
    // Leases do not keep the fields of the election.
    let lease = json!({"metadata": {"name": "component"}, "spec": {"holderIdentity": "a", "strategy": OLDEST}});
    let leases = LEASE.strip_suffix("/component").unwrap();
    assert_eq!(client.make(leases, lease).await["spec"], json!({"holderIdentity": "a"}));
}

#[tokio::test]
async fn server_holds_its_own_lease_while_it_elects() {
    // This is longer than any client of the test waits.
    let flags = flags(&["--coordinated-leadership-lease-duration=1h"]);
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut client = Client::new(&server).await;
    let lease = client.until(OWN_LEASE, |_, lease| !holder(lease).is_empty()).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
    assert_eq!(lease["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    assert!(has_check(&mut client).await);
    // The server releases the Lease when it ends, so that the next one need not wait.
    let server = server.restart(&flags).unwrap();
    let mut client = Client::new(&server).await;
    let is_next = |next: &Value| !["", holder(&lease)].contains(&holder(next));
    let next = client.until(OWN_LEASE, |_, next| is_next(next)).await;
    assert_eq!(next["spec"]["leaseTransitions"], 1);
}

#[test]
fn invalid_durations_are_rejected() {
    let binary = Binary::debug().unwrap();
    for (flag, message) in [
        (
            "--coordinated-leadership-lease-duration=10s",
            "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
        ),
        (
            "--coordinated-leadership-retry-period=10s",
            "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
        ),
    ] {
        let rejection = binary.rejection(&[flag]).unwrap();
        assert!(rejection.contains(message), "{rejection}");
    }
}

#[tokio::test]
async fn candidate_with_older_emulation_version_is_elected() {
    let (server, mut client) = electing_server().await;
    // By its name and its age, the other one would be elected.
    let past = past(&mut client).await;
    nominate(&mut client, "a", "1.36.0", &past).await;
    nominate(&mut client, "b", "1.35.0", &past).await;
    for name in ["a", "b"] {
        until_pending(&mut client, name).await;
    }
    assert_eq!(client.get(LEASE).await.0, StatusCode::NOT_FOUND);
    let _a = Component::start(&server, "a").await;
    client.until(&path_of("a"), |_, candidate| !is_pending(candidate)).await;
    let mut other = Client::new(&server).await;
    let renewed = now(&mut other).await;
    patch(&mut other, &path_of("b"), json!({"renewTime": renewed})).await;
    let lease = until_held_by(&mut client, "b").await;
    assert_eq!(lease["spec"]["strategy"], OLDEST);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 5);
    assert!(lease["spec"]["renewTime"].is_string());
    for absent in ["preferredHolder", "acquireTime", "leaseTransitions"] {
        assert_eq!(lease["spec"].get(absent), None, "{absent}");
    }
    assert_eq!(lease["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
}

#[tokio::test]
async fn holder_that_renews_is_asked_to_step_down() {
    let (server, mut client) = electing_server().await;
    nominate_now(&mut client, "newer", "1.36.0").await;
    let newer = Component::start(&server, "newer").await;
    until_held_by(&mut client, "newer").await;
    nominate_now(&mut client, "older", "1.35.0").await;
    let _older = Component::start(&server, "older").await;
    let preferred = |lease: &Value| lease["spec"]["preferredHolder"] == "older";
    let lease = client.until(LEASE, |_, lease| preferred(lease)).await;
    assert_eq!(holder(&lease), "newer");
    drop(newer);
    // As client-go does, if another holder is preferred.
    patch(&mut client, LEASE, json!({"holderIdentity": ""})).await;
    let lease = until_held_by(&mut client, "older").await;
    assert_eq!(lease["spec"].get("preferredHolder"), None);
}

#[tokio::test]
async fn holder_that_stops_renewing_is_replaced() {
    let (server, mut client) = electing_server().await;
    nominate_now(&mut client, "older", "1.35.0").await;
    let older = Component::start(&server, "older").await;
    until_held_by(&mut client, "older").await;
    nominate_now(&mut client, "newer", "1.36.0").await;
    let _newer = Component::start(&server, "newer").await;
    drop(older);
    advance(&mut client, "20s").await;
    until_pending(&mut client, "older").await;
    assert_eq!(holder(&client.get(LEASE).await.1), "older");
    advance(&mut client, "6s").await;
    let lease = until_held_by(&mut client, "newer").await;
    assert_eq!(lease["spec"].get("preferredHolder"), None);
}

#[tokio::test]
async fn candidate_that_does_not_answer_is_passed_over() {
    let (server, mut client) = electing_server().await;
    let past = past(&mut client).await;
    nominate(&mut client, "older", "1.35.0", &past).await;
    until_pending(&mut client, "older").await;
    nominate(&mut client, "newer", "1.36.0", &past).await;
    until_pending(&mut client, "newer").await;
    let _newer = Component::start(&server, "newer").await;
    client
        .until(&path_of("newer"), |_, candidate| !is_pending(candidate))
        .await;
    assert_eq!(client.get(LEASE).await.0, StatusCode::NOT_FOUND);
    let (_, before) = client.get(&path_of("older")).await;
    advance(&mut client, "6s").await;
    until_held_by(&mut client, "newer").await;
    // It is not asked again until it renews.
    let (_, after) = client.get(&path_of("older")).await;
    assert_eq!(after["spec"], before["spec"]);
    // When it is back, it is preferred.
    let renewed = now(&mut client).await;
    patch(&mut client, &path_of("older"), json!({"renewTime": renewed})).await;
    client
        .until(LEASE, |_, lease| lease["spec"]["preferredHolder"] == "older")
        .await;
}

#[tokio::test]
async fn third_party_decides_by_its_own_strategy() {
    let (_server, mut client) = electing_server().await;
    let strategy = "example.com/newest";
    let renewed = now(&mut client).await;
    for (name, version) in [("a", "1.35.0"), ("b", "1.36.0")] {
        nominate_by(&mut client, strategy, name, version, &renewed).await;
    }
    let lease = client.until(LEASE, |status, _| status == StatusCode::OK).await;
    assert_eq!(lease["spec"]["strategy"], strategy);
    assert_eq!(lease["spec"].get("holderIdentity"), None);
    // The third party elects another one than this server would.
    let renewed = now(&mut client).await;
    let spec = json!({"holderIdentity": "b", "renewTime": renewed, "leaseDurationSeconds": 3600});
    let decided = patch(&mut client, LEASE, spec).await;
    // The candidates get a ping in time, and the Lease remains as it is.
    for _ in 0..2 {
        advance(&mut client, "16m").await;
        for name in ["a", "b"] {
            until_pending(&mut client, name).await;
        }
        let renewed = now(&mut client).await;
        for name in ["a", "b"] {
            patch(&mut client, &path_of(name), json!({"renewTime": renewed})).await;
        }
    }
    assert_eq!(client.get(LEASE).await.1["spec"], decided["spec"]);
}

#[tokio::test]
async fn expired_candidates_are_removed() {
    let (server, mut client) = electing_server().await;
    nominate_now(&mut client, "gone", "1.35.0").await;
    nominate_now(&mut client, "alive", "1.36.0").await;
    let _alive = Component::start(&server, "alive").await;
    until_held_by(&mut client, "gone").await;
    let (_, before) = client.get(&path_of("alive")).await;
    // After half of the time, the candidates get a ping.
    advance(&mut client, "20m").await;
    let renewed = |candidate: &Value| candidate["spec"]["renewTime"] != before["spec"]["renewTime"];
    client.until(&path_of("alive"), |_, candidate| renewed(candidate)).await;
    assert_eq!(client.get(&path_of("gone")).await.0, StatusCode::OK);
    advance(&mut client, "11m").await;
    client.until_gone(&path_of("gone")).await;
    assert_eq!(client.get(&path_of("alive")).await.0, StatusCode::OK);
    until_held_by(&mut client, "alive").await;
}

#[needs(etcd)]
#[tokio::test]
async fn one_of_several_servers_elects() {
    let etcd = Etcd::one().unwrap();
    let endpoints = format!("--etcd-servers={}", etcd.endpoints());
    let own = [
        endpoints.as_str(),
        "--coordinated-leadership-lease-duration=12s",
        "--coordinated-leadership-retry-period=200ms",
    ];
    let binary = Binary::debug().unwrap();
    let mut first = Server::start(&binary, &flags(&own)).unwrap();
    let mut client = Client::new(&first).await;
    let before = client.until(OWN_LEASE, |_, lease| !holder(lease).is_empty()).await;
    let second = Server::start(&binary, &flags(&own)).unwrap();
    let mut client = Client::new(&second).await;
    // The second server cannot begin before the Lease of the first one has expired.
    first.kill().unwrap();
    nominate_now(&mut client, "a", "1.36.0").await;
    let _a = Component::start(&second, "a").await;
    until_held_by(&mut client, "a").await;
    let (_, after) = client.get(OWN_LEASE).await;
    assert_ne!(holder(&after), holder(&before));
    assert_eq!(after["spec"]["leaseTransitions"], 1);
}
