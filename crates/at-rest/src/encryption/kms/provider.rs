//! A provider: its write seed, the cached seeds of stored values, and the health of its plugin.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use aws_lc_rs::digest::{Context, SHA256};
use holdfast_gotext::errors::aggregate;
use holdfast_store::{StoredForm, Transformed};
use holdfast_value::SmolStr;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::Client;
use super::object::{hash_of, validate_key_id, validate_object};
use super::proto::{DecryptRequest, EncryptRequest, EncryptedObject, SEED, StatusResponse};
use crate::encryption::aes::{ExtendedNonceGcm, Gcm, SEED_BYTES, random};
use crate::encryption::cipher::Cipher;
use crate::encryption::configuration::KmsConfiguration;
use crate::encryption::forms::Forms;
use crate::encryption::validation::socket_of;

/// Interval of checks of a healthy plugin, and of one that is not.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(20);
const UNHEALTHY_INTERVAL: Duration = Duration::from_secs(3);
/// Time for which a seed encrypts values after the last successful check.
const SEED_LIFE: Duration = Duration::from_secs(180);
/// Maximum number of cached ciphers of stored values.
const MAX_CACHED: usize = 4096;
/// Versions of the API that mean the same.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Counter of events after which values may be readable that were not before.
#[derive(Clone, Debug, Default)]
pub(crate) struct KmsEvents(Arc<AtomicU64>);

impl KmsEvents {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Provider that a plugin backs. Its thread ends when the provider is dropped.
pub(crate) struct KmsProvider {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
    timeout: Duration,
}

/// Request to decrypt the source of a key, and the sender of the answer.
struct Job {
    request: DecryptRequest,
    answer: sync_mpsc::SyncSender<Result<Vec<u8>, String>>,
}

/// State of a provider that its thread shares.
struct Shared {
    name: SmolStr,
    forms: Arc<Forms>,
    events: KmsEvents,
    seed: ArcSwapOption<WriteSeed>,
    health: Mutex<Health>,
    /// Ciphers of stored values by a digest of the encrypted source of their key.
    ciphers: Mutex<HashMap<Vec<u8>, Arc<dyn Cipher>>>,
}

/// Seed that encrypts values, and what is stored with them.
#[derive(Clone)]
struct WriteSeed {
    cipher: Arc<dyn Cipher>,
    /// Stored object without its data.
    object: EncryptedObject,
    form: StoredForm,
    /// Time after which it no longer encrypts.
    end: Instant,
}

/// Health of the plugin.
struct Health {
    outcome: Result<(), String>,
    /// Version that the plugin has reported first.
    version: Option<String>,
}

impl KmsProvider {
    /// Starts to check a plugin, and waits for the first check. A plugin that does not answer is no error, because it
    /// may start later.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#kmsPrefixTransformer
    ///
    /// # Errors
    /// If the endpoint cannot be used.
    pub(crate) fn connect(
        configuration: &KmsConfiguration,
        forms: Arc<Forms>,
        events: KmsEvents,
    ) -> Result<Arc<Self>, String> {
        let name = configuration.name.clone();
        let unusable = |error: String| format!("could not configure KMSv2-Plugin's probe {name:?}, error: {error}");
        let socket = socket_of(&configuration.endpoint).map_err(unusable)?;
        let timeout = Duration::from_nanos(configuration.timeout_nanos.unsigned_abs());
        let shared = Arc::new(Shared {
            name: name.clone(),
            forms,
            events,
            seed: ArcSwapOption::empty(),
            health: Mutex::new(Health {
                outcome: Err("not checked yet".to_owned()),
                version: None,
            }),
            ciphers: Mutex::default(),
        });
        let (jobs, received) = mpsc::unbounded_channel();
        let (first, primed) = sync_mpsc::sync_channel(1);
        let built = Builder::new_current_thread().enable_all().build();
        let runtime = built.map_err(|error| unusable(error.to_string()))?;
        let work = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("kms-provider".into())
            .spawn(move || {
                runtime.block_on(async {
                    let client = Client::new(&socket, timeout);
                    work.run(client, received, first).await;
                });
            })
            .map_err(|error| unusable(error.to_string()))?;
        // A check has up to two calls.
        let _ = blocking(|| primed.recv_timeout(2 * timeout + Duration::from_secs(1)));
        Ok(Arc::new(Self { shared, jobs, timeout }))
    }

    /// Returns the timeout of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the outcome of the last check.
    pub(crate) fn health(&self) -> Result<(), String> {
        self.shared.health.lock().outcome.clone()
    }

    /// Returns the form in which a value would be stored now. Without a seed, no stored form is current.
    pub(crate) fn form(&self) -> StoredForm {
        let seed = self.shared.seed.load();
        seed.as_ref().map_or(StoredForm::UNREADABLE, |seed| seed.form)
    }

    /// Encrypts a value.
    ///
    /// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#envelopeTransformer.TransformToStorage
    pub(crate) fn encrypt(&self, path: &[u8], plain: &[u8]) -> Result<Transformed, String> {
        let seed = self.shared.seed.load_full().ok_or("got unexpected nil transformer")?;
        let late = Instant::now().saturating_duration_since(seed.end);
        if !late.is_zero() {
            let hash = hash_of(&seed.object.key_id);
            return Err(format!(
                "encryptedDEKSource with keyID hash {hash:?} expired {} seconds ago",
                late.as_secs()
            ));
        }
        let object = EncryptedObject {
            encrypted_data: seed.cipher.encrypt(path, plain)?,
            ..seed.object.clone()
        };
        validate_object(&object)?;
        Ok(Transformed {
            bytes: object.encode_to_vec(),
            form: seed.form,
        })
    }

    /// Decrypts a value. Asks the plugin if the value's key is not cached.
    ///
    /// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#envelopeTransformer.TransformFromStorage
    pub(crate) fn decrypt(&self, path: &[u8], data: &[u8]) -> Result<Transformed, String> {
        let object = EncryptedObject::decode(data).map_err(|error| error.to_string())?;
        validate_object(&object)?;
        let key = cache_key(&object);
        let cached = self.shared.ciphers.lock().get(&key).cloned();
        let cipher = match cached {
            Some(cipher) => cipher,
            None => {
                let secret = self.decrypt_source(&object)?;
                let cipher = cipher_of(object.encrypted_dek_source_type, &secret)?;
                self.shared.keep(key, &cipher);
                cipher
            }
        };
        Ok(Transformed {
            bytes: cipher.decrypt(path, &object.encrypted_data)?,
            form: self.shared.form_of(&object),
        })
    }

    /// Asks the plugin for the plain source of a key, unless it did not answer a moment ago.
    fn decrypt_source(&self, object: &EncryptedObject) -> Result<Vec<u8>, String> {
        let failed = |error: &str| format!("failed to decrypt DEK, error: {error}");
        if let Err(error) = self.health() {
            return Err(failed(&error));
        }
        let request = DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uid()?,
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let (answer, answered) = sync_mpsc::sync_channel(1);
        let sent = self.jobs.send(Job { request, answer });
        sent.map_err(|_| failed("the provider has ended"))?;
        let received = blocking(|| answered.recv_timeout(self.timeout + Duration::from_secs(1)));
        let outcome = received.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        outcome.map_err(|error| failed(&error))
    }
}

impl Shared {
    /// Checks the plugin periodically and runs jobs, until the provider is dropped.
    async fn run(
        self: Arc<Self>,
        client: Client,
        mut jobs: mpsc::UnboundedReceiver<Job>,
        first: sync_mpsc::SyncSender<()>,
    ) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {
                    let is_healthy = self.check(&client).await;
                    let interval = if is_healthy { HEALTHY_INTERVAL } else { UNHEALTHY_INTERVAL };
                    next = Instant::now() + interval;
                    let _ = first.try_send(());
                }
                job = jobs.recv() => {
                    let Some(Job { request, answer }) = job else { return };
                    let (client, shared) = (client.clone(), Arc::clone(&self));
                    tokio::spawn(async move {
                        let outcome = client.decrypt(request).await.map(|response| response.plaintext);
                        if let Err(error) = &outcome {
                            shared.unavailable(error);
                        }
                        let _ = answer.send(outcome);
                    });
                }
            }
        }
    }

    /// Records a plugin that cannot be reached, so that further calls fail at once until the next check.
    fn unavailable(&self, error: &str) {
        let is_unreachable = ["code = Unavailable", "code = DeadlineExceeded"];
        if is_unreachable.iter().any(|code| error.contains(code)) {
            self.health.lock().outcome = Err(error.to_owned());
        }
    }

    /// Checks the plugin once. Returns true if it is healthy.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#kmsv2PluginProbe.check
    async fn check(&self, client: &Client) -> bool {
        let name = &self.name;
        let outcome = match client.status().await {
            Ok(status) => self.check_status(client, status).await,
            Err(error) => Err(format!(
                "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
            )),
        };
        let mut health = self.health.lock();
        match (&health.outcome, &outcome) {
            (Err(_), Ok(())) => self.events.add(),
            (_, Err(error)) => tracing::warn!(%name, %error, "the KMS plugin is not healthy"),
            _ => {}
        }
        health.outcome = outcome;
        health.outcome.is_ok()
    }

    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#kmsv2PluginProbe.isKMSv2ProviderHealthyAndMaybeRotateDEK
    async fn check_status(&self, client: &Client, status: StatusResponse) -> Result<(), String> {
        let mut errors = Vec::new();
        if status.healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        errors.extend(self.version_error(&status.version));
        let rotated = match validate_key_id(&status.key_id) {
            Ok(()) => self.rotate(client, &status.key_id).await,
            Err(error) => Err(format!(
                "got invalid KMSv2 KeyID hash {:?}: {error}",
                hash_of(&status.key_id)
            )),
        };
        errors.extend(rotated.err());
        match errors.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "kmsv2 Provider {} is not healthy, error: {}",
                self.name,
                aggregate(&errors)
            )),
        }
    }

    fn version_error(&self, version: &str) -> Option<String> {
        if !VERSIONS.contains(&version) {
            return Some(format!("expected KMSv2 API version v2, got {version}"));
        }
        let mut health = self.health.lock();
        let known = health.version.get_or_insert_with(|| version.to_owned());
        (known != version).then(|| {
            format!(
                "KMSv2 API version should not change after the initial status response version {known}, got {version}"
            )
        })
    }

    /// Prolongs the seed if its key is the current one, and makes a new one otherwise. If that fails, the old seed stays
    /// until its end.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#kmsv2PluginProbe.rotateDEKOnKeyIDChange
    async fn rotate(&self, client: &Client, key_id: &str) -> Result<(), String> {
        let end = Instant::now() + SEED_LIFE;
        let current = self.seed.load_full();
        if let Some(seed) = current.as_ref().filter(|seed| seed.object.key_id == key_id) {
            let prolonged = WriteSeed {
                end,
                ..WriteSeed::clone(seed)
            };
            self.seed.store(Some(Arc::new(prolonged)));
            return Ok(());
        }
        let made = self.new_seed(client, end).await?;
        if made.object.key_id != key_id {
            let (expected, found) = (hash_of(key_id), hash_of(&made.object.key_id));
            return Err(format!(
                "failed to rotate DEK, statusKeyIDHash={expected:?}, encryptKeyIDHash={found:?}"
            ));
        }
        self.keep(cache_key(&made.object), &made.cipher);
        self.seed.store(Some(Arc::new(made)));
        Ok(())
    }

    /// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#GenerateTransformer
    async fn new_seed(&self, client: &Client, end: Instant) -> Result<WriteSeed, String> {
        let seed = random::<SEED_BYTES>()?;
        let request = EncryptRequest {
            plaintext: seed.to_vec(),
            uid: uid()?,
        };
        let answered = client.encrypt(request).await;
        let response = answered.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        let mut object = EncryptedObject {
            // Any data that is valid.
            encrypted_data: vec![0],
            key_id: response.key_id,
            encrypted_dek_source: response.ciphertext,
            annotations: response.annotations,
            encrypted_dek_source_type: SEED,
        };
        validate_object(&object)?;
        object.encrypted_data = Vec::new();
        Ok(WriteSeed {
            cipher: Arc::new(ExtendedNonceGcm::new(&seed)?),
            form: self.form_of(&object),
            object,
            end,
        })
    }

    /// Returns the form of a stored object. A value is stale if its key or the use of it is not the current one.
    fn form_of(&self, object: &EncryptedObject) -> StoredForm {
        let source_type = object.encrypted_dek_source_type.to_le_bytes();
        let parts = [b"kms", self.name.as_bytes(), object.key_id.as_bytes(), &source_type];
        self.forms.intern(&parts)
    }

    fn keep(&self, key: Vec<u8>, cipher: &Arc<dyn Cipher>) {
        let mut ciphers = self.ciphers.lock();
        if ciphers.len() >= MAX_CACHED {
            ciphers.clear();
        }
        ciphers.insert(key, Arc::clone(cipher));
    }
}

fn cipher_of(source_type: i32, secret: &[u8]) -> Result<Arc<dyn Cipher>, String> {
    Ok(match source_type {
        SEED => Arc::new(ExtendedNonceGcm::new(secret)?),
        _ => Arc::new(Gcm::new(secret)?),
    })
}

/// Returns a digest of all that determines the key of a stored value.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#generateCacheKey
fn cache_key(object: &EncryptedObject) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    let mut add = |part: &[u8]| {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    };
    add(&object.encrypted_dek_source_type.to_le_bytes());
    add(&object.encrypted_dek_source);
    add(object.key_id.as_bytes());
    for (name, value) in &object.annotations {
        add(name.as_bytes());
        add(value);
    }
    context.finish().as_ref().to_vec()
}

/// Returns a random id of a call.
fn uid() -> Result<String, String> {
    let bytes = random::<16>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs a function that blocks, without keeping other tasks of the thread from running.
fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    let is_shared = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    match is_shared {
        true => tokio::task::block_in_place(wait),
        false => wait(),
    }
}
