//! Limits on the number of requests that are served at a time: one for reading and one for mutating requests
//! (`--max-requests-inflight`, `--max-mutating-requests-inflight`). Requests above the limit are rejected with advice
//! to retry.
//!
//! No user gets more than is left for all others: a single user gets half of the seats, two get a third each, and there
//! is one left for the next user. A request whose body has not arrived is not served. It gives its seat up and is
//! counted as a request that is received. The number and the bytes of these are shared in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use holdfast_authorization::User;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::runtime::long_work::LongWork;
use crate::wire::body::BodyError;
use crate::wire::fairness::LevelSeat;

/// Requests that are served or received now, without long-running ones such as watches.
#[derive(Debug)]
pub struct InFlight {
    read_only: Mutex<Shares>,
    mutating: Mutex<Shares>,
    /// Bodies that are being received.
    bodies: Mutex<Shares>,
    /// Received bytes of these bodies.
    bytes: Mutex<Shares>,
    /// Responses whose clients read slowly, so that they have given their seats back.
    untaken: Mutex<Shares>,
    /// Long work of served requests.
    pub(crate) long_work: LongWork,
}

/// Maximum number of responses that wait for their clients without a seat. Each of the others keeps its seat.
const MAX_UNTAKEN_ANSWERS: usize = 1000;

/// Time after which a response gives its seat back if the client has read nothing of it.
const UNTAKEN_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of bodies that are received at a time, and maximum number of their bytes that are kept.
const BODIES: usize = 2000;
const BODY_BYTES: usize = 128 << 20;

impl Default for InFlight {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl InFlight {
    /// Allows at most `read_only` reading requests at a time, and `mutating` others; 0 for no limit.
    pub fn new(read_only: usize, mutating: usize) -> Self {
        let shares = |limit| Mutex::new(Shares::new(limit));
        Self {
            read_only: shares(read_only),
            mutating: shares(mutating),
            bodies: shares(BODIES),
            bytes: shares(BODY_BYTES),
            untaken: shares(MAX_UNTAKEN_ANSWERS),
            long_work: LongWork::default(),
        }
    }

    /// Sets the maximum number of bodies that are received at a time, and of their bytes that are kept.
    #[must_use]
    pub fn with_bodies(self, bodies: usize, bytes: usize) -> Self {
        Self {
            bodies: Mutex::new(Shares::new(bodies)),
            bytes: Mutex::new(Shares::new(bytes)),
            ..self
        }
    }

    /// Returns a seat for a mutating or reading request of `user`; `None` if there is none for that user. A request
    /// that is served `anyway` always gets one.
    pub fn enter(self: &Arc<Self>, user: &Arc<User>, mutates: bool, anyway: bool) -> Option<Seat> {
        let counted = Counted {
            mutates,
            anyway,
            served: AtomicBool::new(false),
        };
        let place = Seat {
            in_flight: Arc::clone(self),
            user: Arc::clone(user),
            kind: Kind::Counted(counted),
        };
        place.enter().then_some(place)
    }

    /// Returns the seat of a request of `user` that has seats of its priority level.
    pub(crate) fn of_level(self: &Arc<Self>, user: &Arc<User>, seat: LevelSeat) -> Seat {
        Seat {
            in_flight: Arc::clone(self),
            user: Arc::clone(user),
            kind: Kind::OfLevel(seat),
        }
    }

    /// Returns the number of requests of each kind that are served now.
    pub(crate) fn now(&self) -> [(&'static str, i64); 2] {
        let now = |shares: &Mutex<Shares>| i64::try_from(shares.lock().taken).unwrap_or(i64::MAX);
        [("readOnly", now(&self.read_only)), ("mutating", now(&self.mutating))]
    }
}

/// A limited amount that is shared among users.
#[derive(Debug)]
struct Shares {
    /// Total amount; 0 for no limit.
    limit: usize,
    taken: usize,
    /// Amount of each user, if it is not zero.
    users: HashMap<SmolStr, usize>,
}

impl Shares {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: 0,
            users: HashMap::default(),
        }
    }

    /// Reserves `more` for a user, if all others still have at least as much left as the user has then. `anyway`
    /// ignores the limit.
    fn take(&mut self, user: &SmolStr, more: usize, anyway: bool) -> bool {
        let left = self.limit.saturating_sub(self.taken);
        let own = self.users.get(user).copied().unwrap_or_default();
        if !anyway && self.limit > 0 && own + more > left {
            return false;
        }
        self.taken += more;
        *self.users.entry(user.clone()).or_default() += more;
        true
    }

    fn give_back(&mut self, user: &SmolStr, amount: usize) {
        self.taken = self.taken.saturating_sub(amount);
        if let Some(own) = self.users.get_mut(user) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                self.users.remove(user);
            }
        }
    }
}

/// Seat of a request that is served; given up on drop.
#[derive(Debug)]
pub struct Seat {
    in_flight: Arc<InFlight>,
    user: Arc<User>,
    kind: Kind,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "of a server all places are of one kind, and each is behind a pointer"
)]
enum Kind {
    /// One of a limited number of seats.
    Counted(Counted),
    /// Seats of a priority level.
    OfLevel(LevelSeat),
}

#[derive(Debug)]
struct Counted {
    mutates: bool,
    /// True if it is never rejected.
    anyway: bool,
    /// True if the seat is occupied now: not while the body of the request is received.
    served: AtomicBool,
}

impl Counted {
    fn shares<'a>(&self, in_flight: &'a InFlight) -> &'a Mutex<Shares> {
        match self.mutates {
            true => &in_flight.mutating,
            false => &in_flight.read_only,
        }
    }
}

impl Seat {
    /// Occupies the seat. Returns false if seats are counted and none is free.
    fn enter(&self) -> bool {
        let Kind::Counted(counted) = &self.kind else {
            return true;
        };
        let shares = counted.shares(&self.in_flight);
        let entered = shares.lock().take(&self.user.name, 1, counted.anyway);
        counted.served.store(entered, Ordering::Release);
        entered
    }

    /// Occupies the seat again once the body has arrived.
    async fn enter_again(&self) -> bool {
        match &self.kind {
            Kind::Counted(_) => self.enter(),
            Kind::OfLevel(seat) => seat.enter().await,
        }
    }

    fn leave(&self) {
        match &self.kind {
            Kind::Counted(counted) => {
                if counted.served.swap(false, Ordering::AcqRel) {
                    counted.shares(&self.in_flight).lock().give_back(&self.user.name, 1);
                }
            }
            Kind::OfLevel(seat) => seat.leave(),
        }
    }

    /// Gives up the seat while the body of the request arrives, of which `bytes` have already arrived.
    ///
    /// # Errors
    /// If too many bodies are being received.
    pub(crate) fn receive(self: Arc<Self>, bytes: usize) -> Result<Receiving, BodyError> {
        self.leave();
        let bodies = &self.in_flight.bodies;
        if !bodies.lock().take(&self.user.name, 1, false) {
            return Err(BodyError::TooMany);
        }
        let mut receiving = Receiving { place: self, bytes: 0 };
        receiving.keep(bytes)?;
        Ok(receiving)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Seats of a level are given up by their own drop.
        if let Kind::Counted(_) = &self.kind {
            self.leave();
        }
    }
}

/// Seat of a request whose response is written as the client reads it. The request gives the seat back while the client
/// reads nothing, so that slow clients delay no others, and gets one again before more is written.
#[derive(Debug)]
pub(crate) struct AnswerSeat {
    seat: Arc<Seat>,
    /// Number of pieces that were begun or handed over.
    progress: AtomicUsize,
    /// True while the seat is given back.
    is_away: Mutex<bool>,
}

impl AnswerSeat {
    /// Watches the progress of the response that has `seat`.
    pub(crate) fn new(seat: Arc<Seat>) -> Arc<Self> {
        let answer = Arc::new(Self {
            seat,
            progress: AtomicUsize::new(0),
            is_away: Mutex::new(false),
        });
        let watched = Arc::downgrade(&answer);
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                tokio::time::sleep(UNTAKEN_DELAY).await;
                let Some(answer) = watched.upgrade() else { return };
                seen = answer.leave_unless_progressed(seen);
            }
        });
        answer
    }

    fn leave_unless_progressed(&self, seen: usize) -> usize {
        let mut is_away = self.is_away.lock();
        let progress = self.progress.load(Ordering::Acquire);
        if progress == seen && !*is_away {
            let user = &self.seat.user.name;
            *is_away = self.seat.in_flight.untaken.lock().take(user, 1, false);
            if *is_away {
                self.seat.leave();
            }
        }
        progress
    }

    /// Begins a piece of the response. Occupies a seat again if the response gave its seat back. If none becomes free in
    /// time, the response continues without one, because it cannot be rejected any more.
    pub(crate) async fn begin_piece(&self) {
        let was_away = {
            let mut is_away = self.is_away.lock();
            self.progress.fetch_add(1, Ordering::AcqRel);
            std::mem::replace(&mut *is_away, false)
        };
        if was_away {
            self.give_share_back();
            self.seat.enter_again().await;
        }
    }

    /// Records that a piece of the response was handed to the connection.
    pub(crate) fn end_piece(&self) {
        self.progress.fetch_add(1, Ordering::AcqRel);
    }

    fn give_share_back(&self) {
        self.seat.in_flight.untaken.lock().give_back(&self.seat.user.name, 1);
    }
}

impl Drop for AnswerSeat {
    fn drop(&mut self) {
        if *self.is_away.get_mut() {
            self.give_share_back();
        }
    }
}

/// A request whose body is being received.
#[derive(Debug)]
pub(crate) struct Receiving {
    place: Arc<Seat>,
    bytes: usize,
}

impl Receiving {
    /// Counts received bytes that are kept.
    ///
    /// # Errors
    /// If there is no room for them.
    pub(crate) fn keep(&mut self, more: usize) -> Result<(), BodyError> {
        let place = &self.place;
        if !place.in_flight.bytes.lock().take(&place.user.name, more, false) {
            return Err(BodyError::TooMany);
        }
        self.bytes += more;
        Ok(())
    }

    /// Occupies the seat again, because the whole body has arrived.
    ///
    /// # Errors
    /// If no seat is free.
    pub(crate) async fn finish(self) -> Result<(), BodyError> {
        match self.place.enter_again().await {
            true => Ok(()),
            false => Err(BodyError::TooMany),
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let (in_flight, user) = (&self.place.in_flight, &self.place.user.name);
        in_flight.bytes.lock().give_back(user, self.bytes);
        in_flight.bodies.lock().give_back(user, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User {
            name: name.into(),
            ..User::default()
        })
    }

    fn read(in_flight: &Arc<InFlight>, user: &Arc<User>) -> Option<Seat> {
        in_flight.enter(user, false, false)
    }

    fn write(in_flight: &Arc<InFlight>, user: &Arc<User>) -> Option<Seat> {
        in_flight.enter(user, true, false)
    }

    #[test]
    fn each_kind_of_request_has_its_own_places() {
        let in_flight = Arc::new(InFlight::new(2, 1));
        let (ann, bob) = (user("ann"), user("bob"));
        let reads = [&ann, &bob].map(|user| read(&in_flight, user));
        assert!(reads.iter().all(Option::is_some));
        assert!(read(&in_flight, &user("eve")).is_none());
        let written = write(&in_flight, &ann);
        assert!(written.is_some());
        assert!(write(&in_flight, &bob).is_none());
        assert!(in_flight.enter(&bob, true, true).is_some());
        drop(written);
        assert!(write(&in_flight, &bob).is_some());
        drop(reads);
        assert_eq!(in_flight.now(), [("readOnly", 0), ("mutating", 0)]);
        assert!(in_flight.read_only.lock().users.is_empty());
    }

    #[test]
    fn no_user_takes_more_than_is_left_for_others() {
        let in_flight = Arc::new(InFlight::new(100, 0));
        let all = |name: &str| -> Vec<Seat> {
            let user = user(name);
            std::iter::from_fn(|| read(&in_flight, &user)).collect()
        };
        let places: Vec<_> = ["a", "b", "c", "d", "e"].map(all).into();
        let counts: Vec<_> = places.iter().map(Vec::len).collect();
        assert_eq!(counts, [50, 25, 13, 6, 3]);
        drop(places);
        assert_eq!(all("e").len(), 50);
    }

    #[test]
    fn no_limit_is_written_as_zero() {
        let (in_flight, ann) = (Arc::new(InFlight::new(0, 0)), user("ann"));
        let places: Vec<_> = (0..1000).map(|_| write(&in_flight, &ann)).collect();
        assert!(places.iter().all(Option::is_some));
    }

    #[tokio::test(start_paused = true)]
    async fn answer_that_is_not_taken_gives_its_seat_back() {
        let in_flight = Arc::new(InFlight::new(1, 0));
        let (ann, bob) = (user("ann"), user("bob"));
        let seat = AnswerSeat::new(Arc::new(in_flight.enter(&ann, false, true).unwrap()));
        seat.begin_piece().await;
        seat.end_piece();
        assert!(read(&in_flight, &bob).is_none());
        tokio::time::sleep(3 * UNTAKEN_DELAY).await;
        let other = read(&in_flight, &bob);
        assert!(other.is_some());
        assert_eq!(in_flight.untaken.lock().taken, 1);
        drop(other);
        seat.begin_piece().await;
        assert_eq!(in_flight.untaken.lock().taken, 0);
        tokio::time::sleep(3 * UNTAKEN_DELAY).await;
        assert_eq!(in_flight.untaken.lock().taken, 1);
        drop(seat);
        assert_eq!((in_flight.untaken.lock().taken, in_flight.now()[0].1), (0, 0));
    }

    #[tokio::test]
    async fn a_request_is_not_served_while_its_body_comes() {
        let in_flight = Arc::new(InFlight::new(1, 1).with_bodies(2, 100));
        let (ann, bob) = (user("ann"), user("bob"));
        let place = Arc::new(write(&in_flight, &ann).unwrap());
        let mut receiving = Arc::clone(&place).receive(10).unwrap();
        assert_eq!(in_flight.now()[1], ("mutating", 0));
        let other = write(&in_flight, &bob).unwrap();
        // One user gets at most half of the bodies and bytes.
        let second = Arc::new(read(&in_flight, &ann).unwrap());
        assert!(matches!(second.receive(0), Err(BodyError::TooMany)));
        assert!(receiving.keep(40).is_ok());
        assert!(matches!(receiving.keep(1), Err(BodyError::TooMany)));
        assert!(receiving.finish().await.is_err());
        drop(other);
        let receiving = Arc::clone(&place).receive(50).unwrap();
        assert!(receiving.finish().await.is_ok());
        assert_eq!(in_flight.now()[1], ("mutating", 1));
        drop(place);
        assert_eq!(in_flight.now()[1], ("mutating", 0));
        assert_eq!((in_flight.bodies.lock().taken, in_flight.bytes.lock().taken), (0, 0));
    }
}
