//! A request on its way through the filters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_audit::{Layer, Recorder};
use holdfast_authorization::User;
use holdfast_proto::Messages;
use holdfast_traces::Span;
use http::HeaderValue;
use http::request::Parts;
use tokio::time::Instant;

use crate::http::ApiError;
use crate::http::negotiation::{Negotiated, Representation};
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};
use crate::identity::ClientCertificate;
use crate::metrics::Recording;
use crate::operations::audit::AuditRecord;
use crate::operations::loopback;
use crate::runtime::drain::RunningRequest;
use crate::runtime::faults::Fault;
use crate::wire::body::RequestBody;
use crate::wire::fairness::{Schema, WatchHold};
use crate::wire::in_flight::Seat;

/// A request and the facts about it. Each filter adds those that it finds; the handler moves the parts out that it
/// passes on.
pub(in crate::operations) struct Exchange<'c> {
    /// Method, URI, headers and extensions.
    pub(in crate::operations) head: Parts,
    /// Unread body; empty once the handler has it.
    pub(in crate::operations) body: RequestBody,
    /// Arrival of the request, for durations.
    pub(in crate::operations) started: Instant,
    /// Arrival of the request, or the end of its wait for a seat. All work for the request uses it as the current time.
    pub(in crate::operations) received: SystemTime,
    /// Address of the client.
    pub(in crate::operations) peer: Option<SocketAddr>,
    /// Result of the verification of the client certificate, if the connection has one.
    pub(in crate::operations) certificate: Option<&'c ClientCertificate>,
    /// `User-Agent` header, from [`WithHttpLogging`](super::WithHttpLogging).
    pub(in crate::operations) user_agent: Option<HeaderValue>,
    /// Audit ID, from [`WithAuditInit`](super::WithAuditInit).
    pub(in crate::operations) audit_id: HeaderValue,
    /// Attributes of method and path, from [`WithRequestInfo`](super::WithRequestInfo) as the three fields that follow.
    pub(in crate::operations) info: RequestInfo,
    /// True for watches and connections to pods, to which neither limits nor timeouts apply.
    pub(in crate::operations) is_long_running: bool,
    /// Forms that the client accepts, and the type of a patch.
    pub(in crate::operations) negotiated: Negotiated,
    /// Form of a document, and therefore of a `Status`; `None` if the client accepts none.
    pub(in crate::operations) document_form: Option<Representation>,
    /// Measurement of the request, from [`WithMetrics`](super::WithMetrics).
    pub(in crate::operations) recording: Option<Recording>,
    /// Hold on the drain of the server, from [`WithRetryAfter`](super::WithRetryAfter).
    pub(in crate::operations) running: Option<RunningRequest>,
    /// True if the request is the last of its connection.
    pub(in crate::operations) is_last: bool,
    /// Time limit, from [`WithRequestDeadline`](super::WithRequestDeadline); `None` for long-running requests.
    pub(in crate::operations) time_limit: Option<Duration>,
    /// Origin of the page that may read the answer, from [`WithCors`](super::WithCors).
    pub(in crate::operations) origin: Option<HeaderValue>,
    /// Warning about the credentials, from [`WithAuthentication`](super::WithAuthentication).
    pub(in crate::operations) credentials_warning: Option<String>,
    /// Effective user, from [`WithAuthentication`](super::WithAuthentication) and
    /// [`WithImpersonation`](super::WithImpersonation).
    pub(in crate::operations) user: Option<Arc<User>>,
    /// Annotations about the credentials for the audit log.
    pub(in crate::operations) annotations: Vec<(&'static str, String)>,
    /// Span of the request, from [`WithTracing`](super::WithTracing).
    pub(in crate::operations) span: Option<Box<Span>>,
    /// Record in the audit log, if the request is audited.
    pub(in crate::operations) audit: Option<AuditRecord>,
    /// Denial of a list or watch that requests only the objects that its user may read, from
    /// [`WithAuthorization`](super::WithAuthorization). Its handler restricts it to these objects or returns the denial.
    pub(in crate::operations) denied: Option<ApiError>,
    /// Flow schema, from [`WithSeats`](super::WithSeats), as the seat.
    pub(in crate::operations) flow_schema: Option<Arc<Schema>>,
    /// Seat.
    pub(in crate::operations) seat: Option<Arc<Seat>>,
    /// Resources that the request holds if it is a watch.
    pub(in crate::operations) watch: WatchHold,
    /// Faults that may replace the answer to a successful write, from [`WithFaults`](super::WithFaults).
    pub(in crate::operations) faults_after_write: Vec<Arc<Fault>>,
}

impl<'c> Exchange<'c> {
    /// Creates the exchange of a request that arrives now, at the time of day `received`.
    pub(in crate::operations) fn new(
        request: http::Request<RequestBody>,
        certificate: Option<&'c ClientCertificate>,
        peer: Option<SocketAddr>,
        received: SystemTime,
    ) -> Self {
        let (head, body) = request.into_parts();
        Self {
            head,
            body,
            started: Instant::now(),
            received,
            peer,
            certificate,
            user_agent: None,
            audit_id: HeaderValue::from_static("unknown"),
            info: RequestInfo::default(),
            is_long_running: false,
            negotiated: Negotiated::default(),
            document_form: None,
            recording: None,
            running: None,
            is_last: false,
            time_limit: None,
            origin: None,
            credentials_warning: None,
            user: None,
            annotations: Vec::new(),
            span: None,
            audit: None,
            denied: None,
            flow_schema: None,
            seat: None,
            watch: WatchHold::default(),
            faults_after_write: Vec::new(),
        }
    }

    /// True for requests of the server itself, by its [loopback] client.
    pub(in crate::operations) fn is_own(&self) -> bool {
        self.peer == Some(loopback::OWN_ADDRESS)
    }

    /// Moves the body out.
    pub(in crate::operations) fn take_body(&mut self) -> RequestBody {
        std::mem::replace(&mut self.body, RequestBody::from_bytes(""))
    }

    /// Returns the user of the request.
    ///
    /// # Errors
    /// 401 if the request is not authenticated.
    pub(in crate::operations) fn user(&self) -> Result<&Arc<User>, ApiError> {
        self.user.as_ref().ok_or_else(ApiError::unauthorized)
    }

    /// Returns the recorder of the audit log, if the request is audited.
    pub(in crate::operations) fn recorder(&self) -> Option<&Recorder> {
        self.audit.as_ref().map(AuditRecord::recorder)
    }

    /// Returns the moment until which the request is answered.
    pub(in crate::operations) fn deadline(&self) -> Option<Instant> {
        self.started.checked_add(self.time_limit?)
    }

    /// Returns the answer for `error` in the form that the client accepts.
    pub(in crate::operations) fn rejection(&self, serializer: &Messages, error: &ApiError) -> Response {
        let form = self.document_form.unwrap_or(Representation::INDENTED_JSON);
        response::error(serializer, error, &form)
    }

    /// Runs `work`, and records its duration in the audit log if the request is audited.
    pub(in crate::operations) fn timed<T>(&self, layer: Layer, work: impl FnOnce() -> T) -> T {
        let Some(recorder) = self.recorder() else {
            return work();
        };
        let began = Instant::now();
        let outcome = work();
        recorder.took(layer, began.elapsed());
        outcome
    }
}
