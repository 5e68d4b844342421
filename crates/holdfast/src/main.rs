#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Holdfast, the binary: a Kubernetes-compatible API server in one process, and commands for people.

mod admission;
mod aggregation;
mod audit;
mod authentication;
mod blame;
mod certificates;
mod compatible;
mod controllers;
mod copy;
mod documents;
mod election;
mod encryption;
mod endpoints;
mod envtest;
mod fairness;
mod files;
mod flags;
mod health;
mod kubeconfig;
mod kubelets;
mod logging;
mod openapi;
mod pki;
mod presence;
mod progress;
mod reload;
mod remote;
mod serve;
mod served;
mod service;
mod snapshot;
mod static_admission;
mod storage;
mod store;
mod token_keys;
mod transport;
mod validation;
mod waiting;
mod webhook;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::envtest::Role;
use crate::flags::{Arguments, Command};
use crate::remote::{AccessFlags, ObjectFlags};

fn main() -> ExitCode {
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

/// Parses the command line; exits if it is invalid or requests help.
fn read(words: Vec<OsString>) -> Arguments {
    let mut command = Arguments::command();
    let reduced = compatible::reduce(words, &command);
    if let Some(error) = reduced.error() {
        command.error(ErrorKind::UnknownArgument, error).exit();
    }
    let matches = command.clone().get_matches_from(reduced.words);
    let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
    arguments.serve.ignored = reduced.ignored;
    arguments.serve.stated = stated(&command, &matches);
    arguments.serve.is_anonymous_auth_set = matches.value_source("anonymous_auth") == Some(ValueSource::CommandLine);
    arguments
}

/// Returns the flags of the server with their values, as the server shows them to authorized users.
fn stated(command: &clap::Command, matches: &clap::ArgMatches) -> BTreeMap<String, String> {
    let visible = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let flags = visible.filter_map(|flag| {
        let raw_values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
        let values: Vec<String> = raw_values.map(|value| value.to_string_lossy().into_owned()).collect();
        let value = match flag.get_action() {
            clap::ArgAction::Append => format!("[{}]", values.join(",")),
            clap::ArgAction::SetTrue => matches.get_flag(flag.get_id().as_str()).to_string(),
            _ => values.join(","),
        };
        Some((flag.get_long()?.to_owned(), value))
    });
    flags.collect()
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Some(Command::Version) => version(),
        Some(Command::Blame(object)) => blame(&object),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_stated_with_their_values_and_defaults() {
        let command = Arguments::command();
        let matches = command.clone().get_matches_from(["holdfast", "--v=3"]);
        let stated = stated(&command, &matches);
        let value = |name: &str| stated.get(name).map(String::as_str);
        assert_eq!((value("v"), value("log-format")), (Some("3"), Some("text")));
        assert_eq!(value("help"), None);
    }
}
