//! The order of the modules of the crate: a module imports only itself and modules before it.

use test_support::Layers;

/// The modules in order, lowest first.
const LAYERS: [&str; 34] = [
    "common",
    "always",
    "always_pull_images",
    "certificates",
    "default_class",
    "default_toleration_seconds",
    "deny_service_external_ips",
    "event_rate_limit",
    "extended_resource_toleration",
    "image_policy_webhook",
    "limit_pod_hard_anti_affinity_topology",
    "limit_ranger",
    "namespace_auto_provision",
    "namespace_exists",
    "namespace_lifecycle",
    "node_declared_feature_validator",
    "node_restriction",
    "owner_references_permission_enforcement",
    "persistent_volume_claim_resize",
    "pod_groups",
    "pod_node_selector",
    "pod_resize_validator",
    "pod_security",
    "pod_toleration_restriction",
    "pod_topology_labels",
    "priority",
    "resource_quota",
    "runtime_class",
    "service_account",
    "storage_object_in_use_protection",
    "taint_nodes_by_condition",
    "settings",
    "plugins",
    "harness",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS)
        .for_tests(&["harness"])
        .check();
}
