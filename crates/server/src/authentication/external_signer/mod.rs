//! A signer of service account tokens outside of this process: a plugin on a Unix socket that speaks `externaljwt.v1`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#external-serviceaccount-token-signing-and-key-management>).
//!
//! The signer also publishes the keys that verify tokens. They are fetched at the start, at the intervals that the signer
//! asks for, and whenever a token has an unknown key.

mod proto;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_grpc::{Client, GrpcError};
use holdfast_resource::access::{SignatureFuture, TokenSigner};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use self::proto::{
    FetchKeysRequest, FetchKeysResponse, Key, MetadataRequest, MetadataResponse, SignJwtRequest, SignJwtResponse,
};
pub use self::tokens::TokensOfNewKeys;
use crate::identity::{Keys, SharedKeys, VerifyingKey};
use crate::metrics::SignerMetrics;

/// Time limit of a scheduled fetch of the keys, and of the first one.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of the metadata at the start.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay of the next fetch after a failed one.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// Maximum length of the id of a key.
const MAX_KEY_ID_BYTES: usize = 1024;
/// Minimum of the maximum lifetime of tokens, in seconds.
const MIN_LIFETIME_SECONDS: i64 = 600;
/// Algorithms of signatures.
const ALGORITHMS: [&str; 4] = ["RS256", "ES256", "ES384", "ES512"];

/// Client of the signer, with its current keys.
pub struct ExternalSigner {
    client: Client,
    keys: SharedKeys,
    metrics: SignerMetrics,
    /// Maximum lifetime of tokens, in seconds.
    longest: i64,
    /// Time limit of calls that a request waits for.
    request_timeout: Duration,
    last_fetch: Mutex<Option<LastFetch>>,
}

/// Start and outcome of the last fetch of keys.
struct LastFetch {
    started: Instant,
    outcome: Result<(), String>,
}

/// An error, and the status code of the call that caused it, if one did.
struct SignerError {
    message: String,
    code: Option<String>,
}

impl SignerError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: None,
        }
    }

    fn for_call(context: &str, error: &GrpcError) -> Self {
        Self {
            message: format!("{context}: {error}"),
            code: Some(error.code.clone()),
        }
    }

    fn within(self, context: &str) -> Self {
        Self {
            message: format!("{context}: {}", self.message),
            ..self
        }
    }
}

impl ExternalSigner {
    /// Connects to the signer on a Unix socket, and fetches its keys and metadata. Waits for a signer that does not listen
    /// yet.
    ///
    /// # Errors
    /// If the signer does not answer, or its keys or its metadata are invalid.
    pub async fn connect(socket: &str, metrics: SignerMetrics, request_timeout: Duration) -> Result<Arc<Self>, String> {
        let mut signer = Self {
            client: Client::on_socket(socket),
            keys: SharedKeys::default(),
            metrics,
            longest: 0,
            request_timeout,
            last_fetch: Mutex::default(),
        };
        signer.refresh(FETCH_TIMEOUT).await.map_err(|error| {
            format!("while initially filling key cache: while performing initial cache fill: {error}")
        })?;
        signer.longest = signer.max_lifetime().await?;
        Ok(Arc::new(signer))
    }

    /// Returns the keys that verify tokens.
    pub fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// Returns the maximum lifetime of tokens, in seconds.
    pub fn longest(&self) -> i64 {
        self.longest
    }

    /// Fetches the keys whenever the signer asks for it.
    pub async fn follow(self: Arc<Self>) {
        let mut delay = self.delay();
        loop {
            tokio::time::sleep(delay).await;
            delay = match self.refresh(FETCH_TIMEOUT).await {
                Ok(()) => self.delay(),
                Err(error) => {
                    tracing::error!(%error, "the keys of the external signer cannot be fetched; the old ones stay");
                    RETRY_DELAY
                }
            };
        }
    }

    fn delay(&self) -> Duration {
        let now = Instant::now();
        let at = self.keys.load().refresh_at();
        at.map_or(RETRY_DELAY, |at| at.saturating_duration_since(now))
    }

    /// Returns the maximum lifetime of tokens in the signer's metadata.
    ///
    /// upstream: pkg/controlplane/apiserver/options#Options.completeServiceAccountOptions
    async fn max_lifetime(&self) -> Result<i64, String> {
        let answered = self
            .call::<_, MetadataResponse>("/v1.ExternalJWTSigner/Metadata", MetadataRequest {}, METADATA_TIMEOUT)
            .await;
        let metadata = answered.map_err(|error| error.to_string())?;
        let longest = metadata.max_token_expiration_seconds;
        if longest < MIN_LIFETIME_SECONDS {
            return Err(format!(
                "max token life supported by external-jwt-signer ({longest}s) is less than acceptable (min \
                 {MIN_LIFETIME_SECONDS}s)"
            ));
        }
        Ok(longest)
    }

    /// Fetches the keys. Callers that arrive while a fetch is in progress share the next one.
    async fn refresh(&self, timeout: Duration) -> Result<(), String> {
        let arrived = Instant::now();
        let mut last = self.last_fetch.lock().await;
        if let Some(fetch) = last.as_ref().filter(|fetch| fetch.started >= arrived) {
            return fetch.outcome.clone();
        }
        let started = Instant::now();
        let fetched = self.fetch(timeout).await;
        self.metrics.fetched(match &fetched {
            Ok(data_time) => Ok(*data_time),
            Err(error) => Err(error.code.as_deref()),
        });
        let outcome = match fetched {
            Ok(_) => Ok(()),
            Err(error) => Err(error.within("while fetching token verification keys").message),
        };
        *last = Some(LastFetch {
            started,
            outcome: outcome.clone(),
        });
        outcome
    }

    /// Fetches the keys, and returns the time of the signer's data in seconds.
    ///
    /// upstream: pkg/serviceaccount/externaljwt/plugin#keyCache.getTokenVerificationKeys
    async fn fetch(&self, timeout: Duration) -> Result<f64, SignerError> {
        let answered = self
            .call::<_, FetchKeysResponse>("/v1.ExternalJWTSigner/FetchKeys", FetchKeysRequest {}, timeout)
            .await;
        let response = answered
            .map_err(|error| SignerError::for_call("while getting externally supported jwt signing keys", &error))?;
        let hint = response.refresh_hint_seconds;
        let positive = u64::try_from(hint).ok().filter(|seconds| *seconds != 0);
        let seconds = positive.ok_or_else(|| SignerError::new(format!("found invalid refresh hint ({hint}s)")))?;
        if response.keys.is_empty() {
            return Err(SignerError::new("found no keys"));
        }
        let time = response
            .data_timestamp
            .ok_or_else(|| "invalid nil Timestamp".to_owned());
        let checked = time.and_then(|time| time.check().map(|()| time));
        let time = checked.map_err(|why| SignerError::new(format!("invalid data timestamp: {why}")))?;
        let keys: Vec<VerifyingKey> = response.keys.iter().map(read_key).collect::<Result<_, _>>()?;
        // A time that the clock cannot represent is as good as never.
        let now = Instant::now();
        let hinted = now.checked_add(Duration::from_secs(seconds));
        let refresh_at = hinted.unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        let former = self.keys.load();
        self.keys.replace(Keys::from_signer(keys, refresh_at, &former));
        Ok(time.seconds as f64 + f64::from(time.nanos) / 1e9)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q, timeout: Duration) -> Result<A, GrpcError>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let started = Instant::now();
        let outcome = self.client.call_when_ready(path, request, timeout).await;
        let code = outcome.as_ref().err().map(|error| error.code.as_str());
        self.metrics.called(path, code, started.elapsed());
        outcome
    }

    /// Returns the token with these claims.
    ///
    /// upstream: pkg/serviceaccount/externaljwt/plugin#Plugin.signAndAssembleJWT
    async fn assemble(&self, claims: &str) -> Result<String, SignerError> {
        let request = SignJwtRequest {
            claims: claims.to_owned(),
        };
        let answered = self
            .call::<_, SignJwtResponse>("/v1.ExternalJWTSigner/Sign", request, self.request_timeout)
            .await;
        let response = answered.map_err(|error| SignerError::for_call("while signing jwt", &error))?;
        let checked = self.check_header(&response.header).await;
        checked.map_err(|why| SignerError::new(format!("while validating header: {why}")))?;
        if response.signature.is_empty() {
            return Err(SignerError::new("empty signature returned"));
        }
        Ok(format!("{}.{claims}.{}", response.header, response.signature))
    }

    /// upstream: pkg/serviceaccount/externaljwt/plugin#Plugin.validateJWTHeader
    async fn check_header(&self, encoded: &str) -> Result<(), String> {
        let decoded = URL_SAFE_NO_PAD.decode(encoded);
        let text = decoded.map_err(|error| format!("while unwrapping header: {error}"))?;
        let parsed = serde_json::from_slice::<Header>(&text);
        let header = parsed.map_err(|error| format!("while parsing header JSON: {error}"))?;
        if header.typ != "JWT" {
            return Err("bad type".to_owned());
        }
        if header.kid.is_empty() {
            return Err("key id missing".to_owned());
        }
        if header.kid.len() > MAX_KEY_ID_BYTES {
            return Err("key id longer than 1 kb".to_owned());
        }
        if !ALGORITHMS.contains(&&*header.alg) {
            return Err(format!("bad signing algorithm {:?}", header.alg));
        }
        self.learn(&header.kid).await;
        if self.keys.load().hides(&header.kid) {
            return Err(format!(
                "key used for signing JWT (kid: {}) is excluded from OIDC discovery docs",
                header.kid
            ));
        }
        Ok(())
    }

    /// Fetches the keys if there is none with this id. Returns true if there is one now.
    async fn learn(&self, id: &str) -> bool {
        if self.keys.load().has(id) {
            return true;
        }
        if let Err(error) = self.refresh(self.request_timeout).await {
            tracing::error!(%error, "the keys of the external signer cannot be fetched");
        }
        self.keys.load().has(id)
    }
}

impl TokenSigner for ExternalSigner {
    fn sign<'a>(&'a self, claims: &'a str) -> SignatureFuture<'a> {
        Box::pin(async move {
            let outcome = self.assemble(claims).await;
            self.metrics.signed(match &outcome {
                Ok(_) => Ok(()),
                Err(error) => Err(error.code.as_deref()),
            });
            outcome.map_err(|error| error.message)
        })
    }
}

/// Header of a token. No other members are allowed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(default)]
    alg: String,
    #[serde(default)]
    kid: String,
    #[serde(default)]
    typ: String,
}

fn read_key(key: &Key) -> Result<VerifyingKey, SignerError> {
    let id = &key.key_id;
    if id.is_empty() || id.len() > MAX_KEY_ID_BYTES {
        return Err(SignerError::new(format!("found invalid public key id {id:?}")));
    }
    if key.key.is_empty() {
        return Err(SignerError::new("found empty public key"));
    }
    let read = VerifyingKey::from_der(&key.key);
    let parsed = read.map_err(|error| SignerError::new(format!("while parsing external public keys: {error}")))?;
    let named = parsed.with_id(id.clone());
    Ok(match key.exclude_from_oidc_discovery {
        true => named.unpublished(),
        false => named,
    })
}
