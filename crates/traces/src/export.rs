//! Export of ended spans to a collector, in batches. A collector that does not answer delays nobody: spans beyond the
//! queue are dropped and counted.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_grpc::{Client, GrpcError};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::configuration::TracingConfiguration;
use crate::proto::{
    AnyValue, ExportTraceServiceRequest, ExportTraceServiceResponse, InstrumentationScope, KeyValue, Link,
    ResourceAttributes, ResourceSpans, ScopeSpans, Span, Status, Variant,
};
use crate::span::{Attribute, SpanKind, SpanRecord};
use crate::tracer::{ExportQueue, Tracer};

/// Maximum number of spans that wait, and of one batch, as OpenTelemetry's defaults.
const MAX_QUEUED_SPANS: usize = 2048;
const MAX_BATCH_SPANS: usize = 512;
/// Time after which a smaller batch is exported.
const BATCH_DELAY: Duration = Duration::from_secs(5);
/// Time limit of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay of the next attempt after a failed call, and number of attempts.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const MAX_ATTEMPTS: u32 = 3;

/// Method that accepts spans.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Codes of errors that may pass.
const TRANSIENT: [&str; 7] = [
    "Aborted",
    "Cancelled",
    "DataLoss",
    "DeadlineExceeded",
    "OutOfRange",
    "ResourceExhausted",
    "Unavailable",
];

/// Description of the process whose spans are exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Name of the kind of process.
    pub service_name: String,
    /// Name of the process among those of its kind.
    pub instance: String,
    /// Version of the process.
    pub version: String,
}

/// Task that exports ended spans.
pub struct Exporter {
    client: Client,
    resource: Resource,
    spans: Receiver<Box<SpanRecord>>,
    dropped: Arc<AtomicU64>,
    /// True when the exporter has to end.
    closing: watch::Receiver<bool>,
    /// Dropped when the exporter has ended.
    _running: watch::Sender<()>,
}

/// Waits until the tracer is closed.
async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|is_closing| *is_closing).await.is_err() {
        // The tracer is dropped, which ends the queue.
        std::future::pending::<()>().await;
    }
}

impl Exporter {
    /// Creates the source of spans and the task that exports them to the collector that `client` calls.
    pub fn new(configuration: &TracingConfiguration, resource: Resource, client: Client) -> (Arc<Tracer>, Self) {
        let (queue, spans) = channel(MAX_QUEUED_SPANS);
        let (closing, is_closing) = watch::channel(false);
        let (running, exported) = watch::channel(());
        let dropped = Arc::<AtomicU64>::default();
        let rate = configuration.sampling_rate_per_million.unwrap_or_default();
        let queue = ExportQueue {
            spans: queue,
            dropped: Arc::clone(&dropped),
            closing,
            exported,
        };
        let tracer = Arc::new(Tracer::new(rate, queue));
        let exporter = Self {
            client,
            resource,
            spans,
            dropped,
            closing: is_closing,
            _running: running,
        };
        (tracer, exporter)
    }

    /// Exports spans until the tracer is closed or dropped, and then those that wait.
    pub async fn run(mut self) {
        let mut closing = self.closing.clone();
        loop {
            let mut batch = Vec::new();
            let is_last = tokio::select! {
                is_ended = self.fill(&mut batch) => is_ended,
                () = closed(&mut closing) => true,
            };
            if is_last {
                while let Ok(span) = self.spans.try_recv() {
                    batch.push(*span);
                }
            }
            self.export(batch).await;
            if is_last {
                return;
            }
        }
    }

    /// Waits for a batch. Returns true if there are no more spans after it.
    async fn fill(&mut self, batch: &mut Vec<SpanRecord>) -> bool {
        let Some(first) = self.spans.recv().await else {
            return true;
        };
        batch.push(*first);
        let end = Instant::now() + BATCH_DELAY;
        while batch.len() < MAX_BATCH_SPANS {
            match tokio::time::timeout_at(end, self.spans.recv()).await {
                Ok(Some(span)) => batch.push(*span),
                Ok(None) => return true,
                Err(_) => break,
            }
        }
        false
    }

    async fn export(&self, batch: Vec<SpanRecord>) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "spans were dropped, because the collector is too slow");
        }
        if batch.is_empty() {
            return;
        }
        let spans = batch.len();
        let request = self.request(batch);
        for attempt in 1..=MAX_ATTEMPTS {
            let Err(error) = self.send(request.clone()).await else {
                return;
            };
            let may_pass = TRANSIENT.contains(&error.code.as_str());
            if may_pass && attempt < MAX_ATTEMPTS {
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
            tracing::warn!(%error, spans, "the collector of traces did not accept spans");
            return;
        }
    }

    async fn send(&self, request: ExportTraceServiceRequest) -> Result<(), GrpcError> {
        let response: ExportTraceServiceResponse = self.client.call(EXPORT, request, CALL_TIMEOUT).await?;
        if let Some(partial) = response.partial_success.filter(|partial| partial.rejected_spans > 0) {
            let (rejected, reason) = (partial.rejected_spans, partial.error_message);
            tracing::warn!(rejected, reason, "the collector of traces rejected spans");
        }
        Ok(())
    }

    fn request(&self, batch: Vec<SpanRecord>) -> ExportTraceServiceRequest {
        let Resource {
            service_name,
            instance,
            version,
        } = &self.resource;
        let attributes = vec![
            text_attribute("service.name", service_name),
            text_attribute("service.instance.id", instance),
        ];
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(ResourceAttributes { attributes }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "holdfast".to_owned(),
                        version: version.clone(),
                    }),
                    spans: batch.into_iter().map(span).collect(),
                }],
            }],
        }
    }
}

fn span(mut record: SpanRecord) -> Span {
    let start = nanoseconds(record.start);
    let duration = u64::try_from(record.duration.as_nanos()).unwrap_or(u64::MAX);
    let parent = match record.parent {
        0 => Vec::new(),
        id => id.to_be_bytes().to_vec(),
    };
    Span {
        trace_id: record.context.trace_id.to_be_bytes().to_vec(),
        span_id: record.context.span_id.to_be_bytes().to_vec(),
        trace_state: mem::take(&mut record.context.state),
        parent_span_id: parent,
        name: record.name.into_owned(),
        kind: match record.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(duration),
        attributes: record
            .attributes
            .into_iter()
            .map(|(name, value)| attribute(name, value))
            .collect(),
        links: record.link.into_iter().map(link).collect(),
        status: record.error.map(|message| Status { message, code: 2 }),
        flags: 1,
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn link(context: crate::context::TraceContext) -> Link {
    Link {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: context.span_id.to_be_bytes().to_vec(),
        trace_state: context.state,
    }
}

fn attribute(name: &str, value: Attribute) -> KeyValue {
    let variant = match value {
        Attribute::Text(text) => Variant::Text(text),
        Attribute::Number(number) => Variant::Number(number),
        Attribute::Bool(value) => Variant::Bool(value),
    };
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(variant) }),
    }
}

fn text_attribute(name: &str, text: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Variant::Text(text.to_owned())),
        }),
    }
}
