//! The order of the modules of the crate: a module imports only itself and modules before it.

use test_support::Layers;

/// The modules in order, lowest first.
const LAYERS: [&str; 42] = [
    "rules",
    "counters",
    "time",
    "generation",
    "versions",
    "defaults",
    "pod_resources",
    "validation",
    "cells",
    "config",
    "claim_spec",
    "volume_sources",
    "pod_spec",
    "workload",
    "quota",
    "kind",
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "certificates",
    "coordination",
    "core",
    "discovery",
    "events",
    "flowcontrol",
    "networking",
    "node",
    "policy",
    "rbac",
    "resource",
    "scheduling",
    "storage",
    "storageversion",
    "storageversionmigration",
    "registry",
    "harness",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS)
        .for_tests(&["harness"])
        .check();
}
