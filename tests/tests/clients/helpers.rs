//! The helpers in `helpers`, by their own tests with the real binary.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::tool::printed;
use conformance::{Binary, clients, root};
use test_support::needs;

use crate::go_clients::ENVTEST_TIMEOUTS;

/// Environment variable with the path of the binary.
const BINARY: &str = "HOLDFAST";

fn helper(language: &str) -> PathBuf {
    root().join("helpers").join(language)
}

/// Copies the sources of a helper into the folder of an installation, so that its programs write nothing next to them.
fn copy(from: &Path, to: &Path) {
    const WRITTEN: [&str; 2] = ["node_modules", "target"];
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, copy) = (entry.file_name(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true if WRITTEN.iter().any(|written| name == *written) => {}
            true => self::copy(&entry.path(), &copy),
            false => drop(fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

#[needs(clients, go)]
#[test]
fn go_helper_and_its_example_work() {
    let mut tests = Command::new("go");
    tests
        .args(["test", "-vet=off", "-count=1", "-timeout=30m", "./..."])
        .current_dir(helper("go"))
        .env(BINARY, Binary::debug().unwrap().path())
        .envs(ENVTEST_TIMEOUTS)
        .env_remove("HOLDFAST_CONTROLLERS");
    printed(&mut tests, "");
}

/// Returns `PATH` without the folders that have a `holdfast`.
fn path_without_binary() -> OsString {
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.join("holdfast").exists());
    std::env::join_paths(folders).unwrap()
}

/// The tests use the binary that the wheel carries.
#[needs(clients)]
#[test]
fn python_helper_works_from_its_wheel() {
    let sources = helper("python");
    let folder = clients::installed_from(&sources, "helper-python", "requirements.txt", |sources, folder| {
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv"]).arg(folder);
        let mut packages = Command::new(folder.join("bin/pip"));
        packages
            .args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(sources.join("requirements.txt"));
        vec![environment, packages]
    });
    let (folder, wheels) = (folder.unwrap(), tempfile::tempdir().unwrap());
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(arguments)
            .args(["--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip
    };
    let mut build = pip(&["wheel", "--no-build-isolation"]);
    build
        .arg("--wheel-dir")
        .arg(wheels.path())
        .arg(&sources)
        .env("HOLDFAST_BINARY", Binary::debug().unwrap().path());
    printed(&mut build, "");
    let wheel = fs::read_dir(wheels.path()).unwrap().next().unwrap().unwrap().path();
    printed(pip(&["install", "--force-reinstall"]).arg(&wheel), "");
    assert!(folder.join("bin/holdfast").exists(), "{}", wheel.display());
    let mut tests = Command::new(folder.join("bin/python"));
    tests
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .current_dir(&sources)
        .env("PATH", path_without_binary())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove(BINARY);
    printed(&mut tests, "");
}

#[needs(clients, mvn)]
#[test]
fn java_helper_and_its_example_work() {
    let folder = root().join("target/clients/helper-java");
    copy(&helper("java"), &folder);
    let mut tests = Command::new("mvn");
    tests
        .args(["--batch-mode", "--quiet", "test"])
        .current_dir(&folder)
        .env(BINARY, Binary::debug().unwrap().path());
    printed(&mut tests, "");
}

/// The tests run Vitest, Jest and the compiler of TypeScript.
#[needs(clients)]
#[test]
fn javascript_helper_and_its_example_work() {
    let folder = clients::installed_from(
        &helper("javascript"),
        "helper-javascript",
        "package-lock.json",
        |sources, folder| {
            copy(sources, folder);
            let mut packages = Command::new("npm");
            packages
                .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
                .current_dir(folder);
            vec![packages]
        },
    );
    let folder = folder.unwrap();
    copy(&helper("javascript"), &folder);
    let mut tests = Command::new("npm");
    tests
        .args(["test"])
        .current_dir(&folder)
        .env(BINARY, Binary::debug().unwrap().path());
    printed(&mut tests, "");
}
