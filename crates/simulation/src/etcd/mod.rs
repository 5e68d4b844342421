//! Scenario of the store on etcd: servers commit, read and watch one etcd, while the links to its members delay, cut and
//! lose messages, its history is compacted, and leases end. etcd itself works correctly.
//!
//! Invariants, checked at each step:
//! - A server at revision R shows exactly what etcd held at R under the prefix.
//! - An acknowledged transaction was executed once, completely, at its revision, and the server that acknowledged it shows
//!   it. A transaction whose guard failed was not executed; one without an answer at most once.
//! - A failed guard names a revision that the key had while the transaction ran.
//! - A read of the most recent state shows everything that etcd held when the read began.
//! - A watcher gets every change of its prefix once and in order. If etcd has compacted the changes, it gets the
//!   differences instead.
//! - When messages arrive again, each server catches up, and each watcher knows what etcd holds.

mod clients;
mod codec;
mod link;
mod operations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_store::simulated_etcd::SimulatedEtcd;
use holdfast_store::{Connection, Etcd, EtcdConfig, HistoryLimits, Store};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use self::clients::WatchRecord;
use self::codec::{EVENTS, TextCodec};
use self::link::EtcdLink;
use self::operations::Operations;
use crate::World;
use crate::world::{Violation, ensure, join};

/// Time without lost messages after which everything has caught up: longer than each timeout and lease.
const QUIET: Duration = Duration::from_secs(120);
/// Latest moment at which the servers are killed.
const LATEST_KILL: Duration = Duration::from_secs(20);

/// A server, as its clients see it.
struct Server {
    world: Arc<World>,
    number: u64,
    etcd: Arc<SimulatedEtcd>,
    store: Store<()>,
    operations: Arc<Mutex<Operations>>,
    /// Number of watches that etcd had ended because of a compaction when the server started.
    compacted_watches: u64,
    /// True until the servers only catch up.
    is_busy: AtomicBool,
}

impl Server {
    /// Ends the simulation if an invariant is broken.
    fn check(&self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.world.report(violation.to_string());
        }
    }

    /// Returns true if no server had to read etcd again since the start, so that watchers get each change.
    fn shows_each_change(&self) -> bool {
        self.etcd.compacted_watches() == self.compacted_watches
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

/// State that outlives the servers.
struct Simulation {
    world: Arc<World>,
    etcd: Arc<SimulatedEtcd>,
    link: Arc<EtcdLink>,
    operations: Arc<Mutex<Operations>>,
    /// Time to live of events.
    life: Duration,
}

/// Returns true if a key in etcd is an object: it has the prefix of objects and at least two more segments.
fn is_object(key: &[u8]) -> bool {
    let rest = key.strip_prefix(b"/registry/");
    rest.is_some_and(|rest| rest.contains(&b'/'))
}

/// Runs the scenario.
pub(crate) fn run(world: &Arc<World>) -> Result<(), Violation> {
    // Servers do not rely on the progress reports of the older version, which may come before the events.
    let is_old = world.once_in(3);
    let version = if is_old { "3.5.4" } else { "3.6.0" };
    let link = Arc::new(EtcdLink::new(world, is_old));
    let members = 1 + world.below(3) as usize;
    let simulation = Simulation {
        world: Arc::clone(world),
        etcd: SimulatedEtcd::new(Arc::clone(&link) as Arc<_>, members, version),
        link,
        operations: Arc::default(),
        life: Duration::from_secs(world.pick(&[0, 3, 40], 3)),
    };
    for life in 0..world.below(3) {
        world.note(format!("the servers start, life {life}"));
        let end = world.run_life(|| simulation.process(false))?;
        world.note(format!("the servers end: {end:?}"));
    }
    world.run_life(|| simulation.process(true))?;
    let operations = simulation.operations.lock();
    operations.check_history(&simulation.etcd, |key| is_object(key.as_bytes()))
}

impl Simulation {
    async fn open(&self, number: u64) -> Result<Option<Arc<Server>>, Violation> {
        let world = &self.world;
        let seconds = |values: &[u64]| Duration::from_secs(world.pick(values, 1));
        let config = EtcdConfig {
            history: HistoryLimits {
                age: seconds(&[1, 10, 300]),
                bytes: world.pick(&[2_000, 20_000, 1 << 20], 1 << 20) as usize,
            },
            compaction_interval: seconds(&[0, 2, 30]),
            life: self.life,
            lease_reuse: seconds(&[0, 1, 10]),
            clock: Arc::clone(world) as Arc<_>,
            ..EtcdConfig::new(Connection::default(), Arc::new(TextCodec))
        };
        let compacted_watches = self.etcd.compacted_watches();
        let (state, engine) = match Etcd::open_simulated(&self.etcd, config, ()).await {
            Ok(opened) => opened,
            Err(error) => {
                world.note(format!("server {number} does not start: {error}"));
                return Ok(None);
            }
        };
        let server = Server {
            world: Arc::clone(world),
            number,
            etcd: Arc::clone(&self.etcd),
            store: Store::with_engine(state, Box::new(engine)),
            operations: Arc::clone(&self.operations),
            compacted_watches,
            is_busy: AtomicBool::new(true),
        };
        world.note(format!(
            "server {number} starts at revision {}",
            server.store.revision()
        ));
        clients::check_state(&server, &server.store.snapshot())?;
        Ok(Some(Arc::new(server)))
    }

    /// Runs servers and clients until they are done. Only the last servers are not killed.
    async fn process(&self, is_last: bool) -> Result<(), Violation> {
        let world = &self.world;
        self.link.set_quiet(world.once_in(8));
        if !is_last {
            world.plan_kill(LATEST_KILL);
        }
        let (mut servers, mut watches, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..1 + world.below(3) {
            servers.extend(self.open(number).await?);
        }
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for server in &servers {
            for _ in 0..world.below(3) {
                let record = Arc::new(Mutex::new(WatchRecord::choose(world)));
                watches.push(tokio::spawn(clients::watch(Arc::clone(server), Arc::clone(&record))));
                records.push((Arc::clone(server), record));
            }
            for client in 0..1 + world.below(3) {
                tasks.push(tokio::spawn(clients::write(Arc::clone(server), client)));
            }
            for _ in 0..world.below(3) {
                tasks.push(tokio::spawn(clients::read(Arc::clone(server))));
            }
        }
        if let Some(server) = servers.first()
            && world.once_in(2)
        {
            tasks.push(tokio::spawn(clients::compact(Arc::clone(server))));
        }
        join(tasks).await?;
        self.catch_up(&servers).await?;
        for (server, record) in &records {
            record.lock().check_complete(server)?;
        }
        for server in &servers {
            let closed = server.store.close().await;
            ensure!(closed.is_ok(), "server {} cannot close", server.number);
        }
        join(watches).await
    }

    /// Waits until all messages have arrived, and checks that each server shows what etcd holds.
    async fn catch_up(&self, servers: &[Arc<Server>]) -> Result<(), Violation> {
        self.world.note("all messages arrive");
        self.link.set_quiet(true);
        for server in servers {
            server.is_busy.store(false, Ordering::Relaxed);
        }
        tokio::time::sleep(QUIET).await;
        for server in servers {
            let before = self.etcd.revision();
            let latest = server.store.latest().await;
            let snapshot =
                latest.map_err(|error| Violation::new(format!("server {} cannot read: {error}", server.number)))?;
            ensure!(
                snapshot.revision() >= before,
                "server {} is at {}, etcd at {before}",
                server.number,
                snapshot.revision()
            );
            clients::check_state(server, &snapshot)?;
        }
        let keys = self.etcd.keys_at(self.etcd.revision());
        let expired = keys.iter().find(|stored| stored.key.starts_with(EVENTS.as_bytes()));
        ensure!(
            self.life.is_zero() || expired.is_none(),
            "an event outlives its time of {:?}: {expired:?}",
            self.life
        );
        Ok(())
    }
}
