//! Environment for tests of writes without a server. By default webhooks do not answer, everything is allowed, all
//! objects get the same uid, and the clock does not advance.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::policies::{Check, Policies};
use holdfast_admission::webhooks::{Webhook, WebhookType, Webhooks};
use holdfast_authorization::{AlwaysAllow, Authorizer, User};
use holdfast_resource::access::Access;
use holdfast_resource::convert::Converted;
use holdfast_resource::{ConversionCaller, ConversionWebhook, Lookup, Registry, Resource};
use holdfast_value::{SmolStr, Value};

use crate::environment::{
    Callers, ConditionOwner, Ending, Environment, Services, Unanswered, WebhookAnswer, WebhookCall,
};
use crate::field_managers::FieldManagers;
use crate::identifiers::Identifiers;
use crate::metadata;
use crate::target::Target;

/// The uid of all objects.
pub const UID: &str = "11111111-2222-4333-8444-555555555555";

/// Parts of the server that a run needs.
pub struct World {
    /// The resources.
    pub registry: Arc<Registry>,
    /// The admission plugins.
    pub plugins: AdmissionChain,
    /// The admission policies.
    pub policies: Arc<Policies>,
    /// The admission webhooks.
    pub webhooks: Arc<Webhooks>,
    /// Webhook client; by default no webhook answers.
    pub callers: Arc<dyn Callers>,
    /// The user who writes.
    pub user: Arc<User>,
    field_managers: FieldManagers,
    /// Authorizer for the additional permissions of users.
    pub authorizer: Arc<dyn Authorizer>,
}

impl World {
    /// Creates a world with these resources and no admission.
    pub fn new(registry: Registry) -> Self {
        Self {
            field_managers: FieldManagers::new(Arc::clone(registry.types())),
            registry: Arc::new(registry),
            plugins: AdmissionChain::default(),
            policies: Arc::default(),
            webhooks: Arc::default(),
            callers: Arc::new(Unreachable),
            user: Arc::new(User {
                name: "tester".into(),
                groups: vec!["system:authenticated".into()],
                ..User::default()
            }),
            authorizer: Arc::new(AlwaysAllow),
        }
    }

    /// Returns the time of day.
    pub fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }

    /// Returns the environment of a run that reads other objects through `lookup`.
    pub fn environment<'a>(&'a self, lookup: &'a dyn Lookup, access: Access<'a>) -> Environment<'a> {
        Environment::new(self.services(lookup, access))
    }

    /// Returns the parts of the server, with `lookup` for the other objects.
    pub fn services<'a>(&'a self, lookup: &'a dyn Lookup, access: Access<'a>) -> Services<'a> {
        Services {
            field_managers: &self.field_managers,
            plugins: &self.plugins,
            policies: &self.policies,
            webhooks: &self.webhooks,
            authorizer: &self.authorizer,
            access,
            identifiers: &OneUid,
            lookup,
            callers: self.callers.as_ref(),
        }
    }

    /// Creates a write of `object`, or of a subresource of it, in the namespace `default`.
    pub fn target(&self, resource: &Arc<Resource>, object: &Value, subresource: &str) -> Target {
        let version = SmolStr::new(object.str_at(&["apiVersion"]).unwrap_or_default());
        let namespace = if resource.namespaced() { "default" } else { "" };
        let mut target = Target::new(&self.registry, resource, &version, subresource, &self.user, Self::now())
            .at(namespace, metadata::name(object));
        target.writer.manager = "tests".into();
        target
    }
}

struct OneUid;

impl Identifiers for OneUid {
    fn uid(&self) -> String {
        UID.to_owned()
    }

    fn name_suffix(&self) -> String {
        "bcdfg".to_owned()
    }
}

const UNREACHABLE: &str = "there is no server";

/// Webhook client without any reachable webhook.
pub struct Unreachable;

impl ConversionCaller for Unreachable {
    fn convert<'a>(&'a self, webhook: &'a ConversionWebhook, objects: &'a [Value], _: &'a str) -> Converted<'a> {
        Box::pin(async move { Err(webhook.unanswered(objects, UNREACHABLE)) })
    }
}

impl Callers for Unreachable {
    fn call<'a>(&'a self, _: WebhookType, _: &'a Webhook, _: Vec<u8>, _: Duration) -> WebhookAnswer<'a> {
        let (code, why) = (503, UNREACHABLE.to_owned());
        Box::pin(async move { Err(Unanswered { code, why }) })
    }

    fn called(&self, _: WebhookCall<'_>, _: Ending) {}

    fn evaluated(&self, _: WebhookType, _: &Check) {}

    fn matched(&self, _: ConditionOwner, _: &str, _: &ConditionCheck) {}

    fn excluded(&self, _: WebhookType, _: &str, _: &str) {}
}
