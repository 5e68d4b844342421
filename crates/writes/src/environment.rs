use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::{Check, Policies};
use holdfast_admission::webhooks::{ClientConfig, WebhookType, Webhooks};
use holdfast_authorization::Authorizer;
use holdfast_resource::access::Access;
use holdfast_resource::{ConversionCaller, Lookup};

use crate::FieldManagers;

/// What a run needs of the server around it.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Who owns what in objects, and the types of the built-in kinds.
    pub field_managers: &'a FieldManagers,
    /// The admission plugins.
    pub plugins: &'a AdmissionChain,
    /// The admission policies.
    pub policies: &'a Policies,
    /// The admission webhooks that are configured.
    pub webhooks: &'a Webhooks,
    /// What users may do.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// What users may do, and whose tokens are, for kinds that ask.
    pub access: Access<'a>,
    /// Where uids and the ends of generated names come from.
    pub identifiers: &'a dyn Identifiers,
    /// The other objects.
    pub lookup: &'a dyn Lookup,
    /// Who calls webhooks.
    pub callers: &'a dyn Callers,
}

/// Where uids and the ends of generated names come from.
pub trait Identifiers: Send + Sync {
    /// A new uid: a UUID of version 4 in small letters.
    fn uid(&self) -> String;

    /// Five letters or digits that make a name of a `generateName`. They leave out vowels, and digits that look like them,
    /// so that no words come about.
    fn name_suffix(&self) -> String;
}

/// Calls webhooks and counts what admission does.
pub trait Callers: ConversionCaller {
    /// Sends a review to an admission webhook and gives what it answers with a code of success.
    fn call<'a>(&'a self, to: &'a ClientConfig, review: Vec<u8>, timeout: Duration) -> WebhookAnswer<'a>;

    /// Hears how the call of a webhook ended.
    fn called(&self, call: WebhookCall<'_>, ending: Ending);

    /// Hears that a policy was evaluated, which may change objects or refuse writes.
    fn evaluated(&self, webhook_type: WebhookType, check: &Check);
}

/// The answer of an admission webhook, which is waited for.
pub type WebhookAnswer<'a> = BoxFuture<'a, Result<Bytes, Unanswered>>;

/// Why a webhook gave no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The code of what was answered instead; 503 where nothing was.
    pub code: u16,
    /// Why, in the words that clients see.
    pub why: String,
}

/// The call of an admission webhook.
#[derive(Clone, Copy, Debug)]
pub struct WebhookCall<'a> {
    /// The name of the webhook.
    pub name: &'a str,
    /// Whether it may change objects.
    pub webhook_type: WebhookType,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// How long it took.
    pub taken: Duration,
    /// The code of its answer.
    pub code: u16,
}

/// How the call of an admission webhook ended for the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The webhook lets it pass.
    Passed,
    /// The write goes on without the answer.
    FailedOpen,
    /// The webhook refuses it.
    Refused,
    /// The webhook could not be asked.
    Unanswered,
    /// What the webhook wants cannot be done.
    Failed,
}
