//! Feature gates of kube-apiserver, on and off, through the real binary.

use conformance::{Binary, Client, MERGE, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server(flags: &[&str]) -> (Server, Client) {
    let server = Server::start(&Binary::debug().unwrap(), flags).unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

/// Returns the part of the hashes of uids from `start` up to `end`, in the form of a query.
fn shard(start: &str, end: &str) -> String {
    format!("shardSelector=shardRange(object.metadata.uid,'0x{start}','0x{end}')")
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_and_watches_show_the_objects_of_a_shard() {
    let (server, mut client) = server(&["--feature-gates=ShardedListAndWatch=true"]).await;
    for number in 0..20 {
        client
            .config_map("default", json!({"name": format!("c{number}")}))
            .await;
    }
    let halves = [
        shard("0000000000000000", "8000000000000000"),
        shard("8000000000000000", "10000000000000000"),
    ];
    let (_, all) = client.get(CONFIG_MAPS).await;
    assert_eq!(all["metadata"].get("shardInfo"), None);
    let mut seen = Vec::new();
    for half in &halves {
        let (status, list) = client.get(&format!("{CONFIG_MAPS}?{half}")).await;
        assert_eq!(status, StatusCode::OK, "{list}");
        let selector = list["metadata"]["shardInfo"]["selector"].as_str().unwrap();
        assert!(
            selector.starts_with("shardRange(object.metadata.uid, '0x"),
            "{selector}"
        );
        let found: Vec<String> = names(&list).into_iter().map(str::to_owned).collect();
        assert!(found.len() < 20, "{found:?}");
        let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion=0&{half}");
        let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
        let bytes = connection
            .get(&watch, "*/*")
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        let events = String::from_utf8(bytes.to_vec()).unwrap();
        let shown: Vec<String> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["object"]["metadata"]["name"].clone())
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(shown, found);
        seen.extend(found);
    }
    seen.sort_unstable();
    let mut everything = names(&all);
    everything.sort_unstable();
    assert_eq!(seen, everything);
    // Each watch skipped the events of the other shard.
    let labels = "{group=\"\",resource=\"configmaps\"}";
    let lines = [
        format!("apiserver_watch_filtered_events_total{labels} {}\n", everything.len()),
        format!("apiserver_watch_shards_total{labels} 0\n"),
    ];
    // The server ends a watch a moment after its client has read the end.
    let are_shown = |metrics: &Value| lines.iter().all(|line| metrics.as_str().unwrap().contains(line));
    client.until("/metrics", |_, metrics| are_shown(metrics)).await;
    let (status, rejection) = client.get(&format!("{CONFIG_MAPS}?shardSelector=other(1)")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        rejection["message"],
        "invalid shard selector: unsupported function \"other\"; only shardRange() and || are allowed"
    );

    let server = server.restart(&["--feature-gates=ShardedListAndWatch=false"]).unwrap();
    let mut client = Client::new(&server).await;
    let (status, list) = client.get(&format!("{CONFIG_MAPS}?shardSelector=other(1)")).await;
    assert_eq!((status, names(&list).len()), (StatusCode::OK, everything.len()));
    assert_eq!(list["metadata"].get("shardInfo"), None);
}

const STORAGE_VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";

#[tokio::test]
async fn servers_publish_in_which_versions_they_store_objects() {
    let flags = [
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ];
    let (_server, mut client) = server(&flags).await;
    // Until that is published, writes of the resource are rejected.
    let waiting = "wait for storage version registration to complete for resource: configmaps, last seen error: <nil>";
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let object = json!({"metadata": {"name": "early"}});
        let (status, answer) = client.ask(Method::POST, CONFIG_MAPS, "application/json", object).await;
        if status == StatusCode::CREATED {
            break;
        }
        assert_eq!(
            (status, answer["message"].as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, Some(waiting))
        );
        assert!(std::time::Instant::now() < end, "nothing is published");
    }
    let api_services = format!("{STORAGE_VERSIONS}/apiregistration.k8s.io.apiservices");
    let api_services = client
        .until(&api_services, |_, object| {
            object["status"]["storageVersions"].is_array()
        })
        .await;
    assert_eq!(
        api_services["status"]["storageVersions"][0]["decodableVersions"],
        json!(["apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1beta1"])
    );
    let path = format!("{STORAGE_VERSIONS}/apps.deployments");
    let common = |_: StatusCode, object: &Value| object["status"]["commonEncodingVersion"] == "apps/v1";
    let object = client.until(&path, common).await;
    let stored = &object["status"]["storageVersions"][0];
    assert_eq!(stored["encodingVersion"], "apps/v1");
    assert_eq!(
        stored["decodableVersions"],
        json!(["apps/v1", "apps/v1beta2", "apps/v1beta1"])
    );
    assert_eq!(stored["servedVersions"], json!(["apps/v1"]));
    let condition = &object["status"]["conditions"][0];
    assert_eq!(condition["type"], "AllEncodingVersionsEqual");
    assert_eq!(condition["status"], "True");
    let server = stored["apiServerID"].as_str().unwrap();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{server}");
    assert_eq!(client.get(&lease).await.0, StatusCode::OK);
    let events = format!("{STORAGE_VERSIONS}/core.events");
    let events = client
        .until(&events, |_, object| object["status"]["storageVersions"].is_array())
        .await;
    assert_eq!(
        events["status"]["storageVersions"][0]["decodableVersions"],
        json!(["v1", "events.k8s.io/v1"])
    );
    // Storage versions published by a server without a lease are removed.
    let mut versions = object["status"]["storageVersions"].as_array().unwrap().clone();
    let mut gone = versions[0].clone();
    gone["apiServerID"] = json!("apiserver-gone");
    versions.push(gone);
    let change = json!({"status": {"storageVersions": versions}});
    let (status, changed) = client
        .ask(Method::PATCH, &format!("{path}/status"), MERGE, change)
        .await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    client
        .until(&path, |_, object| {
            object["status"]["storageVersions"]
                .as_array()
                .is_some_and(|all| all.len() == 1)
        })
        .await;
}

#[tokio::test]
async fn connections_of_who_is_unknown_end_with_the_first_request() {
    let asks = async |server: &Server, known: bool| {
        let administrator = Target::new(server).unwrap();
        let target = if known {
            administrator
        } else {
            administrator.anonymous()
        };
        let mut connection = target.connect_http2().await.unwrap();
        let mut answered = 0;
        while answered < 200
            && let Ok(answer) = connection.get("/version", "*/*").await
            && answer.into_body().collect().await.is_ok()
        {
            answered += 1;
        }
        answered
    };
    let (server, _) = server(&[]).await;
    // The client may have sent more requests before it received the end of the connection.
    assert!(asks(&server, false).await < 200);
    assert_eq!(asks(&server, true).await, 200);
    // Closing connections are handled while the test waits for the end of the server.
    let restart = move || server.restart(&["--feature-gates=UnauthenticatedHTTP2DOSMitigation=false"]);
    let server = tokio::task::spawn_blocking(restart).await.unwrap().unwrap();
    assert_eq!(asks(&server, false).await, 200);
}

#[tokio::test]
async fn unsafe_deletion_of_a_readable_object_is_rejected() {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let (server, mut client) = server(&["--feature-gates=AllowUnsafeMalformedObjectDeletion=true"]).await;
    client.config_map("default", json!({"name": "a"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (status, rejection) = client
        .ask(Method::DELETE, &path, "application/json", json!({OPTION: true}))
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{rejection}");
    let server = server
        .restart(&["--feature-gates=AllowUnsafeMalformedObjectDeletion=false"])
        .unwrap();
    let mut client = Client::new(&server).await;
    let (status, _) = client
        .ask(Method::DELETE, &path, "application/json", json!({OPTION: true}))
        .await;
    assert_eq!(status, StatusCode::OK);
}

/// A gate, as the page of the feature gates describes it.
#[derive(Debug, PartialEq, Eq)]
struct PageGate {
    name: String,
    stage: String,
    is_on: bool,
}

/// Returns the rows of the page of the feature gates. A gate that is locked must have its behaviour.
fn page_gates() -> Vec<PageGate> {
    let page = std::fs::read_to_string(conformance::root().join("docs/reference/feature-gates.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let mut next = || cells.next().unwrap().to_owned();
        let (name, stage, default, effect) = (next(), next(), next(), next());
        let is_locked_on = default == "on, locked";
        assert!(!is_locked_on || !effect.starts_with("absent"), "{row}");
        PageGate {
            name: name.trim_matches('`').to_owned(),
            stage: stage.replace("stable", "").to_uppercase(),
            is_on: default.starts_with("on"),
        }
    })
    .collect()
}

/// Returns the gates that a server reports.
fn reported_gates(metrics: &Value) -> Vec<PageGate> {
    let lines = metrics.as_str().unwrap().lines();
    let gates = lines.filter_map(|line| line.strip_prefix("kubernetes_feature_enabled{name=\""));
    gates
        .map(|gate| {
            let (name, rest) = gate.split_once("\",stage=\"").unwrap();
            let (stage, value) = rest.split_once("\"} ").unwrap();
            PageGate {
                name: name.to_owned(),
                stage: stage.to_owned(),
                is_on: value == "1",
            }
        })
        .collect()
}

#[tokio::test]
async fn page_of_feature_gates_is_what_a_server_reports() {
    let (server, mut client) = server(&[]).await;
    let by_name = |mut gates: Vec<PageGate>| {
        gates.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        gates
    };
    let page = by_name(page_gates());
    assert!(page.len() > 200, "{}", page.len());
    let (_, metrics) = client.get("/metrics").await;
    assert_eq!(by_name(reported_gates(&metrics)), page);
    // The flag changes the report, and gates that are locked do not change.
    let server = server.restart(&["--feature-gates=AllAlpha=true,AllBeta=true"]).unwrap();
    let mut client = Client::new(&server).await;
    let (_, metrics) = client.get("/metrics").await;
    for gate in reported_gates(&metrics) {
        let is_open = ["ALPHA", "BETA"].contains(&gate.stage.as_str());
        assert!(gate.is_on || !is_open, "{gate:?} is off");
    }
}
