//! Lifecycle and borrowing of levels, with a clock that only the test advances.

#![allow(clippy::unwrap_used, reason = "a failure here fails the test")]

use std::time::Duration;

use holdfast_authorization::{AUTHENTICATED, AccessTarget, MASTERS};

use super::*;
use crate::configuration::tests::object;
use crate::level::{Arrival, Execution, Start};
use crate::queues::Reason;
use crate::work::WorkEstimate;

#[derive(Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }
}

struct Server {
    fairness: Fairness<()>,
    clock: Arc<TestClock>,
}

/// Levels of the reference: shares, lent percentage, queues, hand.
const LEVELS: [(&str, i64, i64, u64, u64); 6] = [
    ("global-default", 20, 50, 128, 6),
    ("leader-election", 10, 0, 16, 4),
    ("node-high", 40, 25, 64, 6),
    ("system", 30, 33, 64, 6),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
];

fn level(name: &str, shares: i64, lent: i64, queues: u64, hand: u64) -> LevelSpec {
    let response = format!(
        "limitResponse: {{type: Queue, queuing: {{queues: {queues}, handSize: {hand}, queueLengthLimit: 50}}}}"
    );
    LevelSpec::read(&object(&format!(
        "{{metadata: {{name: {name}, uid: of-{name}}}, spec: {{type: Limited, limited: {{nominalConcurrencyShares: {shares}, \
         lendablePercent: {lent}, {response}}}}}}}"
    )))
    .unwrap()
}

fn schema(name: &str, level: &str, precedence: i64, user: &str) -> SchemaSpec {
    SchemaSpec::read(&object(&format!(
        "{{metadata: {{name: {name}, uid: of-{name}}}, spec: {{priorityLevelConfiguration: {{name: {level}}}, matchingPrecedence: \
         {precedence}, distinguisherMethod: {{type: ByUser}}, rules: [{{subjects: [{{kind: User, user: {{name: '{user}'}}}}], \
         nonResourceRules: [{{verbs: ['*'], nonResourceURLs: ['*']}}]}}]}}}}"
    )))
    .unwrap()
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        groups: vec![AUTHENTICATED.into()],
        ..User::default()
    }
}

const VERSION: Attributes<'_> = Attributes {
    verb: "get",
    target: AccessTarget::Path("/version"),
};

impl Server {
    fn new(limit: u64, levels: Vec<LevelSpec>, schemas: Vec<SchemaSpec>) -> Self {
        let clock = Arc::new(TestClock::default());
        let fairness = Fairness::new(limit, Arc::clone(&clock) as Arc<dyn Clock>);
        fairness.configure(levels, schemas);
        Self { fairness, clock }
    }

    fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }

    fn names(&self, name: &str) -> (SmolStr, SmolStr) {
        let schema = self.fairness.classify(&user(name), &VERSION).unwrap();
        (schema.name().clone(), schema.level().clone())
    }

    fn start(&self, name: &str) -> Start<()> {
        let schema = self.fairness.classify(&user(name), &VERSION).unwrap();
        schema.start(Arrival {
            user: &name.into(),
            namespace: &SmolStr::default(),
            estimate: WorkEstimate::seats(1),
            watchers: None,
            mutates: false,
            watch: false,
            details: (),
        })
    }

    fn serve(&self, name: &str) -> Option<Execution<()>> {
        match self.start(name) {
            Start::Executes(execution) => Some(execution),
            _ => None,
        }
    }

    /// Returns the nominal, minimum, maximum and current seats.
    fn limits(&self, level: &str) -> [u64; 4] {
        let statistics = self.fairness.statistics();
        let found = statistics.levels.iter().find(|known| known.name == level);
        found.map(|level| level.limits).unwrap_or_default()
    }
}

fn reference_levels() -> Vec<LevelSpec> {
    LEVELS
        .map(|(name, shares, lent, queues, hand)| level(name, shares, lent, queues, hand))
        .to_vec()
}

#[test]
fn the_levels_of_the_reference_have_the_seats_of_the_reference() {
    let server = Server::new(600, reference_levels(), Vec::new());
    for (name, limits) in [
        ("catch-all", [13, 13, 613, 30]),
        ("exempt", [0, 0, 600, 0]),
        ("global-default", [49, 24, 649, 56]),
        ("leader-election", [25, 25, 625, 58]),
        ("node-high", [98, 73, 698, 170]),
        ("system", [74, 50, 674, 117]),
        ("workload-high", [98, 49, 698, 114]),
        ("workload-low", [245, 24, 845, 56]),
    ] {
        assert_eq!(server.limits(name), limits, "{name}");
    }
    assert_eq!((server.fairness.statistics().fair_fraction * 1e6).round(), 2_333_333.0);
}

#[test]
fn request_seats_are_limited_to_part_of_level() {
    let schemas = vec![
        schema("low", "workload-low", 100, "low"),
        schema("lead", "leader-election", 100, "lead"),
    ];
    let server = Server::new(600, reference_levels(), schemas);
    let seats = |name: &str| server.fairness.classify(&user(name), &VERSION).unwrap().max_seats();
    assert_eq!((seats("low"), seats("lead"), seats("x")), (37, 4, 0));
}

#[test]
fn schemas_are_tried_by_precedence_and_then_by_name() {
    let schemas = vec![
        schema("b", "system", 100, "*"),
        schema("a", "system", 100, "u"),
        schema("z", "system", 50, "v"),
    ];
    let server = Server::new(600, reference_levels(), schemas);
    assert_eq!(server.names("u").0, "a");
    assert_eq!(server.names("v").0, "z");
    assert_eq!(server.names("x").0, "b");
}

#[test]
fn schemas_without_a_level_are_not_tried() {
    let schemas = vec![schema("dangling", "nowhere", 1, "*")];
    let server = Server::new(600, reference_levels(), schemas.clone());
    assert_eq!(server.names("u"), ("catch-all".into(), "catch-all".into()));
    let mut levels = reference_levels();
    levels.push(level("nowhere", 10, 0, 8, 2));
    server.fairness.configure(levels, schemas);
    assert_eq!(server.names("u"), ("dangling".into(), "nowhere".into()));
}

#[test]
fn the_mandatory_levels_and_schemas_are_always_there() {
    let server = Server::new(10, Vec::new(), Vec::new());
    let admin = User {
        groups: vec![MASTERS.into(), AUTHENTICATED.into()],
        ..user("admin")
    };
    let schema = server.fairness.classify(&admin, &VERSION).unwrap();
    assert_eq!((schema.name().as_str(), schema.level().as_str()), ("exempt", "exempt"));
    assert_eq!(server.names("u"), ("catch-all".into(), "catch-all".into()));
    // A user without groups matches the catch-all, too.
    let schema = server.fairness.classify(&User::default(), &VERSION).unwrap();
    assert_eq!(schema.name(), "catch-all");
}

#[test]
fn full_level_without_queues_rejects() {
    let server = Server::new(3, Vec::new(), Vec::new());
    let served: Vec<_> = (0..3).map(|_| server.serve("u")).collect();
    assert!(served.iter().all(Option::is_some));
    assert!(matches!(server.start("u"), Start::Rejected(Reason::ConcurrencyLimit)));
    drop(served);
    assert!(server.serve("u").is_some());
}

#[test]
fn a_level_borrows_what_others_lend_and_gives_it_back() {
    let levels = vec![level("busy", 45, 0, 8, 2), level("idle", 50, 80, 8, 2)];
    let server = Server::new(100, levels, vec![schema("busy", "busy", 100, "u")]);
    assert_eq!(server.limits("busy")[..3], [45, 45, 145]);
    assert_eq!(server.limits("idle")[..2], [50, 10]);
    let starts: Vec<_> = (0..200).map(|_| server.start("u")).collect();
    let served = |starts: &[Start<()>]| {
        starts
            .iter()
            .filter(|start| matches!(start, Start::Executes(_)))
            .count()
    };
    assert!(served(&starts) < 100);
    server.pass(Duration::from_secs(10));
    server.fairness.adjust();
    let [_, _, _, current] = server.limits("busy");
    assert!(current > 80, "{current}");
    // The waiting requests were executed in its place.
    let dump = server.fairness.dump();
    let busy = dump.iter().find(|level| level.name == "busy").unwrap();
    assert_eq!(busy.counts[1], current);
    drop(starts);
    for _ in 0..2 {
        server.pass(Duration::from_secs(10));
        server.fairness.adjust();
    }
    // Demand is remembered for a while, but a level that needs its own seats gets them back at once.
    assert_eq!(
        server.limits("idle")[3] + server.limits("busy")[3] + server.limits("catch-all")[3],
        100
    );
}

#[test]
fn lending_and_borrowing_respect_limits() {
    let mut busy = level("busy", 45, 0, 8, 2);
    busy.borrowing_limit_percent = Some(20);
    let server = Server::new(
        100,
        vec![busy, level("idle", 50, 80, 8, 2)],
        vec![schema("busy", "busy", 100, "u")],
    );
    let _starts: Vec<_> = (0..200).map(|_| server.start("u")).collect();
    server.pass(Duration::from_secs(10));
    server.fairness.adjust();
    assert_eq!(server.limits("busy"), [45, 45, 54, 54]);
    assert!(server.limits("idle")[3] >= 10);
}

#[test]
fn exempt_level_takes_seats_from_lenders() {
    let server = Server::new(100, vec![level("a", 95, 50, 8, 2)], Vec::new());
    let admin = User {
        groups: vec![MASTERS.into()],
        ..user("admin")
    };
    let schema = server.fairness.classify(&admin, &VERSION).unwrap();
    let arrival = || Arrival {
        user: &admin.name,
        namespace: &admin.uid,
        estimate: WorkEstimate::seats(1),
        watchers: None,
        mutates: true,
        watch: false,
        details: (),
    };
    let _served: Vec<_> = (0..70).map(|_| schema.start(arrival())).collect();
    server.pass(Duration::from_secs(10));
    server.fairness.adjust();
    assert_eq!((server.limits("exempt")[3], server.limits("a")[3]), (70, 47));
}

#[tokio::test]
async fn a_level_that_is_gone_serves_those_that_wait_to_the_last() {
    let schemas = vec![schema("s", "old", 100, "u")];
    let server = Server::new(10, vec![level("old", 1, 0, 4, 1)], schemas.clone());
    let limit = server.limits("old")[3] as usize;
    let served: Vec<_> = (0..limit).map(|_| server.serve("u").unwrap()).collect();
    let Start::Waits(waiting) = server.start("u") else {
        panic!("there is a seat")
    };
    server.fairness.configure(Vec::new(), schemas);
    assert_eq!(server.names("u").1, "catch-all");
    let quiescing = |server: &Server| server.fairness.dump().iter().filter(|level| level.quiescing).count();
    assert_eq!(quiescing(&server), 1);
    drop(served);
    let last = waiting.turn().await;
    server.fairness.refresh();
    assert_eq!(quiescing(&server), 1);
    drop(last);
    server.fairness.has_work().await;
    server.fairness.refresh();
    assert!(!server.fairness.dump().iter().any(|level| level.name == "old"));
}

#[tokio::test]
async fn cancelled_waiter_frees_slot_and_counts_as_timeout() {
    let server = Server::new(10, vec![level("l", 5, 0, 4, 1)], vec![schema("s", "l", 100, "u")]);
    let limit = server.limits("l")[3] as usize;
    let served: Vec<_> = (0..limit).map(|_| server.serve("u").unwrap()).collect();
    let Start::Waits(waiting) = server.start("u") else {
        panic!("there is a seat")
    };
    let mut turn = Box::pin(waiting.turn());
    assert!(at_once(turn.as_mut()).await.is_none());
    drop(turn);
    drop(served);
    let statistics = server.fairness.statistics();
    let level = statistics.levels.iter().find(|level| level.name == "l").unwrap();
    let (_, flow) = level.flows.first().unwrap();
    assert_eq!(
        (flow.rejected, flow.queued_requests, flow.executing_seats),
        ([0, 0, 1], 0, 0)
    );
    assert_eq!(flow.dispatched, limit as u64);
    assert!(statistics.now.iter().all(|(_, _, count)| *count == 0));
}

/// Polls a future once and returns its output if it is ready.
async fn at_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn seats_come_back_when_a_request_panics() {
    let server = Server::new(1, Vec::new(), Vec::new());
    let schema = server.fairness.classify(&user("u"), &VERSION).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _served = server.serve("u").unwrap();
        panic!("a fault");
    }));
    assert!(outcome.is_err());
    assert!(server.serve("u").is_some(), "{}", schema.name());
}

#[test]
fn a_request_gives_its_seats_back_while_its_body_comes() {
    let server = Server::new(1, Vec::new(), Vec::new());
    let paused = server.serve("u").unwrap().pause().unwrap();
    let other = server.serve("v").unwrap();
    let Start::Rejected(_) = paused.resume() else {
        panic!("there are seats")
    };
    let paused = other.pause().unwrap();
    assert!(matches!(paused.resume(), Start::Executes(_)));
}

/// Real clock as in a server.
struct RealClock(std::time::Instant);

impl Clock for RealClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed().as_nanos() as u64)
    }
}

#[test]
#[ignore = "measures times: build it with optimisations, and read what it prints"]
fn figures_of_an_uncontended_request() {
    const TIMES: u32 = 1_000_000;
    let levels = reference_levels();
    // As many schemas as every server has; the last one matches.
    let mut schemas: Vec<SchemaSpec> = (0..10)
        .map(|number| schema(&format!("s{number}"), "system", 100 + number, &format!("u{number}")))
        .collect();
    schemas.push(schema("all", "global-default", 9900, "*"));
    let fairness = Fairness::new(600, Arc::new(RealClock(std::time::Instant::now())));
    fairness.configure(levels, schemas);
    let alice = user("alice");
    let begun = std::time::Instant::now();
    for _ in 0..TIMES {
        let schema = fairness.classify(&alice, &VERSION).unwrap();
        let start = schema.start(Arrival {
            user: &alice.name,
            namespace: &alice.uid,
            estimate: WorkEstimate::seats(1),
            watchers: None,
            mutates: false,
            watch: false,
            details: (),
        });
        assert!(matches!(start, Start::Executes(_)));
    }
    eprintln!("{:?} for a request", begun.elapsed() / TIMES);
}
