//! The world around the simulated processes: choices, time and the record of what happened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::random::Random;
use crate::trace::Trace;
use crate::{Outcome, PlantedBug};

/// Wall-clock time at which a simulation begins, since the Unix epoch.
pub(crate) const START: Duration = Duration::from_secs(1_800_000_000);
/// Maximum simulated time of one process.
const LIFE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation(String);

impl Violation {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a [`Violation`] with a formatted text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::world::Violation::new(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// End of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifeEnd {
    /// The process ended by itself.
    Done,
    /// The process crashed.
    Crashed,
}

/// Choices, time and record of one simulation. It outlives the simulated processes.
pub struct World {
    inner: Mutex<Inner>,
    bug: Option<PlantedBug>,
    /// Notified when an invariant is broken.
    broken: Notify,
}

struct Inner {
    random: Random,
    trace: Trace,
    violation: Option<String>,
    /// Simulated time before the current process.
    elapsed: Duration,
    /// Start of the current process on its own clock.
    life: Option<Instant>,
    /// Notified when the current process crashes.
    crash: Arc<Notify>,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<PlantedBug>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                random: Random::from_seed(seed),
                trace: Trace::default(),
                violation: None,
                elapsed: Duration::ZERO,
                life: None,
                crash: Arc::default(),
            }),
            bug,
            broken: Notify::new(),
        })
    }

    /// Returns true if this bug is planted.
    pub fn has_bug(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Chooses a number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        let mut inner = self.inner.lock();
        let number = inner.random.below(end);
        inner.trace.choice(number);
        number
    }

    /// Chooses true once in `times`.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Chooses one of several values.
    pub fn pick<T: Copy>(&self, values: &[T], default: T) -> T {
        let chosen = self.below(values.len() as u64);
        values.get(chosen as usize).copied().unwrap_or(default)
    }

    /// Records a step.
    pub fn note(&self, text: impl Into<String>) {
        let mut inner = self.inner.lock();
        let time = inner.time();
        inner.trace.step(time, text.into());
    }

    /// Records a broken invariant; only the first one counts. The simulation then ends.
    pub fn report(&self, violation: impl Into<String>) {
        self.inner.lock().violation.get_or_insert(violation.into());
        self.broken.notify_one();
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.inner.lock().violation.clone()
    }

    /// Returns the simulated time since the start of the simulation.
    pub fn time(&self) -> Duration {
        self.inner.lock().time()
    }

    /// Ends the current process as soon as its runtime gets the thread.
    pub fn crash(&self) {
        self.inner.lock().crash.notify_one();
    }

    /// Kills the current process at a moment within `latest`, or in half of the cases never.
    pub(crate) fn plan_kill(self: &Arc<Self>, latest: Duration) {
        if self.once_in(2) {
            let world = Arc::clone(self);
            let millis = u64::try_from(latest.as_millis()).unwrap_or(u64::MAX);
            let moment = Duration::from_millis(self.below(millis));
            tokio::spawn(async move {
                tokio::time::sleep(moment).await;
                world.note("the process is killed");
                world.crash();
            });
        }
    }

    /// Lets other tasks run: at once, or for some simulated time.
    pub async fn pause(&self, longest: Duration) {
        match self.below(3) {
            0 => tokio::task::yield_now().await,
            1 => tokio::time::sleep(Duration::from_millis(self.below(3))).await,
            _ => {
                let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
                tokio::time::sleep(Duration::from_millis(self.below(millis + 1))).await;
            }
        }
    }

    /// Runs a process until it ends, crashes or breaks an invariant. All its tasks end with it.
    pub(crate) fn run_life<F: Future<Output = Result<(), Violation>>>(
        self: &Arc<Self>,
        process: impl FnOnce() -> F,
    ) -> Result<LifeEnd, Violation> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|error| Violation::new(format!("no runtime: {error}")))?;
        let end = runtime.block_on(async {
            let crash = Arc::new(Notify::new());
            {
                let mut inner = self.inner.lock();
                inner.life = Some(Instant::now());
                inner.crash = Arc::clone(&crash);
            }
            let end = tokio::select! {
                biased;
                () = self.broken.notified() => Ok(LifeEnd::Done),
                () = crash.notified() => Ok(LifeEnd::Crashed),
                end = process() => end.map(|()| LifeEnd::Done),
                () = tokio::time::sleep(LIFE_TIMEOUT) => Err(Violation::new("a process hangs")),
            };
            let mut inner = self.inner.lock();
            inner.elapsed = inner.time();
            inner.life = None;
            end
        });
        drop(runtime);
        match self.violation() {
            Some(violation) => Err(Violation::new(violation)),
            None => end,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let inner = self.inner.lock();
        Outcome {
            violation: inner.violation.clone(),
            trace: inner.trace.hash(),
            steps: inner.trace.steps(),
            last_steps: inner.trace.last(),
        }
    }
}

impl Inner {
    fn time(&self) -> Duration {
        self.elapsed + self.life.map_or(Duration::ZERO, |life| life.elapsed())
    }
}

impl holdfast_store::Clock for World {
    fn now(&self) -> Duration {
        START + self.time()
    }
}

/// Waits for the end of tasks, none of which may panic.
pub(crate) async fn join(tasks: Vec<JoinHandle<()>>) -> Result<(), Violation> {
    for task in tasks {
        task.await.map_err(|error| Violation::new(error.to_string()))?;
    }
    Ok(())
}
