#![forbid(unsafe_code)]
//! Deterministic simulation of the server: store, request path and controllers run on one thread, time is simulated,
//! and every choice follows from a seed. A seed that fails is a complete report: it fails in the same way on every
//! machine.
//!
//! ```
//! use holdfast_simulation::{Scenario, Settings, simulate};
//!
//! let outcome = simulate(Scenario::Store, 7, &Settings::default());
//! assert_eq!(outcome.violation, None, "{}", outcome.last_steps.join("\n"));
//! ```
//!
//! Tasks run on tokio's current-thread runtime with paused time: if no task can run, the clock jumps to the next timer.
//! So a simulated hour costs as much as the work that is done in it. A process is one runtime. A crash drops the runtime
//! with all its tasks, and the next process opens what is durable on the [`disk`].
//!
//! `docs/contributing/simulation.md` describes how to run and to replay seeds.

mod api;
pub mod disk;
mod etcd;
mod random;
mod store;
mod trace;
mod world;

pub use holdfast_store::simulated_etcd::EtcdBug;
pub use random::Random;
pub use world::World;

/// A part of the server that is simulated, with its clients and its invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The store with its history and watches, on a disk that fails.
    Store,
    /// The request path and the controllers of a server, on such a store.
    Api,
    /// The store of several servers on one etcd, behind links that delay, cut and lose messages.
    Etcd,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 3] = [Self::Store, Self::Api, Self::Etcd];

    /// Returns the name of the scenario on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Api => "api",
            Self::Etcd => "etcd",
        }
    }
}

/// A bug to plant, which proves that the simulation would find such a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The disk acknowledges a step before it is durable.
    AcknowledgesBeforeSync,
    /// The disk writes a part of a step if the process crashes meanwhile.
    TearsSteps,
    /// The disk restores nothing after a failed step.
    SkipsRecovery,
    /// Watches skip an event now and then.
    SkipsEvents,
    /// Pages of a list show the state at the time of the page.
    ListsNewestState,
    /// The controllers for namespaces and garbage collection do not run.
    RunsNoControllers,
    /// Clients update without the version that they read.
    WritesWithoutVersion,
    /// The simulated etcd has a bug.
    Etcd(EtcdBug),
}

/// Settings of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Bug to plant.
    pub bug: Option<PlantedBug>,
}

/// Result of the simulation of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// First broken invariant.
    pub violation: Option<String>,
    /// Hash of all choices and answers. Two runs of one seed have the same.
    pub trace: u64,
    /// Number of choices and answers.
    pub steps: u64,
    /// Last steps before the end.
    pub last_steps: Vec<String>,
}

/// Runs a scenario with all choices from this seed.
pub fn simulate(scenario: Scenario, seed: u64, settings: &Settings) -> Outcome {
    let world = World::new(seed, settings.bug);
    let result = match scenario {
        Scenario::Store => store::run(&world),
        Scenario::Api => api::run(&world),
        Scenario::Etcd => etcd::run(&world),
    };
    if let Err(violation) = result {
        world.report(violation.to_string());
    }
    world.outcome()
}
