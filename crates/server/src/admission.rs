//! The chain of admission plugins that every write passes through
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).

use holdfast_resource::{AdmissionPlugin, Charge, Refusal, Resource, WriteContext};
use holdfast_value::Value;

/// Admission plugins in their order.
#[derive(Default)]
pub struct AdmissionChain(Vec<Box<dyn AdmissionPlugin>>);

impl AdmissionChain {
    /// A chain of these plugins.
    pub fn new(plugins: Vec<Box<dyn AdmissionPlugin>>) -> Self {
        Self(plugins)
    }

    /// The chain with those plugins alone for the name of which `keep` says so.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|plugin| keep(plugin.name()));
        self
    }

    /// The names of the plugins, in their order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|plugin| plugin.name())
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
        let mut plugins = self.0.iter();
        plugins.try_for_each(|plugin| plugin.mutate(context, resource, object.as_deref_mut(), old))
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
        let mut plugins = self.0.iter();
        plugins.try_for_each(|plugin| plugin.validate(context, resource, object, old))
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
        for plugin in &self.0 {
            charges.append(&mut plugin.charge(context, resource, object, old)?);
        }
        Ok(charges)
    }
}
