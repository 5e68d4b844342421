//! The same on each store: embedded, etcd, and kube-apiserver on that etcd. One run measures one after the other, so that the
//! machine is the same for all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::{Binary, Process, Reference, Server, Target};
use http::Method;
use test_support::etcd::{Etcd, Settings};

use super::pods::{self, LARGE};
use super::workload::{DEPLOYMENTS, Phase, Workload};
use super::{Arguments, megabytes, micros, millis, quantile};
use crate::commands::say;

/// The operations, in the order of the life of an object.
const PHASES: [Phase; 6] = [
    Phase::Create,
    Phase::Reapply,
    Phase::Change,
    Phase::Patch,
    Phase::Get,
    Phase::Delete,
];

/// Number of events that a watcher receives.
const WATCHED: usize = 300;

/// Number of the operations over one connection that are timed individually.
const ALONE: usize = 4;

/// Limits of the cost of a write on etcd: as a ratio of the cost on the embedded store, and of kube-apiserver's.
const WRITE: f64 = 1.6;
const READ: f64 = 1.2;
const REFERENCE: f64 = 0.1;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Embedded,
    Etcd,
    Reference,
}

/// Measurements by column, in the order of their first occurrence.
#[derive(Default)]
struct Figures {
    rows: Vec<Figure>,
}

struct Figure {
    what: String,
    cells: BTreeMap<Column, String>,
    target: String,
}

impl Figures {
    fn put(&mut self, what: &str, column: Column, cell: String) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.what == what) {
            row.cells.insert(column, cell);
            return;
        }
        self.rows.push(Figure {
            what: what.to_owned(),
            cells: BTreeMap::from([(column, cell)]),
            target: String::new(),
        });
    }

    fn aim(&mut self, what: &str, target: String) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.what == what) {
            row.target = target;
        }
    }

    fn text(&self) -> String {
        let mut text =
            "| | embedded | etcd | kube-apiserver 1.36 on etcd | target |\n|---|---:|---:|---:|---:|\n".to_owned();
        for row in &self.rows {
            let cell = |column| row.cells.get(&column).map_or("", String::as_str);
            let (embedded, etcd, reference) = (cell(Column::Embedded), cell(Column::Etcd), cell(Column::Reference));
            // Writes to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {embedded} | {etcd} | {reference} | {} |",
                row.what, row.target
            );
        }
        text
    }
}

/// Returns the table of all figures.
pub(super) async fn table(binary: &Binary, arguments: &Arguments) -> Result<String> {
    let mut figures = Figures::default();
    let mut bench = Bench {
        figures: &mut figures,
        objects: arguments.objects,
        connections: arguments.connections,
        cpu: BTreeMap::new(),
    };
    bench.operations(binary).await?;
    bench.targets();
    for size in &arguments.sizes {
        bench.starts(binary, *size).await?;
    }
    Ok(figures.text())
}

struct Bench<'f> {
    figures: &'f mut Figures,
    objects: usize,
    connections: usize,
    /// Cost of each operation, in microseconds.
    cpu: BTreeMap<(&'static str, Column), f64>,
}

impl Bench<'_> {
    async fn operations(&mut self, binary: &Binary) -> Result<()> {
        {
            say("embedded");
            let server = Server::start(binary, &[])?;
            let target = Target::new(&server)?;
            self.measure(Column::Embedded, &target, server.process(), None).await?;
        }
        let etcd = durable_etcd()?;
        let store = etcd.process(0).map(Process);
        let endpoints = etcd.endpoints();
        {
            say("etcd");
            let flag = format!("--etcd-servers={endpoints}");
            let server = Server::start(binary, &[&flag])?;
            let target = Target::new(&server)?;
            self.measure(Column::Etcd, &target, server.process(), store).await?;
            self.lag(&target, &Server::start(binary, &[&flag])?).await?;
        }
        let Some(program) = test_support::kube_apiserver::named() else {
            say("kube-apiserver: not measured, HOLDFAST_KUBE_APISERVER names none");
            return Ok(());
        };
        say("kube-apiserver");
        let reference = Reference::start(&program, &endpoints, &["--etcd-prefix=/reference"]).await?;
        let target = reference.target()?;
        self.measure(Column::Reference, &target, reference.process(), store)
            .await
    }

    /// Returns all operations on one server.
    async fn measure(
        &mut self,
        column: Column,
        target: &Target,
        server: Process,
        store: Option<Process>,
    ) -> Result<()> {
        self.figures.put("memory, idle", column, megabytes(server.memory()?));
        let many = Workload::new(target.clone(), self.connections, DEPLOYMENTS);
        let one = Workload::new(target.clone(), 1, DEPLOYMENTS);
        let first = self.objects;
        let alone = first..first + (self.objects / ALONE).max(1);
        for phase in PHASES {
            if phase == Phase::Delete {
                self.watch_and_list(column, &many, server).await?;
            }
            let title = phase.title();
            let before = store.map(Process::cpu).transpose()?;
            let figure = many.run(phase, self.objects, server).await?;
            let after = store.map(Process::cpu).transpose()?;
            let quiet = one.run_range(phase, alone.clone(), server).await?;
            self.cpu.insert((title, column), figure.cpu_micros);
            let title_of = |what: &str| format!("{title}, {what}");
            self.figures
                .put(&title_of("server CPU each"), column, micros(figure.cpu_micros));
            if let (Some(before), Some(after)) = (before, after) {
                let each = (after - before).as_secs_f64() * 1e6 / self.objects as f64;
                self.figures.put(&title_of("CPU of etcd each"), column, micros(each));
            }
            for (name, measured) in [("all connections", &figure), ("one connection", &quiet)] {
                self.figures
                    .put(&title_of(&format!("{name}, p50")), column, millis(measured.p50));
                self.figures
                    .put(&title_of(&format!("{name}, p99")), column, millis(measured.p99));
            }
        }
        Ok(())
    }

    async fn watch_and_list(&mut self, column: Column, workload: &Workload, server: Process) -> Result<()> {
        let delays = workload.watch_delays(WATCHED).await?;
        let list = workload.list(10, server).await?;
        let title = format!(
            "list of {} Deployments, server CPU",
            self.objects + (self.objects / ALONE).max(1)
        );
        self.figures.put(&title, column, micros(list.cpu_micros));
        for (name, of) in [("p50", 0.5), ("p99", 0.99)] {
            let title = format!("write sent to watch event received, {name}");
            self.figures.put(&title, column, millis(quantile(&delays, of)));
        }
        Ok(())
    }

    /// Measures the delay of an event for a watcher of another server.
    async fn lag(&mut self, target: &Target, other: &Server) -> Result<()> {
        let workload = Workload::new(target.clone(), 1, DEPLOYMENTS);
        workload.run(Phase::Create, 1, other).await?;
        let delays = workload.delays_until_seen_at(&Target::new(other)?, WATCHED).await?;
        for (name, of) in [("p50", 0.5), ("p99", 0.99)] {
            let title = format!("write sent to watch event received from another server, {name}");
            self.figures.put(&title, Column::Etcd, millis(quantile(&delays, of)));
            if of < 0.9 {
                self.figures.aim(&title, "≤ 3 ms".to_owned());
            }
        }
        Ok(())
    }

    /// Adds the cost limit of each operation, relative to the cost on other stores.
    fn targets(&mut self) {
        for phase in PHASES {
            let cpu = |column| self.cpu.get(&(phase.title(), column)).copied();
            let share = if phase == Phase::Get { READ } else { WRITE };
            let mut target = cpu(Column::Embedded).map(|embedded| format!("≤ {}", micros(embedded * share)));
            if let (Some(text), Some(reference)) = (&mut target, cpu(Column::Reference)) {
                let _ = write!(text, ", ≤ {}", micros(reference * REFERENCE));
            }
            let title = format!("{}, server CPU each", phase.title());
            self.figures.aim(&title, target.unwrap_or_default());
            let Some(etcd) = cpu(Column::Etcd) else { continue };
            for (other, name, most) in [
                (Column::Embedded, "the embedded store's", share),
                (Column::Reference, "kube-apiserver's", REFERENCE),
            ] {
                let Some(other) = cpu(other).filter(|other| *other > 0.0) else {
                    continue;
                };
                let title = format!("{}, server CPU as a multiple of {name}", phase.title());
                self.figures.put(&title, Column::Etcd, format!("{:.2}", etcd / other));
                self.figures.aim(&title, format!("≤ {most}"));
            }
        }
    }

    /// Starts with many objects, on both stores, and the ways between them.
    async fn starts(&mut self, binary: &Binary, size: usize) -> Result<()> {
        say(&format!("{size} objects"));
        let (mut server, bytes) = pods::with_config_maps(binary, size).await?;
        let directory = server.data_dir().display().to_string();
        let count = format!("{size} objects of {} bytes", bytes / size.max(1));
        let begin = Instant::now();
        server.start_anew(&[])?;
        self.started(&count, Column::Embedded, begin.elapsed(), server.process())?;
        let snapshot = server.data_dir().join("bench.snapshot").display().to_string();
        let saved = timed(binary, &["snapshot", "save", &snapshot, "--data-dir", &directory])?;
        self.figures.put(
            &format!("snapshot of {count}, while it serves"),
            Column::Embedded,
            seconds(saved),
        );
        let verified = timed(binary, &["snapshot", "verify", &snapshot])?;
        self.figures.put(
            &format!("check of that snapshot, {size} objects"),
            Column::Embedded,
            seconds(verified),
        );
        server.end();

        let etcd = durable_etcd()?;
        let endpoints = etcd.endpoints();
        let copied = timed(binary, &["copy", "--from", &directory, "--to", &endpoints])?;
        self.figures.put(
            &format!("copy of {count} from the embedded store"),
            Column::Etcd,
            seconds(copied),
        );
        let flag = format!("--etcd-servers={endpoints}");
        let begin = Instant::now();
        let server = Server::start(binary, &[&flag])?;
        self.started(&count, Column::Etcd, begin.elapsed(), server.process())?;
        let mut connection = Target::new(&server)?.connect().await?;
        let path = format!(
            "/api/v1/namespaces/{LARGE}/configmaps/{}",
            pods::name(size.saturating_sub(1))
        );
        connection
            .send(Method::GET, &path, "", Bytes::new())
            .await
            .context("the last object")?;
        drop(server);
        let Some(program) = test_support::kube_apiserver::named() else {
            return Ok(());
        };
        let begin = Instant::now();
        let reference = Reference::start(&program, &endpoints, &[]).await?;
        let elapsed = begin.elapsed();
        let mut connection = reference.target()?.connect().await?;
        connection
            .send(Method::GET, &path, "", Bytes::new())
            .await
            .context("the last object")?;
        self.started(&count, Column::Reference, elapsed, reference.process())
    }

    fn started(&mut self, count: &str, column: Column, elapsed: Duration, server: Process) -> Result<()> {
        self.figures
            .put(&format!("start to ready with {count}"), column, seconds(elapsed));
        self.figures
            .put(&format!("memory with {count}"), column, megabytes(server.memory()?));
        self.figures.put(
            &format!("most memory at a start with {count}"),
            column,
            megabytes(server.peak_memory()?),
        );
        Ok(())
    }
}

/// Returns one member on a disk, with room for a million objects.
fn durable_etcd() -> Result<Etcd> {
    let settings = Settings {
        flags: vec!["--quota-backend-bytes=8589934592".to_owned()],
        durable: true,
        ..Settings::default()
    };
    Etcd::start(settings).context("cannot start etcd")
}

/// Returns the duration of a command.
fn timed(binary: &Binary, arguments: &[&str]) -> Result<Duration> {
    let mut command: Command = binary.command();
    let begin = Instant::now();
    let output = command.args(arguments).output()?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(begin.elapsed())
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_store() {
        let mut figures = Figures::default();
        figures.put("get", Column::Embedded, "1".to_owned());
        figures.put("list", Column::Etcd, "2".to_owned());
        figures.put("get", Column::Reference, "3".to_owned());
        figures.aim("get", "4".to_owned());
        let text = figures.text();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["| get | 1 |  | 3 | 4 |", "| list |  | 2 |  |  |"]);
    }
}
