//! Filters of the arrival of a request: its audit ID, its attributes, the log of the server and the metrics.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_resource::Registry;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};

use super::{Completion, Exchange, Filter, Step};
use crate::http::negotiation::Negotiated;
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};
use crate::identity::forwarding::AUDIT_ID;
use crate::metrics::{Recording, Requests};
use crate::operations::changes::history;
use crate::operations::inflight;
use crate::runtime::Identifiers;

/// Filter that gives each request an audit ID: the one that the client sends, or a new one.
pub(super) struct WithAuditInit<'a> {
    pub(super) identifiers: &'a dyn Identifiers,
}

impl WithAuditInit<'_> {
    fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get(AUDIT_ID).filter(|id| !id.is_empty());
        sent.cloned().unwrap_or_else(|| {
            let id = Bytes::from(self.identifiers.uid());
            HeaderValue::from_maybe_shared(id).unwrap_or(HeaderValue::from_static("unknown"))
        })
    }
}

impl Filter for WithAuditInit<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        exchange.audit_id = self.audit_id(&exchange.head.headers);
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        response.headers_mut().insert(AUDIT_ID, exchange.audit_id.clone());
        Completion::Done
    }
}

/// Filter that derives the attributes of a request from its method and path, and negotiates the forms of the answer.
pub(super) struct WithRequestInfo {
    /// True if objects are served in CBOR.
    pub(super) cbor: bool,
    /// True if objects have a history.
    pub(super) own_apis: bool,
}

impl Filter for WithRequestInfo {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let head = &exchange.head;
        let mut info = match RequestInfo::parse(&head.method, &head.uri) {
            Ok(info) => info,
            Err(error) => return Step::answer(response::unread(error, &head.uri)),
        };
        if self.own_apis {
            info.read_namespace_subresource(history::SUBRESOURCE);
        }
        exchange.negotiated = Negotiated::new(&head.method, &head.headers, &info.query, self.cbor);
        exchange.document_form = exchange.negotiated.document_form();
        exchange.is_long_running = inflight::is_long_running(&info);
        exchange.info = info;
        Step::Pass
    }
}

/// Duration above which the log reports a request that is not long-running.
const SLOW_REQUEST: Duration = Duration::from_millis(500);

/// Filter that writes each answered request into the log of the server. At the default level only slow requests are
/// visible.
pub(super) struct WithHttpLogging;

impl Filter for WithHttpLogging {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        exchange.user_agent = exchange.head.headers.get(header::USER_AGENT).cloned();
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        let entry = LogEntry {
            method: &exchange.head.method,
            uri: &exchange.head.uri,
            code: response.status(),
            duration: exchange.started.elapsed(),
            user_agent: HeaderText(exchange.user_agent.as_ref()),
            audit_id: HeaderText(Some(&exchange.audit_id)),
        };
        entry.write(exchange.is_long_running);
        Completion::Done
    }
}

/// Entry of the log for an answered request.
struct LogEntry<'a> {
    method: &'a Method,
    uri: &'a Uri,
    code: StatusCode,
    duration: Duration,
    user_agent: HeaderText<'a>,
    audit_id: HeaderText<'a>,
}

impl LogEntry<'_> {
    fn write(&self, is_long_running: bool) {
        let Self {
            method,
            uri,
            duration,
            user_agent,
            audit_id,
            ..
        } = self;
        let code = self.code.as_u16();
        if *duration >= SLOW_REQUEST && !is_long_running {
            tracing::info!(%method, %uri, code, ?duration, %user_agent, %audit_id, "slow request");
        } else {
            tracing::debug!(%method, %uri, code, ?duration, %user_agent, %audit_id, "request");
        }
    }
}

/// Text of a header in the log.
struct HeaderText<'a>(Option<&'a HeaderValue>);

impl Display for HeaderText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0.map(|value| String::from_utf8_lossy(value.as_bytes()));
        write!(f, "{:?}", text.unwrap_or_default())
    }
}

/// Filter that counts each request, its duration and the size of its answer.
pub(super) struct WithMetrics<'a> {
    pub(super) requests: &'a Requests,
    pub(super) registry: &'a ArcSwap<Registry>,
}

impl WithMetrics<'_> {
    /// Counts the request, either immediately or when the last part of the answer is sent.
    fn finish(&self, mut recording: Recording, response: &mut Response) {
        let code = response.status();
        self.requests.answered(&recording, code);
        if matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT) {
            self.requests.terminated(&recording, code);
        }
        match response.body().length() {
            Some(length) => recording.sent(length),
            None => {
                let mut stream = recording.into_stream();
                response.body_mut().record(move |bytes| stream.sent(bytes));
            }
        }
    }
}

impl Filter for WithMetrics<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let (info, applies) = (&exchange.info, exchange.negotiated.applies());
        exchange.recording = self
            .requests
            .begin(info, applies, &self.registry.load(), exchange.started);
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(recording) = exchange.recording.take() {
            self.finish(recording, response);
        }
        Completion::Done
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, exchange, with_header};
    use super::*;
    use crate::http::negotiation::{Format, PatchType};
    use crate::metrics::Metrics;
    use crate::runtime::RandomIdentifiers;

    #[tokio::test]
    async fn audit_id_of_client_is_kept_and_returned() {
        let identifiers = RandomIdentifiers::default();
        let handler = Reply::OK.behind(WithAuditInit {
            identifiers: &identifiers,
        });
        let mut named = with_header("GET", "/livez", "audit-id", "my-own");
        assert_eq!(handler.handle(&mut named).await.headers()[AUDIT_ID], "my-own");
        let answer = handler.handle(&mut exchange("GET", "/livez")).await;
        assert_eq!(answer.headers()[AUDIT_ID].len(), 36);
    }

    #[tokio::test]
    async fn request_is_parsed_and_negotiated_once() {
        let handler = Reply::OK.behind(WithRequestInfo {
            cbor: false,
            own_apis: true,
        });
        let uri = "/api/v1/pods?watch=1";
        let mut watch = with_header("GET", uri, "accept", "application/yaml");
        assert_eq!(handler.handle(&mut watch).await.status(), 200);
        assert!(watch.info.verb == "watch" && watch.is_long_running);
        assert_eq!(watch.document_form.unwrap().format, Format::Yaml);
        let uri = "/api/v1/namespaces/n/pods/a";
        let mut patch = with_header("PATCH", uri, "content-type", "application/merge-patch+json");
        handler.handle(&mut patch).await;
        assert_eq!(patch.negotiated.patch_type().ok(), Some(PatchType::Merge));
        let mut html = with_header("GET", "/version", "accept", "text/html");
        handler.handle(&mut html).await;
        assert_eq!(html.document_form, None);
    }

    #[tokio::test]
    async fn path_that_cannot_be_parsed_reaches_no_handler() {
        let handler = Reply::UNREACHABLE.behind(WithRequestInfo {
            cbor: false,
            own_apis: true,
        });
        let code = async |uri| handler.handle(&mut exchange("GET", uri)).await.status();
        assert_eq!(code("/api/v1/pods/%zz").await, 400);
        assert_eq!(code("/api/v1/watch").await, 500);
    }

    #[tokio::test]
    async fn each_answer_is_counted_with_its_code() {
        let metrics = Metrics::new().unwrap();
        let registry = ArcSwap::from_pointee(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap());
        let handler = Reply(StatusCode::TOO_MANY_REQUESTS)
            .behind(WithMetrics {
                requests: metrics.requests(),
                registry: &registry,
            })
            .behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
        handler.handle(&mut exchange("GET", "/api/v1/pods")).await;
        let in_flight = std::sync::Arc::new(crate::wire::in_flight::InFlight::new(1, 1));
        let page = metrics.respond(&in_flight, None).unwrap().into_body();
        let bytes = http_body_util::BodyExt::collect(page).await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        for metric in ["apiserver_request_total", "apiserver_request_terminations_total"] {
            let is_counted =
                |line: &str| line.starts_with(metric) && line.contains("code=\"429\"") && line.ends_with(" 1");
            assert!(text.lines().any(is_counted), "{metric}");
        }
    }

    #[test]
    fn headers_are_quoted_in_the_log() {
        let header = HeaderValue::from_static("a \"b\"");
        assert_eq!(HeaderText(Some(&header)).to_string(), r#""a \"b\"""#);
        assert_eq!(HeaderText(None).to_string(), r#""""#);
    }
}
