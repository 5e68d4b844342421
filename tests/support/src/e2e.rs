//! Kubernetes' own end-to-end tests, built from the published module of [`kube_apiserver`].

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use crate::go::Program;
use crate::kube_apiserver;

/// Program to build.
const PROGRAM: Program = Program {
    package: "k8s.io/kubernetes/test/e2e",
    name: "e2e.test",
    link: "",
    is_test: true,
    ..kube_apiserver::PROGRAM
};

/// The version of Kubernetes whose tests these are.
pub const VERSION: &str = PROGRAM.version;

/// Returns the path of the program in `target/e2e` of the repository. Builds it if it is absent, which needs ten
/// minutes.
///
/// # Errors
/// If it cannot be built; the error has the reason.
pub fn program() -> io::Result<PathBuf> {
    let folder = crate::root().join("target/e2e");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let done = folder.join(PROGRAM.name);
    match done.is_file() {
        true => Ok(done),
        false => PROGRAM.build(&folder),
    }
}
