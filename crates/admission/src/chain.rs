//! The chain of admission plugins that every write passes through
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).

use std::collections::HashMap;

use holdfast_resource::{Refusal, Resource, WriteContext};
use holdfast_value::Value;

use crate::plugin::ANY;
use crate::{AdmissionPlugin, Charge};

/// A plugin that asks objects of the API rather than code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicPlugin {
    /// Asks MutatingAdmissionPolicies.
    MutatingPolicies,
    /// Calls mutating webhooks.
    MutatingWebhooks,
    /// Asks ValidatingAdmissionPolicies.
    ValidatingPolicies,
    /// Calls validating webhooks.
    ValidatingWebhooks,
}

impl DynamicPlugin {
    /// All of them, in the order in which writes pass them.
    pub const ALL: [Self; 4] = [
        Self::MutatingPolicies,
        Self::MutatingWebhooks,
        Self::ValidatingPolicies,
        Self::ValidatingWebhooks,
    ];

    /// The name by which flags turn it on and off.
    pub fn name(self) -> &'static str {
        match self {
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::MutatingWebhooks => "MutatingAdmissionWebhook",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::ValidatingWebhooks => "ValidatingAdmissionWebhook",
        }
    }
}

/// Admission plugins in their order. Each is called for the writes alone that concern it.
pub struct AdmissionChain {
    plugins: Vec<Box<dyn AdmissionPlugin>>,
    dynamic: Vec<DynamicPlugin>,
    /// The plugins, by their places, that may have to do with resources of a plural name that any of them names.
    named: HashMap<&'static str, Vec<usize>>,
    /// Those that have to do with resources that none of them names.
    others: Vec<usize>,
}

impl Default for AdmissionChain {
    /// The dynamic plugins alone.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl AdmissionChain {
    /// A chain of these plugins and of all dynamic ones.
    pub fn new(plugins: Vec<Box<dyn AdmissionPlugin>>) -> Self {
        Self::of(plugins, DynamicPlugin::ALL.to_vec())
    }

    fn of(plugins: Vec<Box<dyn AdmissionPlugin>>, dynamic: Vec<DynamicPlugin>) -> Self {
        let wanted = |plugin: &dyn AdmissionPlugin| -> Vec<&'static str> {
            let interests = plugin.interests().iter();
            interests.map(|interest| interest.resource).collect()
        };
        let wanting = |plural: &str| -> Vec<usize> {
            let wants = |plugin: &dyn AdmissionPlugin| {
                let wanted = wanted(plugin);
                wanted.contains(&ANY) || wanted.contains(&plural)
            };
            let all = plugins.iter().enumerate();
            all.filter(|(_, plugin)| wants(plugin.as_ref()))
                .map(|(at, _)| at)
                .collect()
        };
        let names = plugins.iter().flat_map(|plugin| wanted(plugin.as_ref()));
        let named = names.filter(|name| *name != ANY).map(|name| (name, wanting(name)));
        Self {
            named: named.collect(),
            others: wanting(ANY),
            plugins,
            dynamic,
        }
    }

    /// The chain with those plugins alone for the name of which `keep` says so.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.plugins.retain(|plugin| keep(plugin.name()));
        self.dynamic.retain(|plugin| keep(plugin.name()));
        Self::of(self.plugins, self.dynamic)
    }

    /// The names of the plugins.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let plugins = self.plugins.iter().map(|plugin| plugin.name());
        plugins.chain(self.dynamic.iter().map(|plugin| plugin.name()))
    }

    /// Whether a dynamic plugin is part of the chain. Who runs it asks here first.
    pub fn includes(&self, plugin: DynamicPlugin) -> bool {
        self.dynamic.contains(&plugin)
    }

    /// The plugins that a write concerns.
    fn concerned<'a>(
        &'a self,
        context: &'a WriteContext<'_>,
        resource: &'a Resource,
    ) -> impl Iterator<Item = &'a dyn AdmissionPlugin> {
        let places = self.named.get(resource.plural.as_str()).unwrap_or(&self.others);
        places
            .iter()
            .filter_map(|place| self.plugins.get(*place))
            .map(AsRef::as_ref)
            .filter(|plugin| plugin.concerns(context, resource))
    }

    /// Lets each plugin change the object. `object` is `None` for deletions, `old` for creations.
    ///
    /// # Errors
    /// The first refusal.
    pub fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        self.concerned(context, resource)
            .try_for_each(|plugin| plugin.mutate(context, resource, object.as_deref_mut(), old))
    }

    /// Lets each plugin refuse the write. `object` is `None` for deletions, `old` for creations.
    ///
    /// # Errors
    /// The first refusal.
    pub fn validate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        self.concerned(context, resource)
            .try_for_each(|plugin| plugin.validate(context, resource, object, old))
    }

    /// What the write takes from what is limited, once all else agreed to it. `old` reads the object in place, for updates.
    ///
    /// # Errors
    /// The first refusal.
    pub fn charge(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Charge>, Refusal> {
        let mut charges = Vec::new();
        for plugin in self.concerned(context, resource) {
            charges.append(&mut plugin.charge(context, resource, object, old)?);
        }
        Ok(charges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interest;

    /// A plugin of that name that wants to see new objects of that plural name.
    struct Plugin(&'static str, [Interest; 1]);

    impl AdmissionPlugin for Plugin {
        fn name(&self) -> &'static str {
            self.0
        }

        fn interests(&self) -> &[Interest] {
            &self.1
        }
    }

    #[test]
    fn plugins_are_found_in_their_order_by_what_they_want() {
        let plugin = |name, plural| Box::new(Plugin(name, [Interest::in_new("", plural)])) as Box<dyn AdmissionPlugin>;
        let plugins = vec![
            plugin("a", "pods"),
            plugin("b", "*"),
            plugin("c", "pods"),
            plugin("d", "nodes"),
        ];
        let chain = AdmissionChain::new(plugins);
        assert_eq!(chain.named["pods"], [0, 1, 2]);
        assert_eq!(chain.named["nodes"], [1, 3]);
        assert_eq!(chain.others, [1]);
        let fewer = chain.only(|name| name != "b");
        assert_eq!(fewer.named["pods"], [0, 1]);
        assert!(fewer.others.is_empty());
    }

    #[test]
    fn dynamic_plugins_are_switched_by_name_like_all_others() {
        let chain = AdmissionChain::default();
        assert!(DynamicPlugin::ALL.iter().all(|plugin| chain.includes(*plugin)));
        let fewer = chain.only(|name| name != "ValidatingAdmissionWebhook");
        assert!(!fewer.includes(DynamicPlugin::ValidatingWebhooks));
        assert_eq!(
            fewer.names().collect::<Vec<_>>(),
            [
                "MutatingAdmissionPolicy",
                "MutatingAdmissionWebhook",
                "ValidatingAdmissionPolicy"
            ]
        );
    }
}
