#![forbid(unsafe_code)]
//! `cargo xtask dist`: the files of a release.
//!
//! Each file is a function of the binaries, the sources and the time of the last commit, so that two runs give the same bytes.
//! Building needs Cargo and, for other targets than this machine's, `cargo-zigbuild`. Packages need `nfpm`, the list of
//! components needs `cargo-cyclonedx`. A missing program is an error, unless `--skip` leaves its files out.

mod archive;
mod build;
mod checksum;
mod envtest;
mod image;
mod linux_packages;
mod recipes;
mod release;
mod sbom;
mod target;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::release::Release;
use crate::target::Target;

/// Files of a release, in one folder.
#[derive(Parser)]
#[command(name = "cargo xtask dist")]
struct Arguments {
    /// Target to build for, such as x86_64-unknown-linux-musl. May be repeated. The default is this machine's.
    #[arg(long = "target", value_name = "TRIPLE")]
    targets: Vec<Target>,
    /// Use this binary for the only target instead of building one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Cargo profile of the builds.
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Folder for the files. Files of earlier runs are replaced.
    #[arg(long, value_name = "DIR", default_value = "target/dist-files")]
    out: PathBuf,
    /// URL of the folder from which the files will be downloaded.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Files to leave out.
    #[arg(long, value_enum)]
    skip: Vec<Part>,
}

/// Files that need another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// `.deb` and `.rpm`, made by nfpm.
    Packages,
    /// List of components, made by cargo-cyclonedx.
    Sbom,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "dist: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let mut release = Release::new(arguments.out, arguments.url)?;
    let built = build::binaries(
        &arguments.targets,
        arguments.binary.as_deref(),
        &arguments.profile,
        release.time,
    )?;
    let documents = build::documents(&built)?;
    archive::add(&mut release, &built, &documents)?;
    envtest::add(&mut release, &built)?;
    image::add(&mut release, &built)?;
    if !arguments.skip.contains(&Part::Packages) {
        linux_packages::add(&mut release, &built, &documents)?;
    }
    if !arguments.skip.contains(&Part::Sbom) {
        sbom::add(&mut release, &built)?;
    }
    recipes::add(&mut release, &built)?;
    release.finish()
}
