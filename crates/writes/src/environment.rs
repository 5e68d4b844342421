use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::policies::{Check, Policies};
use holdfast_admission::webhooks::{Webhook, WebhookType, Webhooks};
use holdfast_authorization::{Attributes, Authorization, Authorizer, User, UserRules};
use holdfast_resource::access::{
    Access, IssuedToken, RemoteTokenAuthenticator, ServiceAccountToken, TokenAuthenticator, TokenError, TokenIssuer,
    TokenSigner, TokenUser,
};
use holdfast_resource::convert::Converted;
use holdfast_resource::{ConversionCaller, ConversionWebhook, Lookup, Resource};
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

use crate::field_managers::FieldManagers;
use crate::identifiers::Identifiers;

/// Parts of the server that runs use.
#[derive(Clone, Copy)]
pub struct Services<'a> {
    /// Field managers of objects, and the types of the built-in kinds.
    pub field_managers: &'a FieldManagers,
    /// The admission plugins.
    pub plugins: &'a AdmissionChain,
    /// The admission policies.
    pub policies: &'a Policies,
    /// The admission webhooks that are configured.
    pub webhooks: &'a Webhooks,
    /// The authorizer.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// The authorizer, and the users of tokens, for kinds that need them.
    pub access: Access<'a>,
    /// The source of uids and of the suffixes of generated names.
    pub identifiers: &'a dyn Identifiers,
    /// The other objects.
    pub lookup: &'a dyn Lookup,
    /// The client of webhooks.
    pub callers: &'a dyn Callers,
}

/// State outside the written object that a run reads.
///
/// Not among them is what cannot change while the server runs or the resource exists: flags, feature gates, the chain
/// of plugins, and types. The request is not among them either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'r> {
    /// One object, or its absence.
    Object {
        /// The resource of the object.
        resource: &'r GroupResource,
        /// The namespace; empty for cluster-scoped resources.
        namespace: &'r str,
        /// The name.
        name: &'r str,
    },
    /// The objects of a resource.
    List,
    /// The resource of a kind.
    KindResource,
    /// The health of the store.
    StorageHealth,
    /// The active admission policies. Their evaluation is a read of permissions, too.
    Policies,
    /// The configured admission webhooks. Their calls are reads of answers, too.
    Webhooks,
    /// The answer of an admission or conversion webhook.
    WebhookAnswer,
    /// Permissions of users.
    Permissions,
    /// Users of tokens, or the settings of the issuer of tokens.
    Tokens,
    /// A new uid or name suffix.
    Identifier,
    /// The time.
    Clock,
}

/// Records what a run reads from its environment.
pub trait ReadObserver: Sync {
    /// Records a read that is about to happen.
    fn record(&self, read: Read<'_>);
}

/// Environment of a run: everything outside the request and the written object that the run can read.
///
/// The services are private, and each way to them records the read for the observer of the run, if there is one.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    services: Services<'a>,
    observer: Option<&'a dyn ReadObserver>,
}

impl<'a> Environment<'a> {
    /// Creates the environment of a run whose reads nobody records.
    pub fn new(services: Services<'a>) -> Self {
        Self {
            services,
            observer: None,
        }
    }

    /// Creates the environment of a run whose reads `observer` records.
    pub fn observed(services: Services<'a>, observer: &'a dyn ReadObserver) -> Self {
        Self {
            services,
            observer: Some(observer),
        }
    }

    /// Records a read for the observer.
    pub(crate) fn record(&self, read: Read<'_>) {
        if let Some(observer) = self.observer {
            observer.record(read);
        }
    }

    /// Returns the field managers of objects, and the types of the built-in kinds.
    pub(crate) fn field_managers(&self) -> &'a FieldManagers {
        self.services.field_managers
    }

    /// Returns the admission plugins, which read through the context of the write.
    pub(crate) fn plugins(&self) -> &'a AdmissionChain {
        self.services.plugins
    }

    /// Returns the active admission policies.
    pub(crate) fn policies(&self) -> &'a Policies {
        self.record(Read::Policies);
        self.services.policies
    }

    /// Returns the configured admission webhooks.
    pub(crate) fn webhooks(&self) -> &'a Webhooks {
        self.record(Read::Webhooks);
        self.services.webhooks
    }

    /// Returns the authorizer, for holders that outlive a call.
    pub(crate) fn authorizer(&self) -> &'a Arc<dyn Authorizer> {
        self.record(Read::Permissions);
        self.services.authorizer
    }

    /// Returns the source of uids and of the suffixes of generated names.
    pub(crate) fn identifiers(&self) -> &'a dyn Identifiers {
        self.record(Read::Identifier);
        self.services.identifiers
    }

    /// Returns the access control of the steps of the run.
    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            authorizer: self,
            tokens: self,
            issuer: self,
        }
    }

    /// Returns the other objects.
    pub(crate) fn lookup(&self) -> &dyn Lookup {
        self
    }

    /// Returns the client of webhooks.
    pub(crate) fn callers(&self) -> &dyn Callers {
        self
    }
}

impl Lookup for Environment<'_> {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value> {
        self.record(Read::Object {
            resource,
            namespace,
            name,
        });
        self.services.lookup.get(resource, namespace, name)
    }

    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        self.record(Read::List);
        self.services.lookup.list(resource, namespace, visit);
    }

    fn list_revisions(
        &self,
        resource: &GroupResource,
        namespace: &str,
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Value),
    ) {
        self.record(Read::List);
        self.services.lookup.list_revisions(resource, namespace, visit);
    }

    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        self.record(Read::KindResource);
        self.services.lookup.resource_of(kind)
    }

    fn storage_health(&self) -> Result<(), String> {
        self.record(Read::StorageHealth);
        self.services.lookup.storage_health()
    }
}

impl Authorizer for Environment<'_> {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        self.record(Read::Permissions);
        self.services.access.authorizer.authorize(user, attributes)
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        self.record(Read::Permissions);
        self.services.access.authorizer.rules(user, namespace)
    }

    fn role_rules(&self, user: &User, namespace: &str) -> UserRules {
        self.record(Read::Permissions);
        self.services.access.authorizer.role_rules(user, namespace)
    }
}

impl TokenAuthenticator for Environment<'_> {
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError> {
        self.record(Read::Tokens);
        self.services.access.tokens.authenticate(token, audiences)
    }

    fn remote(&self) -> Option<&dyn RemoteTokenAuthenticator> {
        self.record(Read::Tokens);
        self.services.access.tokens.remote()
    }
}

impl TokenIssuer for Environment<'_> {
    fn audiences(&self) -> &[SmolStr] {
        self.record(Read::Tokens);
        self.services.access.issuer.audiences()
    }

    fn longest(&self) -> Option<i64> {
        self.record(Read::Tokens);
        self.services.access.issuer.longest()
    }

    fn extended_life(&self) -> Option<i64> {
        self.record(Read::Tokens);
        self.services.access.issuer.extended_life()
    }

    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String> {
        self.record(Read::Tokens);
        self.services.access.issuer.issue(token)
    }

    fn signer(&self) -> Option<&dyn TokenSigner> {
        self.record(Read::Tokens);
        self.services.access.issuer.signer()
    }
}

impl ConversionCaller for Environment<'_> {
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: &'a [Value],
        api_version: &'a str,
    ) -> Converted<'a> {
        self.record(Read::WebhookAnswer);
        self.services.callers.convert(webhook, objects, api_version)
    }
}

impl Callers for Environment<'_> {
    fn call<'a>(
        &'a self,
        webhook_type: WebhookType,
        webhook: &'a Webhook,
        review: Vec<u8>,
        timeout: Duration,
    ) -> WebhookAnswer<'a> {
        self.record(Read::WebhookAnswer);
        self.services.callers.call(webhook_type, webhook, review, timeout)
    }

    fn called(&self, call: WebhookCall<'_>, ending: Ending) {
        self.services.callers.called(call, ending);
    }

    fn evaluated(&self, webhook_type: WebhookType, check: &Check) {
        self.services.callers.evaluated(webhook_type, check);
    }

    fn matched(&self, owner: ConditionOwner, operation: &str, check: &ConditionCheck) {
        self.services.callers.matched(owner, operation, check);
    }

    fn excluded(&self, webhook_type: WebhookType, operation: &str, webhook: &str) {
        self.services.callers.excluded(webhook_type, operation, webhook);
    }
}

/// Calls webhooks and counts admission calls.
pub trait Callers: ConversionCaller {
    /// Sends a review to an admission webhook and returns the body of a successful response.
    fn call<'a>(
        &'a self,
        webhook_type: WebhookType,
        webhook: &'a Webhook,
        review: Vec<u8>,
        timeout: Duration,
    ) -> WebhookAnswer<'a>;

    /// Counts how the call of a webhook ended.
    fn called(&self, call: WebhookCall<'_>, ending: Ending);

    /// Counts the evaluation of a policy, which may change objects or reject writes.
    fn evaluated(&self, webhook_type: WebhookType, check: &Check);

    /// Counts the evaluation of match conditions for a write whose operation has that name.
    fn matched(&self, owner: ConditionOwner, operation: &str, check: &ConditionCheck);

    /// Counts a write whose operation has that name, and which the match conditions of a webhook exclude.
    fn excluded(&self, webhook_type: WebhookType, operation: &str, webhook: &str);
}

/// Owner of match conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOwner {
    /// An admission policy.
    Policy,
    /// A webhook.
    Webhook(WebhookType),
}

/// Future response of an admission webhook.
pub type WebhookAnswer<'a> = BoxFuture<'a, Result<Bytes, Unanswered>>;

/// The failure of a call of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Status code of the response; 503 if there was none.
    pub code: u16,
    /// Reason, in the words that clients see.
    pub why: String,
}

/// The call of an admission webhook.
#[derive(Clone, Copy, Debug)]
pub struct WebhookCall<'a> {
    /// The name of the webhook.
    pub name: &'a str,
    /// Type of the webhook, which tells if it may change objects.
    pub webhook_type: WebhookType,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// Duration of the call.
    pub taken: Duration,
    /// Code of its response.
    pub code: u16,
}

/// Result of the call of an admission webhook for the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The webhook admits the write.
    Passed,
    /// The call failed, and the failure policy ignores that.
    FailedOpen,
    /// The webhook rejects it.
    Refused,
    /// The webhook could not be called.
    Unanswered,
    /// The patch of the webhook cannot be applied.
    Failed,
}
