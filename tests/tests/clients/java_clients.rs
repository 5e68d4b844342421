//! The Java clients against the real binary: the official one and fabric8's, whose checks are in `tests/clients/java`.
//!
//! Maven downloads the clients and their dependencies below the build directory, once for each `pom.xml`; `javac`
//! compiles.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::tool::printed;
use conformance::{Binary, Server, clients};
use test_support::needs;

/// Maven plugin that downloads the clients.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Returns the folder of the clients' archives.
fn archives() -> PathBuf {
    let folder = clients::installed("java", "pom.xml", |sources, folder| {
        let archives = folder.join("archives");
        let _ = fs::remove_dir_all(&archives);
        let mut fetch = Command::new("mvn");
        fetch
            .args(["--batch-mode", "--quiet", PLUGIN])
            .arg(format!("-DoutputDirectory={}", archives.display()))
            .current_dir(sources);
        vec![fetch]
    });
    folder.unwrap().join("archives")
}

/// Returns Java's class path: a folder of classes, and all archives.
fn class_path(classes: &Path, archives: &Path) -> OsString {
    std::env::join_paths([classes.to_owned(), archives.join("*")]).unwrap()
}

#[needs(clients, javac, mvn)]
#[test]
fn the_official_client_and_fabric8_work() {
    let archives = archives();
    let classes = tempfile::tempdir().unwrap();
    let path = class_path(classes.path(), &archives);
    let mut compile = Command::new("javac");
    compile.arg("-d").arg(classes.path()).arg("-cp").arg(&path);
    let files = fs::read_dir(clients::sources("java"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    compile.args(files.filter(|file| file.extension().is_some_and(|extension| extension == "java")));
    printed(&mut compile, "");

    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut checks = Command::new("java");
    checks.arg("-cp").arg(path).arg("Main").arg(server.kubeconfig());
    let said = printed(&mut checks, "");
    assert!(said.trim_end().ends_with("all held"), "{said}");
}
