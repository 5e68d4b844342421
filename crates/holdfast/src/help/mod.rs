//! Help of the command line: groups of flags, and examples.

mod groups;
mod pages;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::Str;
use clap::{Arg, Command, CommandFactory as _};

use crate::flags::Arguments;

pub(crate) use pages::{Row, page};

/// Number of columns after which help is wrapped on wider terminals.
const COLUMNS: usize = 100;

/// Commands with the flags of the server.
pub(crate) const SERVERS: [&str; 3] = ["check", "run", "serve"];

/// Flags of a server that have no meaning for a copy between stores. `copy` accepts them, so that the flags of a server
/// can be given unchanged.
const NOT_OF_COPIES: [&str; 18] = [
    "default-watch-cache-size",
    "delete-collection-workers",
    "enable-garbage-collector",
    "encryption-provider-config-automatic-reload",
    "etcd-compaction-interval",
    "etcd-count-metric-poll-period",
    "etcd-db-metric-poll-interval",
    "etcd-healthcheck-timeout",
    "etcd-readycheck-timeout",
    "etcd-servers",
    "etcd-servers-overrides",
    "event-ttl",
    "history-retention",
    "history-retention-bytes",
    "lease-reuse-duration-seconds",
    "storage-backend",
    "watch-cache",
    "watch-cache-sizes",
];

/// Length of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// Common flags of the server without groups, which fit on a screen: `-h`.
    Brief,
    /// All flags in groups: `--help`.
    Full,
}

/// Returns the command line with its help, and without the commands that only the project's own tools use.
///
/// It parses the same command lines as [`Arguments`], but is slower to build.
pub(crate) fn command() -> Command {
    command_of_length(Length::Full)
}

/// Returns the command line with the help that `words` ask for.
pub(crate) fn command_for(words: &[OsString]) -> Command {
    let mut flags = words.iter().take_while(|word| *word != "--");
    command_of_length(match flags.any(|word| word == "-h") {
        true => Length::Brief,
        false => Length::Full,
    })
}

fn command_of_length(length: Length) -> Command {
    let root = Arguments::command();
    let mut command = about("holdfast".into(), &root)
        .version(env!("CARGO_PKG_VERSION"))
        .args_override_self(root.is_args_override_self())
        .args_conflicts_with_subcommands(root.is_args_conflicts_with_subcommands_set())
        .args(arranged(root.get_arguments(), length))
        .max_term_width(COLUMNS);
    let below = root.get_subcommands().filter(|below| !below.is_hide_set());
    for (order, below) in below.enumerate() {
        command = command.subcommand(subcommand(below, "", length).display_order(order));
    }
    with_examples(command, "")
}

/// Returns a new command with the name and the descriptions of another one.
fn about(name: Str, other: &Command) -> Command {
    let mut command = Command::new(name);
    if let Some(about) = other.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = other.get_long_about() {
        command = command.long_about(about.clone());
    }
    command
}

/// Returns the command below `parent` with its help.
fn subcommand(command: &Command, parent: &str, length: Length) -> Command {
    let name = command.get_name();
    let path = format!("{parent} {name}").trim_start().to_owned();
    let helpful = match path.as_str() {
        "copy" => command.clone().mut_args(|argument| {
            let is_of_servers = |name: &str| NOT_OF_COPIES.contains(&name);
            let hidden = argument.is_hide_set() || argument.get_long().is_some_and(is_of_servers);
            argument.hide(hidden)
        }),
        server if SERVERS.contains(&server) => {
            let mut arguments = built_arguments(command);
            if server == "run" {
                // It has its own defaults: memory, and a free port.
                let differs = |argument: &Arg| ["data-dir", "secure-port"].map(Some).contains(&argument.get_long());
                arguments = arguments
                    .into_iter()
                    .map(|argument| {
                        let hidden = differs(&argument) || argument.is_hide_default_value_set();
                        argument.hide_default_value(hidden)
                    })
                    .collect();
            }
            let name = SERVERS.into_iter().find(|name| *name == server).unwrap_or_default();
            about(name.into(), command)
                .args_override_self(true)
                .args(arranged(arguments.iter(), length))
        }
        _ => {
            let mut helpful = command.clone();
            for below in command.get_subcommands() {
                let replacement = subcommand(below, &path, length);
                helpful = helpful.mut_subcommand(below.get_name(), |_| replacement);
            }
            helpful
        }
    };
    with_examples(helpful, &path).max_term_width(COLUMNS)
}

/// Returns the arguments of a command that are declared only when it is built.
fn built_arguments(command: &Command) -> Vec<Arg> {
    let mut built = command.clone();
    built.build();
    let declared = built.get_arguments().filter(|argument| argument.get_id() != "help");
    declared.cloned().collect()
}

/// Returns the flags of the server in groups.
fn arranged<'a>(arguments: impl Iterator<Item = &'a Arg>, length: Length) -> Vec<Arg> {
    let group = |argument: &Arg| argument.get_long().and_then(groups::group);
    let mut arguments: Vec<Arg> = arguments.cloned().collect();
    arguments.sort_by_key(|argument| group(argument).map_or(0, |(position, _)| position));
    let in_group = |argument: Arg| {
        let Some((_, heading)) = group(&argument) else {
            return argument;
        };
        let brief = argument.get_long().and_then(groups::brief);
        match (length, brief) {
            (Length::Full, _) => argument.help_heading(heading),
            (Length::Brief, Some(brief)) => argument.help(brief).hide_possible_values(true),
            (Length::Brief, None) => argument.hide_short_help(true),
        }
    };
    arguments.into_iter().map(in_group).collect()
}

/// Adds the examples of the command `path`.
fn with_examples(command: Command, path: &str) -> Command {
    let page = page(path);
    if page.examples.is_empty() {
        return command;
    }
    let mut text = String::from("Examples:");
    for (purpose, line) in page.examples {
        let _ = write!(text, "\n  # {purpose}\n  {line}");
    }
    command.after_long_help(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> String {
        let words: Vec<OsString> = std::iter::once("holdfast")
            .chain(words.iter().copied())
            .map(Into::into)
            .collect();
        let error = crate::command_line::try_read(words).unwrap_err();
        assert_eq!(error.exit_code(), 0, "{error}");
        error.to_string()
    }

    #[test]
    fn brief_help_fits_on_a_screen() {
        for words in [
            &["-h"][..],
            &["serve", "-h"],
            &["run", "-h"],
            &["copy", "-h"],
            &["blame", "-h"],
        ] {
            let help = help(words);
            let lines = help.lines().count();
            assert!(lines <= 40, "{words:?} has {lines} lines:\n{help}");
        }
        assert!(help(&["-h"]).contains("--secure-port <PORT>"));
        assert!(!help(&["-h"]).contains("--audit-policy-file"));
    }

    #[test]
    fn full_help_has_groups_in_order_and_every_flag() {
        for words in [&["--help"][..], &["serve", "--help"], &["help", "serve"]] {
            let help = help(words);
            let headings = [
                "Storage:",
                "Serving:",
                "Authentication:",
                "Audit:",
                "Logs:",
                "Compatibility with",
            ];
            let positions = headings.map(|heading| {
                help.find(&format!("\n{heading}"))
                    .unwrap_or_else(|| panic!("{heading}: {help}"))
            });
            assert!(positions.is_sorted(), "{positions:?}");
            for argument in Arguments::command().get_arguments() {
                let flag = argument.get_long().unwrap();
                assert!(help.contains(&format!("--{flag}")), "{words:?} lacks --{flag}");
            }
            assert!(help.contains("Examples:\n  # "), "{help}");
        }
    }

    #[test]
    fn help_of_copy_has_no_flags_of_servers() {
        let help = help(&["copy", "--help"]);
        assert!(
            help.contains("--etcd-cafile") && !help.contains("--event-ttl"),
            "{help}"
        );
    }
}
