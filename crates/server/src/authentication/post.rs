//! Posts of reviews to webhooks, with their retries.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;

/// Maximum number of attempts, the wait after the first, and the growth of the wait and its random part.
pub(super) const ATTEMPTS: usize = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Reason why a webhook gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PostError {
    /// Description of the failure.
    pub why: String,
    /// True if the connection was reset, so that another attempt may succeed.
    pub is_reset: bool,
}

/// Sender of reviews to a webhook.
pub trait ReviewPost: Send + Sync {
    /// Posts JSON and returns the status and the body of the answer.
    fn post(&self, body: Bytes) -> BoxFuture<'_, Result<(StatusCode, Bytes), PostError>>;
}

/// Reason why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptError {
    /// Description of the failure.
    pub(crate) why: String,
    /// True if another attempt may succeed.
    pub(crate) may_pass: bool,
    /// True if the time ran out.
    pub(crate) is_timeout: bool,
}

impl AttemptError {
    /// Creates the error of an answer that cannot be used.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            may_pass: false,
            is_timeout: false,
        }
    }

    /// Creates the error of an attempt without an answer in time. As in the reference, there is no other attempt.
    pub(crate) fn timeout() -> Self {
        Self {
            is_timeout: true,
            ..Self::new("context deadline exceeded")
        }
    }
}

impl From<PostError> for AttemptError {
    fn from(error: PostError) -> Self {
        Self {
            may_pass: error.is_reset,
            ..Self::new(error.why)
        }
    }
}

/// Returns the body of a successful answer.
///
/// # Errors
/// If the answer has another status.
pub(crate) fn successful(status: StatusCode, body: Bytes) -> Result<Bytes, AttemptError> {
    match status.is_success() {
        true => Ok(body),
        false => Err(AttemptError {
            may_pass: is_transient(status),
            is_timeout: status == StatusCode::GATEWAY_TIMEOUT,
            why: format!("the webhook answered {status}"),
        }),
    }
}

/// Calls `attempt` until it succeeds, waiting longer after each failure that may pass. `random`, from 0 to 1, changes the
/// waits.
///
/// # Errors
/// The error of the last attempt.
///
/// upstream: k8s.io/apiserver/pkg/util/webhook#WithExponentialBackoff
pub(crate) async fn with_retries<T, F>(random: f64, mut attempt: impl FnMut() -> F) -> Result<T, AttemptError>
where
    F: Future<Output = Result<T, AttemptError>>,
{
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.may_pass => {}
            outcome => return outcome,
        }
        tokio::time::sleep(wait.mul_f64(1.0 + JITTER * random)).await;
        wait = wait.mul_f64(FACTOR);
    }
    attempt().await
}

/// Returns true if another attempt may succeed.
///
/// upstream: k8s.io/apiserver/pkg/util/webhook#DefaultShouldRetry
fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::GATEWAY_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    )
}
