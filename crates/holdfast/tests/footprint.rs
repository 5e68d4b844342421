//! Files, threads and memory of servers inside the process of a test. It is the only test of its program, because it counts
//! what the whole process has.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast::Server;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};

/// Number of servers that run at the same time.
const SERVERS: u32 = 10;

/// Upper bounds. A build with optimizations stays below the documented 6 MB and 15 ms; other builds need more.
const MAX_BYTES_PER_SERVER: usize = if cfg!(debug_assertions) { 12 << 20 } else { 6 << 20 };
const MAX_GROWTH: usize = 16 << 20;

/// Returns the files that the process has open, without devices and sockets.
fn open_files() -> BTreeSet<PathBuf> {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|path| path.is_file()).collect()
}

fn number_of(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Returns the names of the threads that do not belong to the runtime of the test.
fn threads() -> BTreeSet<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| !name.starts_with("tokio")).collect()
}

/// Returns the resident memory of the process in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

async fn start_and_use() -> Server {
    let server = Server::builder().start().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.connection(), "default"));
    let named = serde_json::from_value(serde_json::json!({"metadata": {"name": "used"}})).unwrap();
    let made = config_maps.create(&PostParams::default(), &named).await.unwrap();
    assert_eq!(made.name_any(), "used");
    server
}

#[tokio::test]
async fn servers_leave_no_files_threads_or_memory() {
    let files = open_files();
    start_and_use().await.shutdown().await.unwrap();
    let (before, descriptors, others) = (resident(), number_of("/proc/self/fd"), threads());
    let (began, mut servers) = (Instant::now(), Vec::new());
    for _ in 0..SERVERS {
        servers.push(start_and_use().await);
    }
    let each = (
        resident().saturating_sub(before) / SERVERS as usize,
        began.elapsed() / SERVERS,
    );
    println!(
        "each of {SERVERS} servers: {} KB, start and first write {:?}",
        each.0 / 1024,
        each.1
    );
    assert_eq!(open_files(), files);
    assert!(each.0 <= MAX_BYTES_PER_SERVER, "{} bytes each", each.0);
    for server in servers {
        server.shutdown().await.unwrap();
    }
    for _ in 0..2 * SERVERS {
        start_and_use().await.shutdown().await.unwrap();
    }
    // The last connections close after their clients are dropped.
    let end = Instant::now() + Duration::from_secs(10);
    while number_of("/proc/self/fd") > descriptors && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(number_of("/proc/self/fd"), descriptors);
    assert_eq!(threads(), others);
    let grown = resident().saturating_sub(before + SERVERS as usize * each.0);
    assert!(
        grown <= MAX_GROWTH,
        "{grown} bytes more after {} further servers",
        2 * SERVERS
    );
    assert!(!Path::new("holdfast-data").exists(), "a data directory was created");
}
