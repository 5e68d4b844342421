//! Webhook backend: sends events in lists, and again if they are not accepted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_limits::TokenBucket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::queue::{Entry, Queue, QueueEnd};
use crate::Observer;
use crate::event::IDENTITY;

/// Name of this backend in metrics.
pub(crate) const NAME: &str = "webhook";

/// Client of the webhook.
pub trait Post: Send + Sync + 'static {
    /// Posts an `EventList` as JSON. A success code means that it was accepted.
    fn post(&self, list: Bytes) -> BoxFuture<'_, Result<(), String>>;
}

/// Maximum number of attempts for a list, and the growth factor of the backoff.
const MAX_ATTEMPTS: u32 = 5;
const FACTOR: f64 = 1.5;

/// Maximum number of lists in flight. If the webhook accepts none, the queue fills.
const MAX_LISTS_IN_FLIGHT: u32 = 64;

/// Maximum size of a list in bytes without a flag.
const MAX_LIST_BYTES: usize = 64 << 20;

/// Settings of lists and their transmission.
pub(crate) struct Sending {
    /// Maximum number of events in a list.
    pub(crate) max_events: usize,
    /// Maximum size in bytes of a list with more than one event.
    pub(crate) max_bytes: Option<usize>,
    /// Time before a list is sent for the second time.
    pub(crate) initial_backoff: Duration,
    /// Rate limit of lists.
    pub(crate) throttle: Option<TokenBucket<Instant>>,
}

/// Sends the entries of `queue` until it ends and all are sent or abandoned.
pub(crate) fn start(
    post: Arc<dyn Post>,
    queue: Arc<Queue>,
    sending: Sending,
    observer: Arc<dyn Observer>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let end = QueueEnd::new(NAME, Arc::clone(&queue), Arc::clone(&observer));
        let sender = Arc::new(Sender {
            post,
            initial_backoff: sending.initial_backoff,
            observer,
        });
        let places = Arc::new(Semaphore::new(MAX_LISTS_IN_FLIGHT as usize));
        let mut throttle = sending.throttle;
        let max_bytes = sending.max_bytes.unwrap_or(MAX_LIST_BYTES);
        while let Some(mut entries) = queue.collect(sending.max_events).await {
            while !entries.is_empty() {
                let list = split(&mut entries, max_bytes);
                if let Some(throttle) = &mut throttle {
                    tokio::time::sleep(throttle.reserve(tokio::time::Instant::now().into_std())).await;
                }
                // The semaphore is never closed.
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                tokio::spawn(Arc::clone(&sender).send(list, place));
            }
        }
        let _ = places.acquire_many(MAX_LISTS_IN_FLIGHT).await;
        drop(end);
    })
}

/// Removes as many events as fit in a list, at least one.
fn split(entries: &mut VecDeque<Entry>, max_bytes: usize) -> VecDeque<Entry> {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += entry.text.len();
        bytes <= max_bytes
    });
    let fit = fitting.count().max(1);
    let rest = entries.split_off(fit.min(entries.len()));
    std::mem::replace(entries, rest)
}

/// Returns an `EventList`. Its events omit their kind.
fn list(entries: &VecDeque<Entry>) -> Bytes {
    let head = r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
    let length: usize = entries.iter().map(|entry| entry.text.len()).sum();
    let mut out = Vec::with_capacity(head.len() + length + 4);
    out.extend_from_slice(head.as_bytes());
    for (at, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{" } else { b",{" });
        let event = entry.text.strip_prefix(b"{").unwrap_or(&entry.text);
        let text = event.strip_prefix(IDENTITY.as_bytes()).unwrap_or(event);
        out.extend_from_slice(text.trim_ascii_end());
    }
    out.extend_from_slice(b"]}\n");
    out.into()
}

struct Sender {
    post: Arc<dyn Post>,
    initial_backoff: Duration,
    observer: Arc<dyn Observer>,
}

impl Sender {
    async fn send(self: Arc<Self>, entries: VecDeque<Entry>, _place: OwnedSemaphorePermit) {
        let outcome = self.attempts(list(&entries)).await;
        if let Err(error) = &outcome {
            self.observer.failed(NAME, entries.len());
            tracing::error!(plugin = NAME, events = entries.len(), %error, "audit events could not be sent");
        }
        entries.into_iter().for_each(|entry| entry.finish(outcome.is_ok()));
    }

    async fn attempts(&self, list: Bytes) -> Result<(), String> {
        let mut pause = self.initial_backoff;
        let mut attempt = 1;
        loop {
            let error = match self.post.post(list.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if attempt == MAX_ATTEMPTS {
                return Err(error);
            }
            tracing::debug!(plugin = NAME, attempt, %error, "audit events are sent again");
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(FACTOR);
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::super::queue::Gathering;
    use super::super::tests::Counts;
    use super::*;

    /// Webhook that rejects some lists before it accepts one.
    struct Hook {
        rejects: Mutex<u32>,
        taken: Mutex<Vec<String>>,
    }

    impl Post for Hook {
        fn post(&self, list: Bytes) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async move {
                let mut rejects = self.rejects.lock();
                if *rejects > 0 {
                    *rejects -= 1;
                    return Err("no".to_owned());
                }
                self.taken.lock().push(String::from_utf8(list.to_vec()).unwrap());
                Ok(())
            })
        }
    }

    fn entry(text: &str) -> (Entry, oneshot::Receiver<bool>) {
        let (done, outcome) = oneshot::channel();
        let text = format!("{{{IDENTITY}\"auditID\":\"{text}\"}}\n");
        let entry = Entry {
            text: Bytes::from(text),
            done: Some(done),
        };
        (entry, outcome)
    }

    async fn send(rejects: u32, max_bytes: Option<usize>) -> (Vec<String>, Vec<bool>, Arc<Counts>, Duration) {
        let hook = Arc::new(Hook {
            rejects: Mutex::new(rejects),
            taken: Mutex::default(),
        });
        let queue = Arc::new(Queue::new(Gathering {
            capacity: 10,
            enough: 10,
            linger: Duration::from_secs(30),
        }));
        let sending = Sending {
            max_events: 10,
            max_bytes,
            initial_backoff: Duration::from_secs(10),
            throttle: None,
        };
        let counts = Arc::new(Counts::default());
        let begun = Instant::now();
        let mut outcomes = Vec::new();
        for text in ["a", "b"] {
            let (entry, outcome) = entry(text);
            queue.push(entry, false).unwrap();
            outcomes.push(outcome);
        }
        queue.close();
        start(Arc::clone(&hook) as _, queue, sending, Arc::clone(&counts) as _)
            .await
            .unwrap();
        let mut finished = Vec::new();
        for outcome in outcomes {
            finished.push(outcome.await.unwrap());
        }
        let taken = hook.taken.lock().clone();
        (taken, finished, counts, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn events_go_in_lists_without_their_kind() {
        let (taken, finished, counts, _) = send(0, None).await;
        assert_eq!(
            taken,
            [
                "{\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"metadata\":{},\"items\":[{\"auditID\":\"a\"},\
              {\"auditID\":\"b\"}]}\n"
            ]
        );
        assert_eq!((finished, counts.failures()), (vec![true, true], vec![]));
        let (taken, ..) = send(0, Some(10)).await;
        assert_eq!(taken.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_sent_again_after_longer_and_longer_waits() {
        let (taken, finished, counts, elapsed) = send(2, None).await;
        assert_eq!(
            (taken.len(), finished, counts.failures()),
            (1, vec![true, true], vec![])
        );
        assert_eq!(elapsed, Duration::from_secs(25));
    }

    #[tokio::test(start_paused = true)]
    async fn unaccepted_list_is_dropped_and_counted() {
        let (taken, finished, counts, _) = send(5, None).await;
        assert_eq!((taken.len(), finished), (0, vec![false, false]));
        assert_eq!(counts.failures(), [("webhook", 2)]);
    }
}
