//! Recorder of the information about a request while it is processed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holdfast_authorization::{Attributes, User};
use holdfast_gotext::duration;
use holdfast_resource::AuditAnnotations;
use holdfast_value::{SmolStr, Value};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    Decision, Event, EventHead, Level, ObjectReference, Observer, Policy, Receipt, ResponseStatus, Sink, Stage,
};

/// Auditor of requests: a policy, and the sink of its events.
pub struct Auditor {
    policy: Policy,
    sink: Sink,
    observer: Arc<dyn Observer>,
    now: fn() -> SystemTime,
}

impl Auditor {
    /// Creates an auditor with `policy` that emits to `sink`; `observer` counts events, `now` returns the time of day.
    pub fn new(policy: Policy, sink: Sink, observer: Arc<dyn Observer>, now: fn() -> SystemTime) -> Self {
        Self {
            policy,
            sink,
            observer,
            now,
        }
    }

    /// Decides on a request of `user` with `attributes`; `None` if it is not audited.
    pub fn judge(&self, user: Option<&User>, attributes: &Attributes<'_>) -> Option<Decision> {
        let decision = self.policy.judge(user, attributes);
        self.observer.judged(decision.level);
        (decision.level != Level::None).then_some(decision)
    }

    /// Begins the audit of a request that started at `started`.
    pub fn record(self: &Arc<Self>, decision: Decision, head: EventHead, started: Instant) -> Recorder {
        Recorder(Arc::new(Inner {
            auditor: Arc::clone(self),
            decision,
            started,
            event: Mutex::new(Event::new(decision.level, head)),
            taken: Default::default(),
            complete: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }))
    }

    /// Stops accepting events and waits until all are written and sent, at most for `limit`.
    pub async fn close(&self, limit: Duration) {
        self.sink.close(limit).await;
    }
}

/// Layer of request processing whose latency is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Authentication.
    Authentication,
    /// Authorization.
    Authorization,
    /// Impersonation.
    Impersonation,
    /// Mutating webhooks.
    MutatingWebhook,
    /// Validating webhooks: the longest of those that run in parallel.
    ValidatingWebhook,
    /// The store.
    Storage,
    /// Waiting for seats of the priority level.
    QueueWait,
}

impl Layer {
    const ALL: [Self; 7] = [
        Self::Authentication,
        Self::Authorization,
        Self::Impersonation,
        Self::MutatingWebhook,
        Self::ValidatingWebhook,
        Self::Storage,
        Self::QueueWait,
    ];

    /// Returns the annotation's name without its prefix.
    fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::Impersonation => "impersonation",
            Self::MutatingWebhook => "mutating-webhook",
            Self::ValidatingWebhook => "validating-webhook",
            Self::Storage => "etcd",
            Self::QueueWait => "apf-queue-wait",
        }
    }

    /// True if the maximum is recorded rather than the sum.
    fn is_longest(self) -> bool {
        matches!(self, Self::Authorization | Self::ValidatingWebhook | Self::QueueWait)
    }
}

const LATENCY: &str = "apiserver.latency.k8s.io/";

/// Duration from which a request is slow and gets latency annotations.
const SLOW_REQUEST_DURATION: Duration = Duration::from_millis(500);

/// Identity of the object in a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectNames<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    pub uid: &'a str,
    /// Resource version.
    pub resource_version: &'a str,
}

impl<'a> ObjectNames<'a> {
    /// Reads the identity of `object`.
    pub fn from_object(object: &'a Value) -> Self {
        let text = |name| object.str_at(&["metadata", name]).unwrap_or_default();
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }
    }
}

/// Recorder of one request. Cheap to clone; all clones share the request.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    auditor: Arc<Auditor>,
    decision: Decision,
    started: Instant,
    event: Mutex<Event>,
    /// Latency of each layer in nanoseconds.
    taken: [AtomicU64; Layer::ALL.len()],
    /// True if the last event was emitted.
    complete: AtomicBool,
    /// True if the server panicked.
    failed: AtomicBool,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.0.decision).finish()
    }
}

impl AuditAnnotations for Recorder {
    fn annotate(&self, key: &str, value: String) {
        self.0.event.lock().annotate(key, value);
    }

    fn records_bodies(&self) -> bool {
        self.0.decision.level >= Level::Request
    }

    fn webhook_took(&self, mutates: bool, time: Duration) {
        let layer = if mutates {
            Layer::MutatingWebhook
        } else {
            Layer::ValidatingWebhook
        };
        self.took(layer, time);
    }

    fn store_took(&self, time: Duration) {
        self.took(Layer::Storage, time);
    }
}

impl Recorder {
    /// Returns the policy's decision on the request.
    pub fn decision(&self) -> Decision {
        self.0.decision
    }

    /// Records the impersonated user, and the verb that allowed a constrained impersonation.
    pub fn impersonated(&self, user: &Arc<User>, constraint: String) {
        let mut event = self.0.event.lock();
        event.impersonated = Some(Arc::clone(user));
        event.constraint = constraint;
    }

    /// Records the object in the request body, if it has metadata; `json` returns its JSON, for levels that include it.
    pub fn request_object(&self, names: ObjectNames<'_>, json: impl FnOnce() -> Bytes) {
        let json = (self.0.decision.level >= Level::Request).then(json);
        let mut event = self.0.event.lock();
        let object = event.head.object.get_or_insert_with(ObjectReference::default);
        for (field, text) in [
            (&mut object.namespace, names.namespace),
            (&mut object.name, names.name),
            (&mut object.uid, names.uid),
            (&mut object.resource_version, names.resource_version),
        ] {
            if field.is_empty() {
                *field = SmolStr::new(text);
            }
        }
        event.request_object = json.or(event.request_object.take());
    }

    /// Records the patch in the request body as JSON.
    pub fn request_patch(&self, json: impl FnOnce() -> Bytes) {
        if self.0.decision.level >= Level::Request {
            let json = json();
            self.0.event.lock().request_object = Some(json);
        }
    }

    /// Records the status of the response.
    pub fn responded(&self, status: ResponseStatus, object: Option<Bytes>) {
        if self.0.failed.load(Ordering::Relaxed) {
            // The existing status has more details than the response.
            return;
        }
        let mut event = self.0.event.lock();
        event.status = Some(status);
        let object = object.filter(|_| self.0.decision.level == Level::RequestResponse);
        event.response_object = object.or(event.response_object.take());
    }

    /// Records the object in the response as JSON.
    pub fn response_object(&self, json: Bytes) {
        if self.0.decision.level == Level::RequestResponse {
            self.0.event.lock().response_object = Some(json);
        }
    }

    /// Adds to the latency of a layer.
    pub fn took(&self, layer: Layer, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(taken) = self.0.taken.get(layer as usize) {
            match layer.is_longest() {
                true => taken.fetch_max(nanos, Ordering::Relaxed),
                false => taken.fetch_add(nanos, Ordering::Relaxed),
            };
        }
    }

    /// Emits the event of a stage unless the policy omits the stage.
    pub fn emit(&self, stage: Stage) -> Receipt {
        self.emit_with(stage, true)
    }

    /// Emits the event of the last stage once.
    pub fn complete(&self) -> Receipt {
        self.complete_with(true)
    }

    /// Emits the only event of a request that is rejected before its user is known.
    pub fn rejected_early(&self) -> Receipt {
        self.0.complete.store(true, Ordering::Relaxed);
        self.emit(Stage::ResponseStarted)
    }

    /// Emits the last event of a request whose client disconnected, unless it was emitted already.
    pub fn abandoned(&self) {
        if std::thread::panicking() {
            self.panicked("a panic outside of the handler");
        } else {
            let mut event = self.0.event.lock();
            event.status.get_or_insert_with(|| ResponseStatus {
                status: SmolStr::new_static("Success"),
                message: "Connection closed early".to_owned(),
                code: 200,
                ..ResponseStatus::default()
            });
        }
        drop(self.complete_with(false));
    }

    /// Records that the server panicked.
    pub fn panicked(&self, why: &str) {
        self.responded(
            ResponseStatus {
                status: SmolStr::new_static("Failure"),
                message: format!("APIServer panic'd: {why}"),
                reason: SmolStr::new_static("InternalError"),
                details: None,
                code: 500,
            },
            None,
        );
        self.0.failed.store(true, Ordering::Relaxed);
    }

    /// Counts the request as rejected because its events could not be stored.
    pub fn rejected(&self) {
        self.0.complete.store(true, Ordering::Relaxed);
        self.0.auditor.sink.rejected();
    }

    fn complete_with(&self, awaited: bool) -> Receipt {
        if self.0.complete.swap(true, Ordering::Relaxed) {
            return Receipt::default();
        }
        if self.0.failed.load(Ordering::Relaxed) {
            return self.emit_with(Stage::Panic, awaited);
        }
        self.add_latency_annotations();
        self.emit_with(Stage::ResponseComplete, awaited)
    }

    fn emit_with(&self, stage: Stage, awaited: bool) -> Receipt {
        let inner = &self.0;
        if inner.decision.omit_stages.contains(stage) {
            return Receipt::default();
        }
        let event = inner.event.lock();
        let now = match stage {
            Stage::RequestReceived => event.head.received,
            _ => (inner.auditor.now)(),
        };
        inner.auditor.sink.emit(&event, stage, now, awaited)
    }

    /// Adds the latency annotations of a slow request. Watches are long-running, so their duration does not count.
    fn add_latency_annotations(&self) {
        let total = self.0.started.elapsed();
        if total <= SLOW_REQUEST_DURATION || self.0.event.lock().head.verb == "watch" {
            return;
        }
        let taken: Vec<(Layer, u64)> = Layer::ALL
            .into_iter()
            .zip(&self.0.taken)
            .map(|(layer, nanos)| (layer, nanos.load(Ordering::Relaxed)))
            .filter(|(_, nanos)| *nanos > 0)
            .collect();
        if taken.is_empty() {
            return;
        }
        let mut event = self.0.event.lock();
        for (layer, nanos) in taken {
            let text = duration::text(Duration::from_nanos(nanos));
            event.annotate(&format!("{LATENCY}{}", layer.name()), text);
        }
        event.annotate(&format!("{LATENCY}total"), duration::text(total));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::event::tests::head;
    use crate::sink::log::{Format, Target};
    use crate::sink::tests::{Counts, config};
    use crate::{Mode, Stages};

    fn auditor(path: &Path) -> Arc<Auditor> {
        let counts: Arc<dyn Observer> = Arc::new(Counts::default());
        let mut sink = Sink::new(Arc::clone(&counts));
        let output = Target::Growing(path.to_owned()).open().unwrap();
        drop(sink.add_log(output, Format::Json, &config(Mode::Batch)).unwrap());
        Arc::new(Auditor::new(Policy::default(), sink, counts, || SystemTime::UNIX_EPOCH))
    }

    /// Returns the events of a request that is audited at `level`.
    async fn events(level: Level, omitted: Stages, started: Instant, request: impl FnOnce(Recorder)) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let auditor = auditor(&path);
        let decision = Decision {
            level,
            omit_stages: omitted,
            omit_managed_fields: false,
        };
        request(auditor.record(decision, head(), started));
        auditor.close(Duration::from_secs(60)).await;
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn status(code: u16) -> ResponseStatus {
        ResponseStatus {
            code,
            ..ResponseStatus::default()
        }
    }

    #[tokio::test]
    async fn a_level_keeps_what_it_is_for() {
        for (level, request, response) in [
            (Level::Metadata, false, false),
            (Level::Request, true, false),
            (Level::RequestResponse, true, true),
        ] {
            let events = events(level, Stages::default(), Instant::now(), |recorder| {
                let names = ObjectNames {
                    namespace: "other",
                    name: "p",
                    uid: "u",
                    resource_version: "7",
                };
                recorder.request_object(names, || Bytes::from_static(b"{\"sent\":1}"));
                recorder.responded(status(201), Some(Bytes::from_static(b"{\"shown\":1}")));
                drop(recorder.complete());
            })
            .await;
            assert_eq!(events.len(), 1);
            let event = &events[0];
            assert_eq!(event.contains("\"requestObject\":{\"sent\":1}"), request, "{event}");
            assert_eq!(event.contains("\"responseObject\":{\"shown\":1}"), response, "{event}");
            let reference = "\"objectRef\":{\"resource\":\"pods\",\"namespace\":\"n\",\"name\":\"p\",\"uid\":\"u\",\
                             \"apiVersion\":\"v1\",\"resourceVersion\":\"7\"}";
            assert!(event.contains(reference), "{event}");
        }
    }

    #[tokio::test]
    async fn stages_that_are_left_out_emit_nothing() {
        let omitted = Stages::from(Stage::RequestReceived);
        let events = events(Level::Metadata, omitted, Instant::now(), |recorder| {
            drop(recorder.emit(Stage::RequestReceived));
            drop(recorder.emit(Stage::ResponseStarted));
            drop(recorder.complete());
            drop(recorder.complete());
        })
        .await;
        assert_eq!(events.len(), 2);
        assert!(events[0].contains("\"stage\":\"ResponseStarted\""), "{}", events[0]);
        assert!(events[1].contains("\"stage\":\"ResponseComplete\""), "{}", events[1]);
    }

    #[tokio::test]
    async fn a_slow_request_records_what_it_spent_its_time_on() {
        // A request with a later start counts as fast, however long the test is delayed.
        let (now, minutes) = (Instant::now(), Duration::from_secs(120));
        for (began, reported) in [(now.checked_sub(minutes).unwrap(), true), (now + minutes, false)] {
            let events = events(Level::Metadata, Stages::default(), began, |recorder| {
                recorder.took(Layer::MutatingWebhook, Duration::from_millis(200));
                recorder.took(Layer::MutatingWebhook, Duration::from_millis(300));
                recorder.took(Layer::ValidatingWebhook, Duration::from_millis(20));
                recorder.took(Layer::ValidatingWebhook, Duration::from_millis(30));
                drop(recorder.complete());
            });
            let event = events.await.remove(0);
            assert_eq!(
                event.contains("\"apiserver.latency.k8s.io/mutating-webhook\":\"500ms\""),
                reported,
                "{event}"
            );
            assert_eq!(
                event.contains("\"apiserver.latency.k8s.io/validating-webhook\":\"30ms\""),
                reported,
                "{event}"
            );
            assert_eq!(
                event.contains("\"apiserver.latency.k8s.io/total\":\"2m"),
                reported,
                "{event}"
            );
        }
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_ends_once() {
        let events = events(Level::Metadata, Stages::default(), Instant::now(), |recorder| {
            recorder.abandoned();
            drop(recorder.complete());
        })
        .await;
        assert_eq!(events.len(), 1);
        let status = "{\"metadata\":{},\"status\":\"Success\",\"message\":\"Connection closed early\",\"code\":200}";
        assert!(events[0].contains(status), "{}", events[0]);
    }

    #[tokio::test]
    async fn a_failure_of_the_server_has_a_stage_of_its_own() {
        let events = events(Level::Metadata, Stages::default(), Instant::now(), |recorder| {
            recorder.panicked("oh");
            drop(recorder.complete());
        });
        let event = events.await.remove(0);
        assert!(event.contains("\"stage\":\"Panic\""), "{event}");
        assert!(
            event.contains("\"message\":\"APIServer panic'd: oh\",\"reason\":\"InternalError\",\"code\":500"),
            "{event}"
        );
    }
}
