//! The admission of a write: plugins, which are built in, and webhooks, which are not.

use holdfast_resource::Refusal;
use holdfast_value::Value;

use crate::webhooks::{Attributes, Rounds};
use crate::{Call, Error, Stage};

/// How a refusal by a plugin is told to the client.
pub(crate) type Refuse<'a> = &'a (dyn Fn(Refusal) -> Error + Sync);

impl Stage<'_> {
    /// Lets plugins and then webhooks change an object; a second time where webhooks did, so that plugins see what became
    /// of it. Without `refuse` plugins have no part. Says whether webhooks were asked.
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

    /// Lets plugins and then webhooks refuse a write.
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

    /// Lets webhooks alone refuse a write.
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
