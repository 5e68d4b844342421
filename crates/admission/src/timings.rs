//! Durations of admission, by plugin and by step, for metrics.
//!
//! Recording a duration only adds to two numbers. A plugin is called only for the writes that concern it, while the
//! reference calls it for all writes of its operations. The difference is added when the numbers are read, as calls
//! with no duration.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use holdfast_limits::Stopwatch;
use holdfast_resource::Operation;
use holdfast_schema::durations;

use crate::{Calls, DynamicPlugin};

/// Upper bounds of the buckets in seconds, as in the reference.
pub const BUCKETS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Quantiles of the durations in a summary, as in the reference.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// A step of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Plugins may change the object.
    Admit,
    /// Plugins may reject the write.
    Validate,
}

impl Step {
    /// Both steps, in their order.
    pub const ALL: [Self; 2] = [Self::Admit, Self::Validate];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

pub(crate) const OPERATIONS: [Operation; 4] = [
    Operation::Create,
    Operation::Update,
    Operation::Delete,
    Operation::Connect,
];

/// Returns the name of an operation in webhooks and metrics.
pub fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// Values by operation, and by whether the write was rejected.
type Cells<T> = [[T; 2]; OPERATIONS.len()];

/// Durations of admission.
pub struct Timings {
    plugins: Vec<PluginTimings>,
    /// Indexes of the dynamic plugins among them.
    dynamic: [Option<usize>; DynamicPlugin::ALL.len()],
    steps: [Cells<StepTimings>; 2],
    /// Number of passes through the compiled-in plugins, by step and operation.
    passes: [[AtomicU64; OPERATIONS.len()]; 2],
    /// Number of writes, by operation, that were rejected after they had passed the validating step.
    rejected_late: [AtomicU64; OPERATIONS.len()],
    /// Origin from which hours are counted.
    begun: Stopwatch,
}

struct PluginTimings {
    name: &'static str,
    /// Participation by step and operation.
    takes_part: [[bool; OPERATIONS.len()]; 2],
    /// True if the plugin is called after all others.
    last: bool,
    durations: [Cells<Durations>; 2],
}

/// A plugin whose calls are timed.
pub(crate) struct TimedPlugin {
    pub(crate) name: &'static str,
    /// Calls that the reference counts.
    pub(crate) calls: Calls,
    /// True if it is called after all others.
    pub(crate) last: bool,
}

impl PluginTimings {
    fn new(TimedPlugin { name, calls, last }: TimedPlugin) -> Self {
        Self {
            name,
            takes_part: Step::ALL.map(|step| OPERATIONS.map(|operation| calls.include(step, operation))),
            last,
            durations: Default::default(),
        }
    }
}

#[derive(Default)]
struct StepTimings {
    durations: Durations,
    /// Allocated for the first duration.
    recent: OnceLock<Box<Recent>>,
}

/// Counters of durations, by [`BUCKETS`].
type Durations = durations::Durations<{ BUCKETS.len() }>;

/// Number of durations, by [`BUCKETS`].
pub type DurationCounts = durations::DurationCounts<{ BUCKETS.len() }>;

/// Number of hours for which a duration counts for quantiles.
const HOURS: usize = 5;
const HOUR: Duration = Duration::from_secs(3600);
/// Binary logarithm of the number of buckets for each doubling of a duration.
const FINENESS: u32 = 3;
/// Number of buckets; covers durations of up to a minute.
const FINE_BUCKETS: usize = 33 << FINENESS;

/// Fine-grained durations of the last hours. Each hour has a slot, which is reused five hours later.
struct Recent([HourOfDurations; HOURS]);

struct HourOfDurations {
    /// Number of the hour, from 1; 0 for none.
    number: AtomicU64,
    counts: [AtomicU32; FINE_BUCKETS],
}

impl Default for Recent {
    fn default() -> Self {
        Self(array::from_fn(|_| HourOfDurations {
            number: AtomicU64::new(0),
            counts: array::from_fn(|_| AtomicU32::new(0)),
        }))
    }
}

impl Recent {
    fn observe(&self, took: Duration, hour: u64) {
        let Some(of) = self.0.get(usize::try_from(hour).unwrap_or(0) % HOURS) else {
            return;
        };
        // The first call in an hour clears the slot. A duration that is recorded concurrently may be lost.
        if of.number.load(Relaxed) != hour && of.number.swap(hour, Relaxed) != hour {
            of.counts.iter().for_each(|count| count.store(0, Relaxed));
        }
        if let Some(count) = of.counts.get(fine_bucket(took)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the durations of [`QUANTILES`]; `None` if there were none recently.
    fn quantiles(&self, hour: u64) -> Option<[Duration; QUANTILES.len()]> {
        let mut counts = [0_u64; FINE_BUCKETS];
        for of in &self.0 {
            let age = hour.saturating_sub(of.number.load(Relaxed));
            if age >= HOURS as u64 {
                continue;
            }
            for (sum, count) in counts.iter_mut().zip(&of.counts) {
                *sum += u64::from(count.load(Relaxed));
            }
        }
        let all: u64 = counts.iter().sum();
        (all > 0).then(|| QUANTILES.map(|quantile| duration_at((all as f64 * quantile).ceil() as u64, &counts)))
    }
}

/// Returns the bucket of a duration: the position of its highest bit and the next few bits.
fn fine_bucket(took: Duration) -> usize {
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1 << FINENESS);
    let exponent = nanoseconds.ilog2() - FINENESS;
    let mantissa = (nanoseconds >> exponent) - (1 << FINENESS);
    let bucket = (u64::from(exponent) << FINENESS) + mantissa;
    usize::try_from(bucket).map_or(FINE_BUCKETS - 1, |bucket| bucket.min(FINE_BUCKETS - 1))
}

/// Returns the middle of the bucket that contains the duration with that rank.
fn duration_at(place: u64, counts: &[u64]) -> Duration {
    let mut before = 0;
    let found = counts.iter().position(|count| {
        before += count;
        before >= place
    });
    let bucket = found.unwrap_or(0) as u64;
    let (exponent, mantissa) = (bucket >> FINENESS, bucket & ((1 << FINENESS) - 1));
    let least = ((1 << FINENESS) + mantissa) << exponent;
    Duration::from_nanos(least + (1 << exponent) / 2)
}

impl Timings {
    /// Creates empty durations of these plugins, followed by the dynamic ones.
    pub(crate) fn new(plugins: impl Iterator<Item = TimedPlugin>, dynamic: &[DynamicPlugin]) -> Self {
        let mut plugins: Vec<_> = plugins.map(PluginTimings::new).collect();
        let mut place = |plugin: DynamicPlugin| {
            dynamic.contains(&plugin).then(|| {
                plugins.push(PluginTimings::new(TimedPlugin {
                    name: plugin.name(),
                    calls: plugin.calls(),
                    last: false,
                }));
                plugins.len() - 1
            })
        };
        Self {
            dynamic: DynamicPlugin::ALL.map(&mut place),
            plugins,
            steps: Default::default(),
            passes: Default::default(),
            rejected_late: Default::default(),
            begun: Stopwatch::start(),
        }
    }

    /// Starts a step of the admission of one write.
    pub fn step(&self, step: Step, operation: Operation) -> Timing<'_> {
        Timing {
            timings: self,
            step,
            operation,
            of: Timed::Step,
            begun: Stopwatch::start(),
        }
    }

    /// Starts a call of a dynamic plugin for a write whose [operation](operation_name) has that name.
    pub fn dynamic(&self, plugin: DynamicPlugin, operation: &str) -> Timing<'_> {
        let named = |of: &Operation| operation_name(*of) == operation;
        let operation = OPERATIONS.into_iter().find(named).unwrap_or(Operation::Connect);
        let step = match plugin {
            DynamicPlugin::MutatingPolicies | DynamicPlugin::MutatingWebhooks => Step::Admit,
            DynamicPlugin::ValidatingPolicies | DynamicPlugin::ValidatingWebhooks => Step::Validate,
        };
        let place = self.dynamic.get(plugin as usize).copied().flatten();
        Timing {
            timings: self,
            step,
            operation,
            of: place.map_or(Timed::Nothing, Timed::Plugin),
            begun: Stopwatch::start(),
        }
    }

    /// Starts a pass through the compiled-in plugins.
    pub(crate) fn pass(&self, step: Step, operation: Operation) -> Pass<'_> {
        if let Some(passes) = self.passes.get(step as usize).and_then(|of| of.get(operation as usize)) {
            passes.fetch_add(1, Relaxed);
        }
        self.calls(step, operation)
    }

    /// Starts calls of compiled-in plugins that are part of a completed pass.
    pub(crate) fn calls(&self, step: Step, operation: Operation) -> Pass<'_> {
        Pass {
            timings: self,
            step,
            operation,
            begun: Stopwatch::start(),
        }
    }

    /// Records a duration from `begun` until now. Returns the current time.
    fn note(&self, of: Timed, step: Step, operation: Operation, rejected: bool, begun: Stopwatch) -> Stopwatch {
        let now = Stopwatch::start();
        let (took, step, rejected) = (now.since(begun), step as usize, usize::from(rejected));
        match of {
            Timed::Nothing => {}
            Timed::Plugin(place) => {
                let cells = self.plugins.get(place).and_then(|of| of.durations.get(step));
                if let Some(cell) = cells.and_then(|of| of.get(operation as usize)?.get(rejected)) {
                    cell.observe(&BUCKETS, took);
                }
            }
            Timed::Step => {
                let cells = self.steps.get(step).and_then(|of| of.get(operation as usize));
                if let Some(cell) = cells.and_then(|of| of.get(rejected)) {
                    cell.durations.observe(&BUCKETS, took);
                    cell.recent.get_or_init(Box::default).observe(took, self.hour(now));
                }
            }
        }
        now
    }

    /// Records the rejection of a write that passed the validating step. The plugin that reserves quotas ran since
    /// `begun`; in the reference it is a part of that step.
    fn reject_late(&self, operation: Operation, begun: Stopwatch) {
        if let Some(rejected) = self.rejected_late.get(operation as usize) {
            rejected.fetch_add(1, Relaxed);
        }
        self.note(Timed::Step, Step::Validate, operation, true, begun);
    }

    /// Returns the number of the hour, from 1.
    fn hour(&self, now: Stopwatch) -> u64 {
        now.since(self.begun).as_secs() / HOUR.as_secs() + 1
    }

    /// Visits each step with durations.
    pub fn read_steps(&self, mut each: impl FnMut(Labels, DurationCounts, Option<[Duration; QUANTILES.len()]>)) {
        let hour = self.hour(Stopwatch::start());
        for (step, cells) in Step::ALL.into_iter().zip(&self.steps) {
            for (labels, cell) in labelled(step, cells) {
                let mut counts = cell.durations.read();
                if step == Step::Validate && !labels.rejected {
                    // Writes that are rejected late did not pass. Nearly all passing durations are in the first bucket.
                    let late = self
                        .rejected_late
                        .get(labels.operation as usize)
                        .map_or(0, |late| late.load(Relaxed));
                    if let Some(first) = counts.counts.first_mut() {
                        *first = first.saturating_sub(late);
                    }
                }
                if counts.count() > 0 {
                    let quantiles = cell.recent.get().and_then(|recent| recent.quantiles(hour));
                    each(labels, counts, quantiles);
                }
            }
        }
    }

    /// Visits each plugin with durations.
    pub fn read_plugins(&self, mut each: impl FnMut(&'static str, Labels, DurationCounts)) {
        let last = |of: &&PluginTimings| of.last;
        let in_order = || {
            let first = self.plugins.iter().filter(move |of| !last(of));
            first.chain(self.plugins.iter().filter(last))
        };
        for (step, passes) in Step::ALL.into_iter().zip(&self.passes) {
            for (operation, passes) in OPERATIONS.into_iter().zip(passes) {
                let mut reached = passes.load(Relaxed);
                for plugin in in_order() {
                    let (at_step, at_operation) = (step as usize, operation as usize);
                    let takes_part = plugin.takes_part.get(at_step).and_then(|of| of.get(at_operation));
                    let cells = plugin.durations.get(at_step).and_then(|of| of.get(at_operation));
                    let Some([passed, rejected]) = cells.filter(|_| takes_part == Some(&true)) else {
                        continue;
                    };
                    let (mut passed, rejected) = (passed.read(), rejected.read());
                    // The other writes did not concern the plugin.
                    let called = passed.count() + rejected.count();
                    if let Some(first) = passed.counts.first_mut() {
                        *first += reached.saturating_sub(called);
                    }
                    reached = reached.saturating_sub(rejected.count());
                    for (rejected, counts) in [(false, passed), (true, rejected)] {
                        if counts.count() > 0 {
                            each(
                                plugin.name,
                                Labels {
                                    step,
                                    operation,
                                    rejected,
                                },
                                counts,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Labels of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Step.
    pub step: Step,
    /// Operation.
    pub operation: Operation,
    /// True if the write was rejected.
    pub rejected: bool,
}

fn labelled<T>(step: Step, cells: &Cells<T>) -> impl Iterator<Item = (Labels, &T)> {
    OPERATIONS.into_iter().zip(cells).flat_map(move |(operation, cells)| {
        let by_outcome = [false, true].into_iter().zip(cells);
        by_outcome.map(move |(rejected, cell)| {
            (
                Labels {
                    step,
                    operation,
                    rejected,
                },
                cell,
            )
        })
    })
}

#[derive(Clone, Copy)]
enum Timed {
    Step,
    /// The plugin with that index.
    Plugin(usize),
    Nothing,
}

/// A running duration. Without a call of [`Timing::end`] it counts as rejected.
pub struct Timing<'a> {
    timings: &'a Timings,
    step: Step,
    operation: Operation,
    of: Timed,
    begun: Stopwatch,
}

impl Timing<'_> {
    /// Records the duration of a call with this `result`, and returns the result.
    ///
    /// # Errors
    /// If `result` is an error.
    pub fn end<T, E>(mut self, result: Result<T, E>) -> Result<T, E> {
        let timed = std::mem::replace(&mut self.of, Timed::Nothing);
        if !matches!(timed, Timed::Nothing) {
            self.timings
                .note(timed, self.step, self.operation, result.is_err(), self.begun);
        }
        result
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        if !matches!(self.of, Timed::Nothing) {
            self.timings.note(self.of, self.step, self.operation, true, self.begun);
        }
    }
}

/// Calls of compiled-in plugins for one write.
pub(crate) struct Pass<'a> {
    timings: &'a Timings,
    step: Step,
    operation: Operation,
    /// Start of the current call.
    begun: Stopwatch,
}

impl Pass<'_> {
    /// Records the end of a call of the plugin with that index; the next call starts at the same time. A plugin without
    /// a part in the step uses negligible time, which counts for the next plugin.
    pub(crate) fn called(&mut self, place: usize, rejected: bool) {
        let plugin = self.timings.plugins.get(place);
        let takes_part = plugin
            .and_then(|of| of.takes_part.get(self.step as usize)?.get(self.operation as usize))
            .is_some_and(|takes_part| *takes_part);
        if !takes_part {
            return;
        }
        let timed = Timed::Plugin(place);
        self.begun = self
            .timings
            .note(timed, self.step, self.operation, rejected, self.begun);
    }

    /// Records the end of a call of the plugin with that index, which reserves quotas for a write that passed the step.
    pub(crate) fn reserved(&mut self, place: usize, rejected: bool) {
        let begun = self.begun;
        self.called(place, rejected);
        if rejected {
            self.timings.reject_late(self.operation, begun);
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn timings() -> Timings {
        const WRITES: &[Operation] = &[Operation::Create, Operation::Update];
        let rows = [
            ("NamespaceLifecycle", Calls::admitting(WRITES), false),
            ("LimitRanger", Calls::both(WRITES), false),
            ("PodSecurity", Calls::validating(WRITES), false),
            ("ResourceQuota", Calls::validating(WRITES), true),
        ];
        let plugins = rows.map(|(name, calls, last)| TimedPlugin { name, calls, last });
        Timings::new(plugins.into_iter(), &DynamicPlugin::ALL)
    }

    /// Returns the number of calls of each plugin for creations, by step and outcome.
    fn calls(timings: &Timings) -> Vec<(&'static str, &'static str, bool, u64)> {
        let mut calls = Vec::new();
        timings.read_plugins(|name, labels, counts| {
            assert_eq!(labels.operation, Operation::Create);
            calls.push((name, labels.step.name(), labels.rejected, counts.count()));
        });
        calls
    }

    #[test]
    fn a_plugin_that_a_write_does_not_concern_counts_as_called() {
        let timings = timings();
        let mut pass = timings.pass(Step::Admit, Operation::Create);
        pass.called(1, false);
        let mut pass = timings.pass(Step::Admit, Operation::Create);
        pass.called(0, true);
        timings.pass(Step::Validate, Operation::Create);
        let called = calls(&timings);
        assert_eq!(
            called,
            [
                ("NamespaceLifecycle", "admit", false, 1),
                ("NamespaceLifecycle", "admit", true, 1),
                // Plugins after a rejection are not called.
                ("LimitRanger", "admit", false, 1),
                ("MutatingAdmissionPolicy", "admit", false, 1),
                ("MutatingAdmissionWebhook", "admit", false, 1),
                ("LimitRanger", "validate", false, 1),
                ("PodSecurity", "validate", false, 1),
                ("ValidatingAdmissionPolicy", "validate", false, 1),
                ("ValidatingAdmissionWebhook", "validate", false, 1),
                ("ResourceQuota", "validate", false, 1),
            ]
        );
    }

    #[test]
    fn abandoned_call_counts_as_rejected() {
        let timings = timings();
        let step = timings.step(Step::Admit, Operation::Delete);
        assert_eq!(step.end(Ok::<_, ()>(1)), Ok(1));
        drop(timings.step(Step::Admit, Operation::Delete));
        let mut steps = Vec::new();
        timings.read_steps(|labels, counts, quantiles| {
            steps.push((labels.rejected, counts.count(), quantiles.is_some()));
        });
        assert_eq!(steps, [(false, 1, true), (true, 1, true)]);
    }

    #[test]
    fn late_rejection_did_not_pass() {
        let timings = timings();
        for _ in 0..3 {
            let step = timings.step(Step::Validate, Operation::Create);
            assert_eq!(step.end(Ok::<_, ()>(1)), Ok(1));
        }
        timings.reject_late(Operation::Create, Stopwatch::start());
        let mut steps = Vec::new();
        timings.read_steps(|labels, counts, _| steps.push((labels.rejected, counts.count())));
        assert_eq!(steps, [(false, 2), (true, 1)]);
    }

    #[test]
    fn quantiles_are_those_of_the_last_hours() {
        let recent = Recent::default();
        for milliseconds in 1..=100 {
            recent.observe(Duration::from_millis(milliseconds), 1);
        }
        let quantiles = recent.quantiles(5).unwrap_or_default();
        for (quantile, expected) in quantiles.into_iter().zip([50.0, 90.0, 99.0]) {
            let off = quantile.as_secs_f64() * 1000.0 / expected;
            assert!((0.93..1.07).contains(&off), "{quantile:?}");
        }
        assert_eq!(recent.quantiles(6), None);
        recent.observe(Duration::from_secs(1), 6);
        let quantiles = recent.quantiles(6).unwrap_or_default();
        assert!(
            quantiles.iter().all(|quantile| quantile.as_millis() > 900),
            "{quantiles:?}"
        );
    }

    #[test]
    fn a_duration_of_any_length_has_a_bucket() {
        for took in [
            Duration::ZERO,
            Duration::from_nanos(9),
            Duration::from_secs(20),
            Duration::MAX,
        ] {
            assert!(fine_bucket(took) < FINE_BUCKETS, "{took:?}");
        }
        assert!(fine_bucket(Duration::from_secs(20)) < FINE_BUCKETS - 1);
    }
}
