#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Admission of all writes, independent of the kind: kube-apiserver's compiled-in admission plugins.
//!
//! See <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>. Each plugin has its own file;
//! the order of [`plugins()`] is that of the reference.

mod always;
mod always_pull_images;
mod certificates;
mod common;
mod default_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
#[cfg(test)]
mod harness;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod plugins;
mod pod_groups;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod settings;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;

pub use event_rate_limit::EventLimit;
pub use image_policy_webhook::{ImagePolicy, ImagePolicySettings, ImageReview, ImageReviewer};
pub use plugins::{all_plugins, names, plugins};
pub use pod_security::PodSecuritySettings;
pub use pod_toleration_restriction::TolerationSettings;
pub use resource_quota::LimitedResource;
pub use settings::PluginSettings;
