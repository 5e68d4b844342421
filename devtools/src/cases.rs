//! Replays single requests that were recorded from the reference, and guards the responses that have matched once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use conformance::{Binary, Server, root};

use crate::commands::{RECORDED_CONTROLLERS, say, shared};
use crate::names;
use crate::stores::{Backing, StoreKind};

/// The folder of the lists: one file for each file of cases, a line for each case that passes.
const LISTS: &str = "tests/cases";

/// The folders of cases.
const SUITES: [&str; 3] = ["kinds", "extension", "protocol"];

/// Flags of the recording: the reference ran without the plugin that sets service accounts of Pods, without controllers
/// that fill in fields, and with a range of Service addresses that some cases name.
const FLAGS: [&str; 2] = ["--service-cluster-ip-range=10.0.0.0/16", RECORDED_CONTROLLERS];

/// Maximum number of printed bytes of a line of the replay: rejected setups print whole responses.
const SHOWN_LINE: usize = 300;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rewrite the lists of passing cases.
    #[arg(long)]
    bless: bool,
    /// Replay only these files, such as `kinds/core-pods`, or these suites (kinds, extension, protocol).
    files: Vec<String>,
    /// Show the differences of this many failing cases (-1: of all).
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    show: i64,
    /// Storage backend of the server.
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Use the debug build of the server.
    #[arg(long)]
    debug: bool,
}

/// A replayed file of cases: `suite/name`.
type File = String;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(shared) = shared() else {
        say("cases: not run, there is no shared folder");
        return Ok(());
    };
    let backing = Backing::start(arguments.store, 1)?;
    let replay = Replay {
        server: Server::start(&Binary::new(arguments.debug)?, &backing.flags(&FLAGS))?,
        tool: shared.join("tools/cases.py"),
        corpus: shared.join("corpus/server"),
    };
    let files = replay.files(&arguments.files)?;
    let passing = replay.all(&files, arguments.show)?;
    if arguments.bless {
        return bless(&passing);
    }
    let (known, mut passing) = (flat(&known(&files)?), flat(&passing));
    names::again(&known, &mut passing, |lost| replay.again(lost))?;
    names::compare("cases", &known, &passing)
}

/// Inputs of a replay.
struct Replay {
    server: Server,
    tool: PathBuf,
    corpus: PathBuf,
}

impl Replay {
    /// Returns the files of cases that `chosen` names, all if it is empty.
    fn files(&self, chosen: &[String]) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for suite in SUITES {
            let folder = self.corpus.join(suite);
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                let file = format!("{suite}/{stem}");
                let wanted = chosen.is_empty() || chosen.iter().any(|name| name == suite || *name == file);
                if wanted && path.extension().is_some_and(|extension| extension == "jsonl") {
                    files.push(file);
                }
            }
        }
        ensure!(!files.is_empty(), "no files of cases");
        files.sort();
        Ok(files)
    }

    /// Replays these files and returns the cases that pass, by file.
    fn all(&self, files: &[File], show: i64) -> Result<BTreeMap<File, BTreeSet<String>>> {
        let mut passing = BTreeMap::new();
        for suite in SUITES {
            let of_suite: Vec<&File> = files.iter().filter(|file| file.starts_with(suite)).collect();
            for file in of_suite {
                passing.insert(file.clone(), self.file(file, 4, show)?);
            }
        }
        Ok(passing)
    }

    /// Replays the files of these cases one case at a time: some cases see the effect of a controller, sooner or later
    /// than it was recorded.
    fn again(&self, lost: &[&str]) -> Result<BTreeSet<String>> {
        let files: BTreeSet<&str> = lost
            .iter()
            .filter_map(|name| name.split_once(": "))
            .map(|(file, _)| file)
            .collect();
        let mut passing = BTreeMap::new();
        for file in files {
            say(&format!("cases: again, one at a time: {file}"));
            passing.insert(file.to_owned(), self.file(file, 1, 3)?);
        }
        Ok(flat(&passing))
    }

    fn file(&self, file: &str, jobs: usize, show: i64) -> Result<BTreeSet<String>> {
        let list = tempfile::NamedTempFile::new()?;
        let path = self.corpus.join(file).with_extension("jsonl");
        let output = Command::new("python3")
            .arg(&self.tool)
            .args([
                "replay",
                "--bless",
                &format!("--jobs={jobs}"),
                &format!("--show={show}"),
            ])
            .arg(format!("--server=https://{}", self.server.address))
            .arg("--passing")
            .arg(list.path())
            .arg(&path)
            .output()
            .context("python3 cases.py")?;
        ensure!(
            output.status.success(),
            "the replay of {file} broke off:\n{}\nthe server's log:\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.server.log_tail()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        // The last line is the total, which repeats the line of the file.
        for line in text.lines().filter(|line| !line.ends_with(" failed")) {
            say(line.get(..SHOWN_LINE).unwrap_or(line));
        }
        let name = Path::new(file)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let prefix = format!("{name} ");
        // A name with a line break counts by its first line.
        Ok(names::read(list.path())?
            .iter()
            .filter_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect())
    }
}

fn list_of(file: &str) -> PathBuf {
    root().join(LISTS).join(file).with_extension("txt")
}

fn known(files: &[File]) -> Result<BTreeMap<File, BTreeSet<String>>> {
    files
        .iter()
        .filter(|file| list_of(file).exists())
        .map(|file| Ok((file.clone(), names::read(&list_of(file))?)))
        .collect()
}

fn bless(passing: &BTreeMap<File, BTreeSet<String>>) -> Result<()> {
    for (file, names) in passing {
        names::write(&list_of(file), names)?;
    }
    let count: usize = passing.values().map(BTreeSet::len).sum();
    say(&format!("cases: {count} pass, written to {LISTS}"));
    Ok(())
}

/// Returns the cases of all files, each as `file: case`.
fn flat(by_file: &BTreeMap<File, BTreeSet<String>>) -> BTreeSet<String> {
    by_file
        .iter()
        .flat_map(|(file, names)| names.iter().map(move |name| format!("{file}: {name}")))
        .collect()
}
