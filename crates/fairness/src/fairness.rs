//! Configuration in force, and the lifecycle of levels with their borrowing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use holdfast_authorization::{Attributes, User};
use holdfast_value::SmolStr;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::allocation::{Demand, allocate};
use crate::classify::RuleIndex;
use crate::configuration::{CATCH_ALL, EXEMPT, LevelSpec, Limiting, SchemaSpec};
use crate::dropped::Dropped;
use crate::integrator::Integral;
use crate::level::{Kinds, Level, Schema, Shared, hash_of_schema};
use crate::queues::{Flow, QueueDump, QueueSet, RequestDump};
use crate::statistics::{FlowStatistics, LevelStatistics, Statistics};
use crate::time::{Clock, Moment};
use crate::watches::Watches;

/// Maximum part of a level's seats for one request.
const MAX_SEATS_PART: f64 = 0.15;
/// Weight of the previous demand peak in the next adjustment.
const SMOOTHING: f64 = 0.977;

/// Levels and schemas in force.
pub struct Fairness<D> {
    snapshot: ArcSwap<Snapshot<D>>,
    state: Mutex<State<D>>,
    shared: Arc<Shared>,
    watches: Watches,
    /// Number of the server's seats.
    limit: u64,
}

/// Immutable state that classifies requests.
struct Snapshot<D> {
    index: RuleIndex,
    /// Schemas in matching order.
    schemas: Vec<Arc<Schema<D>>>,
    /// Index of the catch-all schema.
    fallback: usize,
}

struct State<D> {
    levels: BTreeMap<SmolStr, LevelState<D>>,
    /// Last configuration.
    specified: (Vec<LevelSpec>, Vec<SchemaSpec>),
    /// Counters by level and schema.
    flows: HashMap<(SmolStr, SmolStr), Arc<Flow>>,
    nominal_sum: u64,
    fair_fraction: f64,
}

/// Level with its seats.
struct LevelState<D> {
    spec: LevelSpec,
    level: Arc<Level<D>>,
    new: bool,
    nominal: u64,
    min: u64,
    max: u64,
    current: u64,
    demand: DemandStatistics,
    target: f64,
}

/// Statistics of the demanded seats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DemandStatistics {
    high: u64,
    average: f64,
    deviation: f64,
    smoothed: f64,
}

impl DemandStatistics {
    fn update(&mut self, integral: &Integral) {
        self.high = integral.max.round() as u64;
        if integral.seconds <= 0.0 {
            return;
        }
        (self.average, self.deviation) = (integral.average, integral.deviation);
        let envelope = integral.average + integral.deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

impl<D> LevelState<D> {
    fn new(spec: LevelSpec, shared: &Arc<Shared>) -> Self {
        let level = Level {
            name: spec.name.clone(),
            queues: Mutex::new(QueueSet::new(spec.limiting, shared.clock.now())),
            quiescing: AtomicBool::new(false),
            max_seats: AtomicU64::new(0),
            dropped: Mutex::new(Dropped::default()),
            shared: Arc::clone(shared),
        };
        Self {
            spec,
            level: Arc::new(level),
            new: true,
            nominal: 0,
            min: 0,
            max: 0,
            current: 0,
            demand: DemandStatistics::default(),
            target: 0.0,
        }
    }

    fn is_exempt(&self) -> bool {
        self.spec.limiting == Limiting::Exempt
    }

    /// Returns the seats that the level keeps while it lends others: its maximum demand in the last period.
    fn min_current(&self) -> u64 {
        let wanted = match self.is_exempt() {
            true => self.demand.high,
            false => self.demand.high.min(self.nominal),
        };
        wanted.max(self.min)
    }

    /// Computes its shares of the server's seats.
    fn set_limits(&mut self, server: u64, share_sum: f64) {
        let spec = &self.spec;
        let nominal = (server as f64 * spec.shares as f64 / share_sum.max(1.0)).ceil();
        let percent = |percent: i64| (nominal * percent as f64 / 100.0).round();
        let lendable = percent(spec.lendable_percent);
        let borrowing = spec.borrowing_limit_percent.map_or(server as f64, percent);
        self.nominal = nominal as u64;
        self.min = (nominal - lendable) as u64;
        self.max = (nominal + borrowing) as u64;
        let queuing = match spec.limiting {
            Limiting::Queue(queuing) => Some(queuing),
            _ => None,
        };
        if let Some(queuing) = queuing {
            let part = (nominal * MAX_SEATS_PART).ceil() as u64;
            let most = part.min(self.nominal / queuing.hand_size.max(1)).max(1);
            self.level.max_seats.store(most, Ordering::Relaxed);
        }
        if std::mem::take(&mut self.new) {
            self.current = self.nominal - lendable as u64 / 2;
        }
    }
}

impl<D> Fairness<D> {
    /// Creates a server of `limit` seats with only the mandatory levels and schemas.
    pub fn new(limit: u64, clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let shared = Arc::new(Shared {
            clock,
            work: Notify::new(),
            kinds: Kinds::new(now),
        });
        let mut state = State {
            levels: BTreeMap::new(),
            specified: (Vec::new(), Vec::new()),
            flows: HashMap::new(),
            nominal_sum: 0,
            fair_fraction: 0.0,
        };
        let snapshot = state.digest(limit, &shared);
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            state: Mutex::new(state),
            shared,
            watches: Watches::default(),
            limit,
        }
    }

    /// Returns the schema of a request: the catch-all if no other schema matches.
    pub fn classify(&self, user: &User, attributes: &Attributes<'_>) -> Option<Arc<Schema<D>>> {
        let snapshot = self.snapshot.load();
        let place = snapshot.index.find(user, attributes).unwrap_or(snapshot.fallback);
        snapshot.schemas.get(place).cloned()
    }

    /// Returns the active watches.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Replaces all levels and schemas. Requests that wait in a removed level are still executed.
    pub fn configure(&self, levels: Vec<LevelSpec>, schemas: Vec<SchemaSpec>) {
        let mut state = self.state.lock();
        state.specified = (levels, schemas);
        let snapshot = state.digest(self.limit, &self.shared);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Removes levels that are idle and no longer configured, and gives seats that no longer linger to waiting
    /// requests.
    pub fn refresh(&self) {
        let mut state = self.state.lock();
        let goes = |state: &LevelState<D>| {
            state.level.quiescing.load(Ordering::Acquire) && state.level.queues.lock().is_idle()
        };
        if state.levels.values().any(goes) {
            let snapshot = state.digest(self.limit, &self.shared);
            self.snapshot.store(Arc::new(snapshot));
        }
        let now = self.shared.clock.now();
        for level in state.levels.values() {
            level.level.queues.lock().refresh(now);
        }
    }

    /// Adjusts the borrowing between levels to the demand since the last call. Call it every ten seconds.
    pub fn adjust(&self) {
        let mut state = self.state.lock();
        state.borrow(self.limit, self.shared.clock.now());
    }

    /// Waits until there is something to [refresh](Self::refresh), now or at [a later time](Self::next_release).
    pub async fn has_work(&self) {
        self.shared.work.notified().await;
    }

    /// Returns the time at which lingering seats become free for waiting requests.
    pub fn next_release(&self) -> Option<Moment> {
        let state = self.state.lock();
        let releases = state
            .levels
            .values()
            .filter_map(|state| state.level.queues.lock().next_release());
        releases.min()
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> Statistics {
        let state = self.state.lock();
        let now = self.shared.clock.now();
        let levels = state
            .levels
            .values()
            .map(|level| level.statistics(&state.flows, now))
            .collect();
        let kinds: Vec<_> = self.shared.kinds.read(now).collect();
        Statistics {
            levels,
            fair_fraction: state.fair_fraction,
            now: kinds
                .iter()
                .map(|(phase, mutates, count, _)| (*phase, *mutates, *count))
                .collect(),
            kinds: kinds
                .into_iter()
                .map(|(phase, mutates, _, shares)| (phase, mutates, shares))
                .collect(),
        }
    }
}

impl<D> LevelState<D> {
    fn statistics(&self, flows: &HashMap<(SmolStr, SmolStr), Arc<Flow>>, now: Moment) -> LevelStatistics {
        let own = flows.iter().filter(|((level, _), _)| *level == self.spec.name);
        let mut flows: Vec<(SmolStr, FlowStatistics)> = own
            .map(|((_, schema), flow)| (schema.clone(), flow.statistics.lock().clone()))
            .collect();
        flows.sort_by(|one, other| one.0.cmp(&other.0));
        let demand = self.demand;
        let mut queues = self.level.queues.lock();
        let progress = queues.progress(now);
        let last = queues.dispatched_last();
        let utilization = &mut queues.utilization;
        LevelStatistics {
            name: self.spec.name.clone(),
            limits: [self.nominal, self.min, self.max, self.current],
            progress,
            last,
            demand: [demand.high as f64, demand.average, demand.deviation, demand.smoothed],
            target: self.target,
            seat_utilization: utilization.seats.read(now),
            executing_utilization: utilization.executing.read(now),
            waiting_utilization: utilization.waiting.read(now),
            seat_demand: utilization.demand.read(now),
            flows,
        }
    }
}

impl<D> State<D> {
    /// Updates levels and schemas to the configuration.
    fn digest(&mut self, server: u64, shared: &Arc<Shared>) -> Snapshot<D> {
        let (levels, schemas) = self.specified.clone();
        let mut old = std::mem::take(&mut self.levels);
        let mut next = BTreeMap::new();
        for spec in levels {
            let mut state = old
                .remove(&spec.name)
                .unwrap_or_else(|| LevelState::new(spec.clone(), shared));
            state.level.quiescing.store(false, Ordering::Release);
            state.spec = spec;
            next.insert(state.spec.name.clone(), state);
        }
        // Schemas without an existing level are not matched, and no schema selects a level that only lingers.
        let led: Vec<SchemaSpec> = schemas
            .into_iter()
            .filter(|schema| next.contains_key(&schema.level))
            .collect();
        linger(old, &mut next);
        for mandatory in [LevelSpec::exempt(), LevelSpec::catch_all()] {
            next.entry(mandatory.name.clone())
                .or_insert_with(|| LevelState::new(mandatory, shared));
        }
        self.levels = next;
        self.share_out(server, shared.clock.now(), shared);
        self.snapshot(led)
    }

    fn share_out(&mut self, server: u64, now: Moment, shared: &Shared) {
        let shares: i64 = self.levels.values().map(|state| state.spec.shares).sum();
        for state in self.levels.values_mut() {
            state.set_limits(server, shares as f64);
        }
        let places = self.levels.values().map(|state| match state.spec.limiting {
            Limiting::Queue(queuing) => queuing.queues.saturating_mul(queuing.length_limit),
            _ => 0,
        });
        let waiting = places.fold(0, u64::saturating_add);
        self.nominal_sum = self.levels.values().map(|state| state.nominal).sum();
        shared.kinds.set_limits(waiting, self.nominal_sum, now);
        self.borrow(server, now);
    }

    /// Creates the classifier of `led`, the schemas with an existing level.
    fn snapshot(&mut self, mut led: Vec<SchemaSpec>) -> Snapshot<D> {
        led.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
        if !led.iter().any(|schema| schema.name == EXEMPT) {
            led.insert(0, SchemaSpec::exempt());
        }
        if !led.iter().any(|schema| schema.name == CATCH_ALL) {
            led.push(SchemaSpec::catch_all());
        }
        let levels = &self.levels;
        let wanted = |(level, schema): &(SmolStr, SmolStr)| {
            levels.contains_key(level) && led.iter().any(|spec| spec.name == *schema)
        };
        self.flows
            .retain(|names, flow| wanted(names) || Arc::strong_count(flow) > 1);
        let (mut schemas, mut rules) = (Vec::new(), Vec::new());
        for spec in &led {
            if let Some(state) = self.levels.get(&spec.level) {
                schemas.push(Arc::new(schema_of(spec, state, &mut self.flows)));
                rules.push(spec.rules.as_slice());
            }
        }
        Snapshot {
            index: RuleIndex::new(rules.into_iter()),
            fallback: schemas
                .iter()
                .position(|schema| schema.name == CATCH_ALL)
                .unwrap_or_default(),
            schemas,
        }
    }

    /// Gives each level the seats that it demands, as far as others lend them.
    fn borrow(&mut self, server: u64, now: Moment) {
        let (mut remaining, mut min_sum, mut min_current_sum) = (self.nominal_sum as i64, 0_i64, 0_i64);
        let mut demands = Vec::new();
        for state in self.levels.values_mut() {
            let integral = state.level.queues.lock().demand.reset(now);
            state.demand.update(&integral);
            let least = state.min_current();
            state.target = state.demand.smoothed.max(least as f64);
            if state.is_exempt() {
                remaining -= least as i64;
            } else {
                demands.push(Demand {
                    lower: least as f64,
                    upper: state.max as f64,
                    target: state.target,
                });
                min_sum += state.min as i64;
                min_current_sum += least as i64;
            }
        }
        let (mut shares, mut part) = (Vec::new(), 0.0);
        self.fair_fraction = 0.0;
        if remaining > min_sum && remaining <= min_current_sum {
            part = (remaining - min_sum) as f64 / (min_current_sum - min_sum) as f64;
        } else if remaining > min_current_sum {
            let allocated = allocate(self.nominal_sum as f64, &demands);
            (shares, self.fair_fraction) = allocated.unwrap_or_else(|| (self.current_shares(), 0.0));
        }
        let mut shares = shares.into_iter();
        for state in self.levels.values_mut() {
            let least = state.min_current();
            state.current = if state.is_exempt() {
                least
            } else if let Some(share) = shares.next() {
                share.round() as u64
            } else {
                state.min + ((least - state.min) as f64 * part).round() as u64
            };
            let denominator = match state.current {
                0 => (server as f64 / 10.0).round().max(1.0) as u64,
                current => current,
            };
            let mut queues = state.level.queues.lock();
            queues.configure(state.spec.limiting, state.current, denominator, now);
        }
    }

    fn current_shares(&self) -> Vec<f64> {
        let limited = self.levels.values().filter(|state| !state.is_exempt());
        limited.map(|state| state.current as f64).collect()
    }
}

/// Keeps those previous levels that are mandatory or still have requests, which they execute to the last.
fn linger<D>(old: BTreeMap<SmolStr, LevelState<D>>, next: &mut BTreeMap<SmolStr, LevelState<D>>) {
    for (name, state) in old {
        let mandatory = name == EXEMPT || name == CATCH_ALL;
        if !mandatory {
            if state.level.queues.lock().is_idle() {
                continue;
            }
            state.level.quiescing.store(true, Ordering::Release);
        }
        next.insert(name, state);
    }
}

fn schema_of<D>(
    spec: &SchemaSpec,
    state: &LevelState<D>,
    flows: &mut HashMap<(SmolStr, SmolStr), Arc<Flow>>,
) -> Schema<D> {
    let names = (state.spec.name.clone(), spec.name.clone());
    let flow = flows.entry(names).or_insert_with(|| {
        Arc::new(Flow {
            schema: spec.name.clone(),
            statistics: Mutex::new(FlowStatistics::new()),
        })
    });
    let has_flows = matches!(state.spec.limiting, Limiting::Queue(queuing) if queuing.queues > 1);
    Schema {
        name: spec.name.clone(),
        uid: spec.uid.clone(),
        level_uid: state.spec.uid.clone(),
        level: Arc::clone(&state.level),
        distinguisher: spec.distinguisher,
        hash: has_flows.then(|| hash_of_schema(&spec.name)),
        flow: Arc::clone(flow),
    }
}

/// Level in a dump.
#[derive(Clone, Debug)]
pub struct LevelDump<D> {
    /// Name of the level.
    pub name: SmolStr,
    /// True if it has no requests.
    pub idle: bool,
    /// True if it is removed when it is idle.
    pub quiescing: bool,
    /// Numbers of requests that wait, execute, were dispatched, were rejected, timed out, and were cancelled.
    pub counts: [u64; 6],
    /// Number of its queues.
    pub queue_count: u64,
    /// Queues that are not idle.
    pub queues: Vec<QueueDump>,
    /// Requests of the level.
    pub requests: Vec<RequestDump<D>>,
}

impl<D: Clone> Fairness<D> {
    /// Returns all levels in the order of their names.
    pub fn dump(&self) -> Vec<LevelDump<D>> {
        let state = self.state.lock();
        let dumps = state.levels.values().map(|state| {
            let queues = state.level.queues.lock();
            let ([waiting, executing], totals) = (queues.counts(), queues.totals());
            let (queue_count, dumped) = queues.dump_queues();
            LevelDump {
                name: state.spec.name.clone(),
                idle: queues.is_idle(),
                quiescing: state.level.quiescing.load(Ordering::Acquire),
                counts: [
                    waiting as u64,
                    executing as u64,
                    totals.dispatched,
                    totals.rejected,
                    0,
                    totals.cancelled,
                ],
                queue_count,
                queues: dumped,
                requests: queues.dump_requests(),
            }
        });
        dumps.collect()
    }
}

#[cfg(test)]
mod tests;
