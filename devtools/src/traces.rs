//! Replays exchanges that were recorded from the reference, and guards the traces that passed once.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use conformance::{Binary, Server, root};

use crate::commands::{RECORDED_CONTROLLERS, say, shared};
use crate::names;
use crate::stores::{Backing, StoreKind};

/// The traces that are known to pass, one a line, sorted.
const KNOWN: &str = "tests/traces/passing.txt";

/// Folders of traces, and number of traces of each that are replayed concurrently. If controllers or custom resources
/// are missing, a trace mostly waits for them.
const SUITES: [(&str, usize); 4] = [("ssa", 4), ("concepts", 8), ("kinds", 8), ("extension", 32)];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rewrite the list of passing traces.
    #[arg(long)]
    bless: bool,
    /// Replay only these suites (ssa, concepts, kinds, extension); nothing is compared with the list then.
    suites: Vec<String>,
    /// Show the differences of this many failing traces of each suite.
    #[arg(long, default_value_t = 0)]
    show: usize,
    /// Storage backend of the server.
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Use the debug build of the server.
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(shared) = shared() else {
        say("traces: not run, there is no shared folder");
        return Ok(());
    };
    let backing = Backing::start(arguments.store, 1)?;
    let mut server = Server::start(&Binary::new(arguments.debug)?, &backing.flags(&[RECORDED_CONTROLLERS]))?;
    let mut passing = BTreeSet::new();
    for (suite, jobs) in SUITES {
        if arguments.suites.is_empty() || arguments.suites.iter().any(|name| name == suite) {
            let folder = shared.join("traces").join(suite);
            passing.extend(replay(
                &folder,
                suite,
                jobs,
                &server,
                &["--show", &arguments.show.to_string()],
            )?);
            ensure!(
                server.running(),
                "the server ended during {suite}:\n{}",
                server.log_tail()
            );
        }
    }
    if !arguments.suites.is_empty() {
        return Ok(());
    }
    let list = root().join(KNOWN);
    if arguments.bless {
        names::write(&list, &passing)?;
        say(&format!("traces: {} pass, written to {KNOWN}", passing.len()));
        return Ok(());
    }
    let known = names::read(&list)?;
    names::again(&known, &mut passing, |lost| {
        say(&format!("traces: again, alone: {}", lost.join(", ")));
        let names = format!("^({})$", lost.join("|"));
        let more = ["--show", "3", "--filter", &names];
        replay(&shared.join("traces"), "again", 1, &server, &more)
    })?;
    names::compare("traces", &known, &passing)
}

/// Replays the traces of a folder and returns the names of those that pass.
fn replay(folder: &Path, suite: &str, jobs: usize, server: &Server, more: &[&str]) -> Result<BTreeSet<String>> {
    let tool = folder
        .ancestors()
        .find(|above| above.join("tools").is_dir())
        .context("no tools next to the traces")?;
    let output = Command::new("python3")
        .arg(tool.join("tools/traces.py"))
        .args(["replay", "--verbose", "--jobs", &jobs.to_string()])
        .args(more)
        .arg(format!("--server=https://{}", server.address))
        .arg(folder)
        .output()
        .context("python3 traces.py")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let detailed = !more.contains(&"0");
    let mut passing = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ok ") {
            passing.insert(name.trim().to_owned());
        } else if line.starts_with("steps: ") || line.ends_with(" failed") {
            say(&format!("{suite}: {line}"));
        } else if detailed {
            say(line);
        }
    }
    if text.lines().all(|line| !line.starts_with("steps: ")) {
        bail!(
            "the replay of {suite} broke off:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(passing)
}
