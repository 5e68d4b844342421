//! Commands of the binary: the server by name, and commands against a temporary server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use conformance::{Binary, Process, wait_for_end};

const LIMIT: Duration = Duration::from_secs(60);

fn holdfast(arguments: &[&str]) -> Command {
    let mut command = Binary::debug().unwrap().command();
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    holdfast(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn serve_starts_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (data, ready) = (folder.path().join("data"), folder.path().join("ready"));
    let mut child = holdfast(&["serve", "--secure-port=0"])
        .arg(format!("--data-dir={}", data.display()))
        .arg(format!("--ready-file={}", ready.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    while !ready.exists() {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let kubeconfig = data.join("kubeconfig");
    let checked = output(&["ready", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(stdout(&checked), "ok");
    Process(child.id()).terminate();
    assert_eq!(wait_for_end(&mut child, LIMIT).unwrap().code(), Some(0));
}

#[test]
fn run_gives_the_command_a_server_and_removes_it() {
    let binary = Binary::debug().unwrap();
    let script = format!("{} ready && echo $KUBECONFIG && exit 7", binary.path().display());
    let output = output(&["run", "--", "sh", "-c", &script]);
    let lines = stdout(&output);
    let (first, kubeconfig) = lines.split_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!((first, output.status.code()), ("ok", Some(7)));
    assert!(kubeconfig.ends_with("/kubeconfig"), "{kubeconfig}");
    assert!(
        !Path::new(kubeconfig).parent().unwrap().exists(),
        "{kubeconfig} is left"
    );
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn run_keeps_objects_in_a_directory_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().join("data").display());
    assert!(output(&["run", &data, "--", "true"]).status.success());
    assert!(folder.path().join("data/store.db").exists());
}

#[test]
fn run_exits_like_env_if_nothing_ran() {
    let code = |arguments: &[&str]| output(arguments).status.code();
    assert_eq!(code(&["run", "--", "/no/such/program"]), Some(127));
    assert_eq!(code(&["run", "--", "/etc/passwd"]), Some(126));
    assert_eq!(code(&["run", "--token-auth-file=/no/file", "--", "true"]), Some(125));
    assert_eq!(
        code(&["run", "--etcd-servers=http://127.0.0.1:9", "--", "true"]),
        Some(125)
    );
    assert_eq!(code(&["run", "true"]), Some(2));
    assert_eq!(code(&["run"]), Some(2));
    assert_eq!(code(&["run", "--", "sh", "-c", "kill -9 $$"]), Some(128 + 9));
}

#[test]
fn run_forwards_signals_to_the_command() {
    let script = "trap 'echo got it; exit 42' TERM; echo started; while :; do sleep 0.02; done";
    let mut child = holdfast(&["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    Process(child.id()).terminate();
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(wait_for_end(&mut child, LIMIT).unwrap().code(), Some(42));
}
