//! Calls of admission and conversion webhooks, and the messages for their responses. Aggregated servers are called by
//! the same means.

mod backend;
mod client;
mod connector;
mod credentials;
mod routing;
mod services;
mod trust;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_admission::webhooks::{Webhook, WebhookType, Webhooks as Configured};
use holdfast_egress::EgressSelector;
use holdfast_resource::Registry;
use holdfast_traces::SpanKind;

use crate::objects::Store;
use crate::runtime::faults::Faults;
use crate::runtime::trace_scope;
pub(crate) use services::Services;
pub(crate) use trust::Trust;

pub(crate) use backend::Backend;
pub use client::Client;
pub(crate) use client::{CallError, pool_error_text};
pub(crate) use connector::Connector;
pub use credentials::{UserFields, WebhookCredentials, WebhookUser, WebhookUsers};
pub use holdfast_admission::webhooks::authorities_error;
pub use routing::Routing;

/// Admission webhooks and their client.
pub struct Webhooks {
    configured: Arc<Configured>,
    client: Arc<Client>,
    credentials: WebhookCredentials,
    faults: Option<Arc<Faults>>,
}

impl Webhooks {
    /// Creates the client for the webhooks of `configured`; services are resolved from `store`.
    pub fn new(configured: Arc<Configured>, store: Arc<Store>, registry: Arc<ArcSwap<Registry>>) -> Self {
        Self {
            configured,
            client: Arc::new(Client::new(Services::new(store, registry))),
            credentials: WebhookCredentials::default(),
            faults: None,
        }
    }

    /// Sets the credentials of the calls.
    #[must_use]
    pub fn with_credentials(self, credentials: WebhookCredentials) -> Self {
        Self { credentials, ..self }
    }

    /// Sets the faults that tests ask for.
    #[must_use]
    pub fn with_faults(self, faults: Option<Arc<Faults>>) -> Self {
        Self { faults, ..self }
    }

    /// Sends calls through the proxies of their networks.
    #[must_use]
    pub fn with_egress(self, egress: EgressSelector) -> Self {
        Self {
            client: Arc::new(self.client.with_egress(egress)),
            ..self
        }
    }

    /// Calls an admission webhook with the credentials for its type and address.
    pub(crate) async fn call(
        &self,
        webhook_type: WebhookType,
        webhook: &Webhook,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let to = &webhook.client;
        if let Some(faults) = &self.faults
            && faults.is_webhook_unavailable(&webhook.configuration, &webhook.name)
        {
            return Err(client::refused_connection(to, timeout));
        }
        let user = self.credentials.user(webhook_type, &to.address);
        let call = self.client.call_as(user, to, body, timeout);
        let Some(scope) = trace_scope::current() else {
            return call.await;
        };
        let name = match webhook_type {
            WebhookType::Mutating => "Call mutating webhook",
            WebhookType::Validating => "Call validating webhook",
        };
        let mut span = scope.start(name, SpanKind::Internal);
        span.set("configuration", webhook.configuration.as_str());
        span.set("webhook", webhook.name.as_str());
        let outcome = trace_scope::within(span.scope().clone(), call).await;
        if let Err(error) = &outcome {
            span.fail(error.to_string());
        }
        outcome
    }

    /// Returns the configured webhooks.
    pub(crate) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Returns the client that calls webhooks.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }
}
