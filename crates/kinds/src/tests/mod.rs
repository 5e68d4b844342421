//! Tests of all kinds together.

#![allow(clippy::unwrap_used)]

mod cells;
mod features;
mod quotas;

use crate::config::Config;
use crate::harness::Harness;
use crate::registry::registry;

#[test]
fn initial_objects_are_valid() {
    let objects: Vec<holdfast_value::Value> = registry(&Config::default())
        .unwrap()
        .resources()
        .filter(|resource| resource.group != "rbac.authorization.k8s.io")
        .filter_map(|resource| resource.capabilities.initial_objects.as_ref())
        .flat_map(|kind| kind.initial_objects())
        .collect();
    assert_eq!(objects.len(), 4 + 8 + 11 + 2 + 1 + 1 + 1 + 21);
    for object in objects {
        let text = holdfast_value::json::to_string(&object);
        assert_eq!(Harness::new().errors(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn stored_resources_use_a_served_version() {
    for resource in registry(&Config::default()).unwrap().resources() {
        if let Some(storage) = &resource.storage {
            let served = |version: &holdfast_resource::ResourceVersion| version.api_version == storage.api_version;
            let of_core = resource.group == "events.k8s.io" && storage.api_version == "v1";
            assert!(of_core || resource.versions.iter().any(served), "{}", resource.plural);
        }
    }
}

#[test]
fn an_initial_status_is_the_zero_value_of_its_type() {
    let registry = registry(&Config::default()).unwrap();
    let status = |plural: &str| {
        let resource = registry.resources().find(|resource| resource.plural == plural).unwrap();
        let status = resource.rules.initial_status.as_ref();
        status.map(holdfast_value::json::to_string)
    };
    let replicas = r#"{"availableReplicas":0,"replicas":0}"#;
    assert_eq!(status("statefulsets").as_deref(), Some(replicas));
    let metrics = r#"{"currentMetrics":null,"desiredReplicas":0}"#;
    assert_eq!(status("horizontalpodautoscalers").as_deref(), Some(metrics));
    assert_eq!(status("services").as_deref(), Some(r#"{"loadBalancer":{}}"#));
    assert_eq!(status("volumeattachments").as_deref(), Some(r#"{"attached":false}"#));
    assert_eq!(status("jobs").as_deref(), Some("{}"));
    assert_eq!(status("pods"), None);
}
