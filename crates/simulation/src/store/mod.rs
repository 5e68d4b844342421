//! Scenario of the store: clients commit, read and watch while the disk fails and the process crashes.
//!
//! Invariants, checked at each step:
//! - An acknowledged transaction is in the store at its revision, in this process and in all later ones.
//! - Any other transaction is there completely or not at all, and only if its client got no answer, or the answer that
//!   the disk failed before the process ended.
//! - Revisions never go back, have no gap, and are never assigned twice.
//! - A failed guard names a revision that the key had while the transaction ran.
//! - A watcher gets every event of its prefix once and in order, also across processes, or the answer that the history
//!   begins later, if it does.
//! - A snapshot of a revision shows exactly its state; so do all pages of one list.

mod clients;
mod model;

use std::sync::Arc;
use std::time::Duration;

use holdfast_store::{HistoryLimits, Store, Watcher, testing};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use self::clients::WatchPosition;
use self::model::Model;
use crate::World;
use crate::disk::{DiskFaults, SimulatedDisk};
use crate::world::{Violation, ensure, join};

/// Time within which a watcher gets every event, in a process that does nothing else.
const WATCH_DELAY: Duration = Duration::from_secs(60);
/// Longest pause of the writer.
const WRITER_PAUSE: Duration = Duration::from_millis(40);

/// Latest moment at which a process is killed.
const LATEST_KILL: Duration = Duration::from_secs(2);

/// One process, as its clients see it.
struct Process {
    world: Arc<World>,
    store: Store<()>,
    model: Arc<Mutex<Model>>,
    /// Watcher of all events, which updates the model.
    recorder: Mutex<Watcher<()>>,
}

impl Process {
    /// Brings the model up to date and runs a check against it. A violation ends the simulation.
    fn with_model<T>(&self, check: impl FnOnce(&mut Model) -> Result<T, Violation>) -> Option<T> {
        let mut model = self.model.lock();
        let observed = model.observe(&self.store, &mut self.recorder.lock());
        match observed.and_then(|()| check(&mut model)) {
            Ok(result) => Some(result),
            Err(violation) => {
                self.world.report(violation.to_string());
                None
            }
        }
    }
}

/// State that outlives a process.
struct Simulation {
    world: Arc<World>,
    disk: SimulatedDisk,
    model: Arc<Mutex<Model>>,
    /// Positions of the watchers, which continue in the next process.
    watchers: Vec<Arc<Mutex<WatchPosition>>>,
}

/// Runs the scenario.
pub(crate) fn run(world: &Arc<World>) -> Result<(), Violation> {
    let watchers = (0..1 + world.below(4)).map(|_| Arc::new(Mutex::new(WatchPosition::choose(world))));
    let simulation = Simulation {
        world: Arc::clone(world),
        disk: SimulatedDisk::new(world),
        model: Arc::new(Mutex::new(Model::new())),
        watchers: watchers.collect(),
    };
    for life in 0..1 + world.below(4) {
        world.note(format!("process {life} starts"));
        simulation.disk.set_faults(choose_faults(world));
        let end = world.run_life(|| simulation.process())?;
        world.note(format!("process {life} ends: {end:?}"));
    }
    simulation.disk.set_faults(DiskFaults::default());
    world.run_life(|| simulation.final_process())?;
    Ok(())
}

/// Chooses how often the disk fails: never, sometimes or often.
fn choose_faults(world: &World) -> DiskFaults {
    let frequency = |often: u64| match world.below(3) {
        0 => 0,
        1 => often,
        _ => often * 4,
    };
    DiskFaults {
        lost_step: frequency(8),
        lost_sync: frequency(6),
        full: frequency(20),
        crash: frequency(10),
        failed_recovery: frequency(3),
    }
}

impl Simulation {
    /// Opens the disk in a new process and compares its state with the model.
    fn open(&self) -> Result<(Arc<Process>, JoinHandle<()>), Violation> {
        let world = &self.world;
        let history = HistoryLimits {
            age: Duration::from_secs(world.pick(&[1, 10, 300], 300)),
            bytes: world.pick(&[2_000, 20_000, 1 << 20], 1 << 20) as usize,
        };
        let clock = Arc::clone(world) as Arc<dyn holdfast_store::Clock>;
        let opened = self
            .disk
            .open(|disk, content| testing::open(disk, content, history, clock, ()));
        let (store, writer) = opened.map_err(|error| Violation::new(error.to_string()))?;
        let mut model = self.model.lock();
        let known = model.revision();
        let (revision, oldest) = (store.revision(), store.oldest_revision());
        world.note(format!("opened at revision {revision}, history from {oldest}"));
        ensure!(revision >= known, "revisions go back from {known} to {revision}");
        ensure!(oldest <= known, "the history begins at {oldest}, after {known}");
        let watched = store.watch("", known);
        let mut recorder = watched.map_err(|error| Violation::new(error.to_string()))?;
        model.observe(&store, &mut recorder)?;
        model.compare(&store.snapshot(), "", "")?;
        model.settle(true)?;
        let process = Arc::new(Process {
            world: Arc::clone(world),
            store,
            model: Arc::clone(&self.model),
            recorder: Mutex::new(recorder),
        });
        let observer = Arc::clone(&process);
        let writer = tokio::spawn(writer.run(move || pause_writer(Arc::clone(&observer))));
        Ok((process, writer))
    }

    /// Runs clients until they are done, then closes the store. A crash ends it earlier.
    async fn process(&self) -> Result<(), Violation> {
        let (process, writer) = self.open()?;
        let world = &self.world;
        let watches: Vec<_> = self
            .watchers
            .iter()
            .map(|position| tokio::spawn(clients::watch(Arc::clone(&process), Arc::clone(position))))
            .collect();
        let mut tasks = Vec::new();
        for client in 0..1 + world.below(5) {
            tasks.push(tokio::spawn(clients::write(Arc::clone(&process), client)));
        }
        for _ in 0..world.below(3) {
            tasks.push(tokio::spawn(clients::list(Arc::clone(&process))));
        }
        world.plan_kill(LATEST_KILL);
        join(tasks).await?;
        process.with_model(|model| model.settle(false));
        tokio::time::sleep(WATCH_DELAY).await;
        for position in &self.watchers {
            let position = position.lock();
            process.with_model(|model| position.check_complete(model));
        }
        let closed = process.store.close().await;
        world.note(format!("closed: {}", closed.is_ok()));
        join(watches).await?;
        join(vec![writer]).await
    }

    /// Opens the disk for the last time and writes once more.
    async fn final_process(&self) -> Result<(), Violation> {
        let (process, _writer) = self.open()?;
        clients::write(Arc::clone(&process), 0).await;
        process.with_model(|model| model.settle(false));
        Ok(())
    }
}

/// Updates the model, and lets other tasks run, between two parts of a step.
async fn pause_writer(process: Arc<Process>) {
    process.with_model(|_| Ok(()));
    if process.world.once_in(3) {
        process.world.pause(WRITER_PAUSE).await;
        process.with_model(|_| Ok(()));
    }
}
