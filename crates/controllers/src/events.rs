//! Events that report problems of objects (<https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>).
//!
//! A repeated event is counted in the existing Event, as client-go's recorders do: those of core Events by `count`,
//! those of `events.k8s.io` by `series`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_limits::{LruMap, TokenBucket};
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Client, RequestError};
use holdfast_value::{SmolStr, Value};
use parking_lot::Mutex;

/// Minimum number of objects and events that a recorder remembers.
const REMEMBERED: usize = 2048;
/// Number of events about one object that are sent without delay.
const SPAM_BURST: u32 = 25;
/// Time after which one more event about an object is sent.
const SPAM_REFILL: Duration = Duration::from_secs(300);
/// Number of different messages for one reason from which on events are combined.
const MAX_SIMILAR: usize = 10;
/// Time without a similar event after which events are no longer combined.
const SIMILAR_INTERVAL: Duration = Duration::from_secs(600);
/// Time without a repetition that ends a series, and interval at which a running series is written.
const SERIES_INTERVAL: Duration = Duration::from_secs(360);

/// Sends the events of one controller.
#[derive(Clone)]
pub(crate) struct Recorder {
    client: Client,
    /// Name of the controller.
    component: &'static str,
    /// Name of this host, for events of `events.k8s.io`.
    host: Arc<str>,
    sent: Arc<Mutex<SentEvents>>,
}

/// Reason and message of a warning about an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warning<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        Self {
            client,
            component,
            host: Arc::default(),
            sent: Arc::new(Mutex::new(SentEvents::default())),
        }
    }

    /// Returns the same recorder, whose events of `events.k8s.io` name a host.
    pub(crate) fn on_host(self, host: &Arc<str>) -> Self {
        Self {
            host: Arc::clone(host),
            ..self
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a core event. It is informational: no caller depends on it.
    ///
    /// upstream: k8s.io/client-go/tools/record#EventCorrelator.EventCorrelate
    pub(crate) async fn warn(&self, warning: Warning<'_>) {
        let now = self.client.time();
        let Some(counted) = self.sent.lock().count(warning, now) else {
            return;
        };
        let seconds = Timestamp::from(now).text(Precision::Seconds);
        let update: Fields<'_> = &[
            (&["count"], Value::Int(counted.count)),
            (&["lastTimestamp"], seconds.as_str().into()),
            (&["message"], counted.message.as_str().into()),
        ];
        let mut event = self.event(warning, &counted.name);
        event.set_at(&["apiVersion"], "v1".into());
        event.set_at(&["involvedObject"], reference(warning.object));
        event.set_at(&["source", "component"], self.component.into());
        event.set_at(&["firstTimestamp"], counted.first.as_str().into());
        set_all(&mut event, update);
        let events = format!("/api/v1/namespaces/{}/events", namespace(warning.object));
        self.write(&events, &event, (counted.count > 1).then_some(update)).await;
    }

    /// Sends an event of `events.k8s.io` about an action of the controller.
    ///
    /// upstream: k8s.io/client-go/tools/events#eventBroadcasterImpl.recordToSink
    pub(crate) async fn warn_about_action(&self, warning: Warning<'_>, action: &str) {
        let now = self.client.time();
        let Some(series) = self.sent.lock().extend_series(warning, action, now) else {
            return;
        };
        let micros = |time: SystemTime| Timestamp::from(time).text(Precision::Micros);
        let repetition: Fields<'_> = &[
            (&["series", "count"], Value::Int(series.count)),
            (&["series", "lastObservedTime"], micros(now).as_str().into()),
        ];
        let update = (series.count > 1).then_some(repetition);
        let mut event = self.event(warning, &series.name);
        event.set_at(&["apiVersion"], "events.k8s.io/v1".into());
        event.set_at(&["regarding"], reference(warning.object));
        event.set_at(&["note"], warning.message.into());
        event.set_at(&["action"], action.into());
        event.set_at(&["reportingController"], self.component.into());
        event.set_at(
            &["reportingInstance"],
            format!("{}-{}", self.component, self.host).as_str().into(),
        );
        event.set_at(&["eventTime"], micros(series.first).as_str().into());
        set_all(&mut event, update.unwrap_or_default());
        let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace(warning.object));
        self.write(&events, &event, update).await;
    }

    /// Returns the fields that both kinds of events have.
    fn event(&self, warning: Warning<'_>, name: &str) -> Value {
        tree(&[
            (&["kind"][..], "Event".into()),
            (&["metadata", "name"], name.into()),
            (&["metadata", "namespace"], namespace(warning.object).into()),
            (&["type"], "Warning".into()),
            (&["reason"], warning.reason.into()),
        ])
    }

    /// Updates an event that was sent before, or creates it if it is new or no longer exists.
    async fn write(&self, events: &str, event: &Value, update: Option<Fields<'_>>) {
        if let Err(error) = self.try_write(events, event, update).await {
            tracing::debug!(%error, component = self.component, "an event was lost");
        }
    }

    async fn try_write(&self, events: &str, event: &Value, update: Option<Fields<'_>>) -> Result<(), RequestError> {
        if let Some(update) = update {
            let name = event.str_at(&["metadata", "name"]).unwrap_or_default();
            let path = format!("{events}/{name}");
            match self.client.patch(&path, PatchType::Strategic, &tree(update)).await {
                Err(error) if error.is_not_found() => {}
                patched => return patched.map(drop),
            }
        }
        self.client.create(events, event).await.map(drop)
    }
}

/// Fields of an object, each with its path.
type Fields<'a> = &'a [(&'a [&'a str], Value)];

fn set_all(object: &mut Value, fields: Fields<'_>) {
    for (path, value) in fields {
        object.set_at(path, value.clone());
    }
}

/// Returns an object with these fields.
fn tree(fields: Fields<'_>) -> Value {
    let mut tree = Value::empty_map();
    set_all(&mut tree, fields);
    tree
}

/// Returns the namespace of events about an object. Those about cluster-scoped objects are in `default`.
fn namespace(object: &Value) -> &str {
    match object.str_at(&["metadata", "namespace"]) {
        None | Some("") => "default",
        Some(namespace) => namespace,
    }
}

fn reference(object: &Value) -> Value {
    let mut reference = Value::empty_map();
    for (field, path) in [
        ("apiVersion", &["apiVersion"][..]),
        ("kind", &["kind"]),
        ("name", &["metadata", "name"]),
        ("namespace", &["metadata", "namespace"]),
        ("resourceVersion", &["metadata", "resourceVersion"]),
        ("uid", &["metadata", "uid"]),
    ] {
        if let Some(text) = object.str_at(path).filter(|text| !text.is_empty()) {
            reference.set_at(&[field], text.into());
        }
    }
    reference
}

/// Identity of the object of an event: its kind, namespace, name and uid.
type Subject = [SmolStr; 4];

fn subject(object: &Value) -> Subject {
    [
        &["kind"][..],
        &["metadata", "namespace"],
        &["metadata", "name"],
        &["metadata", "uid"],
    ]
    .map(|path| object.str_at(path).unwrap_or_default().into())
}

/// Returns a name for a new event: that of the object and the time. If the object's name is none that an event may have,
/// its uid replaces the name.
///
/// upstream: k8s.io/client-go/tools/record/util#GenerateEventName
fn event_name(object: &Value, now: SystemTime) -> String {
    let nanos = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
    let name = format!("{}.{nanos:x}", text("name"));
    match dns_subdomain(&name).is_empty() {
        true => name,
        false => format!("{}.{nanos:x}", text("uid")),
    }
}

/// Events that a recorder has sent.
struct SentEvents {
    /// Limits of the events about each object.
    budgets: LruMap<Subject, TokenBucket<SystemTime>>,
    /// Messages of recent events by object and reason.
    similar: LruMap<(Subject, SmolStr), Similar>,
    /// Counts by object, reason and message; combined events have no message.
    counted: LruMap<(Subject, SmolStr, Option<SmolStr>), Counted>,
    /// Series by object, reason and action.
    series: LruMap<[SmolStr; 6], Series>,
}

impl Default for SentEvents {
    fn default() -> Self {
        Self {
            budgets: LruMap::new(REMEMBERED),
            similar: LruMap::new(REMEMBERED),
            counted: LruMap::new(REMEMBERED),
            series: LruMap::new(REMEMBERED),
        }
    }
}

#[derive(Clone)]
struct Similar {
    messages: HashSet<SmolStr>,
    last: SystemTime,
}

/// A core event with the number of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    name: String,
    message: String,
    /// Time of the first occurrence.
    first: SmolStr,
    count: i64,
}

/// A series of `events.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Series {
    name: String,
    first: SystemTime,
    last: SystemTime,
    written: SystemTime,
    count: i64,
}

fn since(earlier: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(earlier).unwrap_or_default()
}

impl SentEvents {
    /// Counts a core event. Returns the event to write; `None` if there are too many about its object.
    fn count(&mut self, warning: Warning<'_>, now: SystemTime) -> Option<Counted> {
        let subject = subject(warning.object);
        let is_combined = self.is_combined(&subject, warning, now);
        let key = (
            subject.clone(),
            warning.reason.into(),
            (!is_combined).then(|| warning.message.into()),
        );
        let message = match is_combined {
            true => format!("(combined from similar events): {}", warning.message),
            false => warning.message.to_owned(),
        };
        let counted = match self.counted.get(&key) {
            Some(before) => Counted {
                message,
                count: before.count + 1,
                ..before.clone()
            },
            None => Counted {
                name: event_name(warning.object, now),
                message,
                first: Timestamp::from(now).text(Precision::Seconds),
                count: 1,
            },
        };
        self.counted.insert(key, counted.clone());
        self.spend(subject, now).then_some(counted)
    }

    /// Returns true if so many different messages have the reason of this warning that they become one event.
    fn is_combined(&mut self, subject: &Subject, warning: Warning<'_>, now: SystemTime) -> bool {
        let key = (subject.clone(), warning.reason.into());
        let recent = self
            .similar
            .get(&key)
            .filter(|similar| since(similar.last, now) <= SIMILAR_INTERVAL);
        let mut messages = recent.map(|similar| similar.messages.clone()).unwrap_or_default();
        let message = SmolStr::from(warning.message);
        messages.insert(message.clone());
        let is_combined = messages.len() >= MAX_SIMILAR;
        if is_combined {
            messages.remove(&message);
        }
        self.similar.insert(key, Similar { messages, last: now });
        is_combined
    }

    /// Spends one event of an object's budget. Returns false if there is none.
    fn spend(&mut self, subject: Subject, now: SystemTime) -> bool {
        let full = || TokenBucket::new(1.0 / SPAM_REFILL.as_secs_f64(), SPAM_BURST, now);
        self.budgets.get_or_insert_with(subject, full).spend(now)
    }

    /// Counts an event of `events.k8s.io`. Returns the series to write; `None` if it was written recently.
    fn extend_series(&mut self, warning: Warning<'_>, action: &str, now: SystemTime) -> Option<Series> {
        let [kind, namespace, name, uid] = subject(warning.object);
        let key = [kind, namespace, name, uid, warning.reason.into(), action.into()];
        let running = self
            .series
            .get(&key)
            .filter(|series| since(series.last, now) <= SERIES_INTERVAL);
        let mut series = match running {
            Some(before) => Series {
                last: now,
                count: before.count + 1,
                ..before.clone()
            },
            None => Series {
                name: event_name(warning.object, now),
                first: now,
                last: now,
                written: now,
                count: 1,
            },
        };
        let is_due = series.count <= 2 || since(series.written, now) >= SERIES_INTERVAL;
        if is_due {
            series.written = now;
        }
        self.series.insert(key, series.clone());
        is_due.then_some(series)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn object(name: &str) -> Value {
        tree(&[
            (&["kind"][..], "Service".into()),
            (&["metadata", "name"], name.into()),
            (&["metadata", "uid"], "u-1".into()),
        ])
    }

    fn warning<'a>(object: &'a Value, message: &'a str) -> Warning<'a> {
        Warning {
            object,
            reason: "Wrong",
            message,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn repeated_event_is_counted() {
        let (mut sent, web) = (SentEvents::default(), object("web"));
        let first = sent.count(warning(&web, "a"), at(0)).unwrap();
        let second = sent.count(warning(&web, "a"), at(9)).unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!((&first.name, &first.first), (&second.name, &second.first));
        let other = sent.count(warning(&web, "b"), at(9)).unwrap();
        assert_eq!(other.count, 1);
        assert_ne!(other.name, first.name);
    }

    #[test]
    fn tenth_message_of_a_reason_is_combined() {
        let (mut sent, web) = (SentEvents::default(), object("web"));
        for number in 1..=12 {
            let message = number.to_string();
            let event = sent.count(warning(&web, &message), at(number)).unwrap();
            let combined = format!("(combined from similar events): {number}");
            assert_eq!(event.message, if number < 10 { message } else { combined });
            assert_eq!(event.count, i64::try_from(number).unwrap().saturating_sub(9).max(1));
        }
        let later = sent.count(warning(&web, "x"), at(700)).unwrap();
        assert_eq!(later.message, "x", "no similar event for ten minutes");
    }

    #[test]
    fn many_events_about_one_object_are_dropped() {
        let (mut sent, web, other) = (SentEvents::default(), object("web"), object("other"));
        let sends = (0..30).filter(|_| sent.count(warning(&web, "a"), at(0)).is_some());
        assert_eq!(sends.count(), 25);
        assert!(sent.count(warning(&other, "a"), at(0)).is_some());
        assert!(sent.count(warning(&web, "a"), at(299)).is_none());
        assert_eq!(
            sent.count(warning(&web, "a"), at(301)).unwrap().count,
            32,
            "dropped events are counted"
        );
    }

    #[test]
    fn series_is_written_at_intervals() {
        let (mut sent, web) = (SentEvents::default(), object("web"));
        let written: Vec<i64> = (0..6)
            .filter_map(|number| Some(sent.extend_series(warning(&web, "a"), "Act", at(number * 180))?.count))
            .collect();
        assert_eq!(written, [1, 2, 4, 6]);
        let new = sent.extend_series(warning(&web, "a"), "Act", at(9999)).unwrap();
        assert_eq!(new.count, 1, "the series has ended");
    }

    #[test]
    fn name_that_no_event_may_have_becomes_the_uid() {
        assert_eq!(event_name(&object("web"), at(0)), "web.38d7ea4c68000");
        assert_eq!(event_name(&object("system:web"), at(0)), "u-1.38d7ea4c68000");
    }
}
