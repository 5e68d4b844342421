#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Built-in kinds: those that kube-apiserver 1.36 serves without CRDs.
//!
//! Facts about a kind that are data (names, verbs, fields, unconditional defaults, keys) are in the crate
//! [`holdfast_kind_tables`]. Each kind has one file for its behaviour, by API group: `apps/deployment.rs` sets defaults that depend on other fields,
//! prepares objects for storage, and validates them. [`registry`] combines both.
//!
//! To add the behaviour of a kind, write its file with a [`Strategy`](holdfast_resource::Strategy), and add it with its
//! capabilities to the list of kinds in the `mod.rs` of its group.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod cells;
mod certificates;
mod config;
mod coordination;
mod core;
pub mod counters;
pub mod defaults;
mod discovery;
mod events;
#[cfg(test)]
mod feature_tests;
mod flowcontrol;
mod generation;
#[cfg(any(test, feature = "testing"))]
pub mod harness;
mod kind;
mod networking;
mod node;
pub mod pod_resources;
mod policy;
mod quota;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storageversion;
mod storageversionmigration;
mod time;
pub mod validation;
mod versions;
mod workload;

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_kind_tables::{Kind, ResourceTableError, TablesError, all_group_versions, unserved, written_types};
use holdfast_resource::{GroupVersion, KindType, KindTypes, Registry, TableTypes};

pub use certificates::{may_use_signer, pem};
pub use config::{Config, random};
pub use core::{pod_spec, qos_class};
pub use rbac::changes_ownership_alone;
pub use scheduling::SYSTEM_CLASSES;
pub use validation::addresses::Block;

/// Returns all built-in resources, in the order of discovery.
///
/// # Errors
/// If the generated table cannot be read, which the tests of this crate rule out.
pub fn registry(config: &Config) -> Result<Registry, TablesError> {
    let types = TableTypes::new(Arc::new(written_types(&config.apis, config.features)?));
    Ok(registry_of(config, &types)?)
}

/// Returns all built-in resources, with types that were already read.
fn registry_of(config: &Config, types: &Arc<TableTypes>) -> Result<Registry, ResourceTableError> {
    let mut registry = Registry::builder();
    let kind_of = |group: &str, plural: &str| kind_of(group, plural, config);
    let resources = holdfast_kind_tables::resources(&kind_of, types, &config.apis, config.features)?;
    let versions = || resources.iter().flat_map(|resource| &resource.versions);
    let listed: HashSet<&GroupVersion> = versions().map(|version| &version.group_version).collect();
    for group_version in all_group_versions() {
        if listed.contains(&group_version) {
            registry = registry.group_version(group_version);
        }
    }
    let served: Vec<Arc<dyn KindType>> = versions().map(|version| Arc::clone(&version.kind_type)).collect();
    for resource in resources {
        registry = registry.resource(Arc::new(resource));
    }
    let table = types.table();
    let unserved = unserved().filter(|(version, kind)| table.id_of_object(version, kind).is_none());
    let types = KindTypes::new(types, served.into_iter()).with_unserved(unserved);
    Ok(registry.types(types).build())
}

type GroupKinds = fn(&str, &Config) -> Option<Kind>;

/// Groups with kinds that have their own behaviour.
const GROUPS: [(&str, GroupKinds); 23] = [
    ("", core::kind_of),
    ("admissionregistration.k8s.io", admissionregistration::kind_of),
    ("apiextensions.k8s.io", apiextensions::kind_of),
    ("apiregistration.k8s.io", apiregistration::kind_of),
    ("apps", apps::kind_of),
    ("authentication.k8s.io", authentication::kind_of),
    ("authorization.k8s.io", authorization::kind_of),
    ("autoscaling", autoscaling::kind_of),
    ("batch", batch::kind_of),
    ("certificates.k8s.io", certificates::kind_of),
    ("coordination.k8s.io", coordination::kind_of),
    ("discovery.k8s.io", discovery::kind_of),
    ("events.k8s.io", events::kind_of),
    ("flowcontrol.apiserver.k8s.io", flowcontrol::kind_of),
    ("internal.apiserver.k8s.io", storageversion::kind_of),
    ("networking.k8s.io", networking::kind_of),
    ("node.k8s.io", node::kind_of),
    ("policy", policy::kind_of),
    ("rbac.authorization.k8s.io", rbac::kind_of),
    ("resource.k8s.io", resource::kind_of),
    ("scheduling.k8s.io", scheduling::kind_of),
    ("storage.k8s.io", storage::kind_of),
    ("storagemigration.k8s.io", storageversionmigration::kind_of),
];

fn kind_of(group: &str, plural: &str, config: &Config) -> Option<Kind> {
    let (_, of) = GROUPS.iter().find(|(name, _)| *name == group)?;
    of(plural, config)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
            assert_eq!(harness::Harness::new().errors(&text), Vec::<String>::new(), "{text}");
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
}
