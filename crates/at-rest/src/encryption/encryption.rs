//! Selection of the providers of a value, and their replacement while the server runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use holdfast_gotext::errors::aggregate;
use holdfast_schema::{Aggregate, FieldError, GroupResource};
use holdfast_store::{
    CodecError, ENCRYPTED_WITHOUT_PROVIDER, StoredForm, Transformed, Transformer, is_encrypted, table_by_segments,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::configuration::{Configuration, DecodeError};
use super::forms::Forms;
use super::kms::KmsEvents;
use super::rules::Rules;
use super::validation::validate;

/// Minimum time that a reload waits until new plugins are healthy.
const MIN_HEALTH_WAIT: Duration = Duration::from_secs(10);
/// Interval of the checks meanwhile.
const HEALTH_POLL: Duration = Duration::from_millis(100);

/// Error of a configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is empty.
    #[error("error while parsing file: error while loading file: encryption provider configuration file is empty")]
    Empty,
    /// The text is no configuration.
    #[error("error while parsing file: error decoding encryption provider configuration file: {0}")]
    Decode(DecodeError),
    /// Fields have invalid values.
    #[error("error while parsing file: {}", Aggregate(.0))]
    Invalid(Vec<FieldError>),
    /// The providers cannot be created.
    #[error("error while building transformers: {0}")]
    Build(String),
    /// New plugins are not healthy.
    #[error("health check for new transformers failed: {0}")]
    Unhealthy(String),
}

/// Providers of encryption by resource. They can be replaced while values are read and written.
pub struct Encryption {
    /// Built-in resources by the prefixes of their keys.
    resources: HashMap<Box<[u8]>, GroupResource>,
    forms: Arc<Forms>,
    rules: ArcSwap<Rules>,
    /// Digest of the configuration in use.
    digest: Mutex<Option<ConfigurationDigest>>,
    events: KmsEvents,
    /// True if a value could not be decrypted.
    failed: AtomicBool,
}

/// SHA-256 digest of the bytes of a configuration, which does not reveal its keys.
pub type ConfigurationDigest = [u8; 32];

/// Providers of a new configuration that are not in use yet.
pub struct EncryptionUpdate {
    rules: Rules,
    digest: Option<ConfigurationDigest>,
}

/// Result of the last check of a plugin.
pub type KmsCheck = Result<(), String>;

impl Encryption {
    /// Creates encryption without any provider. `resources` are the built-in resources with the prefixes of their keys,
    /// such as `/registry/secrets/`.
    pub fn new(resources: impl IntoIterator<Item = (String, GroupResource)>) -> Self {
        let prefixes = resources.into_iter();
        Self {
            resources: prefixes
                .map(|(prefix, resource)| (prefix.into_bytes().into(), resource))
                .collect(),
            forms: Arc::default(),
            rules: ArcSwap::default(),
            digest: Mutex::default(),
            events: KmsEvents::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// Reads a configuration and connects to its plugins. `reload` is true if the file is reloaded automatically. A
    /// plugin that does not answer is no error.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#LoadEncryptionConfig
    ///
    /// # Errors
    /// If the text is no valid configuration.
    pub fn prepare(&self, text: &[u8], reload: bool) -> Result<EncryptionUpdate, ConfigurationError> {
        if text.is_empty() {
            return Err(ConfigurationError::Empty);
        }
        let configuration = Configuration::decode(text).map_err(ConfigurationError::Decode)?;
        let errors = validate(&configuration, reload);
        if !errors.is_empty() {
            return Err(ConfigurationError::Invalid(errors));
        }
        let rules = Rules::new(&configuration, &self.forms, &self.events);
        Ok(EncryptionUpdate {
            rules: rules.map_err(ConfigurationError::Build)?,
            digest: digest(&SHA256, text).as_ref().try_into().ok(),
        })
    }

    /// Uses other providers from now on.
    pub fn replace(&self, update: EncryptionUpdate) {
        self.rules.store(Arc::new(update.rules));
        *self.digest.lock() = update.digest;
        self.events.add();
    }

    /// Returns the digest of the configuration in use; `None` before the first.
    pub fn digest(&self) -> Option<ConfigurationDigest> {
        *self.digest.lock()
    }

    /// Returns true if the configuration has plugins.
    pub fn has_plugins(&self) -> bool {
        !self.rules.load().plugins().is_empty()
    }

    /// Checks that all plugins are healthy.
    ///
    /// # Errors
    /// If one is not; with the number and error of each.
    pub fn check(&self) -> KmsCheck {
        check(&self.rules.load())
    }

    /// Returns a number that grows whenever values may have become readable: after a replacement of the providers, and
    /// when a plugin has recovered.
    pub fn changes(&self) -> u64 {
        self.events.count()
    }

    /// Returns true if values could not be decrypted since the last call.
    pub fn take_failed(&self) -> bool {
        self.failed.swap(false, Ordering::Relaxed)
    }

    /// Returns the resource of a key; `None` for keys of no served resource.
    fn resource(&self, key: &[u8]) -> Option<Cow<'_, GroupResource>> {
        let table = key.get(..table_by_segments(key))?;
        if let Some(resource) = self.resources.get(table) {
            return Some(Cow::Borrowed(resource));
        }
        let mut segments = std::str::from_utf8(table).ok()?.split('/').skip(2);
        let (group, resource) = (segments.next()?, segments.next()?);
        group.contains('.').then(|| {
            Cow::Owned(GroupResource {
                group: group.into(),
                resource: resource.into(),
            })
        })
    }

    /// Returns the plain bytes of a stored value; `None` if they are the stored ones. `path` returns its key in storage.
    pub(super) fn open(
        &self,
        key: &[u8],
        path: impl FnOnce() -> Vec<u8>,
        stored: &[u8],
    ) -> Result<Option<Transformed>, CodecError> {
        let (rules, resource) = (self.rules.load(), self.resource(key));
        let providers = resource.as_ref().and_then(|resource| rules.providers(resource));
        if providers.is_none() && !is_encrypted(stored) {
            return Ok(None);
        }
        let path = path();
        let opened = match providers {
            Some(providers) => providers.open(&path, stored),
            None if resource.is_some() => Err(ENCRYPTED_WITHOUT_PROVIDER.to_owned()),
            // The resource is not served, so its name and rule are unknown.
            None => open_by_any(&rules, &path, stored),
        };
        opened.map_err(|why| {
            self.failed.store(true, Ordering::Relaxed);
            untransformable(key, &path, &why)
        })
    }

    /// Returns the bytes to store; `None` if they are the plain ones. `path` returns the key in storage.
    pub(super) fn seal(
        &self,
        key: &[u8],
        path: impl FnOnce() -> Vec<u8>,
        plain: &[u8],
    ) -> Result<Option<Transformed>, CodecError> {
        let rules = self.rules.load();
        let resource = self.resource(key);
        let Some(providers) = resource.and_then(|resource| rules.providers(&resource)) else {
            return Ok(None);
        };
        let path = path();
        providers
            .seal(&path, plain)
            .map_err(|why| untransformable(key, &path, &why))
    }

    /// Returns the form in which a value would be stored now.
    pub(super) fn form(&self, key: &[u8]) -> StoredForm {
        let rules = self.rules.load();
        let resource = self.resource(key);
        let providers = resource.and_then(|resource| rules.providers(&resource));
        providers.map_or(StoredForm::PLAIN, |providers| providers.form())
    }
}

impl Transformer for Encryption {
    fn transform_to_storage(&self, key: &[u8], plain: &[u8]) -> Result<Option<Transformed>, CodecError> {
        self.seal(key, || key.to_vec(), plain)
    }

    fn transform_from_storage(&self, key: &[u8], stored: &[u8]) -> Result<Option<Transformed>, CodecError> {
        self.open(key, || key.to_vec(), stored)
    }

    fn form_of(&self, key: &[u8]) -> StoredForm {
        self.form(key)
    }
}

impl EncryptionUpdate {
    /// Waits until all plugins are healthy. Blocks the thread.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig/controller#DynamicEncryptionConfigContent.validateNewTransformersHealth
    ///
    /// # Errors
    /// If one of them does not become healthy in time.
    pub fn wait_until_healthy(&self) -> Result<(), ConfigurationError> {
        let timeouts: Duration = self.rules.plugins().iter().map(|plugin| plugin.timeout()).sum();
        let end = Instant::now() + MIN_HEALTH_WAIT.max(2 * timeouts);
        loop {
            match check(&self.rules) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= end => return Err(ConfigurationError::Unhealthy(error)),
                Err(_) => std::thread::sleep(HEALTH_POLL),
            }
        }
    }
}

fn check(rules: &Rules) -> KmsCheck {
    let plugins = rules.plugins().iter().enumerate();
    let errors = plugins.filter_map(|(at, plugin)| {
        let error = plugin.health().err()?;
        Some(format!("kms-provider-{at}: {error}"))
    });
    let errors: Vec<String> = errors.collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(aggregate(&errors)),
    }
}

fn open_by_any(rules: &Rules, path: &[u8], stored: &[u8]) -> Result<Option<Transformed>, String> {
    let opened = rules.all().find_map(|providers| providers.open(path, stored).ok());
    opened.ok_or_else(|| ENCRYPTED_WITHOUT_PROVIDER.to_owned())
}

fn untransformable(key: &[u8], path: &[u8], why: &str) -> CodecError {
    CodecError {
        key: String::from_utf8_lossy(key).into_owned(),
        ..CodecError::untransformable(path, why)
    }
}
