//! A release of Kubernetes: the folders of its modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// Module of the programs.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Modules that are published together with [`KUBERNETES`], as `v0.N` for `v1.N`.
const STAGING: [&str; 12] = [
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apimachinery",
    "k8s.io/apiserver",
    "k8s.io/client-go",
    "k8s.io/cluster-bootstrap",
    "k8s.io/component-base",
    "k8s.io/component-helpers",
    "k8s.io/dynamic-resource-allocation",
    "k8s.io/kube-aggregator",
    "k8s.io/pod-security-admission",
    "k8s.io/streaming",
];

/// Permission to download modules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Modules that are missing are downloaded.
    Download,
    /// Modules that are missing are an error.
    CacheOnly,
}

/// A release of Kubernetes.
pub(super) enum Release {
    /// A version of the module `k8s.io/kubernetes`.
    Version(String),
    /// A folder whose subfolders are modules.
    Folder(PathBuf),
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => f.write_str(version),
            Self::Folder(folder) => folder.display().fmt(f),
        }
    }
}

impl Release {
    /// Returns the release of that version or in that folder.
    pub(super) fn named(name: &str) -> Self {
        match Path::new(name).is_dir() {
            true => Self::Folder(name.into()),
            false => Self::Version(name.to_owned()),
        }
    }

    /// Returns the minor version, such as `1.37`.
    ///
    /// # Errors
    /// If the release is a folder or its version has another form.
    pub(super) fn minor(&self) -> Result<&str> {
        let Self::Version(version) = self else {
            bail!("{self} is not a version");
        };
        let bare = version.strip_prefix("v1.").unwrap_or_default();
        let digits = bare.find(|c: char| !c.is_ascii_digit()).unwrap_or(bare.len());
        ensure!(digits > 0, "{version} is not a version such as v1.37.2");
        Ok(&version[1..3 + digits])
    }

    /// Returns the folder of each module: Kubernetes, its staging modules, and those dependencies that contain a
    /// package of `symbols`.
    ///
    /// # Errors
    /// If a module is missing.
    pub(super) fn modules(&self, symbols: &BTreeSet<&str>, access: Access) -> Result<BTreeMap<String, PathBuf>> {
        match self {
            Self::Folder(folder) => modules_in(folder),
            Self::Version(version) => {
                let staging = staging_version(version)?;
                let mut wanted = vec![(KUBERNETES.to_owned(), version.clone())];
                wanted.extend(STAGING.map(|module| (module.to_owned(), staging.clone())));
                let mut modules = download(&wanted, access)?;
                let manifest = fs::read_to_string(modules[KUBERNETES].join("go.mod"))?;
                let used: Vec<_> = requirements(&manifest)
                    .filter(|(module, _)| !modules.contains_key(*module))
                    .filter(|(module, _)| symbols.iter().any(|symbol| is_inside(symbol, module)))
                    .map(|(module, version)| (module.to_owned(), version.to_owned()))
                    .collect();
                if !used.is_empty() {
                    modules.extend(download(&used, access)?);
                }
                Ok(modules)
            }
        }
    }
}

/// Returns the version of the staging modules of a release.
fn staging_version(version: &str) -> Result<String> {
    let rest = version
        .strip_prefix("v1.")
        .with_context(|| format!("{version} is neither a folder nor a version such as v1.36.3"))?;
    Ok(format!("v0.{rest}"))
}

/// Returns true if a module contains the package of a symbol.
fn is_inside(symbol: &str, module: &str) -> bool {
    symbol
        .strip_prefix(module)
        .is_some_and(|rest| rest.starts_with(['/', '#']))
}

/// Returns the modules and versions that a `go.mod` requires.
fn requirements(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    manifest.lines().filter_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        let (module, version) = (words.next()?, words.next()?);
        (module.contains('/') && version.starts_with('v')).then_some((module, version))
    })
}

/// Returns the modules in the subfolders.
fn modules_in(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut modules = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let Ok(manifest) = fs::read_to_string(path.join("go.mod")) else {
            continue;
        };
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("module "))
            .with_context(|| format!("{} names no module", path.display()))?;
        modules.insert(name.trim().to_owned(), path);
    }
    ensure!(
        modules.contains_key(KUBERNETES),
        "{} does not contain the module {KUBERNETES}",
        folder.display()
    );
    Ok(modules)
}

/// A module in the answer of `go mod download`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    path: String,
    #[serde(default)]
    dir: PathBuf,
    #[serde(default)]
    error: String,
}

/// Returns the folders of modules in Go's module cache.
fn download(modules: &[(String, String)], access: Access) -> Result<BTreeMap<String, PathBuf>> {
    // Outside of any module, the versions are those of the arguments.
    let folder = tempfile::tempdir()?;
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json"]).current_dir(folder.path());
    go.args(modules.iter().map(|(module, version)| format!("{module}@{version}")));
    if access == Access::CacheOnly {
        go.env("GOPROXY", "off");
    }
    let output = go.output().context("go")?;
    let mut found = BTreeMap::new();
    for answer in serde_json::Deserializer::from_slice(&output.stdout).into_iter() {
        let answer: Download = answer.context("go mod download")?;
        ensure!(answer.error.is_empty(), "{}", answer.error);
        found.insert(answer.path, answer.dir);
    }
    ensure!(
        found.len() == modules.len(),
        "go mod download: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_ends_before_the_patch() {
        let minor = |version: &str| Release::Version(version.to_owned()).minor().map(str::to_owned).ok();
        assert_eq!(minor("v1.37.2").as_deref(), Some("1.37"));
        assert_eq!(minor("v1.37.0-rc.1").as_deref(), Some("1.37"));
        assert_eq!(minor("1.37"), None);
        assert_eq!(minor("v1."), None);
    }

    #[test]
    fn staging_modules_have_the_major_version_zero() {
        assert_eq!(staging_version("v1.37.0-rc.1").unwrap(), "v0.37.0-rc.1");
        assert!(staging_version("nowhere").is_err());
    }

    #[test]
    fn requirements_are_read_in_both_forms() {
        let manifest = "module a/b\n\ngo 1.26\n\nrequire c/d v1.0.0\nrequire (\n\te.io/f/v2 v2.1.0 // indirect\n)\n";
        let found: Vec<_> = requirements(manifest).collect();
        assert_eq!(found, [("c/d", "v1.0.0"), ("e.io/f/v2", "v2.1.0")]);
    }

    #[test]
    fn packages_belong_to_the_module_of_their_path() {
        assert!(is_inside("k8s.io/api/core/v1#Pod", "k8s.io/api"));
        assert!(is_inside("a.io/cron/v3#Parser.Parse", "a.io/cron/v3"));
        assert!(!is_inside("k8s.io/apimachinery/pkg/labels#Parse", "k8s.io/api"));
    }
}
