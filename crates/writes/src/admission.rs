//! The admission of a write: plugins, which are built in, and webhooks, which are not.

use holdfast_admission::timings::Step;
use holdfast_resource::Rejection;
use holdfast_value::Value;

use crate::attributes::Attributes;
use crate::call::Call;
use crate::error::Error;
use crate::stage::Stage;
use crate::webhooks::Rounds;

/// Converts a plugin's rejection to the error that the client receives.
pub(crate) type Refuse<'a> = &'a (dyn Fn(Rejection) -> Error + Sync);

impl Stage<'_> {
    /// Calls plugins, policies and webhooks, which may change an object. Plugins run again after a webhook that changed
    /// it. Without `refuse` plugins do not run. Returns true if policies or webhooks were called.
    ///
    /// # Errors
    /// If any of them rejects the write; returns the first rejection.
    pub(crate) async fn mutate(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
        refuse: Option<Refuse<'_>>,
    ) -> Result<bool, Error> {
        let step = self.environment.plugins().timings().step(Step::Admit, call.operation);
        step.end(self.mutate_in_rounds(call, attributes, object, old, refuse).await)
    }

    async fn mutate_in_rounds(
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
                let plugins = self.environment.plugins();
                let outcome = plugins.mutate(call, object.as_deref_mut(), old);
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

    /// Calls plugins, policies and webhooks, which may reject a write.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#AdmissionToValidateObjectFunc
    ///
    /// # Errors
    /// If any of them rejects the write; returns the first rejection.
    pub(crate) async fn validate(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        refuse: Refuse<'_>,
    ) -> Result<(), Error> {
        let objects = AdmissionObjects { object, old };
        self.validate_seen(call, attributes, &objects, &objects, refuse).await
    }

    /// Calls plugins, policies and webhooks, which may reject a write. Plugins receive the objects that are stored;
    /// policies and webhooks those that were sent, which may have another kind.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#AdmissionToValidateObjectUpdateFunc
    ///
    /// # Errors
    /// If any of them rejects the write; returns the first rejection.
    pub(crate) async fn validate_seen(
        &self,
        call: &Call<'_>,
        attributes: &Attributes<'_>,
        stored: &AdmissionObjects<'_>,
        sent: &AdmissionObjects<'_>,
        refuse: Refuse<'_>,
    ) -> Result<(), Error> {
        let plugins = self.environment.plugins();
        let step = plugins.timings().step(Step::Validate, call.operation);
        let outcome = async {
            plugins.validate(call, stored.object, stored.old).map_err(refuse)?;
            plugins.consult(call, stored.object).await.map_err(refuse)?;
            let mut said = Vec::new();
            let outcome = self.call_validating(attributes, sent.object, sent.old, &mut said).await;
            call.warn_all(said);
            outcome
        };
        step.end(outcome.await)
    }
}

/// Objects of a write.
pub(crate) struct AdmissionObjects<'a> {
    /// The new object; `None` for deletions.
    pub(crate) object: Option<&'a Value>,
    /// The existing object; `None` for creations.
    pub(crate) old: Option<&'a Value>,
}
