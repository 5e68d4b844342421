#![forbid(unsafe_code)]
//! What tests need beside the repository: recorded data of the reference, programs, clients in other languages.
//!
//! A test says what it needs by [`needs`]. Where that is absent the test is ignored, and the test runner says so.
//! `HOLDFAST_REQUIRE=shared,kubectl,clients,etcd` makes absence a failure.

pub mod etcd;
mod link;

use std::path::{Path, PathBuf};

pub use link::Link;
pub use test_support_macros::needs;

/// The folder with the corpus, the traces and the facts: `$HOLDFAST_SHARED`, or `shared` beside the repository. It may be
/// absent.
pub fn shared_folder() -> PathBuf {
    let beside = || root().join("../shared");
    std::env::var_os("HOLDFAST_SHARED").map_or_else(beside, PathBuf::from)
}

/// A file or folder below the shared folder, in a test that needs it.
///
/// # Panics
/// Where it is absent.
pub fn shared(part: &str) -> PathBuf {
    let path = shared_folder().join(part);
    assert!(path.exists(), "{} is absent", path.display());
    path
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
