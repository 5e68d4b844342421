//! The links between the servers and the members of etcd.

use std::sync::Arc;
use std::time::Duration;

use holdfast_store::simulated_etcd::{Ending, EtcdBug, Fate, Link, WatchStep};
use parking_lot::Mutex;

use crate::{PlantedBug, World};

/// Longest delay of a message on a good and on a slow way.
const DELAY: Duration = Duration::from_millis(5);
const SLOW_DELAY: Duration = Duration::from_millis(800);
/// Longest time for which a member cannot be reached.
const CUT: Duration = Duration::from_secs(5);

/// Links that follow the choices of the world.
pub(super) struct EtcdLink {
    world: Arc<World>,
    /// True if members report the progress of a watch too early, as old versions do.
    reports_early: bool,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    /// True while no message is lost.
    is_quiet: bool,
    /// Member that cannot be reached, and the end of that time.
    cut: Option<(usize, Duration)>,
}

impl EtcdLink {
    pub(super) fn new(world: &Arc<World>, reports_early: bool) -> Self {
        Self {
            world: Arc::clone(world),
            reports_early,
            state: Mutex::default(),
        }
    }

    /// Begins or ends a time in which no message is lost.
    pub(super) fn set_quiet(&self, is_quiet: bool) {
        *self.state.lock() = LinkState { is_quiet, cut: None };
    }

    fn is_quiet(&self) -> bool {
        self.state.lock().is_quiet
    }

    fn delay(&self) -> Duration {
        let longest = match self.is_quiet() || !self.world.once_in(6) {
            true => DELAY,
            false => SLOW_DELAY,
        };
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.world.below(millis + 1))
    }

    /// Returns true if a member cannot be reached now. Now and then, such a time begins.
    fn is_cut(&self, member: usize) -> bool {
        let now = self.world.time();
        let mut state = self.state.lock();
        if let Some((cut, end)) = state.cut
            && now < end
        {
            return cut == member;
        }
        let begins = !state.is_quiet && self.world.once_in(40);
        state.cut = begins.then(|| {
            let millis = u64::try_from(CUT.as_millis()).unwrap_or(u64::MAX);
            (member, now + Duration::from_millis(self.world.below(millis)))
        });
        begins
    }
}

impl Link for EtcdLink {
    fn now(&self) -> Duration {
        self.world.time()
    }

    fn choose_fate(&self, member: usize, call: &str) -> Fate {
        const FAILURES: [Ending; 5] = [
            Ending::NotConnected,
            Ending::RequestLost,
            Ending::AnswerLost,
            Ending::Silent,
            Ending::NoLeader,
        ];
        let ending = match self.is_cut(member) {
            true => Ending::NotConnected,
            false if !self.is_quiet() && self.world.once_in(12) => self.world.pick(&FAILURES, Ending::NotConnected),
            false => Ending::Answered,
        };
        if ending != Ending::Answered {
            self.world.note(format!("member {member}: {call} ends with {ending:?}"));
        }
        Fate {
            request_delay: self.delay(),
            answer_delay: self.delay(),
            ending,
        }
    }

    fn choose_watch_step(&self, member: usize) -> WatchStep {
        let breaks = self.is_cut(member) || !self.is_quiet() && self.world.once_in(20);
        match breaks {
            true => {
                self.world.note(format!("member {member}: a watch breaks"));
                WatchStep::Break(self.delay())
            }
            false => WatchStep::Deliver(self.delay()),
        }
    }

    fn below(&self, end: u64) -> u64 {
        self.world.below(end)
    }

    fn has_bug(&self, bug: EtcdBug) -> bool {
        self.world.has_bug(PlantedBug::Etcd(bug)) || bug == EtcdBug::ReportsEarly && self.reports_early
    }
}
