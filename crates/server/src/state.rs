//! What the handlers of all requests share. Everything comes in by argument; nothing is global.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use holdfast_resource::Registry;

/// What the handlers of all requests share.
pub struct Context {
    /// The resources that are served now. A request takes one snapshot and keeps it to its end.
    pub registry: ArcSwap<Registry>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What was decided at start.
    pub config: Config,
}

impl Context {
    /// The resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }
}

/// What is decided at start and holds for all requests.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a request other than a watch may take.
    pub request_timeout: Duration,
    /// A watch that states no timeout ends after this time or up to twice as long, so that not all end at once.
    pub min_watch_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
        }
    }
}

/// Where the time of day comes from.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
