//! Webhooks from a kubeconfig: reused connections and their requests.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use holdfast_admission_plugins::{ImageReview, ImageReviewer};
use holdfast_egress::Dialer;
use holdfast_gotext::duration;
use holdfast_server::authentication::{PostError, ReviewPost};
use http::StatusCode;
use parking_lot::Mutex;

use crate::remote::{Access, Client};

/// A webhook.
pub(crate) struct Webhook {
    access: Access,
    /// Idle connections.
    idle: Mutex<Vec<Client>>,
    /// Query with the time limit that the webhook is given.
    query: String,
    /// Dialer through a proxy; `None` for direct connections.
    dialer: Option<Dialer>,
}

/// Default query.
const QUERY: &str = "timeout=30s";

/// Maximum number of idle connections.
const IDLE: usize = 25;

impl Webhook {
    /// Reads the webhook from the kubeconfig at `path`.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let access = Access::read(path, None)?;
        access.check()?;
        Ok(Self {
            access,
            idle: Mutex::default(),
            query: QUERY.to_owned(),
            dialer: None,
        })
    }

    /// Sets the time limit that the webhook is given.
    #[must_use]
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self {
            query: format!("timeout={}", duration::text(timeout)),
            ..self
        }
    }

    /// Connects through `dialer`.
    #[must_use]
    pub(crate) fn through(self, dialer: Option<&Dialer>) -> Self {
        Self {
            dialer: dialer.cloned(),
            ..self
        }
    }

    /// Posts JSON and returns the response.
    ///
    /// # Errors
    /// If there is no response.
    pub(crate) async fn send(&self, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let kept = self.idle.lock().pop();
        if let Some(mut client) = kept {
            // The webhook may have closed an idle connection in the meantime, which is not an error.
            if let Ok(answer) = client.post(&self.query, body.clone()).await {
                self.keep(client);
                return Ok(answer);
            }
        }
        let mut client = Client::connect_through(&self.access, self.dialer.as_ref()).await?;
        let answer = client.post(&self.query, body).await?;
        self.keep(client);
        Ok(answer)
    }

    fn keep(&self, client: Client) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE {
            idle.push(client);
        }
    }
}

impl ReviewPost for Webhook {
    fn post(&self, body: Bytes) -> BoxFuture<'_, Result<(StatusCode, Bytes), PostError>> {
        async move {
            self.send(body).await.map_err(|error| {
                let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
                PostError {
                    is_reset: causes.any(|cause| cause.kind() == ErrorKind::ConnectionReset),
                    why: format!("{error:#}"),
                }
            })
        }
        .boxed()
    }
}

/// A webhook that reviews images.
pub(crate) struct ImageWebhook {
    /// The webhook.
    pub(crate) webhook: Webhook,
    /// Time to wait before a review is retried.
    pub(crate) backoff: Duration,
}

/// Maximum number of attempts for a review, and the growth factor of the wait.
const ATTEMPTS: usize = 5;
const FACTOR: f64 = 1.5;

impl ImageWebhook {
    async fn ask(&self, review: Bytes) -> Result<Vec<u8>> {
        let mut wait = self.backoff;
        for attempt in 1.. {
            let (status, body) = self.webhook.send(review.clone()).await?;
            if status.is_success() {
                return Ok(body.to_vec());
            }
            let may_pass = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            if !may_pass || attempt >= ATTEMPTS {
                bail!("Error contacting webhook: {}", status.as_u16());
            }
            tokio::time::sleep(wait).await;
            wait = wait.mul_f64(FACTOR);
        }
        bail!("the webhook was not asked")
    }
}

impl ImageReviewer for ImageWebhook {
    fn review(&self, review: String) -> ImageReview<'_> {
        Box::pin(async move { self.ask(review.into()).await.map_err(|error| format!("{error:#}")) })
    }
}
