//! Which admission plugins the flags leave on.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use holdfast_admission::AdmissionChain;
use holdfast_kinds::admission::{KNOWN, all_plugins};
use holdfast_kinds::features::{Feature, Features};

/// The plugins that do nothing unless a feature is on.
const GATED: [(&str, Feature); 3] = [
    ("MutatingAdmissionPolicy", Feature::MutatingAdmissionPolicy),
    ("PodTopologyLabels", Feature::PodTopologyLabelsAdmission),
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
pub(crate) fn chain(on: &[String], off: &[String], features: Features) -> Result<AdmissionChain> {
    let plugins = all_plugins();
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
    let all = all.only(|name| gate(name).is_none_or(|feature| features.has(feature)));
    let named = |names: &[String], name: &str| names.iter().any(|known| known == name);
    Ok(all.only(|name| named(on, name) || !named(off, name) && !off_by_default.contains(&name)))
}

#[cfg(test)]
mod tests {
    use holdfast_admission::DynamicPlugin;

    use super::*;

    fn chain_of(on: &[&str], off: &[&str]) -> Result<AdmissionChain, String> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
        chain(&names(on), &names(off), Features::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_plugin_that_is_here_may_be_switched_on_and_off() {
        let all = AdmissionChain::new(all_plugins());
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
