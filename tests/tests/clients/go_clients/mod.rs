//! Clients written in Go, each built from its module and pinned by a `go.mod` below `tests/clients`, against the real
//! binary. Go caches its builds, so that only the first run needs minutes.

mod helm;
mod kubebuilder;
mod kubectl;
mod kustomize;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use conformance::tool::printed;
use conformance::{Binary, clients, root};
use test_support::needs;

/// Timeouts of envtest. The default of 20 seconds is too short while builds run on the same machine.
pub(crate) const ENVTEST_TIMEOUTS: [(&str, &str); 2] = [
    ("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "2m"),
    ("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", "2m"),
];

#[needs(clients, go)]
#[test]
fn libraries_work_in_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let assets = Binary::debug().unwrap().assets(folder.path()).unwrap();
    // Users of an environment call the kubectl among its assets.
    let kubectl = assets.join("kubectl");
    let _ = std::fs::remove_file(&kubectl);
    symlink(program("go", "./kubectl"), kubectl).unwrap();
    let mut tests = Command::new("go");
    tests
        .args(["test", "-vet=off", "-count=1", "-timeout=30m", "./..."])
        .current_dir(clients::sources("go"))
        .env("KUBEBUILDER_ASSETS", assets)
        .envs(ENVTEST_TIMEOUTS)
        .env_remove("HOLDFAST_CONTROLLERS");
    printed(&mut tests, "");
}

/// One program is built at a time: two builds at once would do the same work twice.
static BUILDS: Mutex<()> = Mutex::new(());

/// Builds a package with the requirements of the module in this folder of `tests/clients`, and returns the program.
pub(crate) fn program(module: &str, package: &str) -> PathBuf {
    let _turn = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = root().join("target/clients").join(module);
    std::fs::create_dir_all(&folder).unwrap();
    // The last path element that is not a version: `…/kustomize/v5` is the program kustomize.
    let name = package.rsplit('/').find(|part| !is_version(part)).unwrap();
    let program = folder.join(name);
    let mut build = Command::new("go");
    build
        .args(["build", "-ldflags=-s -w", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(clients::sources(module));
    printed(&mut build, "");
    program
}

/// Returns true if an element of a module's path is the number of its major version.
fn is_version(part: &str) -> bool {
    part.strip_prefix('v')
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Splits a line into words, none of which may contain a space.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
