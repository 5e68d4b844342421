//! `cargo xtask suites`: runs the suites of published Go modules that test with envtest, with this server instead of
//! envtest's binaries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use conformance::{Binary, root};

use crate::bench::table;
use crate::commands::say;

/// Document with the results.
const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- suites: written by `cargo xtask suites --write` -->\n";

/// The head of the table.
const HEAD: &str = "| module | package | passed | failed | skipped | remarks |\n|---|---|---:|---:|---:|---|\n";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only these packages, such as `pkg/cache`; the document keeps the results of the others.
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Use the debug build of the server.
    #[arg(long)]
    debug: bool,
    /// Write the results to docs/compatibility.md.
    #[arg(long)]
    write: bool,
    /// Run against the binaries in this directory, such as those of envtest itself.
    #[arg(long, value_name = "DIR")]
    assets: Option<PathBuf>,
}

/// A module and its packages.
struct Suite {
    module: &'static str,
    version: &'static str,
    packages: &'static [&'static str],
    /// Folders of the repository that are modules of their own. The archive of the module does not contain them, and its
    /// `go.mod` refers to them by path.
    nested: &'static [&'static str],
    /// Tests that are not run.
    skipped: &'static [Skipped],
}

/// Tests of one package that need something other than the replacements of envtest's binaries.
struct Skipped {
    package: &'static str,
    /// Value for `go test -skip`.
    tests: &'static str,
    why: &'static str,
}

/// Packages whose suites start an environment.
const SUITES: [Suite; 4] = [
    Suite {
        module: "sigs.k8s.io/controller-runtime",
        version: "v0.25.2",
        packages: &[
            "./pkg/envtest",
            "./pkg/client",
            "./pkg/client/apiutil",
            "./pkg/client/config",
            "./pkg/cache",
            "./pkg/builder",
            "./pkg/cluster",
            "./pkg/controller",
            "./pkg/controller/controllerutil",
            "./pkg/handler",
            "./pkg/internal/controller",
            "./pkg/internal/recorder",
            "./pkg/internal/testing/controlplane",
            "./pkg/manager",
            "./pkg/manager/internal/integration",
            "./pkg/metrics/filters",
            "./pkg/reconcile",
            "./pkg/source",
            "./pkg/webhook",
        ],
        nested: &[],
        skipped: &[Skipped {
            package: "./pkg/client/apiutil",
            tests: "/aggregatedDiscovery=false",
            why: "downloads kube-apiserver 1.28",
        }],
    },
    Suite {
        module: "github.com/open-policy-agent/cert-controller",
        version: "v0.16.0",
        packages: &["./pkg/rotator"],
        nested: &[],
        skipped: &[],
    },
    Suite {
        module: "github.com/fluxcd/pkg/ssa",
        version: "v0.78.0",
        packages: &[".", "./jsondiff"],
        nested: &[],
        skipped: &[],
    },
    Suite {
        module: "sigs.k8s.io/cluster-api",
        version: "v1.14.0",
        packages: &["./controllers/crdmigrator"],
        nested: &["api"],
        skipped: &[],
    },
];

/// Result of one package.
struct Outcome {
    module: &'static str,
    version: &'static str,
    package: &'static str,
    /// True if `go test` succeeded.
    passed: bool,
    numbers: Numbers,
    failures: Vec<String>,
    skipped: Option<&'static Skipped>,
}

/// Numbers of tests by result. A test that contains others, as those of Ginkgo do, counts as these.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    passed: usize,
    failed: usize,
    skipped: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let assets = match &arguments.assets {
        Some(directory) => std::fs::canonicalize(directory)?,
        None => Binary::new(arguments.debug)?.assets(&root().join("target/envtest"))?,
    };
    let mut outcomes = Vec::new();
    for suite in &SUITES {
        let folder = suite.sources()?;
        for package in suite.packages.iter().filter(|package| arguments.wants(package)) {
            let outcome = suite.test(&folder, package, &assets)?;
            say(&outcome.row());
            outcomes.push(outcome);
        }
    }
    if arguments.write {
        let existing = std::fs::read_to_string(root().join(DOCUMENT))?;
        let rows: Vec<String> = outcomes.iter().map(Outcome::row).collect();
        table::put(DOCUMENT, BEGIN, &document(&existing, &rows))?;
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .flat_map(|outcome| &outcome.failures)
        .map(String::as_str)
        .collect();
    ensure!(
        outcomes.iter().all(|outcome| outcome.passed),
        "failed: {}",
        failed.join(", ")
    );
    Ok(())
}

impl Arguments {
    fn wants(&self, package: &str) -> bool {
        let named = |wanted: &String| wanted.trim_start_matches("./") == package.trim_start_matches("./");
        self.packages.is_empty() || self.packages.iter().any(named)
    }
}

/// Returns the table with `rows`, and of the other packages with those that `existing` has, in the order of the suites.
fn document(existing: &str, rows: &[String]) -> String {
    let existing = existing.split_once(BEGIN).map_or("", |(_, existing)| existing);
    let mut text = HEAD.to_owned();
    for suite in &SUITES {
        for package in suite.packages {
            let start = suite.row_start(package);
            let lines = rows.iter().map(String::as_str).chain(existing.lines());
            for row in lines.filter(|row| row.starts_with(&start)).take(1) {
                text.push_str(row);
                text.push('\n');
            }
        }
    }
    text
}

impl Suite {
    /// Returns the beginning of the row of a package.
    fn row_start(&self, package: &str) -> String {
        let package = package.trim_start_matches("./");
        format!("| {} {} | {package} |", self.module, self.version)
    }

    /// Returns a copy of the module's sources below the build directory, in which its tests may write.
    fn sources(&self) -> Result<PathBuf> {
        let name = format!("{}@{}", self.module.replace('/', "_"), self.version);
        let folder = root().join("target/suites").join(name);
        if folder.join("go.mod").is_file() {
            return Ok(folder);
        }
        std::fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
        copy(&module_folder(self.module, self.version)?, &folder)?;
        for nested in self.nested {
            let module = format!("{}/{nested}", self.module);
            copy(&module_folder(&module, self.version)?, &folder.join(nested))?;
        }
        // Archives of modules do not keep file permissions.
        let scripts = ["-name", "*.sh", "-exec", "chmod", "+x", "{}", "+"];
        output(Command::new("find").arg(&folder).args(scripts))?;
        Ok(folder)
    }

    fn test(&self, folder: &Path, package: &'static str, assets: &Path) -> Result<Outcome> {
        let skipped = self.skipped.iter().find(|skipped| skipped.package == package);
        let run = Command::new("go")
            .args(["test", "-v", "-vet=off", "-count=1", "-timeout=30m"])
            .args(skipped.map(|skipped| format!("-skip={}", skipped.tests)))
            .arg(package)
            .current_dir(folder)
            // The sums of nested modules are not in `go.sum`.
            .envs((!self.nested.is_empty()).then_some(("GOFLAGS", "-mod=mod")))
            .env("KUBEBUILDER_ASSETS", assets)
            // Without this, colour codes surround the counts.
            .env("GINKGO_NO_COLOR", "TRUE")
            .output()
            .context("go")?;
        let said = String::from_utf8_lossy(&run.stdout);
        let (numbers, failures) = read(&said);
        if !run.status.success() {
            say(&said);
            say(&String::from_utf8_lossy(&run.stderr));
        }
        Ok(Outcome {
            module: self.module,
            version: self.version,
            package,
            passed: run.status.success(),
            numbers,
            failures,
            skipped,
        })
    }
}

/// Downloads a module, and returns the folder of its sources.
fn module_folder(module: &str, version: &str) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    std::fs::write(scratch.path().join("go.mod"), "module suites\n")?;
    let wanted = format!("{module}@{version}");
    let printed = output(
        Command::new("go")
            .args(["mod", "download", "-json", &wanted])
            .current_dir(scratch.path()),
    )?;
    let listing: serde_json::Value = serde_json::from_str(&printed).context("the listing of the module")?;
    let folder = listing.get("Dir").and_then(serde_json::Value::as_str);
    Ok(folder.with_context(|| format!("go has no sources of {wanted}"))?.into())
}

/// Copies a folder, so that its owner may write in the copy.
fn copy(from: &Path, to: &Path) -> Result<()> {
    output(Command::new("cp").args(["-r", "--no-preserve=mode"]).arg(from).arg(to))?;
    Ok(())
}

impl Outcome {
    fn row(&self) -> String {
        let package = self.package.trim_start_matches("./");
        let mut remarks: Vec<String> = self.failures.iter().map(|name| format!("failed: {name}")).collect();
        if !self.passed && remarks.is_empty() {
            remarks.push("did not end well".to_owned());
        }
        remarks.extend(
            self.skipped
                .map(|Skipped { tests, why, .. }| format!("not run: `{tests}`, which {why}")),
        );
        let Numbers {
            passed,
            failed,
            skipped,
        } = self.numbers;
        format!(
            "| {} {} | {package} | {passed} | {failed} | {skipped} | {} |",
            self.module,
            self.version,
            remarks.join("; ")
        )
    }
}

/// Parses the output of `go test -v`: the numbers, and the names of failed tests.
fn read(said: &str) -> (Numbers, Vec<String>) {
    let lines = || said.lines().map(str::trim_start);
    let named = |outcome: &str| -> Vec<&str> {
        let found = lines().filter_map(|line| line.strip_prefix(outcome));
        found.filter_map(|rest| rest.split_whitespace().next()).collect()
    };
    let [passed, failed, skipped] = ["--- PASS: ", "--- FAIL: ", "--- SKIP: "].map(named);
    let all = [&passed[..], &failed, &skipped].concat();
    let single = |name: &str| !all.iter().any(|other| is_below(other, name));
    let count = |names: &[&str]| names.iter().filter(|name| single(name)).count();
    let mut numbers = Numbers {
        passed: count(&passed),
        failed: count(&failed),
        skipped: count(&skipped),
    };
    let of_specs = lines().filter_map(|line| line.strip_prefix("[FAIL] "));
    let mut failures: Vec<String> = of_specs.map(str::to_owned).collect();
    failures.sort();
    failures.dedup();
    // "FAIL! -- 11 Passed | 1 Failed | 0 Pending | 2 Skipped": a Go test that contains all of them.
    let (mut well, mut badly) = (0, 0);
    for (judgement, specs) in lines().filter_map(|line| line.split_once("! -- ")) {
        let count = |kind: &str| {
            let mut counts = specs
                .split(" | ")
                .filter_map(|count| count.split_once(' '))
                .filter(|(_, counted)| *counted == kind);
            counts
                .next()
                .and_then(|(count, _)| count.parse::<usize>().ok())
                .unwrap_or_default()
        };
        match judgement {
            "SUCCESS" => well += 1,
            _ => badly += 1,
        }
        numbers.passed += count("Passed");
        numbers.failed += count("Failed");
        numbers.skipped += count("Pending") + count("Skipped");
    }
    numbers.passed = numbers.passed.saturating_sub(well);
    numbers.failed = numbers.failed.saturating_sub(badly);
    if badly == 0 {
        let names = failed.iter().filter(|name| single(name));
        failures.extend(names.map(|name| format!("`{name}`")));
    }
    (numbers, failures)
}

/// Returns true if a Go test is a subtest of another.
fn is_below(name: &str, other: &str) -> bool {
    name.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

fn output(command: &mut Command) -> Result<String> {
    let run = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        run.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(String::from_utf8(run.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_packages_that_were_not_run_are_kept() {
        let start = |package| SUITES[0].row_start(package);
        let (envtest, cache, builder) = (start("./pkg/envtest"), start("./pkg/cache"), start("./pkg/builder"));
        let existing = format!("text\n{BEGIN}{HEAD}{envtest} 1 |\n{builder} 2 |\n<!-- end -->\n");
        let rows = [format!("{cache} 3 |"), format!("{builder} 4 |")];
        assert_eq!(
            document(&existing, &rows),
            format!("{HEAD}{envtest} 1 |\n{cache} 3 |\n{builder} 4 |\n")
        );
    }

    #[test]
    fn tests_of_go_are_counted_without_those_that_hold_others() {
        let said = "--- PASS: TestA (0.1s)\n    --- PASS: TestA/one (0.0s)\n    --- SKIP: TestA/two (0.0s)\n--- FAIL: TestB (0.0s)\n\
                    --- PASS: TestAB (0.0s)\nFAIL\n";
        let numbers = Numbers {
            passed: 2,
            failed: 1,
            skipped: 1,
        };
        assert_eq!(read(said), (numbers, vec!["`TestB`".to_owned()]));
    }

    #[test]
    fn specs_are_counted_in_the_place_of_the_test_that_holds_them() {
        let said = "Summarizing 1 Failure:\n  [FAIL] Client [It] should list\n  suite_test.go:5\n\n\
                    Ran 12 of 14 Specs in 1.5 seconds\nFAIL! -- 11 Passed | 1 Failed | 1 Pending | 2 Skipped\n--- FAIL: TestSource (1.5s)\n\
                    Ran 2 of 2 Specs in 0.1 seconds\nSUCCESS! -- 2 Passed | 0 Failed | 0 Pending | 0 Skipped\n--- PASS: TestOther (0.1s)\n\
                    --- PASS: TestAlone (0.0s)\n";
        let numbers = Numbers {
            passed: 14,
            failed: 1,
            skipped: 3,
        };
        assert_eq!(read(said), (numbers, vec!["Client [It] should list".to_owned()]));
    }
}
