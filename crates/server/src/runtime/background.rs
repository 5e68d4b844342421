//! Tasks that run for as long as the server serves: informers, controllers.
//!
//! None of them may end before the server does. If one ends because of a bug, a health check fails permanently, so that
//! a supervisor restarts the server instead of leaving it half alive.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use holdfast_value::SmolStr;
use parking_lot::Mutex;

use crate::runtime::shutdown::Shutdown;

/// The check of the task that observes the CRDs.
pub const DEFINITIONS: &str = "poststarthook/crd-informer-synced";
/// The check of the tasks that pass stored objects to their kinds.
pub const OBSERVERS: &str = "poststarthook/generic-apiserver-start-informers";

/// The check of the task that observes APIServices.
pub const API_SERVICES: &str = "poststarthook/start-kube-aggregator-informers";

/// The background tasks of a server, with their state for health checks.
#[derive(Clone, Debug, Default)]
pub struct Background {
    /// The tasks that have ended too early, by the check that fails for them.
    ended: Arc<Mutex<BTreeMap<&'static str, SmolStr>>>,
}

impl Background {
    /// Runs a task concurrently with all others. If it ends or panics before the server shuts down, the health check of
    /// that name fails.
    pub fn spawn(
        &self,
        check: &'static str,
        task: impl Into<SmolStr>,
        shutdown: &Shutdown,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let watch = EndWatch {
            background: self.clone(),
            check,
            task: task.into(),
            shutdown: shutdown.clone(),
        };
        tokio::spawn(async move {
            let _watch = watch;
            work.await;
        });
    }

    /// Runs a task as [`Background::spawn`] does, and drops it when the server shuts down. For work that never ends by
    /// itself: a server in the process of a test would remain in memory with it.
    pub fn spawn_until_shutdown(
        &self,
        check: &'static str,
        task: impl Into<SmolStr>,
        shutdown: &Shutdown,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let closing = shutdown.clone();
        let bounded = async move {
            tokio::select! {
                () = work => {}
                () = closing.closing() => {}
            }
        };
        self.spawn(check, task, shutdown, bounded);
    }

    /// Returns the outcome of the check of that name.
    ///
    /// # Errors
    /// If a task of the check has ended; the text names it.
    pub fn outcome(&self, check: &str) -> Result<(), String> {
        match self.ended.lock().get(check) {
            None => Ok(()),
            Some(task) => Err(ended(task)),
        }
    }

    /// Returns the outcome of all tasks.
    ///
    /// # Errors
    /// If a task has ended; the text names it.
    pub fn all(&self) -> Result<(), String> {
        match self.ended.lock().values().next() {
            None => Ok(()),
            Some(task) => Err(ended(task)),
        }
    }
}

fn ended(task: &str) -> String {
    format!("the task {task} has ended")
}

/// A guard that records the end of a task, even if it panics.
struct EndWatch {
    background: Background,
    check: &'static str,
    task: SmolStr,
    shutdown: Shutdown,
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        if self.shutdown.is_closing() {
            return;
        }
        tracing::error!(task = %self.task, "background task ended before the server");
        self.background.ended.lock().insert(self.check, self.task.clone());
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "what panics here is the test")]
mod tests {
    use super::*;
    use crate::runtime::shutdown::ShutdownTrigger;

    #[tokio::test]
    async fn endless_task_is_dropped_at_shutdown() {
        let (background, trigger) = (Background::default(), ShutdownTrigger::new());
        let held = Arc::new(());
        let work = {
            let held = Arc::clone(&held);
            async move {
                let _held = held;
                std::future::pending::<()>().await;
            }
        };
        background.spawn_until_shutdown("lives", "one", &trigger.shutdown(), work);
        trigger.close();
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(background.all(), Ok(()));
    }

    #[tokio::test]
    async fn a_task_that_ends_fails_its_check_and_no_other() {
        let (background, trigger) = (Background::default(), ShutdownTrigger::new());
        let shutdown = trigger.shutdown();
        background.spawn("lives", "one", &shutdown, std::future::pending());
        background.spawn("returns", "two", &shutdown, async {});
        background.spawn("panics", "three", &shutdown, async { panic!("a fault") });
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(background.outcome("lives"), Ok(()));
        assert_eq!(background.outcome("returns"), Err("the task two has ended".to_owned()));
        assert_eq!(background.outcome("panics"), Err("the task three has ended".to_owned()));
        assert!(background.all().is_err());
    }

    #[tokio::test]
    async fn a_task_that_ends_with_the_server_is_well() {
        let (background, trigger) = (Background::default(), ShutdownTrigger::new());
        trigger.close();
        background.spawn("returns", "one", &trigger.shutdown(), async {});
        tokio::task::yield_now().await;
        assert_eq!(background.all(), Ok(()));
    }
}
