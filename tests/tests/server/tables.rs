//! Tables: the rows of a list are those of its objects.

use conformance::{Binary, Client, Server, Target};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/x.example.com/v1/namespaces/default/widgets";

async fn table(server: &Server, path: &str) -> Value {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let response = connection.get(path, TABLE).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

/// Returns the cells of a row in columns other than ages, which change.
fn cells(table: &Value, row: usize) -> Vec<Value> {
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][row]["cells"].as_array().unwrap().iter();
    let others = names.zip(cells).filter(|(name, _)| name["name"] != "Age");
    others.map(|(_, cell)| cell.clone()).collect()
}

/// Asserts that the rows of a list are those of the objects with these names, and returns their cells.
async fn assert_rows_of_list(server: &Server, collection: &str, names: &[&str]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for include in ["None", "Metadata", "Object"] {
        let list = table(server, &format!("{collection}?includeObject={include}")).await;
        assert_eq!(list["rows"].as_array().unwrap().len(), names.len(), "{list}");
        rows.clear();
        for (at, name) in names.iter().enumerate() {
            let one = table(server, &format!("{collection}/{name}?includeObject={include}")).await;
            assert_eq!(list["columnDefinitions"], one["columnDefinitions"]);
            assert_eq!(list["rows"][at]["object"], one["rows"][0]["object"]);
            assert_eq!(cells(&list, at), cells(&one, 0));
            rows.push(cells(&list, at));
        }
    }
    rows
}

fn deployment(name: &str, containers: &Value, selector: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": selector, "template": {
            "metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": containers},
        }},
    })
}

#[tokio::test]
async fn rows_of_list_are_those_of_single_objects() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let containers =
        json!([{"name": "one", "image": "i:1"}, {"name": "two", "image": "registry.example.com/long/image:2"}]);
    let labels = json!({"matchLabels": {"a": "1", "b": "2"}});
    let expressions =
        json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "In", "values": ["2"]}]});
    client.make(DEPLOYMENTS, deployment("a", &containers, &labels)).await;
    client
        .make(DEPLOYMENTS, deployment("b", &json!([containers[0]]), &expressions))
        .await;
    let rows = assert_rows_of_list(&server, DEPLOYMENTS, &["a", "b"]).await;
    let first = json!([
        "a",
        "0/2",
        0,
        0,
        "one,two",
        "i:1,registry.example.com/long/image:2",
        "a=1,b=2"
    ]);
    assert_eq!(json!(rows[0]), first);
    assert_eq!(json!(rows[1][4..]), json!(["one", "i:1", "a=1,b in (2)"]));
}

#[tokio::test]
async fn rows_of_custom_list_are_those_of_single_objects() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let fields = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client
        .make(
            CRDS,
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.x.example.com"},
                "spec": {"group": "x.example.com", "scope": "Namespaced", "names": names, "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": fields}}},
                    "additionalPrinterColumns": [
                        column("Text", "string", ".spec.text"), column("Size", "integer", ".spec.deep.size"),
                        column("On", "boolean", ".spec.on"), column("Since", "date", ".spec.since"),
                    ],
                }]},
            }),
        )
        .await;
    client.until(WIDGETS, |status, _| status.is_success()).await;
    for (name, spec) in [
        (
            "a",
            json!({"text": "x \"<y>\"", "deep": {"size": 3, "more": []}, "on": true, "since": "yesterday"}),
        ),
        (
            "b",
            json!({"text": {"of": "another"}, "deep": [{"size": 3}], "on": "no"}),
        ),
        ("c", json!({"text": null, "deep": null})),
    ] {
        let widget =
            json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec});
        client.make(WIDGETS, widget).await;
    }
    let rows = assert_rows_of_list(&server, WIDGETS, &["a", "b", "c"]).await;
    assert_eq!(json!(rows[0]), json!(["a", "x \"<y>\"", 3, true, "<invalid>"]));
    assert_eq!(json!(rows[1]), json!(["b", "{\"of\":\"another\"}", null, null, null]));
    assert_eq!(json!(rows[2]), json!(["c", null, null, null, null]));
}
