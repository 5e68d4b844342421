//! Contents of `packaging`: the systemd unit and the image recipe.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use conformance::tool::{printed, script};
use conformance::{Binary, Server, root};
use test_support::{free_address, needs};

/// Maximum exposure of the unit according to systemd, in tenths of its scale from 0 to 10.
const EXPOSURE: &str = "--threshold=15";

fn recipe(name: &str) -> String {
    fs::read_to_string(root().join("packaging").join(name)).unwrap()
}

/// Returns the values of a field of the unit.
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

/// Verifies the unit with systemd, with the path of an existing program in it.
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
fn image_has_an_unprivileged_user_a_volume_and_a_health_check() {
    let recipe = recipe("Containerfile");
    let (_, image) = recipe.rsplit_once("\nFROM ").unwrap();
    let line = |instruction: &str| {
        let mut lines = image.lines().filter_map(|line| line.strip_prefix(instruction));
        lines.next().unwrap_or_default().trim().to_owned()
    };
    assert!(image.starts_with("scratch\n"));
    assert_eq!(line("USER"), "65532:65532");
    assert_eq!(line("VOLUME"), "/data");
    // The binary accepts the commands of the image.
    let binary = Binary::debug().unwrap();
    for instruction in ["ENTRYPOINT", "HEALTHCHECK"] {
        printed(binary.command().args(words_of(instruction)).arg("--help"), "");
    }
}

/// Returns the words of an instruction of the image in the form of a list, behind the program's name.
fn words_of(instruction: &str) -> Vec<String> {
    let recipe = recipe("Containerfile");
    let (_, image) = recipe.rsplit_once("\nFROM ").unwrap();
    let line = image.lines().find(|line| line.starts_with(instruction)).unwrap();
    let words: Vec<String> = serde_json::from_str(line.get(line.find('[').unwrap()..).unwrap()).unwrap();
    assert_eq!(words[0], "/holdfast");
    words[1..].to_vec()
}

/// Creates the root file system of the image in a folder with the commands of the recipe, but with the tests' binary
/// instead of the one that they build. That one is static; this one gets the libraries that it is linked with.
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
    add_libraries(binary.path(), &root);
    root
}

/// Returns the program of the image as its user, with nothing of this machine to read.
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
    serves(&image(folder.path()));
}

/// Starts the program of an image as the image does, asks for its health, and ends it.
fn serves(root: &Path) {
    let mut words = words_of("ENTRYPOINT");
    words.push(format!("--secure-port={}", free_address().unwrap().port()));
    let mut server = Ended(in_image(root, &words).stdout(Stdio::piped()).spawn().unwrap());
    // Its first line reports that it serves.
    let mut said = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let health = words_of("HEALTHCHECK");
    let healthy = in_image(root, &health).output().unwrap();
    assert!(healthy.status.success(), "{said}: {healthy:?}");
    printed(Command::new("kill").arg(server.0.id().to_string()), "");
    assert!(server.0.wait().unwrap().success());
    let kept = fs::metadata(root.join("data/kubeconfig")).unwrap();
    assert_eq!((kept.uid(), kept.mode() & 0o777), (65532, 0o600));
    assert!(!in_image(root, &health).output().unwrap().status.success());
}

/// Container engine with a store of its own.
struct Engine {
    folder: tempfile::TempDir,
}

impl Engine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    /// Returns the output of a command of the engine.
    fn says(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("buildah");
        for (flag, name) in [("--root", "store"), ("--runroot", "running")] {
            command.arg(flag).arg(self.folder.path().join(name));
        }
        printed(command.args(["--storage-driver=vfs"]).args(arguments), "")
            .trim()
            .to_owned()
    }

    /// Imports a folder as an image of this name, which replaces one from a registry.
    fn keep(&self, folder: &Path, name: &str) {
        let container = self.says(&["from", "scratch"]);
        self.says(&["copy", "--quiet", &container, folder.to_str().unwrap(), "/"]);
        self.says(&["config", "--env=PATH=/bin", &container]);
        self.says(&["commit", "--quiet", &container, name]);
    }
}

/// Creates the root file system of a build image: a shell with a few programs, and the tests' binary instead of the one
/// that Cargo would build.
fn builder(folder: &Path) -> PathBuf {
    let root = folder.join("builder");
    let binary = Binary::debug().unwrap();
    fs::create_dir_all(root.join("etc/ssl/certs")).unwrap();
    fs::write(root.join("etc/ssl/certs/ca-certificates.crt"), "").unwrap();
    fs::create_dir_all(root.join("bin")).unwrap();
    for name in ["sh", "cp", "mkdir", "chown"] {
        let found = printed(Command::new("which").arg(name), "");
        fs::copy(found.trim(), root.join("bin").join(name)).unwrap();
        add_libraries(Path::new(found.trim()), &root);
    }
    script(&root.join("bin"), "apk", "echo apk \"$@\"");
    let libraries = root.join("stub/libraries");
    fs::create_dir_all(&libraries).unwrap();
    fs::copy(binary.path(), root.join("stub/holdfast")).unwrap();
    add_libraries(binary.path(), &libraries);
    let install =
        "mkdir -p /built/bin /image && cp /stub/holdfast /built/bin/holdfast && cp -r /stub/libraries/. /image";
    script(&root.join("bin"), "cargo", install);
    root
}

/// Copies the libraries that a program is linked with to their paths below another root.
fn add_libraries(program: &Path, root: &Path) {
    let linked = printed(Command::new("ldd").arg(program), "");
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let mut copy = Command::new("cp");
        printed(copy.args(["--parents", "--dereference", library]).arg(root), "");
    }
}

#[needs(root, buildah)]
#[test]
fn engine_builds_image_whose_server_writes_only_to_the_volume() {
    let engine = Engine::new();
    let folder = tempfile::tempdir().unwrap();
    let text = recipe("Containerfile");
    let image = text
        .lines()
        .find_map(|line| line.strip_prefix("FROM ")?.strip_suffix(" AS build"));
    let base = format!("docker.io/library/{}", image.unwrap());
    engine.keep(&builder(folder.path()), &base);
    let file = root().join("packaging/Containerfile");
    let sources = folder.path().join("sources");
    fs::create_dir(&sources).unwrap();
    let mut build = vec![
        "build",
        "--isolation=chroot",
        "--format=docker",
        "--pull-never",
        "--tag=holdfast",
    ];
    build.extend(["--file", file.to_str().unwrap(), sources.to_str().unwrap()]);
    engine.says(&build);

    let shown: serde_json::Value =
        serde_json::from_str(&engine.says(&["inspect", "--type=image", "holdfast"])).unwrap();
    let config = &shown["Docker"]["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["StopSignal"], "SIGTERM");
    assert!(config["Volumes"]["/data"].is_object() && config["ExposedPorts"]["6443/tcp"].is_object());
    assert_eq!(config["Entrypoint"][0], "/holdfast");
    assert_eq!(config["Healthcheck"]["Test"][1], "/holdfast");

    let container = engine.says(&["from", "--pull-never", "holdfast"]);
    let root = PathBuf::from(engine.says(&["mount", &container]));
    // This corresponds to a container with a read-only root.
    fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o555)).unwrap();
    chown(root.join("tmp"), Some(0), Some(0)).unwrap();
    serves(&root);
    engine.says(&["umount", &container]);
}

#[test]
fn a_server_reports_whether_it_is_ready() {
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

#[ignore = "slow: compiles most dependencies again, with the features of one package"]
#[test]
fn cargo_installs_the_binary() {
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
