#![forbid(unsafe_code)]
//! Traces of requests for OpenTelemetry
//! (<https://kubernetes.io/docs/concepts/cluster-administration/system-traces/>): the configuration, the decision which
//! requests are sampled, spans, and their export to a collector by OTLP over gRPC.

mod configuration;
mod context;
mod export;
mod proto;
mod span;
mod tracer;

pub use configuration::{Endpoint, TracingConfiguration};
pub use context::TraceContext;
pub use export::{Exporter, Resource};
pub use span::{Attribute, Scope, Span, SpanKind};
pub use tracer::{Parent, Tracer};
