//! The daily work of an unmodified `kubectl` against the real binary. kubectl comes from the Kubernetes
//! project, not from a registry of Rust: where it is not on the path, these tests are ignored.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "what fails here is the test")]

mod conversion;
mod custom_resources;
mod operators;
mod workloads;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use conformance::{Binary, Server};

/// A kubectl that speaks to a server of its own, with a cache of its own.
struct Kubectl {
    server: Server,
}

impl Kubectl {
    fn start() -> Self {
        let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
        Self { server }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("HOME", self.server.data_dir())
            .arg(format!("--server=https://{}", self.server.address))
            .args(arguments);
        command
    }

    fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What it prints where it must succeed.
    fn says(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// What it complains of where it must fail.
    fn refuses(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(
            !output.status.success(),
            "kubectl {arguments:?} succeeded: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }

    /// Waits until all definitions are established. By path, since `--for=condition` ends with an error where an object has
    /// no conditions yet, which the reference shows of new definitions, too.
    fn wait_for_definitions(&self) {
        let established = r#"--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True"#;
        self.says(&["wait", "crd", "--all", established, "--timeout=60s"], "");
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.says(&["get", object, "-o", &format!("jsonpath={path}")], "")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn script(folder: &Path, name: &str, body: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}
