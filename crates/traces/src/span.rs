//! Spans: named and timed operations of a trace.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::context::TraceContext;
use crate::tracer::Tracer;

/// Maximum number of attributes of a span, as in OpenTelemetry.
const MAX_ATTRIBUTES: usize = 128;

/// Maximum length of the text of an attribute in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// Role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// An operation within the process.
    Internal,
    /// The answer to a request of another process.
    Server,
    /// A request to another process.
    Client,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Text.
    Text(String),
    /// Number.
    Number(i64),
    /// Truth value.
    Bool(bool),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::Text(text.get(..end).unwrap_or_default().to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A span in progress. It ends when this is dropped. A span that is not sampled records nothing.
pub struct Span {
    scope: Scope,
    record: Option<Box<SpanRecord>>,
    started: Instant,
}

/// Recorded facts about a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanRecord {
    pub(crate) context: TraceContext,
    /// Identifier of the parent; 0 for the first span of a trace.
    pub(crate) parent: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) start: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    /// Span of the client, if it is not the parent.
    pub(crate) link: Option<TraceContext>,
    /// Description of an error.
    pub(crate) error: Option<String>,
}

/// Place in a trace at which further spans start. Clones share it.
#[derive(Clone)]
pub struct Scope {
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) context: TraceContext,
}

impl Scope {
    /// Starts a span below this place.
    pub fn start(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Span {
        let context = TraceContext {
            span_id: self.tracer.new_span_id(),
            ..self.context.clone()
        };
        let record = self.context.is_sampled.then(|| SpanRecord {
            context: context.clone(),
            parent: self.context.span_id,
            name: name.into(),
            kind,
            start: system_time(),
            duration: Duration::ZERO,
            attributes: Vec::new(),
            link: None,
            error: None,
        });
        Span::new(Arc::clone(&self.tracer), context, record)
    }

    /// Returns the place for headers of requests.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }
}

impl Span {
    pub(crate) fn new(tracer: Arc<Tracer>, context: TraceContext, record: Option<SpanRecord>) -> Self {
        Self {
            scope: Scope { tracer, context },
            record: record.map(Box::new),
            started: Instant::now(),
        }
    }

    /// Returns the place below which the spans of this operation start.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// True if the span records attributes.
    pub fn is_recording(&self) -> bool {
        self.record.is_some()
    }

    /// Records an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(record) = &mut self.record
            && record.attributes.len() < MAX_ATTRIBUTES
        {
            record.attributes.push((name, value.into()));
        }
    }

    /// Records that the operation failed.
    pub fn fail(&mut self, description: impl Into<String>) {
        if let Some(record) = &mut self.record {
            record.error = Some(description.into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.duration = self.started.elapsed();
            self.scope.tracer.ended(record);
        }
    }
}
/// Returns the time of the system, which collectors compare with that of other servers.
#[expect(clippy::disallowed_methods, reason = "the time of a span decides nothing")]
fn system_time() -> SystemTime {
    SystemTime::now()
}
