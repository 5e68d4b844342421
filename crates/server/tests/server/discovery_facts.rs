//! Compares the discovery documents of the built-in kinds with those of the reference, if these are available.

use std::path::PathBuf;
use std::sync::Arc;

use holdfast_proto::Messages;
use holdfast_server::http::negotiation::Representation;
use holdfast_server::operations::discovery::Catalog;
use holdfast_server::operations::discovery::aggregated::{Documents, Root};
use holdfast_server::operations::discovery::legacy::{ApiGroup, ApiGroupList, ApiResourceList, ApiVersions};
use http::HeaderMap;
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::Value;
use test_support::{needs, shared};

fn read(path: PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
}

/// Returns the first difference of two documents.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            let null = Value::Null;
            let member =
                |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or(null.clone());
            keys.into_iter()
                .find_map(|key| difference(&format!("{path}/{key}"), &member(a, key), &member(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (a, b))| difference(&format!("{path}/{at}"), a, b))
        }
        _ if ours == theirs => None,
        _ => Some(format!("{path}: {ours} where the reference has {theirs}")),
    }
}

fn as_json(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

fn assert_same(name: &str, ours: &Value, theirs: &Value) {
    if let Some(difference) = difference("", ours, theirs) {
        panic!("{name}{difference}");
    }
}

#[needs(shared)]
#[test]
fn legacy_documents_are_those_of_the_reference() {
    let folder = shared("facts/discovery");
    let facts = folder.join("legacy");
    let registry = Arc::new(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap());
    let catalog = Catalog::new(Arc::clone(&registry), None);
    assert_same(
        "api",
        &as_json(&ApiVersions::new(&registry, "127.0.0.1:6443")),
        &read(facts.join("api.json")),
    );
    assert_same(
        "apis",
        &as_json(&ApiGroupList::new(&catalog)),
        &read(facts.join("apis.json")),
    );
    for served in registry.group_versions() {
        let (group, version) = (served.group.as_str(), served.version.as_str());
        let file = if group.is_empty() {
            format!("api-{version}.json")
        } else {
            format!("apis-{group}-{version}.json")
        };
        let list = ApiResourceList::new(&registry, group, version).unwrap();
        assert_same(&file, &as_json(&list), &read(facts.join(&file)));
        if !group.is_empty() {
            let file = format!("apis-{group}.json");
            assert_same(
                &file,
                &as_json(&ApiGroup::new(&catalog, group).unwrap()),
                &read(facts.join(&file)),
            );
        }
    }
}

#[needs(shared)]
#[tokio::test]
async fn aggregated_documents_are_those_of_the_reference() {
    let facts = shared("facts/discovery");
    let registry = Arc::new(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap());
    let documents = Documents::default();
    let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
    for (root, file) in [
        (Root::Core, "aggregated-api.json"),
        (Root::Groups, "aggregated-apis.json"),
    ] {
        let catalog = Arc::new(Catalog::new(Arc::clone(&registry), None));
        let headers = HeaderMap::new();
        let response = documents.respond(&messages, catalog, root, &Representation::default(), &headers);
        let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_same(file, &serde_json::from_slice(&body).unwrap(), &read(facts.join(file)));
    }
}
