//! What `packaging` holds: the unit for systemd and the recipe of the image.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use conformance::tool::printed;
use conformance::{Binary, Server, root};
use test_support::{free_address, needs};

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
    // The binary knows what the image calls it with.
    let binary = Binary::debug().unwrap();
    for instruction in ["ENTRYPOINT", "HEALTHCHECK"] {
        printed(binary.command().args(words_of(instruction)).arg("--help"), "");
    }
}

/// The words of an instruction of the image in the form of a list, behind the program's name.
fn words_of(instruction: &str) -> Vec<String> {
    let recipe = recipe("Containerfile");
    let (_, image) = recipe.rsplit_once("\nFROM ").unwrap();
    let line = image.lines().find(|line| line.starts_with(instruction)).unwrap();
    let words: Vec<String> = serde_json::from_str(line.get(line.find('[').unwrap()..).unwrap()).unwrap();
    assert_eq!(words[0], "/holdfast");
    words[1..].to_vec()
}

/// The root of the image in a folder, made by the commands of the recipe, with the binary of the tests in the place of the one that
/// they build. That one is static; this one gets the libraries that it is linked with.
fn image(folder: &Path) -> PathBuf {
    let recipe = recipe("Containerfile").replace("\\\n", " ");
    let (built, root) = (folder.join("built"), folder.join("image"));
    fs::create_dir_all(built.join("bin")).unwrap();
    let binary = Binary::debug().unwrap();
    fs::copy(binary.path(), built.join("bin/holdfast")).unwrap();
    let commands = recipe
        .lines()
        .find_map(|line| line.strip_prefix("RUN cargo install"))
        .unwrap();
    let (build, commands) = commands.split_once("&&").unwrap();
    assert!(build.contains(" --root /built"));
    let commands = commands
        .replace("/image", root.to_str().unwrap())
        .replace("/built", built.to_str().unwrap());
    printed(Command::new("sh").args(["-ec", &commands]), "");
    assert!(recipe.contains("\nCOPY --from=build /image /\n"));
    let linked = printed(Command::new("ldd").arg(binary.path()), "");
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let mut copy = Command::new("cp");
        printed(copy.args(["--parents", "--dereference", library]).arg(&root), "");
    }
    root
}

/// The program of the image as its user, with nothing of this machine to read.
fn in_image(root: &Path, words: &[String]) -> Command {
    let mut command = Command::new("chroot");
    command
        .args(["--userspec=65532:65532", "--groups="])
        .arg(root)
        .arg("/holdfast")
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    command
}

/// A process that ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[needs(root)]
#[test]
fn the_image_runs_from_what_the_recipe_puts_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = image(folder.path());
    let mut words = words_of("ENTRYPOINT");
    words.push(format!("--secure-port={}", free_address().unwrap().port()));
    let mut server = Ended(in_image(&root, &words).stdout(Stdio::piped()).spawn().unwrap());
    // Its first line says that it serves.
    let mut said = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let health = words_of("HEALTHCHECK");
    let healthy = in_image(&root, &health).output().unwrap();
    assert!(healthy.status.success(), "{said}: {healthy:?}");
    printed(Command::new("kill").arg(server.0.id().to_string()), "");
    assert!(server.0.wait().unwrap().success());
    let kept = fs::metadata(root.join("data/kubeconfig")).unwrap();
    assert_eq!((kept.uid(), kept.mode() & 0o777), (65532, 0o600));
    assert!(!in_image(&root, &health).output().unwrap().status.success());
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
