//! Admission plugins enabled by flags.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use holdfast_admission::AdmissionChain;
use holdfast_admission_plugins::{EventLimit, PluginSettings, TolerationSettings, all_plugins, names};
use holdfast_gotext::errors::aggregate;
use holdfast_kind_tables::features::Feature;

use crate::flags::Serve;
use crate::static_admission::config;

/// For how long Pods stay on nodes that are in trouble.
#[derive(Clone, Debug, Args)]
pub(crate) struct TolerationFlags {
    /// Default `tolerationSeconds` of the toleration for node.kubernetes.io/not-ready:NoExecute, which is added to
    /// every Pod without one
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_hyphen_values = true)]
    default_not_ready_toleration_seconds: i64,

    /// Default `tolerationSeconds` of the toleration for node.kubernetes.io/unreachable:NoExecute, which is added to
    /// every Pod without one
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_hyphen_values = true)]
    default_unreachable_toleration_seconds: i64,
}

/// Returns the plugin settings from the flags and the configuration file that they name.
///
/// # Errors
/// If the file is invalid.
pub(crate) fn settings(flags: &Serve, kinds: &holdfast_kinds::Config) -> Result<PluginSettings> {
    let configurations = flags.static_admission.configurations()?;
    let version = |plugin: &str| format!("{}.admission.k8s.io/v1alpha1", plugin.to_ascii_lowercase());
    let (events, tolerations) = (config::EVENTS, config::TOLERATIONS);
    Ok(PluginSettings {
        not_ready_seconds: flags.tolerations.default_not_ready_toleration_seconds,
        unreachable_seconds: flags.tolerations.default_unreachable_toleration_seconds,
        features: kinds.features,
        counters: kinds.counters.clone(),
        node_selectors: config::node_selectors(&configurations)?,
        tolerations: config::read_for(
            &configurations,
            tolerations,
            &version(tolerations),
            TolerationSettings::from_configuration,
        )?,
        images: match flags.enable_admission_plugins.iter().any(|name| name == config::IMAGES) {
            true => Some(Arc::new(config::image_policy(&configurations)?)),
            false => None,
        },
        limited_resources: config::limited_resources(&configurations)?,
        pod_security: config::pod_security(&configurations)?,
        event_limits: config::read_for(
            &configurations,
            events,
            &version(events),
            EventLimit::from_configuration,
        )?,
    })
}

/// The plugins that the reference keeps only for old configurations.
const DEPRECATED: [&str; 2] = ["AlwaysAdmit", "AlwaysDeny"];

/// Returns the reference's validation errors for the names of enabled and disabled plugins.
pub(crate) fn errors(on: &[String], off: &[String]) -> Vec<String> {
    let known = names();
    let is_known = |name: &str| known.contains(&name);
    let mut messages = Vec::new();
    for (flag, named) in [("enable", on), ("disable", off)] {
        let unknown = named.iter().filter(|name| !is_known(name.as_str()));
        messages.extend(unknown.map(|name| format!("{flag}-admission-plugins plugin {name:?} is unknown")));
    }
    let both: BTreeSet<&str> = on
        .iter()
        .filter(|name| off.contains(name))
        .map(String::as_str)
        .collect();
    if !both.is_empty() {
        let names: Vec<&str> = both.into_iter().collect();
        let both = names.join(" ");
        messages.push(format!(
            "[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"
        ));
    }
    messages
}

/// Returns the enabled plugins if `on` are enabled and `off` are disabled.
///
/// # Errors
/// If a name is unknown, or both enabled and disabled, or if an enabled plugin lacks its configuration.
pub(crate) fn chain(on: &[String], off: &[String], settings: &PluginSettings) -> Result<AdmissionChain> {
    let messages = errors(on, off);
    if !messages.is_empty() {
        bail!(aggregate(&messages));
    }
    let plugins = all_plugins(settings);
    let off_by_default: Vec<&str> = plugins
        .iter()
        .filter(|plugin| !plugin.on_by_default())
        .map(|plugin| plugin.name())
        .collect();
    let is_on = |gate: &str| Feature::named(gate).is_none_or(|feature| settings.features.has(feature));
    let all = AdmissionChain::new(plugins).gated(is_on);
    let named = |names: &[String], name: &str| names.iter().any(|known| known == name);
    if settings.event_limits.is_empty() && named(on, config::EVENTS) {
        bail!(
            "couldn't init admission plugin {:?}: limits: Invalid value: null: must not be empty",
            config::EVENTS
        );
    }
    for name in DEPRECATED.into_iter().filter(|name| named(on, name)) {
        tracing::warn!(
            "{name} admission controller is deprecated. Please remove this controller from your configuration files and scripts."
        );
    }
    Ok(all.only(|name| named(on, name) || !named(off, name) && !off_by_default.contains(&name)))
}

#[cfg(test)]
mod tests {
    use holdfast_admission::DynamicPlugin;
    use holdfast_kind_tables::features::FeatureGates;
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn chain_of(on: &[&str], off: &[&str]) -> Result<AdmissionChain, String> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
        let gates = FeatureGates::set(&["GenericWorkload=true,ClusterTrustBundle=true".to_owned()]).unwrap();
        let text = "{limits: [{type: Server, qps: 1, burst: 1}]}";
        let limits = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
        let settings = PluginSettings {
            features: gates.features(),
            event_limits: EventLimit::from_configuration(&limits).unwrap(),
            ..PluginSettings::default()
        };
        chain(&names(on), &names(off), &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn every_plugin_of_the_reference_may_be_switched_on_and_off() {
        for name in names() {
            assert!(chain_of(&[name], &[]).unwrap().names().any(|left| left == name));
            assert!(!chain_of(&[], &[name]).unwrap().names().any(|left| left == name));
        }
        let webhooks = chain_of(&[], &["ValidatingAdmissionWebhook"]).unwrap();
        assert!(!webhooks.includes(DynamicPlugin::ValidatingWebhooks));
        assert!(webhooks.includes(DynamicPlugin::MutatingWebhooks));
    }

    #[test]
    fn other_names_are_refused_in_the_words_of_the_reference() {
        let refused = |on: &[&str], off: &[&str]| chain_of(on, off).err().unwrap();
        assert_eq!(
            refused(&["What"], &[]),
            "enable-admission-plugins plugin \"What\" is unknown"
        );
        assert_eq!(
            refused(&[], &["What"]),
            "disable-admission-plugins plugin \"What\" is unknown"
        );
        assert_eq!(
            refused(&["Priority", "LimitRanger"], &["LimitRanger", "Priority"]),
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped"
        );
        let result = chain(&["EventRateLimit".to_owned()], &[], &PluginSettings::default());
        let missing = result.map(drop).unwrap_err().to_string();
        assert!(
            missing.ends_with("limits: Invalid value: null: must not be empty"),
            "{missing}"
        );
    }
}
