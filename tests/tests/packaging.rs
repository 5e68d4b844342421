//! What `packaging` holds: the unit for systemd and the recipe of the image.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::fs;
use std::process::{Command, Output};

use conformance::{Binary, Server, root};
use test_support::needs;

/// The most that systemd may find the unit exposed, in tenths of its scale from 0 to 10.
const EXPOSURE: &str = "--threshold=15";

fn recipe(name: &str) -> String {
    fs::read_to_string(root().join("packaging").join(name)).unwrap()
}

/// The values of a field of the unit.
fn values<'u>(unit: &'u str, field: &str) -> Vec<&'u str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| *name == field)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn the_unit_gives_the_server_a_user_and_one_directory() {
    let unit = recipe("holdfast.service");
    let [start] = values(&unit, "ExecStart")[..] else {
        unreachable!("one command starts the server")
    };
    assert!(start.starts_with("/usr/local/bin/holdfast --data-dir=${STATE_DIRECTORY}"));
    for (field, value) in [
        ("DynamicUser", "yes"),
        ("StateDirectory", "holdfast"),
        ("StateDirectoryMode", "0700"),
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("MemoryDenyWriteExecute", "yes"),
    ] {
        assert_eq!(values(&unit, field), [value], "{field}");
    }
}

/// Has systemd judge the unit, with a program in it that is there.
fn judged(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("holdfast.service");
    let text = recipe("holdfast.service").replace("/usr/local/bin/holdfast", "/bin/true");
    fs::write(&unit, text).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).arg(unit).output().unwrap()
}

#[needs(systemd_analyze)]
#[test]
fn systemd_takes_the_unit_and_finds_it_little_exposed() {
    for arguments in [&["verify", "--man=no"][..], &["security", "--offline=yes", EXPOSURE]] {
        let output = judged(arguments);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn the_image_has_a_user_without_rights_a_volume_and_a_check_of_health() {
    let recipe = recipe("Containerfile");
    let (_, image) = recipe.rsplit_once("\nFROM ").unwrap();
    let line = |instruction: &str| {
        let mut lines = image.lines().filter_map(|line| line.strip_prefix(instruction));
        lines.next().unwrap_or_default().trim().to_owned()
    };
    assert!(image.starts_with("scratch\n"));
    assert_eq!(line("USER"), "65532:65532");
    assert_eq!(line("VOLUME"), "/data");
    let command = |instruction: &str| -> Vec<String> {
        let line = line(instruction);
        serde_json::from_str(line.get(line.find('[').unwrap()..).unwrap()).unwrap()
    };
    // The binary knows what the image calls it with.
    let binary = Binary::debug().unwrap();
    for instruction in ["ENTRYPOINT", "HEALTHCHECK"] {
        let words = command(instruction);
        let help = binary.command().args(&words[1..]).arg("--help").output().unwrap();
        assert!(help.status.success(), "{help:?}");
    }
}

#[test]
fn a_server_is_asked_whether_it_is_ready() {
    let binary = Binary::debug().unwrap();
    let mut server = Server::start(&binary, &[]).unwrap();
    let ask = |server: &Server| {
        let mut command = binary.command();
        command
            .args(["ready", "--kubeconfig"])
            .arg(server.kubeconfig())
            .output()
            .unwrap()
    };
    let ready = ask(&server);
    assert!(ready.status.success() && ready.stdout == b"ok\n", "{ready:?}");
    server.end();
    assert!(!ask(&server).status.success());
}

#[test]
fn cargo_installs_the_binary() {
    // What the tests have built anyway is installed.
    Binary::debug().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let installed = Command::new(env!("CARGO"))
        .args([
            "install",
            "--quiet",
            "--debug",
            "--locked",
            "--offline",
            "--path",
            "crates/holdfast",
            "--root",
        ])
        .arg(folder.path())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let version = Command::new(folder.path().join("bin/holdfast"))
        .arg("version")
        .output()
        .unwrap();
    assert!(version.stdout.starts_with(b"holdfast "), "{version:?}");
}
