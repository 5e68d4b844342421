//! Figures at scale: long lists, many watchers, large stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use conformance::hog::BusyLoops;
use conformance::{Binary, Connection, Http2, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;
use tokio::task::JoinSet;

use super::pods::{self, Filling, LARGE, SMALL};
use super::{Row, megabytes, millis, quantile, row};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const MERGE: &str = "application/merge-patch+json";

/// Number of pods in the small namespace, and in all.
const FEW: usize = 10_000;
const MANY: usize = 100_000;

/// Flag that disables the garbage collector: the owner of the pods does not exist, so it would delete them while they
/// are listed.
const NO_COLLECTOR: [&str; 1] = ["--controllers=*,-garbage-collector-controller"];

/// Duration of timed writes, without and with a concurrent list.
const TIMED: Duration = Duration::from_secs(5);

/// Number of watches on one connection: fewer than the 250 that the server allows.
const STREAMS: usize = 200;

/// Measures all rows. `million` includes the write at a million objects, whose preparation lasts minutes.
pub(super) async fn rows(binary: &Binary, million: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    with_many_pods(binary, &mut rows).await?;
    fan_out(binary, 1_000, &mut rows).await?;
    idle_watches(binary, 10_000, &mut rows).await?;
    let sizes: &[usize] = if million {
        &[1_000, 100_000, 1_000_000]
    } else {
        &[1_000, 100_000]
    };
    for objects in sizes {
        write_cost(binary, *objects, &mut rows).await?;
    }
    Ok(rows)
}

async fn with_many_pods(binary: &Binary, rows: &mut Vec<Row>) -> Result<()> {
    let mut server = Server::start(binary, &NO_COLLECTOR)?;
    let pattern = pods::pod_pattern(&server).await?;
    server.end();
    let counts = [(SMALL, FEW), (LARGE, MANY - FEW)];
    let filling = Filling {
        prefix: "/registry/pods/",
        pattern: &pattern,
        counts: &counts,
    };
    let bytes = pods::fill(&server.data_dir(), &filling).await?;
    let begin = Instant::now();
    let server = server.restart(&NO_COLLECTOR)?;
    let title = format!("start to ready with 100,000 pods of {} bytes", bytes / MANY);
    rows.push(row(&title, &millis(begin.elapsed()), "", ""));
    let limit = bytes as f64 * 1.1;
    rows.push(row(
        &format!("memory, 100,000 pods ({} of JSON)", megabytes(bytes as u64)),
        &megabytes(server.memory()?),
        "",
        &format!("≤ {}", megabytes(limit as u64)),
    ));
    let target = Target::new(&server)?;
    for (count, path) in [
        ("10,000", format!("/api/v1/namespaces/{SMALL}/pods")),
        ("100,000", "/api/v1/pods".to_owned()),
    ] {
        for (form, accept) in [("JSON", JSON), ("Table", TABLE), ("metadata only", METADATA)] {
            let cpu = list(&target, &server, &path, accept).await?;
            rows.push(row(
                &format!("list of {count} pods, {form}, server CPU"),
                &millis(cpu),
                "",
                if (count, form) == ("10,000", "Table") {
                    "≤ 250 ms"
                } else {
                    ""
                },
            ));
        }
    }
    let peak = megabytes(server.memory()?);
    rows.push(row("memory after these lists", &peak, "", ""));
    let cpu = paged(&target, &server).await?;
    rows.push(row(
        "list of 100,000 pods in chunks of 500, server CPU",
        &millis(cpu),
        "",
        "",
    ));
    writes_beside_a_list(&target, rows).await
}

/// Returns the processor time of the server for a list.
async fn list(target: &Target, server: &Server, path: &str, accept: &str) -> Result<Duration> {
    let mut connection = target.connect().await?;
    let cpu = server.cpu()?;
    drain(&mut connection, path, accept).await?;
    Ok(server.cpu()? - cpu)
}

/// Reads a response to its end without storing it. Returns its length.
async fn drain(connection: &mut Connection, path: &str, accept: &str) -> Result<usize> {
    let answer = connection.get(path, accept).await?;
    ensure!(answer.status().is_success(), "{path}: {}", answer.status());
    let (mut body, mut bytes) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(bytes)
}

async fn paged(target: &Target, server: &Server) -> Result<Duration> {
    let mut connection = target.connect().await?;
    let (cpu, mut token) = (server.cpu()?, String::new());
    loop {
        let path = format!("/api/v1/pods?limit=500&continue={token}");
        let page = connection.send(Method::GET, &path, "", Bytes::new()).await?;
        // The token is in the metadata, which precedes the items.
        let head = String::from_utf8_lossy(&page[..page.len().min(1000)]).into_owned();
        let Some((_, rest)) = head.split_once("\"continue\":\"") else {
            break;
        };
        token = rest.split('"').next().unwrap_or_default().to_owned();
    }
    Ok(server.cpu()? - cpu)
}

async fn writes_beside_a_list(target: &Target, rows: &mut Vec<Row>) -> Result<()> {
    let path = format!("/api/v1/namespaces/{LARGE}/configmaps");
    let mut writer = target.connect().await?;
    writer
        .send(Method::POST, &path, JSON, pods::config_map("timed", 0))
        .await?;
    let path = format!("{path}/timed");
    timed(&mut writer, &path, Duration::from_secs(1)).await?;
    let alone = timed(&mut writer, &path, TIMED).await?;
    let busy = BusyLoops::start();
    let loops = timed(&mut writer, &path, TIMED).await?;
    drop(busy);
    let lists = list_again_and_again(target)?;
    let beside = timed(&mut writer, &path, TIMED).await?;
    ensure!(lists.end()?, "no list of 100,000 streamed during the writes");
    let [alone, loops, beside] = [&alone, &loops, &beside].map(|times| quantile(times, 0.99));
    let target = format!("≤ {}", millis(alone * 2));
    rows.push(row("write with 100,000 pods, p99", &millis(alone), "", ""));
    let title = "write with a busy loop on each processor, p99";
    rows.push(row(title, &millis(loops), "", ""));
    let title = "write while a list of 100,000 pods streams, p99";
    rows.push(row(title, &millis(beside), "", &target));
    Ok(())
}

/// Lists that stream one after the other until this ends.
struct Lists {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<bool>>,
}

/// Lists all pods repeatedly on a separate thread, so that reading a list does not delay the timed writes on this one.
fn list_again_and_again(target: &Target) -> Result<Lists> {
    let ended = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (target, until) = (target.clone(), Arc::clone(&ended));
    let thread = std::thread::spawn(move || {
        runtime.block_on(async {
            let mut reader = target.connect().await?;
            let mut streamed = false;
            while !until.load(Ordering::Relaxed) {
                let answer = reader.get("/api/v1/pods", JSON).await?;
                let mut body = answer.into_body();
                while let Some(frame) = body.frame().await {
                    streamed |= frame?.data_ref().is_some_and(|data| !data.is_empty());
                    if until.load(Ordering::Relaxed) {
                        return Ok(streamed);
                    }
                }
            }
            Ok(streamed)
        })
    });
    Ok(Lists { ended, thread })
}

impl Lists {
    /// Ends them. Returns whether anything was streamed.
    fn end(self) -> Result<bool> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the reader of lists ended badly"))?
    }
}

/// Sends sequential writes for the given time. Returns their durations, sorted.
async fn timed(writer: &mut Connection, path: &str, long: Duration) -> Result<Vec<Duration>> {
    let (begin, mut delays) = (Instant::now(), Vec::new());
    while begin.elapsed() < long {
        let sent = Instant::now();
        writer.send(Method::PATCH, path, MERGE, change(delays.len())).await?;
        delays.push(sent.elapsed());
    }
    delays.sort();
    Ok(delays)
}

/// Returns a patch of a ConfigMap that differs from the one before.
pub(super) fn change(number: usize) -> Bytes {
    Bytes::from(format!(r#"{{"data":{{"value":"{number}"}}}}"#))
}

/// Watches of one namespace, on connections that carry many each.
pub(super) struct Watches {
    pub(super) connections: Vec<Http2>,
    pub(super) bodies: Vec<hyper::body::Incoming>,
}

impl Watches {
    pub(super) async fn open(target: &Target, count: usize, path: &str) -> Result<Self> {
        let mut watches = Self {
            connections: Vec::new(),
            bodies: Vec::new(),
        };
        for number in 0..count {
            if number % STREAMS == 0 {
                watches.connections.push(target.connect_http2().await?);
            }
            let connection = watches.connections.last_mut().context("a connection")?;
            let answer = connection.get(path, JSON).await?;
            ensure!(answer.status().is_success(), "a watch: {}", answer.status());
            watches.bodies.push(answer.into_body());
        }
        Ok(watches)
    }
}

async fn fan_out(binary: &Binary, watchers: usize, rows: &mut Vec<Row>) -> Result<()> {
    const WRITES: usize = 50;
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let path = "/api/v1/namespaces/default/configmaps";
    let mut writer = target.connect().await?;
    writer
        .send(Method::POST, path, JSON, pods::config_map("seen", 0))
        .await?;
    let object = format!("{path}/seen");
    let before = server.cpu()?;
    for number in 0..WRITES {
        writer.send(Method::PATCH, &object, MERGE, change(number)).await?;
    }
    let unseen = server.cpu()? - before;
    let version = version_of(&mut writer, path).await?;
    let query = format!("{path}?watch=1&resourceVersion={version}");
    let watches = Watches::open(&target, watchers, &query).await?;
    let mut readers = JoinSet::new();
    for mut body in watches.bodies {
        readers.spawn(async move {
            let mut seen = 0;
            while seen < WRITES {
                let frame = body.frame().await.context("an event")??;
                let data = frame.data_ref().map_or(&[][..], |data| data);
                seen += data.iter().filter(|byte| **byte == b'\n').count();
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    let before = server.cpu()?;
    for number in 0..WRITES {
        writer
            .send(Method::PATCH, &object, MERGE, change(WRITES + number))
            .await?;
    }
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    let cpu = server.cpu()? - before;
    let each = cpu.saturating_sub(unseen).as_secs_f64() * 1e6 / (WRITES * watchers) as f64;
    rows.push(row(
        "an event to 1,000 watchers, server CPU each",
        &format!("{each:.1} µs"),
        "",
        "≤ 4 µs",
    ));
    Ok(())
}

pub(super) async fn version_of(connection: &mut Connection, path: &str) -> Result<String> {
    let body = connection.send(Method::GET, path, "", Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&body)?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.context("the version of a list")?.to_owned())
}

async fn idle_watches(binary: &Binary, count: usize, rows: &mut Vec<Row>) -> Result<()> {
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let mut connection = target.connect().await?;
    let path = "/api/v1/namespaces/default/configmaps";
    let version = version_of(&mut connection, path).await?;
    let watches = Watches::open(&target, count, &format!("{path}?watch=1&resourceVersion={version}")).await?;
    let after = server.memory()?;
    rows.push(row(
        "memory, 10,000 open watches over HTTP/2",
        &megabytes(after),
        "",
        "≤ 100 MB",
    ));
    drop(watches);
    // Watchers with a connection each cost more: the cost of a hundred shows that of ten thousand.
    let before = server.memory()?;
    let mut connections = Vec::new();
    for _ in 0..100 {
        let mut connection = target.connect().await?;
        let answer = connection
            .get(&format!("{path}?watch=1&resourceVersion={version}"), JSON)
            .await?;
        connections.push((connection, answer));
    }
    let each = server.memory()?.saturating_sub(before) as f64 / 1e3 / connections.len() as f64;
    rows.push(row(
        "memory of a watch with an HTTP/1.1 connection of its own",
        &format!("{each:.0} KB"),
        "",
        "",
    ));
    Ok(())
}

async fn write_cost(binary: &Binary, objects: usize, rows: &mut Vec<Row>) -> Result<()> {
    const WRITES: usize = 5_000;
    const CONNECTIONS: usize = 16;
    let (server, _) = pods::with_config_maps(binary, objects).await?;
    let server = server.restart(&[])?;
    let target = Target::new(&server)?;
    let mut best: Option<Duration> = None;
    // Twice, since the first writes after a start find everything cold.
    for round in 0..2 {
        let cpu = server.cpu()?;
        let mut writers = JoinSet::new();
        for writer in 0..CONNECTIONS {
            let mut connection = target.connect().await?;
            writers.spawn(async move {
                for number in 0..WRITES / CONNECTIONS {
                    // Spread over all of the store.
                    let at = (writer * 7_919 + number * 104_729) % objects;
                    let path = format!("/api/v1/namespaces/{LARGE}/configmaps/{}", pods::name(at));
                    let body = change(round * WRITES + number);
                    connection.send(Method::PATCH, &path, MERGE, body).await?;
                }
                Ok::<_, anyhow::Error>(())
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer??;
        }
        let used = server.cpu()? - cpu;
        best = Some(best.map_or(used, |best| best.min(used)));
    }
    let each = best.unwrap_or_default().as_secs_f64() * 1e6 / (WRITES / CONNECTIONS * CONNECTIONS) as f64;
    rows.push(row(
        &format!("merge patch with {objects} objects, server CPU each"),
        &format!("{each:.0} µs"),
        "",
        "flat, ≤ 80 µs",
    ));
    Ok(())
}
