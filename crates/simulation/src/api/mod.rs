//! Scenario of the API: clients write, list and watch through the request path of a server whose disk fails and whose
//! process crashes, while the controllers for namespaces and garbage collection run.
//!
//! Invariants, checked at each step:
//! - Every version in the answer to a successful write is in the store, in this process and in all later ones.
//! - No increment of a counter is lost.
//! - A client gets a conflict only if it sent a resource version, or applied a field of another manager without force.
//! - Field managers own only fields that exist, and after an apply exactly the applied ones.
//! - An object that is being deleted stays so, and is removed after its last finalizer.
//! - No object is created in a namespace that is being deleted. A deleted namespace leaves nothing behind.
//! - The dependents of a deleted owner are deleted or orphaned, as the client asked.
//! - The pages of a list show the state of one revision.
//! - A watch shows every event once and in order, or ends with 410 if the history begins later.

mod clients;
mod history;
mod readers;
mod server;

use std::sync::Arc;
use std::time::Duration;

use holdfast_server::objects::Store;
use holdfast_store::HistoryLimits;
use parking_lot::Mutex;

use self::clients::Expectations;
use self::history::History;
use self::server::Server;
use crate::World;
use crate::disk::{DiskFaults, SimulatedDisk};
use crate::world::{Violation, join};

/// Longest pause of a client.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause of the writer.
const WRITER_PAUSE: Duration = Duration::from_millis(20);
/// Time within which the controllers finish their work, including retries.
const CONTROLLER_DELAY: Duration = Duration::from_secs(900);

/// Latest moment at which a process is killed, after its start.
const LATEST_KILL: Duration = Duration::from_secs(5);

/// State that outlives a process.
struct Simulation {
    world: Arc<World>,
    disk: SimulatedDisk,
    history: Arc<Mutex<History>>,
    expectations: Arc<Mutex<Expectations>>,
}

/// Runs the scenario.
pub(crate) fn run(world: &Arc<World>) -> Result<(), Violation> {
    let simulation = Simulation {
        world: Arc::clone(world),
        disk: SimulatedDisk::new(world),
        history: Arc::default(),
        expectations: Arc::default(),
    };
    for life in 0..world.below(3) {
        world.note(format!("process {life} starts"));
        simulation.disk.set_faults(choose_faults(world));
        let end = world.run_life(|| simulation.process(true))?;
        world.note(format!("process {life} ends: {end:?}"));
    }
    simulation.disk.set_faults(DiskFaults::default());
    world.run_life(|| simulation.process(false))?;
    Ok(())
}

/// Chooses how often the disk fails.
fn choose_faults(world: &World) -> DiskFaults {
    let frequency = |often: u64| match world.below(2) {
        0 => 0,
        _ => often,
    };
    DiskFaults {
        lost_step: frequency(20),
        lost_sync: frequency(20),
        full: frequency(60),
        crash: frequency(40),
        failed_recovery: frequency(3),
    }
}

impl Simulation {
    /// Runs a server and its clients. A process whose disk does not fail also waits for the controllers, and checks what
    /// they had to do.
    async fn process(&self, may_fail: bool) -> Result<(), Violation> {
        let world = &self.world;
        let limits = HistoryLimits {
            age: Duration::from_secs(world.pick(&[2, 300], 300)),
            bytes: world.pick(&[200_000, 128 << 20], 128 << 20) as usize,
        };
        let server = Server::start(world, &self.disk, &self.history, limits, may_fail).await?;
        world.note("the server is ready");
        if may_fail {
            world.plan_kill(LATEST_KILL);
        }
        let mut tasks = Vec::new();
        let watches: Vec<_> = (0..world.below(3))
            .map(|_| tokio::spawn(readers::watch(Arc::clone(&server))))
            .collect();
        for number in 0..2 + world.below(5) {
            let client = clients::Client {
                server: Arc::clone(&server),
                expectations: Arc::clone(&self.expectations),
                number,
            };
            tasks.push(tokio::spawn(client.run()));
        }
        for _ in 0..world.below(3) {
            tasks.push(tokio::spawn(readers::list(Arc::clone(&server))));
        }
        join(tasks).await?;
        if !may_fail {
            tokio::time::sleep(CONTROLLER_DELAY).await;
            let expectations = self.expectations.lock();
            server.check(|history| expectations.check(history));
        }
        server.shutdown.close();
        join(watches).await?;
        let store = &server.service.context.shared.store;
        server.check(|history| history.compare(store));
        Ok(())
    }
}

/// Updates the history, and lets other tasks run, between two parts of a step.
async fn pause_writer(world: Arc<World>, store: Arc<Store>, history: Arc<Mutex<History>>) {
    let observe = || {
        if let Err(violation) = history.lock().observe(&store) {
            world.report(violation.to_string());
        }
    };
    observe();
    if world.once_in(3) {
        world.pause(WRITER_PAUSE).await;
        observe();
    }
}
