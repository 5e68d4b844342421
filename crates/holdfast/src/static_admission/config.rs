//! The file that configures admission plugins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use holdfast_admission_plugins::{ImagePolicy, ImagePolicySettings, LimitedResource, PodSecuritySettings};
use holdfast_resource::table::items;
use holdfast_server::webhooks::{WebhookCredentials, WebhookUsers};
use holdfast_value::{Limits, Value, yaml};

use super::{Plugin, read_file};
use crate::remote::read_users;
use crate::webhook::{ImageWebhook, Webhook};

/// The versions of the file, and those of the configurations in it.
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const CONFIGURATIONS: [&str; 1] = ["apiserver.config.k8s.io/v1"];

/// Plugins that have more configuration than directories.
pub(crate) const NODE_SELECTOR: &str = "PodNodeSelector";
pub(crate) const TOLERATIONS: &str = "PodTolerationRestriction";
pub(crate) const EVENTS: &str = "EventRateLimit";
pub(crate) const IMAGES: &str = "ImagePolicyWebhook";
const QUOTAS: &str = "ResourceQuota";
const POD_SECURITY: &str = "PodSecurity";
const OTHERS: [&str; 6] = [NODE_SELECTOR, TOLERATIONS, EVENTS, IMAGES, QUOTAS, POD_SECURITY];

/// Versions of the configuration of [`POD_SECURITY`].
const POD_SECURITY_VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

/// Versions and kinds of the configuration of [`QUOTAS`].
const QUOTA_KINDS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// Fields with the configurations of [`NODE_SELECTOR`] and [`IMAGES`]. A file with only these fields has the format
/// that predates versions.
const NODE_SELECTORS: &str = "podNodeSelectorPluginConfig";
const IMAGE_POLICY: &str = "imagePolicy";

/// The configuration of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    value: Value,
    /// Location for error messages.
    place: String,
}

/// The configurations of plugins, by their names.
pub(crate) type Configurations = BTreeMap<String, Configuration>;

/// Returns the configuration of each plugin in the file.
pub(super) fn configurations(path: &Path) -> Result<Configurations> {
    let object = read(path)?;
    let is_old = [NODE_SELECTORS, IMAGE_POLICY]
        .iter()
        .any(|part| object.get(part).is_some());
    if is_old && object.get("kind").is_none() {
        let configuration = |plugin: &str| Configuration {
            value: object.clone(),
            place: plugin.to_owned(),
        };
        let both = [NODE_SELECTOR, IMAGES].map(|plugin| (plugin.to_owned(), configuration(plugin)));
        return Ok(both.into());
    }
    expect(&object, &VERSIONS, "AdmissionConfiguration")?;
    only(&object, "", &["apiVersion", "kind", "plugins"])?;
    let mut configurations = Configurations::new();
    for (at, entry) in items(&object, &["plugins"]).iter().enumerate() {
        only(entry, &format!("plugins[{at}]."), &["name", "path", "configuration"])?;
        let name = entry.str_at(&["name"]).unwrap_or_default();
        if !OTHERS.contains(&name) && !Plugin::ALL.iter().any(|plugin| plugin.name() == name) {
            bail!("plugins[{at}]: the admission plugin {name:?} takes no configuration here");
        }
        let (configuration, place) = match (entry.get("configuration"), entry.str_at(&["path"])) {
            (Some(inside), _) if !inside.is_null() => (inside.clone(), name.to_owned()),
            (_, Some(file)) if !file.is_empty() => {
                let file = path.parent().unwrap_or(Path::new(".")).join(file);
                (read(&file)?, format!("{name}: {}", file.display()))
            }
            _ => continue,
        };
        // The first of several configurations for one plugin applies.
        configurations.entry(name.to_owned()).or_insert(Configuration {
            value: configuration,
            place,
        });
    }
    Ok(configurations)
}

/// Returns the directory of each plugin that has one. `allowed` is true if the feature gate for directories is enabled.
pub(super) fn folders(configurations: &Configurations, allowed: bool) -> Result<BTreeMap<Plugin, PathBuf>> {
    let mut folders = BTreeMap::new();
    for plugin in Plugin::ALL {
        let Some(Configuration { value, place }) = configurations.get(plugin.name()) else {
            continue;
        };
        let result = folder_of(plugin, value, allowed);
        let folder = result.map_err(|why| anyhow!("{place}: {why}"))?;
        folders.extend(folder.map(|folder| (plugin, folder)));
    }
    Ok(folders)
}

/// Reads the configuration of a plugin, which has a kind named `Configuration`; returns the default if there is none.
pub(crate) fn read_for<T: Default>(
    configurations: &Configurations,
    plugin: &str,
    version: &str,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<T> {
    let Some(Configuration { value, place }) = configurations.get(plugin) else {
        return Ok(T::default());
    };
    let read = expect(value, &[version], "Configuration").and_then(|()| read(value).map_err(|why| anyhow!(why)));
    read.map_err(|why| anyhow!("couldn't init admission plugin {plugin:?}: {place}: {why}"))
}

/// Reads the resources that can only be consumed if a quota covers them.
pub(crate) fn limited_resources(configurations: &Configurations) -> Result<Vec<LimitedResource>> {
    let Some(Configuration { value, place }) = configurations.get(QUOTAS) else {
        return Ok(Vec::new());
    };
    let version = value.str_at(&["apiVersion"]).unwrap_or_default();
    let known = QUOTA_KINDS.iter().find(|(known, _)| *known == version);
    let (version, kind) = known.copied().unwrap_or(QUOTA_KINDS[0]);
    let read = expect(value, &[version], kind)
        .and_then(|()| LimitedResource::from_configuration(value).map_err(|why| anyhow!(why)));
    read.map_err(|why| anyhow!("couldn't init admission plugin {QUOTAS:?}: {place}: {why}"))
}

/// Reads the default standards of Pods, and the exemptions.
pub(crate) fn pod_security(configurations: &Configurations) -> Result<PodSecuritySettings> {
    let Some(Configuration { value, place }) = configurations.get(POD_SECURITY) else {
        return Ok(PodSecuritySettings::default());
    };
    let read = expect(value, &POD_SECURITY_VERSIONS, "PodSecurityConfiguration")
        .and_then(|()| PodSecuritySettings::from_configuration(value).map_err(|why| anyhow!(why)));
    read.map_err(|why| anyhow!("couldn't init admission plugin {POD_SECURITY:?}: {place}: {why}"))
}

/// Reads the credentials for webhooks: the users of the kubeconfigs that the configurations of the webhook plugins name.
pub(crate) fn webhook_credentials(configurations: &Configurations) -> Result<WebhookCredentials> {
    let users = |plugin: Plugin| {
        let configuration = configurations.get(plugin.name());
        let file = configuration.and_then(|configuration| configuration.value.str_at(&["kubeConfigFile"]));
        let Some(file) = file.filter(|file| !file.is_empty()) else {
            return Ok(WebhookUsers::default());
        };
        let path = Path::new(file);
        let read = match path.is_absolute() {
            true => read_users(path),
            false => Err(anyhow!(
                "kubeConfigFile: Invalid value: {file:?}: must be an absolute file path"
            )),
        };
        read.map_err(|why| anyhow!("couldn't init admission plugin {:?}: {why:#}", plugin.name()))
    };
    Ok(WebhookCredentials {
        validating: users(Plugin::ValidatingWebhooks)?,
        mutating: users(Plugin::MutatingWebhooks)?,
    })
}

/// Reads the configuration of the webhook that decides about images.
pub(crate) fn image_policy(configurations: &Configurations) -> Result<ImagePolicy> {
    let why = |why: String| anyhow!("couldn't init admission plugin {IMAGES:?}: {why}");
    let entry = configurations.get(IMAGES);
    let configuration = entry.ok_or_else(|| why("no config specified".to_owned()))?;
    let policy = configuration.value.get(IMAGE_POLICY).cloned().unwrap_or_default();
    let settings = ImagePolicySettings::from_configuration(&policy).map_err(why)?;
    let path = policy.str_at(&["kubeConfigFile"]).unwrap_or_default();
    let webhook = Webhook::read(Path::new(path)).map_err(|error| why(format!("{error:#}")))?;
    let backoff = settings.backoff;
    Ok(ImagePolicy::new(settings, Box::new(ImageWebhook { webhook, backoff })))
}

/// Reads the node selectors of namespaces, by name.
pub(crate) fn node_selectors(configurations: &Configurations) -> Result<BTreeMap<String, String>> {
    let configuration = configurations.get(NODE_SELECTOR);
    let Some(selectors) = configuration.and_then(|configuration| configuration.value.get(NODE_SELECTORS)) else {
        return Ok(BTreeMap::new());
    };
    let read = |(name, selector): &(_, Value)| Some((ToString::to_string(name), selector.as_str()?.to_owned()));
    let selectors: Option<_> = selectors.as_map().and_then(|map| map.iter().map(read).collect());
    selectors.ok_or_else(|| {
        anyhow!(
            "couldn't init admission plugin {NODE_SELECTOR:?}: {NODE_SELECTORS} holds a selector for each namespace"
        )
    })
}

/// Returns the directory in the configuration of a plugin.
fn folder_of(plugin: Plugin, configuration: &Value, allowed: bool) -> Result<Option<PathBuf>> {
    match plugin {
        Plugin::ValidatingPolicies | Plugin::MutatingPolicies => {
            let kind = format!("{}Configuration", plugin.name());
            expect(configuration, &CONFIGURATIONS, &kind)?;
            only(configuration, "", &["apiVersion", "kind", "staticManifestsDir"])?;
        }
        Plugin::ValidatingWebhooks | Plugin::MutatingWebhooks => {
            expect(configuration, &CONFIGURATIONS, "WebhookAdmissionConfiguration")?;
            only(
                configuration,
                "",
                &["apiVersion", "kind", "kubeConfigFile", "staticManifestsDir"],
            )?;
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
    let result = yaml::parse_with_findings(&bytes, &Limits::default());
    let parsed = result.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    ensure!(parsed.findings.is_empty(), "{}: a key stands twice", path.display());
    Ok(parsed.value)
}

/// Rejects an object of another kind.
fn expect(object: &Value, versions: &[&str], expected: &str) -> Result<()> {
    let text = |field| object.str_at(&[field]).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    ensure!(
        versions.contains(&version) && kind == expected,
        "no kind {kind:?} is registered for version {version:?}; there is {expected} of {}",
        versions.join(", ")
    );
    Ok(())
}

/// Rejects an object with other fields than these.
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

    fn folders_of(text: &str, allowed: bool) -> Result<BTreeMap<Plugin, PathBuf>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let text = text.replace("FOLDER", folder.path().to_str().unwrap());
        std::fs::write(&path, text).unwrap();
        let folders = configurations(&path).and_then(|read| folders(&read, allowed));
        folders.map_err(|error| error.to_string())
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
        let folders = folders_of(&with("staticManifestsDir: FOLDER"), true).unwrap();
        assert_eq!(
            folders.keys().copied().collect::<Vec<_>>(),
            [Plugin::ValidatingPolicies]
        );
        assert!(folders_of(&with(""), false).unwrap().is_empty());
    }

    #[test]
    fn invalid_file_is_rejected_with_the_reason() {
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
            let error = folders_of(&text, allowed).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
