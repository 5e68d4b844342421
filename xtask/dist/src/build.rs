//! Binaries, and the documents that a binary writes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::release::root;
use crate::target::Target;

/// Directory in the release, and the files in it: completions and manual pages.
pub(crate) type Documents = Vec<Document>;

/// A binary for a target.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Its platform.
    pub(crate) target: Target,
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Content of the file.
    pub(crate) bytes: Vec<u8>,
}

/// A file that the binary writes about itself.
#[derive(Debug)]
pub(crate) struct Document {
    /// Folder: `completions` or `man`.
    pub(crate) folder: &'static str,
    /// Name of the file.
    pub(crate) name: String,
    /// Content.
    pub(crate) bytes: Vec<u8>,
}

impl Binary {
    /// Reads a binary.
    pub(crate) fn read(target: Target, path: PathBuf) -> Result<Self> {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(Self { target, path, bytes })
    }
}

/// Returns the given binary, or builds one for each target. `time` is the date in the stamp of the builds.
pub(crate) fn binaries(targets: &[Target], given: Option<&Path>, profile: &str, time: u64) -> Result<Vec<Binary>> {
    let targets = match targets {
        [] => vec![Target::for_this_machine()?],
        some => some.to_vec(),
    };
    match (given, targets.as_slice()) {
        (None, _) => targets.into_iter().map(|target| build(target, profile, time)).collect(),
        (Some(path), [target]) => Ok(vec![Binary::read(target.clone(), path.to_owned())?]),
        (Some(_), _) => bail!("--binary needs exactly one target"),
    }
}

/// Builds the binary. A static one, or one for another machine, needs zig as compiler and linker of C.
fn build(target: Target, profile: &str, time: u64) -> Result<Binary> {
    let command = if target.is_foreign() { "zigbuild" } else { "build" };
    let mut cargo = Command::new("cargo");
    cargo
        .args([
            command,
            "--locked",
            "--package",
            "holdfast",
            "--bin",
            "holdfast",
            "--profile",
            profile,
            "--target",
        ])
        .arg(target.triple())
        // Debug information is four fifths of a binary.
        .env("CARGO_PROFILE_DIST_STRIP", "symbols")
        .env("SOURCE_DATE_EPOCH", time.to_string())
        .current_dir(root());
    let status = cargo.status().with_context(|| format!("cargo {command}"))?;
    ensure!(
        status.success(),
        "cargo {command} for {target} failed. It needs `rustup target add {target}`, and for zigbuild `pip install cargo-zigbuild ziglang`"
    );
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let kind = if profile == "dev" { "debug" } else { profile };
    let path = folder.join(target.triple()).join(kind).join("holdfast");
    Binary::read(target, path)
}

/// Returns completions and manual pages, written by a binary that runs on this machine.
pub(crate) fn documents(binaries: &[Binary]) -> Result<Documents> {
    let own = binaries.iter().find(|binary| binary.target.runs_here());
    let binary = own.context("no binary runs on this machine, so that none can write manual pages")?;
    let mut documents = Vec::new();
    for (shell, name) in [("bash", "holdfast"), ("zsh", "_holdfast"), ("fish", "holdfast.fish")] {
        documents.push(Document {
            folder: "completions",
            name: name.to_owned(),
            bytes: printed(&binary.path, ["completions", shell])?,
        });
    }
    let folder = tempfile::tempdir()?;
    printed(
        &binary.path,
        [OsStr::new("man"), OsStr::new("--dir"), folder.path().as_os_str()],
    )?;
    let mut pages: Vec<PathBuf> = fs::read_dir(folder.path())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    pages.sort();
    for page in pages {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&page)?;
        documents.push(Document {
            folder: "man",
            name,
            bytes,
        });
    }
    Ok(documents)
}

fn printed<S: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
