//! The manifests of a directory: reads, splits and validates them as far as they have rules of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use holdfast_resource::table::items;
use holdfast_value::{Limits, Value, yaml};
use sha2::{Digest as _, Sha256};

use super::{Plugin, read_file};
use crate::files;
use crate::reload::{self, FileState};

/// Required suffix of names in files, which no other objects may have.
const SUFFIX: &str = ".static.k8s.io";
const VERSION: &str = "admissionregistration.k8s.io/v1";
/// Maximum depth of lists in lists.
const DEPTH: usize = 8;

/// An object of a file.
#[derive(Debug)]
pub(super) struct Manifest {
    /// The file.
    pub(super) path: PathBuf,
    /// One of the kinds of the plugin.
    kind: &'static str,
    /// The plural name of its resource.
    pub(super) plural: &'static str,
    pub(super) name: String,
    pub(super) object: Value,
}

impl Manifest {
    /// Returns true if it is a policy binding.
    pub(super) fn is_binding(&self) -> bool {
        self.kind.ends_with("Binding")
    }
}

/// Files of a directory in the order of their names, with the state that shows that one has changed.
pub(super) type State = Vec<(PathBuf, Option<FileState>)>;

/// Returns the current state of a directory.
pub(super) fn state(folder: &Path) -> State {
    let files = files(folder).unwrap_or_default().into_iter();
    files
        .map(|path| {
            let state = reload::state(&path);
            (path, state)
        })
        .collect()
}

/// Returns the files with manifests, in the order of their names.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().map(|text| text.to_string_lossy().to_ascii_lowercase());
        let is_manifest = matches!(extension.as_deref(), Some("yaml" | "yml" | "json"));
        if is_manifest && !path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the manifests of a directory, in the order of their names, and the hash of its files; empty if the files are
/// empty.
pub(super) fn read(folder: &Path, plugin: Plugin) -> Result<(Vec<Manifest>, String), String> {
    let listing = files(folder);
    let files = listing.map_err(|error| {
        format!(
            "failed to read manifest directory {:?}: {error}",
            folder.display().to_string()
        )
    })?;
    let (mut digest, mut is_empty) = (Sha256::new(), true);
    let mut found = Found {
        plugin,
        seen: BTreeMap::new(),
        manifests: Vec::new(),
    };
    for path in files {
        let bytes = read_file(&path)?;
        if bytes.is_empty() {
            continue;
        }
        is_empty = false;
        digest.update(&bytes);
        digest.update([0]);
        let text = String::from_utf8(bytes).map_err(|error| format!("error loading {}: {error}", path.display()))?;
        for document in files::documents(&text) {
            let object = yaml::parse(document.text.as_bytes(), &Limits::default()).map_err(|error| error.to_string());
            let taken = object.and_then(|object| found.take(object, &path, 0));
            taken.map_err(|why| format!("error loading {}: {why}", path.display()))?;
        }
    }
    found.check_references()?;
    let mut manifests = found.manifests;
    manifests.sort_by(|one, other| one.name.cmp(&other.name));
    let hash = match is_empty {
        true => String::new(),
        false => format!("sha256:{}", HEXLOWER.encode(&digest.finalize())),
    };
    Ok((manifests, hash))
}

struct Found {
    plugin: Plugin,
    /// File of each name, for each kind.
    seen: BTreeMap<(&'static str, String), PathBuf>,
    manifests: Vec<Manifest>,
}

impl Found {
    /// Adds an object, or the objects of a list.
    fn take(&mut self, object: Value, path: &Path, depth: usize) -> Result<(), String> {
        let text = |field: &str| object.str_at(&[field]).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() {
            return Err("Object 'Kind' is missing".to_owned());
        }
        let is_list = version == "v1" && kind == "List"
            || version == VERSION && self.kind_of(kind.strip_suffix("List")).is_some();
        if is_list && depth < DEPTH {
            let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
            for item in items(&object, &["items"]) {
                let mut item = item.clone();
                if let Some(kind) = item_kind {
                    item.set_at(&["kind"], kind.into());
                    item.set_at(&["apiVersion"], version.into());
                }
                self.take(item, path, depth + 1)?;
            }
            return Ok(());
        }
        let Some((kind, plural)) = self.kind_of(Some(kind)).filter(|_| version == VERSION) else {
            return Err(format!("unsupported resource type {kind:?} of {version:?}"));
        };
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        self.check_name(kind, &name, path)?;
        check_rules(kind, &name, &object, path)?;
        self.manifests.push(Manifest {
            path: path.to_owned(),
            kind,
            plural,
            name,
            object,
        });
        Ok(())
    }

    fn kind_of(&self, kind: Option<&str>) -> Option<(&'static str, &'static str)> {
        let mut kinds = self.plugin.kinds().iter();
        kinds.find(|(known, _)| Some(*known) == kind).copied()
    }

    /// Validates the name of a manifest (`ValidateManifestName`).
    fn check_name(&mut self, kind: &'static str, name: &str, path: &Path) -> Result<(), String> {
        let file = path.display().to_string();
        if name.is_empty() {
            return Err(format!("resource in file {file:?} must have a name"));
        }
        if !name.ends_with(SUFFIX) {
            return Err(format!(
                "{name:?} in file {file:?} must have a name ending with {SUFFIX:?}"
            ));
        }
        match self.seen.insert((kind, name.to_owned()), path.to_owned()) {
            None => Ok(()),
            Some(before) => Err(format!(
                "duplicate name {name:?} found in file {file:?} (previously seen in {:?})",
                before.display().to_string()
            )),
        }
    }

    /// Checks that every binding names an existing policy.
    fn check_references(&self) -> Result<(), String> {
        let policies: BTreeSet<&str> = self
            .manifests
            .iter()
            .filter(|manifest| !manifest.is_binding())
            .map(|manifest| manifest.name.as_str())
            .collect();
        for binding in self.manifests.iter().filter(|manifest| manifest.is_binding()) {
            let policy = binding.object.str_at(&["spec", "policyName"]).unwrap_or_default();
            if !policies.contains(policy) {
                return Err(format!(
                    "binding {:?} references policy {policy:?} which does not exist in the manifest directory",
                    binding.name
                ));
            }
        }
        Ok(())
    }
}

/// Rejects objects of files that refer to objects that clients can change.
fn check_rules(kind: &str, name: &str, object: &Value, path: &Path) -> Result<(), String> {
    let has = |field: &str| object.at(&["spec", field]).is_some_and(|value| !value.is_null());
    if kind.ends_with("Binding") {
        let policy = object.str_at(&["spec", "policyName"]).unwrap_or_default();
        if policy.is_empty() {
            return Err(format!("binding {name:?} must reference a policy (spec.policyName)"));
        }
        if !policy.ends_with(SUFFIX) {
            return Err(format!(
                "binding {name:?}: spec.policyName {policy:?} must end with {SUFFIX:?}"
            ));
        }
        if has("paramRef") {
            return Err(format!(
                "binding {name:?}: spec.paramRef is not supported for static manifests"
            ));
        }
    } else if kind.ends_with("Policy") && has("paramKind") {
        return Err(format!(
            "{kind} {name:?}: spec.paramKind is not supported for static manifests"
        ));
    }
    for webhook in items(object, &["webhooks"]) {
        let place = || {
            let webhook_name = webhook.str_at(&["name"]).unwrap_or_default();
            format!(
                "webhook {webhook_name:?} in {name:?} (file {:?})",
                path.display().to_string()
            )
        };
        if webhook
            .at(&["clientConfig", "service"])
            .is_some_and(|service| !service.is_null())
        {
            return Err(format!(
                "{}: clientConfig.service is not supported for static manifests; use clientConfig.url instead",
                place()
            ));
        }
        if webhook.str_at(&["clientConfig", "url"]).unwrap_or_default().is_empty() {
            return Err(format!(
                "{}: clientConfig.url is required for static manifests",
                place()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: \
                          p.static.k8s.io}\n";
    const BINDING: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: \
                           b.static.k8s.io}\nspec: {policyName: p.static.k8s.io}\n";

    fn read_of(plugin: Plugin, files: &[(&str, &str)]) -> Result<(Vec<String>, String), String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let (manifests, hash) = read(folder.path(), plugin)?;
        Ok((manifests.into_iter().map(|manifest| manifest.name).collect(), hash))
    }

    #[test]
    fn files_hold_documents_and_lists() {
        let both = format!("---\n{POLICY}---\n{BINDING}---\n\n");
        let list = format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}",
            holdfast_value::json::to_string(&yaml::parse(POLICY.as_bytes(), &Limits::default()).unwrap())
        );
        for files in [
            vec![("a.yaml", both.as_str()), ("b.txt", "{"), ("c.yml", "")],
            vec![("a.json", list.as_str()), ("z.yaml", BINDING)],
        ] {
            let (names, hash) = read_of(Plugin::ValidatingPolicies, &files).unwrap();
            assert_eq!(names, ["b.static.k8s.io", "p.static.k8s.io"]);
            assert!(hash.starts_with("sha256:"));
        }
        let nothing = read_of(Plugin::MutatingWebhooks, &[("a.yaml", "")]).unwrap();
        assert_eq!(nothing, (Vec::new(), String::new()));
    }

    #[test]
    fn invalid_manifest_is_reported_with_its_file() {
        let webhooks = |client: &str| {
            format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {{name: \
                 w.static.k8s.io}}, webhooks: [{{name: w.example.com, clientConfig: {{{client}}}}}]}}"
            )
        };
        let (of_policies, of_webhooks) = (Plugin::ValidatingPolicies, Plugin::ValidatingWebhooks);
        for (plugin, text, why) in [
            (
                of_policies,
                POLICY.replace("p.static.k8s.io", "p"),
                "must have a name ending with \".static.k8s.io\"",
            ),
            (of_policies, POLICY.replace("p.static.k8s.io", "''"), "must have a name"),
            (
                of_policies,
                format!("{POLICY}---\n{POLICY}"),
                "duplicate name \"p.static.k8s.io\"",
            ),
            (
                of_policies,
                format!("{POLICY}spec: {{paramKind: {{kind: A}}}}"),
                "spec.paramKind is not supported",
            ),
            (
                of_policies,
                BINDING.to_owned(),
                "which does not exist in the manifest directory",
            ),
            (
                of_policies,
                BINDING.replace("policyName: p.static.k8s.io", "policyName: p"),
                "must end with",
            ),
            (
                of_policies,
                BINDING.replace("policyName: p.static.k8s.io", ""),
                "must reference a policy",
            ),
            (
                of_policies,
                "kind: Pod\napiVersion: v1".to_owned(),
                "unsupported resource type \"Pod\"",
            ),
            (of_policies, "a: {".to_owned(), "error loading"),
            (of_webhooks, POLICY.to_owned(), "unsupported resource type"),
            (
                of_webhooks,
                webhooks("service: {name: a, namespace: b}"),
                "use clientConfig.url instead",
            ),
            (of_webhooks, webhooks(""), "clientConfig.url is required"),
        ] {
            let error = read_of(plugin, &[("a.yaml", &text)]).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
