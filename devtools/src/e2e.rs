//! `cargo xtask e2e`: runs Kubernetes' own end-to-end tests against a server, except for those that need a running Pod
//! or a workload controller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use conformance::{Binary, Client, MERGE, Server};
use http::Method;
use serde_json::{Value, json};
use test_support::e2e::{self, VERSION};

use crate::bench::table;
use crate::commands::say;

/// Document with the results.
const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- end-to-end tests: written by `cargo xtask e2e --write` -->\n";

/// Flags for the settings of Pods in the tests, and for the controllers without which namespaces with claims are not
/// deleted.
const FLAGS: [&str; 2] = [
    "--enable-admission-plugins=ServiceAccount",
    "--controllers=*,serviceaccount-controller,root-ca-certificate-publisher-controller,\
     persistentvolumeclaim-protection-controller,persistentvolume-protection-controller",
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Use the debug build of the server.
    #[arg(long)]
    debug: bool,
    /// Write the results to docs/compatibility.md.
    #[arg(long)]
    write: bool,
    /// Run the tests whose names match this regular expression instead.
    #[arg(long, value_name = "PATTERN")]
    focus: Option<String>,
}

/// Tests that run one after the other, by regular expressions for their names.
struct Group<'a> {
    focus: &'a str,
    skip: &'a str,
}

/// All groups; they run concurrently.
const GROUPS: [Group<'static>; 2] = [
    Group {
        focus: r"\[sig-api-machinery\]",
        // These need servers in Pods, workloads, the API server's own host or a feature gate, or need minutes for
        // behaviour that traces cover.
        skip: concat!(
            "AdmissionWebhook|ConversionWebhook|Aggregator|Aggregated APIServer|CustomResourceFieldSelectors|CBOR|",
            "Etcd failure|CoordinatedLeaderElection|apiserver identity|StorageVersion resources|OrderedNamespaceDeletion|",
            "Garbage collector should (delete|keep|orphan|not delete)|FeatureGate:VolumeAttributesClass|",
            r"all pods are removed|create pods|drowned|delete fast|compacted away|\[Flaky\]",
        ),
    },
    Group {
        focus: concat!(
            "API operations|Events API|Lease|SubjectReview|LimitRange|PodTemplates|PriorityClass endpoints|API Server|",
            "secure master|the lifecycle of (an Endpoint|PodTemplates)|ConfigMap lifecycle|Events should (manage|delete a coll)|",
            "the lifecycle of a (node|csinode|CSIDriver|PV and a PVC|ServiceAccount|StorageClass|VolumeAttachment)|",
            "(pv/pvc|volumeattachment|service) status|patch a secret|immutable. field|empty (secret )?key|",
            "RuntimeClass should (support|reject)|create a serviceAccountToken|update a ServiceAccount|root-ca|",
            "Kubectl (api-versions|cluster-info|create quota|diff|get componentstatuses|version)",
        ),
        skip: concat!(
            r"\[sig-api-machinery\]|NodeConformance|consumable|DRA|Feature:|CSI Volumes|\[Driver|volume plugin|",
            r"\[Disruptive\]|Alpha",
        ),
    },
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = e2e::program()?;
    let server = Server::start(&Binary::new(arguments.debug)?, &FLAGS)?;
    tokio::runtime::Runtime::new()?.block_on(make_node(&server));
    let reports = tempfile::tempdir()?;
    let only = arguments.focus.as_deref().map(|focus| [Group { focus, skip: "^$" }]);
    let groups: &[Group<'_>] = only.as_ref().map_or(&GROUPS, |only| only);
    let mut runs = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let report = reports.path().join(format!("{number}.json"));
        let run = group.command(&program, &server, &report).spawn().context("e2e.test")?;
        runs.push((run, report));
    }
    let mut outcomes = Outcomes::default();
    for (mut run, report) in runs {
        // The report lists failed tests.
        run.wait()?;
        let report = std::fs::read(&report).context("the tests ended without a report")?;
        outcomes.add(&serde_json::from_slice(&report).context("the report of the tests")?);
    }
    say(&outcomes.table());
    for (name, message) in &outcomes.failures {
        say(&format!("failed: {name}\n    {message}"));
    }
    if arguments.write {
        table::put(DOCUMENT, BEGIN, &outcomes.table())?;
    }
    ensure!(outcomes.failures.is_empty(), "{} tests failed", outcomes.failures.len());
    Ok(())
}

/// Creates a ready node, without which no test starts.
async fn make_node(server: &Server) {
    let mut client = Client::new(server).await;
    client
        .make("/api/v1/nodes", json!({"metadata": {"name": "node"}}))
        .await;
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "ready"});
    let status = json!({"status": {"conditions": [ready], "capacity": amounts, "allocatable": amounts}});
    for (path, patch) in [
        ("/api/v1/nodes/node/status", status),
        ("/api/v1/nodes/node", json!({"spec": {"taints": null}})),
    ] {
        client.ask(Method::PATCH, path, MERGE, patch).await;
    }
}

impl Group<'_> {
    fn command(&self, program: &Path, server: &Server, report: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .arg(format!("--kubeconfig={}", server.kubeconfig().display()))
            .args([
                "--provider=skeleton",
                "--allowed-not-ready-nodes=-1",
                "--minStartupPods=0",
            ])
            .arg(format!("--ginkgo.focus={}", self.focus))
            .arg(format!("--ginkgo.skip={}", self.skip))
            .args(["--ginkgo.timeout=1h", "--ginkgo.silence-skips", "--ginkgo.succinct"])
            .arg(format!("--ginkgo.json-report={}", report.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Results of tests.
#[derive(Default)]
struct Outcomes {
    /// Numbers of passed and failed tests, by the special interest group of Kubernetes that wrote them.
    counts: BTreeMap<String, [usize; 2]>,
    /// The names of those that failed, and why.
    failures: Vec<(String, String)>,
}

impl Outcomes {
    /// Adds those of a report of Ginkgo.
    fn add(&mut self, report: &Value) {
        let suites = report.as_array().into_iter().flatten();
        for spec in suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten()) {
            let state = spec["State"].as_str().unwrap_or_default();
            let of_suite = spec["LeafNodeType"] != "It";
            // The preparation of all tests counts only if it fails.
            if matches!(state, "skipped" | "pending") || of_suite && state == "passed" {
                continue;
            }
            let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
            let texts = containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
            let name = texts.collect::<Vec<_>>().join(" ");
            let group = name.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let counts = self.counts.entry(group.map_or("suite", |(group, _)| group).to_owned());
            let [passed, failed] = counts.or_default();
            if state == "passed" {
                *passed += 1;
            } else {
                *failed += 1;
                let message = spec["Failure"]["Message"].as_str().unwrap_or(state);
                self.failures.push((name, message.to_owned()));
            }
        }
    }

    fn table(&self) -> String {
        let mut text = format!("| tests of Kubernetes {VERSION} | passed | failed |\n|---|---:|---:|\n");
        for (group, [passed, failed]) in &self.counts {
            // Writes to a string cannot fail.
            let _ = writeln!(text, "| {group} | {passed} | {failed} |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_counted_by_groups_and_failures_are_named() {
        let report = json!([{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "run"},
            {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "jump"},
            {"LeafNodeType": "It", "State": "timedout", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "end",
                "Failure": {"Message": "late"}},
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}},
        ]}]);
        let mut outcomes = Outcomes::default();
        outcomes.add(&report);
        assert!(outcomes.table().ends_with("| sig-node | 1 | 1 |\n| suite | 0 | 1 |\n"));
        let failures = [("[sig-node] Pods end", "late"), ("", "no nodes")];
        assert_eq!(
            outcomes.failures,
            failures.map(|(name, why)| (name.to_owned(), why.to_owned()))
        );
    }
}
