//! How many requests are served at a time: those that read and those that change something have a limit each
//! (`--max-requests-inflight`, `--max-mutating-requests-inflight`). Requests above it are refused with advice to retry.
//!
//! No user takes more than is left for all others: alone one gets half of the places, two get a third each, and there is
//! one left for the next user. A request whose body is still to come is not served. It gives its place back and is
//! counted among those that are received, whose number and bytes are shared out in the same way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_authorization::User;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::runtime::long_work::LongWork;
use crate::wire::body::BodyError;
use crate::wire::fairness::LevelSeat;

/// The requests that are served or received now. Those that last, such as watches, are not among them.
#[derive(Debug)]
pub struct InFlight {
    read_only: Mutex<Shares>,
    mutating: Mutex<Shares>,
    /// Bodies that are still to come.
    bodies: Mutex<Shares>,
    /// Their bytes that came already.
    bytes: Mutex<Shares>,
    /// Answers whose clients are slow to read them, so that they have given their places back.
    untaken: Mutex<Shares>,
    /// Those that are served and take long.
    pub(crate) long_work: LongWork,
}

/// The most answers that wait for their clients without a place; each of the others keeps its place.
const MAX_UNTAKEN_ANSWERS: usize = 1000;

/// An answer of which the client has taken nothing for this long gives its place back.
const UNTAKEN_DELAY: Duration = Duration::from_millis(250);

/// The most bodies that are received at a time, and the most bytes that are kept of them.
const BODIES: usize = 2000;
const BODY_BYTES: usize = 128 << 20;

impl Default for InFlight {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl InFlight {
    /// At most `read_only` requests at a time that read, and `mutating` others; 0 for no limit.
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

    /// At most `bodies` that are still to come, of which no more than so many bytes are kept.
    #[must_use]
    pub fn with_bodies(self, bodies: usize, bytes: usize) -> Self {
        Self {
            bodies: Mutex::new(Shares::new(bodies)),
            bytes: Mutex::new(Shares::new(bytes)),
            ..self
        }
    }

    /// A place for a request of `user` that changes something or merely reads; `None` if there is none for that user. A request
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

    /// The place of a request of `user` that has seats of its level.
    pub(crate) fn of_level(self: &Arc<Self>, user: &Arc<User>, seat: LevelSeat) -> Seat {
        Seat {
            in_flight: Arc::clone(self),
            user: Arc::clone(user),
            kind: Kind::OfLevel(seat),
        }
    }

    /// How many requests of each kind are served now.
    pub(crate) fn now(&self) -> [(&'static str, i64); 2] {
        let now = |shares: &Mutex<Shares>| i64::try_from(shares.lock().taken).unwrap_or(i64::MAX);
        [("readOnly", now(&self.read_only)), ("mutating", now(&self.mutating))]
    }
}

/// Something of which there is so much, and who has how much of it.
#[derive(Debug)]
struct Shares {
    /// How much there is; 0 for no limit.
    limit: usize,
    taken: usize,
    /// What each user has, where that is anything.
    users: HashMap<SmolStr, usize>,
}

impl Shares {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: 0,
            users: HashMap::new(),
        }
    }

    /// Takes `more` for a user, if no less is left for all others than the user has then. `anyway` asks for no limit.
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

/// The place of a request that is served; given back when this goes.
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
    /// One of the places that there are.
    Counted(Counted),
    /// Seats of a priority level.
    OfLevel(LevelSeat),
}

#[derive(Debug)]
struct Counted {
    mutates: bool,
    /// Whether it is never refused.
    anyway: bool,
    /// Whether the place is taken now: not while the body of the request is received.
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
    /// Takes the place, if it is counted and there is one.
    fn enter(&self) -> bool {
        let Kind::Counted(counted) = &self.kind else {
            return true;
        };
        let shares = counted.shares(&self.in_flight);
        let entered = shares.lock().take(&self.user.name, 1, counted.anyway);
        counted.served.store(entered, Ordering::Release);
        entered
    }

    /// Takes the place again once the body is there.
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

    /// Gives the place back while the body of the request comes, `bytes` of which are there already.
    ///
    /// # Errors
    /// If too many bodies are to come.
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
        // Seats of a level come back by themselves.
        if let Kind::Counted(_) = &self.kind {
            self.leave();
        }
    }
}

/// The place of a request whose answer is written as the client takes it. The place is given back while the client takes
/// nothing, so that slow clients hold up nobody, and taken again before more is written.
pub(crate) struct AnswerSeat {
    seat: Arc<Seat>,
    /// Counts when pieces are begun and handed over.
    progress: AtomicUsize,
    /// True while the place is given back.
    is_away: Mutex<bool>,
}

impl AnswerSeat {
    /// The place `seat`, which is watched from now on.
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

    /// A piece of the answer is begun: takes the place again if it was given back. Where none becomes free in time, the
    /// answer goes on without, since it cannot be rejected any more.
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

    /// A piece of the answer is handed to the connection.
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

/// A request whose body is received.
#[derive(Debug)]
pub(crate) struct Receiving {
    place: Arc<Seat>,
    bytes: usize,
}

impl Receiving {
    /// Counts bytes that came and are kept.
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

    /// Takes the place again, since all of the body is there.
    ///
    /// # Errors
    /// If others have it.
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
        // Half of the bodies and bytes are for one user.
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
