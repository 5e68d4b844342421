//! `holdfast lint`: checks manifests with a temporary server in memory, without a cluster.
//!
//! The server gets the manifests in an order in which each finds what it depends on: namespaces, CRDs, parameters of policies,
//! policies, their bindings, and the rest. Each file has a field manager, so that two files that set the same field to different
//! values conflict as they would in a cluster.

mod checker;
mod findings;
mod manifests;
mod report;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::checker::Checker;
use self::findings::{Finding, Level};
use self::manifests::Source;
use crate::program;

/// Field manager of the paths that name none.
const DEFAULT_MANAGER: &str = "lint";

/// Manifests to check, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct LintFlags {
    /// File or directory of manifests (YAML or JSON; - for the standard input). May be repeated
    #[arg(short, long, value_name = "PATH", required_unless_present = "manager")]
    filename: Vec<PathBuf>,

    /// File or directory that a field manager of this name applies. Different managers may set different fields of one object.
    /// May be repeated
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_manager)]
    manager: Vec<Source>,

    /// Read the directories below the given ones, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Namespace of objects whose manifests name none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,

    /// Skip objects whose kind is neither built in nor defined by a CRD among the manifests
    #[arg(long)]
    skip_unknown_kinds: bool,

    /// Fail on warnings, too
    #[arg(long)]
    warnings_as_errors: bool,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = LintFormat::Text)]
    output: LintFormat,
}

/// Format of the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LintFormat {
    /// One line for each finding.
    Text,
    /// One JSON document.
    Json,
    /// SARIF 2.1.0, which code hosts show at the lines of a file.
    Sarif,
}

fn parse_manager(text: &str) -> Result<Source, String> {
    match text.split_once('=') {
        Some((manager, path)) if !manager.is_empty() && !path.is_empty() => Ok(Source {
            manager: manager.to_owned(),
            path: PathBuf::from(path),
        }),
        _ => Err("must be NAME=PATH".to_owned()),
    }
}

/// Checks the manifests, and prints the findings.
pub(crate) fn run(flags: &LintFlags) -> ExitCode {
    match lint(flags) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(error) => {
            program::report(&error);
            ExitCode::from(2)
        }
    }
}

/// Returns true if the findings let the command fail.
fn lint(flags: &LintFlags) -> Result<bool> {
    let unnamed = flags.filename.iter().map(|path| Source {
        manager: DEFAULT_MANAGER.to_owned(),
        path: path.clone(),
    });
    let sources: Vec<Source> = unnamed.chain(flags.manager.iter().cloned()).collect();
    let mut findings = Vec::new();
    let manifests = manifests::read(&sources, flags.recursive, &mut findings)?;
    if manifests.is_empty() && findings.is_empty() {
        bail!("the files contain no objects");
    }
    let objects = manifests.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut checker = Checker::start(&flags.namespace, flags.skip_unknown_kinds).await?;
        checker.check(manifests).await?;
        findings.extend(checker.finish().await?);
        anyhow::Ok(())
    })?;
    findings.sort_by(Finding::order);
    let text = match flags.output {
        LintFormat::Text => report::text(&findings),
        LintFormat::Json => report::json(&findings, objects),
        LintFormat::Sarif => report::sarif(&findings),
    };
    io::stdout().write_all(text.as_bytes())?;
    let count = |level| findings.iter().filter(|finding| finding.rule.level() == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    if flags.output == LintFormat::Text {
        writeln!(io::stderr(), "{objects} objects, {errors} errors, {warnings} warnings")?;
    }
    Ok(errors > 0 || flags.warnings_as_errors && warnings > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manager_needs_a_name_and_a_path() {
        let source = parse_manager("team=a=b").unwrap();
        assert_eq!((source.manager.as_str(), source.path), ("team", PathBuf::from("a=b")));
        for text in ["team", "=a", "team="] {
            assert_eq!(parse_manager(text).unwrap_err(), "must be NAME=PATH");
        }
    }
}
