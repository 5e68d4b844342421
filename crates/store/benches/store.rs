//! Benchmarks of the embedded store: `cargo bench -p holdfast-store`. This is a plain program without a benchmark
//! framework, because it measures the processor time and memory of the whole process and the duration of single events
//! such as opening.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_store::{Config, Store, Transaction, Value};
use tokio::runtime::Runtime;

const VALUE: usize = 3_000;
const FILL: &str = "STORE_BENCH_FILL";
const OPEN: &str = "STORE_BENCH_OPEN";

fn main() {
    if let Ok(directory) = std::env::var(FILL) {
        return fill_and_be_killed(Path::new(&directory));
    }
    if let Ok(directory) = std::env::var(OPEN) {
        return open_and_measure(Path::new(&directory));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    println!("writes of {VALUE} bytes to 10,000 keys");
    for writers in [1, 16, 64] {
        writes(&runtime, writers);
    }
    fan_out(&runtime);
    for objects in [10_000, 100_000] {
        opening(&runtime, objects);
    }
    flatness(&runtime);
}

/// Returns an object's text with the offset of its revision.
fn object(n: u64) -> Value {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let mut text = format!(r#"{head}","name":"p{n}"}},"spec":""#);
    text.extend(std::iter::repeat_n('x', VALUE.saturating_sub(text.len() + 2)));
    text.push_str("\"}");
    Value::object(text, head.len() as u32)
}

fn key(n: u64) -> String {
    format!("/registry/pods/namespace-{}/pod-{n:08}", n % 100)
}

/// Returns the processor time of this process.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Returns the processor time of this thread, to the nanosecond.
fn thread_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Returns a kB value of `/proc/self/…` in MB.
fn megabytes(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e3
}

fn resident() -> f64 {
    megabytes("status", "VmRSS:")
}

fn disk_written() -> f64 {
    megabytes("io", "write_bytes:") / 1e3
}

fn open(directory: &Path) -> Arc<Store<()>> {
    Arc::new(Store::open(Config::new(directory), ()).unwrap())
}

fn put(n: u64) -> Transaction<()> {
    Transaction::new().put(key(n), object(n))
}

/// Creates this range of objects with many writers.
fn fill(runtime: &Runtime, store: &Arc<Store<()>>, objects: std::ops::Range<u64>) {
    let next = Arc::new(AtomicU64::new(objects.start));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..256)
            .map(|_| {
                let (store, next, end) = (store.clone(), next.clone(), objects.end);
                tokio::spawn(async move {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= end {
                            return;
                        }
                        store.commit(put(n)).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn writes(runtime: &Runtime, writers: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    fill(runtime, &store, 0..10_000);
    let (started, cpu_before, disk_before) = (Instant::now(), cpu(), disk_written());
    let mut latencies: Vec<Duration> = runtime.block_on(async {
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    let mut n = writer * 1_000;
                    while started.elapsed() < Duration::from_secs(3) {
                        let begun = Instant::now();
                        n = (n + 1) % 10_000;
                        store.commit(put(n)).await.unwrap();
                        latencies.push(begun.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        all
    });
    let (elapsed, used) = (started.elapsed(), cpu() - cpu_before);
    let count = latencies.len();
    latencies.sort_unstable();
    let micros = |part: usize| latencies[(count * part / 1000).min(count - 1)].as_micros();
    println!(
        "  {writers:3} writers: {:7.0} writes/s, p50 {:6} µs, p99 {:6} µs, max {:6} µs, {:5.1} µs CPU a write, \
         {:.1} bytes written a byte, file {} MB, wal {} MB",
        count as f64 / elapsed.as_secs_f64(),
        micros(500),
        micros(990),
        micros(1000),
        used.as_secs_f64() * 1e6 / count as f64,
        (disk_written() - disk_before) * 1e6 / (count * VALUE) as f64,
        size(&directory.path().join("store.db")),
        size(&directory.path().join("store.db-wal")),
    );
    runtime.block_on(store.close()).unwrap();
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.len() >> 20)
}

/// Measures 1,000 watchers of one prefix, and 10,000 watchers of other prefixes, which must cost nothing.
fn fan_out(runtime: &Runtime) {
    const WATCHERS: u64 = 1_000;
    const EVENTS: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let before = resident();
    let idle: Vec<_> = (0..10_000)
        .map(|n| {
            let mut watcher = store.watch(format!("/registry/secrets/namespace-{n}/"), 1).unwrap();
            runtime.spawn(async move { watcher.next().await.map(drop) })
        })
        .collect();
    println!("10,000 idle watchers in tasks: {:.1} MB", resident() - before);
    for watchers in [0, WATCHERS] {
        let tasks: Vec<_> = (0..watchers)
            .map(|_| {
                let mut watcher = store.watch("/registry/pods/", store.revision()).unwrap();
                runtime.spawn(async move {
                    for _ in 0..EVENTS {
                        black_box(watcher.next().await.unwrap());
                    }
                })
            })
            .collect();
        let (started, used) = (Instant::now(), cpu());
        runtime.block_on(async {
            for n in 0..EVENTS {
                store.commit(put(n)).await.unwrap();
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
        let (elapsed, used) = (started.elapsed(), cpu() - used);
        println!(
            "  {EVENTS} writes seen by {watchers:4} watchers (and 10,000 idle ones): {:6.0} µs each, {:6.0} µs CPU each",
            elapsed.as_secs_f64() * 1e6 / EVENTS as f64,
            used.as_secs_f64() * 1e6 / EVENTS as f64,
        );
    }
    runtime.block_on(store.close()).unwrap();
    for task in idle {
        let _ = runtime.block_on(task);
    }
}

fn opening(runtime: &Runtime, objects: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    fill(runtime, &store, 0..objects);
    runtime.block_on(store.close()).unwrap();
    drop(store);
    println!(
        "opening {objects} objects ({} MB on disk)",
        size(&directory.path().join("store.db"))
    );
    println!("  clean:");
    for _ in 0..3 {
        run_self(OPEN, directory.path());
    }
    let store = open(directory.path());
    reads(&store, objects);
    runtime.block_on(store.close()).unwrap();
    drop(store);
    assert!(!run_self(FILL, directory.path()), "the child was to be killed");
    println!(
        "  after 10,000 updates and a kill (wal {} MB):",
        size(&directory.path().join("store.db-wal"))
    );
    run_self(OPEN, directory.path());
}

/// Runs one task of this program in a separate process.
fn run_self(task: &str, directory: &Path) -> bool {
    Command::new(std::env::current_exe().unwrap())
        .env(task, directory)
        .status()
        .unwrap()
        .success()
}

/// Opens a store in a fresh process.
fn open_and_measure(directory: &Path) {
    let before = resident();
    let (started, used) = (Instant::now(), thread_cpu());
    let store = open(directory);
    let (opened, used) = (started.elapsed(), thread_cpu() - used);
    println!(
        "    {:6.1} ms ({:.1} ms CPU), {:.1} MB resident, {before:.1} MB before, at revision {} of {} objects",
        opened.as_secs_f64() * 1e3,
        used.as_secs_f64() * 1e3,
        resident(),
        store.revision(),
        store.snapshot().len()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.close()).unwrap();
}

/// Updates 10,000 objects and ends without closing the store.
fn fill_and_be_killed(directory: &Path) {
    let runtime = Runtime::new().unwrap();
    let store = open(directory);
    fill(&runtime, &store, 0..10_000);
    std::process::abort();
}

fn reads(store: &Store<()>, objects: u64) {
    let nanos = |started: Instant, count: u64| started.elapsed().as_secs_f64() * 1e9 / count as f64;
    let started = Instant::now();
    for _ in 0..1_000_000 {
        black_box(store.snapshot());
    }
    let snapshot_cost = nanos(started, 1_000_000);
    let snapshot = store.snapshot();
    let keys: Vec<String> = (0..10_000).map(|n| key(n * 7_919 % objects)).collect();
    let started = Instant::now();
    for key in &keys {
        black_box(snapshot.get(key.as_bytes()).unwrap());
    }
    let get_cost = nanos(started, 10_000);
    let started = Instant::now();
    let mut count = 0;
    for entry in snapshot.range(b"/registry/pods/") {
        black_box(entry.bytes().len());
        count += 1;
    }
    let range_cost = nanos(started, count);
    let started = Instant::now();
    black_box(
        snapshot
            .range_from(b"/registry/pods/", b"/registry/pods/namespace-5")
            .count(),
    );
    let count_cost = started.elapsed();
    let past = store.revision() - 5_000;
    let started = Instant::now();
    let at = store.snapshot_at(past).map(|snapshot| snapshot.revision());
    println!(
        "  snapshot {snapshot_cost:.0} ns, get {get_cost:.0} ns, range {range_cost:.0} ns an entry, count after half {count_cost:?}, \
         snapshot 5,000 revisions back {:?} ({at:?})",
        started.elapsed()
    );
}

/// Checks that a write costs the same for any number of objects.
fn flatness(runtime: &Runtime) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut filled = 0;
    println!("one thousand updates by 16 writers beside so many objects");
    for objects in [1_000, 10_000, 100_000] {
        fill(runtime, &store, filled..objects);
        filled = objects;
        let (started, used) = (Instant::now(), cpu());
        for _ in 0..10 {
            fill(runtime, &store, 0..1_000);
        }
        println!(
            "  {objects:7}: {:5.1} µs CPU a write, {:5.0} writes/s",
            (cpu() - used).as_secs_f64() * 1e6 / 10_000.0,
            10_000.0 / started.elapsed().as_secs_f64()
        );
    }
    runtime.block_on(store.close()).unwrap();
}
