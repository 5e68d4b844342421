//! `cargo xtask bench --envtest`: environments of controller-runtime's package `envtest`, with this server instead of
//! its binaries, and, if `HOLDFAST_KUBE_APISERVER` and `HOLDFAST_ETCD` name them, with those of the reference, in one
//! run.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use conformance::{Binary, Environment};

use super::table;
use super::{megabytes, millis, quantile};

/// Number of starts of an environment; the median counts.
const STARTS: usize = 7;
/// Number of concurrent environments.
const MANY: usize = 20;

/// Document that shows the table.
const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- figures of envtest: written by `cargo xtask bench --envtest --write` -->\n";

/// Measurements of one directory of assets.
struct Figures {
    etcd: Program,
    api_server: Program,
    together: Duration,
    /// The share of both in memory, of many environments that run at once, and how long they took to start.
    many: Option<(u64, Duration)>,
}

/// Medians of one program.
struct Program {
    start: Duration,
    memory: u64,
}

/// Measures, and returns the table.
pub(super) fn table(binary: &Binary) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let own = Figures::measure(&binary.assets(&folder.path().join("own"))?, true)?;
    let reference = match reference(&folder.path().join("reference"))? {
        Some((assets, version)) => Some((Figures::measure(&assets, false)?, version)),
        None => None,
    };
    Ok(text(&own, reference.as_ref()))
}

/// Puts the table into its document.
pub(super) fn write(text: &str) -> Result<()> {
    table::put(DOCUMENT, BEGIN, text)
}

/// Returns a directory of assets with the reference's binaries, and their version; none if no variable names them.
fn reference(directory: &Path) -> Result<Option<(PathBuf, String)>> {
    let named = |name: &str| std::env::var_os(name).map(std::fs::canonicalize).transpose();
    let (Some(api_server), Some(etcd)) = (named("HOLDFAST_KUBE_APISERVER")?, named("HOLDFAST_ETCD")?) else {
        return Ok(None);
    };
    std::fs::create_dir_all(directory)?;
    let printed = Command::new(&api_server).arg("--version").output()?;
    let text = String::from_utf8(printed.stdout)?;
    let version = text.trim().trim_start_matches("Kubernetes v");
    symlink(api_server, directory.join("kube-apiserver"))?;
    symlink(etcd, directory.join("etcd"))?;
    Ok(Some((directory.to_owned(), format!("kube-apiserver {version} + etcd"))))
}

impl Figures {
    fn measure(assets: &Path, many: bool) -> Result<Self> {
        let mut etcd = Vec::new();
        let mut api_server = Vec::new();
        let mut together = Vec::new();
        for _ in 0..STARTS {
            let begin = Instant::now();
            let environment = Environment::start(assets, &[], &[])?;
            together.push(begin.elapsed());
            // The remaining work of the start is done by then.
            std::thread::sleep(Duration::from_secs(1));
            let (process, start) = environment.etcd();
            etcd.push((start, process.memory()?));
            let (process, start) = environment.api_server().context("the server ended")?;
            api_server.push((start, process.memory()?));
        }
        together.sort();
        Ok(Self {
            etcd: Program::median(&etcd),
            api_server: Program::median(&api_server),
            together: quantile(&together, 0.5),
            many: many.then(|| shares(assets)).transpose()?,
        })
    }
}

impl Program {
    fn median(starts: &[(Duration, u64)]) -> Self {
        let mut durations: Vec<Duration> = starts.iter().map(|(start, _)| *start).collect();
        let mut memory: Vec<u64> = starts.iter().map(|(_, memory)| *memory).collect();
        durations.sort();
        memory.sort_unstable();
        Self {
            start: quantile(&durations, 0.5),
            memory: memory.get(memory.len() / 2).copied().unwrap_or_default(),
        }
    }
}

/// Returns the mean share of memory of environments that run at once, and how long all took to start, one after
/// another.
fn shares(assets: &Path) -> Result<(u64, Duration)> {
    let begin = Instant::now();
    let environments: Vec<Environment> = (0..MANY)
        .map(|_| Environment::start(assets, &[], &[]))
        .collect::<Result<_>>()?;
    let took = begin.elapsed();
    let mut bytes = 0;
    for environment in &environments {
        let (api_server, _) = environment.api_server().context("the server ended")?;
        bytes += environment.etcd().0.share_of_memory()? + api_server.share_of_memory()?;
    }
    Ok((bytes / MANY as u64, took))
}

fn text(own: &Figures, reference: Option<&(Figures, String)>) -> String {
    let name = reference.map_or("the reference", |(_, version)| version);
    let mut text = format!("| | Holdfast | {name} | target |\n|---|---:|---:|---:|\n");
    let mut row = |what: &str, of: &dyn Fn(&Figures) -> Option<String>, target: &str| {
        let there = reference.and_then(|(figures, _)| of(figures)).unwrap_or_default();
        // Writes to a string cannot fail.
        let _ = writeln!(
            text,
            "| {what} | {} | {there} | {target} |",
            of(own).unwrap_or_default()
        );
    };
    row(
        "start to ready, both",
        &|figures| Some(millis(figures.together)),
        "≤ 100 ms",
    );
    row(
        "start to healthy, etcd",
        &|figures| Some(millis(figures.etcd.start)),
        "",
    );
    row(
        "start to healthy, kube-apiserver",
        &|figures| Some(millis(figures.api_server.start)),
        "",
    );
    row("memory, etcd", &|figures| Some(megabytes(figures.etcd.memory)), "");
    row(
        "memory, kube-apiserver",
        &|figures| Some(megabytes(figures.api_server.memory)),
        "",
    );
    row(
        "memory of each of twenty that run at once, both (PSS)",
        &|figures| figures.many.map(|(share, _)| megabytes(share)),
        "≤ 30 MB",
    );
    row(
        "twenty started one after another",
        &|figures| figures.many.map(|(_, took)| millis(took)),
        "",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(many: Option<(u64, Duration)>) -> Figures {
        let program = |milliseconds, memory| Program {
            start: Duration::from_millis(milliseconds),
            memory,
        };
        Figures {
            etcd: program(1, 8_000_000),
            api_server: program(30, 32_000_000),
            together: Duration::from_millis(31),
            many,
        }
    }

    #[test]
    fn the_reference_stands_beside_and_may_be_absent() {
        let own = figures(Some((10_000_000, Duration::from_secs(1))));
        let alone = text(&own, None);
        assert!(
            alone.contains("| start to ready, both | 31.00 ms |  | ≤ 100 ms |"),
            "{alone}"
        );
        let both = text(&own, Some(&(figures(None), "kube-apiserver 1.2.3 + etcd".to_owned())));
        assert!(
            both.starts_with("| | Holdfast | kube-apiserver 1.2.3 + etcd | target |"),
            "{both}"
        );
        assert!(both.contains("| memory, etcd | 8.0 MB | 8.0 MB |  |"), "{both}");
        assert!(
            both.contains("| twenty started one after another | 1000.00 ms |  |  |"),
            "{both}"
        );
    }

    #[test]
    fn a_median_is_in_the_middle() {
        let starts = [3, 1, 2].map(|number| (Duration::from_millis(number), number * 10));
        let median = Program::median(&starts);
        assert_eq!((median.start, median.memory), (Duration::from_millis(2), 20));
    }

    #[test]
    fn document_has_a_place_for_the_table() {
        let text = std::fs::read_to_string(conformance::root().join(DOCUMENT)).unwrap();
        assert!(text.contains(BEGIN), "{DOCUMENT}");
    }
}
