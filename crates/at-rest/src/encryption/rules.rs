//! Providers by resource.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_schema::GroupResource;

use super::configuration::{Configuration, KmsConfiguration};
use super::forms::Forms;
use super::kms::{KmsEvents, KmsProvider};
use super::providers::Providers;
use super::validation::parse_group_resource;

/// Wildcard for any group or resource.
const ANY: &str = "*";

/// Providers of each resource, and the plugins that they use.
#[derive(Default)]
pub(super) struct Rules {
    providers: HashMap<GroupResource, Providers>,
    plugins: Vec<Arc<KmsProvider>>,
}

impl Rules {
    /// Creates the providers of a valid configuration, and connects to its plugins.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#getTransformerOverridesAndKMSPluginProbes
    ///
    /// # Errors
    /// If an earlier rule masks a resource, or a plugin cannot be used.
    pub(super) fn new(configuration: &Configuration, forms: &Arc<Forms>, events: &KmsEvents) -> Result<Self, String> {
        let mut rules = Self::default();
        let mut plugins = Vec::new();
        let mut connect = |kms: &KmsConfiguration| {
            let plugin = KmsProvider::connect(kms, Arc::clone(forms), events.clone())?;
            plugins.push(Arc::clone(&plugin));
            Ok(plugin)
        };
        for rule in &configuration.resources {
            let providers = Providers::new(&rule.providers, forms, &mut connect)?;
            for name in &rule.resources {
                let resource = parse_group_resource(name);
                rules.check_mask(&resource)?;
                rules.providers.entry(resource).or_default().extend(&providers);
            }
        }
        rules.plugins = plugins;
        Ok(rules)
    }

    /// Rejects a resource that an earlier rule with a wildcard covers.
    fn check_mask(&self, resource: &GroupResource) -> Result<(), String> {
        let wildcards = [in_group(&resource.group), in_group(ANY)];
        let mask = wildcards.iter().find(|wildcard| self.providers.contains_key(wildcard));
        let quoted = |resource: &GroupResource| match resource.group.is_empty() && resource.resource == ANY {
            true => "\"*.\"".to_owned(),
            false => format!("\"{resource}\""),
        };
        mask.map_or(Ok(()), |mask| {
            let (masked, mask) = (quoted(resource), quoted(mask));
            Err(format!("resource {masked} is masked by earlier rule {mask}"))
        })
    }

    /// Returns the providers of a resource; `None` if it is not configured.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#transformerFromOverrides
    pub(super) fn providers(&self, resource: &GroupResource) -> Option<&Providers> {
        let configured = |resource: &GroupResource| self.providers.get(resource);
        configured(resource)
            .or_else(|| configured(&in_group(&resource.group)))
            .or_else(|| configured(&in_group(ANY)))
    }

    /// Returns the providers of all rules.
    pub(super) fn all(&self) -> impl Iterator<Item = &Providers> {
        self.providers.values()
    }

    /// Returns the plugins in the order of the configuration.
    pub(super) fn plugins(&self) -> &[Arc<KmsProvider>] {
        &self.plugins
    }
}

/// Returns the wildcard of all resources of a group.
fn in_group(group: &str) -> GroupResource {
    GroupResource {
        group: group.into(),
        resource: ANY.into(),
    }
}
