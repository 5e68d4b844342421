//! Admission webhooks of a write: which of them are called, and in which order.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_admission::DynamicPlugin;
use holdfast_admission::policies::{self, reinvocation};
use holdfast_admission::timings::Timing;
use holdfast_admission::webhooks::matching::{Attributes as MatchAttributes, Invocation};
use holdfast_admission::webhooks::{Hooks, Webhook, WebhookType, of_files};
use holdfast_resource::AdmissionExemptions;
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::Value;
use tokio::time::Instant;

use crate::attributes::Attributes;
use crate::environment::ConditionOwner;
use crate::error::Error;
use crate::stage::Stage;

/// Webhook whose rules match the write.
#[derive(Clone, Copy)]
pub(crate) struct MatchedWebhook<'a> {
    pub(crate) webhook: &'a Webhook,
    /// Call that the rules request.
    pub(crate) invocation: &'a Invocation,
}

/// Time of a webhook call, and its position among several.
pub(crate) struct CallRecord {
    pub(crate) webhook_type: WebhookType,
    pub(crate) started: Instant,
    /// Round and index, as audit annotations name them.
    place: (usize, usize),
}

impl CallRecord {
    fn now(webhook_type: WebhookType, round: usize, at: usize) -> Self {
        Self {
            webhook_type,
            started: Instant::now(),
            place: (round, at),
        }
    }

    /// Returns the key of an annotation about this call.
    pub(crate) fn key(&self, prefix: &str) -> String {
        let (round, at) = self.place;
        format!("{prefix}/round_{round}_index_{at}")
    }
}

/// The rounds of mutating admission. When a policy or a webhook changes the object, those before it whose reinvocation policy
/// is `IfNeeded` run once more, after the plugins.
#[derive(Default)]
pub(crate) struct Rounds {
    hooks: Option<Arc<Hooks>>,
    /// The webhooks, by index.
    webhooks: reinvocation::Reinvocation<usize>,
    policies: reinvocation::Reinvocation<policies::mutating::Key>,
    /// True if any webhook changed the object.
    changed: bool,
    /// The round, from 0.
    round: usize,
}

impl Rounds {
    /// Returns true if policies or webhooks were called.
    pub(crate) fn took_place(&self) -> bool {
        self.hooks.is_some() || self.policies.has_begun()
    }
}

impl Stage<'_> {
    /// Calls policies and then webhooks, which may change an object or reject the write. Returns true if a second round
    /// follows, before which plugins run again.
    ///
    /// # Errors
    /// If any of them rejects the write; returns the first rejection.
    pub(crate) async fn call_mutating(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Error> {
        let first = !rounds.took_place();
        let mut again = match object.as_deref_mut() {
            Some(object) => self.change_by_policies(attributes, object, old, &mut rounds.policies)?,
            None => false,
        };
        if rounds.hooks.is_none() {
            let hooks = self.environment.webhooks();
            if self
                .callable(&hooks.mutating, DynamicPlugin::MutatingWebhooks)
                .is_empty()
            {
                return Ok(first && again);
            }
            rounds.hooks = Some(Arc::clone(hooks));
        }
        rounds.round = usize::from(!first);
        let timing = self.timing(DynamicPlugin::MutatingWebhooks, attributes);
        let round = Box::pin(self.mutating_round(attributes, object.as_deref_mut(), old, rounds, warnings)).await;
        let outcome = timing.end(round);
        again |= rounds.changed || rounds.policies.has_more(object.as_deref());
        outcome.map(|()| first && again)
    }

    async fn mutating_round(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Some(hooks) = rounds.hooks.clone() else {
            return Ok(());
        };
        rounds.webhooks.begin(object.as_deref());
        for (at, webhook) in hooks.mutating.iter().enumerate() {
            let Some(invocation) =
                self.invocation(webhook, WebhookType::Mutating, attributes, object.as_deref(), old)?
            else {
                continue;
            };
            if !rounds.webhooks.is_due(&at) {
                continue;
            }
            self.target.check_deadline()?;
            let record = CallRecord::now(WebhookType::Mutating, rounds.round, at);
            let matched = MatchedWebhook {
                webhook,
                invocation: &invocation,
            };
            let outcome = self
                .ask_mutating(matched, &record, attributes, object.as_deref_mut(), old, warnings)
                .await;
            self.annotate_mutation(webhook, &record, outcome.as_ref().is_ok_and(|changed| *changed));
            let changed = self.decide(webhook, attributes, &record, outcome)?;
            rounds.changed |= changed;
            rounds.webhooks.invoked(at, changed, webhook.reinvoked);
        }
        rounds.webhooks.end(object.as_deref());
        Ok(())
    }

    /// Calls policies and then webhooks, which may reject the write. All webhooks are called concurrently.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/validating#validatingDispatcher.Dispatch
    ///
    /// # Errors
    /// If any of them rejects the write; returns the first rejection in the order of the policies and configurations.
    pub(crate) async fn call_validating(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        self.check_by_policies(attributes, object, old, warnings)?;
        let hooks = self.environment.webhooks();
        if self
            .callable(&hooks.validating, DynamicPlugin::ValidatingWebhooks)
            .is_empty()
        {
            return Ok(());
        }
        let timing = self.timing(DynamicPlugin::ValidatingWebhooks, attributes);
        timing.end(
            self.call_validating_hooks(hooks, attributes, object, old, warnings)
                .await,
        )
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/validating#validatingDispatcher.Dispatch
    async fn call_validating_hooks(
        &self,
        hooks: &Hooks,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let mut called = Vec::new();
        for webhook in &hooks.validating {
            if let Some(invocation) = self.invocation(webhook, WebhookType::Validating, attributes, object, old)? {
                called.push((webhook, invocation));
            }
        }
        if called.is_empty() {
            return Ok(());
        }
        self.target.check_deadline()?;
        let questions = called.iter().enumerate().map(|(at, (webhook, invocation))| {
            let record = CallRecord::now(WebhookType::Validating, 0, at);
            async move {
                let mut warnings = Vec::new();
                let matched = MatchedWebhook { webhook, invocation };
                let outcome = self
                    .ask_validating(matched, attributes, object, old, &mut warnings)
                    .await;
                let decided = self.decide(webhook, attributes, &record, outcome);
                (decided, warnings)
            }
        });
        let mut rejection = None;
        for (decided, said) in Box::pin(join_all(questions)).await {
            warnings.extend(said);
            if let Err(error) = decided {
                rejection.get_or_insert(error);
            }
        }
        rejection.map_or(Ok(()), Err)
    }

    /// Begins a call of a dynamic plugin.
    pub(crate) fn timing(&self, plugin: DynamicPlugin, attributes: &Attributes<'_>) -> Timing<'_> {
        self.environment
            .plugins()
            .timings()
            .dynamic(plugin, attributes.operation)
    }

    /// Returns true if a policy or a webhook may be called for a write to the object in the request path. Object and
    /// namespace selectors are not considered.
    pub fn is_heard_of(&self, operation: &'static str) -> bool {
        if self.may_ask_policies() {
            return true;
        }
        let hooks = self.environment.webhooks();
        let mutating = self.callable(&hooks.mutating, DynamicPlugin::MutatingWebhooks);
        let validating = self.callable(&hooks.validating, DynamicPlugin::ValidatingWebhooks);
        if mutating.is_empty() && validating.is_empty() {
            return false;
        }
        let (address, resource) = (self.address_version(), self.resource());
        let matched = self.matched(operation, &address, &self.target.name);
        let kind = self.body_kind();
        mutating.iter().chain(validating).any(|hook| {
            let invocation = hook.invocation(
                &matched,
                &kind,
                resource,
                self.environment.registry_of_rules(self.target),
            );
            invocation.is_some()
        })
    }

    /// Returns the input of webhook rules for a write to the object `name`.
    fn matched<'b>(&'b self, operation: &'static str, address: &'b GroupVersion, name: &'b str) -> MatchAttributes<'b> {
        MatchAttributes {
            operation,
            group: &self.resource().group,
            version: &address.version,
            resource: &self.resource().plural,
            subresource: &self.target.subresource,
            namespace: self.review_namespace(name),
            is_namespace: self.is_of_namespace(),
        }
    }

    /// Returns the webhooks of `hooks` that may be called for the write: all, those from files, or none. Writes to
    /// webhook configurations and writes by the server are exempt.
    fn callable<'h>(&self, hooks: &'h [Arc<Webhook>], plugin: DynamicPlugin) -> &'h [Arc<Webhook>] {
        if hooks.is_empty() || !self.environment.plugins().includes(plugin) || self.target.writer.internal {
            return &[];
        }
        match self.resource().capabilities.exempt {
            AdmissionExemptions { webhooks: false, .. } => hooks,
            AdmissionExemptions { but_of_files: true, .. } => of_files(hooks),
            _ => &[],
        }
    }

    /// Returns the call of a webhook for the write, if its rules match.
    fn invocation(
        &self,
        webhook: &Webhook,
        webhook_type: WebhookType,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Invocation>, Error> {
        let (target, resource) = (self.target, self.resource());
        let address = self.address_version();
        let matched = self.matched(attributes.operation, &address, attributes.name);
        let invocation = webhook.invocation(
            &matched,
            &self.body_kind(),
            resource,
            self.environment.registry_of_rules(target),
        );
        let Some(invocation) = invocation.filter(|_| webhook.selects(object, old)) else {
            return Ok(None);
        };
        if !webhook.namespaces.is_empty() && !self.selects_namespace(webhook, attributes, object)? {
            return Ok(None);
        }
        if webhook.gate.is_open() {
            return Ok(Some(invocation));
        }
        let (request, mut checks) = (self.policy_request(attributes, old), Vec::new());
        let admitted = webhook
            .gate
            .admits(&webhook.name, &request, &invocation, object, &mut checks);
        let callers = self.environment.callers();
        for check in &checks {
            callers.matched(ConditionOwner::Webhook(webhook_type), attributes.operation, check);
        }
        match admitted {
            Ok(true) => Ok(Some(invocation)),
            Err(why) if !webhook.fails_open => Err(Error::forbidden(&resource.group_resource(), attributes.name, why)),
            Ok(false) | Err(_) => {
                callers.excluded(webhook_type, attributes.operation, &webhook.name);
                Ok(None)
            }
        }
    }

    fn selects_namespace(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Error> {
        let matches = |namespace: &Value| {
            webhook
                .namespaces
                .matches(|key| namespace.str_at(&["metadata", "labels", key]))
        };
        let namespace = self.review_namespace(attributes.name);
        if namespace.is_empty() {
            return Ok(true);
        }
        if let Some(object) = object.filter(|_| self.is_of_namespace() && self.target.subresource.is_empty()) {
            return Ok(matches(object));
        }
        let group_resource = self
            .environment
            .registry(self.target)
            .namespaces()
            .map(|of| of.group_resource());
        let namespaces = group_resource.ok_or_else(|| Error::internal("no resource has namespaces"))?;
        let found = self.environment.lookup().get(&namespaces, "", namespace);
        found
            .map(|namespace| matches(&namespace))
            .ok_or_else(|| Error::not_found(&namespaces, namespace))
    }

    fn is_of_namespace(&self) -> bool {
        self.resource().capabilities.is_namespace
    }

    /// Returns the namespace that policies and webhooks see. A namespace is in itself.
    pub(crate) fn review_namespace<'b>(&'b self, name: &'b str) -> &'b str {
        if self.is_of_namespace() {
            name
        } else {
            &self.target.namespace
        }
    }

    pub(crate) fn address_version(&self) -> GroupVersion {
        let version = &self.target.api_version;
        GroupVersion::parse(version).unwrap_or_else(|| GroupVersion::new("", version.clone()))
    }

    pub(crate) fn body_kind(&self) -> GroupVersionKind {
        let version = &self.target.body.api_version;
        GroupVersionKind {
            group_version: GroupVersion::parse(version).unwrap_or_else(|| GroupVersion::new("", version.clone())),
            kind: self.target.body.kind.clone(),
        }
    }
}
