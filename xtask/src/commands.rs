//! Commands that only call other programs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Writes a line to standard output.
pub(crate) fn print(line: &str) {
    // An error means that the reader closed the pipe and wants no more.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes an error line to standard error.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "xtask: {line}");
}

fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Result<()> {
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    let line = format!("cargo {}", words.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| line.clone())?;
    ensure!(status.success(), "{line} failed");
    Ok(())
}

/// Checks the format and the lints.
pub(crate) fn lint() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Runs the tests of the workspace; with `slow` also the ignored ones, on a release build.
pub(crate) fn test(slow: bool) -> Result<()> {
    cargo(&["test", "--workspace"])?;
    if slow {
        cargo(&["test", "--workspace", "--release", "--", "--ignored"])?;
    }
    Ok(())
}

/// Checks the dependencies with cargo-deny.
pub(crate) fn deny() -> Result<()> {
    let installed = Command::new(env!("CARGO"))
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    ensure!(installed, "cargo-deny is missing: cargo install --locked cargo-deny");
    // The check covers dependencies of other platforms too, which a build here does not download.
    cargo(&["fetch", "--locked", "--quiet"])?;
    cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"])
}

/// Runs the package `dist`.
pub(crate) fn dist(flags: &[OsString]) -> Result<()> {
    run_package("dist", flags)
}

/// Runs a command of the package `devtools`.
pub(crate) fn devtools(arguments: &[OsString]) -> Result<()> {
    match arguments {
        [name, rest @ ..] if name == "devtools" => run_package("devtools", rest),
        all => run_package("devtools", all),
    }
}

/// Builds the program of a package, and runs it.
fn run_package(name: &str, arguments: &[OsString]) -> Result<()> {
    // The whole workspace is selected, so that dependencies have the features that they have in `cargo test`.
    cargo(&["build", "--quiet", "--workspace", "--bin", name])?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let program = target.join("debug").join(name);
    let status = Command::new(&program)
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| program.display().to_string())?;
    ensure!(
        status.success(),
        "{name} {} failed",
        arguments.join(OsStr::new(" ")).display()
    );
    Ok(())
}
