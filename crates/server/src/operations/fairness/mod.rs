//! Priority and fairness in the request path: the estimated cost of a request, its queueing, and the rejection if it
//! gets no seat (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>).

mod dump;
mod follow;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use holdfast_authorization::{AccessTarget, User};
use holdfast_fairness::{
    Arrival, Execution, LevelSpec, ListQuery, Moment, ObjectStatistics, SchemaSpec, Start, WatchKey, WorkEstimate,
    list_seats, mutating_work,
};
use holdfast_schema::GroupResource;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::http::options::reads_as_true;
use crate::http::request_info::{RequestInfo, ResourcePath};
use crate::objects::Snapshot;
use crate::representation::Shared;
use crate::runtime::{Clock as _, SystemClock};
use crate::wire::fairness::{Fairness, LevelSeat, RequestDetails, Schema, SteadyClock, WatchHold};
use crate::wire::in_flight::{InFlight, Seat};

pub use follow::follow;
pub use holdfast_fairness::ListEstimate;

/// The header that names the flow schema of a request.
const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
/// The header that names the priority level of a request.
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The divisor of a request's time limit for its maximum wait in a queue.
const WAITING_PART: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The priority levels of a server, and the data for estimates of requests.
pub struct PriorityAndFairness {
    pub(crate) levels: Arc<Fairness>,
    /// The number and average size of objects at the last count, by the group and then the plural name of the resource.
    objects: ArcSwap<ObjectTable>,
    /// The resources and the store, where objects are counted anew for each request.
    shared: OnceLock<Shared>,
    /// The objects of the configuration, by their keys.
    configuration: Mutex<Configuration>,
    /// The start of the clock of the levels.
    origin: (Instant, SystemTime),
    /// The time limit of a request that names none.
    request_timeout: Duration,
    lists: ListEstimate,
}

type ObjectTable = HashMap<SmolStr, Vec<(SmolStr, ObjectStatistics)>>;

#[derive(Default)]
struct Configuration {
    levels: BTreeMap<SmolStr, LevelSpec>,
    schemas: BTreeMap<SmolStr, SchemaSpec>,
}

/// A request for seats.
pub(crate) struct SeatRequest<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) user: &'a Arc<User>,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    /// Its time limit; `None` for a long-running request.
    pub(crate) limit: Option<Duration>,
}

/// A request that has acquired its seats.
pub(crate) struct Admitted {
    pub(crate) seat: Arc<Seat>,
    pub(crate) watch: WatchHold,
}

impl PriorityAndFairness {
    /// Creates priority and fairness for a server of `seats` seats, whose requests end after `request_timeout`.
    pub fn new(seats: u64, request_timeout: Duration) -> Self {
        let origin = Instant::now();
        let clock = Arc::new(SteadyClock::new(origin));
        Self {
            levels: Arc::new(Fairness::new(seats, clock)),
            objects: ArcSwap::default(),
            shared: OnceLock::new(),
            configuration: Mutex::default(),
            origin: (origin, SystemClock.now()),
            request_timeout,
            lists: ListEstimate::default(),
        }
    }

    /// Returns the same with this estimate of the work of lists.
    #[must_use]
    pub fn estimating_lists(self, lists: ListEstimate) -> Self {
        Self { lists, ..self }
    }

    /// Returns the flow schema of a request; `None` for long-running requests other than watches, which are exempt.
    pub(crate) fn classify(&self, request: &SeatRequest<'_>) -> Option<Arc<Schema>> {
        if request.limit.is_none() && request.info.verb != "watch" {
            return None;
        }
        self.levels.classify(request.user, &request.info.attributes())
    }

    /// Executes, enqueues or rejects a request of the level of `schema`.
    pub(crate) fn start(&self, schema: &Arc<Schema>, request: &SeatRequest<'_>) -> Start<RequestDetails> {
        let (estimate, watchers) = self.estimate(request.info, schema.max_seats());
        let target = request.info.resource.as_ref();
        schema.start(Arrival {
            user: &request.user.name,
            namespace: target.map_or(&SmolStr::new_static(""), |target| &target.namespace),
            estimate,
            watchers,
            mutates: mutates(request.info),
            watch: request.info.verb == "watch",
            details: RequestDetails {
                user: Arc::clone(request.user),
                method: request.method.clone(),
                uri: request.uri.clone(),
            },
        })
    }

    /// Returns the maximum wait in a queue of a request whose time limit is `limit`.
    pub(crate) fn max_wait(&self, limit: Option<Duration>) -> Duration {
        (limit.unwrap_or(self.request_timeout) / WAITING_PART).min(LONGEST_WAIT)
    }

    /// Returns the seats of a request that executes.
    pub(crate) fn admit(
        &self,
        in_flight: &Arc<InFlight>,
        execution: Execution<RequestDetails>,
        request: &SeatRequest<'_>,
    ) -> Admitted {
        let level_seat = LevelSeat::new(execution, self.max_wait(request.limit));
        let seat = Arc::new(in_flight.of_level(request.user, level_seat));
        let watch = match request.info.verb.as_str() {
            "watch" => {
                let registration = watch_key(request.info).map(|key| self.levels.watches().register(key));
                WatchHold::new(Arc::clone(&seat), registration)
            }
            _ => WatchHold::default(),
        };
        Admitted { seat, watch }
    }

    /// Estimates the work of a request, and returns the number of watches of the objects that it changes.
    fn estimate(&self, info: &RequestInfo, of_level: u64) -> (WorkEstimate, Option<usize>) {
        let Some(target) = &info.resource else {
            return (WorkEstimate::seats(1), None);
        };
        match info.verb.as_str() {
            "list" | "watch" => {
                let objects = self.objects_of(target);
                (
                    list_seats(list_query(info).as_ref(), objects, of_level, self.lists),
                    None,
                )
            }
            // Creating a token changes no object that could be watched.
            "create" | "update" | "patch" | "delete" if !is_token(target) => {
                let watchers = match info.attributes().target {
                    AccessTarget::Resource(target) => self.levels.watches().interested(&target),
                    AccessTarget::Path(_) => 0,
                };
                (mutating_work(watchers, of_level), Some(watchers))
            }
            _ => (WorkEstimate::seats(1), None),
        }
    }

    /// Returns the current number of objects, and their average size at the last count.
    fn objects_of(&self, target: &ResourcePath) -> Option<ObjectStatistics> {
        let counted = self.counted_objects_of(target);
        let Some(shared) = self.shared.get() else {
            return counted;
        };
        let name = GroupResource {
            group: target.group.clone(),
            resource: target.resource.clone(),
        };
        let registry = shared.registry.load();
        let prefix = registry.resource(&name)?.storage.as_ref()?.namespace_prefix("");
        let snapshot = shared.store.for_key(prefix.as_bytes()).snapshot();
        let count = i64::try_from(snapshot.count(prefix.as_bytes())).unwrap_or(i64::MAX);
        let average_bytes = match counted.map_or(0, |counted| counted.average_bytes) {
            0 => average_size(&snapshot, prefix.as_bytes()),
            counted => counted,
        };
        Some(ObjectStatistics { count, average_bytes })
    }

    fn counted_objects_of(&self, target: &ResourcePath) -> Option<ObjectStatistics> {
        let objects = self.objects.load();
        let mut groups = objects.get(&target.resource)?.iter();
        groups
            .find(|(group, _)| *group == target.group)
            .map(|(_, known)| *known)
    }

    /// Converts a moment of the levels' clock to the time of day.
    fn time_of(&self, moment: Moment) -> SystemTime {
        self.origin.1 + Duration::from_nanos(moment.0)
    }

    /// Converts a moment of the levels' clock to an instant.
    fn instant_of(&self, moment: Moment) -> Instant {
        self.origin.0 + Duration::from_nanos(moment.0)
    }
}

/// Number of objects whose average size is that of all, until all are counted.
const SAMPLED_OBJECTS: usize = 16;

/// Returns the average size of the first objects below `prefix`.
fn average_size(snapshot: &Snapshot, prefix: &[u8]) -> i64 {
    let sizes = snapshot.range(prefix).take(SAMPLED_OBJECTS).map(|entry| entry.length());
    let (count, bytes) = sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
    let average = bytes.checked_div(count).unwrap_or_default();
    i64::try_from(average).unwrap_or(i64::MAX)
}

/// Adds the headers that name the flow schema and the priority level of the request.
pub(crate) fn name_level(headers: &mut HeaderMap, schema: &Schema) {
    for (name, uid) in [(LEVEL_UID, schema.level_uid()), (SCHEMA_UID, schema.uid())] {
        if let Ok(value) = HeaderValue::from_maybe_shared(uid.clone()) {
            headers.insert(name, value);
        }
    }
}

fn mutates(info: &RequestInfo) -> bool {
    !matches!(info.verb.as_str(), "get" | "list" | "watch")
}

fn is_token(target: &ResourcePath) -> bool {
    target.resource == "serviceaccounts" && target.subresource == "token"
}

/// Returns the query of a list; `None` if its numbers cannot be parsed.
fn list_query(info: &RequestInfo) -> Option<ListQuery<'_>> {
    let text = |name| info.query.get(name).unwrap_or_default();
    let number = |name| match text(name) {
        "" => Some(0),
        text => text.parse::<i64>().ok(),
    };
    number("timeoutSeconds")?;
    let named = info.resource.as_ref().is_some_and(|target| !target.name.is_empty());
    Some(ListQuery {
        watch: info.verb == "watch",
        single: named || !info.selected_name.is_empty(),
        limit: number("limit")?,
        resource_version: text("resourceVersion"),
        version_match: text("resourceVersionMatch"),
        continues: !text("continue").is_empty(),
        selects: !text("fieldSelector").is_empty() || !text("labelSelector").is_empty(),
        sends_initial_events: info.query.get("sendInitialEvents").is_some_and(reads_as_true),
    })
}

/// Returns the key under which a watch is counted; `None` for watches of the pods of one node, which get few changes.
fn watch_key(info: &RequestInfo) -> Option<WatchKey> {
    let AccessTarget::Resource(target) = info.attributes().target else {
        return None;
    };
    let selects = target.resource == "pods" && selects_a_node(info.query.get("fieldSelector").unwrap_or_default());
    (!selects).then(|| WatchKey::new(&target))
}

fn selects_a_node(selector: &str) -> bool {
    let node = selector.split(',').filter_map(|part| part.split_once('='));
    node.map(|(field, value)| (field.trim(), value.trim_start_matches('=')))
        .any(|(field, value)| field == "spec.nodeName" && !value.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn info(method: &Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(method, &uri.parse().unwrap()).unwrap()
    }

    fn fairness() -> PriorityAndFairness {
        let fairness = PriorityAndFairness::new(600, Duration::from_secs(60));
        let pods = ObjectStatistics {
            count: 1000,
            average_bytes: 1000,
        };
        let table = HashMap::from([(SmolStr::new("pods"), vec![(SmolStr::default(), pods)])]);
        fairness.objects.store(Arc::new(table));
        fairness
    }

    fn seats(method: &Method, uri: &str) -> u64 {
        fairness().estimate(&info(method, uri), 0).0.initial_seats
    }

    #[test]
    fn lists_and_watches_are_as_wide_as_what_they_show() {
        for (uri, expected) in [
            ("/api/v1/pods", 10),
            ("/api/v1/pods?limit=250", 3),
            ("/api/v1/pods?limit=x", 100),
            ("/api/v1/pods?watch=1", 10),
            ("/api/v1/pods?watch=1&resourceVersion=7", 1),
            ("/api/v1/pods?watch=1&resourceVersion=7&sendInitialEvents=true", 10),
            ("/api/v1/pods?fieldSelector=metadata.name%3Da", 1),
            ("/api/v1/namespaces/n/pods/a", 1),
            ("/api/v1/unknowns", 1),
            ("/apis/other/v1/pods", 1),
            ("/version", 1),
        ] {
            assert_eq!(seats(&Method::GET, uri), expected, "{uri}");
        }
    }

    #[test]
    fn changes_take_more_where_many_watch() {
        let fairness = fairness();
        let watch = info(&Method::GET, "/api/v1/pods?watch=1");
        let _watches: Vec<_> = (0..40)
            .map(|_| fairness.levels.watches().register(watch_key(&watch).unwrap()))
            .collect();
        let estimate_of = |method: &Method, uri: &str| fairness.estimate(&info(method, uri), 0);
        let (estimate, watchers) = estimate_of(&Method::PUT, "/api/v1/namespaces/n/pods/a");
        assert_eq!((estimate.final_seats, watchers), (4, Some(40)));
        assert_eq!(estimate_of(&Method::GET, "/api/v1/namespaces/n/pods/a").1, None);
        assert_eq!(estimate_of(&Method::POST, "/api/v1/namespaces/n/secrets").1, Some(0));
        assert_eq!(
            estimate_of(&Method::POST, "/api/v1/namespaces/n/serviceaccounts/a/token").1,
            None
        );
    }

    #[test]
    fn watches_of_the_pods_of_a_node_are_not_counted() {
        let key = |uri: &str| watch_key(&info(&Method::GET, uri));
        assert!(key("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Da").is_none());
        assert!(key("/api/v1/pods?watch=1&fieldSelector=status.phase%3Dx,spec.nodeName%3D%3Da").is_none());
        assert!(key("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D").is_some());
        assert!(key("/api/v1/pods?watch=1&fieldSelector=spec.nodeName!%3Da").is_some());
        assert!(key("/api/v1/nodes?watch=1&fieldSelector=spec.nodeName%3Da").is_some());
    }

    #[test]
    fn connections_that_last_are_not_classified() {
        let fairness = fairness();
        let user = Arc::new(User::default());
        let uri = "/api/v1/namespaces/n/pods/a/exec".parse().unwrap();
        let classified = |info: &RequestInfo, limit| {
            fairness
                .classify(&SeatRequest {
                    info,
                    user: &user,
                    method: &Method::GET,
                    uri: &uri,
                    limit,
                })
                .map(|schema| schema.name().clone())
        };
        let minute = Some(Duration::from_secs(60));
        assert_eq!(
            classified(&info(&Method::GET, "/api/v1/namespaces/n/pods/a/exec"), None),
            None
        );
        assert_eq!(
            classified(&info(&Method::GET, "/api/v1/pods?watch=1"), None).as_deref(),
            Some("catch-all")
        );
        assert_eq!(
            classified(&info(&Method::GET, "/api/v1/pods"), minute).as_deref(),
            Some("catch-all")
        );
    }
}
