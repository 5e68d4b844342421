//! Parsing of the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::authorization::MODE_FLAGS;
use crate::controllers::OF_SMALL_CLUSTER;
use crate::flags::{Arguments, Command as Subcommand, Serve};
use crate::{compatible, help};

/// Parses the command line; exits if it is invalid or requests help.
pub(crate) fn read(words: Vec<OsString>) -> Arguments {
    try_read(words).unwrap_or_else(|error| error.exit())
}

/// Parses a command line.
///
/// # Errors
/// If it is invalid or requests help.
pub(crate) fn try_read(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let reduced = compatible::reduce(words, &command);
    if let Some(error) = reduced.error() {
        return Err(command.error(ErrorKind::UnknownArgument, error));
    }
    let outcome = command.clone().try_get_matches_from(&reduced.words);
    let matches = outcome.map_err(|error| with_help(error, &reduced.words))?;
    let parsed = Arguments::from_arg_matches(&matches);
    let mut arguments = parsed.map_err(|error| error.format(&mut command))?;
    let flags = FlagsOfServer {
        command: &command,
        matches: matches.subcommand().map_or(&matches, |(_, matches)| matches),
        ignored: reduced.ignored,
    };
    match arguments.command {
        Some(Subcommand::Serve(serve)) => {
            arguments.serve = *serve.0;
            arguments.command = None;
            flags.complete(&mut arguments.serve);
        }
        Some(Subcommand::Check(ref mut serve)) => flags.complete(&mut serve.0),
        Some(Subcommand::Run(ref mut run)) => flags.complete(&mut run.0.serve),
        Some(_) => {}
        None => flags.complete(&mut arguments.serve),
    }
    Ok(arguments)
}

/// Returns the error of a command line. A request for help becomes one with groups and examples, which other command lines do
/// not pay for.
fn with_help(error: clap::Error, words: &[OsString]) -> clap::Error {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let helpful = help::command_for(words).try_get_matches_from(words);
            helpful.err().unwrap_or(error)
        }
        _ => error,
    }
}

/// Command line with the flags of the server.
struct FlagsOfServer<'a> {
    command: &'a clap::Command,
    matches: &'a clap::ArgMatches,
    /// Flags of kube-apiserver without effect.
    ignored: BTreeSet<String>,
}

impl FlagsOfServer<'_> {
    /// Sets what the flags of the server do not contain themselves.
    fn complete(self, serve: &mut Serve) {
        let is_set = |id: &str| self.matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = self.command.get_arguments().map(|flag| flag.get_id().as_str());
        serve.on_command_line = ids.filter(|id| is_set(id)).map(str::to_owned).collect();
        serve.ignored = self.ignored;
        serve.stated = stated(self.command, self.matches);
        if serve.is_small_cluster() {
            serve.controllers = OF_SMALL_CLUSTER.map(str::to_owned).to_vec();
            serve
                .stated
                .insert("controllers".to_owned(), serve.controllers.join(","));
        }
        serve.is_anonymous_auth_set = is_set("anonymous_auth");
        serve.authorization.has_mode_flags = MODE_FLAGS.iter().any(|id| is_set(id));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_stated_with_their_values_and_defaults() {
        let command = Arguments::command();
        let matches = command.clone().get_matches_from(["holdfast", "--v=3"]);
        let stated = stated(&command, &matches);
        let value = |name: &str| stated.get(name).map(String::as_str);
        assert_eq!((value("v"), value("logging-format")), (Some("3"), Some("text")));
        assert_eq!(value("help"), None);
    }

    fn read_words(words: &[&str]) -> Arguments {
        let words = std::iter::once("holdfast").chain(words.iter().copied());
        try_read(words.map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn serve_is_the_server_without_a_command() {
        for words in [
            &["serve", "--v=3", "--contention-profiling"][..],
            &["--v=3", "--contention-profiling"],
        ] {
            let arguments = read_words(words);
            assert!(arguments.command.is_none());
            assert_eq!(arguments.serve.v, 3);
            assert_eq!(arguments.serve.stated["v"], "3");
            assert!(arguments.serve.ignored.contains("contention-profiling"));
            assert!(arguments.serve.is_set("v") && !arguments.serve.is_set("data_dir"));
        }
    }

    #[test]
    fn flags_of_the_command_to_run_stay_as_they_are() {
        let arguments = read_words(&[
            "run",
            "--v=3",
            "--contention-profiling",
            "--",
            "make",
            "--contention-profiling",
            "--v=5",
        ]);
        let Some(Subcommand::Run(run)) = arguments.command else {
            panic!("another command")
        };
        assert_eq!((run.0.serve.v, run.0.serve.ignored.len()), (3, 1));
        assert_eq!(run.0.command, ["make", "--contention-profiling", "--v=5"]);
    }
}
