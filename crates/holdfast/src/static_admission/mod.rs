//! The configuration file of admission plugins, and admission policies and webhooks that come from files of the server
//! instead of the API, so that no client can change them (`staticManifestsDir`, KEP-5793).
//!
//! Each object is validated like a creation through the API, by a dry run under another name. A directory is loaded as
//! a whole: if anything in it is invalid, the start fails, or the previous content remains in effect.

pub(crate) mod config;
mod manifests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use data_encoding::HEXLOWER;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::Policies;
use holdfast_admission::webhooks::{WebhookType, Webhooks};
use holdfast_controllers::Identity;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_server::metrics::ManifestMetrics;
use holdfast_server::operations::loopback::Client;
use holdfast_server::operations::service::Service;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers};
use holdfast_value::Value;
use sha2::{Digest as _, Sha256};

use self::manifests::Manifest;
use crate::files;
use crate::reload::{self, Changes};

/// Flags for files of admission plugins.
#[derive(Clone, Debug, Args)]
pub(crate) struct StaticAdmissionFlags {
    /// File with the configuration of admission plugins, in kube-apiserver's format: EventRateLimit,
    /// ImagePolicyWebhook, PodNodeSelector, PodSecurity, PodTolerationRestriction and ResourceQuota; for the webhook
    /// plugins, the kubeconfig with the credentials for webhooks; and for the webhook and policy plugins, the directory
    /// of manifests that no client can change, which is reloaded when it changes
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

/// An admission plugin whose policies or webhooks may come from files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plugin {
    ValidatingPolicies,
    MutatingPolicies,
    ValidatingWebhooks,
    MutatingWebhooks,
}

impl Plugin {
    const ALL: [Self; 4] = [
        Self::ValidatingPolicies,
        Self::MutatingPolicies,
        Self::ValidatingWebhooks,
        Self::MutatingWebhooks,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::ValidatingWebhooks => "ValidatingAdmissionWebhook",
            Self::MutatingWebhooks => "MutatingAdmissionWebhook",
        }
    }

    /// Returns the kinds that its directory may contain, each with the plural name of its resource.
    fn kinds(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ValidatingPolicies => &[
                ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
                ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
            ],
            Self::MutatingPolicies => &[
                ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
                ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
            ],
            Self::ValidatingWebhooks => &[("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")],
            Self::MutatingWebhooks => &[("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")],
        }
    }
}

/// The directories of the plugins.
#[derive(Debug, Default)]
pub(crate) struct StaticAdmission {
    folders: BTreeMap<Plugin, PathBuf>,
}

impl StaticAdmissionFlags {
    /// Returns the configuration of each plugin in the file; nothing if there is no file.
    pub(crate) fn configurations(&self) -> Result<config::Configurations> {
        let Some(path) = &self.admission_control_config_file else {
            return Ok(config::Configurations::new());
        };
        let read = config::configurations(path);
        read.with_context(|| format!("--admission-control-config-file: {}", path.display()))
    }

    /// Reads the directories that the file names.
    pub(crate) fn read(&self, features: Features, chain: &AdmissionChain) -> Result<StaticAdmission> {
        let Some(path) = &self.admission_control_config_file else {
            return Ok(StaticAdmission::default());
        };
        let allowed = features.has(Feature::ManifestBasedAdmissionControlConfig);
        let result = config::folders(&self.configurations()?, allowed);
        let folders = result.with_context(|| format!("--admission-control-config-file: {}", path.display()))?;
        let is_on = |plugin: &Plugin| chain.names().any(|name| name == plugin.name());
        Ok(StaticAdmission {
            folders: folders.into_iter().filter(|(plugin, _)| is_on(plugin)).collect(),
        })
    }
}

/// Name of the user in requests that validate manifests.
const USER: &str = "static-admission-manifests";

impl StaticAdmission {
    /// Loads the directories and watches them for as long as the server runs.
    ///
    /// # Errors
    /// If the content of a directory is invalid.
    pub(crate) async fn begin(self, service: &Arc<Service>, kinds: &holdfast_kinds::Config, host: &str) -> Result<()> {
        if self.folders.is_empty() {
            return Ok(());
        }
        let server = HEXLOWER.encode(&Sha256::digest(Identity::name_of(host)));
        let server_metrics = &service.context.shared.metrics;
        let metrics = server_metrics.follow_manifests(&format!("sha256:{server}"))?;
        let context = &service.context;
        for (plugin, folder) in self.folders {
            let files = folder.clone();
            let changes = Changes::new(&context.shutdown, move || manifests::state(&files));
            let mut follower = Follower {
                // Rules in files apply to the API, not to other files.
                client: Client::new(Arc::clone(service), USER).unadmitted(),
                policies: Arc::clone(&kinds.policies),
                webhooks: Arc::clone(&kinds.webhooks),
                metrics: metrics.clone(),
                plugin,
                folder,
                seen: String::new(),
            };
            let name = plugin.name();
            let loaded = follower.load().await;
            loaded.map_err(|why| {
                anyhow!(
                    "failed to load static manifests of {name} from {:?}: {why}",
                    follower.folder
                )
            })?;
            let work = follower.follow(changes);
            context.background.spawn(reload::CHECK, name, &context.shutdown, work);
        }
        Ok(())
    }
}

/// Keeps the policies or webhooks of a plugin as its directory has them.
struct Follower {
    client: Client,
    policies: Arc<Policies>,
    webhooks: Arc<Webhooks>,
    metrics: ManifestMetrics,
    plugin: Plugin,
    folder: PathBuf,
    /// Hash of the content that was read last.
    seen: String,
}

impl Follower {
    async fn follow(mut self, mut changes: Changes<manifests::State>) {
        while changes.next().await {
            let (plugin, folder) = (self.plugin.name(), self.folder.display().to_string());
            match self.load().await {
                Ok(()) => tracing::info!(
                    plugin,
                    folder,
                    "static manifests of admission have changed and were read again"
                ),
                Err(error) => {
                    self.metrics.failed(plugin);
                    tracing::error!(
                        plugin,
                        folder,
                        error,
                        "static manifests of admission cannot be used; the old ones stay"
                    );
                }
            }
        }
    }

    /// Reads the directory and replaces the previous content by the new one.
    async fn load(&mut self) -> Result<(), String> {
        let (folder, plugin) = (self.folder.clone(), self.plugin);
        let read = tokio::task::spawn_blocking(move || manifests::read(&folder, plugin)).await;
        let (manifests, hash) = read.map_err(|error| error.to_string())??;
        if hash == self.seen && !hash.is_empty() {
            return Ok(());
        }
        let (mut objects, mut bindings) = (Vec::new(), Vec::new());
        for manifest in manifests {
            let checked = check(&self.client, &manifest).await;
            let object = checked.map_err(|why| format!("error loading {}: {why}", manifest.path.display()))?;
            match manifest.is_binding() {
                true => bindings.push(object),
                false => objects.push(object),
            }
        }
        match self.plugin {
            Plugin::ValidatingPolicies => self.policies.validating.set_files(&objects, &bindings),
            Plugin::MutatingPolicies => self.policies.mutating.set_files(&objects, &bindings),
            Plugin::ValidatingWebhooks => self.webhooks.set_files(WebhookType::Validating, &objects),
            Plugin::MutatingWebhooks => self.webhooks.set_files(WebhookType::Mutating, &objects),
        }
        self.metrics.loaded(self.plugin.name(), &hash);
        self.seen = hash;
        Ok(())
    }
}

/// Returns the object as the API would store it, under its own name.
async fn check(client: &Client, manifest: &Manifest) -> Result<Value, String> {
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/{}?dryRun=All&fieldValidation=Strict",
        manifest.plural
    );
    let mut object = manifest.object.clone();
    // Names with this suffix are reserved for files, so the dry run needs another name.
    let name = format!("{}.{}", manifest.name, RandomIdentifiers::default().uid());
    object.set_at(&["metadata", "name"], name.as_str().into());
    let created = client.create(&path, &object).await;
    let mut made = created.map_err(|error| error.to_string().replace(&name, &manifest.name))?;
    made.set_at(&["metadata", "name"], manifest.name.as_str().into());
    Ok(made)
}

/// Returns the bytes of a file. Error messages are the reference's.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    files::read_bounded(path).map_err(|error| format!("failed to read file {:?}: {error}", path.display().to_string()))
}
