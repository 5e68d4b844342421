//! Documentation that the binary generates about itself: shell completions, manual pages, and the pages of
//! `docs/reference`, which are derived from the code and therefore stay up to date.

mod reference;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::flags::Arguments;

pub(crate) use reference::Page;

/// The shell to complete for.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CompletionFlags {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Output location of manual pages.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManFlags {
    /// Directory in which to write one page for each command. If not set, the page of holdfast itself is printed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The page of the reference to print.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ReferenceFlags {
    /// Page to print
    #[arg(value_enum)]
    page: Page,
}

/// Prints a script for a shell.
pub(crate) fn completions(flags: CompletionFlags) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut shown(), "holdfast", &mut text);
    print(&text)
}

/// Prints a manual page, or writes all of them.
pub(crate) fn man(flags: &ManFlags) -> Result<()> {
    let Some(directory) = &flags.dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(shown()).render(&mut text)?;
        return print(&text);
    };
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    clap_mangen::generate_to(shown(), directory).with_context(|| format!("cannot write to {}", directory.display()))
}

/// Prints a page of the reference.
pub(crate) fn reference(flags: ReferenceFlags) -> Result<()> {
    print(flags.page.text()?.as_bytes())
}

/// Returns the command line without the commands that only the project's own tools use.
fn shown() -> Command {
    let command = Arguments::command();
    // Shell scripts include hidden commands as well, unless they are removed.
    let mut shown = Command::new("holdfast").version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown
        .args(command.get_arguments().cloned())
        .subcommands(commands.cloned())
}

fn print(text: &[u8]) -> Result<()> {
    match io::stdout().write_all(text) {
        // A closed pipe ends the output.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_have_every_flag_and_command() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("man");
        man(&ManFlags {
            dir: Some(directory.clone()),
        })
        .unwrap();
        let page = fs::read_to_string(directory.join("holdfast.1")).unwrap();
        assert!(page.contains(r"holdfast\-blame(1)"), "{page}");
        for argument in shown().get_arguments() {
            let Some(flag) = argument.get_long() else { continue };
            let flag = flag.replace('-', r"\-");
            assert!(page.contains(&format!(r"\-\-{flag}")), "{flag}");
        }
        for command in shown().get_subcommands() {
            let page = directory.join(format!("holdfast-{}.1", command.get_name()));
            assert!(page.is_file(), "{}", page.display());
        }
    }

    #[test]
    fn completions_name_every_flag_and_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut shown(), "holdfast", &mut text);
            let text = String::from_utf8(text).unwrap();
            for flag in shown().get_arguments().filter_map(clap::Arg::get_long) {
                assert!(text.contains(flag), "{shell}: {flag}");
            }
            for command in shown().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(!text.contains("feature-gates.md"));
        }
    }
}
