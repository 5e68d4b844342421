//! Optional versions: each object keeps all of its content when it is converted to the version in which it is stored,
//! and back.

use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::FeatureGates;
use holdfast_kinds::{Config, registry};
use holdfast_resource::{Registry, Resource};
use holdfast_value::{Limits, Value, json};
use test_support::{needs, shared};

/// Returns the registry with every version served.
fn everything() -> Registry {
    let on = |text: &str| [text.to_owned()];
    let config = Config {
        apis: Apis::set(&on("api/all=true")).unwrap(),
        features: FeatureGates::set(&on("AllAlpha=true,AllBeta=true")).unwrap().features(),
        ..Config::default()
    };
    registry(&config).unwrap()
}

fn resource_of<'r>(registry: &'r Registry, object: &Value) -> Option<&'r Resource> {
    let (version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
    let mut resources = registry.resources();
    let found = resources
        .find(|resource| resource.kind == kind && resource.versions.iter().any(|served| served.api_version == version));
    found.map(|resource| resource.as_ref())
}

#[needs(shared)]
#[test]
fn objects_of_all_versions_survive_storage_version() {
    let registry = everything();
    let (mut converted, mut odd) = (0, Vec::new());
    for entry in std::fs::read_dir(shared("facts/roundtrip")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let object = json::parse(&std::fs::read(&path).unwrap(), &Limits::REQUEST).unwrap();
        let Some(resource) = resource_of(&registry, &object) else {
            continue;
        };
        let version = object.str_at(&["apiVersion"]).unwrap();
        let stored = resource
            .storage
            .as_ref()
            .map_or(version, |storage| &storage.api_version);
        if resource.group == "autoscaling" || resource.plural == "events" || stored == version {
            continue;
        }
        let hub = resource.convert(object.clone(), stored).unwrap();
        let kind_type = resource.kind_type(stored).unwrap();
        let decoded = kind_type.decode(&hub).unwrap();
        if !decoded.findings.is_empty() {
            odd.push(format!("{path:?}: {:?}", decoded.findings));
        }
        let back = resource.convert(decoded.object, version).unwrap();
        if back != object {
            odd.push(format!(
                "{path:?}:\n{}\n{}",
                json::to_string(&object),
                json::to_string(&back)
            ));
        }
        converted += 1;
    }
    assert!(odd.is_empty(), "{}", odd.join("\n"));
    assert!(converted >= 12, "{converted}");
}

#[test]
fn groups_and_versions_are_listed_as_the_reference_lists_them() {
    let registry = everything();
    let listed: Vec<String> = registry.group_versions().map(|listed| listed.to_string()).collect();
    let versions_in = |group: &str| -> Vec<&str> {
        let versions = listed.iter().filter_map(|listed| listed.split_once('/'));
        versions
            .filter(|(of, _)| *of == group)
            .map(|(_, version)| version)
            .collect()
    };
    assert_eq!(versions_in("resource.k8s.io"), ["v1", "v1beta2", "v1beta1", "v1alpha3"]);
    assert_eq!(versions_in("certificates.k8s.io"), ["v1", "v1beta1", "v1alpha1"]);
    assert_eq!(versions_in("scheduling.k8s.io"), ["v1", "v1alpha2"]);
    assert_eq!(listed.last().unwrap(), "storagemigration.k8s.io/v1beta1");
    let default = registry_of_default();
    assert!(
        default
            .group_versions()
            .all(|listed| !listed.version.contains("alpha") && !listed.version.contains("beta"))
    );
}

fn registry_of_default() -> Registry {
    registry(&Config::default()).unwrap()
}

#[test]
fn disabled_version_is_still_storage_version() {
    let config = Config {
        apis: Apis::set(&["resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true".to_owned()]).unwrap(),
        ..Config::default()
    };
    let registry = registry(&config).unwrap();
    assert!(registry.served("resource.k8s.io", "v1", "resourceclaims").is_none());
    let served = registry.served("resource.k8s.io", "v1beta1", "resourceclaims").unwrap();
    let stored = &served.resource.storage.as_ref().unwrap().api_version;
    assert_eq!(stored, "resource.k8s.io/v1");
    assert!(served.resource.kind_type(stored).is_some());
    assert_eq!(
        served.version().deprecation.as_deref(),
        Some("resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+")
    );
    assert_eq!(served.version().removed_release, "1.38");
}
