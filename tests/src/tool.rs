//! A command-line tool with a server and a home folder of its own.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Binary, Server};

/// Time limit of anything that the server does asynchronously.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A tool and its server.
pub struct Tool {
    program: PathBuf,
    /// The server that its kubeconfig names.
    pub server: Server,
}

impl Tool {
    /// Starts a server for a program.
    pub fn start(program: impl Into<PathBuf>) -> Self {
        Self::with_server(program, Server::start(&Binary::debug().unwrap(), &[]).unwrap())
    }

    /// Returns a program for a server.
    pub fn with_server(program: impl Into<PathBuf>, server: Server) -> Self {
        let program = program.into();
        Self { program, server }
    }

    /// Returns a file for the tool, in its home: the path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.server.data_dir().join("files").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Returns a call of the tool.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&self.program, arguments)
    }

    /// Returns a call of another program with the same kubeconfig and home.
    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("HOME", self.server.data_dir())
            // ApplySets are a feature of kubectl that its users enable.
            .env("KUBECTL_APPLYSET", "true")
            .args(arguments);
        command
    }

    /// Returns the output of a call with that input.
    pub fn output(&self, arguments: &[&str], input: &str) -> Output {
        finish(&mut self.command(arguments), input)
    }

    /// Returns the standard output of a call that must succeed.
    pub fn says(&self, arguments: &[&str], input: &str) -> String {
        printed(&mut self.command(arguments), input)
    }

    /// Returns the standard output of another program, which must succeed.
    pub fn has_say(&self, program: &Path, arguments: &[&str]) -> String {
        printed(&mut self.command_of(program, arguments), "")
    }

    /// Calls it until it prints the expected output: informers of roles and CRDs may be a moment behind.
    pub fn says_in_time(&self, arguments: &[&str], right: impl Fn(&str) -> bool) {
        self.in_time(arguments, |output| right(&text(&output.stdout)));
    }

    /// Calls it until it fails with this message.
    pub fn rejects_in_time(&self, arguments: &[&str], words: &str) {
        self.in_time(arguments, |output| {
            !output.status.success() && text(&output.stderr).contains(words)
        });
    }

    fn in_time(&self, arguments: &[&str], right: impl Fn(&Output) -> bool) {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let output = self.output(arguments, "");
            if right(&output) {
                return;
            }
            assert!(Instant::now() < end, "{arguments:?}: {output:?}");
        }
    }

    /// Returns the error message of a call that must fail.
    pub fn rejects(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(
            !output.status.success(),
            "{arguments:?} succeeded: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }
}

/// Runs a command that must succeed, and returns its output.
pub fn printed(command: &mut Command, input: &str) -> String {
    let output = finish(command, input);
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn finish(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the output of a program as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a program of the shell in a folder: its path.
pub fn script(folder: &Path, name: &str, body: &str) -> String {
    let path = folder.join(name);
    // Another process writes it: processes that other tests start hold copies of the files that are open here until
    // they run their programs, and no process can run a file that is open for writing.
    let mut write = Command::new("sh");
    write.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(&path);
    printed(&mut write, &format!("#!/bin/sh\n{body}\n"));
    path.display().to_string()
}
