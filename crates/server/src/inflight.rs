//! How many requests are served at a time: those that read and those that change something have a limit each
//! (`--max-requests-inflight`, `--max-mutating-requests-inflight`). What comes above it is told to come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::long_work::LongWork;
use crate::request_info::RequestInfo;
use crate::response::{self, Response};

/// The requests that are served now. Those that last, such as watches, are not among them.
#[derive(Debug, Default)]
pub struct InFlight {
    read_only: Lane,
    mutating: Lane,
    /// Those of them that take long.
    pub(crate) long_work: LongWork,
}

#[derive(Debug, Default)]
struct Lane {
    /// The most requests at a time; 0 for no limit.
    limit: usize,
    now: Arc<AtomicUsize>,
}

/// The place of a request that is served; given back when this goes.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InFlight {
    /// At most `read_only` requests at a time that read, and `mutating` others; 0 for no limit.
    pub fn new(read_only: usize, mutating: usize) -> Self {
        let lane = |limit| Lane {
            limit,
            now: Arc::default(),
        };
        Self {
            read_only: lane(read_only),
            mutating: lane(mutating),
            long_work: LongWork::default(),
        }
    }

    /// A place for a request of `verb`; `None` where all are taken.
    pub fn enter(&self, verb: &str) -> Option<Place> {
        self.lane(verb).enter(false)
    }

    /// A place for a request of those who are never refused one.
    pub fn enter_anyway(&self, verb: &str) -> Option<Place> {
        self.lane(verb).enter(true)
    }

    /// How many requests of each kind there are now.
    pub(crate) fn now(&self) -> [(&'static str, i64); 2] {
        let now = |lane: &Lane| i64::try_from(lane.now.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        [("readOnly", now(&self.read_only)), ("mutating", now(&self.mutating))]
    }

    fn lane(&self, verb: &str) -> &Lane {
        match verb {
            "get" | "list" | "watch" => &self.read_only,
            _ => &self.mutating,
        }
    }
}

impl Lane {
    fn enter(&self, anyway: bool) -> Option<Place> {
        let before = self.now.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.now));
        (anyway || self.limit == 0 || before < self.limit).then_some(place)
    }
}

/// Whether the request lasts, so that neither limits nor timeouts are for it: a watch, or a connection to a pod.
pub fn lasts(info: &RequestInfo) -> bool {
    const LASTING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
    let subresource = info.resource.as_ref().map(|target| target.subresource.as_str());
    matches!(info.verb.as_str(), "watch" | "proxy") || subresource.is_some_and(|name| LASTING.contains(&name))
}

/// The answer to a request that there is no place for.
pub(crate) fn too_many() -> Response {
    let message = "Too many requests, please try again later.\n";
    let mut response = response::text(StatusCode::TOO_MANY_REQUESTS, message);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn each_kind_of_request_has_its_own_places() {
        let in_flight = InFlight::new(2, 1);
        let reads = [in_flight.enter("get"), in_flight.enter("list")];
        assert!(reads.iter().all(Option::is_some));
        assert!(in_flight.enter("get").is_none());
        let write = in_flight.enter("create");
        assert!(write.is_some());
        assert!(in_flight.enter("delete").is_none());
        assert!(in_flight.enter_anyway("delete").is_some());
        drop(write);
        assert!(in_flight.enter("delete").is_some());
        drop(reads);
        assert_eq!(in_flight.now(), [("readOnly", 0), ("mutating", 0)]);
    }

    #[test]
    fn no_limit_is_written_as_zero() {
        let in_flight = InFlight::new(0, 0);
        let places: Vec<_> = (0..1000).map(|_| in_flight.enter("create")).collect();
        assert!(places.iter().all(Option::is_some));
    }

    #[test]
    fn watches_and_connections_to_pods_last() {
        let lasting = |uri: &str| lasts(&RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap());
        assert!(lasting("/api/v1/pods?watch=1"));
        assert!(lasting("/api/v1/namespaces/n/pods/a/log"));
        assert!(!lasting("/api/v1/namespaces/n/pods/a/status"));
        assert!(!lasting("/livez"));
    }
}
