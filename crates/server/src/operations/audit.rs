//! The audit of a request, from the start of its record to the end of its answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_audit::{Auditor, EventHead, ObjectReference, Recorder, ResponseStatus, Stage};
use holdfast_authorization::{AccessTarget, Attributes, User};
use http::header::{self, HeaderMap};
use http::request::Parts;

use crate::api::audit;
use crate::http::headers;
use crate::http::request_info::RequestInfo;
use crate::http::response::Response;
use crate::identity::ClientCertificate;
use crate::operations::filters::Exchange;
use crate::representation;
use crate::wire::body::BodyObserver;

/// The maximum length of a User-Agent that events show in full, in bytes.
const MAX_USER_AGENT: usize = 1024;
const CUT_USER_AGENT: &str = "...TRUNCATED";

/// Record of one request in the audit log. If it is dropped before the answer is complete, the client has disconnected.
pub(super) struct AuditRecord {
    recorder: Recorder,
    /// The failure message of a request that is rejected before its user is authenticated. It is recorded if the answer
    /// carries no message.
    rejection: Option<String>,
}

impl Drop for AuditRecord {
    fn drop(&mut self) {
        self.recorder.abandoned();
    }
}

impl AuditRecord {
    /// Begins the record of a request of `user`, if the policy audits it.
    pub(super) fn begin(auditor: &Arc<Auditor>, user: Option<&Arc<User>>, exchange: &Exchange<'_>) -> Option<Self> {
        let attributes = exchange.info.attributes();
        let decision = auditor.judge(user.map(AsRef::as_ref), &attributes)?;
        let head = &exchange.head;
        let event = EventHead {
            audit_id: String::from_utf8_lossy(exchange.audit_id.as_bytes()).into_owned(),
            request_uri: head
                .uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .to_owned(),
            verb: exchange.info.verb.clone(),
            user: user.cloned(),
            source_ips: source_ips(&head.headers, exchange.peer),
            user_agent: user_agent(&head.headers),
            object: reference(&attributes),
            received: exchange.received,
        };
        Some(Self {
            recorder: auditor.record(decision, event, exchange.started),
            rejection: None,
        })
    }

    /// Notes that the request is rejected before its user is authenticated, for the reason `message`.
    pub(super) fn reject(&mut self, message: String) {
        self.rejection = Some(message);
    }

    /// Returns the recorder that collects the rest of the event.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Emits the first event. Returns true if the request may proceed.
    pub(super) async fn received(&self) -> bool {
        let is_written = self.recorder.emit(Stage::RequestReceived).finished().await;
        if !is_written {
            self.recorder.rejected();
        }
        is_written
    }

    /// Emits the events of the answer to `exchange`, or arranges that they are emitted once the whole answer is sent. A
    /// `Status` that the client accepts in no form is not logged.
    pub(super) async fn responded(
        self,
        context: &representation::Context,
        exchange: &Exchange<'_>,
        response: &mut Response,
    ) {
        let recorder = self.recorder.clone();
        let code = response.status();
        let has_content = exchange.document_form.is_some() || code.is_success();
        let mut status = match has_content {
            true => audit::status(context, response),
            false => ResponseStatus {
                code: code.as_u16(),
                ..ResponseStatus::default()
            },
        };
        if let Some(message) = self.rejection.as_ref().filter(|_| status.message.is_empty()) {
            status.message.clone_from(message);
        }
        recorder.responded(status, None);
        let is_streamed = response.body().length().is_none();
        let is_long_running = exchange.is_long_running;
        if has_content && !(is_long_running && is_streamed) {
            audit::capture(&recorder, context, response);
        }
        if self.rejection.is_some() {
            recorder.rejected_early().finished().await;
            return;
        }
        if is_long_running {
            recorder.emit(Stage::ResponseStarted).finished().await;
        }
        if is_streamed {
            response.body_mut().observe(UntilSent(self));
        } else {
            recorder.complete().finished().await;
        }
    }
}

/// A guard that keeps the audit of a request open until its whole answer is sent or abandoned.
struct UntilSent(AuditRecord);

impl BodyObserver for UntilSent {
    fn piece(&mut self, _piece: &Bytes) {}

    fn end(&mut self) {
        self.0.recorder.abandoned();
    }
}

/// Returns the object reference of the request.
fn reference(attributes: &Attributes<'_>) -> Option<ObjectReference> {
    match attributes.target {
        AccessTarget::Path(_) => None,
        AccessTarget::Resource(target) => Some(ObjectReference {
            resource: target.resource.into(),
            namespace: target.namespace.into(),
            name: target.name.into(),
            group: target.group.into(),
            version: target.version.into(),
            subresource: target.subresource.into(),
            ..ObjectReference::default()
        }),
    }
}

fn user_agent(headers: &HeaderMap) -> String {
    let text = headers::text(headers, header::USER_AGENT).unwrap_or_default();
    if text.len() <= MAX_USER_AGENT {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(MAX_USER_AGENT);
    let (kept, _) = text.split_at(end);
    format!("{kept}{CUT_USER_AGENT}")
}

/// Returns the source addresses of a request: those that proxies report, and that of the connection.
fn source_ips(headers: &HeaderMap, peer: Option<SocketAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = text("x-forwarded-for").unwrap_or_default().split(',');
    let mut addresses: Vec<IpAddr> = forwarded.filter_map(|part| address(part.trim())).collect();
    let real = text("x-real-ip").and_then(address);
    addresses.extend(real.filter(|real| !addresses.contains(real)));
    let peer = peer.map(|peer| peer.ip().to_canonical());
    addresses.extend(peer.filter(|peer| addresses.last() != Some(peer)));
    addresses
}

/// Parses an address like the reference: numbers may have leading zeros.
fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some(IpAddr::V6(address).to_canonical());
    }
    let mut numbers = [0_u8; 4];
    let mut parts = text.split('.');
    for number in &mut numbers {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = digits.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(numbers).into())
}

/// Returns the message for a request with invalid credentials, which lists the attempted methods.
pub(super) fn attempted(head: &Parts, info: &RequestInfo, certificate: Option<&ClientCertificate>) -> String {
    let text = headers::text(&head.headers, header::AUTHORIZATION).unwrap_or_default();
    let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let token = info
        .query
        .get("access_token")
        .is_some_and(|token| !token.trim().is_empty());
    let known_methods = [
        ("basic", scheme.eq_ignore_ascii_case("basic") && !rest.is_empty()),
        ("bearer", scheme.eq_ignore_ascii_case("bearer") && !rest.is_empty()),
        ("access_token", token),
        ("x509", certificate.is_some()),
    ];
    let methods: Vec<&str> = known_methods
        .iter()
        .filter(|(_, had)| *had)
        .map(|(name, _)| *name)
        .collect();
    match methods.is_empty() {
        true => "Authentication failed, no credentials provided".to_owned(),
        false => format!("Authentication failed, attempted: {}", methods.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        let entries = entries.iter();
        entries
            .map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn sources(entries: &[(&'static str, &str)]) -> String {
        let peer = Some("127.0.0.1:9".parse().unwrap());
        let found = source_ips(&headers(entries), peer);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn proxies_say_where_a_request_came_from() {
        assert_eq!(sources(&[]), "127.0.0.1");
        let through = [
            (
                "x-forwarded-for",
                "1.2.3.4, nonsense, 2001:db8::1,010.0.0.1,1.2.3,256.1.1.1,::ffff:9.9.9.9",
            ),
            ("x-real-ip", "5.6.7.8"),
        ];
        assert_eq!(
            sources(&through),
            "1.2.3.4 2001:db8::1 10.0.0.1 9.9.9.9 5.6.7.8 127.0.0.1"
        );
        let same = [("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1")];
        assert_eq!(sources(&same), "127.0.0.1");
        let later = [("x-forwarded-for", "127.0.0.1, 1.1.1.1"), ("x-real-ip", "127.0.0.1")];
        assert_eq!(sources(&later), "127.0.0.1 1.1.1.1 127.0.0.1");
    }

    #[test]
    fn a_long_user_agent_is_cut_short() {
        let agent_of_length = |length| user_agent(&headers(&[("user-agent", &"x".repeat(length))]));
        assert_eq!(agent_of_length(1024).len(), 1024);
        assert_eq!(agent_of_length(1025), format!("{}...TRUNCATED", "x".repeat(1024)));
    }

    #[test]
    fn credentials_that_failed_are_named() {
        let message = |uri: &str, authorization: &str, certificate| {
            let mut request = http::Request::get(uri);
            if !authorization.is_empty() {
                request = request.header("authorization", authorization);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let info = RequestInfo::parse(&head.method, &head.uri).unwrap();
            attempted(&head, &info, certificate)
        };
        assert_eq!(message("/", "", None), "Authentication failed, no credentials provided");
        assert_eq!(
            message("/", "Basic YTpi", None),
            "Authentication failed, attempted: basic"
        );
        let all = message("/?access_token=x", "bearer x", Some(&ClientCertificate::Untrusted));
        assert_eq!(all, "Authentication failed, attempted: bearer, access_token, x509");
    }
}
