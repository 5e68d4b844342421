//! The admission of a write: plugins, which are built in, and webhooks, which are not.

use holdfast_resource::Refusal;
use holdfast_value::Value;

use crate::webhooks::{Attributes, Rounds};
use crate::{Call, Error, Stage};

/// Makes the error that a client gets of a refusal by a plugin.
pub(crate) type Refuse<'a> = &'a (dyn Fn(Refusal) -> Error + Sync);

impl Stage<'_> {
    /// Calls plugins, policies and webhooks, which may change an object. Plugins run again after a webhook that changed it.
    /// Without `refuse` plugins do not run. Returns whether policies or webhooks were called.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn mutate(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        refuse: Option<Refuse<'_>>,
    ) -> Result<bool, Error> {
        let mut rounds = Rounds::default();
        let managers = |object: &Value| object.at(&["metadata", "managedFields"]).cloned();
        let before = object.as_deref().and_then(managers);
        loop {
            if let Some(refuse) = refuse {
                let plugins = self.environment.plugins;
                let outcome = plugins.mutate(call, self.resource(), object.as_deref_mut(), old);
                outcome.map_err(refuse)?;
            }
            let mut said = Vec::new();
            let round = self.call_mutating(attributes, object.as_deref_mut(), old, &mut rounds, &mut said);
            let again = round.await;
            call.warn_all(said);
            if !again? {
                break;
            }
        }
        if let Some(object) = object.filter(|_| rounds.took_place()) {
            self.keep_managers(call, object, before.as_ref());
        }
        Ok(rounds.took_place())
    }

    /// Calls plugins, policies and webhooks, which may refuse a write.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn validate(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        refuse: Refuse<'_>,
    ) -> Result<(), Error> {
        let plugins = self.environment.plugins;
        plugins.validate(call, self.resource(), object, old).map_err(refuse)?;
        self.validate_outside(call, attributes, object, old).await
    }

    /// Calls policies and webhooks, which may refuse a write.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn validate_outside(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Error> {
        let mut said = Vec::new();
        let outcome = self.call_validating(attributes, object, old, &mut said).await;
        call.warn_all(said);
        outcome
    }
}
