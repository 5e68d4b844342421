#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Holdfast, the binary: a Kubernetes-compatible API server in one process, and commands for people.

mod admission;
mod blame;
mod copy;
mod election;
mod files;
mod flags;
mod kubeconfig;
mod logging;
mod openapi;
mod pki;
mod progress;
mod remote;
mod serve;
mod snapshot;
mod storage;
mod token_keys;
mod waiting;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;

use crate::flags::{Arguments, Command};
use crate::remote::ObjectFlags;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Version) => version(),
        Some(Command::Blame(object)) => blame(&object),
        Some(Command::Snapshot { command }) => snapshot::run(&command),
        Some(Command::Copy(flags)) => copy::run(&flags),
        None => serve::run(&arguments.serve),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints an object with the owners of its fields.
fn blame(object: &ObjectFlags) -> anyhow::Result<()> {
    let text = blame::render(&remote::object(object)?, SystemTime::now());
    std::io::stdout().write_all(text.as_bytes())?;
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
