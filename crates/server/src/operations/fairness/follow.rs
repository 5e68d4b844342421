//! Tasks that keep priority and fairness up to date: its objects, the number and weight of all objects, and periodic
//! adjustments.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use holdfast_fairness::{LevelSpec, ObjectStatistics, SchemaSpec};
use holdfast_schema::GroupResource;
use holdfast_value::Value;
use smol_str::SmolStr;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::{Configuration, ObjectTable, PriorityAndFairness};
use crate::api::context::Context;
use crate::objects;
use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The check of the tasks that observe the configuration.
const CONSUMER: &str = "poststarthook/priority-and-fairness-config-consumer";
/// The check of the task that manages the queues.
const FILTER: &str = "poststarthook/priority-and-fairness-filter";
/// The check of the task that counts objects.
const COUNTS: &str = "poststarthook/storage-object-count-tracker-hook";

/// The interval at which levels lend and borrow.
const ADJUSTMENT: Duration = Duration::from_secs(10);
/// The interval at which objects are counted.
const COUNTING: Duration = Duration::from_secs(60);
/// The number of objects that are counted before the task yields.
const RUN: usize = 2048;

/// Keeps `fairness` up to date for as long as the server serves. The stored configuration is in effect when this
/// returns.
pub fn follow(context: &Arc<Context>, fairness: &Arc<PriorityAndFairness>) {
    let follow = |plural: &str, take: Take| {
        let registry = context.registry();
        let name = GroupResource {
            group: GROUP.into(),
            resource: plural.into(),
        };
        let storage = registry.resource(&name).and_then(|resource| resource.storage.as_ref());
        let Some(storage) = storage else { return };
        let scope = InformerScope {
            prefix: storage.prefix.clone(),
            check: CONSUMER,
        };
        let fairness = Arc::clone(fairness);
        let handler = ConfigurationHandler { fairness, take };
        let store = &context.shared.store;
        informers::start(store, &context.background, &context.shutdown, scope, handler);
    };
    // Levels first: flow schemas that name an unknown level are ignored.
    follow("prioritylevelconfigurations", |configuration, key, object| {
        let spec = object.and_then(LevelSpec::read);
        replace(&mut configuration.levels, key, spec)
    });
    follow("flowschemas", |configuration, key, object| {
        replace(&mut configuration.schemas, key, object.and_then(SchemaSpec::read))
    });
    // A second start with the same levels does not happen.
    let _ = fairness.shared.set(context.shared.clone());
    let (minded, counted, of_all) = (Arc::clone(fairness), Arc::clone(fairness), Arc::clone(context));
    let (background, shutdown) = (&context.background, &context.shutdown);
    background.spawn_until_shutdown(
        FILTER,
        "priority and fairness",
        shutdown,
        async move { minded.mind().await },
    );
    background.spawn_until_shutdown(COUNTS, "counting of objects", shutdown, async move {
        loop {
            counted.count(&of_all).await;
            tokio::time::sleep(COUNTING).await;
        }
    });
}

/// A function that applies the object at a key, or its absence, to the configuration; returns true if this changes
/// anything.
type Take = fn(&mut Configuration, SmolStr, Option<&Value>) -> bool;

fn replace<T: PartialEq>(known: &mut BTreeMap<SmolStr, T>, key: SmolStr, spec: Option<T>) -> bool {
    if known.get(&key) == spec.as_ref() {
        return false;
    }
    match spec {
        Some(spec) => drop(known.insert(key, spec)),
        None => drop(known.remove(&key)),
    }
    true
}

struct ConfigurationHandler {
    fairness: Arc<PriorityAndFairness>,
    take: Take,
}

impl InformerHandler for ConfigurationHandler {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        let mut configuration = self.fairness.configuration.lock();
        let mut changes = false;
        for Difference { before, now } in differences {
            let Some(key) = now
                .as_ref()
                .or(before.as_ref())
                .map(|entry| SmolStr::from(entry.key().to_string()))
            else {
                continue;
            };
            let object = match now {
                None => None,
                Some(entry) => match objects::readable(entry) {
                    None => {
                        tracing::warn!(%key, "cannot read an object of priority and fairness; its last state stays in force");
                        continue;
                    }
                    object => object,
                },
            };
            changes |= (self.take)(&mut configuration, key, object.as_ref());
        }
        if changes {
            let levels = configuration.levels.values().cloned().collect();
            let schemas = configuration.schemas.values().cloned().collect();
            self.fairness.levels.configure(levels, schemas);
        }
    }
}

impl PriorityAndFairness {
    /// Lends and borrows seats periodically, and dispatches requests that wait for released seats.
    async fn mind(&self) {
        let mut adjustments = interval_at(Instant::now() + ADJUSTMENT, ADJUSTMENT);
        adjustments.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let release = self.levels.next_release().map(|moment| self.instant_of(moment));
            let released = async {
                match release {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = adjustments.tick() => self.levels.adjust(),
                () = self.levels.has_work() => self.levels.refresh(),
                () = released => self.levels.refresh(),
            }
        }
    }

    /// Counts and weighs all objects in memory.
    async fn count(&self, context: &Context) {
        let (registry, snapshot) = (context.registry(), context.shared.store.snapshot());
        let mut table: ObjectTable = HashMap::new();
        for resource in registry.resources() {
            let Some(storage) = &resource.storage else { continue };
            let prefix = storage.namespace_prefix("");
            let (mut count, mut bytes, mut last) = (0_i64, 0_i64, Vec::new());
            loop {
                let mut seen = 0;
                for entry in snapshot.range_after(prefix.as_bytes(), &last).take(RUN) {
                    bytes = bytes.saturating_add(i64::try_from(entry.length()).unwrap_or(i64::MAX));
                    seen += 1;
                    if seen == RUN {
                        last = entry.key().as_bytes().to_vec();
                    }
                }
                count += i64::try_from(seen).unwrap_or(i64::MAX);
                if seen < RUN {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let known = ObjectStatistics {
                count,
                average_bytes: bytes.checked_div(count).unwrap_or_default(),
            };
            let groups = table.entry(SmolStr::new(&resource.plural)).or_default();
            groups.push((SmolStr::new(&resource.group), known));
        }
        self.objects.store(Arc::new(table));
    }
}
