//! The run of a request that stores no object of its own: reviews and requests for an action.

use holdfast_resource::access::{self, TokenError, TokenUser};
use holdfast_resource::{Operation, Rejection, Review, SubresourceAction};
use holdfast_value::{SmolStr, Value};

use crate::admission::Refuse;
use crate::call::Call;
use crate::error::Error;
use crate::stage::{Stage, check_namespace};
use crate::{metadata, tracking};

impl Stage<'_> {
    /// Returns the response of `review` to a POST of `object`, which is decoded, typed and has its defaults, and the
    /// warnings for the client.
    ///
    /// # Errors
    /// If the request is rejected or the review fails.
    pub async fn answer(&self, review: &dyn Review, mut object: Value) -> Result<(Value, Vec<String>), Error> {
        let target = self.target;
        metadata::wipe(&mut object);
        check_namespace(&mut object, &target.namespace)?;
        let call = self.call(Operation::Create, &target.name);
        let refuse = |rejection| self.rejection_of_answer(rejection, review.named_when_invalid());
        tracking::update_as(self.environment.field_managers(), target, None, &mut object);
        if !target.name.is_empty() {
            target.check_key()?;
        }
        let prepare = |object: &mut Value| review.prepare(&call, object);
        let admitted = self.admit_request(&call, &mut object, prepare, &refuse).await;
        admitted.map_err(|error| call.refused(error))?;
        let outcome = self.ask_about_token(review, &object).await;
        let result = match outcome {
            Some(outcome) => review.review_token(&call, object, outcome),
            None => self.review(review, &call, object).await,
        };
        let answer = result.map_err(|rejection| call.refused(refuse(rejection)))?;
        let warnings = call.warnings();
        call.after_commit().stored();
        Ok((answer, warnings))
    }

    /// Returns the response of `review`. If it issues a token, and the signer of tokens is outside of this process, waits
    /// for the signature.
    async fn review(&self, review: &dyn Review, call: &Call<'_>, object: Value) -> Result<Value, Rejection> {
        let Some(signer) = self.environment.access().issuer.signer() else {
            return review.review(call, object);
        };
        let Some(mut draft) = review.draft_token(call, &object)? else {
            return review.review(call, object);
        };
        let signed = signer.sign(&draft.token.token).await;
        draft.token.token = signed.map_err(|why| Rejection::Failed(format!("failed to generate token: {why}")))?;
        Ok(review.respond_with_token(call, draft))
    }

    /// Authenticates the token of a review, if other servers may have to be asked about it.
    async fn ask_about_token(&self, review: &dyn Review, object: &Value) -> Option<Result<TokenUser, TokenError>> {
        let tokens = self.environment.access().tokens;
        tokens.remote()?;
        let (token, audiences) = review.token_question(object)?;
        Some(access::authenticate(tokens, token, &audiences).await)
    }

    /// Runs admission for a request for an action. Returns the warnings for the client.
    ///
    /// # Errors
    /// If the request is rejected.
    pub async fn admit_action(
        &self,
        action: &dyn SubresourceAction,
        request: &mut Value,
    ) -> Result<Vec<String>, Error> {
        let target = self.target;
        check_namespace(request, &target.namespace)?;
        let call = self.call(Operation::Create, &target.name);
        let refuse = |rejection| self.rejection(rejection, &target.name);
        tracking::update_as(self.environment.field_managers(), target, None, request);
        let admitted = self
            .admit_request(&call, request, |request| action.check(&call, request), &refuse)
            .await;
        admitted.map_err(|error| call.refused(error))?;
        let warnings = call.warnings();
        call.after_commit().stored();
        Ok(warnings)
    }

    /// Runs admission for a body that is not stored.
    async fn admit_request(
        &self,
        call: &Call<'_>,
        request: &mut Value,
        prepare: impl FnOnce(&mut Value) -> Result<(), Rejection>,
        refuse: Refuse<'_>,
    ) -> Result<(), Error> {
        let name = match self.target.name.as_str() {
            "" => SmolStr::new(metadata::name(request)),
            name => SmolStr::new(name),
        };
        let attributes = self.attributes("CREATE", &name);
        self.mutate(call, &attributes, Some(request), None, Some(refuse))
            .await?;
        prepare(request).map_err(refuse)?;
        self.validate(call, &attributes, Some(request), None, refuse).await
    }
}
