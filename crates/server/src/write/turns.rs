//! Order of the writers of each object.
//!
//! Writers of one object wait for each other in the order of their arrival, and each runs over the result of the one
//! before it: no run is in vain, and none loses a race that its client did not ask for. A writer keeps its turn while
//! it works and while the store commits. While it waits for webhooks it keeps the turn only for a limited time, because
//! a webhook may itself write to the object, and a slow one would delay every writer. A writer that was overtaken
//! begins again and keeps its turn longer each time, so that it too completes.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;
use tokio::time::Instant;

use crate::http::ApiError;

/// Maximum number of writers of one object, including those that wait.
const WRITERS: usize = 1000;

/// Time for which a turn is kept while webhooks are called; it grows by this much with each further attempt.
const WEBHOOK_TURN_TIMEOUT: Duration = Duration::from_millis(20);
const TURN_WAIT_FACTOR: u32 = 4;

/// Maximum time for which a turn is kept while webhooks are called.
const MAX_TURN_WAIT: Duration = Duration::from_secs(30);

/// Queues of the objects that are being written, by hashes of their keys. It is extremely unlikely that two keys share
/// a hash, and harmless: their writers only wait for each other.
#[derive(Default)]
pub struct Turns {
    queues: Mutex<HashMap<u64, Queue>>,
    hasher: RandomState,
}

/// Queue of the writers of an object.
struct Queue {
    /// Semaphore with one permit; the writers wait in order.
    turn: Arc<Semaphore>,
    /// Number of writers.
    writers: usize,
}

/// Turn of a writer, or its membership in the queue after it gave the turn up.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    /// Key of the object; `None` if the writer waits for nothing.
    key: Option<u64>,
    deadline: Option<Instant>,
    max_wait: Duration,
    held: Option<Held<'a>>,
}

/// Turn that is held. Fields are dropped in order: the next writer gets its turn before the queue may be dropped.
struct Held<'a> {
    _turn: OwnedSemaphorePermit,
    _place: QueueMember<'a>,
}

/// Membership of a writer in the queue of an object. The last member drops the queue.
struct QueueMember<'a> {
    turns: &'a Turns,
    key: u64,
}

impl Turns {
    /// Waits for a turn to write to the object at `key`, at most until `deadline`.
    ///
    /// # Errors
    /// If the deadline passes (504), or if too many writers wait already (429).
    pub(super) async fn take(&self, key: &str, deadline: Option<Instant>) -> Result<Turn<'_>, ApiError> {
        let mut turn = self.none();
        turn.key = Some(self.hasher.hash_one(key));
        turn.deadline = deadline;
        turn.retake().await?;
        Ok(turn)
    }

    /// Returns the turn of a writer that waits for no other because it stores nothing.
    pub(super) fn none(&self) -> Turn<'_> {
        Turn {
            turns: self,
            key: None,
            deadline: None,
            max_wait: WEBHOOK_TURN_TIMEOUT,
            held: None,
        }
    }

    fn place(&self, key: u64) -> Result<(QueueMember<'_>, Arc<Semaphore>), ApiError> {
        let mut queues = self.queues.lock();
        let queue = queues.entry(key).or_insert_with(|| Queue {
            turn: Arc::new(Semaphore::new(1)),
            writers: 0,
        });
        if queue.writers >= WRITERS {
            return Err(ApiError::too_many_requests(
                "too many requests wait to write to this object, please try again later",
                1,
            ));
        }
        queue.writers += 1;
        Ok((QueueMember { turns: self, key }, Arc::clone(&queue.turn)))
    }
}

impl Drop for QueueMember<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues.lock();
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.writers -= 1;
            if queue.writers == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

impl Turn<'_> {
    /// Waits for the turn again if it was given up. Returns true if it was, because others may have written meanwhile.
    ///
    /// # Errors
    /// If too many writers wait, or the deadline passes.
    pub(super) async fn retake(&mut self) -> Result<bool, ApiError> {
        let Some(key) = self.key.filter(|_| self.held.is_none()) else {
            return Ok(false);
        };
        let (place, turn) = self.turns.place(key)?;
        let wait = turn.acquire_owned();
        let acquired = match self.deadline {
            Some(deadline) => time::timeout_at(deadline, wait)
                .await
                .map_err(|_| ApiError::out_of_time())?,
            None => wait.await,
        };
        let turn = acquired.map_err(|error| ApiError::internal(error.to_string()))?;
        self.held = Some(Held {
            _turn: turn,
            _place: place,
        });
        Ok(true)
    }

    /// Gives the turn to the next writer.
    pub(super) fn give_up(&mut self) {
        self.held = None;
    }

    /// Returns the outcome of `run`, which only waits for webhooks. Gives the turn up if that lasts too long.
    pub(super) async fn over<T>(&mut self, run: impl Future<Output = T>) -> T {
        let mut run = pin!(run);
        if let Poll::Ready(outcome) = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await {
            return outcome;
        }
        let outcome = time::timeout(self.max_wait, run.as_mut()).await;
        if let Ok(outcome) = outcome {
            return outcome;
        }
        self.give_up();
        self.max_wait = (self.max_wait * TURN_WAIT_FACTOR).min(MAX_TURN_WAIT);
        run.await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn writers_have_their_turns_in_the_order_in_which_they_come() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        let first = turns.take("a", None).await.unwrap();
        let (order, turns) = (&order, &turns);
        let others = (0..5).map(|at| async move {
            let turn = turns.take("a", None).await.unwrap();
            order.lock().push(at);
            tokio::task::yield_now().await;
            drop(turn);
        });
        let mut others = pin!(futures_util::future::join_all(others));
        assert!(others.as_mut().now_or_never().is_none());
        assert!(
            turns.take("b", None).now_or_never().is_some(),
            "another object does not wait"
        );
        assert!(order.lock().is_empty());
        drop(first);
        others.await;
        assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
        assert!(turns.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_leaves_at_its_deadline_or_when_cancelled() {
        let turns = Turns::default();
        let first = turns.take("a", None).await.unwrap();
        let late = turns.take("a", Some(Instant::now() + Duration::from_millis(1))).await;
        assert_eq!(late.err().unwrap().code(), 504);
        assert!(turns.take("a", None).now_or_never().is_none());
        drop(first);
        assert!(turns.take("a", None).now_or_never().is_some());
        assert!(turns.queues.lock().is_empty());
    }

    #[tokio::test]
    async fn no_more_than_so_many_wait() {
        let turns = Turns::default();
        let first = turns.take("a", None).await.unwrap();
        let turns = &turns;
        let mut waiting: Vec<_> = (1..WRITERS).map(|_| Box::pin(turns.take("a", None))).collect();
        for wait in &mut waiting {
            assert!(wait.now_or_never().is_none());
        }
        assert_eq!(turns.take("a", None).await.err().unwrap().code(), 429);
        drop((first, waiting));
        assert!(turns.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_kept_over_work_and_given_up_over_a_long_wait() {
        let turns = Turns::default();
        let mut slow = turns.take("a", None).await.unwrap();
        slow.over(async { time::sleep(WEBHOOK_TURN_TIMEOUT / 2).await }).await;
        assert!(!slow.retake().await.unwrap(), "a short wait keeps the turn");
        // The webhook waits for another write to the same object.
        let (done, nested) = oneshot::channel();
        let nested_write = async {
            let turn = turns.take("a", None).await.unwrap();
            drop(turn);
            done.send(()).unwrap();
        };
        tokio::join!(slow.over(nested), nested_write).0.unwrap();
        assert!(slow.retake().await.unwrap(), "others may have written meanwhile");
        slow.over(time::sleep(WEBHOOK_TURN_TIMEOUT * 2)).await;
        assert!(!slow.retake().await.unwrap(), "who was overtaken is more patient");
    }
}
