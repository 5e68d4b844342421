//! The binary: the server, and commands for people.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use holdfast_server::runtime::{Clock as _, SystemClock};
use holdfast_value::Value;

use crate::command_line::read;
use crate::envtest::Role;
use crate::flags::{Arguments, Command};
use crate::remote::{ObjectFlags, ReadyFlags};
use crate::terminal::printable_text;
use crate::{
    apply, blame, check, copy, diff, doctor, documents, envtest, history, lint, page, remote, run, serve, snapshot,
    undo,
};

/// Runs the binary: the server, or the command that its command line names.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let outcome = match Role::from_program(words.first()) {
        Some(Role::Etcd) => envtest::run_etcd(&words),
        Some(Role::ApiServer) => {
            let mut arguments = read(envtest::command_line(words));
            envtest::adapt(&mut arguments.serve).and_then(|()| serve::run(&mut arguments.serve))
        }
        None => match read(words) {
            Arguments {
                command: Some(Command::Run(flags)),
                ..
            } => return run::run(*flags.0),
            Arguments {
                command: Some(Command::Diff(flags)),
                ..
            } => return diff::run(&flags),
            Arguments {
                command: Some(Command::Lint(flags)),
                ..
            } => return lint::run(&flags),
            arguments => run_command(arguments),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Writes an error for the person who called.
pub(crate) fn report(error: &anyhow::Error) {
    let text = printable_text(&format!("{error:#}"));
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
}

fn run_command(mut arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Some(Command::Version) => version(),
        Some(Command::Blame(object)) => blame(&object),
        Some(Command::Apply(flags)) => apply::run(&flags),
        Some(Command::History(flags)) => history::run(&flags),
        Some(Command::Undo(flags)) => undo::run(&flags),
        Some(Command::Ui(flags)) => page::run(&flags),
        Some(Command::Ready(access)) => ready(&access),
        Some(Command::Check(flags)) => check::run(*flags.0),
        Some(Command::Doctor(access)) => doctor::run(&access),
        Some(Command::Snapshot { command }) => snapshot::run(&command),
        Some(Command::Copy(flags)) => copy::run(&flags),
        Some(Command::Envtest(flags)) => envtest::run(&flags),
        Some(Command::Completions(flags)) => documents::completions(flags),
        Some(Command::Man(flags)) => documents::man(&flags),
        Some(Command::Reference(flags)) => documents::reference(flags),
        // `main` and the parser have replaced the last four.
        None | Some(Command::Diff(_) | Command::Lint(_) | Command::Run(_) | Command::Serve(_)) => {
            serve::run(&mut arguments.serve)
        }
    }
}

/// Prints an object with the owners of its fields.
fn blame(object: &ObjectFlags) -> anyhow::Result<()> {
    let found = remote::object(object)?;
    let text = printable_text(&blame::render(&found, SystemClock.now()));
    std::io::stdout().write_all(text.as_bytes())?;
    let managers = found.at(&["metadata", "managedFields"]).and_then(Value::as_list);
    if let (Some(path), true) = (object.file(), managers.is_none_or(|managers| managers.is_empty())) {
        let _ = writeln!(
            std::io::stderr(),
            "{} has no managed fields; kubectl get -o yaml --show-managed-fields includes them",
            path.display()
        );
    }
    Ok(())
}

/// Reports that a server is ready, for callers that wait for it.
fn ready(flags: &ReadyFlags) -> anyhow::Result<()> {
    let said = remote::ready(flags)?;
    writeln!(std::io::stdout(), "{}", printable_text(&said))?;
    Ok(())
}

fn version() -> anyhow::Result<()> {
    let kubernetes = holdfast_server::runtime::version::KUBERNETES;
    let own = env!("CARGO_PKG_VERSION");
    writeln!(
        std::io::stdout(),
        "holdfast {own} (behaves like Kubernetes v{kubernetes})"
    )?;
    Ok(())
}
