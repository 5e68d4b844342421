//! The book in `docs`: its reference matches the code, its links have targets, and the commands of its how-tos have the
//! described results.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::book::{self, Block};
use conformance::tool::script;
use conformance::{Binary, root};
use test_support::{free_address, needs};

/// Prologue of the commands of a page: they end at the first failure, and the processes that they started end with
/// them. A kube-apiserver whose etcd ends at the same time would not end by itself.
const BEGIN: &str = "set -e\ntrap 'kill -KILL $(jobs -p) 2>/dev/null || true; wait' EXIT\n";

/// Between the commands of two blocks.
const BETWEEN: &str = "=== next ===";

fn docs() -> PathBuf {
    root().join("docs")
}

/// Returns the pages of the book, below `docs`.
fn pages() -> Vec<String> {
    let summary = fs::read_to_string(docs().join("SUMMARY.md")).unwrap();
    book::links(&summary)
}

#[tokio::test]
async fn the_reference_is_what_the_code_has() {
    for page in book::reference(&Binary::debug().unwrap()).await.unwrap() {
        let kept = fs::read_to_string(&page.path).unwrap_or_default();
        assert!(
            kept == page.text,
            "{} is out of date: cargo xtask docs",
            page.path.display()
        );
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let pages = pages();
    let listed: BTreeSet<PathBuf> = pages.iter().map(|page| docs().join(page)).collect();
    assert_eq!(listed.len(), pages.len());
    let mut there = BTreeSet::new();
    for folder in ["", "concepts", "contributing", "design", "how-to", "reference"] {
        let entries = fs::read_dir(docs().join(folder)).unwrap();
        there.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
                .filter(|path| !path.ends_with("SUMMARY.md")),
        );
    }
    assert_eq!(listed, there);
    for page in listed {
        let text = fs::read_to_string(&page).unwrap();
        for link in book::links(&text) {
            let target = page.parent().unwrap().join(&link);
            assert!(target.exists(), "{}: {link}", page.display());
        }
    }
}

#[test]
fn links_of_root_documents_lead_to_files() {
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for link in book::links(&text) {
            assert!(root().join(&link).exists(), "{page}: {link}");
        }
    }
}

#[test]
fn paths_in_pages_exist_in_the_repository() {
    for page in pages() {
        let text = fs::read_to_string(docs().join(&page)).unwrap();
        let named = text.split('`').skip(1).step_by(2).filter(|code| {
            let folders = ["crates/", "helpers/", "packaging/", "tests/"];
            folders.iter().any(|folder| code.starts_with(folder)) && !code.contains(char::is_whitespace)
        });
        for name in named {
            let (path, test) = name.split_once("::").unwrap_or((name, ""));
            let path = root().join(path);
            assert!(path.exists(), "{page}: {name}");
            if !test.is_empty() {
                let sources = fs::read_to_string(&path).unwrap();
                assert!(sources.contains(&format!("fn {test}(")), "{page}: {name}");
            }
        }
    }
}

/// A page shows each example of a helper in full, so that readers see what the tests of the helper run.
#[test]
fn examples_on_pages_are_the_tested_files() {
    const PAGE: &str = "how-to/test-a-controller.md";
    let text = fs::read_to_string(docs().join(PAGE)).unwrap();
    let mut examples = BTreeSet::new();
    for part in text.split("](../../helpers/").skip(1) {
        let (path, rest) = part.split_once(')').unwrap();
        let (_, block) = rest.split_once("\n```").unwrap();
        let (_, shown) = block.split_once('\n').unwrap();
        let (shown, _) = shown.split_once("\n```").unwrap();
        let file = fs::read_to_string(root().join("helpers").join(path)).unwrap();
        assert_eq!(shown, file.trim_end(), "{path}");
        examples.insert(path.rsplit('.').next().unwrap().to_owned());
    }
    assert_eq!(examples, ["go", "java", "js", "py"].map(str::to_owned).into());
}

/// Folder with the programs that pages call, each on ports of its own.
struct Programs {
    folder: tempfile::TempDir,
    ports: Vec<(&'static str, u16)>,
}

impl Programs {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = ["6443", "6444", "2379", "2380"].map(|usual| (usual, free_address().unwrap().port()));
        let programs = Self {
            folder,
            ports: ports.to_vec(),
        };
        let binary = Binary::debug().unwrap();
        let real = binary.path().display();
        // A server uses a free port if no flag names one; commands have no ports.
        let server = programs.with_ports(&format!(
            "case \"$1\" in\n-*|'') exec {real} --secure-port=6443 \"$@\" ;;\n*) exec {real} \"$@\" ;;\nesac\n"
        ));
        programs.add("holdfast", &server);
        programs
    }

    fn add(&self, name: &str, body: &str) {
        script(self.folder.path(), name, body);
    }

    /// Adds an etcd that does not use the usual ports.
    fn add_etcd(&self) {
        let program = test_support::etcd::program().unwrap();
        let flags = "--data-dir=etcd --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
                     --listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380 \
                     --initial-cluster=default=http://127.0.0.1:2380 --unsafe-no-fsync --log-level=error";
        let script = format!("exec {} {}\n", program.display(), self.with_ports(flags));
        self.add("etcd", &script);
    }

    /// Replaces the usual ports in the text by others.
    fn with_ports(&self, text: &str) -> String {
        let ports = self.ports.iter();
        ports.fold(text.to_owned(), |text, (usual, port)| {
            text.replace(usual, &port.to_string())
        })
    }

    /// Runs the commands of a page, and compares their output with that on the page.
    fn run(&self, page: &str) {
        let text = fs::read_to_string(docs().join(page)).unwrap();
        let blocks = book::blocks(&text);
        let commands: Vec<&str> = blocks.iter().filter_map(Block::commands).collect();
        assert!(!commands.is_empty(), "{page}");
        let script = commands.join(&format!("\necho '{BETWEEN}'\n"));
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("bash")
            .arg("-c")
            .arg(format!("{BEGIN}{}", self.with_ports(&script)))
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env_remove("HOLDFAST_CONTROLLERS")
            .env_remove("KUBECONFIG")
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {said}{complaints}");
        let mut printed = said.split(BETWEEN);
        let mut last = "";
        for block in &blocks {
            match block {
                Block::Commands(_) => last = printed.next().unwrap_or_default(),
                Block::Output(shown) => {
                    let missing = book::missing(shown, last);
                    assert_eq!(missing, None, "{page}: {last}\n{complaints}");
                }
            }
        }
    }
}

/// A block marked `sh` promises that its commands work, so a test has to run them.
#[test]
fn pages_with_commands_have_a_test() {
    let tests = fs::read_to_string(root().join(file!())).unwrap();
    for page in pages() {
        let text = fs::read_to_string(docs().join(&page)).unwrap();
        let is_run = tests.contains(&format!("run(\"{page}\")"));
        let has_commands = book::blocks(&text).iter().any(|block| block.commands().is_some());
        assert_eq!(has_commands, is_run, "{page}");
    }
}

#[test]
fn pictures_have_titles_and_dark_colours() {
    let mut count = 0;
    for entry in fs::read_dir(docs().join("pictures")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for part in ["<title ", "<desc ", "@media (prefers-color-scheme:dark)", "viewBox="] {
            assert!(text.contains(part), "{}: {part}", path.display());
        }
        count += 1;
    }
    assert!(count > 5, "{count}");
}

/// Returns the cells of the rows of all tables of a document, by the title of the row.
fn rows(document: &str) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with('|'));
    rows.filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.filter(|cell| !cell.is_empty()).collect()))
    })
    .collect()
}

#[test]
fn figures_of_the_comparison_are_the_measured_ones() {
    let measured: Vec<_> = ["docs/performance.md", "docs/compatibility.md"]
        .into_iter()
        .flat_map(rows)
        .collect();
    let mut count = 0;
    for (title, cells) in rows("docs/comparison.md") {
        let same_title: Vec<_> = measured.iter().filter(|(measured, _)| *measured == title).collect();
        if title.is_empty() || same_title.is_empty() {
            continue;
        }
        count += 1;
        let is_measured = |cells: &[String], all: &[String]| cells.iter().all(|cell| all.contains(cell));
        assert!(
            same_title.iter().any(|(_, all)| is_measured(&cells, all)),
            "{title}: {cells:?}"
        );
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn alerts_use_existing_metrics_and_are_described() {
    let rules = fs::read_to_string(root().join("packaging/prometheus/holdfast.rules.yaml")).unwrap();
    let metrics = fs::read_to_string(docs().join("reference/metrics.md")).unwrap();
    let page = fs::read_to_string(docs().join("how-to/monitoring.md")).unwrap();
    let words = |text: &str| -> BTreeSet<String> {
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        text.split(|character| !is_name(character)).map(str::to_owned).collect()
    };
    let mut alerts = 0;
    for line in rules.lines().map(str::trim) {
        if let Some(alert) = line.strip_prefix("- alert: ") {
            assert!(page.contains(&format!("| `{alert}` |")), "{alert}");
            alerts += 1;
        }
        let prefixes = ["apiserver_", "kubernetes_", "process_", "workqueue_"];
        for name in words(line)
            .iter()
            .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        {
            let family = name
                .trim_end_matches("_bucket")
                .trim_end_matches("_count")
                .trim_end_matches("_sum");
            let is_listed = [name.as_str(), family]
                .iter()
                .any(|name| metrics.contains(&format!("| `{name}` |")));
            assert!(is_listed, "{name}");
        }
    }
    assert_eq!(page.matches("\n| `Holdfast").count(), alerts);
}

#[needs(kubectl)]
#[test]
fn tutorial_commands_have_the_shown_output() {
    Programs::new().run("tutorial.md");
}

#[needs(kubectl)]
#[test]
fn resource_model_page_builds_the_api_that_it_describes() {
    Programs::new().run("how-to/resource-model.md");
}

#[needs(kubectl)]
#[test]
fn backup_page_restores_objects_and_credentials() {
    Programs::new().run("how-to/backup.md");
}

#[needs(kubectl)]
#[test]
fn certificates_page_renews_and_replaces_certificates() {
    Programs::new().run("how-to/certificates.md");
}

#[needs(kubectl)]
#[test]
fn audit_page_policy_logs_what_it_describes() {
    Programs::new().run("how-to/audit.md");
}

#[needs(kubectl, curl)]
#[test]
fn monitoring_page_user_reads_the_metrics() {
    Programs::new().run("how-to/monitoring.md");
}

#[needs(kubectl, curl)]
#[test]
fn hardening_page_flags_reject_anonymous_requests() {
    Programs::new().run("hardening.md");
}

#[needs(kubectl)]
#[test]
fn troubleshooting_page_messages_are_those_of_the_server() {
    Programs::new().run("troubleshooting.md");
}

#[needs(kubectl, etcd, curl)]
#[test]
fn several_servers_page_shares_objects_and_tokens() {
    let programs = Programs::new();
    programs.add_etcd();
    programs.run("how-to/several-servers.md");
}

#[needs(kubectl)]
#[test]
fn an_environment_for_controllers_is_made_as_it_stands_there() {
    Programs::new().run("how-to/test-a-controller.md");
}

#[needs(kubectl)]
#[test]
fn faults_page_commands_have_the_shown_output() {
    Programs::new().run("how-to/faults-and-checkpoints.md");
}

#[needs(kubectl)]
#[test]
fn conflicts_are_shown_and_resolved_as_it_stands_there() {
    Programs::new().run("how-to/ownership.md");
}

#[needs(kubectl, curl)]
#[test]
fn conflict_options_work_as_the_page_describes() {
    Programs::new().run("how-to/conflicts.md");
}

#[needs(kubectl)]
#[test]
fn diffs_are_as_the_page_describes() {
    Programs::new().run("how-to/diffs.md");
}

#[test]
fn manifests_are_checked_as_the_page_describes() {
    Programs::new().run("how-to/lint.md");
}

#[needs(kubectl)]
#[test]
fn history_is_as_the_page_describes() {
    Programs::new().run("how-to/history.md");
}

#[needs(kubectl)]
#[test]
fn transactions_work_as_the_page_describes() {
    Programs::new().run("how-to/transactions.md");
}

#[needs(kubectl)]
#[test]
fn client_side_apply_is_left_as_it_stands_there() {
    Programs::new().run("how-to/client-side-apply.md");
}

#[needs(kubectl, etcd, curl)]
#[test]
fn a_store_grows_to_etcd_as_it_stands_there() {
    let programs = Programs::new();
    programs.add_etcd();
    programs.run("how-to/etcd.md");
}

#[needs(kubectl)]
#[test]
fn nodes_join_as_the_page_describes() {
    Programs::new().run("how-to/nodes.md");
}

#[needs(kubectl, etcd, kube_apiserver, curl, openssl)]
#[test]
fn both_servers_run_beside_each_other_as_it_stands_there() {
    let programs = Programs::new();
    programs.add_etcd();
    let program = test_support::kube_apiserver::program().unwrap();
    programs.add("kube-apiserver", &format!("exec {} \"$@\"\n", program.display()));
    programs.run("how-to/alongside-kube-apiserver.md");
}

#[test]
fn install_page_commands_succeed() {
    Programs::new().run("install.md");
}

/// Checks that a shell parses the script without an error.
fn reads(shell: &str, arguments: &[&str], script: &Path) {
    let read = Command::new(shell).args(arguments).arg(script).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

fn completions(shell: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let made = Binary::debug()
        .unwrap()
        .command()
        .args(["completions", shell])
        .output()
        .unwrap();
    assert!(made.status.success());
    fs::write(&script, made.stdout).unwrap();
    (folder, script)
}

#[test]
fn bash_completes_flags_and_commands() {
    let (_folder, script) = completions("bash");
    reads("bash", &["-n"], &script);
    let complete = |words: &str| {
        let current = words.split(' ').count() - 1;
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={current}; _holdfast holdfast \"${{COMP_WORDS[-1]}}\" '' ; printf '%s\\n' \
             \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").arg("-c").arg(ask).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("holdfast bla").trim(), "blame");
    assert_eq!(complete("holdfast --secure-p").trim(), "--secure-port");
    assert!(complete("holdfast --").lines().any(|flag| flag == "--etcd-servers"));
    assert!(!complete("holdfast re").contains("reference"));
}

/// A test without its requirements is ignored, so CI has to report the tests that did not run.
#[test]
fn ci_says_of_everything_that_tests_need_whether_it_is_here() {
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    let named = |need: &str| {
        let mut lines = script.lines().map(str::trim);
        lines.any(|line| match line.strip_prefix("for program in ") {
            Some(programs) => programs.split([' ', ';']).any(|program| program == need),
            None => line.starts_with(&format!("need {need} ")),
        })
    };
    let mut folders = vec![
        root().join("crates"),
        root().join("tests"),
        root().join("xtask"),
        root().join("devtools"),
    ];
    let mut needs = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines().filter_map(|line| line.trim().strip_prefix("#[needs(")) {
                let (list, _) = line.split_once(')').unwrap();
                needs.extend(list.split(',').map(|need| need.trim().to_owned()));
            }
        }
    }
    assert!(needs.contains("zsh") && needs.contains("shared"), "{needs:?}");
    let silent: Vec<_> = needs.iter().filter(|need| !named(need)).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[needs(zsh)]
#[test]
fn zsh_reads_its_completions() {
    let (_folder, script) = completions("zsh");
    reads("zsh", &["-n"], &script);
}

#[needs(fish)]
#[test]
fn fish_reads_its_completions() {
    let (_folder, script) = completions("fish");
    reads("fish", &["--no-execute"], &script);
}
