//! Rules of queues, with a clock that only the test advances.

#![allow(clippy::unwrap_used, reason = "a failure here fails the test")]

use std::time::Duration;

use super::*;

const MILLISECOND: u64 = 1_000_000;

/// Level with its own clock.
struct Level {
    queues: QueueSet<&'static str>,
    flow: Arc<Flow>,
    now: u64,
    waiting: Vec<(&'static str, Key, oneshot::Receiver<()>)>,
}

fn queuing(queues: u64, hand: u64, length: u64) -> Limiting {
    Limiting::Queue(Queuing::new(queues, hand, length).unwrap())
}

impl Level {
    fn new(limiting: Limiting, limit: u64) -> Self {
        let mut queues = QueueSet::new(limiting, Moment(0));
        queues.configure(limiting, limit, limit.max(1), Moment(0));
        let flow = Flow {
            schema: "s".into(),
            statistics: Mutex::new(FlowStatistics::new()),
        };
        Self {
            queues,
            flow: Arc::new(flow),
            now: 0,
            waiting: Vec::new(),
        }
    }

    fn moment(&self) -> Moment {
        Moment(self.now * MILLISECOND)
    }

    /// Starts a request of the flow with that hash.
    fn start(&mut self, name: &'static str, hash: u64, estimate: WorkEstimate) -> Result<Option<Key>, Reason> {
        let request = Request {
            flow: Arc::clone(&self.flow),
            distinguisher: name.into(),
            hash,
            estimate,
            details: name,
        };
        match self.queues.start(request, self.moment()) {
            Admission::Executes(key) => Ok(Some(key)),
            Admission::Waits(key, turn) => {
                self.waiting.push((name, key, turn));
                Ok(None)
            }
            Admission::Rejected(reason) => Err(reason),
        }
    }

    fn one(&mut self, name: &'static str, hash: u64) -> Result<Option<Key>, Reason> {
        self.start(name, hash, WorkEstimate::seats(1))
    }

    fn finish(&mut self, key: Key) {
        let _ = self.queues.finish(key, self.moment());
    }

    /// Returns the requests dispatched since the last call.
    fn turns(&mut self) -> Vec<(&'static str, Key)> {
        let mut turns = Vec::new();
        self.waiting.retain_mut(|(name, key, turn)| {
            let comes = turn.try_recv().is_ok();
            if comes {
                turns.push((*name, *key));
            }
            !comes
        });
        turns
    }

    fn names(&mut self) -> Vec<&'static str> {
        self.turns().into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn request_waits_only_without_free_seats() {
    let mut level = Level::new(queuing(8, 1, 10), 2);
    let first = level.one("a", 0).unwrap().unwrap();
    assert!(level.one("b", 1).unwrap().is_some());
    assert_eq!(level.one("c", 2), Ok(None));
    assert_eq!(level.names(), [""; 0]);
    level.finish(first);
    assert_eq!(level.names(), ["c"]);
    assert_eq!(level.queues.counts(), [0, 2]);
}

#[test]
fn a_hog_does_not_hold_up_a_quiet_user() {
    let mut level = Level::new(queuing(8, 1, 100), 1);
    let mut running = level.one("hog", 0).unwrap().unwrap();
    for _ in 0..50 {
        assert_eq!(level.one("hog", 0), Ok(None));
    }
    // The quiet flow waits for the executing request, and for at most one more.
    level.now = 1;
    assert_eq!(level.one("quiet", 1), Ok(None));
    let mut before = 0;
    loop {
        level.now += 3;
        level.finish(running);
        let turns = level.turns();
        let (name, key) = *turns.first().unwrap();
        if name == "quiet" {
            break;
        }
        (running, before) = (key, before + 1);
    }
    assert!(before <= 1, "{before}");
}

/// Runs flows that always have waiting requests of so many seats and milliseconds for ten seconds; returns the
/// seat-milliseconds of each.
fn shares(limit: u64, flows: &[(&'static str, usize, u64, u64)]) -> Vec<u64> {
    let mut level = Level::new(queuing(16, 1, 1000), limit);
    let mut running: Vec<(u64, usize, Key)> = Vec::new();
    let mut got = vec![0; flows.len()];
    let place = |name: &str| flows.iter().position(|(known, ..)| *known == name).unwrap();
    while level.now < 10_000 {
        for (at, (name, backlog, seats, lasts)) in flows.iter().enumerate() {
            let waits = level.waiting.iter().filter(|(known, ..)| known == name).count();
            for _ in waits..*backlog {
                let started = level.start(name, at as u64, WorkEstimate::seats(*seats)).unwrap();
                running.extend(started.map(|key| (level.now + lasts, at, key)));
            }
        }
        for (name, key) in level.turns() {
            running.push((level.now + flows[place(name)].3, place(name), key));
        }
        level.now += 1;
        let now = level.now;
        for (_, at, key) in running.extract_if(.., |(until, ..)| *until <= now).collect::<Vec<_>>() {
            got[at] += flows[at].2 * flows[at].3;
            level.finish(key);
        }
        for (name, key) in level.turns() {
            running.push((level.now + flows[place(name)].3, place(name), key));
        }
    }
    got
}

fn is_fair(shares: &[u64]) -> bool {
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    *least as f64 > *most as f64 * 0.9
}

#[test]
fn busy_flows_get_equal_shares() {
    let got = shares(4, &[("hog", 200, 1, 5), ("modest", 5, 1, 5)]);
    assert!(is_fair(&got), "{got:?}");
}

#[test]
fn long_and_wide_requests_count_by_their_work() {
    let got = shares(6, &[("long", 20, 1, 20), ("short", 20, 1, 2)]);
    assert!(is_fair(&got), "{got:?}");
    let got = shares(6, &[("wide", 20, 3, 5), ("narrow", 20, 1, 5)]);
    assert!(is_fair(&got), "{got:?}");
}

#[test]
fn a_full_queue_rejects_where_there_are_no_seats() {
    let mut level = Level::new(queuing(4, 1, 2), 1);
    assert!(level.one("a", 0).unwrap().is_some());
    assert_eq!([level.one("a", 0), level.one("a", 0)], [Ok(None), Ok(None)]);
    assert_eq!(level.one("a", 0), Err(Reason::QueueFull));
    // Another flow has another queue.
    assert_eq!(level.one("b", 1), Ok(None));
    assert_eq!(level.flow.statistics.lock().rejected, [0, 1, 0]);
}

#[test]
fn a_flow_uses_the_queue_of_its_hand_with_the_least_work() {
    let mut level = Level::new(queuing(4, 4, 100), 1);
    let _running = level.one("a", 0);
    for _ in 0..8 {
        assert_eq!(level.one("a", 0), Ok(None));
    }
    let (queues, dumps) = level.queues.dump_queues();
    assert_eq!(queues, 4);
    assert_eq!(
        dumps.iter().map(|queue| queue.waiting).collect::<Vec<_>>(),
        [2, 2, 2, 2]
    );
}

#[test]
fn a_level_without_queues_rejects_at_once() {
    let mut level = Level::new(Limiting::Reject, 2);
    let first = level.start("a", 0, WorkEstimate::seats(2)).unwrap().unwrap();
    assert_eq!(level.one("b", 0), Err(Reason::ConcurrencyLimit));
    level.finish(first);
    assert!(level.one("b", 0).unwrap().is_some());
    assert_eq!(level.flow.statistics.lock().rejected, [1, 0, 0]);
}

#[test]
fn the_exempt_are_never_held_up() {
    let mut level = Level::new(Limiting::Exempt, 0);
    for _ in 0..100 {
        assert!(level.one("a", 0).unwrap().is_some());
    }
    assert_eq!(level.flow.statistics.lock().executing_seats, 100);
}

#[test]
fn request_wider_than_level_executes_exclusively() {
    let mut level = Level::new(queuing(4, 1, 10), 3);
    let first = level.one("a", 0).unwrap().unwrap();
    assert_eq!(level.start("wide", 1, WorkEstimate::seats(5)), Ok(None));
    level.finish(first);
    assert_eq!(level.names(), ["wide"]);
    assert_eq!(level.one("a", 0), Ok(None));
}

#[test]
fn seats_linger_after_a_change_that_many_watch() {
    let mut level = Level::new(queuing(4, 1, 10), 4);
    let change = WorkEstimate {
        initial_seats: 1,
        final_seats: 4,
        additional_latency: Duration::from_millis(20),
    };
    let key = level.start("change", 0, change).unwrap().unwrap();
    level.now = 5;
    level.finish(key);
    assert_eq!(level.queues.counts(), [0, 0]);
    assert_eq!(level.queues.next_release(), None, "none waits");
    assert_eq!(level.one("next", 1), Ok(None));
    assert_eq!(level.queues.next_release(), Some(Moment(25 * MILLISECOND)));
    level.now = 24;
    level.queues.refresh(level.moment());
    assert_eq!(level.names(), [""; 0]);
    level.now = 25;
    level.queues.refresh(level.moment());
    assert_eq!(level.names(), ["next"]);
    assert_eq!(level.flow.statistics.lock().executing_seats, 1);
}

#[test]
fn a_change_that_wants_more_seats_than_there_are_lingers_longer() {
    let mut level = Level::new(queuing(4, 1, 10), 2);
    let change = WorkEstimate {
        initial_seats: 1,
        final_seats: 4,
        additional_latency: Duration::from_millis(20),
    };
    let key = level.start("change", 0, change).unwrap().unwrap();
    assert_eq!(level.flow.statistics.lock().executing_seats, 2);
    level.finish(key);
    assert_eq!(level.one("next", 1), Ok(None));
    assert_eq!(level.queues.next_release(), Some(Moment(40 * MILLISECOND)));
}

#[test]
fn cancelled_request_leaves_queue_to_others() {
    let mut level = Level::new(queuing(4, 1, 3), 1);
    let running = level.one("a", 0).unwrap().unwrap();
    for name in ["first", "second", "third"] {
        assert_eq!(level.one(name, 0), Ok(None));
    }
    let (_, second, _) = level.waiting.remove(1);
    level.finish(second);
    assert_eq!(level.queues.counts(), [2, 1]);
    assert_eq!(level.one("fourth", 0), Ok(None));
    level.finish(running);
    let mut order = Vec::new();
    while let Some((name, key)) = level.turns().pop() {
        order.push(name);
        level.finish(key);
    }
    assert_eq!(order, ["first", "third", "fourth"]);
    assert_eq!(level.flow.statistics.lock().rejected, [0, 0, 1]);
    assert!(level.queues.is_idle() && level.queues.queues.is_empty() && level.queues.filled.is_empty());
}

#[test]
fn more_seats_serve_those_that_wait_and_fewer_queues_drain() {
    let mut level = Level::new(queuing(8, 1, 10), 1);
    let running = level.one("a", 0).unwrap().unwrap();
    assert_eq!([level.one("b", 5), level.one("c", 6)], [Ok(None), Ok(None)]);
    level.queues.configure(queuing(2, 1, 10), 2, 2, Moment(0));
    assert_eq!(level.names(), ["b"]);
    level.finish(running);
    assert_eq!(level.names(), ["c"]);
    assert_eq!(level.queues.dump_queues().0, 2);
}

#[test]
fn progress_is_the_seats_that_each_busy_queue_is_due() {
    let mut level = Level::new(queuing(8, 1, 10), 2);
    for (name, hash) in [("a", 0), ("a", 0), ("b", 1), ("c", 2)] {
        let _ = level.one(name, hash);
    }
    // Two seats for three queues, for 30 ms.
    assert_eq!(
        level.queues.progress(Moment(30 * MILLISECOND)).to_string(),
        "0.02000000ss"
    );
}

#[test]
fn requests_are_dumped_with_their_places() {
    let mut level = Level::new(queuing(8, 1, 10), 1);
    for name in ["served", "first", "second"] {
        let _ = level.one(name, 3);
    }
    let dumps = level.queues.dump_requests();
    let shown: Vec<_> = dumps
        .iter()
        .map(|dump| (dump.details, dump.queue, dump.place))
        .collect();
    assert_eq!(
        shown,
        [
            ("first", Some(3), Some(0)),
            ("second", Some(3), Some(1)),
            ("served", Some(3), None)
        ]
    );
    assert!(dumps.iter().all(|dump| dump.started.is_some() == dump.place.is_none()));
}
