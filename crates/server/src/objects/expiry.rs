//! Expiry of events, for stores that do not expire them themselves, as etcd does by leases.
//!
//! An event that is written from now on is removed when its lifetime is over. For an event that existed before, the
//! time of the last write is read from the object itself, a few objects at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_store::{CommitError, Key, Revision, Transaction};
use holdfast_value::Value;
use parking_lot::Mutex;

use super::informers::{self, Difference, InformerHandler, InformerScope};
use super::{Entry, Store, readable};
use crate::runtime::Clock;
use crate::runtime::background::{self, Background};
use crate::runtime::shutdown::Shutdown;
use crate::runtime::testing_clock::Advances;

/// Key prefix of events.
const EVENTS: &str = "/registry/events/";
/// Number of objects that are read or removed before the task yields.
const RUN: usize = 64;
/// Interval between checks for expired objects.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);

/// The time for the expiry of events.
pub struct ExpiryTime {
    /// Lifetime of an event after its last write; zero for no end.
    pub life: Duration,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The moves of the clock, after which events expire immediately.
    pub advances: Advances,
}

/// Removes events whose lifetime is over.
pub fn expire_events(store: &Arc<Store>, background: &Background, shutdown: &Shutdown, time: ExpiryTime) {
    let ExpiryTime {
        life,
        clock,
        mut advances,
    } = time;
    if life.is_zero() {
        return;
    }
    let queue = Arc::new(Mutex::new(Queue::default()));
    let scope = InformerScope {
        prefix: EVENTS.into(),
        check: background::OBSERVERS,
    };
    let noting = Noting {
        queue: Arc::clone(&queue),
        clock: Arc::clone(&clock),
        life,
        begun: false,
    };
    informers::start(store, background, shutdown, scope, noting);
    let store = Arc::clone(store);
    let work = async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep((life / 60).clamp(OFTEN, SELDOM)) => {}
                _ = advances.next() => {}
            }
            read_found(&queue, life).await;
            remove_due(&store, &queue, &*clock).await;
        }
    };
    background.spawn_until_shutdown(background::OBSERVERS, "expiry of events", shutdown, work);
}

/// Queue of the objects to remove, with their times.
#[derive(Default)]
struct Queue {
    due: BinaryHeap<Reverse<(SystemTime, Key, Revision)>>,
    /// Objects that existed at the start.
    found: Vec<Arc<Entry>>,
}

impl Queue {
    /// Removes from the queue a few objects that are due by now, and returns them.
    fn take_due(&mut self, now: SystemTime) -> Vec<(Key, Revision)> {
        let mut due = Vec::new();
        while due.len() < RUN
            && let Some(Reverse((time, ..))) = self.due.peek()
            && *time <= now
            && let Some(Reverse((_, key, revision))) = self.due.pop()
        {
            due.push((key, revision));
        }
        due
    }
}

/// Informer that records writes.
struct Noting {
    queue: Arc<Mutex<Queue>>,
    clock: Arc<dyn Clock>,
    life: Duration,
    begun: bool,
}

impl InformerHandler for Noting {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        let written = differences.iter().filter_map(|difference| difference.now.as_ref());
        let mut queue = self.queue.lock();
        if self.begun {
            let Some(time) = self.clock.now().checked_add(self.life) else {
                return;
            };
            let due = written.map(|entry| Reverse((time, entry.key().clone(), entry.mod_revision())));
            queue.due.extend(due);
        } else {
            queue.found.extend(written.cloned());
            self.begun = true;
        }
    }
}

/// Reads the times of the last writes of the objects that existed at the start.
async fn read_found(queue: &Mutex<Queue>, life: Duration) {
    loop {
        let found: Vec<_> = {
            let mut queue = queue.lock();
            let from = queue.found.len().saturating_sub(RUN);
            queue.found.drain(from..).collect()
        };
        if found.is_empty() {
            return;
        }
        for entry in found {
            // An unreadable object has no time, and is left for an operator.
            let Some(written) = readable(&entry).as_ref().and_then(last_written) else {
                continue;
            };
            let Some(time) = written.checked_add(life) else {
                continue;
            };
            let due = (time, entry.key().clone(), entry.mod_revision());
            queue.lock().due.push(Reverse(due));
        }
        tokio::task::yield_now().await;
    }
}

async fn remove_due(store: &Store, queue: &Mutex<Queue>, clock: &dyn Clock) {
    loop {
        let due = queue.lock().take_due(clock.now());
        if due.is_empty() {
            return;
        }
        for (key, revision) in due {
            let transaction = Transaction::new().guard(key.clone(), revision).delete(key.clone());
            match store.commit(transaction).await {
                // An object that was written since is removed later, at the time recorded then.
                Ok(_) | Err(CommitError::GuardFailed { .. }) => {}
                Err(error) => {
                    tracing::warn!(%key, %error, "an expired event cannot be deleted yet");
                    let again = clock.now() + SELDOM;
                    queue.lock().due.push(Reverse((again, key, revision)));
                }
            }
        }
    }
}

/// Returns the time of the last write of an object, according to the object itself.
fn last_written(object: &Value) -> Option<SystemTime> {
    let managed = object.at(&["metadata", "managedFields"]).and_then(Value::as_list);
    let of_managers = managed
        .into_iter()
        .flat_map(|list| list.iter())
        .map(|manager| manager.at(&["time"]));
    let times = of_managers.chain([object.at(&["metadata", "creationTimestamp"])]);
    times.flatten().filter_map(Value::as_str).filter_map(time_of).max()
}

fn time_of(text: &str) -> Option<SystemTime> {
    Timestamp::parse(text, Precision::Seconds).ok().map(SystemTime::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::time::UNIX_EPOCH;

    use holdfast_value::{Limits, json};

    use super::*;
    use crate::objects::Objects;
    use crate::runtime::SystemClock;

    #[test]
    fn due_objects_are_taken_in_order_of_time() {
        let mut queue = Queue::default();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (time, name) in [(30, "c"), (10, "a"), (20, "b")] {
            queue.due.push(Reverse((at(time), name.into(), time)));
        }
        assert_eq!(queue.take_due(at(9)), []);
        assert_eq!(queue.take_due(at(20)), [("a".into(), 10), ("b".into(), 20)]);
        assert_eq!(queue.take_due(at(20)), []);
        assert_eq!(queue.take_due(at(30)), [("c".into(), 30)]);
    }

    #[tokio::test]
    async fn expired_event_is_removed_and_rewritten_event_stays() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::new(Arc::default());
        let store = Store::open(holdfast_store::Config::new(folder.path()), objects).unwrap();
        let put = async |name: &str| {
            let value = holdfast_store::Value::plain("{}");
            let put = Transaction::new().put(format!("{EVENTS}{name}"), value);
            store.commit(put).await.unwrap().revision
        };
        let queue = Mutex::new(Queue::default());
        for name in ["over", "again"] {
            let due = (UNIX_EPOCH, Key::from(format!("{EVENTS}{name}")), put(name).await);
            queue.lock().due.push(Reverse(due));
        }
        put("again").await;
        remove_due(&store, &queue, &SystemClock).await;
        let left: Vec<String> = store
            .snapshot()
            .range(EVENTS.as_bytes())
            .map(|entry| entry.key().to_string())
            .collect();
        assert_eq!(left, [format!("{EVENTS}again")]);
    }

    #[test]
    fn the_last_write_is_that_of_the_last_manager() {
        let written = |text: &str| last_written(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap());
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let created = r#""creationTimestamp":"1970-01-01T00:01:00Z""#;
        assert_eq!(written(&format!(r#"{{"metadata":{{{created}}}}}"#)), at(60));
        let managers =
            r#""managedFields":[{"time":"1970-01-01T00:02:00Z"},{"manager":"a"},{"time":"1970-01-01T00:01:30Z"}]"#;
        assert_eq!(written(&format!(r#"{{"metadata":{{{created},{managers}}}}}"#)), at(120));
        assert_eq!(written(r#"{"metadata":{}}"#), None);
    }
}
