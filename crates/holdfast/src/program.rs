//! The binary: the server, and commands for people.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use crate::command_line::read;
use crate::envtest::Role;
use crate::flags::{Arguments, Command};
use crate::remote::{AccessFlags, ObjectFlags};
use crate::{apply, blame, copy, documents, envtest, remote, serve, snapshot};

/// Runs the binary: the server, or the command that its command line names.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let outcome = match Role::from_program(words.first()) {
        Some(Role::Etcd) => envtest::run_etcd(&words),
        Some(Role::ApiServer) => {
            let mut arguments = read(envtest::command_line(words));
            envtest::adapt(&mut arguments.serve).and_then(|()| serve::run(&arguments.serve))
        }
        None => run(read(words)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Some(Command::Version) => version(),
        Some(Command::Blame(object)) => blame(&object),
        Some(Command::Apply(flags)) => apply::run(&flags),
        Some(Command::Ready(access)) => ready(&access),
        Some(Command::Snapshot { command }) => snapshot::run(&command),
        Some(Command::Copy(flags)) => copy::run(&flags),
        Some(Command::Envtest(flags)) => envtest::run(&flags),
        Some(Command::Completions(flags)) => documents::completions(flags),
        Some(Command::Man(flags)) => documents::man(&flags),
        Some(Command::Reference(flags)) => documents::reference(flags),
        None => serve::run(&arguments.serve),
    }
}

/// Prints an object with the owners of its fields.
fn blame(object: &ObjectFlags) -> anyhow::Result<()> {
    let text = blame::render(&remote::object(object)?, SystemTime::now());
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Reports that a server is ready, for callers that wait for it.
fn ready(access: &AccessFlags) -> anyhow::Result<()> {
    let said = remote::ready(access)?;
    writeln!(std::io::stdout(), "{said}")?;
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
