//! `cargo xtask fuzz`: runs the fuzz targets for some minutes, and keeps the inputs that break them.
//!
//! libFuzzer runs the targets. It needs coverage reports from the program. The LLVM passes for that are in the stable
//! compiler; the sanitizers are not, and are not needed without unsafe code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use conformance::root;

use crate::commands::say;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Total duration for all targets.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Run only these targets.
    targets: Vec<String>,
}

/// Compiler flags that libFuzzer needs.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The platform is named so that build scripts, which run as they are, are not instrumented.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Time limit in seconds and memory limit in megabytes of an input; exceeding one is a failure.
const MOST_SECONDS: u32 = 10;
const MOST_MEGABYTES: u32 = 2048;
const MOST_BYTES: u32 = 4096;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = root().join("fuzz");
    let all = targets(&folder)?;
    let unknown = arguments.targets.iter().find(|name| !all.contains(name));
    ensure!(
        unknown.is_none(),
        "there is no target {unknown:?}; there are {}",
        all.join(", ")
    );
    let chosen = if arguments.targets.is_empty() {
        all
    } else {
        arguments.targets.clone()
    };
    build(&folder)?;
    let seconds = (arguments.minutes * 60.0 / chosen.len() as f64).max(1.0) as u64;
    let mut broken = Vec::new();
    for target in &chosen {
        if !feed(&folder, target, seconds)? {
            broken.push(target.as_str());
        }
    }
    ensure!(
        broken.is_empty(),
        "these targets broke: {}; what broke them is kept below {}",
        broken.join(", "),
        folder.join("artifacts").display()
    );
    Ok(())
}

/// Returns the targets, by name.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn build(folder: &Path) -> Result<()> {
    // The same versions as everywhere.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--target", PLATFORM])
        .current_dir(folder)
        .env("RUSTFLAGS", FLAGS)
        .status()
        .context("cargo")?;
    ensure!(status.success(), "the fuzz targets cannot be built");
    Ok(())
}

/// Feeds a target. Whether it held.
fn feed(folder: &Path, target: &str, seconds: u64) -> Result<bool> {
    let created = |part: &str| -> Result<PathBuf> {
        let path = folder.join(part).join(target);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let (corpus, artifacts) = (created("corpus")?, created("artifacts")?);
    say(&format!("{target}: {seconds} s"));
    let program = folder.join("target").join(PLATFORM).join("release").join(target);
    let status = Command::new(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg(format!("-rss_limit_mb={MOST_MEGABYTES}"))
        .arg(format!("-max_len={MOST_BYTES}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-verbosity=0", "-print_final_stats=1"])
        // New inputs are written to the first folder.
        .args([&corpus, &folder.join("seeds").join(target)])
        .status()
        .with_context(|| format!("the target {target}"))?;
    Ok(status.success())
}
