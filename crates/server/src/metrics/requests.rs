//! Metrics of requests: number, duration and size, by verb and resource.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::HashMap;
use holdfast_resource::Registry;
use http::StatusCode;
use parking_lot::RwLock;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::{Families, registered};
use crate::http::request_info::RequestInfo;
use crate::runtime::webhook_time::WebhookTime;

/// The upper bounds of durations, in seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Upper bounds of the durations of the service level, in seconds.
const SERVICE_LEVELS: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Upper bounds of the sizes of responses, in bytes.
const ANSWER_SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// The upper bounds of the sizes of events of watches, in bytes.
const EVENT_SIZES: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];

/// Status codes whose counters are cached after the first use; others are looked up each time.
const CODES: [u16; 21] = [
    200, 201, 202, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 500, 501, 503, 504,
];

/// Verbs of access rules and their names in the reference's metrics.
const VERBS: [(&str, &str); 9] = [
    ("get", "GET"),
    ("list", "LIST"),
    ("watch", "WATCH"),
    ("create", "POST"),
    ("update", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("deletecollection", "DELETECOLLECTION"),
    ("proxy", "CONNECT"),
];

/// Paths other than those of resources that are counted, under their own name as the subresource.
const PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

const COMPONENT: &str = "apiserver";

/// The counters of all requests.
pub(crate) struct Requests {
    total: IntCounterVec,
    durations: HistogramVec,
    service_levels: HistogramVec,
    sizes: HistogramVec,
    long_running: IntGaugeVec,
    terminations: IntCounterVec,
    events: IntCounterVec,
    event_sizes: HistogramVec,
    series: RwLock<HashMap<Key, Arc<Series>>>,
}

/// Labels of a request, without those of its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    group: SmolStr,
    version: SmolStr,
    resource: SmolStr,
    subresource: SmolStr,
    verb: &'static str,
    scope: &'static str,
    dry_run: bool,
}

/// The counters of requests with the same labels.
struct Series {
    key: Key,
    codes: [OnceLock<IntCounter>; CODES.len()],
    duration: Histogram,
    /// Durations without the waits for webhooks and seats.
    service_level: Histogram,
    /// Sizes of responses, for verbs that read.
    size: Option<Histogram>,
    watch: Option<Watch>,
}

/// Additional counters of watches.
struct Watch {
    running: IntGauge,
    events: IntCounter,
    sizes: Histogram,
}

impl Requests {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        const WITH_DRY_RUN: [&str; 8] = [
            "component",
            "dry_run",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ];
        const WITHOUT: [&str; 7] = [
            "component",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ];
        const OF_WATCHES: [&str; 3] = ["group", "resource", "version"];
        let with_code = |labels: &[&'static str]| [&["code"], labels].concat();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
        };
        let histogram = |name: &str, help: &str, bounds: &[f64], labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
            registered(registry, HistogramVec::new(options, labels)?)
        };
        Ok(Self {
            total: counter(
                "apiserver_request_total",
                "Requests, by resource, verb and status code",
                &with_code(&WITH_DRY_RUN),
            )?,
            durations: histogram(
                "apiserver_request_duration_seconds",
                "Durations of requests, in seconds",
                &DURATIONS,
                &WITH_DRY_RUN,
            )?,
            service_levels: histogram(
                "apiserver_request_sli_duration_seconds",
                "Durations of requests without the time in webhooks and in queues, in seconds",
                &SERVICE_LEVELS,
                &WITHOUT,
            )?,
            sizes: histogram(
                "apiserver_response_sizes",
                "Sizes of responses to GET and LIST, in bytes",
                &ANSWER_SIZES,
                &WITHOUT,
            )?,
            long_running: gauge(
                "apiserver_longrunning_requests",
                "Long-running requests in progress, such as watches",
                &WITHOUT,
            )?,
            terminations: counter(
                "apiserver_request_terminations_total",
                "Requests that the server terminated to protect itself",
                &with_code(&WITHOUT),
            )?,
            events: counter("apiserver_watch_events_total", "Events sent to watches", &OF_WATCHES)?,
            event_sizes: histogram(
                "apiserver_watch_events_sizes",
                "Sizes of the events sent to watches, in bytes",
                &EVENT_SIZES,
                &OF_WATCHES,
            )?,
            series: RwLock::default(),
        })
    }

    /// Begins to record the request; `None` for requests that are not counted, such as those for resources that are not
    /// served. `applies` is true if a PATCH is an apply.
    pub(crate) fn begin(
        &self,
        info: &RequestInfo,
        applies: bool,
        registry: &Registry,
        started: Instant,
    ) -> Option<Recording> {
        let key = Key::new(info, applies)?;
        let known = self.series.read().get(&key).cloned();
        let series = match known {
            Some(series) => series,
            None => self.add(key, registry)?,
        };
        Some(Recording {
            series,
            started,
            bytes: 0,
            queue_time: Duration::ZERO,
            webhook_time: None,
        })
    }

    /// Counts the end of a request with the response code `code`.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    pub(crate) fn answered(&self, recording: &Recording, code: StatusCode) {
        let (series, code) = (&recording.series, code.as_u16());
        match CODES.iter().position(|known| *known == code) {
            Some(at) => match series.codes[at].get() {
                Some(counter) => counter.inc(),
                None => {
                    if let Some(counter) = self.counter(&series.key, code) {
                        series.codes[at].get_or_init(|| counter).inc();
                    }
                }
            },
            None => {
                if let Some(counter) = self.counter(&series.key, code) {
                    counter.inc();
                }
            }
        }
    }

    /// Counts a request that the server terminated with `code` to protect itself.
    pub(crate) fn terminated(&self, recording: &Recording, code: StatusCode) {
        let key = &recording.series.key;
        let labels = [&[code.as_str()], &key.labels_without_dry_run()[..]].concat();
        if let Ok(counter) = self.terminations.get_metric_with_label_values(&labels) {
            counter.inc();
        }
    }

    /// Creates the counters of a new key. Returns `None` for resources that are not served, so that clients cannot fill
    /// the memory with invented names.
    fn add(&self, key: Key, registry: &Registry) -> Option<Arc<Series>> {
        if !key.resource.is_empty() {
            let served = registry.served(&key.group, &key.version, &key.resource)?;
            let known = key.subresource.is_empty() || served.version().subresource(&key.subresource).is_some();
            known.then_some(())?;
        }
        let series = Arc::new(self.make(key.clone()).ok()?);
        Some(Arc::clone(self.series.write().entry(key).or_insert(series)))
    }

    fn make(&self, key: Key) -> prometheus::Result<Series> {
        let labels = key.labels_without_dry_run();
        let size = matches!(key.verb, "GET" | "LIST").then(|| self.sizes.get_metric_with_label_values(&labels));
        let watch = (key.verb == "WATCH").then(|| -> prometheus::Result<Watch> {
            let of_events = [&*key.group, &*key.resource, &*key.version];
            Ok(Watch {
                running: self.long_running.get_metric_with_label_values(&labels)?,
                events: self.events.get_metric_with_label_values(&of_events)?,
                sizes: self.event_sizes.get_metric_with_label_values(&of_events)?,
            })
        });
        Ok(Series {
            duration: self.durations.get_metric_with_label_values(&key.labels())?,
            service_level: self.service_levels.get_metric_with_label_values(&labels)?,
            size: size.transpose()?,
            watch: watch.transpose()?,
            codes: [const { OnceLock::new() }; CODES.len()],
            key,
        })
    }

    fn counter(&self, key: &Key, code: u16) -> Option<IntCounter> {
        let code = code.to_string();
        let labels = [&[code.as_str()], &key.labels()[..]].concat();
        self.total.get_metric_with_label_values(&labels).ok()
    }
}

impl Key {
    fn new(info: &RequestInfo, applies: bool) -> Option<Self> {
        let Some(target) = &info.resource else {
            let path = PATHS.into_iter().find(|path| *path == info.path)?;
            return Some(Self {
                group: SmolStr::default(),
                version: SmolStr::default(),
                resource: SmolStr::default(),
                subresource: SmolStr::new_static(path),
                verb: if info.verb == "get" { "GET" } else { "other" },
                scope: "",
                dry_run: false,
            });
        };
        let verb = VERBS.iter().find(|(verb, _)| *verb == info.verb);
        Some(Self {
            group: target.group.clone(),
            version: target.version.clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            verb: match verb {
                Some((_, "PATCH")) if applies => "APPLY",
                Some((_, named)) => named,
                None => "other",
            },
            scope: if !target.name.is_empty() || info.verb == "create" {
                "resource"
            } else if !target.namespace.is_empty() {
                "namespace"
            } else {
                "cluster"
            },
            dry_run: info.query.get("dryRun") == Some("All"),
        })
    }

    fn labels_without_dry_run(&self) -> [&str; 7] {
        let [component, _, group, resource, scope, subresource, verb, version] = self.labels();
        [component, group, resource, scope, subresource, verb, version]
    }

    fn labels(&self) -> [&str; 8] {
        [
            COMPONENT,
            if self.dry_run { "All" } else { "" },
            &self.group,
            &self.resource,
            self.scope,
            &self.subresource,
            self.verb,
            &self.version,
        ]
    }
}

/// A request in progress. Its duration is counted on drop: with the response, or with the end of a stream.
pub(crate) struct Recording {
    series: Arc<Series>,
    started: Instant,
    bytes: u64,
    queue_time: Duration,
    webhook_time: Option<Arc<WebhookTime>>,
}

impl Recording {
    /// Counts `bytes` of the response that are sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(watch) = &self.series.watch {
            watch.events.inc();
            watch.sizes.observe(bytes as f64);
        }
    }

    /// Records the time that the request waited for a seat.
    pub(crate) fn waited_for_seat(&mut self, time: Duration) {
        self.queue_time = time;
    }

    /// Returns the record of the time that the request waits for webhooks.
    pub(crate) fn webhook_time(&mut self) -> Arc<WebhookTime> {
        Arc::clone(self.webhook_time.get_or_insert_default())
    }

    /// Counts the request as long-running until the result is dropped.
    pub(crate) fn into_stream(self) -> StreamRecording {
        if let Some(watch) = &self.series.watch {
            watch.running.inc();
        }
        StreamRecording(self)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let duration = self.started.elapsed();
        self.series.duration.observe(duration.as_secs_f64());
        // upstream: k8s.io/apiserver/pkg/endpoints/metrics#MonitorRequest
        let webhook_time = self.webhook_time.as_ref().map_or(Duration::ZERO, |time| time.total());
        let own_time = duration.saturating_sub(self.queue_time).saturating_sub(webhook_time);
        self.series.service_level.observe(own_time.as_secs_f64());
        if let Some(size) = &self.series.size {
            size.observe(self.bytes as f64);
        }
    }
}

/// A long-running request, whose response is a stream in progress.
pub(crate) struct StreamRecording(Recording);

impl StreamRecording {
    /// Counts a piece of the stream, which for a watch is an event.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.0.sent(bytes);
    }
}

impl Drop for StreamRecording {
    fn drop(&mut self) {
        if let Some(watch) = &self.0.series.watch {
            watch.running.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::runtime::webhook_time;

    fn requests() -> (Families, Requests, Registry) {
        let registry = Families::default();
        let requests = Requests::new(&registry).unwrap();
        let resources = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        (registry, requests, resources)
    }

    fn info(method: &Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(method, &uri.parse().unwrap()).unwrap()
    }

    fn text(registry: &Families) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap()
    }

    #[test]
    fn requests_are_counted_by_what_they_are_about_and_how_they_end() {
        let (registry, requests, resources) = requests();
        let cases = [
            (
                Method::GET,
                "/apis/apps/v1/namespaces/n/deployments/a/scale",
                200,
                "code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"scale\",verb=\"GET\",version=\"v1\"",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods",
                200,
                "code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"",
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=1",
                410,
                "code=\"410\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods?dryRun=All",
                201,
                "code=\"201\",component=\"apiserver\",dry_run=\"All\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/pods/a",
                418,
                "code=\"418\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"APPLY\",version=\"v1\"",
            ),
            (
                Method::GET,
                "/livez",
                200,
                "code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"/livez\",verb=\"GET\",version=\"\"",
            ),
        ];
        for (method, uri, code, labels) in cases {
            for _ in 0..2 {
                let recording = requests
                    .begin(&info(&method, uri), true, &resources, Instant::now())
                    .unwrap();
                requests.answered(&recording, StatusCode::from_u16(code).unwrap());
            }
            let line = format!("apiserver_request_total{{{labels}}} 2\n");
            assert!(text(&registry).contains(&line), "{line}");
        }
    }

    #[tokio::test]
    async fn service_level_excludes_webhooks_and_queues() {
        let (registry, requests, resources) = requests();
        let pods = info(&Method::POST, "/api/v1/namespaces/n/pods");
        let began = Instant::now().checked_sub(Duration::from_secs(50)).unwrap();
        let mut recording = requests.begin(&pods, false, &resources, began).unwrap();
        recording.waited_for_seat(Duration::from_secs(20));
        let call = async { webhook_time::record(true, Duration::from_secs(25)) };
        webhook_time::measured(Some(recording.webhook_time()), call).await;
        drop(recording);
        let text = text(&registry);
        let of_bucket = |metric: &str, bound: &str| {
            let is_bucket = |line: &&str| line.starts_with(metric) && line.contains(&format!("le=\"{bound}\""));
            text.lines().find(is_bucket).unwrap().ends_with(" 1")
        };
        assert!(!of_bucket("apiserver_request_duration_seconds_bucket", "45"), "{text}");
        assert!(
            of_bucket("apiserver_request_sli_duration_seconds_bucket", "10"),
            "{text}"
        );
        assert!(
            !of_bucket("apiserver_request_sli_duration_seconds_bucket", "4"),
            "{text}"
        );
    }

    #[test]
    fn unserved_resource_creates_no_counters() {
        let (_, requests, resources) = requests();
        for uri in [
            "/api/v1/namespaces/n/gadgets",
            "/apis/none/v1/pods",
            "/api/v1/pods/a/none",
            "/none",
            "/",
        ] {
            assert!(
                requests
                    .begin(&info(&Method::GET, uri), false, &resources, Instant::now())
                    .is_none(),
                "{uri}"
            );
        }
        assert!(requests.series.read().is_empty());
    }

    #[test]
    fn a_watch_runs_until_its_stream_ends_and_counts_its_events() {
        let (registry, requests, resources) = requests();
        let watch = info(&Method::GET, "/api/v1/pods?watch=true");
        let mut lasting = requests
            .begin(&watch, false, &resources, Instant::now())
            .unwrap()
            .into_stream();
        lasting.sent(100);
        lasting.sent(5000);
        let running = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}";
        assert!(text(&registry).contains(&format!("{running} 1\n")));
        drop(lasting);
        let text = text(&registry);
        assert!(text.contains(&format!("{running} 0\n")));
        let of_pods = "{group=\"\",resource=\"pods\",version=\"v1\"";
        assert!(text.contains(&format!("apiserver_watch_events_total{of_pods}}} 2\n")));
        assert!(text.contains(&format!(
            "apiserver_watch_events_sizes_bucket{of_pods},le=\"1024\"}} 1\n"
        )));
    }
}
