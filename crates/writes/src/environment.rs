use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::policies::{Check, Policies};
use holdfast_admission::webhooks::{ClientConfig, WebhookType, Webhooks};
use holdfast_authorization::Authorizer;
use holdfast_resource::access::Access;
use holdfast_resource::{ConversionCaller, Lookup};

use crate::field_managers::FieldManagers;
use crate::identifiers::Identifiers;

/// Parts of the server that a run needs.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
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

/// Calls webhooks and counts admission calls.
pub trait Callers: ConversionCaller {
    /// Sends a review to an admission webhook and returns the body of a successful response.
    fn call<'a>(
        &'a self,
        webhook_type: WebhookType,
        to: &'a ClientConfig,
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
