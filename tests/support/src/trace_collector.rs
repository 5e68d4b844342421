//! A collector of traces: OTLP over gRPC on a TCP port.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;

use crate::grpc_server::{Failure, GrpcServer};

/// A running collector. It ends when this is dropped.
pub struct TraceCollector {
    /// Address that it listens on.
    pub address: SocketAddr,
    spans: Arc<Mutex<Vec<CollectedSpan>>>,
    _server: GrpcServer,
}

/// A span that a collector has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedSpan {
    /// Identifier of the trace, in hexadecimal digits.
    pub trace: String,
    /// Identifier, in hexadecimal digits.
    pub id: String,
    /// Identifier of the parent; empty for the first span of a trace.
    pub parent: String,
    /// Name.
    pub name: String,
    /// Kind: 1 internal, 2 server, 3 client.
    pub kind: i32,
    /// Attributes with texts and numbers.
    pub attributes: BTreeMap<String, String>,
    /// Traces of linked spans.
    pub links: Vec<String>,
    /// True if the status is an error.
    pub is_error: bool,
    /// Attributes of the process.
    pub resource: BTreeMap<String, String>,
    /// Duration in nanoseconds.
    pub nanoseconds: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
}

impl TraceCollector {
    /// Starts a collector.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn start() -> io::Result<Self> {
        let spans = Arc::<Mutex<Vec<CollectedSpan>>>::default();
        let shared = Arc::clone(&spans);
        let (server, address) = GrpcServer::on_port(move |method, message| {
            if method != "Export" {
                return Err(Failure::from(format!("there is no method {method}")));
            }
            let request = Request::decode(message).map_err(|error| Failure::from(error.to_string()))?;
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(collected(request));
            Ok(Vec::new())
        })?;
        Ok(Self {
            address,
            spans,
            _server: server,
        })
    }

    /// Returns the spans so far.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn collected(request: Request) -> Vec<CollectedSpan> {
    let mut spans = Vec::new();
    for group in request.resource_spans {
        let resource = attributes(group.resource.unwrap_or_default().attributes);
        for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(CollectedSpan {
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name,
                kind: span.kind,
                attributes: attributes(span.attributes),
                links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
                is_error: span.status.is_some_and(|status| status.code == 2),
                resource: resource.clone(),
                nanoseconds: span.end.saturating_sub(span.start),
            });
        }
    }
    spans
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let shown = |value: Option<AnyValue>| {
        let value = value.unwrap_or_default();
        value
            .text
            .or(value.number.map(|number| number.to_string()))
            .unwrap_or_default()
    };
    pairs.into_iter().map(|pair| (pair.key, shown(pair.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
