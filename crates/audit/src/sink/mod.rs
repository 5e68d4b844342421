//! Sink of events: backends, each with its own queue.

pub mod log;
mod queue;
mod rotation;
pub mod webhook;

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle as Thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, FutureExt as _};
use holdfast_limits::TokenBucket;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle as Task;

use self::log::{Format, Output, Writer};
use self::queue::{Entry, Gathering, Overflow, Queue};
use self::webhook::{Post, Sending};
use crate::{Event, Level, Stage, legacy};

/// Observer that counts the outcomes of events.
pub trait Observer: Send + Sync + 'static {
    /// Called when a request is audited at that level.
    fn judged(&self, level: Level);

    /// Called when an event is emitted.
    fn emitted(&self);

    /// Called when a plugin loses events: `log`, `webhook`, `buffered`, `truncate`.
    fn failed(&self, plugin: &'static str, events: usize);

    /// Called when a request is rejected because its event could not be stored.
    fn rejected(&self);
}

/// Effect of the events' outcome on their request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None: events are queued, and dropped if the queue is full.
    Batch,
    /// The response waits until they are written.
    Blocking,
    /// The request waits, too, and is rejected if its first event cannot be written.
    BlockingStrict,
}

impl Mode {
    /// Modes as named by flags.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Batch, "batch"),
        (Self::Blocking, "blocking"),
        (Self::BlockingStrict, "blocking-strict"),
    ];

    /// Returns the mode with that name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(mode, _)| *mode)
    }
}

/// Batching of events in the mode `batch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batching {
    /// Maximum number of waiting events.
    pub buffer_size: usize,
    /// Maximum number of events in a batch.
    pub max_size: usize,
    /// Maximum time that an incomplete batch waits.
    pub max_wait: Duration,
    /// Rate limit of batches: number per second, and burst.
    pub throttle: Option<(f32, u32)>,
}

/// Limits for the truncation of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Maximum size of an event in bytes.
    pub max_event_bytes: usize,
    /// Maximum size of a batch in bytes.
    pub max_batch_bytes: usize,
}

/// Configuration of a backend.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// Effect on requests.
    pub mode: Mode,
    /// Batching in the mode `batch`.
    pub batching: Batching,
    /// Truncation of large events.
    pub truncation: Option<Truncation>,
}

/// Maximum number of waiting events of requests that wait for them. A cancelled request does not wait.
const MAX_BLOCKING_EVENTS: usize = 100_000;

/// Time that events wait for each other if no request waits for them.
const LINGER_DURATION: Duration = Duration::from_millis(20);

/// Name of the queue and of the truncation in metrics.
const BUFFERED: &str = "buffered";
const TRUNCATE: &str = "truncate";

impl BackendConfig {
    fn throttle(&self) -> Option<TokenBucket<Instant>> {
        let throttle = self.batching.throttle.filter(|_| self.mode == Mode::Batch);
        throttle.map(|(per_second, burst)| {
            TokenBucket::new(f64::from(per_second), burst, tokio::time::Instant::now().into_std())
        })
    }

    fn gathering(&self, of_one: Duration) -> Gathering {
        let batching = &self.batching;
        match self.mode {
            Mode::Batch => Gathering {
                capacity: batching.buffer_size,
                enough: batching.max_size,
                linger: if batching.max_size > 1 {
                    batching.max_wait
                } else {
                    of_one
                },
            },
            Mode::Blocking | Mode::BlockingStrict => Gathering {
                capacity: MAX_BLOCKING_EVENTS,
                enough: 1,
                linger: of_one,
            },
        }
    }
}

struct Backend {
    mode: Mode,
    format: Format,
    truncation: Option<Truncation>,
    queue: Arc<Queue>,
}

/// Threads and tasks that empty the queues.
#[derive(Default)]
struct Workers {
    thread: Option<Thread<()>>,
    task: Option<Task<()>>,
}

/// Sink with all backends.
pub struct Sink {
    backends: Vec<Backend>,
    workers: Mutex<Workers>,
    observer: Arc<dyn Observer>,
}

/// Future that resolves when a backend ends; early if the sink was not closed.
pub type Ended = BoxFuture<'static, ()>;

impl Sink {
    /// Creates a sink without backends.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            backends: Vec::new(),
            workers: Mutex::default(),
            observer,
        }
    }

    /// Adds a log.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn add_log(&mut self, output: Output, format: Format, config: &BackendConfig) -> io::Result<Ended> {
        let queue = Arc::new(Queue::new(config.gathering(LINGER_DURATION)));
        let (thread, ended) = Writer::start(
            output,
            Arc::clone(&queue),
            config.throttle(),
            Arc::clone(&self.observer),
        )?;
        self.backends.push(Backend {
            mode: config.mode,
            format,
            truncation: config.truncation,
            queue,
        });
        self.workers.get_mut().thread = Some(thread);
        Ok(ended.map(drop).boxed())
    }

    /// Adds a webhook. A list that is not accepted is sent again, first after `initial_backoff`.
    pub fn add_webhook(&mut self, post: Arc<dyn Post>, initial_backoff: Duration, config: &BackendConfig) -> Ended {
        let queue = Arc::new(Queue::new(config.gathering(Duration::ZERO)));
        let sending = Sending {
            max_events: match config.mode {
                Mode::Batch => config.batching.max_size,
                // All waiting events: each request waits for its own, and together they wait no longer.
                Mode::Blocking | Mode::BlockingStrict => config.batching.max_size.max(1),
            },
            max_bytes: config.truncation.map(|truncation| truncation.max_batch_bytes),
            initial_backoff,
            throttle: config.throttle(),
        };
        let (ends, ended) = oneshot::channel::<()>();
        let work = webhook::start(post, Arc::clone(&queue), sending, Arc::clone(&self.observer));
        let task = tokio::spawn(async move {
            let _ends = ends;
            // A panic ends it, too.
            let _ = work.await;
        });
        self.backends.push(Backend {
            mode: config.mode,
            format: Format::Json,
            truncation: config.truncation,
            queue,
        });
        self.workers.get_mut().task = Some(task);
        ended.map(drop).boxed()
    }

    /// True if there is no backend.
    pub fn is_empty(&self) -> bool {
        self.backends.is_empty()
    }

    /// Emits the event of `stage`. If `awaited`, the caller waits for the receipt.
    pub(crate) fn emit(&self, event: &Event, stage: Stage, now: SystemTime, awaited: bool) -> Receipt {
        self.observer.emitted();
        let (whole, mut receipt) = (OnceCell::new(), Receipt::default());
        let encoded = || {
            let mut out = Vec::with_capacity(1024);
            event.write(stage, now, &mut out);
            Bytes::from(out)
        };
        for backend in &self.backends {
            let whole = || whole.get_or_init(encoded).clone();
            let Some(text) = backend.text(event, stage, now, whole) else {
                self.observer.failed(TRUNCATE, 1);
                tracing::error!(plugin = TRUNCATE, "event is too large even after truncating");
                continue;
            };
            // The response also waits for the earlier events in the queue.
            let waits = match backend.mode {
                Mode::Batch => false,
                Mode::Blocking => awaited && stage != Stage::RequestReceived,
                Mode::BlockingStrict => awaited,
            };
            let (done, outcome) = match waits {
                true => Some(oneshot::channel()).unzip(),
                false => (None, None),
            };
            if let Err(error) = backend.queue.push(Entry { text, done }, waits) {
                self.overflow(error);
            }
            if let Some(outcome) = outcome {
                receipt.add(outcome, backend.mode == Mode::BlockingStrict);
            }
        }
        receipt
    }

    fn overflow(&self, error: Overflow) {
        self.observer.failed(BUFFERED, 1);
        tracing::error!(plugin = BUFFERED, %error, "an audit event is lost");
    }

    /// Counts a rejected request.
    pub fn rejected(&self) {
        self.observer.rejected();
    }

    /// Stops accepting events and waits until the queued ones are written and sent, or the time is over.
    pub async fn close(&self, limit: Duration) {
        for backend in &self.backends {
            backend.queue.close();
        }
        let Workers { thread, task } = std::mem::take(&mut *self.workers.lock());
        let written = async {
            if let Some(thread) = thread {
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
        };
        let sent = async {
            if let Some(task) = task {
                let _ = task.await;
            }
        };
        if tokio::time::timeout(limit, future::join(written, sent)).await.is_err() {
            let lost: usize = self.backends.iter().map(|backend| backend.queue.abandon()).sum();
            tracing::error!(queued = lost, "audit events were not written or sent in time");
        }
    }
}

impl Backend {
    /// Returns the event in this backend's form; `None` if it is too large even when truncated.
    fn text(&self, event: &Event, stage: Stage, now: SystemTime, whole: impl Fn() -> Bytes) -> Option<Bytes> {
        let text = match self.truncation {
            None if self.format == Format::Legacy => Bytes::new(),
            None => whole(),
            Some(truncation) => {
                let mut text = whole();
                if text.len() > truncation.max_event_bytes && event.level >= Level::Request {
                    let mut out = Vec::with_capacity(1024);
                    event.write_truncated(stage, now, &mut out);
                    text = out.into();
                }
                (text.len() <= truncation.max_event_bytes).then_some(text)?
            }
        };
        Some(match self.format {
            Format::Json => text,
            Format::Legacy => legacy::line(event, stage).into(),
        })
    }
}

/// Outcome of an event, for callers that wait for it.
#[derive(Debug, Default)]
#[must_use = "blocking modes wait for the outcome"]
pub struct Receipt {
    /// Pending outcome of at most one event per backend; the flag is true if the request depends on it.
    outcomes: [Option<(oneshot::Receiver<bool>, bool)>; 2],
}

impl Receipt {
    fn add(&mut self, outcome: oneshot::Receiver<bool>, strict: bool) {
        if let Some(free) = self.outcomes.iter_mut().find(|free| free.is_none()) {
            *free = Some((outcome, strict));
        }
    }

    /// Waits; returns true if the request may continue. It may not if a backend of the mode `blocking-strict` did not
    /// accept the event.
    pub async fn finished(self) -> bool {
        let mut well = true;
        for (outcome, strict) in self.outcomes.into_iter().flatten() {
            let taken = outcome.await.unwrap_or(false);
            well &= taken || !strict;
        }
        well
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::time::UNIX_EPOCH;

    use super::log::Target;
    use super::*;
    use crate::event::tests::head;

    /// Observer that records its calls.
    #[derive(Default)]
    pub(crate) struct Counts {
        failures: Mutex<Vec<(&'static str, usize)>>,
        emitted: Mutex<usize>,
    }

    impl Counts {
        pub(crate) fn failures(&self) -> Vec<(&'static str, usize)> {
            self.failures.lock().clone()
        }
    }

    impl Observer for Counts {
        fn judged(&self, _level: Level) {}

        fn emitted(&self) {
            *self.emitted.lock() += 1;
        }

        fn failed(&self, plugin: &'static str, events: usize) {
            self.failures.lock().push((plugin, events));
        }

        fn rejected(&self) {}
    }

    pub(crate) fn config(mode: Mode) -> BackendConfig {
        BackendConfig {
            mode,
            batching: Batching {
                buffer_size: 100,
                max_size: 1,
                max_wait: Duration::ZERO,
                throttle: None,
            },
            truncation: None,
        }
    }

    fn event(level: Level, bytes: usize) -> Event {
        let mut event = Event::new(level, head());
        let text = format!("\"{}\"", "x".repeat(bytes));
        event.request_object = Some(Bytes::from(text));
        event
    }

    async fn logged(format: Format, config: &BackendConfig, events: &[Event]) -> (String, Vec<(&'static str, usize)>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let counts = Arc::new(Counts::default());
        let mut sink = Sink::new(Arc::clone(&counts) as _);
        let output = Target::Growing(path.clone()).open().unwrap();
        let _ended = sink.add_log(output, format, config).unwrap();
        for event in events {
            let receipt = sink.emit(event, Stage::ResponseComplete, UNIX_EPOCH, true);
            assert!(receipt.finished().await);
        }
        sink.close(Duration::from_secs(60)).await;
        assert_eq!(*counts.emitted.lock(), events.len());
        (fs::read_to_string(path).unwrap(), counts.failures())
    }

    #[tokio::test]
    async fn each_mode_loses_nothing_at_the_end() {
        for (mode, _) in Mode::ALL {
            let events = [event(Level::Request, 1), event(Level::Request, 2)];
            let (text, failures) = logged(Format::Json, &config(mode), &events).await;
            assert_eq!((text.lines().count(), failures), (2, vec![]), "{mode:?}");
        }
    }

    #[tokio::test]
    async fn lines_may_be_of_the_old_form() {
        let (text, _) = logged(Format::Legacy, &config(Mode::Blocking), &[event(Level::Request, 1)]).await;
        assert!(text.contains(" AUDIT: id=\"id\" stage=\"ResponseComplete\" "), "{text}");
    }

    #[tokio::test]
    async fn large_events_lose_their_objects_and_larger_ones_are_dropped() {
        let truncated = |max_event_bytes| BackendConfig {
            truncation: Some(Truncation {
                max_event_bytes,
                max_batch_bytes: 1 << 20,
            }),
            ..config(Mode::Blocking)
        };
        let (text, failures) = logged(Format::Json, &truncated(1000), &[event(Level::Request, 1000)]).await;
        assert!(text.contains("\"audit.k8s.io/truncated\":\"true\""), "{text}");
        assert_eq!(failures, []);
        let (text, failures) = logged(Format::Json, &truncated(1000), &[event(Level::Request, 10)]).await;
        assert!(text.contains("xxxxxxxxxx"), "{text}");
        assert_eq!(failures, []);
        let (text, failures) = logged(Format::Json, &truncated(10), &[event(Level::Request, 1)]).await;
        assert_eq!((text.as_str(), failures), ("", vec![("truncate", 1)]));
        // An event without objects cannot be truncated.
        let (text, failures) = logged(Format::Json, &truncated(500), &[event(Level::Metadata, 1000)]).await;
        assert_eq!((text.as_str(), failures), ("", vec![("truncate", 1)]));
    }

    #[tokio::test]
    async fn strict_sink_reports_lost_event() {
        for (mode, well) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
            let counts = Arc::new(Counts::default());
            let mut sink = Sink::new(Arc::clone(&counts) as _);
            let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let _ended = sink
                .add_log(Output::Growing(full), Format::Json, &config(mode))
                .unwrap();
            let receipt = sink.emit(&event(Level::Metadata, 1), Stage::ResponseComplete, UNIX_EPOCH, true);
            assert_eq!(receipt.finished().await, well);
            sink.close(Duration::from_secs(60)).await;
            assert_eq!(counts.failures(), [("log", 1)]);
        }
    }

    #[tokio::test]
    async fn a_closed_sink_counts_what_comes_too_late() {
        let counts = Arc::new(Counts::default());
        let mut sink = Sink::new(Arc::clone(&counts) as _);
        let ended = sink
            .add_log(Output::Stdout, Format::Json, &config(Mode::Batch))
            .unwrap();
        sink.close(Duration::from_secs(60)).await;
        ended.await;
        let receipt = sink.emit(&event(Level::Metadata, 1), Stage::ResponseComplete, UNIX_EPOCH, true);
        assert!(receipt.finished().await);
        assert_eq!(counts.failures(), [("buffered", 1)]);
    }
}
