use super::*;
use crate::apis::Apis;

fn set(flags: &[&str]) -> Result<FeatureGates, String> {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    FeatureGates::set(&flags).map_err(|error| error.to_string())
}

fn is_on(gates: &FeatureGates, name: &str) -> bool {
    gates.gate(name).unwrap().on
}

#[test]
fn every_line_of_the_table_is_a_gate_and_every_feature_has_one() {
    let lines = include_str!(concat!(env!("OUT_DIR"), "/features.txt")).lines();
    let gates = FeatureGates::default();
    assert_eq!(gates.gates.len(), lines.count());
    assert!(gates.gates.is_sorted_by_key(|gate| gate.name));
    for feature in Feature::ALL {
        assert!(gates.gate(feature.name()).is_some(), "{feature:?}");
    }
    for needed in gates.gates.iter().flat_map(|gate| &gate.needs) {
        assert!(gates.gate(needed).is_some(), "{needed}");
    }
    assert_eq!(gates.unmet(), Vec::<String>::new());
    assert!(Feature::ALL.len() <= 128);
}

#[test]
fn defaults_are_those_of_the_reference() {
    let features = Features::default();
    assert!(features.has(Feature::WatchList) && features.has(Feature::MutatingAdmissionPolicy));
    assert!(!features.has(Feature::ContainerStopSignals) && !features.has(Feature::MaxUnavailableStatefulSet));
}

#[test]
fn gates_are_set_by_name_by_stage_and_by_several_flags() {
    let gates = set(&["ContainerStopSignals=true,WatchList=0", "MaxUnavailableStatefulSet=T"]).unwrap();
    let features = gates.features();
    assert!(features.has(Feature::ContainerStopSignals) && features.has(Feature::MaxUnavailableStatefulSet));
    assert!(!features.has(Feature::WatchList));
    let gates = set(&[
        "kube:GenericWorkload=false,kube:AllAlpha=true",
        "kube:GangScheduling=false",
    ]);
    assert_eq!(
        gates.unwrap_err(),
        "[DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload], \
         TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload], \
         WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling], \
         WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]]"
    );
    let gates = set(&["AllAlpha=true,ContainerStopSignals=false,AllBeta=true"]).unwrap();
    assert!(is_on(&gates, "GenericWorkload") && !is_on(&gates, "ContainerStopSignals"));
    assert!(is_on(&gates, "AllAlpha") && is_on(&gates, "SELinuxMount"));
    assert!(!is_on(&gates, "WindowsHostNetwork"));
}

#[test]
fn refusals_are_in_the_words_of_the_reference() {
    for (flag, error) in [
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("WatchList", "missing bool value for WatchList"),
        (
            "WatchList=maybe",
            "invalid value of WatchList=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "APIServerTracing=false",
            "cannot set feature gate APIServerTracing to false, feature is locked to true",
        ),
        (
            "ClusterTrustBundleProjection=true",
            "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
        ),
        ("wardle:A=true", "component not registered: wardle"),
        (
            "kube:WatchList=true,WatchList=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ] {
        assert_eq!(set(&[flag]).unwrap_err(), error);
    }
}

#[test]
fn gates_that_will_go_are_warned_of() {
    let gates = set(&["APIServerTracing=true,WindowsHostNetwork=false,WatchList=true"]).unwrap();
    assert_eq!(
        gates.warnings(),
        [
            "setting GA feature gate APIServerTracing=true. It will be removed in a future release.",
            "setting deprecated feature gate WindowsHostNetwork=false. It will be removed in a future release."
        ]
    );
}

#[test]
fn every_gate_that_may_be_set_changes_something_or_says_why_not() {
    for gate in FeatureGates::default()
        .iter()
        .filter(|gate| !gate.is_locked() && !gate.is_of_stage())
    {
        let is_felt = Feature::named(gate.name).is_some();
        let is_elsewhere = !gate.components().is_empty();
        let reasons = [is_felt, is_elsewhere, matches!(gate.claim(), Some(Claim::NoEffect(_)))];
        assert_eq!(reasons.iter().filter(|holds| **holds).count(), 1, "{}", gate.name);
    }
}

#[test]
fn every_gate_of_a_field_is_a_feature() {
    let apis = Apis::set(&["api/all=true".to_owned()]).unwrap();
    let types = crate::types::types_of(&apis).unwrap();
    let fields = types.iter().flat_map(|(_, of)| of.fields());
    let gates: Vec<&str> = fields
        .filter_map(|field| Some(field.tags.gate.as_ref()?.name.as_str()))
        .collect();
    assert!(!gates.is_empty());
    for gate in gates {
        assert!(Feature::named(gate).is_some(), "{gate}");
    }
}
