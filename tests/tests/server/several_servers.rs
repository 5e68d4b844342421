//! Several servers on one etcd: each returns the writes of the others, conflicting writes have the same results as on
//! one server, and one of the servers runs the controllers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Server, Target, race_with_crd_deletion};
use futures_util::future::join_all;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;

const JSON: &str = "application/json";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/holdfast-controller-manager";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the flags of servers on one etcd, which wait less for each other than by default, and long enough for a
/// machine that is busy: a lease that is lost by chance would be one more.
fn flags(etcd: &Etcd) -> [String; 4] {
    [
        format!("--etcd-servers={}", etcd.endpoints()),
        "--leader-elect-lease-duration=12s".to_owned(),
        "--leader-elect-renew-deadline=10s".to_owned(),
        "--leader-elect-retry-period=200ms".to_owned(),
    ]
}

/// Processes in the order in which they end: servers release their leases in etcd.
struct Cluster {
    servers: Vec<Server>,
    etcd: Etcd,
}

impl Cluster {
    fn start(etcd: Etcd, servers: usize, more: &[&str]) -> Self {
        let own = flags(&etcd);
        let flags: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let binary = Binary::debug().unwrap();
        let servers = (0..servers).map(|_| Server::start(&binary, &flags).unwrap()).collect();
        Self { etcd, servers }
    }

    fn target(&self, server: usize) -> Target {
        Target::new(&self.servers[server]).unwrap()
    }
}

async fn ask(target: &Target, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let mut connection = target.connect().await.unwrap();
    let (code, answer) = connection.ask(method, path, JSON, body).await.unwrap();
    (code, serde_json::from_slice(&answer).unwrap_or_default())
}

async fn get(target: &Target, path: &str) -> (StatusCode, Value) {
    ask(target, Method::GET, path, &Value::Null).await
}

/// Repeats a GET until the response satisfies `right`.
async fn until(target: &Target, path: &str, right: impl Fn(StatusCode, &Value) -> bool) -> Value {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        let (code, answer) = get(target, path).await;
        if right(code, &answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{path}: {code} {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

#[needs(etcd)]
#[tokio::test]
async fn acknowledged_write_is_visible_on_another_server_at_once() {
    let cluster = Cluster::start(Etcd::one().unwrap(), 2, &[]);
    let (one, other) = (cluster.target(0), cluster.target(1));
    for round in 0..30 {
        let name = format!("c{round}");
        let (code, made) = ask(&one, Method::POST, CONFIG_MAPS, &config_map(&name, "1")).await;
        assert_eq!(code, StatusCode::CREATED, "{made}");
        let path = format!("{CONFIG_MAPS}/{name}");
        assert_eq!(get(&other, &path).await, (StatusCode::OK, made.clone()));
        let (code, _) = ask(&other, Method::DELETE, &path, &Value::Null).await;
        assert_eq!(code, StatusCode::OK);
        assert_eq!(get(&one, &path).await.0, StatusCode::NOT_FOUND);
    }
}

#[needs(etcd)]
#[tokio::test]
async fn a_race_through_two_servers_has_one_winner() {
    let cluster = Cluster::start(Etcd::three().unwrap(), 2, &[]);
    let targets = [cluster.target(0), cluster.target(1)];
    for round in 0..10 {
        let object = config_map(&format!("race-{round}"), "0");
        let racers = targets
            .iter()
            .map(|target| ask(target, Method::POST, CONFIG_MAPS, &object));
        let codes: BTreeSet<StatusCode> = join_all(racers).await.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, BTreeSet::from([StatusCode::CREATED, StatusCode::CONFLICT]));
        // Of two replacements of the same version one gets the conflict.
        let path = format!("{CONFIG_MAPS}/race-{round}");
        let (_, seen) = get(&targets[0], &path).await;
        let mut next = seen.clone();
        next["data"]["value"] = "1".into();
        let mut different = seen;
        different["data"]["value"] = "2".into();
        let writes = [(&targets[0], &next), (&targets[1], &different)];
        let racers = writes.map(|(target, object)| ask(target, Method::PUT, &path, object));
        let codes: BTreeSet<StatusCode> = join_all(racers).await.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, BTreeSet::from([StatusCode::OK, StatusCode::CONFLICT]));
    }
}

#[needs(etcd)]
#[tokio::test]
async fn a_quota_is_never_exceeded_through_two_servers() {
    let cluster = Cluster::start(Etcd::one().unwrap(), 2, &[]);
    let targets = [cluster.target(0), cluster.target(1)];
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/configmaps": "8"}}});
    let (code, _) = ask(
        &targets[0],
        Method::POST,
        "/api/v1/namespaces/default/resourcequotas",
        &quota,
    )
    .await;
    assert_eq!(code, StatusCode::CREATED);
    let counted =
        |code, quota: &Value| code == StatusCode::OK && quota["status"]["used"]["count/configmaps"].is_string();
    for target in &targets {
        until(target, "/api/v1/namespaces/default/resourcequotas/q", counted).await;
    }
    let object = |number: usize| config_map(&format!("q{number}"), "1");
    let objects: Vec<Value> = (0..24).map(object).collect();
    let racers = objects
        .iter()
        .enumerate()
        .map(|(number, object)| ask(&targets[number % 2], Method::POST, CONFIG_MAPS, object));
    let made = join_all(racers)
        .await
        .iter()
        .filter(|(code, _)| *code == StatusCode::CREATED)
        .count();
    let (_, list) = get(&targets[0], CONFIG_MAPS).await;
    assert_eq!(list["items"].as_array().unwrap().len(), made);
    assert!(made <= 8, "{made} were made");
}

#[needs(etcd)]
#[tokio::test]
async fn an_address_and_a_port_are_given_once_through_two_servers() {
    let cluster = Cluster::start(Etcd::one().unwrap(), 2, &["--service-cluster-ip-range=10.9.8.0/27"]);
    let targets = [cluster.target(0), cluster.target(1)];
    let service = |name: &str, ip: Option<&str>| {
        let mut spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
        if let Some(ip) = ip {
            spec["clusterIP"] = ip.into();
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    };
    let wanted: Vec<Value> = (0..24).map(|number| service(&format!("s{number}"), None)).collect();
    let racers = wanted
        .iter()
        .enumerate()
        .map(|(number, object)| ask(&targets[number % 2], Method::POST, SERVICES, object));
    for (code, answer) in join_all(racers).await {
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    let (_, list) = get(&targets[0], SERVICES).await;
    let services = list["items"].as_array().unwrap();
    let addresses: BTreeSet<&str> = services
        .iter()
        .map(|one| one["spec"]["clusterIP"].as_str().unwrap())
        .collect();
    assert_eq!(addresses.len(), services.len(), "{addresses:?}");
    let ports: BTreeSet<i64> = services
        .iter()
        .filter_map(|one| one["spec"]["ports"][0]["nodePort"].as_i64())
        .collect();
    assert_eq!(ports.len(), 24, "{ports:?}");
    // If two Services request the same address by value, one of them gets it.
    let free = (2..31)
        .map(|last| format!("10.9.8.{last}"))
        .find(|ip| !addresses.contains(ip.as_str()));
    let wanted = ["left", "right"].map(|name| service(name, free.as_deref()));
    let racers = wanted
        .iter()
        .zip(&targets)
        .map(|(object, target)| ask(target, Method::POST, SERVICES, object));
    let codes: Vec<StatusCode> = join_all(racers).await.iter().map(|(code, _)| *code).collect();
    let won = codes.iter().filter(|code| **code == StatusCode::CREATED).count();
    assert_eq!(won, 1, "{codes:?}");
    // A released address is available to the other server.
    let taken = services.iter().find(|one| one["metadata"]["name"] == "s0").unwrap();
    let (code, _) = ask(&targets[0], Method::DELETE, &format!("{SERVICES}/s0"), &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    let again = service("again", taken["spec"]["clusterIP"].as_str());
    let (code, answer) = ask(&targets[1], Method::POST, SERVICES, &again).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

#[needs(etcd)]
#[tokio::test]
async fn creators_on_two_servers_leave_nothing_behind() {
    let cluster = Cluster::start(Etcd::one().unwrap(), 2, &[]);
    let targets = [cluster.target(0), cluster.target(1)];
    for round in 0..6 {
        let outcome = race_with_crd_deletion(&targets).await.unwrap();
        assert_eq!(outcome.left, 0, "round {round}: {outcome:?}");
    }
}

#[needs(etcd)]
#[tokio::test]
async fn controllers_run_on_one_server_and_go_on_with_another() {
    let mut cluster = Cluster::start(Etcd::one().unwrap(), 1, &[]);
    let held = |code: StatusCode, lease: &Value| code == StatusCode::OK && !holder(lease).is_empty();
    let first = until(&cluster.target(0), LEASE, held).await;
    assert_eq!(first["spec"]["leaseDurationSeconds"], 12);
    assert_eq!(first["spec"]["leaseTransitions"], 0);
    let binary = Binary::debug().unwrap();
    let owned = flags(&cluster.etcd);
    let flags: Vec<&str> = owned.iter().map(String::as_str).collect();
    for _ in 0..2 {
        cluster.servers.push(Server::start(&binary, &flags).unwrap());
    }
    let (second, third) = (cluster.target(1), cluster.target(2));
    // One that is killed is replaced when its lease is over.
    cluster.servers[0].kill().unwrap();
    let other = |code: StatusCode, lease: &Value| held(code, lease) && holder(lease) != holder(&first);
    let next = until(&second, LEASE, other).await;
    assert_eq!(next["spec"]["leaseTransitions"], 1);
    // A namespace is only deleted if a controller empties it.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}});
    ask(&third, Method::POST, "/api/v1/namespaces", &namespace).await;
    ask(
        &third,
        Method::POST,
        "/api/v1/namespaces/gone/configmaps",
        &config_map("c", "1"),
    )
    .await;
    ask(&third, Method::DELETE, "/api/v1/namespaces/gone", &Value::Null).await;
    until(&third, "/api/v1/namespaces/gone", |code, _| {
        code == StatusCode::NOT_FOUND
    })
    .await;
    // A server that exits releases its lease.
    let leads = cluster.servers[1].logged(&["this server is the leader; starting its controllers"]);
    let (ending, staying) = if leads { (1, third) } else { (2, second) };
    cluster.servers[ending].end();
    let taken = until(&staying, LEASE, |code, lease| {
        held(code, lease) && holder(lease) != holder(&next)
    })
    .await;
    assert_eq!(taken["spec"]["leaseTransitions"], 2);
}
