//! Seats of priority levels, as requests hold them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_authorization::User;
use holdfast_fairness::{Clock, Execution, Moment, Paused, Start, WatchRegistration};
use http::{Method, Uri};
use parking_lot::Mutex;

use crate::wire::in_flight::Seat;

/// The priority levels of a server.
pub type Fairness = holdfast_fairness::Fairness<RequestDetails>;
/// A flow schema of a server.
pub type Schema = holdfast_fairness::Schema<RequestDetails>;

/// What dumps show of a request. A copy costs next to nothing.
#[derive(Clone, Debug)]
pub struct RequestDetails {
    /// The user who makes the request.
    pub user: Arc<User>,
    /// The method.
    pub method: Method,
    /// What it is about.
    pub uri: Uri,
}

/// The clock of levels: it begins with the server and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock(Instant);

impl SteadyClock {
    /// A clock that begins at `origin`.
    pub fn new(origin: Instant) -> Self {
        Self(origin)
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The seats of a request, which it does not take up while its body comes.
pub(crate) struct LevelSeat {
    state: Mutex<SeatState>,
    /// How long it waits for seats at most.
    patience: Duration,
}

impl std::fmt::Debug for LevelSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LevelSeat")
    }
}

enum SeatState {
    Served(Execution<RequestDetails>),
    Receiving(Paused<RequestDetails>),
    Gone,
}

impl LevelSeat {
    pub(crate) fn new(execution: Execution<RequestDetails>, patience: Duration) -> Self {
        Self {
            state: Mutex::new(SeatState::Served(execution)),
            patience,
        }
    }

    /// Gives the seats back while the body of the request comes.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        let next = match std::mem::replace(&mut *state, SeatState::Gone) {
            SeatState::Served(execution) => execution.pause().map_or(SeatState::Gone, SeatState::Receiving),
            other => other,
        };
        *state = next;
    }

    /// Takes seats again, and waits for them as any request does. `false` where there are none.
    pub(crate) async fn enter(&self) -> bool {
        let paused = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut *state, SeatState::Gone) {
                SeatState::Receiving(paused) => paused,
                other => {
                    *state = other;
                    return true;
                }
            }
        };
        match turn(paused.resume(), Instant::now() + self.patience).await {
            Some(execution) => {
                *self.state.lock() = SeatState::Served(execution);
                true
            }
            None => false,
        }
    }
}

/// Waits for the turn of a request, but not beyond `until`; `None` where it is rejected.
pub(crate) async fn turn(start: Start<RequestDetails>, until: Instant) -> Option<Execution<RequestDetails>> {
    match start {
        Start::Executes(execution) => Some(execution),
        Start::Waits(waiting) => tokio::time::timeout_at(until.into(), waiting.turn()).await.ok(),
        Start::Rejected(_) => None,
    }
}

/// What a watch holds: seats until it has begun, and a place among the watches that changes are sent to.
#[derive(Debug, Default)]
pub struct WatchHold {
    seat: Option<Arc<Seat>>,
    _registration: Option<WatchRegistration>,
}

impl WatchHold {
    pub(crate) fn new(seat: Arc<Seat>, registration: Option<WatchRegistration>) -> Self {
        Self {
            seat: Some(seat),
            _registration: registration,
        }
    }

    /// The watch has shown what was there: it takes seats no more.
    pub(crate) fn begun(&mut self) {
        self.seat = None;
    }
}
