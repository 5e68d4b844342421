//! Metrics of priority levels, with the names of the reference (`apiserver_flowcontrol_*`).
//!
//! Levels keep their own counts, under the locks that they hold anyway. The counts are formatted on request.

use std::fmt::Write as _;

use holdfast_fairness::{
    Dispatched, FlowStatistics, Histogram, LevelStatistics, Phase, Reason, SeatSeconds, Statistics,
};

use super::Family;
use super::stability::{help_text, stability};

/// A label and its value.
type Label<'a> = (&'static str, &'a str);

/// Prefix of the names.
const PREFIX: &str = "apiserver_flowcontrol_";

const LEVEL: &str = "priority_level";
const SCHEMA: &str = "flow_schema";

/// A gauge of each level: the name of the metric, its help text, and its value.
type OfLevel = (&'static str, &'static str, fn(&LevelStatistics) -> f64);

const OF_LEVELS: [OfLevel; 10] = [
    (
        "nominal_limit_seats",
        "Nominal number of seats of a priority level",
        |level| level.limits[0] as f64,
    ),
    (
        "lower_limit_seats",
        "Minimum number of seats of a priority level",
        |level| level.limits[1] as f64,
    ),
    (
        "upper_limit_seats",
        "Maximum number of seats of a priority level",
        |level| level.limits[2] as f64,
    ),
    (
        "current_limit_seats",
        "Current number of seats of a priority level",
        |level| level.limits[3] as f64,
    ),
    ("current_r", "Virtual time of the queues of a priority level", |level| {
        level.progress.to_float()
    }),
    (
        "demand_seats_high_watermark",
        "Maximum demand for seats in the last period",
        |level| level.demand[0],
    ),
    (
        "demand_seats_average",
        "Average demand for seats in the last period",
        |level| level.demand[1],
    ),
    (
        "demand_seats_stdev",
        "Standard deviation of the demand for seats in the last period",
        |level| level.demand[2],
    ),
    ("demand_seats_smoothed", "Smoothed demand for seats", |level| {
        level.demand[3]
    }),
    ("target_seats", "Target number of seats of a priority level", |level| {
        level.target
    }),
];

/// A gauge of the last dispatch from a queue.
type OfDispatch = (&'static str, &'static str, fn(&Dispatched) -> SeatSeconds);

const OF_DISPATCHES: [OfDispatch; 2] = [
    ("dispatch_r", "Virtual time of the last dispatch", |last| last.now),
    (
        "latest_s",
        "Virtual start time of the last dispatched request",
        |last| last.start,
    ),
];

/// A pair of gauges: minimum and maximum of the waiting requests.
type Bounds = (&'static str, &'static str, fn(&Dispatched) -> [SeatSeconds; 2]);

const BOUNDS: [Bounds; 2] = [
    (
        "next_s_bounds",
        "Minimum and maximum virtual start time of the oldest request of each queue",
        |last| last.bounds,
    ),
    (
        "next_discounted_s_bounds",
        "Minimum and maximum virtual start time of the oldest request of each queue, minus the work in progress",
        |last| last.discounted,
    ),
];

/// Histogram over time of the used proportion of a limit of a level.
type Utilization = (
    &'static str,
    &'static str,
    Option<&'static str>,
    fn(&LevelStatistics) -> &Histogram,
);

const UTILIZATIONS: [Utilization; 4] = [
    ("demand_seats", "Ratio of demanded to available seats", None, |level| {
        &level.seat_demand
    }),
    (
        "priority_level_seat_utilization",
        "Ratio of occupied to available seats",
        Some("executing"),
        |level| &level.seat_utilization,
    ),
    (
        "priority_level_request_utilization",
        "Ratio of executing or queued requests to their limit",
        Some("executing"),
        |level| &level.executing_utilization,
    ),
    ("priority_level_request_utilization", "", Some("waiting"), |level| {
        &level.waiting_utilization
    }),
];

/// A metric of each flow schema in its level.
type OfFlow = (
    &'static str,
    &'static str,
    &'static str,
    fn(&FlowStatistics) -> Option<f64>,
);

const OF_FLOWS: [OfFlow; 6] = [
    (
        "dispatched_requests_total",
        "Number of dispatched requests",
        "counter",
        |flow| (flow.dispatched > 0).then_some(flow.dispatched as f64),
    ),
    (
        "request_dispatch_no_accommodation_total",
        "Number of dispatch attempts that failed for lack of free seats",
        "counter",
        |flow| (flow.unaccommodated > 0).then_some(flow.unaccommodated as f64),
    ),
    (
        "current_inqueue_requests",
        "Number of queued requests",
        "gauge",
        |flow| flow.was_queued().then_some(flow.queued_requests as f64),
    ),
    (
        "current_inqueue_seats",
        "Number of seats that queued requests need",
        "gauge",
        |flow| flow.was_queued().then_some(flow.queued_seats as f64),
    ),
    (
        "current_executing_requests",
        "Number of executing requests",
        "gauge",
        |flow| (flow.dispatched > 0).then_some(flow.executing_requests as f64),
    ),
    ("current_executing_seats", "Number of occupied seats", "gauge", |flow| {
        (flow.dispatched > 0).then_some(flow.executing_seats as f64)
    }),
];

/// A histogram of each flow schema in its level, with an additional label.
type FlowHistogram = (
    &'static str,
    &'static str,
    Option<Label<'static>>,
    fn(&FlowStatistics) -> &Histogram,
);

const FLOW_HISTOGRAMS: [FlowHistogram; 7] = [
    (
        "request_queue_length_after_enqueue",
        "Length of a queue after a request was added",
        None,
        |flow| &flow.queue_lengths,
    ),
    (
        "request_wait_duration_seconds",
        "Time that requests spend in queues, in seconds",
        Some(("execute", "false")),
        |flow| &flow.waits[0],
    ),
    ("request_wait_duration_seconds", "", Some(("execute", "true")), |flow| {
        &flow.waits[1]
    }),
    (
        "request_execution_seconds",
        "Execution time of requests in seconds; for watches, until the watch is established",
        Some(("type", "regular")),
        |flow| &flow.executions[0],
    ),
    ("request_execution_seconds", "", Some(("type", "watch")), |flow| {
        &flow.executions[1]
    }),
    (
        "watch_count_samples",
        "Number of watchers that a write notifies",
        None,
        |flow| &flow.watchers,
    ),
    (
        "work_estimated_seats",
        "Maximum number of seats of a request",
        None,
        |flow| &flow.seats,
    ),
];

/// Gauge of the fraction that all levels share.
const FAIR_FRACTION: (&str, &str) = (
    "seat_fair_frac",
    "Fair fraction of the seats that each priority level gets",
);
/// Histogram over time of the used proportion of the limits of reading and mutating requests.
const KINDS: (&str, &str) = (
    "read_vs_write_current_requests",
    "Ratio of queued or executing requests to their limit",
);
/// Counter of rejected requests.
const REJECTED: (&str, &str) = ("rejected_requests_total", "Number of rejected requests");
/// The only metric without the prefix of the others.
const WAITING: (&str, &str) = ("apiserver_current_inqueue_requests", "Number of queued requests");

/// Returns every metric that may be written here.
pub(super) fn families() -> impl Iterator<Item = Family> {
    let family = |(name, help): (&str, &str), kind: &'static str, labels: &[&str]| {
        let mut labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        labels.sort_unstable();
        let prefix = if name.starts_with("apiserver_") { "" } else { PREFIX };
        let name = format!("{prefix}{name}");
        Family {
            stability: stability(&name),
            name,
            kind,
            labels,
            help: help.to_owned(),
        }
    };
    let levels = OF_LEVELS.map(|(name, help, _)| family((name, help), "gauge", &[LEVEL]));
    let dispatches = OF_DISPATCHES.map(|(name, help, _)| family((name, help), "gauge", &[LEVEL]));
    let bounds = BOUNDS.map(|(name, help, _)| family((name, help), "gauge", &["bound", LEVEL]));
    // A name that occurs twice has its help text in the first place.
    let named_utilizations = UTILIZATIONS.into_iter().filter(|(_, help, ..)| !help.is_empty());
    let utilizations = named_utilizations.map(move |(name, help, phase, _)| {
        let labels: Vec<&str> = phase.map(|_| "phase").into_iter().chain([LEVEL]).collect();
        family((name, help), "histogram", &labels)
    });
    let flows = OF_FLOWS.map(|(name, help, kind, _)| family((name, help), kind, &[SCHEMA, LEVEL]));
    let named_histograms = FLOW_HISTOGRAMS.into_iter().filter(|(_, help, ..)| !help.is_empty());
    let histograms = named_histograms.map(move |(name, help, label, _)| {
        let labels: Vec<&str> = label
            .map(|(label, _)| label)
            .into_iter()
            .chain([SCHEMA, LEVEL])
            .collect();
        family((name, help), "histogram", &labels)
    });
    let others = [
        family(FAIR_FRACTION, "gauge", &[]),
        family(KINDS, "histogram", &["phase", "request_kind"]),
        family(REJECTED, "counter", &[SCHEMA, LEVEL, "reason"]),
        family(WAITING, "gauge", &["request_kind"]),
    ];
    let of_flows = flows.into_iter().chain(histograms);
    let of_levels = levels.into_iter().chain(dispatches).chain(bounds).chain(utilizations);
    of_levels.chain(of_flows).chain(others)
}

/// Returns the number of requests that are being served, by their kind.
pub(super) fn executing(statistics: &Statistics) -> [(&'static str, i64); 2] {
    let now = |kind: bool| {
        let of_kind = statistics
            .now
            .iter()
            .filter(|(phase, mutates, _)| *phase == Phase::Executing && *mutates == kind);
        i64::try_from(of_kind.map(|(_, _, count)| count).sum::<u64>()).unwrap_or(i64::MAX)
    };
    [("readOnly", now(false)), ("mutating", now(true))]
}

fn kind(mutates: bool) -> &'static str {
    if mutates { "mutating" } else { "readOnly" }
}

/// Appends all metrics of the levels to `text`.
pub(super) fn write(statistics: &Statistics, text: &mut String) {
    let mut page = Page { text, last: "" };
    for (name, help, number) in OF_LEVELS {
        for level in &statistics.levels {
            page.number(name, help, "gauge", &[(LEVEL, &level.name)], number(level));
        }
    }
    page.number(FAIR_FRACTION.0, FAIR_FRACTION.1, "gauge", &[], statistics.fair_fraction);
    write_dispatches(statistics, &mut page);
    for (name, help, phase, histogram) in UTILIZATIONS {
        for level in &statistics.levels {
            let phase = phase.map(|phase| ("phase", phase));
            let labels: Vec<Label<'_>> = phase.into_iter().chain([(LEVEL, level.name.as_str())]).collect();
            page.histogram(name, help, &labels, histogram(level));
        }
    }
    for (phase, mutates, histogram) in &statistics.kinds {
        let labels = [("phase", phase_name(*phase)), ("request_kind", kind(*mutates))];
        page.histogram(KINDS.0, KINDS.1, &labels, histogram);
    }
    write_flows(statistics, &mut page);
    let (waiting, help) = (WAITING.0, help_text(WAITING.0, WAITING.1));
    let _ = writeln!(page.text, "# HELP {waiting} {help}\n# TYPE {waiting} gauge");
    for (_, mutates, count) in statistics.now.iter().filter(|(phase, ..)| *phase == Phase::Waiting) {
        let _ = writeln!(page.text, "{waiting}{{request_kind=\"{}\"}} {count}", kind(*mutates));
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Executing => "executing",
    }
}

fn write_dispatches(statistics: &Statistics, page: &mut Page<'_>) {
    let last = || {
        statistics
            .levels
            .iter()
            .filter_map(|level| Some((&level.name, level.last.as_ref()?)))
    };
    for (name, help, number) in OF_DISPATCHES {
        for (level, last) in last() {
            page.number(name, help, "gauge", &[(LEVEL, level)], number(last).to_float());
        }
    }
    for (name, help, bounds) in BOUNDS {
        for (level, last) in last() {
            for (bound, number) in ["min", "max"].into_iter().zip(bounds(last)) {
                page.number(
                    name,
                    help,
                    "gauge",
                    &[("bound", bound), (LEVEL, level)],
                    number.to_float(),
                );
            }
        }
    }
}

fn write_flows(statistics: &Statistics, page: &mut Page<'_>) {
    let flows = || {
        let levels = statistics.levels.iter();
        levels.flat_map(|level| {
            level
                .flows
                .iter()
                .map(|(schema, flow)| (level.name.as_str(), schema.as_str(), flow))
        })
    };
    for (name, help, metric_type, number) in OF_FLOWS {
        for (level, schema, flow) in flows() {
            if let Some(number) = number(flow) {
                page.number(name, help, metric_type, &[(SCHEMA, schema), (LEVEL, level)], number);
            }
        }
    }
    for (level, schema, flow) in flows() {
        for (reason, count) in Reason::ALL.into_iter().zip(flow.rejected) {
            if count > 0 {
                let labels = [(SCHEMA, schema), (LEVEL, level), ("reason", reason.name())];
                page.number(REJECTED.0, REJECTED.1, "counter", &labels, count as f64);
            }
        }
    }
    for (name, help, label, histogram) in FLOW_HISTOGRAMS {
        for (level, schema, flow) in flows() {
            let histogram = histogram(flow);
            if histogram.count() == 0 {
                continue;
            }
            let mut labels: Vec<Label<'_>> = label.into_iter().chain([(SCHEMA, schema), (LEVEL, level)]).collect();
            labels.sort_unstable();
            page.histogram(name, help, &labels, histogram);
        }
    }
}

/// Text in the format of Prometheus. Samples of one metric are adjacent.
struct Page<'t> {
    text: &'t mut String,
    /// Metric of the last sample.
    last: &'static str,
}

impl Page<'_> {
    fn begin(&mut self, name: &'static str, help: &str, metric_type: &str) {
        if self.last != name {
            self.last = name;
            let name = format!("{PREFIX}{name}");
            let help = help_text(&name, help);
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {metric_type}\n");
        }
    }

    fn sample(&mut self, name: &str, end: &str, labels: &[Label<'_>], value: impl std::fmt::Display) {
        let _ = write!(self.text, "{PREFIX}{name}{end}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
        }
        let behind = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{behind} {value}");
    }

    fn number(&mut self, name: &'static str, help: &str, metric_type: &str, labels: &[Label<'_>], value: f64) {
        self.begin(name, help, metric_type);
        self.sample(name, "", labels, value);
    }

    fn histogram(&mut self, name: &'static str, help: &str, labels: &[Label<'_>], histogram: &Histogram) {
        self.begin(name, help, "histogram");
        let mut sum = 0;
        let bounds = histogram.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            sum += count;
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(name, "_bucket", &labels, sum);
        }
        self.sample(name, "_sum", labels, histogram.sum);
        self.sample(name, "_count", labels, sum);
    }
}
