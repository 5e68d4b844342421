//! Admission policies of a write: their inputs, and the errors of their rejections.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::environment::ConditionOwner;
use crate::error::{Error, ErrorKind};
use crate::stage::Stage;
use holdfast_admission::DynamicPlugin;
use holdfast_admission::policies::Active;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::policies::mutating::{self, Key, MutationError, Mutations, ObjectTypes};
use holdfast_admission::policies::reinvocation::Reinvocation;
use holdfast_admission::policies::request::Request;
use holdfast_admission::policies::validating::{self, Denial, Validations};
use holdfast_admission::webhooks::WebhookType;
use holdfast_merge::{Duplicates, Typed};
use holdfast_schema::{GroupVersionKind, KindType, Provenance};
use holdfast_value::{SmolStr, Value};

const FORBIDDEN: u16 = 403;

impl Stage<'_> {
    /// Evaluates the policies that may change an object. Returns true if they did.
    ///
    /// # Errors
    /// If policies deny the write; the error has a cause for each of them.
    pub(crate) fn change_by_policies(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut Reinvocation<Key>,
    ) -> Result<bool, Error> {
        let active = &self.environment.policies().mutating;
        if !active.concerns(&self.resource().plural) || !self.asks_policies(DynamicPlugin::MutatingPolicies) {
            return Ok(false);
        }
        let timing = self.timing(DynamicPlugin::MutatingPolicies, attributes);
        timing.end(self.change_by(active, attributes, object, old, rounds))
    }

    fn change_by(
        &self,
        active: &Active<Mutations>,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut Reinvocation<Key>,
    ) -> Result<bool, Error> {
        let outcome = mutating::mutate(active, &self.policy_request(attributes, old), object, self, rounds);
        for check in &outcome.checks {
            self.environment.callers().evaluated(WebhookType::Mutating, check);
        }
        self.count_conditions(&outcome.conditions, attributes);
        match outcome.error {
            Some(MutationError::Overgrown(error)) => return Err(Error::too_large_because(error)),
            Some(MutationError::Misfit(why)) => return Err(Error::internal(why)),
            None => {}
        }
        let Some(first) = outcome.rejections.first() else {
            return Ok(outcome.changed);
        };
        let message = first.message.clone();
        let reason = if first.invalid { "Invalid" } else { "Forbidden" };
        let causes = outcome.rejections.into_iter().map(|refused| refused.message);
        let name = reported_name(attributes, Some(object));
        Err(self.denied(FORBIDDEN, reason.into(), message, name, causes.collect()))
    }

    /// Evaluates the policies that may deny the write.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#dispatcher.Dispatch
    ///
    /// # Errors
    /// If a policy denies the write; returns the first denial.
    pub(crate) fn check_by_policies(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let active = &self.environment.policies().validating;
        if !active.concerns(&self.resource().plural) || !self.asks_policies(DynamicPlugin::ValidatingPolicies) {
            return Ok(());
        }
        let timing = self.timing(DynamicPlugin::ValidatingPolicies, attributes);
        timing.end(self.check_by(active, attributes, object, old, warnings))
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#dispatcher.Dispatch
    fn check_by(
        &self,
        active: &Active<Validations>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let verdict = validating::check(active, &self.policy_request(attributes, old), object);
        for check in &verdict.checks {
            self.environment.callers().evaluated(WebhookType::Validating, check);
        }
        self.count_conditions(&verdict.conditions, attributes);
        warnings.extend(verdict.warnings);
        for (key, value) in verdict.annotations {
            self.annotate(&key, || value);
        }
        let Some(Denial { message, reason }) = verdict.denial else {
            return Ok(());
        };
        let code = match reason.as_str() {
            "Forbidden" => FORBIDDEN,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        let resource = self.resource().group_resource();
        let name = reported_name(attributes, object);
        let rejection = format!("{resource} {name:?} is forbidden: {message}");
        Err(self.denied(code, reason, rejection, name, vec![message]))
    }

    fn count_conditions(&self, checks: &[ConditionCheck], attributes: &Attributes<'_>) {
        for check in checks {
            let callers = self.environment.callers();
            callers.matched(ConditionOwner::Policy, attributes.operation, check);
        }
    }

    fn denied(&self, code: u16, reason: SmolStr, message: String, name: &str, causes: Vec<String>) -> Error {
        ErrorKind::Denied {
            resource: self.resource().group_resource(),
            name: name.to_owned(),
            code,
            reason,
            message,
            causes,
        }
        .into()
    }

    /// Returns true if policies may be evaluated for the write.
    pub(crate) fn may_ask_policies(&self) -> bool {
        let (policies, plural) = (self.environment.policies(), &self.resource().plural);
        policies.mutating.concerns(plural) && self.asks_policies(DynamicPlugin::MutatingPolicies)
            || policies.validating.concerns(plural) && self.asks_policies(DynamicPlugin::ValidatingPolicies)
    }

    fn asks_policies(&self, plugin: DynamicPlugin) -> bool {
        let exempt = self.resource().capabilities.exempt;
        self.environment.plugins().includes(plugin)
            && (!exempt.policies || exempt.but_of_files)
            && !self.target.writer.internal
    }

    /// Returns the write in the form that policies and match conditions receive.
    pub(crate) fn policy_request<'b>(&'b self, attributes: &'b Attributes<'_>, old: Option<&'b Value>) -> Request<'b> {
        Request {
            registry: self.environment.registry(self.target),
            resource: self.resource(),
            version: self.address_version(),
            kind: self.body_kind(),
            subresource: &self.target.subresource,
            namespace: self.review_namespace(attributes.name),
            name: attributes.name,
            operation: attributes.operation,
            old,
            user: &self.target.writer.user,
            authorizer: self.environment.authorizer(),
            options: attributes.options(),
            dry_run: self.target.request.dry_run,
            lookup: self.environment.lookup(),
        }
    }

    fn type_of(&self, kind: &GroupVersionKind) -> Option<Arc<dyn KindType>> {
        let version = kind.group_version.api_version();
        let types = self.environment.field_managers().types();
        self.target.resource.body_type(types, &version, &kind.kind)
    }
}

impl ObjectTypes for Stage<'_> {
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch#ApplyStructuredMergeDiff
    fn merge(&self, kind: &GroupVersionKind, object: &Value, configuration: Value) -> Result<Value, String> {
        let merge_type = self.type_of(kind).and_then(|of| of.merge_type());
        let (schema, of) = merge_type.ok_or("type converter must not be nil")?;
        let patch = Typed::new(configuration, Arc::clone(&schema), of, Duplicates::Rejected)
            .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
        let atomics = patch.atomics();
        if !atomics.is_empty() {
            return Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                atomics.join(", ")
            ));
        }
        // Objects from clients may not match their type; validation comes later.
        let original = Typed::new(object.clone(), schema, of, Duplicates::Allowed)
            .map_err(|error| format!("failed to convert original object to typed object: {error}"))?;
        original
            .merge(&patch)
            .map(Typed::into_value)
            .map_err(|error| format!("failed to merge patch: {error}"))
    }

    fn conform(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, MutationError> {
        match self.type_of(kind) {
            // A `null` that a policy sets where none is allowed stays and is rejected later.
            Some(of) => Ok(of.fill_in_from(of.decode(&object)?.object, Provenance::apply())?),
            None => Ok(object),
        }
    }
}

/// Returns the name that a denial reports: a collection has none, and a new object may not have one yet.
fn reported_name<'a>(attributes: &Attributes<'a>, object: Option<&'a Value>) -> &'a str {
    let text = |field| object.and_then(|object| object.str_at(&["metadata", field]));
    let names = [Some(attributes.name), text("generateName")];
    let mut stated = names.into_iter().flatten().filter(|name| !name.is_empty());
    stated.next().unwrap_or("Unknown")
}
