#![forbid(unsafe_code)]
//! Support for tests: requirements outside the repository (recorded data of the reference, programs, clients in other
//! languages), and the check of the order of modules inside a crate ([`Layers`]).
//!
//! A test declares its requirements with [`needs`]. If one is absent, the test is ignored, and the test runner reports
//! it. `HOLDFAST_REQUIRE=shared,kubectl,clients,etcd,kube_apiserver` makes absence a failure.

pub mod e2e;
pub mod etcd;
mod go;
pub mod grpc_server;
pub mod kms_plugin;
pub mod kube_apiserver;
mod layers;
mod link;
mod ports;
pub mod token_signer;
pub mod trace_collector;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use layers::Layers;
pub use link::Link;
pub use ports::free_address;
pub use test_support_macros::needs;

/// Returns the folder with the corpus, the traces and the facts: `$HOLDFAST_SHARED`, or `shared` next to the
/// repository. It may be absent.
pub fn shared_folder() -> PathBuf {
    let beside = || root().join("../shared");
    std::env::var_os("HOLDFAST_SHARED").map_or_else(beside, PathBuf::from)
}

/// Returns a file or folder below the shared folder, in a test that needs it.
///
/// # Panics
/// If it is absent.
pub fn shared(part: &str) -> PathBuf {
    let path = shared_folder().join(part);
    assert!(path.exists(), "{} is absent", path.display());
    path
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program to its end and returns its output.
fn run(mut command: Command) -> io::Result<String> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(said.trim_end().to_owned()))
        }
    }
}
