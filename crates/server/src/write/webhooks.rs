//! Webhooks in the way of a write: which of them are asked, what about, and what becomes of their answers.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::future::join_all;
use holdfast_admission::DynamicPlugin;
use holdfast_admission::policies::{self, rounds};
use holdfast_admission::webhooks::matching::{Attributes, Invocation};
use holdfast_admission::webhooks::{Hooks, Sort, Webhook};
use holdfast_resource::{GroupResource, GroupVersion, GroupVersionKind, Lookup as _};
use holdfast_value::{SmolStr, Value};

use super::pipeline::Pipeline;
use crate::http::ApiError;
use crate::http::options::{DeleteOptions, WriteOptions};

/// What webhooks are asked about, beside the objects.
pub(super) struct Asked<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(super) operation: &'static str,
    /// The name of the object.
    pub(super) name: &'a str,
    /// The options of the write as the client gave them.
    given: Given<'a>,
    /// The same as an object, made when somebody asks.
    options: OnceLock<Value>,
}

/// Options of a write.
#[derive(Clone, Copy)]
pub(super) enum Given<'a> {
    /// Of a creation or a change: an object of that kind.
    Write(&'a WriteOptions, &'static str),
    Delete(&'a DeleteOptions),
    /// There are none.
    Nothing,
}

impl<'a> Asked<'a> {
    pub(super) fn new(operation: &'static str, name: &'a str, given: Given<'a>) -> Self {
        Self {
            operation,
            name,
            given,
            options: OnceLock::new(),
        }
    }

    /// The options of the write, as an object.
    pub(super) fn options(&self) -> &Value {
        self.options.get_or_init(|| match self.given {
            Given::Write(options, kind) => options.to_object(kind),
            Given::Delete(options) => options.to_object(),
            Given::Nothing => Value::Null,
        })
    }
}

/// What is known of the rounds in which policies and webhooks change an object: when one changes it, those before it that
/// wish so are asked once more, after the plugins.
#[derive(Default)]
pub(super) struct Rounds {
    hooks: Option<Arc<Hooks>>,
    /// Of webhooks, by their places.
    webhooks: rounds::Rounds<usize>,
    policies: rounds::Rounds<policies::mutating::Key>,
    /// Whether any webhook changed the object.
    changed: bool,
}

impl Rounds {
    /// Whether policies or webhooks were asked.
    pub(super) fn took_place(&self) -> bool {
        self.hooks.is_some() || self.policies.took_place()
    }
}

impl Pipeline<'_> {
    /// Lets policies and then webhooks change an object, or refuse the write. Says whether there is a second round to come,
    /// before which plugins are asked again.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn call_mutating(
        &self,
        asked: &Asked<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<bool, ApiError> {
        let first = !rounds.took_place();
        let mut again = match object.as_deref_mut() {
            Some(object) => self.change_by_policies(asked, object, old, &mut rounds.policies)?,
            None => false,
        };
        if rounds.hooks.is_none() {
            let now = self.context.webhooks.configured().now();
            if now.mutating.is_empty() || !self.asks_webhooks(DynamicPlugin::MutatingWebhooks) {
                return Ok(first && again);
            }
            rounds.hooks = Some(Arc::clone(&now));
        }
        let outcome = Box::pin(self.mutating_round(asked, object.as_deref_mut(), old, rounds, warnings)).await;
        again |= rounds.changed || rounds.policies.has_more(object.as_deref());
        outcome.map(|()| first && again)
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
        rounds.webhooks.begin(object.as_deref());
        for (at, webhook) in hooks.mutating.iter().enumerate() {
            let Some(invocation) = self.invocation(webhook, asked, object.as_deref(), old)? else {
                continue;
            };
            if !rounds.webhooks.is_due(&at) {
                continue;
            }
            self.target.check_deadline()?;
            let started = Instant::now();
            let outcome = self.ask_mutating((webhook, &invocation), asked, object.as_deref_mut(), old, warnings);
            let outcome = outcome.await;
            let changed = self.decide(webhook, asked, Sort::Mutating, started, outcome)?;
            rounds.changed |= changed;
            rounds.webhooks.invoked(at, changed, webhook.reinvoked);
        }
        rounds.webhooks.end(object.as_deref());
        Ok(())
    }

    /// Lets policies and then webhooks refuse the write. Webhooks are asked all at the same time.
    ///
    /// # Errors
    /// The first refusal in the order of the policies and configurations.
    pub(super) async fn call_validating(
        &self,
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        self.check_by_policies(asked, object, old, warnings)?;
        let hooks = {
            let now = self.context.webhooks.configured().now();
            if now.validating.is_empty() || !self.asks_webhooks(DynamicPlugin::ValidatingWebhooks) {
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
        if called.is_empty() {
            return Ok(());
        }
        self.target.check_deadline()?;
        let started = Instant::now();
        let questions = called.iter().map(|(webhook, invocation)| async move {
            let mut warnings = Vec::new();
            let outcome = self.ask_validating((webhook, invocation), asked, object, old, &mut warnings);
            let outcome = outcome.await;
            let decided = self.decide(webhook, asked, Sort::Validating, started, outcome);
            (decided, warnings)
        });
        let mut refusal = None;
        for (decided, said) in Box::pin(join_all(questions)).await {
            warnings.extend(said);
            if let Err(error) = decided {
                refusal.get_or_insert(error);
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Webhooks have no say in what webhooks there are, nor in what the server does by itself.
    fn asks_webhooks(&self, plugin: DynamicPlugin) -> bool {
        let exempt = self.resource().group == "admissionregistration.k8s.io" || self.is_of_server();
        self.context.admission.includes(plugin) && !exempt
    }

    /// Whether the server writes by itself, or goes on with what was asked about already.
    pub(super) fn is_of_server(&self) -> bool {
        self.target.by_server
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
}
