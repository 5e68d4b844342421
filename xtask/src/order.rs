//! `cargo xtask order`: which functions a server runs while it starts, by their names in the program. The linker puts these beside
//! each other (`crates/holdfast/build.rs`), so that a start reads few pages of a large program, and a server that idles holds
//! few: the kernel maps sixteen pages at a time around each that is read.
//!
//! The hashes of names differ from build to build and are left out. A function that was renamed since stands where the linker
//! likes; nothing else is different.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use conformance::{Binary, Process, Server, Target, free_address, root, wait_for_end};

use crate::habits::{need_valgrind, say};

/// Where the names are kept.
const KEPT: &str = "crates/holdfast/link-order.txt";

/// How long a start may take under callgrind, and what follows it.
const LIMIT: Duration = Duration::from_secs(600);

/// Starts a release server under callgrind and keeps the names of what ran.
pub(crate) fn run() -> Result<()> {
    need_valgrind()?;
    let binary = Binary::release()?;
    let folder = tempfile::tempdir()?;
    // Certificates and the first objects are made once; what counts are the starts after that.
    let mut first = Server::start(&binary, &[])?;
    first.end();
    let profile = folder.path().join("profile");
    let ready = folder.path().join("ready");
    let address = free_address()?;
    let mut child = Command::new("valgrind")
        .args(["--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(binary.path())
        .arg(format!("--data-dir={}", first.data_dir().display()))
        .arg(format!("--secure-port={}", address.port()))
        .arg(format!("--ready-file={}", ready.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("valgrind")?;
    until_ready(&mut child, &ready)?;
    let authority = first.data_dir().join("pki/ca.crt");
    let target = Target::at(&format!("https://localhost:{}", address.port()), Some(&authority), None)?;
    // As whoever starts one asks.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    ensure!(
        runtime.block_on(target.is_healthy("/readyz")),
        "the server is not ready"
    );
    Process(child.id()).terminate();
    wait_for_end(&mut child, LIMIT)?;
    let names = names(&fs::read_to_string(&profile)?, binary.path());
    ensure!(names.len() > 1000, "only {} functions are known by name", names.len());
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    fs::write(root().join(KEPT), text).context(KEPT)?;
    say(&format!("{} functions", names.len()));
    Ok(())
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

/// The functions of the program in a profile.
fn names(profile: &str, program: &Path) -> BTreeSet<String> {
    let (mut objects, mut functions) = (Names::default(), Names::default());
    let (mut names, mut own) = (BTreeSet::new(), false);
    for line in profile.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            own = objects.name(object).is_some_and(|name| Path::new(name) == program);
        } else if let Some(callee) = line.strip_prefix("cob=") {
            objects.name(callee);
        } else if let Some(callee) = line.strip_prefix("cfn=") {
            functions.name(callee);
        } else if let Some(function) = line.strip_prefix("fn=")
            && let Some(name) = functions.name(function)
            && own
        {
            names.extend(bare(name));
        }
    }
    names
}

/// A name as a section has it, without what differs from build to build; `None` for what is no function of the program.
fn bare(name: &str) -> Option<String> {
    // Callgrind appends the depth to a function that calls itself through others.
    let name = name.split('\'').next().unwrap_or_default();
    if name.contains(' ') || name.starts_with("0x") {
        return None;
    }
    let without_hash = name.rfind("17h").filter(|_| name.starts_with("_ZN"));
    let end = without_hash.unwrap_or(name.len());
    name.get(..end).map(str::to_owned)
}

/// The names of a profile. Each stands there once, with a number that stands for it from then on: `(7) name`, then `(7)`.
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
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["_ZN2my5again", "called"]);
    }

    #[test]
    fn names_are_kept_in_order() {
        let kept = fs::read_to_string(root().join(KEPT)).unwrap();
        assert!(kept.lines().is_sorted() && kept.lines().all(|name| !name.contains(' ')));
    }
}
