//! `holdfast run`: a command against a temporary server.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{ErrorKind, IsTerminal as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers};
use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::flags::Serve;
use crate::serve::{Serving, in_runtime, start_server};
use crate::{files, logging, program};

/// Exit statuses for commands that cannot run, as those of env(1) and of shells.
const SERVER_FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Exit status of a command that a signal ended, less the number of the signal.
const BY_SIGNAL: i32 = 128;

/// Flags of the temporary server, and the command.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Flags of the server.
    #[command(flatten)]
    pub(crate) serve: Serve,

    /// Command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Runs the command, and returns its exit status.
pub(crate) fn run(mut flags: RunFlags) -> ExitCode {
    let outcome = adapt(&mut flags.serve).and_then(|()| {
        let serve = &mut flags.serve;
        serve.verbosity = Some(match serve.is_set("v") {
            true => logging::start(serve.logging_format, serve.v),
            false => logging::start_quietly(serve.logging_format),
        });
        let serve = &flags.serve;
        in_runtime(serve, run_with_server(&flags)).flatten()
    });
    let code = outcome.unwrap_or_else(|error| {
        program::report(&error);
        SERVER_FAILED
    });
    ExitCode::from(code)
}

/// Selects a free port and memory, unless the command line selects others.
fn adapt(serve: &mut Serve) -> Result<()> {
    if !serve.is_set("secure_port") {
        serve.secure_port = 0;
    }
    match serve.is_set("data_dir") {
        true => Ok(()),
        false => serve.keep_in_memory(),
    }
}

async fn run_with_server(flags: &RunFlags) -> Result<u8> {
    let mut signals = Signals::new()?;
    let mut first = None;
    let cancelled = async { first = Some(signals.next().await) };
    let Some(started) = start_server(&flags.serve, cancelled).await? else {
        return Ok(first.map_or(SERVER_FAILED, status_of_signal));
    };
    let credentials = started.certificates.administrator.clone();
    let administrator = credentials.context("the server has no administrator")?;
    let kubeconfig = Kubeconfig::write(&administrator.kubeconfig(&started.url))?;
    let mut serving = started.begin(&flags.serve)?;
    let outcome = run_child(&flags.command, &kubeconfig.file(), &mut signals, &mut serving).await;
    drop(kubeconfig);
    serving.stop(std::future::ready(())).await?;
    outcome
}

async fn run_child(words: &[OsString], kubeconfig: &Path, signals: &mut Signals, serving: &mut Serving) -> Result<u8> {
    let (program, arguments) = words.split_first().context("no command is given")?;
    let spawned = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let is_missing = error.kind() == ErrorKind::NotFound;
            program::report(&anyhow!(error).context(format!("cannot run {}", program.display())));
            return Ok(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let forward = |signal| {
        if let Some(pid) = pid {
            // The child may have ended just now.
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    let mut ended = wait(child);
    loop {
        tokio::select! {
            status = &mut ended => {
                let status = status.context("cannot wait for the command")?.context("cannot wait for the command")?;
                return Ok(status_code(status));
            }
            signal = signals.next() => {
                if !has_received(signal) {
                    forward(signal);
                }
            }
            error = serving.failed() => {
                forward(Signal::TERM);
                let _ = ended.await;
                return Err(error);
            }
        }
    }
}

/// Waits for the end of `child` in a thread, so that signals are forwarded in the meantime.
fn wait(mut child: Child) -> oneshot::Receiver<std::io::Result<ExitStatus>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || sender.send(child.wait()));
    receiver
}

/// True if the terminal sends the signal to this process and to its child.
fn has_received(signal: Signal) -> bool {
    let stdin = std::io::stdin();
    let is_of_keyboard = [Signal::INT, Signal::QUIT].contains(&signal);
    is_of_keyboard
        && stdin.is_terminal()
        && rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns the exit status of `holdfast run` for that of the command.
fn status_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(BY_SIGNAL + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn status_of_signal(signal: Signal) -> u8 {
    u8::try_from(BY_SIGNAL + signal.as_raw()).unwrap_or(u8::MAX)
}

/// Signals that are forwarded to the command.
struct Signals([(tokio::signal::unix::Signal, Signal); 4]);

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind, forwarded| anyhow::Ok((signal(kind).context("cannot wait for signals")?, forwarded));
        Ok(Self([
            listen(SignalKind::hangup(), Signal::HUP)?,
            listen(SignalKind::interrupt(), Signal::INT)?,
            listen(SignalKind::quit(), Signal::QUIT)?,
            listen(SignalKind::terminate(), Signal::TERM)?,
        ]))
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> Signal {
        let waiting = self.0.each_mut().map(|(received, signal)| {
            Box::pin(async move {
                received.recv().await;
                *signal
            })
        });
        futures_util::future::select_all(waiting).await.0
    }
}

/// A kubeconfig in a directory of its own, which is deleted when this is dropped.
struct Kubeconfig {
    directory: PathBuf,
}

impl Kubeconfig {
    fn write(text: &str) -> Result<Self> {
        let name = format!("holdfast-run-{}", RandomIdentifiers::default().uid());
        let directory = std::env::temp_dir().join(name);
        // The directory must be new: another user could have prepared it.
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| format!("cannot make the folder {}", directory.display()))?;
        let kubeconfig = Self { directory };
        files::write_private(&kubeconfig.file(), text)?;
        Ok(kubeconfig)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
