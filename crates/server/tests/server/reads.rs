//! Lists, gets and watches through the whole server.

use crate::support;
use crate::support::{CONFIG_MAPS, MERGE, Server, config_map};
use holdfast_server::api::context::Config;
use http_body_util::BodyExt;
use serde_json::{Value, json};

async fn names(server: &Server, query: &str) -> Vec<String> {
    let list = server.get(&format!("{CONFIG_MAPS}?{query}")).await;
    let items = list.at("/items").as_array().unwrap().clone();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn with_label(server: &Server, name: &str, label: &str) {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"x":"{label}"}}}}}}"#
    );
    assert_eq!(server.post(CONFIG_MAPS, &body).await.code, 201);
}

#[tokio::test]
async fn unreadable_object_fails_alone_and_reports_its_key() {
    let server = Server::start().await;
    with_label(&server, "a", "1").await;
    with_label(&server, "c", "1").await;
    let key = "/registry/configmaps/default/b";
    for bytes in ["", "no object", r#"{"kind":"ConfigMap""#] {
        let broken = holdfast_store::Value::plain(bytes.as_bytes().to_vec());
        let put = holdfast_store::Transaction::new().put(key, broken);
        server.service.context.shared.store.commit(put).await.unwrap();
        assert_eq!(names(&server, "").await, ["a", "c"]);
        assert_eq!(names(&server, "labelSelector=x%3D1").await, ["a", "c"]);
        assert_eq!(server.get("/api/v1/configmaps").await.code, 200);
        let one = format!("{CONFIG_MAPS}/b");
        for answer in [
            server.get(&one).await,
            server.patch(&one, MERGE, r#"{"data":{}}"#).await,
            server.put(&one, &config_map("b", "1")).await,
            server.delete(&one).await,
        ] {
            assert_eq!(answer.code, 500);
            let reported = format!("StorageError: corrupt object, Code: 7, Key: {key}, ");
            assert!(answer.message().starts_with(&reported), "{}", answer.message());
        }
    }
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/a")).await.code, 200);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_goes_by_who_may_risk_that() {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let server = Server::start_configured(Config {
        unsafe_deletion: true,
        ..Config::default()
    })
    .await;
    with_label(&server, "a", "1").await;
    let broken = holdfast_store::Value::plain(b"{".to_vec());
    let put = holdfast_store::Transaction::new().put("/registry/configmaps/default/b", broken);
    server.service.context.shared.store.commit(put).await.unwrap();
    let refused = |answer: &support::Answer, what: &str| {
        assert_eq!(answer.code, 422, "{}", answer.message());
        let message = answer.message();
        assert!(
            message.contains("ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: "),
            "{message}"
        );
        assert!(message.ends_with(what), "{message}");
    };
    for name in ["a", "none"] {
        let answer = server.delete(&format!("{CONFIG_MAPS}/{name}?{OPTION}")).await;
        refused(
            &answer,
            "is exclusively used to delete corrupt object(s), try again by removing this option",
        );
        assert_eq!(answer.at("/details/kind"), "configmaps");
    }
    refused(
        &server
            .delete(&format!("{CONFIG_MAPS}/b?{OPTION}&gracePeriodSeconds=1"))
            .await,
        "cannot be set together with .gracePeriodSeconds",
    );
    refused(
        &server.delete(&format!("{CONFIG_MAPS}?{OPTION}")).await,
        "is not allowed with DELETECOLLECTION, try again after removing the option",
    );
    let gone = server.delete(&format!("{CONFIG_MAPS}/b?{OPTION}")).await;
    assert_eq!((gone.code, gone.at("/status")), (200, &json!("Success")));
    assert_eq!(gone.at("/details"), &json!({"name": "b", "kind": "ConfigMap"}));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/b")).await.code, 404);
}

#[tokio::test]
async fn a_definition_that_cannot_be_read_takes_no_follower_along() {
    let server = Server::start().await;
    let broken = holdfast_store::Value::plain(b"{".to_vec());
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/broken.example.com";
    let put = holdfast_store::Transaction::new().put(key, broken);
    server.service.context.shared.store.commit(put).await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}
            }]
        }
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(path, &crd.to_string()).await.code, 201);
    assert_eq!(server.service.context.background.all(), Ok(()));
    let listed = server.get(path).await;
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn lists_are_selected_by_labels_and_fields() {
    let server = Server::start().await;
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        with_label(&server, name, label).await;
    }
    assert_eq!(names(&server, "").await, ["a", "b", "c"]);
    assert_eq!(names(&server, "labelSelector=x%3D1").await, ["a", "c"]);
    assert_eq!(names(&server, "labelSelector=x%20notin%20(1)").await, ["b"]);
    assert_eq!(names(&server, "fieldSelector=metadata.name!%3Da").await, ["b", "c"]);
    let refused = server.get(&format!("{CONFIG_MAPS}?fieldSelector=data.k%3Dv")).await;
    assert_eq!(
        refused.message(),
        "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}

#[tokio::test]
async fn chunks_show_the_state_of_the_first() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        with_label(&server, name, "1").await;
    }
    let first = server.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    assert_eq!(first.at("/metadata/remainingItemCount"), 1);
    server.delete(&format!("{CONFIG_MAPS}/c")).await;
    let token = first.at("/metadata/continue").as_str().unwrap().to_owned();
    let rest = server.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert_eq!(rest.at("/items/0/metadata/name"), "c");
    assert_eq!(rest.version(), first.version());
    assert_eq!(names(&server, "").await, ["a", "b"]);
}

#[tokio::test]
async fn a_watch_shows_what_is_there_and_then_each_change() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.events(1).await, ["ADDED a"]);
    server.post(CONFIG_MAPS, &config_map("b", "1")).await;
    server
        .patch(&format!("{CONFIG_MAPS}/a"), MERGE, r#"{"data":{"k":"2"}}"#)
        .await;
    server
        .patch(&format!("{CONFIG_MAPS}/a"), MERGE, r#"{"data":{"k":"2"}}"#)
        .await;
    server.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(watch.events(3).await, ["ADDED b", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn an_event_shows_the_very_bytes_of_the_answer() {
    let server = Server::start().await;
    let version = server.get(CONFIG_MAPS).await.version().to_owned();
    let mut watch = server
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}"))
        .await;
    let made = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let (_, event) = watch.next().await.unwrap();
    assert_eq!(event["object"], made.body);
}

#[tokio::test]
async fn objects_come_and_go_with_the_selector_of_a_watch() {
    let server = Server::start().await;
    with_label(&server, "a", "1").await;
    let version = server.get(CONFIG_MAPS).await.version().to_owned();
    let path = format!("{CONFIG_MAPS}?watch=1&labelSelector=x%3D1&resourceVersion={version}");
    let mut watch = server.watch(&path).await;
    for label in ["2", "3", "1"] {
        let patch = format!(r#"{{"metadata":{{"labels":{{"x":"{label}"}}}}}}"#);
        server.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &patch).await;
    }
    let (left, event) = watch.next().await.unwrap();
    assert_eq!(
        (left.as_str(), &event["object"]["metadata"]["labels"]["x"]),
        ("DELETED a", &json!("1"))
    );
    assert_eq!(watch.events(1).await, ["ADDED a"]);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.events(1).await, ["ADDED a"]);
    let (_, bookmark) = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
}

#[tokio::test]
async fn a_table_shows_the_columns_of_the_kind() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let response = server.respond("GET", CONFIG_MAPS, "", "", accept).await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&bytes).unwrap();
    let headings: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(headings, ["Name", "Data", "Age"]);
    assert_eq!(
        (&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][1]),
        (&json!("a"), &json!(1))
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn parameters_that_cannot_be_met_are_refused() {
    let server = Server::start().await;
    let late = server.get(&format!("{CONFIG_MAPS}?timeout=1ns")).await;
    assert_eq!((late.code, late.at("/reason")), (504, &serde_json::json!("Timeout")));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}?timeout=1m")).await.code, 200);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    for (export, code) in [
        ("export=true", 400),
        ("export", 400),
        ("export=false", 200),
        ("export=0", 200),
    ] {
        assert_eq!(
            server.get(&format!("{CONFIG_MAPS}/a?{export}")).await.code,
            code,
            "{export}"
        );
    }
}

#[tokio::test]
async fn component_statuses_obey_selectors() {
    let server = Server::start().await;
    for (selector, count) in [
        ("", 1),
        ("fieldSelector=metadata.name%3Detcd-0", 1),
        ("fieldSelector=metadata.name%3Dother", 0),
        ("fieldSelector=metadata.namespace%3Dother", 0),
        ("fieldSelector=metadata.namespace!%3Dother", 1),
        ("labelSelector=a%3Db", 0),
        ("labelSelector=!a", 1),
    ] {
        let list = server.get(&format!("/api/v1/componentstatuses?{selector}")).await;
        assert_eq!(list.at("/items").as_array().unwrap().len(), count, "{selector}");
    }
}

#[tokio::test]
async fn post_only_resource_has_no_table() {
    let server = Server::start().await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (accept, code) in [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 201),
    ] {
        let answer = server.respond("POST", review, "application/json", "{}", accept).await;
        assert_eq!(answer.status(), code, "{accept}");
    }
}

#[tokio::test]
async fn events_are_selected_by_the_names_of_either_group() {
    let server = Server::start().await;
    let (core, own) = (
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    );
    let event = |name: &str, controller: &str, pod: &str| {
        json!({
            "metadata": {"name": name}, "eventTime": "2010-10-10T10:10:10.000000Z", "reason": "R", "action": "A", "type": "Normal",
            "reportingController": controller, "reportingInstance": "i",
            "regarding": {"kind": "Pod", "namespace": "default", "name": pod, "fieldPath": "spec"},
        })
        .to_string()
    };
    for (name, controller, pod) in [("e1", "a.io/one", "p1"), ("e2", "a.io/two", "p2")] {
        let made = server.post(own, &event(name, controller, pod)).await;
        assert_eq!(made.code, 201, "{}", made.message());
    }
    for (path, selector, count) in [
        (own, "regarding.name=p1", 1),
        (own, "regarding.kind=Pod", 2),
        (own, "regarding.kind!=Pod", 0),
        (own, "reportingController=a.io/two", 1),
        (
            own,
            "regarding.fieldPath=spec,regarding.namespace=default,reason=R,type=Normal",
            2,
        ),
        (core, "involvedObject.name=p1", 1),
        (core, "reportingComponent=a.io/one", 1),
        (core, "source=a.io/one", 1),
        (core, "source=other", 0),
    ] {
        let query = selector.replace('=', "%3D").replace('!', "%21");
        let list = server.get(&format!("{path}?fieldSelector={query}")).await;
        assert_eq!(
            list.at("/items").as_array().map(Vec::len),
            Some(count),
            "{selector}: {}",
            list.body
        );
    }
    for (path, unknown) in [(own, "involvedObject.name"), (own, "source"), (core, "regarding.name")] {
        let refused = server.get(&format!("{path}?fieldSelector={unknown}%3Dx")).await;
        assert_eq!(refused.message(), format!("field label not supported: {unknown}"));
    }
}

#[tokio::test]
async fn unsupported_field_selector_error_names_the_kind() {
    let server = Server::start().await;
    let cases = [
        ("/apis/batch/v1/jobs", "field label \"spec.a\" not supported for Job"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.a",
        ),
        (
            "/api/v1/componentstatuses",
            "\"spec.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ];
    for (path, reported) in cases {
        let refused = server.get(&format!("{path}?fieldSelector=spec.a%3Dx")).await;
        assert_eq!((refused.code, refused.message()), (400, reported), "{path}");
    }
    for (selector, code) in [("%3D", 200), ("%21%3D,%3D%3D", 200), ("%3D,metadata.name%3Da", 400)] {
        let answer = server.get(&format!("{CONFIG_MAPS}?fieldSelector={selector}")).await;
        assert_eq!(answer.code, code, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_get_of_one_object_at_a_version_to_come_has_no_advice() {
    let server = Server::start().await;
    let advice = async |query: &str| {
        let answer = server
            .get(&format!("{CONFIG_MAPS}?resourceVersion=9999999{query}"))
            .await;
        (answer.code, answer.at("/details/retryAfterSeconds").as_i64())
    };
    const NAMED: &str = "&fieldSelector=metadata.name%3Da";
    assert_eq!(advice("").await, (504, Some(1)));
    assert_eq!(advice(NAMED).await, (504, Some(1)));
    assert_eq!(
        advice(&format!("&resourceVersionMatch=Exact{NAMED}")).await,
        (504, None)
    );
    assert_eq!(advice("&continue=abc").await.0, 400);
}
