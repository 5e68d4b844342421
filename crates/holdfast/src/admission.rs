//! Which admission plugins the flags leave on.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use holdfast_admission::AdmissionChain;
use holdfast_kinds::admission::{KNOWN, PluginSettings, all_plugins};
use holdfast_kinds::features::{Feature, Features};

/// For how long Pods stay on nodes that are in trouble.
#[derive(Clone, Debug, Args)]
pub(crate) struct TolerationFlags {
    /// For how many seconds a Pod that does not say otherwise stays on a node that is not ready
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_hyphen_values = true)]
    default_not_ready_toleration_seconds: i64,

    /// For how many seconds a Pod that does not say otherwise stays on a node that cannot be reached
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_hyphen_values = true)]
    default_unreachable_toleration_seconds: i64,
}

impl TolerationFlags {
    pub(crate) fn settings(&self, features: Features) -> PluginSettings {
        PluginSettings {
            not_ready_seconds: self.default_not_ready_toleration_seconds,
            unreachable_seconds: self.default_unreachable_toleration_seconds,
            features,
        }
    }
}

/// The plugins that do nothing unless a feature is on.
const GATED: [(&str, Feature); 5] = [
    ("MutatingAdmissionPolicy", Feature::MutatingAdmissionPolicy),
    ("PodTopologyLabels", Feature::PodTopologyLabelsAdmission),
    ("PodGroupWorkloadExists", Feature::GenericWorkload),
    ("JobValidation", Feature::GenericWorkload),
    ("NodeDeclaredFeatureValidator", Feature::NodeDeclaredFeatures),
];

/// The feature without which a plugin does nothing.
pub(crate) fn gate(plugin: &str) -> Option<Feature> {
    let gated = GATED.iter().find(|(name, _)| *name == plugin);
    gated.map(|(_, feature)| *feature)
}

/// The plugins that are left where `on` are switched on and `off` are switched off. All names of kube-apiserver are known; what
/// is not here may be switched off, but not on.
///
/// # Errors
/// Where a name is not known, switched on and off, or switched on and not here.
pub(crate) fn chain(on: &[String], off: &[String], settings: &PluginSettings) -> Result<AdmissionChain> {
    let plugins = all_plugins(settings);
    let is_known = |name: &str| KNOWN.contains(&name) || plugins.iter().any(|plugin| plugin.name() == name);
    for (flag, names) in [("enable", on), ("disable", off)] {
        if let Some(unknown) = names.iter().find(|name| !is_known(name.as_str())) {
            bail!("{flag}-admission-plugins plugin {unknown:?} is unknown");
        }
    }
    let both: BTreeSet<&str> = on
        .iter()
        .filter(|name| off.contains(name))
        .map(String::as_str)
        .collect();
    if !both.is_empty() {
        let both: Vec<&str> = both.into_iter().collect();
        bail!(
            "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
            both.join(" ")
        );
    }
    let off_by_default: Vec<&str> = plugins
        .iter()
        .filter(|plugin| !plugin.on_by_default())
        .map(|plugin| plugin.name())
        .collect();
    let all = AdmissionChain::new(plugins);
    if let Some(missing) = on.iter().find(|name| !all.names().any(|known| known == name.as_str())) {
        let known: Vec<&str> = all.names().collect();
        bail!(
            "the admission plugin {missing} is not available; there are {}",
            known.join(", ")
        );
    }
    let all = all.only(|name| gate(name).is_none_or(|feature| settings.features.has(feature)));
    let named = |names: &[String], name: &str| names.iter().any(|known| known == name);
    Ok(all.only(|name| named(on, name) || !named(off, name) && !off_by_default.contains(&name)))
}

#[cfg(test)]
mod tests {
    use holdfast_admission::DynamicPlugin;
    use holdfast_kinds::features::FeatureGates;

    use super::*;

    fn flags() -> TolerationFlags {
        use clap::Parser as _;
        crate::flags::Arguments::try_parse_from(["holdfast"])
            .unwrap()
            .serve
            .tolerations
    }

    fn chain_of(on: &[&str], off: &[&str]) -> Result<AdmissionChain, String> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
        let gates = FeatureGates::set(&["GenericWorkload=true".to_owned()]).unwrap();
        chain(&names(on), &names(off), &flags().settings(gates.features())).map_err(|error| error.to_string())
    }

    #[test]
    fn every_plugin_that_is_here_may_be_switched_on_and_off() {
        let all = AdmissionChain::new(all_plugins(&PluginSettings::default()));
        for name in all.names() {
            assert!(KNOWN.contains(&name), "{name}");
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
        assert!(refused(&["AlwaysDeny"], &[]).starts_with("the admission plugin AlwaysDeny is not available"));
        assert!(chain_of(&[], &["AlwaysDeny"]).is_ok());
    }
}
