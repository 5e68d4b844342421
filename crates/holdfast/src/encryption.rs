//! kube-apiserver's flags for encryption at rest.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{ArgAction, Args};
use futures_util::future::BoxFuture;
use holdfast_at_rest::encryption::{ConfigurationDigest, Encryption, EncryptionUpdate};
use holdfast_resource::Registry;
use holdfast_server::objects::Store;
use holdfast_server::operations::health::Endpoint;
use holdfast_server::operations::service::Service;
use holdfast_store::{CodecError, Key, StoredForm, Transformer as _, UntransformableValue, Value};
use sha2::{Digest as _, Sha256};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::files;
use crate::reload;
use crate::store::Opened;

/// Health check of the KMS plugins.
pub(crate) const CHECK: &str = "kms-providers";

/// Health check of the reload of the file.
pub(crate) const RELOAD_CHECK: &str = "poststarthook/start-encryption-provider-config-automatic-reload";

/// Endpoints with the health check of the plugins.
pub(crate) const CHECKED: &[Endpoint] = &[Endpoint::Healthz, Endpoint::Readyz];

/// Interval of the checks for a new content of the file, and for values that may have become readable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which a content that could not be used, or values that could not be decrypted, are tried again.
const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum size of the configuration in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 3 << 20;

/// Flags of encryption at rest.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct EncryptionFlags {
    /// File with the providers that encrypt resources at rest: an EncryptionConfiguration of
    /// apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub(crate) encryption_provider_config: Option<PathBuf>,

    /// Reload the file of --encryption-provider-config when it changes
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) encryption_provider_config_automatic_reload: bool,
}

impl EncryptionFlags {
    /// Returns the same flags with another file, if one is given.
    pub(crate) fn with_file(&self, file: Option<&PathBuf>) -> Self {
        Self {
            encryption_provider_config: file.or(self.encryption_provider_config.as_ref()).cloned(),
            encryption_provider_config_automatic_reload: self.encryption_provider_config_automatic_reload,
        }
    }

    /// Rejects flags that kube-apiserver rejects.
    pub(crate) fn check(&self) -> Result<()> {
        if self.encryption_provider_config_automatic_reload && self.file().is_none() {
            bail!("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config");
        }
        Ok(())
    }

    /// Returns the file; an empty name means none.
    fn file(&self) -> Option<&Path> {
        let file = self.encryption_provider_config.as_deref();
        file.filter(|file| !file.as_os_str().is_empty())
    }

    /// Reads the file and connects to its plugins. Returns `None` if no file is given. `registry` has the built-in
    /// resources.
    ///
    /// # Errors
    /// If the file cannot be used, with its name, the place and the reason.
    pub(crate) fn open(&self, registry: &Registry) -> Result<Option<Arc<Encryption>>> {
        let Some(file) = self.file() else { return Ok(None) };
        let stored = registry.resources().filter_map(|resource| {
            let storage = resource.storage.as_ref()?;
            // The resource that is first at a prefix stores the objects.
            let owner = registry.stored_at(&storage.prefix).first()?;
            Some((storage.prefix.to_string(), owner.group_resource()))
        });
        let encryption = Arc::new(Encryption::new(stored));
        self.load(file, &encryption)?;
        Ok(Some(encryption))
    }

    fn load(&self, file: &Path, encryption: &Encryption) -> Result<()> {
        encryption.replace(self.prepare(file, encryption)?);
        Ok(())
    }

    fn prepare(&self, file: &Path, encryption: &Encryption) -> Result<EncryptionUpdate> {
        let named = || format!("--encryption-provider-config {}", file.display());
        files::check_size(file, MAX_CONFIGURATION_BYTES).with_context(named)?;
        let text = files::read_bounded(file).with_context(named)?;
        let update = encryption.prepare(&text, self.encryption_provider_config_automatic_reload);
        update.with_context(named)
    }
}

/// Reloads the file if a flag enables it, and reads values again that could not be decrypted.
pub(crate) fn follow(flags: &EncryptionFlags, opened: &Opened, service: &Service) {
    let Some(encryption) = &opened.encryption else { return };
    let context = &service.context;
    let spawn = |check, name: &'static str, work: BoxFuture<'static, ()>| {
        let shutdown = context.shutdown.clone();
        let until_shutdown = async move {
            tokio::select! {
                () = work => {}
                () = shutdown.closing() => {}
            }
        };
        context.background.spawn(check, name, &context.shutdown, until_shutdown);
    };
    if let Some(file) = flags
        .file()
        .filter(|_| flags.encryption_provider_config_automatic_reload)
    {
        let reload = Reload {
            flags: flags.clone(),
            file: file.to_owned(),
            encryption: Arc::clone(encryption),
            failed: None,
        };
        spawn(RELOAD_CHECK, "encryption-provider-config", Box::pin(reload.run()));
    }
    let retry = Retry {
        encryption: Arc::clone(encryption),
        decode: Arc::clone(&opened.decode),
        store: Arc::clone(&opened.store),
    };
    spawn(reload::CHECK, "encryption", Box::pin(retry.run()));
}

/// Digest of the content of a file; `None` if it cannot be read. The content itself is not kept, because it has keys.
type FileDigest = Option<ConfigurationDigest>;

fn digest_of(file: &Path) -> FileDigest {
    Some(Sha256::digest(files::read_bounded(file).ok()?).into())
}

/// Reload of the configuration whenever the content of its file changes.
struct Reload {
    flags: EncryptionFlags,
    file: PathBuf,
    encryption: Arc<Encryption>,
    /// Content that could not be used, and the time of the next attempt.
    failed: Option<(FileDigest, Instant)>,
}

impl Reload {
    async fn run(mut self) {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let found = digest_of(&self.file);
            let loaded = self.encryption.digest();
            let is_due = match &self.failed {
                Some((failed, again)) => *failed != found || Instant::now() >= *again,
                None => found != loaded,
            };
            if found == loaded {
                self.failed = None;
            } else if is_due {
                self.reload(found);
            }
        }
    }

    /// Uses the new content, if its plugins are healthy. Otherwise the old one stays, and the new one is tried again
    /// later.
    fn reload(&mut self, found: FileDigest) {
        let file = self.file.display();
        let prepare = || {
            let update = self.flags.prepare(&self.file, &self.encryption)?;
            update.wait_until_healthy()?;
            anyhow::Ok(update)
        };
        // A test may run the server on a runtime with one thread.
        let outcome = match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => prepare(),
            _ => tokio::task::block_in_place(prepare),
        };
        match outcome {
            Ok(update) => {
                self.encryption.replace(update);
                self.failed = None;
                tracing::info!(%file, "the encryption configuration has changed and was read again");
            }
            Err(error) => {
                self.failed = Some((found, Instant::now() + FAILURE_INTERVAL));
                let error = format!("{error:#}");
                tracing::error!(%file, %error, "the encryption configuration cannot be used; the old one stays");
            }
        }
    }
}

/// Function that returns the value of a key from what is stored.
pub(crate) type Decode = dyn Fn(&Key, UntransformableValue<'_>) -> Result<Value, CodecError> + Send + Sync;

/// Returns the function for a store without a codec.
pub(crate) fn decode_stored(encryption: &Arc<Encryption>) -> Arc<Decode> {
    let encryption = Arc::clone(encryption);
    Arc::new(move |key, value| {
        let opened = encryption.transform_from_storage(key, value.stored)?;
        let (bytes, form) = match opened {
            Some(opened) => (opened.bytes, opened.form),
            None => (value.stored.to_vec(), StoredForm::PLAIN),
        };
        Ok(match value.revision_at {
            Some(at) => Value::object(bytes, at).with_form(form),
            None => Value::plain(bytes).with_form(form),
        })
    })
}

/// Attempts to read the values that could not be decrypted: at the start, after each change that may help, and at
/// intervals while there are such values. A plugin may reject a value although it is healthy.
struct Retry {
    encryption: Arc<Encryption>,
    decode: Arc<Decode>,
    store: Arc<Store>,
}

impl Retry {
    async fn run(self) {
        // A plugin may have recovered after the values were read and before this task started.
        let mut seen = None;
        let mut next: Option<Instant> = None;
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            if self.encryption.take_failed() {
                next.get_or_insert_with(|| Instant::now() + FAILURE_INTERVAL);
            }
            let changes = Some(self.encryption.changes());
            if changes == seen && next.is_none_or(|next| Instant::now() < next) {
                continue;
            }
            let is_new = changes != seen;
            (seen, next) = (changes, None);
            match self.store.restore_untransformable(&*self.decode).await {
                Ok(0) => continue,
                Ok(unreadable) if is_new => tracing::warn!(unreadable, "values can still not be decrypted"),
                Ok(unreadable) => tracing::debug!(unreadable, "values can still not be decrypted"),
                Err(error) => tracing::warn!(%error, "cannot write values that can be decrypted again"),
            }
            next = Some(Instant::now() + FAILURE_INTERVAL);
        }
    }
}
