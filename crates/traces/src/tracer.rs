//! The start of traces: which requests are sampled, and identifiers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use crate::context::TraceContext;
use crate::span::{Span, SpanKind, SpanRecord};

/// Parent of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The span is the first of a new trace.
    None,
    /// The span continues the trace of a client, which decides whether it is sampled.
    Client(TraceContext),
    /// The span is the first of a new trace, and refers to that of a client that is not trusted.
    Link(TraceContext),
}

/// Source of spans.
pub struct Tracer {
    /// Traces are sampled if a part of their identifier is below this number; `None` for none.
    bound: Option<u64>,
    queue: Sender<Box<SpanRecord>>,
    /// Number of spans that found the queue full.
    dropped: Arc<AtomicU64>,
    /// Set to true when the exporter has to end.
    closing: watch::Sender<bool>,
    /// Closed when the exporter has ended.
    exported: watch::Receiver<()>,
}

/// Connection of a tracer with its exporter.
pub(crate) struct ExportQueue {
    /// Ended spans.
    pub(crate) spans: Sender<Box<SpanRecord>>,
    /// Number of spans that found the queue full.
    pub(crate) dropped: Arc<AtomicU64>,
    /// Tells the exporter to end.
    pub(crate) closing: watch::Sender<bool>,
    /// Closed when the exporter has ended.
    pub(crate) exported: watch::Receiver<()>,
}

/// Number of values of the part of an identifier that decides about sampling.
const RANGE: u64 = 1 << 63;

impl Tracer {
    pub(crate) fn new(rate_per_million: i32, queue: ExportQueue) -> Self {
        let rate = u64::try_from(rate_per_million).ok().filter(|rate| *rate > 0);
        Self {
            bound: rate.map(|rate| {
                let bound = u128::from(rate) * u128::from(RANGE) / 1_000_000;
                u64::try_from(bound).unwrap_or(RANGE)
            }),
            queue: queue.spans,
            dropped: queue.dropped,
            closing: queue.closing,
            exported: queue.exported,
        }
    }

    /// Exports the spans that wait, for at most `limit`. Later spans are not exported.
    pub async fn close(&self, limit: Duration) {
        self.closing.send_replace(true);
        let mut exported = self.exported.clone();
        let ended = async { while exported.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(limit, ended).await;
    }

    /// Starts the span of a request that arrived at `start`.
    pub fn start(self: &Arc<Self>, name: Cow<'static, str>, parent: Parent, start: SystemTime) -> Span {
        let span_id = self.new_span_id();
        let (context, parent, link) = match parent {
            Parent::Client(parent) => {
                let id = parent.span_id;
                (TraceContext { span_id, ..parent }, id, None)
            }
            Parent::None => (self.new_trace(span_id), 0, None),
            Parent::Link(client) => (self.new_trace(span_id), 0, Some(client)),
        };
        let record = context.is_sampled.then(|| SpanRecord {
            context: context.clone(),
            parent,
            name,
            kind: SpanKind::Server,
            start,
            duration: Duration::ZERO,
            attributes: Vec::new(),
            link,
            error: None,
        });
        Span::new(Arc::clone(self), context, record)
    }

    fn new_trace(&self, span_id: u64) -> TraceContext {
        let trace_id = (u128::from(random()) << 64) | u128::from(random());
        TraceContext {
            trace_id,
            span_id,
            is_sampled: self.samples(trace_id),
            state: String::new(),
        }
    }

    /// Decides by the identifier of a trace, as OpenTelemetry does, so that all processes with one rate decide alike.
    fn samples(&self, trace_id: u128) -> bool {
        let low = u64::try_from(trace_id & u128::from(u64::MAX)).unwrap_or_default();
        self.bound.is_some_and(|bound| (low >> 1) < bound)
    }

    pub(crate) fn new_span_id(&self) -> u64 {
        random()
    }

    pub(crate) fn ended(&self, record: Box<SpanRecord>) {
        if self.queue.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns a random number that is not 0.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness all spans get the same identifier, which is better than no answer.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_le_bytes(bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(rate: i32) -> Arc<Tracer> {
        let queue = ExportQueue {
            spans: tokio::sync::mpsc::channel(1).0,
            dropped: Arc::default(),
            closing: watch::channel(false).0,
            exported: watch::channel(()).1,
        };
        Arc::new(Tracer::new(rate, queue))
    }

    #[test]
    fn share_of_new_traces_is_sampled() {
        let sampled = |rate| {
            let tracer = tracer(rate);
            let spans = (0..4000).map(|_| tracer.start("s".into(), Parent::None, SystemTime::UNIX_EPOCH));
            spans.filter(Span::is_recording).count()
        };
        assert_eq!((sampled(0), sampled(1_000_000)), (0, 4000));
        assert!((800..1200).contains(&sampled(250_000)));
    }

    #[test]
    fn client_decides_about_its_trace() {
        let (never, always) = (tracer(0), tracer(1_000_000));
        let parent = |is_sampled| {
            Parent::Client(TraceContext {
                trace_id: 1,
                span_id: 2,
                is_sampled,
                state: String::new(),
            })
        };
        assert!(
            never
                .start("s".into(), parent(true), SystemTime::UNIX_EPOCH)
                .is_recording()
        );
        let span = always.start("s".into(), parent(false), SystemTime::UNIX_EPOCH);
        assert!(!span.is_recording() && span.scope().context().trace_id == 1);
        assert!(!span.scope().start("child", SpanKind::Client).is_recording());
    }
}
