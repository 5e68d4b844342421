//! Manual pages: the sections of the command line, and those of the page in `help`.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::help::{self, Row};

/// Renders the page of a command that is built. Its name begins with `holdfast-` if it is not `holdfast` itself.
pub(super) fn render(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis(command).to_writer(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let page = help::page(&path(command));
    examples(page.examples).to_writer(out)?;
    section("FILES", page.files).to_writer(out)?;
    section("ENVIRONMENT", page.environment).to_writer(out)?;
    section("EXIT STATUS", page.exit).to_writer(out)?;
    if command.get_version().is_some() {
        man.render_version_section(out)?;
    }
    Ok(())
}

/// Name of the file of a command's page.
pub(super) fn file_name(command: &Command) -> String {
    format!("{}.1", name(command))
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Returns the words of a command after `holdfast`.
fn path(command: &Command) -> String {
    let words = command.get_bin_name().unwrap_or_default().split_whitespace().skip(1);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the usage without the list of all flags, which is long.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let lines = usage.lines().map(|line| line.trim_start_matches("Usage:").trim());
    for (at, line) in lines.enumerate() {
        if at > 0 {
            roff.control("br", []);
        }
        roff.text([roman(line)]);
    }
    roff
}

fn examples(rows: &[Row]) -> Roff {
    let mut roff = Roff::default();
    if rows.is_empty() {
        return roff;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (purpose, line) in rows {
        roff.control("PP", []);
        roff.text([roman(format!("{purpose}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.text([bold(*line)]);
        roff.control("RE", []);
    }
    roff
}

fn section(title: &str, rows: &[Row]) -> Roff {
    let mut roff = Roff::default();
    if rows.is_empty() {
        return roff;
    }
    roff.control("SH", [title]);
    for (subject, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*subject)]);
        roff.text([roman(format!("{meaning}."))]);
    }
    roff
}
