//! Documentation that the binary generates about itself: shell completions, manual pages, and the pages of
//! `docs/reference`, which are derived from the code and therefore stay up to date.

mod manual;
mod reference;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::Shell;

use crate::help;

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
    clap_complete::generate(flags.shell, &mut help::command(), "holdfast", &mut text);
    print(&text)
}

/// Prints a manual page, or writes all of them.
pub(crate) fn man(flags: &ManFlags) -> Result<()> {
    let mut command = help::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &flags.dir else {
        let mut text = Vec::new();
        manual::render(&command, &mut text)?;
        return print(&text);
    };
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    write_pages(&command, directory).with_context(|| format!("cannot write to {}", directory.display()))
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, directory: &Path) -> Result<()> {
    for below in command.get_subcommands() {
        write_pages(below, directory)?;
    }
    let mut text = Vec::new();
    manual::render(command, &mut text)?;
    fs::write(directory.join(manual::file_name(command)), text)?;
    Ok(())
}

/// Prints a page of the reference.
pub(crate) fn reference(flags: ReferenceFlags) -> Result<()> {
    print(flags.page.text()?.as_bytes())
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
        for argument in help::command().get_arguments() {
            let Some(flag) = argument.get_long() else { continue };
            let flag = flag.replace('-', r"\-");
            assert!(page.contains(&format!(r"\-\-{flag}")), "{flag}");
        }
        for command in help::command().get_subcommands() {
            let path = directory.join(format!("holdfast-{}.1", command.get_name()));
            let of_command = fs::read_to_string(path).unwrap();
            assert!(of_command.contains(".SH \"EXIT STATUS\""), "{of_command}");
        }
        for section in ["SYNOPSIS", "STORAGE", "EXAMPLES", "FILES", "ENVIRONMENT", "VERSION"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section}: {page}");
        }
        assert!(page.contains("HOLDFAST_LOG"));
        assert!(directory.join("holdfast-snapshot-save.1").is_file());
    }

    #[test]
    fn completions_name_every_flag_and_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut help::command(), "holdfast", &mut text);
            let text = String::from_utf8(text).unwrap();
            for flag in help::command().get_arguments().filter_map(clap::Arg::get_long) {
                assert!(text.contains(flag), "{shell}: {flag}");
            }
            for command in help::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(!text.contains("feature-gates.md"));
        }
    }
}
