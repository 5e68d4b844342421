//! Location of the shared benchmark data.

use std::path::{Path, PathBuf};

use holdfast_value::{Limits, Value, json, yaml};
use test_support::shared_folder;

/// Returns the data directory, or prints a note and returns `None`.
pub(crate) fn directory() -> Option<PathBuf> {
    let directory = shared_folder().join("corpus/smd");
    if directory.join("bench.json").exists() {
        return Some(directory);
    }
    eprintln!("not run: no benchmark data of structured-merge-diff here (set HOLDFAST_SHARED)");
    None
}

/// A JSON or YAML file.
pub(crate) fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    match path.extension().is_some_and(|extension| extension == "json") {
        true => json::parse(&bytes, &Limits::TRUSTED).unwrap(),
        false => yaml::parse(&bytes, &Limits::TRUSTED).unwrap(),
    }
}
