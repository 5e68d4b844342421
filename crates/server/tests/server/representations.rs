//! Representations of answers, through the whole server: content negotiation by Accept and Accept-Encoding.

use crate::support;
use std::sync::Arc;

use crate::support::{CONFIG_MAPS, Server, config_map};
use holdfast_proto::{Envelope, Messages};
use holdfast_schema::GroupVersionKind;
use holdfast_value::{Limits, Value, json};
use http::{HeaderMap, header};
use http_body_util::BodyExt;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn ask(server: &Server, path: &str, accept: &str) -> (u16, HeaderMap, Vec<u8>) {
    let (head, body) = server.respond("GET", path, "", "", accept).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    (head.status.as_u16(), head.headers, body)
}

/// Decodes protobuf bytes into version, kind and the object as JSON.
fn decoded(bytes: &[u8]) -> (String, String, Value) {
    let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
    let envelope = Envelope::read(bytes).unwrap();
    // Some documents of discovery omit their version.
    let reported = Some(envelope.api_version.as_ref()).filter(|reported: &&str| !reported.is_empty());
    let kind = GroupVersionKind {
        group_version: holdfast_schema::GroupVersion::parse(reported.unwrap_or("v1")).unwrap(),
        kind: envelope.kind.as_ref().into(),
    };
    let object_type = messages.types().id_of_kind(&kind).unwrap();
    let object = messages
        .decode(object_type, envelope.message, &Limits::REQUEST)
        .unwrap();
    (envelope.api_version.to_string(), envelope.kind.to_string(), object)
}

#[tokio::test]
async fn discovery_is_served_in_protobuf_too() {
    let server = Server::start().await;
    for (path, version, kind) in [
        ("/api", "", "APIVersions"),
        ("/apis", "v1", "APIGroupList"),
        ("/apis/apps", "v1", "APIGroup"),
        ("/api/v1", "", "APIResourceList"),
        ("/apis/apps/v1", "v1", "APIResourceList"),
    ] {
        let (code, headers, body) = ask(&server, path, PROTOBUF).await;
        assert_eq!(
            (code, &headers[header::CONTENT_TYPE]),
            (200, &PROTOBUF.parse().unwrap())
        );
        let (api_version, of, object) = decoded(&body);
        assert_eq!((api_version.as_str(), of.as_str()), (version, kind), "{path}");
        // The content equals that of the JSON document.
        let (_, _, text) = ask(&server, path, "application/json").await;
        let text = json::parse(&text, &Limits::REQUEST).unwrap();
        for member in ["groups", "versions", "resources"] {
            assert_eq!(object.get(member), text.get(member), "{path} {member}");
        }
    }
}

#[tokio::test]
async fn aggregated_discovery_has_one_etag_in_each_form() {
    let server = Server::start().await;
    let parameters = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let accept = format!("{PROTOBUF}{parameters}");
    let (code, headers, body) = ask(&server, "/apis", &accept).await;
    assert_eq!(
        (code, headers[header::CONTENT_TYPE].to_str().unwrap()),
        (200, accept.as_str())
    );
    let (_, kind, object) = decoded(&body);
    assert_eq!(kind, "APIGroupDiscoveryList");
    let (_, of_json, text) = ask(&server, "/apis", &format!("application/json{parameters}")).await;
    assert_eq!(of_json[header::ETAG], headers[header::ETAG]);
    let text = json::parse(&text, &Limits::REQUEST).unwrap();
    let names = |document: &Value| -> Vec<Value> {
        let groups = document.get("items").and_then(Value::as_list).unwrap();
        groups
            .iter()
            .map(|group| group.at(&["metadata", "name"]).cloned().unwrap())
            .collect()
    };
    assert_eq!(names(&object), names(&text));
    let (_, headers, text) = ask(&server, "/apis", &format!("application/yaml{parameters}")).await;
    assert!(
        headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("application/yaml;")
    );
    assert!(text.starts_with(b"apiVersion: apidiscovery.k8s.io/v2\n"));
}

#[tokio::test]
async fn a_write_is_answered_in_protobuf_as_a_read_of_what_it_stored() {
    let server = Server::start().await;
    let text =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"a":"<b>"}},"data":{"k":"v"}}"#;
    let path = format!("{CONFIG_MAPS}/a");
    let create_response = server
        .respond("POST", CONFIG_MAPS, "application/json", text, PROTOBUF)
        .await;
    let created = create_response.into_body().collect().await.unwrap().to_bytes();
    let (_, _, read) = ask(&server, &path, PROTOBUF).await;
    assert_eq!(created, read);
    let merge = "application/merge-patch+json";
    for at in 0..2 {
        let patch = format!(r#"{{"data":{{"k":"{at}"}}}}"#);
        let patch_response = server.respond("PATCH", &path, merge, &patch, PROTOBUF).await;
        let patched = patch_response.into_body().collect().await.unwrap().to_bytes();
        let (_, _, read) = ask(&server, &path, PROTOBUF).await;
        assert_eq!(patched, read);
    }
    let (_, _, read) = ask(&server, &path, PROTOBUF).await;
    let (_, _, json) = ask(&server, &path, "application/json").await;
    let mut json = json::parse(&json, &Limits::REQUEST).unwrap();
    let (version, kind, read) = decoded(&read);
    json.remove_at(&["apiVersion"]);
    json.remove_at(&["kind"]);
    assert_eq!((version.as_str(), kind.as_str(), read), ("v1", "ConfigMap", json));
}

#[tokio::test]
async fn lists_in_protobuf_have_the_objects_of_json() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    // Texts with escapes, quantities, numbers, zero values, and maps that are not sorted in the request.
    for name in ["a", "b"] {
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"z":"1","a":"2"}},"annotations":{{"a":"<b>\n\u00e9"}}}},
            "spec":{{"nodeSelector":{{}},"containers":[{{"name":"c","image":"i","resources":{{"limits":{{"cpu":"1500m","memory":"1Gi"}}}},
            "ports":[{{"containerPort":80}}],"livenessProbe":{{"httpGet":{{"port":"http"}}}},"readinessProbe":{{"httpGet":{{"port":8080}}}}}}]}}}}"#
        );
        let created = server.post(pods, &pod).await;
        assert_eq!(created.code, 201, "{}", created.message());
    }
    for (path, kind) in [
        (pods, "PodList"),
        ("/api/v1/namespaces", "NamespaceList"),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "FlowSchemaList"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleList"),
    ] {
        let (_, _, read) = ask(&server, path, PROTOBUF).await;
        let (_, _, text) = ask(&server, path, "application/json").await;
        let mut text = json::parse(&text, &Limits::REQUEST).unwrap();
        text.remove_at(&["apiVersion"]);
        text.remove_at(&["kind"]);
        let (_, read_kind, read) = decoded(&read);
        assert_eq!((read_kind.as_str(), read), (kind, text), "{path}");
    }
}

#[tokio::test]
async fn metadata_alone_come_in_protobuf_in_both_versions() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    for version in ["v1", "v1beta1"] {
        let accept = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v={version}");
        let (code, _, body) = ask(&server, &format!("{CONFIG_MAPS}/a"), &accept).await;
        assert_eq!(code, 200);
        let envelope = Envelope::read(&body).unwrap();
        assert_eq!(
            (envelope.api_version.as_ref(), envelope.kind.as_ref()),
            (format!("meta.k8s.io/{version}").as_str(), "PartialObjectMetadata")
        );
    }
}

#[tokio::test]
async fn a_pod_that_has_ended_says_so_beside_its_cells() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.post(pods, pod).await.code, 201);
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let (_, _, before) = ask(&server, pods, table).await;
    let before = json::parse(&before, &Limits::REQUEST).unwrap();
    assert!(
        before.get("rows").unwrap().as_list().unwrap()[0]
            .get("conditions")
            .is_none()
    );
    let status = r#"{"status":{"phase":"Failed"}}"#;
    let patched = server.patch(&format!("{pods}/a/status"), support::MERGE, status).await;
    assert_eq!(patched.code, 200);
    let (_, _, after) = ask(&server, pods, table).await;
    let after = json::parse(&after, &Limits::REQUEST).unwrap();
    let row = &after.get("rows").unwrap().as_list().unwrap()[0];
    let conditions = json::to_string(row.get("conditions").unwrap());
    assert_eq!(
        conditions,
        r#"[{"message":"The pod failed.","reason":"Failed","status":"True","type":"Completed"}]"#
    );
}

#[tokio::test]
async fn all_versions_of_a_resource_share_the_cells_of_the_stored_one() {
    let server = Server::start().await;
    let scalers = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let scaler = r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},
        "spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":70}}"#;
    let created = server.post(&scalers("v1"), scaler).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut cells = Vec::new();
    for version in ["v1", "v2"] {
        let (_, _, body) = ask(&server, &format!("{}?includeObject=Object", scalers(version)), table).await;
        let body = json::parse(&body, &Limits::REQUEST).unwrap();
        let row = &body.get("rows").unwrap().as_list().unwrap()[0];
        let shown = row.at(&["object", "apiVersion"]).and_then(Value::as_str);
        assert_eq!(shown, Some(format!("autoscaling/{version}").as_str()));
        cells.push(row.get("cells").unwrap().as_list().unwrap()[2].clone());
    }
    assert_eq!(cells[0], "cpu: <unknown>/70%".into());
    assert_eq!(cells[0], cells[1]);
}

const DROP: &str = ";drop=metadata.managedFields";

/// Returns the number of occurrences of the name in an answer.
fn managed(body: &[u8]) -> usize {
    let name = b"managedFields";
    body.windows(name.len()).filter(|found| found == name).count()
}

#[tokio::test]
async fn clients_that_do_not_read_ownership_need_not_pay_for_it() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let one = format!("{CONFIG_MAPS}/a");
    let table = ";as=Table;g=meta.k8s.io;v=v1";
    for (path, accept) in [
        (one.clone(), "application/json".to_owned()),
        (one.clone(), "application/yaml".to_owned()),
        (
            one.clone(),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1".to_owned(),
        ),
        (CONFIG_MAPS.to_owned(), "application/json".to_owned()),
        (format!("{CONFIG_MAPS}?pretty=1"), "application/json".to_owned()),
        (
            CONFIG_MAPS.to_owned(),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_owned(),
        ),
        (CONFIG_MAPS.to_owned(), format!("application/json{table}")),
        (
            format!("{CONFIG_MAPS}?includeObject=Object"),
            format!("application/json{table}"),
        ),
    ] {
        let (_, _, with) = ask(&server, &path, &accept).await;
        assert_eq!(managed(&with), 1, "{path} {accept}");
        let (code, headers, without) = ask(&server, &path, &format!("{accept}{DROP}")).await;
        assert_eq!((code, managed(&without)), (200, 0), "{path} {accept}");
        let media_type = accept.split(';').next().unwrap();
        assert_eq!(headers[header::CONTENT_TYPE], media_type);
        assert!(
            String::from_utf8_lossy(&without).contains("creationTimestamp"),
            "{path} {accept}"
        );
    }
    let (_, _, body) = ask(&server, &one, &format!("{PROTOBUF}{DROP}")).await;
    let (_, _, object) = decoded(&body);
    assert_eq!(object.str_at(&["metadata", "name"]), Some("a"));
    assert!(object.at(&["metadata", "managedFields"]).is_none());
}

#[tokio::test]
async fn only_managed_fields_are_dropped_from_an_object() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let one = format!("{CONFIG_MAPS}/a");
    let parsed = async |accept: &str| {
        let (_, _, body) = ask(&server, &one, accept).await;
        json::parse(&body, &Limits::REQUEST).unwrap()
    };
    let mut whole = parsed("application/json").await;
    assert!(whole.remove_at(&["metadata", "managedFields"]).is_some());
    assert_eq!(parsed(&format!("application/json{DROP}")).await, whole);
}

#[tokio::test]
async fn watches_with_and_without_managed_fields_differ() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=20");
    let accept = format!("application/json{DROP}");
    let mut without = server.respond("GET", &path, "", "", &accept).await.into_body();
    let mut with = server
        .respond("GET", &path, "", "", "application/json")
        .await
        .into_body();
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    for (stream, count) in [(&mut with, 1), (&mut without, 0)] {
        let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(br#"{"type":"ADDED""#));
        assert_eq!(managed(&frame), count);
    }
}

#[tokio::test]
async fn write_answer_without_managed_fields_still_tracks_them() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let (one, accept) = (format!("{CONFIG_MAPS}/a"), format!("application/json{DROP}"));
    let change = r#"{"data":{"more":"2"}}"#;
    let path = format!("{one}?fieldManager=second");
    let response = server.respond("PATCH", &path, support::MERGE, change, &accept).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(managed(&body), 0);
    let stored = server.get(&one).await;
    let managers = stored.at("/metadata/managedFields").as_array().unwrap();
    let names: Vec<_> = managers
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"tests") && names.contains(&"second"), "{names:?}");
}
