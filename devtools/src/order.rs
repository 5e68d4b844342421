//! `cargo xtask order`: records the functions that a server runs while it starts, by their names in the program. The
//! linker places these together (`crates/holdfast/build.rs`), so that a start reads few pages of a large program and an
//! idle server holds few: the kernel maps sixteen pages at a time around each page that is read. Functions that only
//! the first start runs, which creates certificates and the initial objects, are in a separate list.
//!
//! Names end with hashes, which differ with the versions of the compiler and of crates, and with their features. A hash
//! is left out if nothing else has the name. A function with a different hash follows those of the lists, among all
//! that share a name with one of them; the linker places a renamed function anywhere. Nothing else changes.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use conformance::{Binary, Process, Target, root, wait_for_end};
use test_support::free_address;

use crate::commands::{need_valgrind, say};
use crate::names;

/// Files of the names: those of each start, and those of only the first one.
const KEPT: &str = "crates/holdfast/link-order.txt";
const KEPT_FIRST: &str = "crates/holdfast/link-order-first.txt";

/// Time limit of a start under callgrind, and of the steps after it.
const LIMIT: Duration = Duration::from_secs(600);

/// Starts a release server under callgrind, twice, and records the names of the functions that ran.
pub(crate) fn run() -> Result<()> {
    need_valgrind()?;
    let binary = Binary::dist()?;
    let folder = tempfile::tempdir()?;
    let counts = Counts::from_program(binary.path())?;
    let first = profiled(&binary, folder.path())?;
    let each = profiled(&binary, folder.path())?;
    ensure!(each.len() > 1000, "only {} functions are known by name", each.len());
    let first = &first - &each;
    for (file, names) in [(KEPT, &each), (KEPT_FIRST, &first)] {
        let listed: BTreeSet<String> = names.iter().map(|name| counts.listed_name(name).to_owned()).collect();
        names::write(&root().join(file), &listed)?;
        say(&format!("{file}: {} functions", listed.len()));
    }
    Ok(())
}

/// Returns the functions that a start on the data in `folder` runs.
fn profiled(binary: &Binary, folder: &Path) -> Result<BTreeSet<String>> {
    let (profile, ready, data) = (folder.join("profile"), folder.join("ready"), folder.join("data"));
    let address = free_address()?;
    let mut child = Command::new("valgrind")
        .args(["--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(binary.path())
        .arg(format!("--data-dir={}", data.display()))
        .arg(format!("--secure-port={}", address.port()))
        .arg(format!("--ready-file={}", ready.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("valgrind")?;
    until_ready(&mut child, &ready)?;
    let authority = data.join("pki/ca.crt");
    let target = Target::at(&format!("https://localhost:{}", address.port()), Some(&authority), None)?;
    // This is the request of a client that starts a server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    ensure!(
        runtime.block_on(target.is_healthy("/readyz")),
        "the server is not ready"
    );
    Process(child.id()).terminate();
    wait_for_end(&mut child, LIMIT)?;
    Ok(names(&fs::read_to_string(&profile)?, binary.path()))
}

/// Number of functions of a program with the same name except for the hash.
struct Counts(HashMap<String, usize>);

impl Counts {
    fn from_program(program: &Path) -> Result<Self> {
        let output = Command::new("nm")
            .arg("--defined-only")
            .arg(program)
            .output()
            .context("nm, of binutils")?;
        ensure!(output.status.success(), "nm cannot read {}", program.display());
        Ok(Self::read(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Reads lines of an address, a letter and a name.
    fn read(symbols: &str) -> Self {
        let mut counts = HashMap::new();
        for line in symbols.lines() {
            if let [_, "t" | "T", name] = line.split(' ').collect::<Vec<_>>()[..] {
                *counts.entry(bare(name).to_owned()).or_default() += 1;
            }
        }
        Self(counts)
    }

    /// Returns the name without its hash, or with it if several functions share the name.
    fn listed_name<'n>(&self, name: &'n str) -> &'n str {
        let bare = bare(name);
        match self.0.get(bare) {
            Some(count) if *count > 1 => name,
            _ => bare,
        }
    }
}

/// Waits until the server has written its file.
fn until_ready(child: &mut Child, file: &Path) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !file.exists() {
        if let Some(status) = child.try_wait()? {
            bail!("the server ended: {status}");
        }
        ensure!(Instant::now() < end, "the server takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the functions of the program in a profile.
fn names(profile: &str, program: &Path) -> BTreeSet<String> {
    let (mut objects, mut functions) = (Names::default(), Names::default());
    let (mut names, mut own) = (BTreeSet::new(), false);
    for line in profile.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            // Valgrind does not attribute all parts of a program to it.
            own = objects
                .name(object)
                .is_some_and(|name| Path::new(name) == program || name == "???");
        } else if let Some(callee) = line.strip_prefix("cob=") {
            objects.name(callee);
        } else if let Some(callee) = line.strip_prefix("cfn=") {
            functions.name(callee);
        } else if let Some(function) = line.strip_prefix("fn=")
            && let Some(name) = functions.name(function)
            && own
        {
            names.extend(section(name));
        }
    }
    names
}

/// Returns a name as its section contains it; `None` if it is not a function of the program.
fn section(name: &str) -> Option<String> {
    // Callgrind appends the depth to a function that calls itself through others.
    let name = name.split('\'').next().unwrap_or_default();
    if name.contains(' ') || name.starts_with("0x") {
        return None;
    }
    let end = hash(name).map_or(name.len(), |hash| hash + HASH.len());
    name.get(..end).map(str::to_owned)
}

/// Returns a name without its hash.
fn bare(name: &str) -> &str {
    hash(name).and_then(|hash| name.get(..hash)).unwrap_or(name)
}

/// Example of the hash at the end of a name.
const HASH: &str = "17h0123456789abcdefE";

/// Returns the position of the hash in a name.
fn hash(name: &str) -> Option<usize> {
    let at = name.rfind("17h").filter(|_| name.starts_with("_ZN"))?;
    (name.len() >= at + HASH.len()).then_some(at)
}

/// Names of a profile. Each occurs in full once, with a number that replaces it from then on: `(7) name`, then `(7)`.
#[derive(Default)]
struct Names<'p>(HashMap<&'p str, &'p str>);

impl<'p> Names<'p> {
    fn name(&mut self, entry: &'p str) -> Option<&'p str> {
        match entry.split_once(' ') {
            Some((number, name)) => {
                self.0.insert(number, name);
                Some(name)
            }
            None => self.0.get(entry).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_the_program_are_those_below_its_name() {
        let profile = "ob=(1) /lib/libc.so.6\nfn=(1) malloc\n1 2\nob=(2) /bin/server\nfn=(2) (below main)\ncob=(1)\ncfn=(1)\n\
                       cfn=(3) called\ncalls=1 0\nfn=(4) _ZN2my5again17h0123456789abcdefE'2\nfn=(3)\nob=(1)\nfn=(5) free\n";
        let names = names(profile, Path::new("/bin/server"));
        let again = "_ZN2my5again17h0123456789abcdefE";
        assert_eq!(names.iter().collect::<Vec<_>>(), [again, "called"]);
        let alone = Counts::read(&format!("0 T {again}\n0 T called\n"));
        assert_eq!(
            [again, "called"].map(|name| alone.listed_name(name)),
            ["_ZN2my5again", "called"]
        );
        let one_of_two = Counts::read(&format!("0 T {again}\n8 t _ZN2my5again17h1123456789abcdefE.llvm.7\n"));
        assert_eq!(one_of_two.listed_name(again), again);
    }

    #[test]
    fn names_are_kept_in_order() {
        for file in [KEPT, KEPT_FIRST] {
            let list = fs::read_to_string(root().join(file)).unwrap();
            assert!(list.lines().is_sorted() && list.lines().all(|name| !name.contains(' ')));
        }
    }
}
