//! `cargo xtask bench`: starts a release server and measures it with a client of its own in the same run.
//!
//! Server CPU is the processor time of the server's process as reported by the kernel, divided by the operations of a
//! phase. The targets refer to it, since it does not depend on the speed of the client.

mod admission;
mod crds;
mod curves;
mod custom;
mod envtest;
mod instructions;
mod operators;
mod pods;
mod scale;
mod stores;
pub(crate) mod table;
mod workload;

use std::time::{Duration, Instant};

use anyhow::Result;
use conformance::{Binary, Server, Target};

use self::workload::{DEPLOYMENTS, Figure, Phase, Workload};
use crate::commands::say;
use crate::stores::StoreKind;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of Deployments for the phases of single objects.
    #[arg(long, default_value_t = 4000)]
    objects: usize,
    /// Number of connections that send concurrently.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Measure only scale: long lists, many watchers, large stores.
    #[arg(long)]
    scale_only: bool,
    /// Measure only extensions: custom resources, policies, webhooks.
    #[arg(long, conflicts_with = "scale_only")]
    custom_only: bool,
    /// Measure only features that operators enable: priority levels, the audit log, gates, aggregated APIs.
    #[arg(long, conflicts_with_all = ["scale_only", "custom_only"])]
    operators_only: bool,
    /// Also measure in a store of a million objects. Its preparation lasts minutes.
    #[arg(long)]
    million: bool,
    /// Write the table to docs/performance.md; with --store etcd, also the most important rows to README.
    #[arg(long, conflicts_with_all = ["scale_only", "custom_only", "operators_only", "instructions"])]
    write: bool,
    /// Measure environments of envtest instead, with this server instead of its binaries, and, if
    /// HOLDFAST_KUBE_APISERVER and HOLDFAST_ETCD name them, with the reference's.
    #[arg(long, conflicts_with_all = ["scale_only", "custom_only", "operators_only", "instructions", "million"])]
    envtest: bool,
    /// Count the instructions of requests under callgrind instead, and compare with the recorded counts.
    #[arg(long)]
    instructions: bool,
    /// Record the counts of this run.
    #[arg(long, requires = "instructions")]
    bless: bool,
    /// With etcd: compare the embedded store, etcd, and, if HOLDFAST_KUBE_APISERVER names it, kube-apiserver on the
    /// same etcd.
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["scale_only", "custom_only", "operators_only", "instructions", "million", "envtest", "plot"])]
    store: StoreKind,
    /// With `--store etcd`: numbers of objects in the store when servers start.
    #[arg(long, value_delimiter = ',', default_values_t = [100_000], requires = "store")]
    sizes: Vec<usize>,
    /// Measure the growth of costs with the number of objects, watchers, managers and policies instead; with `--write`
    /// the tables are written to BENCHMARKS.md, and a picture of them to docs/scale.svg.
    #[arg(long, conflicts_with_all = ["scale_only", "custom_only", "operators_only", "instructions", "envtest"])]
    plot: bool,
    #[command(flatten)]
    curves: curves::Sizes,
    /// Use a debug build; its figures are meaningless.
    #[arg(long)]
    debug: bool,
}

/// A row of the table: measurements of this server and of the reference, and the target.
struct Row {
    what: String,
    holdfast: String,
    reference: &'static str,
    target: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.instructions {
        return instructions::run(arguments.bless);
    }
    let binary = Binary::new(arguments.debug)?;
    if arguments.envtest {
        let table = envtest::table(&binary)?;
        say(&table);
        return if arguments.write {
            envtest::write(&table)
        } else {
            Ok(())
        };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    if arguments.plot {
        let curves = curves::run(&binary, &arguments.curves, arguments.million, arguments.write);
        say(&runtime.block_on(curves)?);
        return Ok(());
    }
    if arguments.store == StoreKind::Etcd {
        let table = runtime.block_on(stores::table(&binary, arguments))?;
        say(&table);
        return if arguments.write {
            table::write_stores(&table)
        } else {
            Ok(())
        };
    }
    let rows = runtime.block_on(async {
        let all = !(arguments.scale_only || arguments.custom_only || arguments.operators_only);
        let mut rows = Vec::new();
        if all {
            rows = measure(&binary, arguments).await?;
        }
        if all || arguments.scale_only {
            rows.extend(scale::rows(&binary, arguments.million).await?);
        }
        if all || arguments.custom_only {
            rows.extend(custom::rows(&binary, arguments.objects, arguments.connections).await?);
            rows.extend(crds::rows(&binary).await?);
            rows.extend(admission::rows(&binary, arguments.objects, arguments.connections).await?);
        }
        if all || arguments.operators_only {
            rows.extend(operators::rows(&binary, arguments.objects, arguments.connections).await?);
        }
        Ok::<_, anyhow::Error>(rows)
    })?;
    say(&table::text(&rows));
    if arguments.write {
        table::write(&rows)?;
    }
    Ok(())
}

async fn measure(binary: &Binary, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // The first start creates the certificates; the second one counts.
    let (server, first) = started(|| Server::start_with_default_controllers(binary, &[])).await?;
    let (server, ready) = started(|| server.restart(&[])).await?;
    rows.push(row("start to ready", &millis(ready), "2.2 s", "< 100 ms"));
    rows.push(row("first start to ready (makes certificates)", &millis(first), "", ""));
    tokio::time::sleep(Duration::from_secs(1)).await;
    rows.push(row("memory, idle", &megabytes(server.memory()?), "322 MB", "≤ 20 MB"));

    let target = Target::new(&server)?;
    let workload = Workload::new(target, arguments.connections, DEPLOYMENTS);
    let phases = [
        (Phase::Create, "2,305 µs", 100),
        (Phase::Reapply, "3,035 µs", 60),
        (Phase::Remembered, "", 60),
        (Phase::Change, "3,485 µs", 120),
        (Phase::Get, "450 µs", 15),
    ];
    for (phase, reference, target) in phases {
        let figure = workload.run(phase, arguments.objects, &server).await?;
        let target = format!("≤ {target} µs");
        rows.extend(operation(phase.title(), &figure, reference, &target));
    }
    rows.extend(watch_rows(&workload).await?);
    workload.keep_only(2000, arguments.objects).await?;
    let list = workload.list(40, &server).await?;
    let title = format!(
        "list of 2,000 Deployments ({} of JSON), server CPU",
        megabytes(list.bytes as u64)
    );
    // The reference was measured with 4,000; half of that is its cost for 2,000.
    rows.push(row(
        &title,
        &format!("{:.2} ms", list.cpu_micros / 1000.0),
        "102 ms",
        "≤ 2.5 ms",
    ));
    workload.run_range(Phase::Create, 2000..10_000, &server).await?;
    rows.push(row(
        "memory, 10,000 Deployments",
        &megabytes(server.memory()?),
        "650 MB with 4,000",
        "",
    ));
    Ok(rows)
}

/// Starts a server and returns the time until `/readyz` succeeded.
async fn started(start: impl FnOnce() -> Result<Server>) -> Result<(Server, Duration)> {
    let begin = Instant::now();
    let server = start()?;
    let target = Target::new(&server)?;
    loop {
        let mut connection = target.connect().await?;
        let (status, _) = connection
            .ask(http::Method::GET, "/readyz", "", bytes::Bytes::new())
            .await?;
        if status.is_success() {
            return Ok((server, begin.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn watch_rows(workload: &Workload) -> Result<[Row; 2]> {
    let delays = workload.watch_delays(200).await?;
    let at = |of| millis(quantile(&delays, of));
    Ok([
        row("write sent to watch event received, p50", &at(0.5), "2.3 ms", ""),
        row("write sent to watch event received, p99", &at(0.99), "", ""),
    ])
}

fn row(what: &str, holdfast: &str, reference: &'static str, target: &str) -> Row {
    Row {
        what: what.to_owned(),
        holdfast: holdfast.to_owned(),
        reference,
        target: target.to_owned(),
    }
}

/// Returns the rows of one kind of operation.
fn operation(title: &str, figure: &Figure, reference: &'static str, target: &str) -> [Row; 4] {
    let title_of = |what: &str| format!("{title}, {what}");
    [
        row(
            &title_of("server CPU each"),
            &micros(figure.cpu_micros),
            reference,
            target,
        ),
        row(&title_of("in a second"), &format!("{:.0}", figure.rate), "", ""),
        row(&title_of("p50"), &millis(figure.p50), "", ""),
        row(&title_of("p99"), &millis(figure.p99), "", ""),
    ]
}

fn micros(micros: f64) -> String {
    format!("{micros:.0} µs")
}

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1000.0)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1_000_000.0)
}

/// Returns the value below which the share `of` of sorted durations lies.
fn quantile(sorted: &[Duration], of: f64) -> Duration {
    let at = ((sorted.len() as f64 - 1.0) * of).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    #[test]
    fn measurements_that_exclude_each_other_are_rejected() {
        let parse = |flags: &str| {
            let command = Arguments::augment_args(Command::new("bench"));
            command.try_get_matches_from(["bench"].into_iter().chain(flags.split(' ')))
        };
        for flags in [
            "--store etcd --plot",
            "--store etcd --envtest",
            "--envtest --plot",
            "--plot --instructions",
            "--sizes 5",
        ] {
            assert!(parse(flags).is_err(), "{flags}");
        }
        for flags in ["--plot --million", "--store etcd --sizes 5", "--envtest --write"] {
            assert!(parse(flags).is_ok(), "{flags}");
        }
    }
}
