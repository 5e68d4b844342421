//! The file that configures admission plugins, as far as it names directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use holdfast_value::{Limits, Value, yaml};

use super::{Plugin, read_file};

/// The versions of the file, and those of the configurations in it.
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const CONFIGURATIONS: [&str; 1] = ["apiserver.config.k8s.io/v1"];

/// The directory of each plugin that has one. `allowed` says whether the gate for directories is on.
pub(super) fn folders(path: &Path, allowed: bool) -> Result<BTreeMap<Plugin, PathBuf>> {
    let object = read(path)?;
    expect(&object, &VERSIONS, &["AdmissionConfiguration"])?;
    only(&object, "", &["apiVersion", "kind", "plugins"])?;
    let plugins = object.get("plugins").and_then(Value::as_list);
    let mut folders = BTreeMap::new();
    for (at, entry) in plugins.into_iter().flat_map(|list| list.iter()).enumerate() {
        only(entry, &format!("plugins[{at}]."), &["name", "path", "configuration"])?;
        let name = entry.str_at(&["name"]).unwrap_or_default();
        let Some(plugin) = Plugin::ALL.into_iter().find(|plugin| plugin.name() == name) else {
            bail!("plugins[{at}]: the admission plugin {name:?} takes no configuration here");
        };
        let configuration = match (entry.get("configuration"), entry.str_at(&["path"])) {
            (Some(inside), _) if !inside.is_null() => inside.clone(),
            (_, Some(file)) if !file.is_empty() => read(&path.parent().unwrap_or(Path::new(".")).join(file))?,
            _ => continue,
        };
        let folder = folder_of(plugin, &configuration, allowed);
        let folder = folder.map_err(|why| anyhow!("{name}: {why}"))?;
        folders.extend(folder.map(|folder| (plugin, folder)));
    }
    Ok(folders)
}

/// The directory that the configuration of a plugin names.
fn folder_of(plugin: Plugin, configuration: &Value, allowed: bool) -> Result<Option<PathBuf>> {
    let version = &CONFIGURATIONS;
    match plugin {
        Plugin::ValidatingPolicies | Plugin::MutatingPolicies => {
            let kind = format!("{}Configuration", plugin.name());
            expect(configuration, version, &[kind.as_str()])?;
            only(configuration, "", &["apiVersion", "kind", "staticManifestsDir"])?;
        }
        Plugin::ValidatingWebhooks | Plugin::MutatingWebhooks => {
            expect(configuration, version, &["WebhookAdmissionConfiguration"])?;
            only(
                configuration,
                "",
                &["apiVersion", "kind", "kubeConfigFile", "staticManifestsDir"],
            )?;
            let kubeconfig = configuration.str_at(&["kubeConfigFile"]).unwrap_or_default();
            ensure!(
                kubeconfig.is_empty(),
                "kubeConfigFile: credentials for webhooks are not supported"
            );
        }
    }
    const FIELD: &str = "staticManifestsDir";
    let text = match configuration.str_at(&[FIELD]) {
        None | Some("") => return Ok(None),
        Some(text) => text,
    };
    ensure!(
        allowed,
        "{FIELD}: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled"
    );
    let folder = PathBuf::from(text);
    ensure!(
        folder.is_absolute(),
        "{FIELD}: Invalid value: {text:?}: must be an absolute file path"
    );
    let about = std::fs::metadata(&folder);
    let about =
        about.map_err(|error| anyhow!("{FIELD}: Invalid value: {text:?}: unable to read: stat {text}: {error}"))?;
    ensure!(about.is_dir(), "{FIELD}: Invalid value: {text:?}: must be a directory");
    Ok(Some(folder))
}

fn read(path: &Path) -> Result<Value> {
    let bytes = read_file(path).map_err(|why| anyhow!(why))?;
    let parsed = yaml::parse_with_findings(&bytes, &Limits::default());
    let parsed = parsed.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    ensure!(parsed.findings.is_empty(), "{}: a key stands twice", path.display());
    Ok(parsed.value)
}

/// Refuses an object of another kind.
fn expect(object: &Value, versions: &[&str], kinds: &[&str]) -> Result<()> {
    let text = |field| object.str_at(&[field]).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    ensure!(
        versions.contains(&version) && kinds.contains(&kind),
        "no kind {kind:?} is registered for version {version:?}; there is {} of {}",
        kinds.join(", "),
        versions.join(", ")
    );
    Ok(())
}

/// Refuses an object with other fields than these.
fn only(object: &Value, place: &str, fields: &[&str]) -> Result<()> {
    let Some(map) = object.as_map() else {
        bail!(
            "{}: expected an object",
            if place.is_empty() { "the file" } else { place }
        );
    };
    let unknown = map.iter().find(|(name, _)| !fields.contains(&name.as_str()));
    match unknown {
        None => Ok(()),
        Some((name, _)) => bail!("strict decoding error: unknown field \"{place}{name}\""),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn told(text: &str, allowed: bool) -> Result<BTreeMap<Plugin, PathBuf>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let text = text.replace("FOLDER", folder.path().to_str().unwrap());
        std::fs::write(&path, text).unwrap();
        folders(&path, allowed).map_err(|error| error.to_string())
    }

    fn with(configuration: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ValidatingAdmissionPolicy\n  \
             configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration, \
             {configuration}}}\n"
        )
    }

    #[test]
    fn directories_are_named_by_plugin() {
        let folders = told(&with("staticManifestsDir: FOLDER"), true).unwrap();
        assert_eq!(
            folders.keys().copied().collect::<Vec<_>>(),
            [Plugin::ValidatingPolicies]
        );
        assert!(told(&with(""), false).unwrap().is_empty());
    }

    #[test]
    fn what_a_file_may_not_say_is_refused_with_the_reason() {
        for (text, allowed, why) in [
            (
                with("staticManifestsDir: FOLDER"),
                false,
                "requires the ManifestBasedAdmissionControlConfig feature gate",
            ),
            (
                with("staticManifestsDir: relative"),
                true,
                "must be an absolute file path",
            ),
            (
                with("staticManifestsDir: /nowhere/at/all"),
                true,
                "unable to read: stat /nowhere/at/all",
            ),
            (
                with("staticManifestsDir: FOLDER/config.yaml"),
                true,
                "must be a directory",
            ),
            (with("other: 1"), true, "strict decoding error: unknown field \"other\""),
            (
                "kind: Other".to_owned(),
                true,
                "no kind \"Other\" is registered for version \"\"",
            ),
            (
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: A, more: 1}]"
                    .to_owned(),
                true,
                "unknown field \"plugins[0].more\"",
            ),
            (
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: A}]".to_owned(),
                true,
                "the admission plugin \"A\" takes no configuration here",
            ),
            ("a: {".to_owned(), true, "config.yaml: "),
        ] {
            let error = told(&text, allowed).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
