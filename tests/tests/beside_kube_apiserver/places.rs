//! Replacement of one server by the other on the same etcd, and the history that both compact.

use std::collections::BTreeMap;

use conformance::{Reference, Server, Target};
use http::StatusCode;
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;

use crate::{ONE, Pair, RANGE, Side, config_map, holdfast, kube_apiserver, named, version};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Flag that disables controllers of kube-controller-manager, because none runs alongside kube-apiserver.
const CONTROLLERS: &str =
    "--controllers=*,-clusterrole-aggregation-controller,-validatingadmissionpolicy-status-controller";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Collections that are compared across all namespaces: no server changes their objects by itself.
const COLLECTIONS: [&str; 30] = [
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/serviceaccounts",
    "/api/v1/resourcequotas",
    "/api/v1/persistentvolumes",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/batch/v1/cronjobs",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/networking.k8s.io/v1/ipaddresses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/example.com/v1/widgets",
];

/// Returns all objects of these collections, by path.
async fn everything(side: &Side) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for collection in COLLECTIONS {
        let list = side.until(collection, |code, _| code == StatusCode::OK).await;
        for item in list["items"].as_array().unwrap() {
            let metadata = &item["metadata"];
            let place = format!("{collection} {} {}", metadata["namespace"], metadata["name"]);
            all.insert(place, item.clone());
        }
    }
    all
}

const TRACKING: &str = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
const BLOCK: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";

/// Objects that only kube-apiserver adds to a store that Holdfast created: the APIServices of CRDs.
const ADDED: [&str; 1] = ["/apis/apiregistration.k8s.io/v1/apiservices null \"v1.example.com\""];

/// Returns the objects that are changed, new or missing in `after`.
fn changes(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> String {
    let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let places = before
        .keys()
        .chain(after.keys().filter(|place| !before.contains_key(*place)));
    places
        .filter(|place| before.get(*place) != after.get(*place) && !ADDED.contains(&place.as_str()))
        .map(|place| {
            format!(
                "{place}:\n  {}\n  {}\n",
                text(before.get(place)),
                text(after.get(place))
            )
        })
        .collect()
}

async fn fill(side: &Side) {
    // Objects that servers on an etcd create by themselves after they began to serve.
    side.until(TRACKING, |code, _| code == StatusCode::OK).await;
    side.until(BLOCK, |_, block| {
        block["status"]["conditions"].to_string().contains("\"Ready\"")
    })
    .await;
    let mut widgets = named(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "widgets.example.com",
    );
    widgets["spec"] = json!({"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]});
    side.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets)
        .await;
    side.until(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        |_, object| {
            let conditions = object["status"]["conditions"].to_string();
            conditions.contains(r#""type":"Established""#) && conditions.matches(r#""status":"True""#).count() >= 2
        },
    )
    .await;
    side.until(WIDGETS, |code, _| code == StatusCode::OK).await;
    side.make(CONFIG_MAPS, &config_map("one", "a < \"b\"")).await;
    let mut service = named("v1", "Service", "web");
    service["spec"] = json!({"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"a": "b"}});
    side.make("/api/v1/namespaces/default/services", &service).await;
    let mut deployment = named("apps/v1", "Deployment", "web");
    deployment["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}});
    side.make("/apis/apps/v1/namespaces/default/deployments", &deployment)
        .await;
    let mut widget = named("example.com/v1", "Widget", "one");
    widget["spec"] = json!({"z": [1, 2.5, "x", null], "a": {"b": true}});
    side.make(WIDGETS, &widget).await;
}

fn as_holdfast(server: &Server) -> Side {
    Side::new("Holdfast", Target::new(server).unwrap())
}

fn as_reference(apiserver: &Reference) -> Side {
    Side::new("kube-apiserver", apiserver.target().unwrap())
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn holdfast_takes_the_place_of_kube_apiserver_and_is_left_again() {
    let _one = ONE.lock().await;
    let etcd = Etcd::one().unwrap();
    let mut apiserver = kube_apiserver(&etcd).await;
    let side = as_reference(&apiserver);
    fill(&side).await;
    let before = everything(&side).await;
    apiserver.end();

    // It finds all objects that a server creates at its first start, and rewrites none of them.
    let mut server = holdfast(&etcd, &apiserver, &[CONTROLLERS]);
    let side = as_holdfast(&server);
    let taken = everything(&side).await;
    assert_eq!(changes(&before, &taken), "");
    // A watcher of the previous server lists again and continues here.
    let (_, list) = side.get(CONFIG_MAPS).await;
    let mut stream = side.follow(CONFIG_MAPS, "one", version(&list)).await;
    let (code, answer) = side
        .apply(&format!("{CONFIG_MAPS}/one"), "alpha", &config_map("one", "a < \"b\""))
        .await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert_eq!(stream.next().await["object"], answer);
    side.make(CONFIG_MAPS, &config_map("two", "2")).await;
    side.make(WIDGETS, &named("example.com/v1", "Widget", "two")).await;
    let (code, answer) = side.delete("/api/v1/namespaces/default/services/web").await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    let left = everything(&side).await;
    server.end();

    let apiserver = kube_apiserver(&etcd).await;
    let side = as_reference(&apiserver);
    let again = everything(&side).await;
    assert_eq!(changes(&left, &again), "");
    let (code, answer) = side
        .merge(&format!("{CONFIG_MAPS}/two"), &json!({"data": {"value": "3"}}))
        .await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn kube_apiserver_takes_the_place_of_holdfast_and_is_left_again() {
    let _one = ONE.lock().await;
    let etcd = Etcd::one().unwrap();
    let mut server = {
        let texts = [
            format!("--etcd-servers={}", etcd.endpoints()),
            RANGE.to_owned(),
            CONTROLLERS.to_owned(),
        ];
        let flags: Vec<&str> = texts.iter().map(String::as_str).collect();
        Server::start(&conformance::Binary::debug().unwrap(), &flags).unwrap()
    };
    let side = as_holdfast(&server);
    fill(&side).await;
    let before = everything(&side).await;
    server.end();

    let mut apiserver = kube_apiserver(&etcd).await;
    let side = as_reference(&apiserver);
    let taken = everything(&side).await;
    assert_eq!(changes(&before, &taken), "");
    side.make(CONFIG_MAPS, &config_map("two", "2")).await;
    let left = everything(&side).await;
    apiserver.end();

    let server = holdfast(&etcd, &apiserver, &[CONTROLLERS]);
    let again = everything(&as_holdfast(&server)).await;
    assert_eq!(changes(&left, &again), "");
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn both_compact_by_one_clock_and_either_goes_on_alone() {
    const INTERVAL: &str = "--etcd-compaction-interval=1s";
    let mut pair = Pair::with(&[INTERVAL], &[INTERVAL]).await;
    let first = pair.holdfast.make(CONFIG_MAPS, &config_map("one", "0")).await;
    let path = format!("{CONFIG_MAPS}/one");
    let mut streams = Vec::new();
    for side in pair.sides() {
        streams.push(side.follow(CONFIG_MAPS, "one", version(&first)).await);
    }
    // Both servers write until the initial history is compacted, and each watcher receives each write.
    let mut number = 0;
    while !pair.is_compacted(version(&first)) {
        for side in pair.sides() {
            number += 1;
            let (code, answer) = side.merge(&path, &json!({"data": {"value": number.to_string()}})).await;
            assert_eq!(code, StatusCode::OK, "{answer}");
            for stream in &mut streams {
                assert_eq!(stream.next().await["object"], answer);
            }
        }
    }
    // The remaining server continues to advance the clock.
    let clock = pair.clock();
    pair.apiserver.end();
    pair.until_clock_passes(clock + 2).await;
    assert_eq!(pair.holdfast.get(&path).await.0, StatusCode::OK);
    pair.server.end();
    let clock = pair.clock();
    pair.apiserver = Reference::start(
        &test_support::kube_apiserver::named().unwrap(),
        &pair.etcd.endpoints(),
        &[RANGE, INTERVAL],
    )
    .await
    .unwrap();
    pair.until_clock_passes(clock + 2).await;
}

impl Pair {
    /// Returns true if etcd has compacted that revision.
    fn is_compacted(&self, revision: &str) -> bool {
        let request = json!({"key": "YQ==", "revision": revision}).to_string();
        match self.etcd.ask(0, "/v3/kv/range", &request) {
            Ok(_) => false,
            Err(error) => {
                assert!(error.to_string().contains("compacted"), "{error}");
                true
            }
        }
    }

    /// Returns the number of times that the compaction clock was advanced.
    fn clock(&self) -> u64 {
        // `compact_rev_key`
        let request = json!({"key": "Y29tcGFjdF9yZXZfa2V5"}).to_string();
        let body = self.etcd.ask(0, "/v3/kv/range", &request).unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["kvs"][0]["version"].as_str().unwrap().parse().unwrap()
    }

    async fn until_clock_passes(&self, time: u64) {
        let end = std::time::Instant::now() + crate::WAIT_TIMEOUT;
        while self.clock() <= time {
            assert!(std::time::Instant::now() < end, "the clock does not advance");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
