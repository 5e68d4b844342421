//! `cargo xtask suites`: runs the suites of published Go modules that test with envtest, with this server in the place of
//! envtest's binaries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use conformance::{Binary, root};

use crate::bench::table;
use crate::habits::say;

/// Where the outcome is kept.
const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- suites: written by `cargo xtask suites --write` -->\n";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run the debug build of the server.
    #[arg(long)]
    debug: bool,
    /// Put the outcome into docs/compatibility.md.
    #[arg(long)]
    write: bool,
    /// Run against the binaries in this directory, as those of envtest itself.
    #[arg(long, value_name = "DIR")]
    assets: Option<PathBuf>,
}

/// A module and its packages.
struct Suite {
    module: &'static str,
    version: &'static str,
    packages: &'static [&'static str],
    /// Tests that are not run.
    skipped: &'static [Skipped],
}

/// Tests of one package that need something else than what stands in the place of envtest's binaries.
struct Skipped {
    package: &'static str,
    /// As `go test -skip` takes it.
    tests: &'static str,
    why: &'static str,
}

/// Packages whose suites start an environment.
const SUITES: [Suite; 3] = [
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
            "./pkg/manager",
            "./pkg/manager/internal/integration",
            "./pkg/metrics/filters",
            "./pkg/reconcile",
            "./pkg/recorder",
            "./pkg/source",
            "./pkg/webhook",
        ],
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
        skipped: &[],
    },
    Suite {
        module: "github.com/fluxcd/pkg/ssa",
        version: "v0.78.0",
        packages: &[".", "./jsondiff"],
        skipped: &[],
    },
];

/// What became of one package.
struct Outcome {
    module: &'static str,
    version: &'static str,
    package: &'static str,
    passed: bool,
    /// Tests of the package, those that hold specs not counted twice.
    tests: usize,
    failures: Vec<String>,
    skipped: Option<&'static Skipped>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let assets = match &arguments.assets {
        Some(directory) => std::fs::canonicalize(directory)?,
        None => Binary::of(arguments.debug)?.assets(&root().join("target/envtest"))?,
    };
    let mut outcomes = Vec::new();
    for suite in &SUITES {
        let folder = suite.sources()?;
        for package in suite.packages {
            let outcome = suite.test(&folder, package, &assets)?;
            say(&outcome.row());
            outcomes.push(outcome);
        }
    }
    if arguments.write {
        let mut text = "| module | package | tests | outcome |\n|---|---|---:|---|\n".to_owned();
        for outcome in &outcomes {
            text += &outcome.row();
            text.push('\n');
        }
        table::put(DOCUMENT, BEGIN, &text)?;
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

impl Suite {
    /// The module's sources below the build directory, where its tests may write.
    fn sources(&self) -> Result<PathBuf> {
        let name = format!("{}@{}", self.module.replace('/', "_"), self.version);
        let folder = root().join("target/suites").join(name);
        if folder.join("go.mod").is_file() {
            return Ok(folder);
        }
        let scratch = tempfile::tempdir()?;
        std::fs::write(scratch.path().join("go.mod"), "module suites\n")?;
        let wanted = format!("{}@{}", self.module, self.version);
        let listing = output(
            Command::new("go")
                .args(["mod", "download", "-json", &wanted])
                .current_dir(scratch.path()),
        )?;
        let listing: serde_json::Value = serde_json::from_str(&listing).context("what go says of the module")?;
        let kept = listing.get("Dir").and_then(serde_json::Value::as_str);
        let kept = kept.with_context(|| format!("go has no sources of {wanted}"))?;
        std::fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
        output(Command::new("cp").args(["-r", "--no-preserve=mode", kept]).arg(&folder))?;
        Ok(folder)
    }

    fn test(&self, folder: &Path, package: &'static str, assets: &Path) -> Result<Outcome> {
        let skipped = self.skipped.iter().find(|skipped| skipped.package == package);
        let run = Command::new("go")
            .args(["test", "-v", "-vet=off", "-count=1"])
            .args(skipped.map(|skipped| format!("-skip={}", skipped.tests)))
            .arg(package)
            .current_dir(folder)
            .env("KUBEBUILDER_ASSETS", assets)
            // What is counted stands between colours otherwise.
            .env("GINKGO_NO_COLOR", "TRUE")
            .output()
            .context("go")?;
        let said = String::from_utf8_lossy(&run.stdout);
        let lines = || said.lines().map(str::trim_start);
        let named = |outcome: &str| -> Vec<String> {
            let found = lines().filter_map(|line| line.strip_prefix(outcome));
            found
                .filter_map(|rest| rest.split_whitespace().next())
                .map(str::to_owned)
                .collect()
        };
        // "Ran 12 of 12 Specs in 0.1 seconds": a test of Go that holds all of them.
        let specs = lines().filter_map(|line| line.strip_prefix("Ran ")?.split_once(" of ")?.0.parse::<usize>().ok());
        let specs: Vec<usize> = specs.collect();
        let failures = named("--- FAIL: ");
        let alone = (named("--- PASS: ").len() + failures.len()).saturating_sub(specs.len());
        if !run.status.success() {
            say(&said);
            say(&String::from_utf8_lossy(&run.stderr));
        }
        Ok(Outcome {
            module: self.module,
            version: self.version,
            package,
            passed: run.status.success(),
            tests: alone + specs.iter().sum::<usize>(),
            failures,
            skipped,
        })
    }
}

impl Outcome {
    fn row(&self) -> String {
        let package = self.package.trim_start_matches("./");
        let mut outcome = match self.passed {
            true => "passed".to_owned(),
            false => format!("failed: {}", self.failures.join(", ")),
        };
        if let Some(Skipped { tests, why, .. }) = self.skipped {
            outcome += &format!("; not run: `{tests}`, which {why}");
        }
        format!(
            "| {} {} | {package} | {} | {outcome} |",
            self.module, self.version, self.tests
        )
    }
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
