//! Controllers of APIs that are off by default: migrations of stored objects, and questions about pools of devices.

use conformance::{Binary, Client, MERGE, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const OLD: &str = "/apis/example.com/v1/namespaces/default/widgets";
const NEW: &str = "/apis/example.com/v2/namespaces/default/widgets";
const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

/// Returns the versions of the CRD, of which one is stored.
fn versions(stored: &str) -> Value {
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == stored, "schema": {"openAPIV3Schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!([version("v1"), version("v2")])
}

async fn server() -> (Server, Client) {
    let flags = [
        "--feature-gates=StorageVersionMigrator=true",
        "--runtime-config=storagemigration.k8s.io/v1beta1=true",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

async fn migrate(client: &mut Client, name: &str, group: &str, resource: &str) -> String {
    let object = json!({"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}});
    client.make(MIGRATIONS, object).await;
    format!("{MIGRATIONS}/{name}")
}

/// Returns the status, reason and message of a condition.
fn condition(object: &Value, of: &str) -> Option<[String; 3]> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == of)?;
    Some(["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned()))
}

fn is(object: &Value, of: &str, status: &str) -> bool {
    condition(object, of).is_some_and(|[found, ..]| found == status)
}

#[tokio::test]
async fn objects_are_written_anew_in_the_version_that_is_stored_now() {
    let (_server, mut client) = server().await;
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let crd = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": names, "versions": versions("v1")}});
    client.make(CRDS, crd).await;
    client.until(CRD, |_, crd| is(crd, "Established", "True")).await;
    client.until(OLD, |status, _| status == StatusCode::OK).await;
    let early = client
        .make(
            OLD,
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "x": 1}),
        )
        .await;
    let patch = json!({"spec": {"versions": versions("v2")}});
    let (status, changed) = client.ask(Method::PATCH, CRD, MERGE, patch).await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    let object = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "b"}});
    let late = client.make(NEW, object).await;

    let path = migrate(&mut client, "first", "example.com", "widgets").await;
    let ended = client
        .until(&path, |_, migration| is(migration, "Running", "False"))
        .await;
    assert_eq!(
        condition(&ended, "Succeeded").unwrap(),
        ["True", "StorageVersionMigrationSucceeded", ""]
    );
    assert_eq!(
        condition(&ended, "Running").unwrap(),
        ["False", "MigrationCompleted", "Migration completed"]
    );
    let version = |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    let until: u64 = ended["status"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let (_, after) = client.get(&format!("{NEW}/a")).await;
    assert!(version(&after) > until && version(&early) < until, "{after}");
    assert_eq!(after["x"], 1);
    assert_eq!(
        after["metadata"]["managedFields"].as_array().unwrap().len(),
        1,
        "{after}"
    );
    let (_, same) = client.get(&format!("{NEW}/b")).await;
    assert_eq!(version(&same), version(&late), "what is stored as it should be stays");
    let crd = client.until(CRD, |_, crd| is(crd, "StorageMigrating", "False")).await;
    assert_eq!(crd["status"]["storedVersions"], json!(["v2"]));
    assert_eq!(
        condition(&crd, "StorageMigrating").unwrap()[1..],
        [
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated"
        ]
    );
}

#[tokio::test]
async fn migrations_of_a_resource_come_one_after_the_other() {
    let (_server, mut client) = server().await;
    client.config_map("default", json!({"name": "a"})).await;
    let paths = [
        migrate(&mut client, "a", "", "configmaps").await,
        migrate(&mut client, "b", "", "configmaps").await,
    ];
    let mut times = Vec::new();
    for path in &paths {
        let ended = client
            .until(path, |_, migration| is(migration, "Running", "False"))
            .await;
        assert!(is(&ended, "Succeeded", "True"), "{ended}");
        times.push(
            ended["status"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap(),
        );
    }
    assert!(times[0] < times[1], "{times:?}");
}

#[tokio::test]
async fn migration_of_unsupported_resource_fails_once() {
    let (_server, mut client) = server().await;
    let path = migrate(&mut client, "a", "", "bindings").await;
    let ended = client
        .until(&path, |_, migration| is(migration, "Running", "False"))
        .await;
    assert_eq!(
        condition(&ended, "Failed").unwrap(),
        [
            "True",
            "StorageVersionMigrationFailed",
            "resource \"/v1, Resource=bindings\" does not support discovery operations: [update patch list]"
        ]
    );
}

const REQUESTS: &str = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

fn slice(name: &str, pool: &str, count: u32, devices: &[&str]) -> Value {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": "one", "devices": devices,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": count}}})
}

#[tokio::test]
async fn questions_about_pools_are_answered_once_all_slices_are_there() {
    let flags = [
        "--feature-gates=DRAResourcePoolStatus=true",
        "--runtime-config=resource.k8s.io/v1alpha3=true",
    ];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut client = Client::new(&server).await;
    client.make(SLICES, slice("a", "whole", 1, &["x", "y"])).await;
    client.make(SLICES, slice("b", "half", 2, &["z"])).await;
    let request = |name: &str, pool: Option<&str>| json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "poolName": pool}});
    client.make(REQUESTS, request("all", None)).await;
    client.make(REQUESTS, request("one", Some("whole"))).await;
    let one = format!("{REQUESTS}/one");
    let answered = client.until(&one, |_, request| is(request, "Complete", "True")).await;
    assert_eq!(
        condition(&answered, "Complete").unwrap()[1..],
        ["CalculationComplete", "Calculated status for 1 pools"]
    );
    assert_eq!(
        answered["status"]["pools"],
        json!([{"driver": "d.example.com", "poolName": "whole", "nodeName": "one", "generation": 1, "resourceSliceCount": 1,
            "totalDevices": 2, "allocatedDevices": 0, "availableDevices": 2, "unavailableDevices": 0}])
    );
    let all = format!("{REQUESTS}/all");
    assert_eq!(client.get(&all).await.1.get("status"), None);
    client.make(SLICES, slice("c", "half", 2, &["u", "v"])).await;
    let answered = client.until(&all, |_, request| is(request, "Complete", "True")).await;
    assert_eq!(answered["status"]["poolCount"], 2);
    assert_eq!(answered["status"]["pools"][0]["totalDevices"], 3);
}
