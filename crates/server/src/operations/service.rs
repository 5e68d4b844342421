//! The processing of a request: authentication, routing, authorization, and the handler that answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_audit::{Auditor, Layer, Recorder};
use holdfast_authorization::User;
use holdfast_gotext::duration;
use holdfast_resource::AuditAnnotations as _;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri, Version};
use rustls::pki_types::CertificateDer;

use crate::api::context::Context;
use crate::api::router::{self, Incoming};
use crate::http::ApiError;
use crate::http::negotiation::{self, ErrorForm, PatchType, Representation};
use crate::http::request::Unadmitted;
use crate::http::request_info::{RequestInfo, ResourcePath};
use crate::http::response::{self, Response};
use crate::http::status::RETRY_SECONDS;
use crate::identity::authorization;
use crate::identity::forwarding::AUDIT_ID;
use crate::identity::{self, Authenticated, Authenticator, ClientCertificate, Impersonation, Judged};
use crate::metrics::Recording;
use crate::operations::aggregation::api_services::Proxied;
use crate::operations::aggregation::forward::Forwarded;
use crate::operations::audit::{self, Arrival, Exchange};
use crate::operations::browsers::Browsers;
use crate::operations::fairness::{Admitted, PriorityAndFairness, SeatRequest, name_level};
use crate::operations::inflight;
use crate::operations::paths::Paths;
use crate::operations::storage_versions::StorageVersionBarrier;
use crate::wire::body::{RequestBody, ResponseBody};
use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::connection::{self, Last, Lasts};
use crate::wire::fairness::{Schema, WatchHold};
use crate::wire::in_flight::{InFlight, Seat};
use crate::wire::websocket::{self, Upgrade};

/// The service that answers requests once a connection has read them.
pub struct Service {
    /// The state that the handlers share.
    pub context: Arc<Context>,
    /// The authenticator of requests.
    pub authenticator: Authenticator,
    /// The impersonation of users.
    pub impersonation: Impersonation,
    /// The handlers of the paths that are not resources.
    pub paths: Paths,
    /// The limits on the number of requests that are served concurrently.
    pub in_flight: Arc<InFlight>,
    /// The priority levels whose seats requests occupy. They replace the limits of `in_flight`.
    pub fairness: Option<Arc<PriorityAndFairness>>,
    /// The writer of the audit log, if it is enabled.
    pub auditor: Option<Arc<Auditor>>,
    /// The headers for browsers, if they are configured.
    pub browsers: Option<Arc<Browsers>>,
    /// The probability that a request is the last of its connection, if this is enabled.
    pub go_away: Option<GoAway>,
    /// True if an HTTP/2 connection ends with its first request of an unauthenticated client.
    pub parts_from_unknown: bool,
    /// The writes that wait until the storage versions of their resources are published, if this is enabled.
    pub storage_versions: Option<Arc<StorageVersionBarrier>>,
}

/// The probability that a request is the last of its HTTP/2 connection, so that clients spread over servers.
#[derive(Clone, Copy, Debug)]
pub struct GoAway {
    /// The share of such requests.
    pub chance: f64,
    /// A source of uniformly distributed random numbers.
    pub random: fn() -> u64,
}

impl GoAway {
    fn decides(&self) -> bool {
        // A float holds 53 bits of a number: the upper ones are used.
        let share = ((self.random)() >> 11) as f64 / (1u64 << 53) as f64;
        share < self.chance
    }
}

/// The duration above which the log reports a request, except a watch.
const SLOW: Duration = Duration::from_millis(500);

impl connection::Service for Service {
    type Client = ClientCertificate;

    fn client(&self, authorities: &ClientAuthorities, shown: &[CertificateDer<'_>]) -> ClientCertificate {
        let now = self.context.shared.clock.now();
        self.authenticator.certificate(authorities, shown, now)
    }

    fn handshake_failed(&self) {
        self.context.shared.metrics.handshake_failed();
    }

    fn respond(
        self: &Arc<Self>,
        request: http::Request<RequestBody>,
        client: Option<&ClientCertificate>,
        peer: Option<SocketAddr>,
    ) -> impl Future<Output = Response> + Send {
        Self::respond(self, request, client, peer)
    }
}

impl Service {
    /// Returns the answer to a request. `certificate` is the result of verifying the connection's client certificate,
    /// `peer` the address of the client.
    pub async fn respond(
        self: &Arc<Self>,
        request: http::Request<RequestBody>,
        certificate: Option<&ClientCertificate>,
        peer: Option<SocketAddr>,
    ) -> Response {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let (method, uri) = (head.method.clone(), head.uri.clone());
        let audit_id = self.audit_id(&head.headers);
        let user_agent = head.headers.get(header::USER_AGENT).cloned();
        let info = RequestInfo::parse(&head.method, &head.uri);
        let errors = info.as_ref().map(|info| ErrorForm::new(&head.headers, &info.query));
        let errors = errors.ok();
        let lasting = info.as_ref().is_ok_and(inflight::lasts);
        let unseen = info.as_ref().ok().and_then(|_| identity::warning(&head.headers));
        let unseen = unseen.filter(|_| !matches!(certificate, Some(ClientCertificate::User(..))));
        let recording = info
            .as_ref()
            .ok()
            .and_then(|info| self.record(info, &head.headers, started));
        let (mut audit, mut schema, mut unknown) = (None, None, false);
        let sent = self.auditor.is_none()
            || info
                .as_ref()
                .is_ok_and(|info| Representation::of_document(&head.headers, &info.query).is_ok());
        let origin = self
            .browsers
            .as_ref()
            .and_then(|browsers| browsers.allowed_origin(&head.headers));
        let http2 = head.version == Version::HTTP_2;
        let go_away = http2 && self.go_away.is_some_and(|rule| rule.decides());
        let outcome = match info {
            // The preflight request of a browser.
            Ok(_) if origin.is_some() && method == Method::OPTIONS => Ok(response::no_content()),
            Ok(info) => {
                let arrival = Arrival {
                    started,
                    peer,
                    audit_id: &audit_id,
                };
                let noted = (&mut audit, &mut schema, &mut unknown);
                self.answer(head, info, body, certificate, &arrival, noted).await
            }
            Err(error) => Ok(response::unread(error, &uri)),
        };
        let mut response = outcome.unwrap_or_else(|error| {
            let form = errors.map(ErrorForm::representation).unwrap_or_default();
            response::error(self.context.messages(), &error, &form)
        });
        let headers = response.headers_mut();
        if let Some(unseen) = unseen {
            response::add_warnings(headers, &[unseen]);
        }
        headers.insert(AUDIT_ID, audit_id.clone());
        self.add_headers(headers, schema.as_deref(), origin);
        if lasting {
            response.extensions_mut().insert(Lasts);
        }
        if go_away || unknown && http2 && self.parts_from_unknown {
            response.extensions_mut().insert(Last);
        }
        if let Some(audit) = audit {
            let (shown, response) = (&self.context.representation, &mut response);
            Box::pin(audit.responded(shown, response, lasting, sent)).await;
        }
        if method == Method::HEAD {
            *response.body_mut() = ResponseBody::empty();
        }
        let (code, taken) = (response.status().as_u16(), started.elapsed());
        if let Some(recording) = recording {
            self.finish(recording, &mut response);
        }
        websocket::begin(&mut response);
        let headers = (HeaderInLog(Some(&audit_id)), HeaderInLog(user_agent.as_ref()));
        log(&method, &uri, (code, taken, lasting), headers);
        response
    }

    /// Adds the headers of all kinds of answers: the priority level, caching, and the headers for browsers.
    fn add_headers(&self, headers: &mut HeaderMap, schema: Option<&Schema>, origin: Option<HeaderValue>) {
        if let Some(schema) = schema {
            name_level(headers, schema);
        }
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
        if let Some(browsers) = &self.browsers {
            browsers.add_headers(headers, origin);
        }
    }

    /// Begins the metrics of the request.
    fn record(&self, info: &RequestInfo, headers: &HeaderMap, started: Instant) -> Option<Recording> {
        let applies = info.verb == "patch"
            && negotiation::patch_type(headers, self.context.config.cbor).is_ok_and(PatchType::applies);
        let requests = self.context.shared.metrics.requests();
        requests.begin(info, applies, &self.context.shared.registry.load(), started)
    }

    /// Counts the request, either immediately or when the last part of the answer is sent.
    fn finish(&self, mut recording: Recording, response: &mut Response) {
        let requests = self.context.shared.metrics.requests();
        let code = response.status();
        requests.answered(&recording, code);
        if matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT) {
            requests.terminated(&recording, code);
        }
        match response.body().length() {
            Some(length) => recording.sent(length),
            None => {
                let mut lasting = recording.lasts();
                response.body_mut().record(move |bytes| lasting.sent(bytes));
            }
        }
    }

    /// Returns the audit ID of the request: the client's own, or a new one.
    fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get(AUDIT_ID).filter(|id| !id.is_empty());
        sent.cloned().unwrap_or_else(|| {
            let id = self.context.shared.identifiers.uid();
            HeaderValue::from_maybe_shared(Bytes::from(id)).unwrap_or(HeaderValue::from_static("unknown"))
        })
    }

    /// Returns the answer to a request with a valid URI: the request is authenticated, gets a seat, is authorized, and
    /// is passed to its handler.
    async fn answer(
        self: &Arc<Self>,
        mut head: http::request::Parts,
        info: RequestInfo,
        mut body: RequestBody,
        certificate: Option<&ClientCertificate>,
        arrival: &Arrival<'_>,
        (audit, schema, unknown): (&mut Option<Exchange>, &mut Option<Arc<Schema>>, &mut bool),
    ) -> Result<Response, ApiError> {
        let started = arrival.started;
        let limit = self.time_limit(&info);
        let limit = limit.inspect_err(|error| *audit = self.refuse(&head, &info, arrival, || error.to_string()))?;
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            return Err(ApiError::out_of_time());
        }
        let authenticated = self.authenticate(&mut head, certificate);
        let Authenticated { user, annotations } = authenticated.inspect_err(|_| {
            *unknown = true;
            *audit = self.refuse(&head, &info, arrival, || audit::attempted(&head, &info, certificate));
        })?;
        *unknown = identity::is_anonymous(&user);
        *audit = self.begin_audit(Some(&user), &head, &info, arrival);
        if let Some(audit) = audit.as_ref()
            && !received(audit, annotations, started).await
        {
            return Ok(response::internal_error(&head.uri, "failed to store audit event"));
        }
        let audit = audit.as_ref().map(Exchange::recorder);
        let user = self.impersonated(user, &head.headers, &info, audit)?;
        let seat_request = SeatRequest {
            info: &info,
            user: &user,
            method: &head.method,
            uri: &head.uri,
            limit,
            started,
        };
        let (seat, watch) = match self.wait_for_seat(&seat_request, schema, audit).await {
            Ok(entered) => entered,
            Err(retry_seconds) => return Ok(inflight::too_many(retry_seconds)),
        };
        if let Some(seat) = &seat {
            body.leaving(Arc::clone(seat));
        }
        audited(audit, Layer::Authorization, || {
            let authorizer = self.context.shared.authorizer.as_ref();
            let count = |decision| self.context.shared.metrics.identities().authorized(decision);
            authorization::check(authorizer, &user, &info, &head.method, audit, count)
        })?;
        if let Some(barrier) = &self.storage_versions {
            barrier.check(&info, &user, &self.context.shared.registry.load())?;
        }
        let deadline = limit.and_then(|limit| started.checked_add(limit));
        if let Some(remote) = self.paths.remote(&info.path) {
            let request = Forwarded {
                head,
                info: &info,
                user,
                body,
                audit_id: arrival.audit_id,
                deadline,
                peer: arrival.peer,
            };
            return Ok(self.forward(&remote, request, seat).await);
        }
        let upgrade = Upgrade::take(&mut head);
        let unadmitted = head.extensions.get::<Unadmitted>().is_some();
        let incoming = Incoming {
            method: head.method,
            info,
            headers: head.headers,
            user,
            body,
            now: self.context.shared.clock.now(),
            deadline,
            upgrade,
            watch,
            audit: audit.cloned(),
            cbor: self.context.config.cbor,
            unadmitted,
        };
        match self.target_of(&incoming).await {
            Some(target) => self.serve(incoming, target, seat, (limit, schema)).await,
            None => {
                let response = self.paths.respond(self.context.messages(), incoming).await?;
                Ok(holding(response, seat))
            }
        }
    }

    /// Returns the user of a request, authenticated by its certificate or its headers.
    fn authenticate(
        &self,
        head: &mut http::request::Parts,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Authenticated, ApiError> {
        let shared = &self.context.shared;
        let (tokens, now) = (shared.tokens.as_ref(), shared.clock.now());
        let outcome = self
            .authenticator
            .authenticate(tokens, &mut head.headers, certificate, now);
        let counters = shared.metrics.identities();
        match &outcome {
            Ok(authenticated) => counters.authenticated(&authenticated.user.name),
            Err(_) => counters.unauthenticated(),
        }
        outcome
    }

    /// Returns the effective user of a request: its sender, or the user that its headers impersonate.
    fn impersonated(
        &self,
        user: Arc<User>,
        headers: &HeaderMap,
        info: &RequestInfo,
        audit: Option<&Recorder>,
    ) -> Result<Arc<User>, ApiError> {
        let authorizer = self.context.shared.authorizer.as_ref();
        let judged = audited(audit, Layer::Impersonation, || {
            self.impersonation.judge(user, headers, authorizer, &info.attributes())
        });
        let Judged { user, impersonated } = judged?;
        if let (Some(audit), Some(constraint)) = (audit, impersonated) {
            audit.impersonated(&user, constraint);
        }
        Ok(user)
    }

    /// Returns the resource that a request names; `None` for other paths.
    async fn target_of(&self, incoming: &Incoming) -> Option<ResourcePath> {
        let is_api = || incoming.info.resource.is_some() && self.paths.is_api(&incoming.info.path);
        if !is_api() {
            // The group may be that of a CRD that was just written, and documents list all served resources.
            self.context.definitions.caught_up().await;
            if !is_api() {
                return None;
            }
        }
        incoming.info.resource.clone()
    }

    /// Returns the answer of the requested resource, within the time limit of the request. Clears the flow schema in
    /// `schema` if the time runs out.
    async fn serve(
        self: &Arc<Self>,
        incoming: Incoming,
        target: ResourcePath,
        seat: Option<Arc<Seat>>,
        (limit, schema): (Option<Duration>, &mut Option<Arc<Schema>>),
    ) -> Result<Response, ApiError> {
        let context = Arc::clone(&self.context);
        // A write is finished even if the client disconnects: its reservations are released, or made permanent, when
        // its outcome is known.
        let writes = !matches!(incoming.info.verb.as_str(), "get" | "list" | "watch");
        // The future of a verb is large, so it is boxed once instead of being moved from layer to layer. It owns the
        // seat, and the answer owns it afterwards until the client has received the answer.
        let answer = Box::pin(guarded(incoming.audit.clone(), async move {
            let response = router::serve_resource(&context, incoming, target).await?;
            Ok(holding(response, seat))
        }));
        let Some(limit) = limit else {
            return answer.await;
        };
        let long_work = self.in_flight.long_work.clone();
        let answer = async move { long_work.apart(answer).await };
        let answer = async {
            if writes {
                tokio::spawn(answer).await.unwrap_or_else(|_| Err(panicked()))
            } else {
                answer.await
            }
        };
        match tokio::time::timeout(limit, answer).await {
            // The handler may notice the timeout first.
            Ok(Err(error)) if error.is_out_of_time() => Ok(response::out_of_time()),
            Ok(outcome) => outcome,
            Err(_) => {
                // The timeout answer replaces the answer of the handler and has no priority level.
                *schema = None;
                Ok(response::out_of_time())
            }
        }
    }

    /// Calls [`Self::enter`] and records its duration in the audit log.
    async fn wait_for_seat(
        &self,
        request: &SeatRequest<'_>,
        schema: &mut Option<Arc<Schema>>,
        audit: Option<&Recorder>,
    ) -> Result<(Option<Arc<Seat>>, WatchHold), u64> {
        let began = audit.map(|_| Instant::now());
        let entered = self.enter(request, schema).await;
        if let (Some(audit), Some(began)) = (audit, began) {
            audit.took(Layer::QueueWait, began.elapsed());
        }
        entered
    }

    /// Waits for the seat of a request, and returns it with the resources that a watch holds. Sets `schema` to its flow
    /// schema.
    ///
    /// # Errors
    /// If there is no seat: the number of seconds after which the client should retry.
    async fn enter(
        &self,
        request: &SeatRequest<'_>,
        schema: &mut Option<Arc<Schema>>,
    ) -> Result<(Option<Arc<Seat>>, WatchHold), u64> {
        let Some(fairness) = &self.fairness else {
            if request.limit.is_none() {
                return Ok((None, WatchHold::default()));
            }
            let seat = inflight::enter(&self.in_flight, request.info, request.user);
            let seat = seat.ok_or(u64::from(RETRY_SECONDS))?;
            return Ok((Some(Arc::new(seat)), WatchHold::default()));
        };
        *schema = fairness.classify(request);
        let Some(schema) = schema else {
            return Ok((None, WatchHold::default()));
        };
        let Admitted { seat, watch } = fairness.admit(&self.in_flight, schema, request).await?;
        // A watch releases its seats once it has begun, whatever happens to its answer.
        let seat = request.limit.is_some().then_some(seat);
        Ok((seat, watch))
    }
}

impl Service {
    /// Returns the answer of another server. It keeps its seat until the client has received it.
    async fn forward(&self, to: &Proxied, request: Forwarded<'_>, seat: Option<Arc<Seat>>) -> Response {
        let Some(aggregator) = self.paths.aggregator() else {
            return response::page_not_found();
        };
        holding(Box::pin(aggregator.forward(to, request)).await, seat)
    }

    /// Begins the audit record of a request, if the policy audits it.
    fn begin_audit(
        &self,
        user: Option<&Arc<User>>,
        head: &http::request::Parts,
        info: &RequestInfo,
        arrival: &Arrival<'_>,
    ) -> Option<Exchange> {
        let auditor = self.auditor.as_ref()?;
        let clock = self.context.shared.clock.as_ref();
        Exchange::begin(auditor, user, (head, info), arrival, clock)
    }

    /// Begins the audit record of a request that is rejected before its user is authenticated.
    fn refuse(
        &self,
        head: &http::request::Parts,
        info: &RequestInfo,
        arrival: &Arrival<'_>,
        why: impl FnOnce() -> String,
    ) -> Option<Exchange> {
        let mut audit = self.begin_audit(None, head, info, arrival)?;
        audit.refuse(why());
        Some(audit)
    }

    /// Returns the time limit of the request: the `timeout` that the client sends, if it is less than the server
    /// allows. `None` for long-running requests.
    fn time_limit(&self, info: &RequestInfo) -> Result<Option<Duration>, ApiError> {
        if inflight::lasts(info) {
            return Ok(None);
        }
        let most = self.context.config.request_timeout;
        let Some(text) = info.query.get("timeout").filter(|text| !text.is_empty()) else {
            return Ok(Some(most));
        };
        let wanted = duration::parse_from_zero(text)
            .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
        Ok(Some(if wanted.is_zero() { most } else { wanted.min(most) }))
    }
}

/// A header in the format of the log.
struct HeaderInLog<'a>(Option<&'a HeaderValue>);

impl std::fmt::Display for HeaderInLog<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.map(|value| String::from_utf8_lossy(value.as_bytes()));
        write!(f, "{:?}", text.unwrap_or_default())
    }
}

/// Returns the answer, which keeps the seat of its request until the client has received it.
fn holding(mut response: Response, seat: Option<Arc<Seat>>) -> Response {
    if let Some(seat) = seat {
        response.body_mut().hold_seat(seat);
    }
    response
}

/// Returns the outcome of `answer`. A panic fails only this request, and the audit log records it.
async fn guarded(
    audit: Option<Recorder>,
    answer: impl Future<Output = Result<Response, ApiError>>,
) -> Result<Response, ApiError> {
    let outcome = std::panic::AssertUnwindSafe(answer).catch_unwind().await;
    outcome.unwrap_or_else(|why| {
        if let Some(audit) = audit {
            let why = why
                .downcast_ref::<&str>()
                .copied()
                .or(why.downcast_ref::<String>().map(String::as_str));
            audit.panicked(why.unwrap_or("no reason was given"));
        }
        Err(panicked())
    })
}

/// Notes the duration and the result of authentication, and begins the record of the request in the audit log. Returns
/// true if the record could be written.
async fn received(audit: &Exchange, annotations: Vec<(&'static str, String)>, started: Instant) -> bool {
    audit.recorder().took(Layer::Authentication, started.elapsed());
    for (key, value) in annotations {
        audit.recorder().annotate(key, value);
    }
    Box::pin(audit.received()).await
}

/// Writes an answered request into the log. At the default level only slow requests that are not long-running are
/// visible.
fn log(
    method: &Method,
    uri: &Uri,
    (code, taken, lasting): (u16, Duration, bool),
    (audit_id, user_agent): (HeaderInLog<'_>, HeaderInLog<'_>),
) {
    if taken >= SLOW && !lasting {
        tracing::info!(%method, %uri, code, ?taken, %user_agent, %audit_id, "slow request");
    } else {
        tracing::debug!(%method, %uri, code, ?taken, %user_agent, %audit_id, "request");
    }
}

/// Runs `work`, and records its duration in the audit log if the request is audited.
fn audited<T>(audit: Option<&Recorder>, layer: Layer, work: impl FnOnce() -> T) -> T {
    let Some(audit) = audit else { return work() };
    let began = Instant::now();
    let outcome = work();
    audit.took(layer, began.elapsed());
    outcome
}

fn panicked() -> ApiError {
    let message = "This request caused the server to fail. Look in its log for details.";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, None)
}
