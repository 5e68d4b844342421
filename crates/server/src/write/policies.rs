//! Admission policies in the way of a write: what they see of it, and what the client is told of their refusals.

use std::sync::Arc;

use holdfast_admission::DynamicPlugin;
use holdfast_admission::policies;
use holdfast_admission::policies::mutating::{self, Fault, Key, Shapes};
use holdfast_admission::policies::request::Request;
use holdfast_admission::policies::rounds::Rounds;
use holdfast_admission::policies::validating::{self, Denial};
use holdfast_merge::{Duplicates, Typed};
use holdfast_resource::{GroupVersionKind, KindType};
use holdfast_value::{SmolStr, Value};
use http::StatusCode;

use super::pipeline::Pipeline;
use super::webhooks::Asked;
use crate::http::ApiError;
use crate::http::status::{Cause, Details};

impl Pipeline<'_> {
    /// Lets policies change an object. Says whether they did.
    ///
    /// # Errors
    /// The refusal, with a cause for each policy that refuses.
    pub(super) fn change_by_policies(
        &self,
        asked: &Asked<'_>,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut Rounds<Key>,
    ) -> Result<bool, ApiError> {
        let active = self.context.policies.mutating.now();
        if !active.concerns(&self.resource().plural) || !self.asks_policies(DynamicPlugin::MutatingPolicies) {
            return Ok(false);
        }
        let outcome = mutating::mutate(&active, &self.policy_request(asked, old), object, self, rounds);
        for check in &outcome.checks {
            self.context.metrics.policies().mutated(check);
        }
        match outcome.fault {
            Some(Fault::Overgrown(error)) => return Err(ApiError::too_large_because(error)),
            Some(Fault::Misfit(why)) => return Err(ApiError::internal(why)),
            None => {}
        }
        let Some(first) = outcome.refusals.first() else {
            return Ok(outcome.changed);
        };
        let message = first.message.clone();
        let reason = if first.invalid { "Invalid" } else { "Forbidden" };
        let causes = outcome.refusals.into_iter().map(|refused| refused.message);
        Err(self.denied(
            StatusCode::FORBIDDEN,
            reason.into(),
            message,
            asked.name,
            causes.collect(),
        ))
    }

    /// Lets policies refuse the write.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) fn check_by_policies(
        &self,
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let active = self.context.policies.validating.now();
        if !active.concerns(&self.resource().plural) || !self.asks_policies(DynamicPlugin::ValidatingPolicies) {
            return Ok(());
        }
        let verdict = validating::check(&active, &self.policy_request(asked, old), object);
        for check in &verdict.checks {
            self.context.metrics.policies().validated(check);
        }
        warnings.extend(verdict.warnings);
        let Some(Denial { message, reason }) = verdict.denial else {
            return Ok(());
        };
        let code = match reason.as_str() {
            "Forbidden" => StatusCode::FORBIDDEN,
            "Unauthorized" => StatusCode::UNAUTHORIZED,
            "RequestEntityTooLarge" => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let resource = self.resource().group_resource();
        let told = if asked.name.is_empty() {
            format!("{resource} is forbidden: {message}")
        } else {
            format!("{resource} {:?} is forbidden: {message}", asked.name)
        };
        Err(self.denied(code, reason, told, asked.name, vec![message]))
    }

    fn denied(&self, code: StatusCode, reason: SmolStr, message: String, name: &str, causes: Vec<String>) -> ApiError {
        let resource = self.resource().group_resource();
        let causes = causes.into_iter().map(|message| Cause {
            message,
            ..Cause::default()
        });
        let details = Details {
            causes: causes.collect(),
            ..Details::of(&resource, name)
        };
        ApiError::new(code, reason, message, Some(details))
    }

    fn asks_policies(&self, plugin: DynamicPlugin) -> bool {
        self.context.admission.includes(plugin) && !policies::excludes(self.resource()) && !self.is_of_server()
    }

    /// The write as policies and match conditions see it.
    pub(super) fn policy_request<'b>(&'b self, asked: &'b Asked<'_>, old: Option<&'b Value>) -> Request<'b> {
        Request {
            registry: &self.target.registry,
            resource: self.resource(),
            version: self.address(),
            kind: self.body_kind(),
            subresource: &self.target.subresource,
            namespace: self.review_namespace(asked.name),
            name: asked.name,
            operation: asked.operation,
            old,
            user: &self.target.user,
            authorizer: &self.context.authorizer,
            options: asked.options(),
            dry_run: self.target.dry_run,
            lookup: &self.lookup,
        }
    }

    fn type_of(&self, kind: &GroupVersionKind) -> Option<Arc<dyn KindType>> {
        let version = kind.group_version.api_version();
        let types = self.context.field_managers.types();
        types.of_body(&self.target.shown.resource, &version, &kind.kind)
    }
}

impl Shapes for Pipeline<'_> {
    fn merge(&self, kind: &GroupVersionKind, object: &Value, configuration: Value) -> Result<Value, String> {
        let merge_type = self.type_of(kind).and_then(|of| of.merge_type());
        let (schema, of) = merge_type.ok_or("type converter must not be nil")?;
        let patch = Typed::new(configuration, Arc::clone(&schema), of, Duplicates::Refused)
            .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
        let atomics = patch.atomics();
        if !atomics.is_empty() {
            return Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                atomics.join(", ")
            ));
        }
        let merged = Typed::trusted(object.clone(), schema, of).merge(&patch);
        merged
            .map(Typed::into_value)
            .map_err(|error| format!("failed to merge patch: {error}"))
    }

    fn settle(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, Fault> {
        match self.type_of(kind) {
            Some(of) => Ok(of.fill_in(of.decode(&object)?.object)?),
            None => Ok(object),
        }
    }
}
