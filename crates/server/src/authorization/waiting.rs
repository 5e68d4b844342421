//! Threads that wait for a webhook, for callers that cannot wait otherwise: expressions, admission plugins and checks of
//! permissions during a write.

use holdfast_authorization::{Authorization, Pending};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Maximum number of threads that wait at the same time. They are not those that serve other requests.
const MAX_THREADS: usize = 128;

static THREADS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Waits for an answer on this thread, which another thread replaces in the meantime.
///
/// # Errors
/// If too many threads wait already, or if no other thread could serve requests in the meantime.
pub(super) fn wait(pending: Pending) -> Result<Authorization, &'static str> {
    let current = Handle::try_current().ok();
    let with_threads = current.filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    let runtime = with_threads.ok_or("there is no thread to wait for an authorization webhook")?;
    let place = THREADS.try_acquire();
    let _place = place.map_err(|_| "too many requests wait for an authorization webhook")?;
    Ok(tokio::task::block_in_place(|| runtime.block_on(pending)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn waiting_thread_holds_up_no_other_work() {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(async move {
            wait(Box::pin(
                async move { answered.await.unwrap_or(Authorization::NO_OPINION) },
            ))
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        // There is one worker thread: the task runs only if the other one waits elsewhere.
        let allowed = Authorization::new(holdfast_authorization::Decision::Allow);
        tokio::spawn(async move { answer.send(allowed) })
            .await
            .unwrap()
            .unwrap();
        assert!(waiting.await.unwrap().unwrap().allows());
    }

    #[tokio::test]
    async fn single_thread_does_not_wait() {
        wait(Box::pin(async { Authorization::NO_OPINION })).unwrap_err();
    }
}
