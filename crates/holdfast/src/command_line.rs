//! Parsing of the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::authorization::MODE_FLAGS;
use crate::compatible;
use crate::flags::Arguments;

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
    let matches = command.clone().try_get_matches_from(reduced.words)?;
    let parsed = Arguments::from_arg_matches(&matches);
    let mut arguments = parsed.map_err(|error| error.format(&mut command))?;
    arguments.serve.ignored = reduced.ignored;
    arguments.serve.stated = stated(&command, &matches);
    let is_set = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    arguments.serve.is_anonymous_auth_set = is_set("anonymous_auth");
    arguments.serve.authorization.has_mode_flags = MODE_FLAGS.iter().any(|id| is_set(id));
    Ok(arguments)
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
}
