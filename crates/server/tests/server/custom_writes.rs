//! Writes to custom resources whose versions differ in more than their names.

use crate::support::{MERGE, Server};
use serde_json::{Value, json};

/// Defines gadgets with these schemas of `v1` and of the storage version `v2`, and waits until they are served.
async fn start(v1: Value, v2: Value) -> Server {
    let server = Server::start().await;
    let version = |name: &str, stored: bool, schema: Value| {
        json!({
            "name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        })
    };
    let names = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.x.example.com"},
        "spec": {
            "group": "x.example.com", "scope": "Namespaced", "names": names,
            "versions": [version("v1", false, v1), version("v2", true, v2)],
        },
    });
    server.define(&crd).await;
    server
}

fn path(version: &str, rest: &str) -> String {
    format!("/apis/x.example.com/{version}/namespaces/default/gadgets{rest}")
}

async fn create(server: &Server, version: &str) {
    let gadget = json!({
        "apiVersion": format!("x.example.com/{version}"), "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 1},
    });
    let made = server.post(&path(version, ""), &gadget.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

#[tokio::test]
async fn status_write_does_not_default_the_spec() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = |spec: Value| json!({"type": "object", "properties": {"spec": spec, "status": free}});
    let color = json!({"type": "string", "default": "red"});
    let size = json!({"type": "integer"});
    let v1 = schema(json!({"type": "object", "properties": {"size": size, "color": color}}));
    let v2 = schema(json!({"type": "object", "properties": {"size": size, "color": {"type": "string"}}}));
    let server = start(v1, v2).await;
    create(&server, "v2").await;
    let status = r#"{"status":{"ready":true}}"#;
    let written = server.patch(&path("v1", "/a/status"), MERGE, status).await;
    assert_eq!(written.code, 200, "{}", written.body);
    let stored = server.get(&path("v2", "/a")).await;
    assert_eq!(stored.at("/status"), &json!({"ready": true}));
    assert_eq!(stored.at("/spec"), &json!({"size": 1}));
    // A write to the object itself sets them.
    let written = server.patch(&path("v1", "/a"), MERGE, r#"{"spec":{"size":2}}"#).await;
    assert_eq!(written.code, 200, "{}", written.body);
    assert_eq!(
        server.get(&path("v2", "/a")).await.at("/spec"),
        &json!({"color": "red", "size": 2})
    );
}

#[tokio::test]
async fn schema_validates_the_requested_version() {
    let schema = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"apiVersion": {"type": "string", "pattern": "^x.example.com/v1$"}},
    });
    let server = start(schema.clone(), schema).await;
    create(&server, "v1").await;
    let change = r#"{"spec":{"size":2}}"#;
    assert_eq!(server.patch(&path("v1", "/a"), MERGE, change).await.code, 200);
    let refused = server.patch(&path("v2", "/a"), MERGE, change).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert!(
        refused.message().contains("apiVersion: Invalid value"),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn all_namespaces_together_can_be_read_alone() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let server = start(free.clone(), free).await;
    create(&server, "v1").await;
    let everywhere = "/apis/x.example.com/v1/gadgets";
    assert_eq!(server.get(everywhere).await.code, 200);
    for method in ["DELETE", "POST", "PUT", "PATCH"] {
        let answer = server.send(method, everywhere, MERGE, "{}").await;
        assert_eq!(answer.code, 404, "{method}: {}", answer.body);
    }
    assert_eq!(server.delete("/api/v1/configmaps").await.code, 405);
    assert_eq!(server.get(&path("v1", "/a")).await.code, 200);
}

#[tokio::test]
async fn an_object_that_is_requested_as_a_list_fails_as_one() {
    let server = start(json!({"type": "object"}), json!({"type": "object"})).await;
    create(&server, "v1").await;
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let path = "/apis/x.example.com/v1/namespaces/default/gadgets/a";
    let refused = server.get_as(path, accept).await;
    assert_eq!((refused.code, refused.message()), (500, "content is not a list"));
}

#[tokio::test]
async fn unsupported_custom_resource_format_lists_the_supported() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let server = start(free.clone(), free).await;
    for rest in ["", "/a"] {
        let answer = server.get_as(&path("v1", rest), "text/html").await;
        assert_eq!(answer.code, 406, "{rest}");
        assert_eq!(
            answer.message(),
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        );
    }
}

#[tokio::test]
async fn path_after_custom_resource_subresource_is_ignored() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let server = start(schema.clone(), schema).await;
    create(&server, "v1").await;
    assert_eq!(server.get(&path("v1", "/a/status/more/of/it")).await.code, 200);
    assert_eq!(server.get(&path("v1", "/a/other/more")).await.code, 404);
    assert_eq!(server.get("/api/v1/namespaces/default/status/more").await.code, 404);
}

#[tokio::test]
async fn the_schema_says_nothing_of_an_object_of_another_kind() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let server = start(schema.clone(), schema).await;
    let gadget = |kind: &str| {
        let object = json!({
            "apiVersion": "x.example.com/v1", "kind": kind, "metadata": {"name": "a", "more": 1}, "spec": {"size": 1},
        });
        object.to_string()
    };
    let strict = path("v1", "?fieldValidation=Strict");
    let refused = server.post(&strict, &gadget("Gadget")).await;
    assert!(
        refused
            .message()
            .contains("unknown field \"metadata.more\", unknown field \"spec.size\"")
    );
    let older = path("v2", "?fieldValidation=Strict");
    let refused = server.post(&older, &gadget("Gadget")).await;
    assert!(
        refused
            .message()
            .starts_with("Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: ")
    );
    let other = server.post(&strict, &gadget("Other")).await;
    assert!(
        other.message().ends_with("unknown field \"metadata.more\""),
        "{}",
        other.message()
    );
}

#[tokio::test]
async fn the_first_deletion_of_a_definition_marks_it_alone() {
    let schema = json!({"type": "object"});
    let server = start(schema.clone(), schema).await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.x.example.com";
    let deleted = server
        .delete(&format!("{crd}?propagationPolicy=Orphan&dryRun=All"))
        .await;
    assert_eq!(
        deleted.at("/metadata/finalizers"),
        &json!(["customresourcecleanup.apiextensions.k8s.io"]),
        "{}",
        deleted.body
    );
}

#[tokio::test]
async fn create_of_an_existing_invalid_crd_is_invalid() {
    let schema = json!({"type": "object"});
    let server = start(schema.clone(), schema).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut existing = server.get(&format!("{definitions}/gadgets.x.example.com")).await.body;
    existing["metadata"] = json!({"name": "gadgets.x.example.com"});
    let mut invalid = existing.clone();
    invalid["spec"]["names"]["kind"] = "not_a_kind".into();
    for query in ["", "?dryRun=All"] {
        let path = format!("{definitions}{query}");
        assert_eq!(server.post(&path, &invalid.to_string()).await.code, 422, "{path}");
        assert_eq!(server.post(&path, &existing.to_string()).await.code, 409, "{path}");
    }
}
