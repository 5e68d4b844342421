//! Inventory of a release, read by the Go program in `devtools/upstream`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use conformance::root;
use serde::Deserialize;

use super::release::{Access, Release};
use super::roles::{self, Roles};

/// Declarations of a release. The Go program documents the fields.
#[derive(Deserialize)]
pub(super) struct Inventory {
    pub(super) symbols: BTreeMap<String, Symbol>,
    pub(super) types: BTreeMap<String, Type>,
    pub(super) gates: BTreeMap<String, Gate>,
    pub(super) flags: BTreeMap<String, Flag>,
    pub(super) metrics: BTreeMap<String, Metric>,
    pub(super) plugins: Vec<Plugin>,
    /// Packages where names are computed at run time, by kind of declaration.
    pub(super) unresolved: BTreeMap<String, Vec<String>>,
    /// Roles and bindings of a new cluster.
    #[serde(skip)]
    pub(super) roles: Roles,
}

/// A declaration.
#[derive(Deserialize)]
pub(super) struct Symbol {
    pub(super) kind: String,
    /// Hash of the text without comments.
    pub(super) hash: String,
    /// Text without comments, for symbols that the caller named.
    #[serde(default)]
    pub(super) text: String,
}

/// A struct of the API.
#[derive(Deserialize)]
pub(super) struct Type {
    pub(super) tags: Vec<String>,
    pub(super) fields: Vec<Field>,
}

/// A field of a struct of the API.
#[derive(Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) json: String,
    /// Number and name in protobuf.
    pub(super) protobuf: String,
    #[serde(rename = "type")]
    pub(super) go_type: String,
    pub(super) tags: Vec<String>,
}

/// A feature gate.
#[derive(Deserialize, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) package: String,
    pub(super) stages: Vec<Stage>,
}

/// State of a gate from a version on.
#[derive(Deserialize, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) version: String,
    pub(super) default: bool,
    pub(super) stage: String,
    pub(super) locked: bool,
    /// Minimum compatibility version with which the stage applies, if any.
    pub(super) minimum: String,
}

/// A flag of kube-apiserver.
#[derive(Deserialize, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) package: String,
    #[serde(rename = "type")]
    pub(super) value_type: String,
    pub(super) default: String,
    pub(super) deprecated: bool,
    pub(super) hidden: bool,
}

/// A metric of the API server.
#[derive(Deserialize, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) package: String,
    #[serde(rename = "type")]
    pub(super) value_type: String,
    pub(super) stability: String,
    /// Version from which the metric is deprecated, if any.
    pub(super) deprecated: String,
    pub(super) labels: Vec<String>,
}

/// An admission plugin.
#[derive(Deserialize, PartialEq, Eq)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) package: String,
    /// True if the plugin runs without a flag.
    #[serde(rename = "default")]
    pub(super) on_by_default: bool,
}

impl Inventory {
    /// Reads a release. The inventory has the texts of `symbols`.
    ///
    /// # Errors
    /// If modules are missing, Go is missing, or a file cannot be parsed.
    pub(super) fn read(release: &Release, symbols: &BTreeSet<&str>, access: Access) -> Result<Self> {
        let modules = release.modules(symbols, access)?;
        let folder = tempfile::tempdir()?;
        let names = folder.path().join("symbols");
        let lines: Vec<&str> = symbols.iter().copied().collect();
        fs::write(&names, lines.join("\n"))?;
        let mut go = Command::new("go");
        go.args(["run", ".", "-text"])
            .arg(&names)
            .current_dir(root().join("devtools/upstream"));
        for (module, path) in &modules {
            let path = fs::canonicalize(path).with_context(|| path.display().to_string())?;
            go.arg(format!("{module}={}", path.display()));
        }
        let output = go.output().context("go")?;
        ensure!(
            output.status.success(),
            "{release}: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        let mut inventory: Self = serde_json::from_slice(&output.stdout).context("inventory")?;
        inventory.roles = roles::read(&modules["k8s.io/kubernetes"])?;
        Ok(inventory)
    }
}
