#![forbid(unsafe_code)]
//! `cargo xtask`: the project's commands.
//!
//! This package has few dependencies, so that lints and prose checks start in seconds. Commands that need the server or a
//! client (benchmarks, replays, generators) live in the package `devtools`; `cargo xtask NAME` builds it and forwards to it.

mod commands;
mod ui;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "The project's commands",
    after_help = "All other commands come from the package devtools: `cargo xtask devtools --help` lists them."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check formatting and lints, as .ci/run does.
    Lint,
    /// Run the tests of the workspace.
    Test {
        /// Also run the ignored tests, such as long kill tests. They need minutes.
        #[arg(long)]
        slow: bool,
    },
    /// Check licences, sources and duplicate versions of dependencies with cargo-deny.
    Deny,
    /// Count words and names that the style guide replaces, and fail if a count has grown.
    Words(words::Arguments),
    /// Build the page at /ui from its sources (needs Node.js and npm).
    Ui(ui::Arguments),
    /// A command of the package devtools.
    #[command(external_subcommand)]
    Devtools(Vec<OsString>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Lint => commands::lint(),
        Command::Test { slow } => commands::test(slow),
        Command::Deny => commands::deny(),
        Command::Words(arguments) => words::run(&arguments),
        Command::Ui(arguments) => ui::run(&arguments),
        Command::Devtools(arguments) => commands::devtools(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            commands::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
