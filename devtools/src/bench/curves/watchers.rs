//! A write whose event is sent to a growing number of watchers.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use conformance::{Binary, Connection, Http2, MERGE, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::pods;
use super::super::scale::{Watches, change, version_of};
use super::{Chart, Curve, cost_of_each};

const JSON: &str = "application/json";
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/seen";

/// Approximate number of events between two reads of the clock.
const EVENTS: u64 = 5_000;

pub(super) async fn chart(binary: &Binary, counts: &[u64], least: Duration) -> Result<Chart> {
    let mut write = Curve::new("write with all of its events", "each watcher is sent the event");
    let mut event = Curve::new("event to one watcher", "");
    for count in counts {
        let (with, without) = costs(binary, *count, least).await?;
        write.points.push((*count, with));
        event.points.push((*count, (with - without).max(0.0) / *count as f64));
    }
    Ok(Chart {
        of: "watchers",
        curves: vec![write, event],
    })
}

/// Measures the cost of a write with this number of watchers, and without any.
async fn costs(binary: &Binary, watchers: u64, least: Duration) -> Result<(f64, f64)> {
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let mut writer = Writer {
        connection: target.connect().await?,
        written: 0,
    };
    let made = pods::config_map("seen", 0);
    writer.connection.send(Method::POST, COLLECTION, JSON, made).await?;
    // The first writes after a start find everything cold.
    for _ in 0..1_000 {
        writer.write().await?;
    }
    let without = cost_of_each(&server, least, 500, async || writer.write().await).await?;
    let version = version_of(&mut writer.connection, COLLECTION).await?;
    let path = format!("{COLLECTION}?watch=1&resourceVersion={version}");
    let watches = Watches::open(&target, watchers as usize, &path).await?;
    let mut readers = Readers::begin(watches);
    let batch = (EVENTS / watchers).max(2);
    // No write is sent before all watchers have read the last event: a slow watcher would receive its events together.
    let with = cost_of_each(&server, least, batch, async || {
        writer.write().await?;
        readers.until_next().await
    })
    .await?;
    Ok((with, without))
}

struct Writer {
    connection: Connection,
    written: usize,
}

impl Writer {
    async fn write(&mut self) -> Result<()> {
        self.written += 1;
        self.connection
            .send(Method::PATCH, OBJECT, MERGE, change(self.written))
            .await?;
        Ok(())
    }
}

/// Readers of the events, one for each watch.
struct Readers {
    tasks: JoinSet<Result<()>>,
    seen: Vec<watch::Receiver<u64>>,
    expected: u64,
    /// Connections, which close with their last handle.
    _connections: Vec<Http2>,
}

impl Readers {
    fn begin(watches: Watches) -> Self {
        let (mut tasks, mut seen) = (JoinSet::new(), Vec::new());
        for body in watches.bodies {
            let (sender, receiver) = watch::channel(0);
            seen.push(receiver);
            tasks.spawn(read(body, sender));
        }
        Self {
            tasks,
            seen,
            expected: 0,
            _connections: watches.connections,
        }
    }

    /// Waits until all have seen one more event.
    async fn until_next(&mut self) -> Result<()> {
        self.expected += 1;
        let expected = self.expected;
        for seen in &mut self.seen {
            let outcome = seen.wait_for(|count| *count >= expected).await.map(drop);
            if outcome.is_err() {
                let ended = self.tasks.join_next().await.context("a reader that ended")?;
                return ended?.context("a watch ended");
            }
        }
        Ok(())
    }
}

/// Counts the events of a watch.
async fn read(mut body: Incoming, seen: watch::Sender<u64>) -> Result<()> {
    loop {
        let frame = body.frame().await.context("an event")??;
        let data = frame.into_data().unwrap_or_else(|_| Bytes::new());
        let events = data.iter().filter(|byte| **byte == b'\n').count() as u64;
        seen.send_modify(|count| *count += events);
    }
}
