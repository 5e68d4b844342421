//! Seats of priority levels that requests hold.

use std::sync::Arc;
use std::time::Duration;

use holdfast_authorization::User;
use holdfast_fairness::{Clock, Execution, Moment, Paused, Start, WatchRegistration};
use http::{Method, Uri};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::runtime::faults::{WatchEnd, WatchFault};
use crate::runtime::testing_clock::Advances;
use crate::runtime::watch_gate::WatchPass;
use crate::wire::in_flight::{AnswerSeat, Seat};

/// The priority levels of a server.
pub type Fairness = holdfast_fairness::Fairness<RequestDetails>;
/// A flow schema of a server.
pub type Schema = holdfast_fairness::Schema<RequestDetails>;

/// Description of a request in dumps. A copy is cheap.
#[derive(Clone, Debug)]
pub struct RequestDetails {
    /// The user who makes the request.
    pub user: Arc<User>,
    /// HTTP method.
    pub method: Method,
    /// The URI.
    pub uri: Uri,
}

/// Clock of priority levels: it begins with the server and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock(Instant);

impl SteadyClock {
    /// Creates a clock that begins at `origin`.
    pub fn new(origin: Instant) -> Self {
        Self(origin)
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The seats of a request, which it gives up while its body arrives.
pub(crate) struct LevelSeat {
    state: Mutex<SeatState>,
    /// Maximum wait for seats.
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

    /// Gives up the seats while the body of the request arrives.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        let next = match std::mem::replace(&mut *state, SeatState::Gone) {
            SeatState::Served(execution) => execution.pause().map_or(SeatState::Gone, SeatState::Receiving),
            other => other,
        };
        *state = next;
    }

    /// Occupies seats again, and waits for them as any request does. Returns `false` if there are none.
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

/// Waits until a request may execute, but not beyond `until`; returns `None` if it is rejected.
pub(crate) async fn turn(start: Start<RequestDetails>, until: Instant) -> Option<Execution<RequestDetails>> {
    match start {
        Start::Executes(execution) => Some(execution),
        Start::Waits(waiting) => tokio::time::timeout_at(until, waiting.turn()).await.ok(),
        Start::Rejected(_) => None,
    }
}

/// State of a watch if the server has endpoints for tests.
#[derive(Debug)]
pub struct WatchTesting {
    /// Fault that a test asks for.
    pub fault: Option<WatchFault>,
    /// Pass for the restores of checkpoints.
    pub pass: WatchPass,
    /// Moves of the clock, which bring the end of the watch closer.
    pub advances: Advances,
}

/// Change that concerns an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// All watches expire.
    Expired,
    /// The clock moves forward.
    Advanced(Duration),
}

impl WatchTesting {
    /// Waits for the next change.
    pub(crate) async fn changed(&mut self) -> WatchChange {
        tokio::select! {
            biased;
            () = self.pass.expired() => WatchChange::Expired,
            by = self.advances.next() => WatchChange::Advanced(by),
        }
    }

    /// Returns the end of a watch that has sent `sent` events, if a fault ends it now.
    pub(crate) fn end_after(&self, sent: u32) -> Option<WatchEnd> {
        let end = self.fault.and_then(|fault| fault.end);
        end.filter(|end| sent >= end.after_events)
    }
}

/// Resources of a watch: seats until it has begun, a registration among the watches that changes are sent to, and its
/// state for tests if the server has endpoints for them.
#[derive(Debug, Default)]
pub struct WatchHold {
    seat: Option<Arc<Seat>>,
    /// The same seats while the initial objects are sent.
    initial_seat: Option<Arc<AnswerSeat>>,
    _registration: Option<WatchRegistration>,
    testing: Option<Box<WatchTesting>>,
}

impl WatchHold {
    pub(crate) fn new(seat: Arc<Seat>, registration: Option<WatchRegistration>) -> Self {
        Self {
            seat: Some(seat),
            initial_seat: None,
            _registration: registration,
            testing: None,
        }
    }

    /// Adds the state of a server with endpoints for tests.
    pub(crate) fn set_testing(&mut self, testing: WatchTesting) {
        self.testing = Some(Box::new(testing));
    }

    /// Returns the state of a server with endpoints for tests.
    pub(crate) fn take_testing(&mut self) -> Option<Box<WatchTesting>> {
        self.testing.take()
    }

    /// Begins the initial objects. The watch gives up its seats while its client reads none of them.
    pub(crate) fn begin_initial_objects(&mut self) {
        self.initial_seat = self.seat.take().map(AnswerSeat::new);
    }

    /// Begins a chunk of the initial objects. Occupies seats again if the watch has given them up.
    pub(crate) async fn begin_initial_chunk(&self) {
        if let Some(seat) = &self.initial_seat {
            seat.begin_piece().await;
        }
    }

    /// Records that a chunk of the initial objects was handed to the connection.
    pub(crate) fn end_initial_chunk(&self) {
        if let Some(seat) = &self.initial_seat {
            seat.end_piece();
        }
    }

    /// Gives up the seats, because the watch has sent the initial objects or has none.
    pub(crate) fn begun(&mut self) {
        self.seat = None;
        self.initial_seat = None;
    }
}
