//! Errors, warnings and conditions of CRDs, except for those about their schemas
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>).

use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{CRD, CRDS, JSON, MERGE, WIDGETS, ask, crd, define, get, is_established, sizes, until};

/// Sends a request and returns the texts of the warnings along with the code and the response.
async fn warned(
    target: &Target,
    method: Method,
    path: &str,
    media_type: &str,
    body: &Value,
) -> (StatusCode, Vec<String>, Value) {
    let mut connection = target.connect().await.unwrap();
    let answer = connection
        .open(method, path, media_type, body.to_string().into())
        .await
        .unwrap();
    let texts = answer
        .headers()
        .get_all("warning")
        .into_iter()
        .map(|text| text.to_str().unwrap().to_owned())
        .collect();
    let code = answer.status();
    let body = http_body_util::BodyExt::collect(answer.into_body())
        .await
        .unwrap()
        .to_bytes();
    (code, texts, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn unknown_formats_of_texts_are_warned_of() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "nonsense"}, "b": {"type": "array", "items": {"type": "string", "format": "nonsense"}},
        "c": {"type": "string", "format": "date-time"}, "d": {"type": "integer", "format": "int99"}}});
    let (code, warnings, _) = warned(&target, Method::POST, CRDS, JSON, &crd(&schema)).await;
    assert_eq!(code, StatusCode::CREATED);
    let unrecognized = |format: &str| format!("299 - \"unrecognized format \\\"{format}\\\"\"");
    assert_eq!(warnings, ["nonsense", "int99"].map(unrecognized));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, warnings, _) = warned(&target, Method::PATCH, CRD, MERGE, &label).await;
    assert_eq!(
        (code, warnings.len()),
        (StatusCode::OK, 0),
        "only new formats are reported"
    );
    let versions = json!({"spec": {"versions": crd(&json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "nonsense"}, "e": {"type": "string", "format": "novel"}}}))["spec"]["versions"]}});
    let (code, warnings, _) = warned(&target, Method::PATCH, CRD, MERGE, &versions).await;
    assert_eq!((code, warnings), (StatusCode::OK, vec![unrecognized("novel")]));
}

#[tokio::test]
async fn rejected_change_warns_once_about_unknown_fields() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let bad = super::widget("one", &json!({"size": 10, "unknown": 1}));
    let reported = ["299 - \"unknown field \\\"spec.unknown\\\"\""];
    let (code, warnings, _) = warned(&target, Method::POST, WIDGETS, JSON, &bad).await;
    assert_eq!(
        (code, &warnings[..]),
        (StatusCode::UNPROCESSABLE_ENTITY, &reported.map(str::to_owned)[..])
    );
    let (_, mut made) = ask(&target, Method::POST, WIDGETS, JSON, &super::widget("one", &json!({}))).await;
    made["spec"] = bad["spec"].clone();
    let path = format!("{WIDGETS}/one");
    let spec = json!({"spec": bad["spec"]});
    for (method, media_type, body) in [(Method::PUT, JSON, &made), (Method::PATCH, MERGE, &spec)] {
        let (code, warnings, answer) = warned(&target, method, &path, media_type, body).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(warnings, reported);
    }
}

#[tokio::test]
async fn spec_changes_raise_the_generation_and_update_accepted_names() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &sizes()).await;
    let patch = async |body: Value| ask(&target, Method::PATCH, CRD, MERGE, &body).await.1;
    let labelled = patch(json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled["metadata"]["generation"], 1);
    let renamed = patch(json!({"spec": {"names": {"shortNames": ["wd"], "categories": ["all"]}}})).await;
    assert_eq!(renamed["metadata"]["generation"], 2);
    let names = |crd: &Value| crd["status"]["acceptedNames"]["shortNames"] == json!(["wd"]);
    let accepted = until(&target, CRD, |_, crd| names(crd)).await;
    assert_eq!(accepted["status"]["storedVersions"], json!(["v1"]));
    let (_, discovered) = get(&target, "/apis/example.com/v1").await;
    assert_eq!(discovered["resources"][0]["shortNames"], json!(["wd"]));
    assert_eq!(discovered["resources"][0]["categories"], json!(["all"]));
}

#[tokio::test]
async fn invalid_crds_are_rejected() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let reported = async |change: &[(&str, Value)]| {
        let mut crd = crd(&sizes());
        for (path, value) in change {
            *crd.pointer_mut(path).unwrap() = value.clone();
        }
        let (code, answer) = ask(&target, Method::POST, &format!("{CRDS}?dryRun=All"), JSON, &crd).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    // A CRD cannot use a built-in group.
    let apps = [
        ("/metadata/name", json!("widgets.apps")),
        ("/spec/group", json!("apps")),
    ];
    assert!(
        reported(&apps)
            .await
            .ends_with("spec.group: Invalid value: \"apps\": should be a domain with at least one dot")
    );
    let scope = [("/spec/scope", json!("Both"))];
    let unknown = "spec.scope: Unsupported value: \"Both\": supported values: \"Cluster\", \"Namespaced\"";
    assert!(reported(&scope).await.ends_with(unknown));
    let mut old = crd(&sizes());
    old["spec"]["preserveUnknownFields"] = json!(true);
    let (code, answer) = ask(&target, Method::POST, CRDS, JSON, &old).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let reported = answer["message"].as_str().unwrap();
    assert!(
        reported.contains(
            "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema"
        ) && reported.contains("spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
        "{reported}"
    );
}

/// Expected names are those of kube-apiserver 1.36.3.
#[tokio::test]
async fn schema_whose_name_is_taken_is_renamed_in_v2() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut ingresses = crd(&sizes());
    ingresses["metadata"] = json!({"name": "ingresses.networking.api.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}});
    ingresses["spec"]["group"] = json!("networking.api.k8s.io");
    ingresses["spec"]["names"] = json!({"plural": "ingresses", "kind": "Ingress"});
    let (code, answer) = ask(&target, Method::POST, CRDS, JSON, &ingresses).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let path = "/openapi/v3/apis/networking.api.k8s.io/v1";
    let third = until(&target, path, |code, _| code == StatusCode::OK).await;
    let has_size = |schema: &Value| schema["properties"]["spec"]["properties"]["size"].is_object();
    let schemas = &third["components"]["schemas"];
    assert!(has_size(&schemas["io.k8s.api.networking.v1.Ingress"]));
    assert!(
        schemas["io.k8s.api.networking.v1.IngressSpec"].is_null(),
        "nothing of the built-in type"
    );

    let (_, second) = get(&target, "/openapi/v2").await;
    let crds = &second["definitions"];
    assert!(!has_size(&crds["io.k8s.api.networking.v1.Ingress"]));
    assert!(has_size(&crds["io.k8s.api.networking.v1.Ingress_v2"]));
    let list = &crds["io.k8s.api.networking.v1.IngressList_v2"];
    let renamed = json!("#/definitions/io.k8s.api.networking.v1.Ingress_v2");
    assert_eq!(list["properties"]["items"]["items"]["$ref"], renamed);
    let created = |group: &str| {
        let path = format!("/apis/{group}/v1/namespaces/{{namespace}}/ingresses");
        second["paths"][path]["post"]["responses"]["201"]["schema"]["$ref"].clone()
    };
    assert_eq!(created("networking.api.k8s.io"), renamed);
    assert_eq!(
        created("networking.k8s.io"),
        json!("#/definitions/io.k8s.api.networking.v1.Ingress")
    );
}

#[tokio::test]
async fn crd_of_built_in_resource_changes_nothing() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut ingresses = crd(&sizes());
    ingresses["metadata"] = json!({"name": "ingresses.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}});
    ingresses["spec"]["group"] = json!("networking.k8s.io");
    ingresses["spec"]["names"] = json!({"plural": "ingresses", "kind": "Ingress"});
    let mut later = ingresses["spec"]["versions"][0].clone();
    later["name"] = json!("v9");
    later["storage"] = json!(false);
    ingresses["spec"]["versions"].as_array_mut().unwrap().push(later);
    let (code, answer) = ask(&target, Method::POST, CRDS, JSON, &ingresses).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let path = format!("{CRDS}/ingresses.networking.k8s.io");
    until(&target, &path, |_, crd| is_established(crd)).await;
    let (_, list) = get(&target, "/apis/networking.k8s.io/v1/ingresses").await;
    assert_eq!(list["apiVersion"], "networking.k8s.io/v1");
    // kube-apiserver's handler serves all paths of the group.
    assert_eq!(
        get(&target, "/apis/networking.k8s.io/v9/ingresses").await.0,
        StatusCode::NOT_FOUND
    );
    let made = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}});
    let (code, answer) = ask(
        &target,
        Method::POST,
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        JSON,
        &made,
    )
    .await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    assert_eq!(
        answer["spec"]["defaultBackend"]["service"]["name"], "a",
        "the built-in kind is served"
    );
}

/// Returns a CRD in a group of Kubernetes.
fn built_in_group_crd(version: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "widgets.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "networking.k8s.io",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Ingress"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[tokio::test]
async fn definition_in_built_in_group_is_not_served() {
    const GROUP: &str = "/apis/networking.k8s.io";
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    for version in ["v1", "v9"] {
        let crd = built_in_group_crd(version);
        let path = format!("{CRDS}/widgets.networking.k8s.io");
        let (code, answer) = ask(&target, Method::POST, CRDS, JSON, &crd).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        until(&target, &path, |_, crd| is_established(crd)).await;

        let (code, answer) = get(&target, &format!("{GROUP}/{version}/widgets")).await;
        assert_eq!((code, &answer["reason"]), (StatusCode::NOT_FOUND, &json!("NotFound")));
        let (code, list) = get(&target, &format!("{GROUP}/{version}")).await;
        let expected = if version == "v1" {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        };
        assert_eq!(code, expected, "{list}");
        assert!(!list.to_string().contains("widgets"), "{list}");
        let (code, list) = get(&target, &format!("{GROUP}/v1/ingresses")).await;
        assert_eq!((code, &list["kind"]), (StatusCode::OK, &json!("IngressList")));

        let (code, document) = get(&target, "/openapi/v3/apis/networking.k8s.io/v1").await;
        assert_eq!(code, StatusCode::OK);
        assert!(!document.to_string().contains("widgets"));
        assert_has_unique_names(&target, "/openapi/v2").await;

        let (code, answer) = ask(&target, Method::DELETE, &path, JSON, &Value::Null).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        until(&target, &path, |code, _| code == StatusCode::NOT_FOUND).await;
    }
}

/// Asserts that no object of the document contains a name twice.
async fn assert_has_unique_names(target: &Target, path: &str) {
    let mut connection = target.connect().await.unwrap();
    let (code, bytes) = connection
        .ask(Method::GET, path, "", bytes::Bytes::new())
        .await
        .unwrap();
    assert_eq!(code, StatusCode::OK);
    // A parsed object keeps the last of several members of one name, so that serializing it again makes the text
    // shorter.
    let parsed: Value = serde_json::from_slice(&bytes).unwrap();
    let members = |text: &[u8]| text.iter().filter(|byte| **byte == b':').count();
    assert_eq!(members(parsed.to_string().as_bytes()), members(&bytes));
}
