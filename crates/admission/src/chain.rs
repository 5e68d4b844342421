//! The chain of admission plugins that every write passes through
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::plugin::ANY;
use crate::timings::{OPERATIONS, Pass, Step, TimedPlugin, Timings};
use crate::{AdmissionPlugin, Calls, Reservation};

/// A plugin whose rules are objects of the API rather than code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicPlugin {
    /// Evaluates MutatingAdmissionPolicies.
    MutatingPolicies,
    /// Calls mutating webhooks.
    MutatingWebhooks,
    /// Evaluates ValidatingAdmissionPolicies.
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

    /// Returns the name by which flags enable and disable it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::MutatingWebhooks => "MutatingAdmissionWebhook",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::ValidatingWebhooks => "ValidatingAdmissionWebhook",
        }
    }

    /// The calls that metrics count.
    pub(crate) fn calls(self) -> Calls {
        match self {
            Self::MutatingPolicies => Calls::admitting(&[Operation::Create, Operation::Update, Operation::Connect]),
            Self::MutatingWebhooks => Calls::admitting(&OPERATIONS),
            Self::ValidatingPolicies | Self::ValidatingWebhooks => Calls::validating(&OPERATIONS),
        }
    }

    /// Returns the feature gate that enables the plugin.
    fn gate(self) -> Option<&'static str> {
        (self == Self::MutatingPolicies).then_some(self.name())
    }
}

/// Returns the properties of a plugin that metrics need. Plugins that reserve quotas are called last.
fn timed(plugin: &dyn AdmissionPlugin) -> TimedPlugin {
    TimedPlugin {
        name: plugin.name(),
        calls: plugin.calls(),
        last: plugin.reserves(),
    }
}

/// Admission plugins in their order. Each is called only for writes that concern it.
pub struct AdmissionChain {
    plugins: Vec<Box<dyn AdmissionPlugin>>,
    dynamic: Vec<DynamicPlugin>,
    /// Indexes of the plugins that may concern a resource, by the plural names that any plugin names.
    named: HashMap<&'static str, Vec<usize>>,
    /// Indexes of the plugins for all other resources.
    others: Vec<usize>,
    timings: Arc<Timings>,
    provides_namespaces: bool,
    /// Indexes of the plugins that consult others.
    asking: Vec<usize>,
}

impl Default for AdmissionChain {
    /// Creates a chain of only the dynamic plugins.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl AdmissionChain {
    /// Creates a chain of these plugins and all dynamic ones.
    pub fn new(plugins: Vec<Box<dyn AdmissionPlugin>>) -> Self {
        Self::with_dynamic(plugins, DynamicPlugin::ALL.to_vec())
    }

    fn with_dynamic(plugins: Vec<Box<dyn AdmissionPlugin>>, dynamic: Vec<DynamicPlugin>) -> Self {
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
            timings: Arc::new(Timings::new(
                plugins.iter().map(|plugin| timed(plugin.as_ref())),
                &dynamic,
            )),
            asking: (0..)
                .zip(&plugins)
                .filter(|(_, plugin)| plugin.asks_others())
                .map(|(at, _)| at)
                .collect(),
            provides_namespaces: plugins.iter().any(|plugin| plugin.provides_namespaces()),
            plugins,
            dynamic,
        }
    }

    /// Keeps only the plugins whose names `keep` accepts.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.plugins.retain(|plugin| keep(plugin.name()));
        self.dynamic.retain(|plugin| keep(plugin.name()));
        Self::with_dynamic(self.plugins, self.dynamic)
    }

    /// Removes the plugins whose feature gates are not `on`.
    #[must_use]
    pub fn gated(mut self, on: impl Fn(&str) -> bool) -> Self {
        self.plugins.retain(|plugin| plugin.gate().is_none_or(&on));
        self.dynamic.retain(|plugin| plugin.gate().is_none_or(&on));
        Self::with_dynamic(self.plugins, self.dynamic)
    }

    /// Returns the feature gate that enables the plugin of that name.
    pub fn gate(&self, name: &str) -> Option<&'static str> {
        let plugin = self.plugins.iter().find(|plugin| plugin.name() == name);
        let dynamic = || self.dynamic.iter().find(|plugin| plugin.name() == name);
        match plugin {
            Some(plugin) => plugin.gate(),
            None => dynamic().and_then(|plugin| plugin.gate()),
        }
    }

    /// Returns the names of the plugins.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let plugins = self.plugins.iter().map(|plugin| plugin.name());
        plugins.chain(self.dynamic.iter().map(|plugin| plugin.name()))
    }

    /// Returns true if a dynamic plugin is part of the chain. Callers check this before they run it.
    pub fn includes(&self, plugin: DynamicPlugin) -> bool {
        self.dynamic.contains(&plugin)
    }

    /// Returns true if the server creates missing namespaces of new objects.
    pub fn provides_namespaces(&self) -> bool {
        self.provides_namespaces
    }

    /// Returns the durations of the plugins.
    pub fn timings(&self) -> &Arc<Timings> {
        &self.timings
    }

    /// Returns the plugins that a write concerns, with their indexes: those that reserve quotas for it, or the others.
    fn concerned<'a>(
        &'a self,
        context: &'a WriteContext<'_>,
        reserves: bool,
    ) -> impl Iterator<Item = (usize, &'a dyn AdmissionPlugin)> {
        let places = self.named.get(context.resource.plural.as_str()).unwrap_or(&self.others);
        places
            .iter()
            .filter_map(|place| Some((*place, self.plugins.get(*place)?.as_ref())))
            .filter(move |(_, plugin)| plugin.reserves() == reserves && plugin.concerns(context))
    }

    /// Calls the plugins that a write concerns, until one of them rejects it.
    fn call(
        &self,
        mut pass: Pass<'_>,
        context: &WriteContext<'_>,
        mut call: impl FnMut(&dyn AdmissionPlugin) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        for (place, plugin) in self.concerned(context, false) {
            let outcome = call(plugin);
            pass.called(place, outcome.is_err());
            outcome?;
        }
        Ok(())
    }

    /// Lets each plugin change the object. `object` is `None` for deletions, `old` for creations.
    ///
    /// # Errors
    /// If a plugin rejects the write; the first rejection.
    pub fn mutate(
        &self,
        context: &WriteContext<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let pass = self.timings.pass(Step::Admit, context.operation);
        self.call(pass, context, |plugin| {
            plugin.mutate(context, object.as_deref_mut(), old)
        })
    }

    /// Lets each plugin validate the write. `object` is `None` for deletions, `old` for creations.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission#chainAdmissionHandler.Validate
    ///
    /// # Errors
    /// If a plugin rejects the write; the first rejection.
    pub fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let pass = self.timings.pass(Step::Validate, context.operation);
        self.call(pass, context, |plugin| plugin.validate(context, object, old))
    }

    /// Lets plugins consult others about the write. `object` is `None` for deletions.
    ///
    /// # Errors
    /// If a plugin rejects the write; the first rejection.
    pub async fn consult(&self, context: &WriteContext<'_>, object: Option<&Value>) -> Result<(), Rejection> {
        let asking = self.asking.iter().filter_map(|place| self.plugins.get(*place));
        for plugin in asking.filter(|plugin| plugin.concerns(context)) {
            plugin.consult(context, object).await?;
        }
        Ok(())
    }

    /// Returns the quota reservations of a write that all plugins allow. `old` reads the stored object, for updates.
    ///
    /// # Errors
    /// If a plugin rejects the write; the first rejection.
    pub fn reserve(
        &self,
        context: &WriteContext<'_>,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Reservation>, Rejection> {
        let mut reservations = Vec::new();
        for (place, plugin) in self.concerned(context, true) {
            let mut calls = self.timings.calls(Step::Validate, context.operation);
            let outcome = plugin.reserve(context, object, old);
            calls.reserved(place, outcome.is_err());
            reservations.append(&mut outcome?);
        }
        Ok(reservations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interest;

    /// A plugin of that name that handles the creation of objects with that plural name.
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
