use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_kind_tables::features::Features;
use holdfast_kinds::counters::Counters;

use crate::event_rate_limit::EventLimit;
use crate::image_policy_webhook::ImagePolicy;
use crate::pod_security::PodSecuritySettings;
use crate::pod_toleration_restriction::TolerationSettings;
use crate::resource_quota::LimitedResource;

/// Settings of plugins from flags.
#[derive(Clone, Debug)]
pub struct PluginSettings {
    /// Default toleration seconds of Pods for a node that is not ready.
    pub not_ready_seconds: i64,
    /// Default toleration seconds of Pods for an unreachable node.
    pub unreachable_seconds: i64,
    /// Features that are enabled.
    pub features: Features,
    /// Allowed node labels of Pods, by namespace. `clusterDefaultNodeSelector` applies to all other namespaces.
    pub node_selectors: BTreeMap<String, String>,
    /// Default and allowed tolerations of Pods.
    pub tolerations: TolerationSettings,
    /// Rate limits for events.
    pub event_limits: Vec<EventLimit>,
    /// Webhook that decides about images.
    pub images: Option<Arc<ImagePolicy>>,
    /// Resources that can only be consumed if a quota covers them.
    pub limited_resources: Vec<LimitedResource>,
    /// Default standards of Pods, and exemptions.
    pub pod_security: PodSecuritySettings,
    /// Counters of the plugins.
    pub counters: Counters,
}

impl Default for PluginSettings {
    /// Returns the reference's defaults.
    fn default() -> Self {
        Self {
            not_ready_seconds: 300,
            unreachable_seconds: 300,
            features: Features::default(),
            node_selectors: BTreeMap::new(),
            tolerations: TolerationSettings::default(),
            event_limits: Vec::new(),
            images: None,
            limited_resources: Vec::new(),
            pod_security: PodSecuritySettings::default(),
            counters: Counters::default(),
        }
    }
}
