//! Kills the process at random moments under concurrent writers.
//!
//! The test runs itself again as a child process, which writes and prints the acknowledged writes to its standard
//! output. After the kill every acknowledged write must be present, and every other write must be present completely or
//! not at all.
use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use holdfast_store::{Config, EventKind, Op, Revision, Revisions, Store, Transaction, Value};

const WRITERS: usize = 12;
/// Number of keys of each writer's ring.
const KEYS: u64 = 5;
const DIRECTORY: &str = "STORE_CRASH_DIRECTORY";
const STARTS: &str = "STORE_CRASH_STARTS";

/// Returns the `n`th transaction of a writer: a key of its ring and its progress, and often a third key; some deletes,
/// some values of several pages.
fn transaction(writer: usize, n: u64) -> Vec<(String, Option<String>)> {
    let key = |at: u64| format!("/registry/pods/w{writer}/k{}", at % KEYS);
    let size = [10, 900, 3_000, 4_100, 20_000][(n % 5) as usize];
    let text = format!("{writer}:{n}:{}", "x".repeat(size));
    let mut ops = vec![(format!("/registry/progress/w{writer}"), Some(n.to_string()))];
    ops.push((key(n), (n % 4 != 3).then_some(text)));
    if n.is_multiple_of(2) {
        ops.push((key(n + 2), Some(format!("{writer}:{n}:second"))));
    }
    ops
}

/// The child process: writes until it is killed. Does nothing when run as a test.
#[test]
#[ignore = "the child process of the kill tests"]
fn child() {
    let Ok(directory) = env::var(DIRECTORY) else { return };
    let starts: Vec<u64> = env::var(STARTS)
        .unwrap()
        .split(',')
        .map(|start| start.parse().unwrap())
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .unwrap();
    let store = Arc::new(Store::open(Config::new(directory), ()).unwrap());
    let write = async |writer: usize, start: u64| {
        for n in start.. {
            let ops = transaction(writer, n).into_iter().map(|(key, text)| match text {
                Some(text) => Op::Put {
                    key: key.into(),
                    value: Value::plain(text),
                    index: None,
                },
                None => Op::Delete {
                    key: key.into(),
                    last: None,
                },
            });
            let committed = store
                .commit(Transaction {
                    guards: Vec::new(),
                    ops: ops.collect(),
                    revisions: match writer % 2 {
                        0 => Revisions::Shared,
                        _ => Revisions::Consecutive,
                    },
                })
                .await
                .unwrap();
            let acknowledged = format!("acknowledged {writer} {n} {}\n", committed.revision);
            std::io::stdout().write_all(acknowledged.as_bytes()).unwrap();
        }
    };
    runtime.block_on(all_of(
        starts
            .into_iter()
            .enumerate()
            .map(|(writer, start)| write(writer, start)),
    ));
}

async fn all_of(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Moment at which a child is killed.
#[derive(Clone, Copy)]
enum Moment {
    OfStart(Duration),
    OfWriting(Duration),
}

/// KnownContent content of the store between rounds.
struct KnownContent {
    /// Next transaction of each writer.
    next: Vec<u64>,
    revision: Revision,
    contents: BTreeMap<String, String>,
}

/// Starts a child and kills it some time after its start or after its first acknowledged write. Returns the last
/// acknowledged transaction of each writer and its revision.
fn write_and_kill(directory: &Path, known: &KnownContent, moment: Moment) -> BTreeMap<usize, (u64, Revision)> {
    let starts: Vec<String> = known.next.iter().map(u64::to_string).collect();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(STARTS, starts.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    // A separate thread reads the output, so that the kill happens on time and not when a line arrives.
    let (first, wrote) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = BTreeMap::new();
        // The kill may truncate the last line.
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["acknowledged", writer, n, revision] = words[..]
                && let (Ok(writer), Ok(n), Ok(revision)) = (writer.parse(), n.parse(), revision.parse())
            {
                acknowledged.insert(writer, (n, revision));
                let _ = first.send(());
            }
        }
        acknowledged
    });
    let after = match moment {
        Moment::OfStart(after) => after,
        Moment::OfWriting(after) => {
            wrote.recv().unwrap();
            after
        }
    };
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Opens the store of the killed child, and compares it with the acknowledged writes.
fn check(directory: &Path, known: &mut KnownContent, acknowledged: &BTreeMap<usize, (u64, Revision)>) {
    let store = Store::open(Config::new(directory), ()).unwrap();
    let snapshot = store.snapshot();
    let newest = acknowledged.values().map(|(_, revision)| *revision).max().unwrap_or(0);
    assert!(store.revision() >= newest.max(known.revision), "revisions went back");

    // The events since the last round transform the previous content to the present one.
    let mut watcher = store.watch("/", known.revision).unwrap();
    let mut events: BTreeMap<Revision, Vec<(String, EventKind)>> = BTreeMap::new();
    while let Some(event) = watcher.try_next().unwrap() {
        let text = String::from_utf8(event.current().bytes().to_vec()).unwrap();
        let key = event.key().to_string();
        let previous = match event.kind() {
            EventKind::Put => known.contents.insert(key.clone(), text),
            EventKind::Delete => known.contents.remove(&key),
        };
        let shown = event
            .previous()
            .map(|entry| String::from_utf8(entry.bytes().to_vec()).unwrap());
        assert_eq!(shown, previous, "{key} at {}", event.revision());
        events.entry(event.revision()).or_default().push((key, event.kind()));
    }
    let contents: BTreeMap<String, String> = snapshot
        .range(b"/")
        .map(|entry| {
            (
                entry.key().to_string(),
                String::from_utf8(entry.bytes().to_vec()).unwrap(),
            )
        })
        .collect();
    assert_eq!(contents, known.contents, "the log and the state differ");
    assert!(
        (known.revision + 1..=store.revision()).eq(events.keys().copied()),
        "a revision has no events"
    );

    for writer in 0..WRITERS {
        let progress = contents.get(&format!("/registry/progress/w{writer}"));
        let next = progress.map_or(0, |n| n.parse::<u64>().unwrap() + 1);
        let first = known.next[writer];
        let sure = acknowledged.get(&writer).map_or(first, |(n, _)| n + 1);
        // One transaction may have been durable but not acknowledged yet.
        assert!(
            next == sure || next == sure + 1,
            "writer {writer} saw {sure} acknowledged, and {next} are there"
        );
        // No transaction is present in part: the writer's keys are those that its transactions leave, one after the
        // other.
        let mut keys = BTreeMap::new();
        for n in next.saturating_sub(4 * KEYS)..next {
            for (key, text) in transaction(writer, n).into_iter().skip(1) {
                keys.insert(key, text);
            }
        }
        for (key, text) in keys {
            assert_eq!(contents.get(&key), text.as_ref(), "{key} after {next} transactions");
        }
        if let Some((n, revision)) = acknowledged.get(&writer) {
            let written: Vec<_> = transaction(writer, *n).into_iter().map(|(key, _)| key).collect();
            let of_revision = events.get(revision).map(Vec::as_slice).unwrap_or_default();
            assert!(!of_revision.is_empty(), "revision {revision} is gone");
            assert!(
                of_revision.iter().all(|(key, _)| written.contains(key)),
                "revision {revision} is another's"
            );
        }
        known.next[writer] = next;
    }
    known.revision = store.revision();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.close()).unwrap();
}

fn rounds(count: u32) {
    let directory = tempfile::tempdir().unwrap();
    let mut known = KnownContent {
        next: vec![0; WRITERS],
        revision: 1,
        contents: BTreeMap::new(),
    };
    let started = Instant::now();
    let mut total = 0;
    for round in 0..count {
        // Both while the child opens the store and well into its work.
        let after = Duration::from_micros(1_000 + without_pattern(round) % 150_000);
        let moment = if round % 4 == 3 {
            Moment::OfStart(after)
        } else {
            Moment::OfWriting(after)
        };
        let acknowledged = write_and_kill(directory.path(), &known, moment);
        let before: u64 = known.next.iter().sum();
        check(directory.path(), &mut known, &acknowledged);
        total += known.next.iter().sum::<u64>() - before;
    }
    println!(
        "{count} rounds, {total} transactions, {:.1} s",
        started.elapsed().as_secs_f32()
    );
    assert!(total > 0, "no child wrote anything");
}

/// Moments must differ; the machine's own noise adds the rest.
fn without_pattern(round: u32) -> u64 {
    RandomState::new().hash_one(round)
}

#[test]
fn acknowledged_writes_survive_kills() {
    rounds(5);
}

#[test]
#[ignore = "slow: 100 rounds of writing and killing"]
fn acknowledged_writes_survive_a_hundred_kills() {
    rounds(100);
}
