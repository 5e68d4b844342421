//! Webhooks in the way of a write: which of them are asked, what about, and what becomes of their answers.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_kinds::policies;
use holdfast_kinds::webhooks::answer::Answer;
use holdfast_kinds::webhooks::matching::{Attributes, Invocation};
use holdfast_kinds::webhooks::review::Review;
use holdfast_kinds::webhooks::{Hooks, Sort, Webhook};
use holdfast_resource::{GroupResource, GroupVersion, GroupVersionKind, Lookup as _};
use holdfast_value::{SmolStr, Value, json_patch};

use super::pipeline::Pipeline;
use crate::ApiError;
use crate::conversion;
use crate::webhooks::{CallError, rejection};

/// What webhooks are asked about, beside the objects.
pub(super) struct Asked<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(super) operation: &'static str,
    /// The name of the object.
    pub(super) name: &'a str,
    /// The options of the write.
    pub(super) options: Value,
}

/// What is known of the rounds in which webhooks change an object: when one changes it, those before it that wish so are
/// asked once more, after the plugins.
#[derive(Default)]
pub(super) struct Rounds {
    hooks: Option<Arc<Hooks>>,
    second: bool,
    /// Those that were asked and wish to be asked again.
    asked: Vec<usize>,
    /// Those that are to be asked again.
    again: HashSet<usize>,
    output: Option<Value>,
    policies: policies::rounds::Rounds<policies::mutating::Key>,
    /// Whether the first round is over.
    begun: bool,
}

impl Rounds {
    /// Whether policies or webhooks were asked.
    pub(super) fn took_place(&self) -> bool {
        self.hooks.is_some() || self.policies.took_place()
    }
}

/// Why a webhook gave no answer that counts.
fn failure(webhook: &Webhook, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::internal(format!("failed calling webhook {:?}: {why}", webhook.name.as_str()))
}

impl Pipeline<'_> {
    /// Lets policies and then webhooks change an object, or refuse the write. Says whether there is a second round to come,
    /// before which plugins are asked again.
    ///
    /// # Errors
    /// The first refusal, with what was warned of until then.
    pub(super) async fn call_mutating(
        &self,
        asked: &Asked<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<bool, ApiError> {
        let first = !std::mem::replace(&mut rounds.begun, true);
        let mut again = match object.as_deref_mut() {
            Some(object) => self.change_by_policies(asked, object, old, &mut rounds.policies)?,
            None => false,
        };
        if rounds.hooks.is_none() {
            let now = self.context.webhooks.configured().now();
            if now.mutating.is_empty() || self.is_exempt() {
                return Ok(first && again);
            }
            rounds.hooks = Some(Arc::clone(&now));
        }
        let outcome = Box::pin(self.mutating_round(asked, object.as_deref_mut(), old, rounds, warnings)).await;
        again |= !rounds.again.is_empty() || rounds.policies.has_more(object.as_deref());
        rounds.second = true;
        outcome
            .map(|()| first && again)
            .map_err(|error| warned(error, warnings))
    }

    async fn mutating_round(
        &self,
        asked: &Asked<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let Some(hooks) = rounds.hooks.clone() else {
            return Ok(());
        };
        if rounds.second && rounds.output.as_ref() != object.as_deref() {
            // Plugins changed it meanwhile.
            let asked = std::mem::take(&mut rounds.asked);
            rounds.again.extend(asked);
        }
        for (at, webhook) in hooks.mutating.iter().enumerate() {
            let Some(invocation) = self.invocation(webhook, asked, object.as_deref(), old)? else {
                continue;
            };
            if rounds.second && !rounds.again.contains(&at) {
                continue;
            }
            let answer = self.ask(webhook, &invocation, asked, object.as_deref(), old, Sort::Mutating);
            let changed = match self.decided(webhook, answer.await, warnings)? {
                Some((sort, patch)) => {
                    let object = object.as_deref_mut();
                    self.patch(webhook, &invocation, object, &sort, &patch).await?
                }
                None => false,
            };
            if changed && !rounds.second {
                let asked = std::mem::take(&mut rounds.asked);
                rounds.again.extend(asked);
            }
            if webhook.reinvoked {
                rounds.asked.push(at);
            }
        }
        rounds.output = object.cloned();
        Ok(())
    }

    /// Lets policies and then webhooks refuse the write. Webhooks are asked all at the same time.
    ///
    /// # Errors
    /// The first refusal in the order of the policies and configurations, with all warnings.
    pub(super) async fn call_validating(
        &self,
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        if let Err(error) = self.check_by_policies(asked, object, old, warnings) {
            return Err(warned(error, warnings));
        }
        let hooks = {
            let now = self.context.webhooks.configured().now();
            if now.validating.is_empty() || self.is_exempt() {
                return Ok(());
            }
            Arc::clone(&now)
        };
        let mut called = Vec::new();
        for webhook in &hooks.validating {
            if let Some(invocation) = self.invocation(webhook, asked, object, old)? {
                called.push((webhook, invocation));
            }
        }
        let questions = called
            .iter()
            .map(|(webhook, invocation)| self.ask(webhook, invocation, asked, object, old, Sort::Validating));
        let answers = Box::pin(join_all(questions)).await;
        let mut refusal = None;
        for ((webhook, _), answer) in called.iter().zip(answers) {
            if let Err(error) = self.decided(webhook, answer, warnings) {
                refusal.get_or_insert(error);
            }
        }
        refusal.map_or(Ok(()), |error| Err(warned(error, warnings)))
    }

    /// Webhooks have no say in what webhooks there are, nor in what the server does by itself.
    fn is_exempt(&self) -> bool {
        self.resource().group == "admissionregistration.k8s.io" || self.is_of_server()
    }

    /// Whether the server writes by itself.
    pub(super) fn is_of_server(&self) -> bool {
        let target = self.target;
        target.manager == super::SERVER_MANAGER && *target.user == crate::user::User::server()
    }

    /// As what a webhook hears of the write, if it does.
    fn invocation(
        &self,
        webhook: &Webhook,
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Invocation>, ApiError> {
        let (target, resource) = (self.target, self.resource());
        let address = self.address();
        let attributes = Attributes {
            operation: asked.operation,
            group: &resource.group,
            version: &address.version,
            resource: &resource.plural,
            subresource: &target.subresource,
            namespace: self.review_namespace(asked.name),
        };
        let invocation = webhook.invocation(&attributes, &self.body_kind(), resource, &target.registry);
        let Some(invocation) = invocation.filter(|_| webhook.selects(object, old)) else {
            return Ok(None);
        };
        if !webhook.namespaces.is_empty() && !self.selects_namespace(webhook, asked, object)? {
            return Ok(None);
        }
        if webhook.gate.is_open() {
            return Ok(Some(invocation));
        }
        match webhook
            .gate
            .admits(&self.policy_request(asked, old), &invocation, object)
        {
            Ok(admitted) => Ok(admitted.then_some(invocation)),
            Err(_) if webhook.fails_open => Ok(None),
            Err(why) => Err(ApiError::forbidden(&resource.group_resource(), asked.name, why)),
        }
    }

    fn selects_namespace(
        &self,
        webhook: &Webhook,
        asked: &Asked<'_>,
        object: Option<&Value>,
    ) -> Result<bool, ApiError> {
        let matches = |namespace: &Value| {
            webhook
                .namespaces
                .matches(|key| namespace.str_at(&["metadata", "labels", key]))
        };
        let namespace = self.review_namespace(asked.name);
        if namespace.is_empty() {
            return Ok(true);
        }
        if let Some(object) = object.filter(|_| self.is_of_namespace() && self.target.subresource.is_empty()) {
            return Ok(matches(object));
        }
        let namespaces = GroupResource {
            group: SmolStr::default(),
            resource: SmolStr::new_static("namespaces"),
        };
        let found = self.lookup.get(&namespaces, "", namespace);
        found
            .map(|namespace| matches(&namespace))
            .ok_or_else(|| ApiError::not_found(&namespaces, namespace))
    }

    fn is_of_namespace(&self) -> bool {
        let resource = self.resource();
        resource.group.is_empty() && resource.plural == "namespaces"
    }

    /// A namespace counts as one that is in itself.
    pub(super) fn review_namespace<'b>(&'b self, name: &'b str) -> &'b str {
        if self.is_of_namespace() {
            name
        } else {
            &self.target.namespace
        }
    }

    pub(super) fn address(&self) -> GroupVersion {
        let version = &self.target.shown.api_version;
        GroupVersion::parse(version).unwrap_or_else(|| GroupVersion::new("", version.clone()))
    }

    pub(super) fn body_kind(&self) -> GroupVersionKind {
        let version = &self.target.body_version;
        GroupVersionKind {
            group_version: GroupVersion::parse(version).unwrap_or_else(|| GroupVersion::new("", version.clone())),
            kind: self.target.body_kind.clone(),
        }
    }

    /// Asks one webhook. The outer error is a fault here, the inner one of the webhook.
    async fn ask(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        sort: Sort,
    ) -> Result<Result<Answer, String>, ApiError> {
        let version = invocation.kind.group_version.api_version();
        let object = self.in_version(object, &version).await?;
        let old = self.in_version(old, &version).await?;
        let uid = self.context.identifiers.uid();
        let (resource, target) = (self.resource(), self.target);
        let review = Review {
            uid: &uid,
            invocation,
            request_kind: &self.body_kind(),
            request_version: &self.address(),
            request_resource: &resource.plural,
            subresource: &target.subresource,
            name: asked.name,
            namespace: self.review_namespace(asked.name),
            operation: asked.operation,
            user: &target.user,
            object: object.as_ref(),
            old_object: old.as_ref(),
            dry_run: target.dry_run,
            options: &asked.options,
        };
        let review = review.encode(webhook.review_version);
        let client = self.context.webhooks.client();
        let answer = client.call(&webhook.client, review, webhook.timeout).await;
        Ok(match answer {
            Err(CallError::Unusable(why)) => Err(format!("could not get REST client: {why}")),
            Err(CallError::Failed { why, .. }) => Err(format!("failed to call webhook: {why}")),
            Ok(bytes) => Answer::read(&bytes, &uid, webhook.review_version, sort).map_err(|error| error.to_string()),
        })
    }

    /// The patch of a webhook that allows the write, if it wants to change anything.
    fn decided(
        &self,
        webhook: &Webhook,
        answer: Result<Result<Answer, String>, ApiError>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<(String, json_patch::Patch)>, ApiError> {
        match answer? {
            Ok(answer) => {
                warnings.extend(answer.warnings);
                if answer.allowed {
                    return Ok(answer.patch);
                }
                Err(rejection(&webhook.name, answer.status.as_ref()))
            }
            Err(why) if webhook.fails_open => {
                tracing::warn!(webhook = %webhook.name, why, "a webhook could not be asked; the write goes on");
                Ok(None)
            }
            Err(why) => Err(failure(webhook, &why)),
        }
    }

    async fn in_version(&self, object: Option<&Value>, api_version: &str) -> Result<Option<Value>, ApiError> {
        let Some(object) = object else { return Ok(None) };
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(Some(object.clone()));
        }
        let converted = conversion::convert(self.context, self.resource(), object.clone(), api_version);
        converted.await.map(Some)
    }

    /// Changes the object as a webhook says. Says whether anything is otherwise now.
    async fn patch(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        object: Option<&mut Value>,
        sort: &str,
        patch: &json_patch::Patch,
    ) -> Result<bool, ApiError> {
        let Some(object) = object else {
            return Err(ApiError::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name.as_str()
            )));
        };
        if sort != "JSONPatch" {
            return Err(failure(webhook, &format_args!("unsupported patch type {sort:?}")));
        }
        let own = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        let version = invocation.kind.group_version.api_version();
        let before = self.in_version(Some(object), &version).await?.unwrap_or_default();
        let patched = patch.apply(&before, &json_patch::Bounds::default());
        let patched = patched.map_err(|error| ApiError::internal(error.to_string()))?;
        let types = self.context.field_managers.types();
        let kind_type = types.of_body(&self.target.shown.resource, &version, &invocation.kind.kind);
        let after = match kind_type {
            Some(kind_type) => {
                let typed = kind_type.decode(&patched).map_err(ApiError::internal)?;
                kind_type.with_defaults(typed.object)
            }
            None => patched,
        };
        if after == before {
            return Ok(false);
        }
        *object = self.in_version(Some(&after), &own).await?.unwrap_or_default();
        Ok(true)
    }
}

fn warned(mut error: ApiError, warnings: &mut Vec<String>) -> ApiError {
    error.status_mut().warnings = std::mem::take(warnings);
    error
}
