//! Time that a request waits for admission webhooks. Its service level does not include this time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

tokio::task_local! {
    static CURRENT: Option<Arc<WebhookTime>>;
}

/// Time that one request waits for admission webhooks.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/request#LatencyTrackers
#[derive(Debug, Default)]
pub(crate) struct WebhookTime {
    /// Nanoseconds of all mutating webhooks, which run one after the other.
    mutating: AtomicU64,
    /// Nanoseconds of the slowest validating webhook, because they run in parallel.
    validating: AtomicU64,
}

impl WebhookTime {
    /// Returns the time so far.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(
            self.mutating
                .load(Relaxed)
                .saturating_add(self.validating.load(Relaxed)),
        )
    }
}

/// Runs `work`, and adds its calls of webhooks to `time`.
pub(crate) async fn measured<T>(time: Option<Arc<WebhookTime>>, work: impl Future<Output = T>) -> T {
    CURRENT.scope(time, work).await
}

/// Records the call of a webhook by the current request.
pub(crate) fn record(mutates: bool, duration: Duration) {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let _ = CURRENT.try_with(|time| match time {
        Some(time) if mutates => {
            time.mutating.fetch_add(nanoseconds, Relaxed);
        }
        Some(time) => {
            time.validating.fetch_max(nanoseconds, Relaxed);
        }
        None => {}
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mutating_webhooks_add_up_and_validating_overlap() {
        let time = Arc::new(WebhookTime::default());
        let calls = async {
            for (mutates, milliseconds) in [(true, 1), (true, 2), (false, 40), (false, 10)] {
                record(mutates, Duration::from_millis(milliseconds));
            }
        };
        measured(Some(Arc::clone(&time)), calls).await;
        record(true, Duration::from_secs(1));
        assert_eq!(time.total(), Duration::from_millis(43));
    }
}
