//! The loop that all controllers share: follow the changes, work on what they call for, try again what failed.
//!
//! A controller is woken by changes, by the end of work under way and by the turn of what failed, and by nothing else. Its
//! own state is held by one task; work that has to wait for writes is done beside it, several items at a time.

use std::hash::Hash;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError};
use tokio::time::{Instant, sleep_until};

use crate::queue::Queue;

/// How many objects or changes a controller looks at before it lets other tasks have the thread.
const RUN: usize = 512;

/// Work under way, and what comes of it.
pub(crate) type Work<T> = BoxFuture<'static, Result<T, RequestError>>;

/// What one controller does.
pub(crate) trait Reconcile: Send {
    /// What there is to work on.
    type Item: Clone + Eq + Hash + Send + std::fmt::Debug;
    /// What comes of work.
    type Outcome: Send;

    /// The name, for the log.
    const NAME: &'static str;
    /// The name of the queue in metrics, as the reference has it.
    const QUEUE: &'static str = Self::NAME;
    /// How many items are worked on at a time.
    const PARALLEL: usize;

    /// The name of the queue, where one controller has several parts.
    fn queue(&self) -> &'static str {
        Self::QUEUE
    }

    /// The objects that matter, and their changes. Whatever was known is forgotten: all objects are seen again.
    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost>;

    /// An object was there when the watch began.
    fn seen(&mut self, object: &Object, queue: &mut Queue<Self::Item>);

    /// All objects were seen.
    fn all_seen(&mut self, _queue: &mut Queue<Self::Item>) {}

    /// An object changed.
    fn changed(&mut self, change: &Change, queue: &mut Queue<Self::Item>);

    /// Begins to work on an item; `None` where there is nothing to do.
    fn work(&mut self, item: &Self::Item, queue: &mut Queue<Self::Item>) -> Option<Work<Self::Outcome>>;

    /// Work came to its end.
    fn finished(&mut self, _item: &Self::Item, _outcome: Self::Outcome, _queue: &mut Queue<Self::Item>) {}
}

/// Runs a controller until the server ends.
pub(crate) async fn run<C: Reconcile>(client: Client, mut controller: C) {
    let shutdown = client.shutdown();
    let mut queue = Queue::measured(client.queue_metrics(controller.queue()));
    let rounds = async {
        // Each round begins with all objects; only a controller that fell far behind has a second one. What was to be
        // done is not forgotten: to work on an item that needs nothing is cheap.
        while let Ok((objects, changes)) = controller.watch(&client) {
            look_at_all(&mut controller, objects, &mut queue).await;
            controller.all_seen(&mut queue);
            follow(&mut controller, changes, &mut queue).await;
        }
    };
    tokio::select! {
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

async fn follow<C: Reconcile>(controller: &mut C, mut changes: Changes, queue: &mut Queue<C::Item>) {
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
        tokio::select! {
            change = changes.next() => {
                let Ok(change) = change else { break };
                controller.changed(&change, queue);
                if drain(controller, &mut changes, queue).is_err() {
                    break;
                }
            }
            Some((outcome, item)) = working.next(), if !working.is_empty() => {
                finish(controller, queue, item, outcome);
            }
            () = turn => {}
        }
    }
    // What is under way is brought to its end before all begins again.
    while let Some((outcome, item)) = working.next().await {
        finish(controller, queue, item, outcome);
    }
}

/// Looks at the changes that are there already, but not at more than a run of them.
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
            // Others write too; that one was faster, or that something is yet to come, is no news.
            if error.is_conflict() || error.is_not_found() {
                tracing::debug!(controller = C::NAME, ?item, %error, "tried again");
            } else {
                tracing::warn!(controller = C::NAME, ?item, %error, "tried again later");
            }
            queue.failed(item, Instant::now());
        }
    }
}
