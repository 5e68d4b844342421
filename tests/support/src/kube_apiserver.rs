//! The reference: `$HOLDFAST_KUBE_APISERVER`, or one that is built from its published module.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use crate::go::Program;

/// Program to build.
pub(crate) const PROGRAM: Program = Program {
    module: "k8s.io/kubernetes",
    version: "v1.36.3",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    name: "kube-apiserver",
    link: "-X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 \
           -X k8s.io/component-base/version.gitMinor=36",
    beside: Some("v0.36.3"),
    is_test: false,
};

/// Returns the program that `$HOLDFAST_KUBE_APISERVER` names.
pub fn named() -> Option<PathBuf> {
    std::env::var_os("HOLDFAST_KUBE_APISERVER").map(PathBuf::from)
}

/// Returns the path of a kube-apiserver: the one that is [`named`], else the one in `target/kube-apiserver` of the
/// repository. Builds the latter if it is absent, which needs ten minutes.
///
/// # Errors
/// If it cannot be built; the error has the reason.
pub fn program() -> io::Result<PathBuf> {
    if let Some(named) = named() {
        return Ok(named);
    }
    let folder = crate::root().join("target/kube-apiserver");
    let work = folder.join("go");
    fs::create_dir_all(&work)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let done = folder.join(PROGRAM.name);
    if !done.is_file() {
        fs::rename(PROGRAM.build(&work)?, &done)?;
    }
    Ok(done)
}
