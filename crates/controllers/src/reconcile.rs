//! The reconcile loop that all controllers share: watch changes, process the items that they require, retry failures.
//!
//! A controller wakes only for changes, for the end of running work and for the retry time of failed items. One task
//! holds its state. Work that waits for writes runs concurrently, several items at a time.

use std::hash::Hash;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError};
use holdfast_server::runtime::testing_clock::Advances;
use tokio::time::{Instant, sleep_until};

use crate::queue::Queue;

/// Number of objects or changes that a controller processes before it yields to other tasks.
const RUN: usize = 512;

/// Running work and its outcome.
pub(crate) type Work<T> = BoxFuture<'static, Result<T, RequestError>>;

/// A controller.
pub(crate) trait Reconcile: Send {
    /// Item to process.
    type Item: Clone + Eq + Hash + Send + std::fmt::Debug;
    /// Outcome of processing an item.
    type Outcome: Send;

    /// Name in the log.
    const NAME: &'static str;
    /// Name of the queue in metrics, as in the reference.
    const QUEUE: &'static str = Self::NAME;
    /// Number of items that are processed at a time.
    const PARALLEL: usize;

    /// Returns the name of the queue if one controller has several parts.
    fn queue(&self) -> &'static str {
        Self::QUEUE
    }

    /// Returns the relevant objects and their changes. Discards previous knowledge: all objects are seen again.
    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost>;

    /// Processes an object that existed when the watch began.
    fn seen(&mut self, object: &Object, queue: &mut Queue<Self::Item>);

    /// Notes that all existing objects were seen.
    fn all_seen(&mut self, _queue: &mut Queue<Self::Item>) {}

    /// Processes a change of an object.
    fn changed(&mut self, change: &Change, queue: &mut Queue<Self::Item>);

    /// Starts to process an item; `None` if there is nothing to do.
    fn work(&mut self, item: &Self::Item, queue: &mut Queue<Self::Item>) -> Option<Work<Self::Outcome>>;

    /// Processes the outcome of finished work.
    fn finished(&mut self, _item: &Self::Item, _outcome: Self::Outcome, _queue: &mut Queue<Self::Item>) {}
}

/// Runs a controller until the server ends.
pub(crate) async fn run<C: Reconcile>(client: Client, mut controller: C) {
    let shutdown = client.shutdown();
    let mut queue = Queue::measured(client.queue_metrics(controller.queue()));
    let mut advances = client.advances();
    let rounds = async {
        // Each round begins with all objects. A second round happens only if the controller fell far behind. The queue
        // is kept: processing an item that needs no change is cheap.
        while let Ok((objects, changes)) = controller.watch(&client) {
            look_at_all(&mut controller, objects, &mut queue).await;
            controller.all_seen(&mut queue);
            follow(&mut controller, changes, &mut queue, &mut advances).await;
        }
    };
    tokio::select! {
        biased;
        () = rounds => {}
        () = shutdown.closing() => {}
    }
}

async fn look_at_all<C: Reconcile>(controller: &mut C, objects: Objects, queue: &mut Queue<C::Item>) {
    let mut last = None;
    loop {
        let mut seen = 0;
        let from = last.take();
        for object in objects.after(from.as_ref()).take(RUN) {
            controller.seen(&object, queue);
            seen += 1;
            last = Some(object);
        }
        if seen < RUN {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn follow<C: Reconcile>(
    controller: &mut C,
    mut changes: Changes,
    queue: &mut Queue<C::Item>,
    advances: &mut Advances,
) {
    let mut working = FuturesUnordered::new();
    loop {
        while working.len() < C::PARALLEL
            && let Some(item) = queue.pop(Instant::now())
        {
            match controller.work(&item, queue) {
                Some(work) => working.push(async move { (work.await, item) }),
                None => queue.done(item),
            }
        }
        let next_turn = queue.next_turn().filter(|_| working.len() < C::PARALLEL);
        let turn = async {
            match next_turn {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Finished work comes first: there is at most `PARALLEL` of it, so it delays no change for long, whereas changes
        // may never end. Due items are popped above in any case.
        tokio::select! {
            biased;
            Some((outcome, item)) = working.next(), if !working.is_empty() => {
                finish(controller, queue, item, outcome);
            }
            change = changes.next() => {
                let Ok(change) = change else { break };
                controller.changed(&change, queue);
                if drain(controller, &mut changes, queue).is_err() {
                    break;
                }
            }
            () = turn => {}
            by = advances.next() => queue.advance(by, Instant::now()),
        }
    }
    // Running work is completed before the next round begins.
    while let Some((outcome, item)) = working.next().await {
        finish(controller, queue, item, outcome);
    }
}

/// Processes the changes that are available, but at most one run of them.
fn drain<C: Reconcile>(controller: &mut C, changes: &mut Changes, queue: &mut Queue<C::Item>) -> Result<(), Lost> {
    for _ in 0..RUN {
        match changes.try_next()? {
            Some(change) => controller.changed(&change, queue),
            None => break,
        }
    }
    Ok(())
}

fn finish<C: Reconcile>(
    controller: &mut C,
    queue: &mut Queue<C::Item>,
    item: C::Item,
    outcome: Result<C::Outcome, RequestError>,
) {
    match outcome {
        Ok(outcome) => {
            controller.finished(&item, outcome, queue);
            queue.done(item);
        }
        Err(error) => {
            // Other clients write too; a conflict, or an object that does not exist yet, is no failure.
            if error.is_conflict() || error.is_not_found() {
                tracing::debug!(controller = C::NAME, ?item, %error, "reconciliation failed; will retry");
            } else {
                tracing::warn!(controller = C::NAME, ?item, %error, "reconciliation failed; will retry");
            }
            queue.failed(item, Instant::now());
        }
    }
}
