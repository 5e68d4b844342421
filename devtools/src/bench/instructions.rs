//! `cargo xtask bench --instructions`: counts the instructions of a request, which are the same on a busy machine as on
//! an idle one. The counts are kept in `tests/instructions.txt`; one that grows by more than [`MAX_GROWTH`] is a failure.
//!
//! Each row runs twice under callgrind, with a lower and a higher number of requests: the difference is the cost of the
//! requests, without the start of the server and their preparation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::commands::{need_valgrind, say};

/// Maximum growth of a count, as a fraction of the recorded one.
const MAX_GROWTH: f64 = 0.05;

/// Number of additional counts of a row that seems to have grown.
const AGAIN: usize = 3;

/// File of the counts.
const BASELINE: &str = "tests/instructions.txt";

const HEAD: &str = "# Instructions for one request, counted by `cargo xtask bench --instructions`; written by `--bless`.\n\
                    # A commit that lets a count grow by more than 5 % says why.\n";

#[derive(Clone)]
struct Row {
    name: String,
    low: u64,
    high: u64,
}

/// Counts, and compares the counts with the recorded ones; with `bless` records them.
pub(super) fn run(bless: bool) -> Result<()> {
    need_valgrind()?;
    let program = build()?;
    let rows = rows(&program)?;
    let baseline = read(Path::new(BASELINE))?;
    let mut counts = count_all(&program, &rows)?;
    // Seeds of hash maps, the timing of commits and the folder of the build make a count vary by a percent or two: a
    // row that seems to have grown is counted again, and the lowest count applies. Counts that are to be recorded are
    // not compared.
    for _ in 0..if bless { 0 } else { AGAIN } {
        let suspect = |row: &&Row| grown(counts.get(&row.name), baseline.get(&row.name));
        let suspects: Vec<Row> = rows.iter().filter(suspect).cloned().collect();
        for (name, count) in count_all(&program, &suspects)? {
            counts.entry(name).and_modify(|least| *least = count.min(*least));
        }
    }
    let mut above = Vec::new();
    say("| request | instructions | before | change |");
    say("|---|---:|---:|---:|");
    for (name, count) in &counts {
        let before = baseline.get(name);
        let change = before.map(|before| *count as f64 / *before as f64 - 1.0);
        if before.is_none() || grown(Some(count), before) {
            above.push(name.as_str());
        }
        let before = before.map_or_else(String::new, u64::to_string);
        let change = change.map_or_else(|| "new".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        say(&format!("| {name} | {count} | {before} | {change} |"));
    }
    if bless {
        let mut text = HEAD.to_owned();
        for (name, count) in &counts {
            writeln!(text, "{count}\t{name}")?;
        }
        return fs::write(BASELINE, text).with_context(|| format!("{BASELINE} cannot be written"));
    }
    ensure!(
        above.is_empty(),
        "these take more instructions than {BASELINE} says: {}; where that has its reason, keep the counts with --bless",
        above.join(", ")
    );
    Ok(())
}

/// Returns true if a count exceeds the limit of the recorded one.
fn grown(count: Option<&u64>, baseline: Option<&u64>) -> bool {
    let (Some(count), Some(baseline)) = (count, baseline) else {
        return false;
    };
    *count as f64 > *baseline as f64 * (1.0 + MAX_GROWTH)
}

/// Builds the program that sends the requests, and returns its path.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args([
        "bench",
        "--no-run",
        "--package",
        "holdfast-server",
        "--bench",
        "instructions",
    ]);
    let output = command.args(["--message-format", "json-render-diagnostics"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout)?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = message.pointer("/target/name").and_then(Value::as_str);
        let path = message.get("executable").and_then(Value::as_str);
        path.filter(|_| target == Some("instructions")).map(PathBuf::from)
    });
    executable.context("cargo does not say where the program is")
}

fn rows(program: &Path) -> Result<Vec<Row>> {
    let output = Command::new(program).output()?;
    let text = String::from_utf8(output.stdout)?;
    let row = |line: &str| {
        let mut parts = line.split('\t');
        let (name, low, high) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Row {
            name: name.to_owned(),
            low: low.parse().ok()?,
            high: high.parse().ok()?,
        })
    };
    let rows: Option<Vec<Row>> = text.lines().map(row).collect();
    rows.filter(|rows| !rows.is_empty())
        .context("the program lists no rows")
}

/// Counts as many rows concurrently as there are processors; callgrind runs each on one thread.
fn count_all(program: &Path, rows: &[Row]) -> Result<BTreeMap<String, u64>> {
    let (next, counts) = (Mutex::new(rows.iter()), Mutex::new(BTreeMap::new()));
    let work = || -> Result<()> {
        loop {
            let row = next.lock().ok().and_then(|mut rows| rows.next());
            let Some(row) = row else { return Ok(()) };
            let count = instructions(program, row).with_context(|| row.name.clone())?;
            if let Ok(mut counts) = counts.lock() {
                counts.insert(row.name.clone(), count);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a count was broken off"),
        })
    })?;
    Ok(counts.into_inner().unwrap_or_default())
}

/// Returns the instructions for one request of a row.
fn instructions(program: &Path, row: &Row) -> Result<u64> {
    let (low, high) = (collected(program, row, row.low)?, collected(program, row, row.high)?);
    Ok(high.saturating_sub(low) / (row.high - row.low))
}

fn collected(program: &Path, row: &Row, count: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([&row.name, &count.to_string()]);
    // The store's files are in memory: the work of a disk is not counted anyway.
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{printed}");
    let collected = printed.lines().find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.context("callgrind does not say what it collected")?;
    number.trim().parse().context("callgrind collected no number")
}

fn read(path: &Path) -> Result<BTreeMap<String, u64>> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let count = |line: &str| {
        let (count, name) = line.split_once('\t').with_context(|| format!("{line:?} is no row"))?;
        Ok((name.to_owned(), count.parse()?))
    };
    lines.map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_grows_by_more_than_a_few_percent_of_what_is_kept() {
        assert!(!grown(Some(&105), Some(&100)));
        assert!(grown(Some(&106), Some(&100)));
        assert!(!grown(Some(&1), None));
    }

    #[test]
    fn kept_counts_are_read_by_name() {
        let baseline = read(&conformance::root().join(BASELINE)).unwrap();
        assert!(baseline.get("create by apply").is_some_and(|count| *count > 0));
    }
}
