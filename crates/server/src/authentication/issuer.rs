//! One issuer of tokens: its discovery, its keys, and the authentication with them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_authentication::{JwtAuthenticator, KeySet, ReceivedToken};
use holdfast_authorization::User;
use holdfast_egress::{EgressSelector, Network};
use holdfast_value::{Limits, json};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::fetch::Fetcher;
use crate::identity::authenticated;
use crate::metrics::AuthenticationMetrics;
use crate::runtime::Clock;
use crate::runtime::shutdown::Shutdown;

/// Interval between attempts of the discovery.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(10);

/// Time before the end of their lifetime from which keys are fetched again.
///
/// upstream: github.com/coreos/go-oidc#keysExpiryDelta
const EXPIRY_DELTA: Duration = Duration::from_secs(30);

/// Minimum interval between two fetches of the keys. The reference has none, so that anybody can make it ask the issuer.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(1);

/// An issuer that is reached over the network.
pub(super) struct RemoteIssuer {
    jwt: JwtAuthenticator,
    /// Clock by which tokens expire.
    clock: Arc<dyn Clock>,
    fetcher: Fetcher,
    metrics: AuthenticationMetrics,
    /// URL of the keys, known once the discovery has succeeded.
    keys_url: OnceLock<String>,
    keys: ArcSwap<FetchedKeys>,
    /// State of the fetches, locked by the one that runs.
    fetches: AsyncMutex<LastFetch>,
    /// Reason why the last attempt of the discovery failed.
    failure: Mutex<String>,
}

/// Keys and the end of their lifetime.
#[derive(Default)]
struct FetchedKeys {
    keys: KeySet,
    expiry: Option<Instant>,
    /// Number of the fetch.
    generation: u64,
}

impl FetchedKeys {
    /// Returns true if the keys may not be fetched again yet.
    fn are_current(&self, now: Instant) -> bool {
        self.expiry.is_some_and(|expiry| now + EXPIRY_DELTA <= expiry)
    }
}

/// Times and error of the last fetch.
#[derive(Default)]
struct LastFetch {
    begun: Option<Instant>,
    ended: Option<Instant>,
    error: Option<String>,
}

impl RemoteIssuer {
    /// Creates the issuer and starts its discovery, which ends with the issuer or the server.
    ///
    /// # Errors
    /// If its authorities cannot be used.
    pub(super) fn start(
        jwt: JwtAuthenticator,
        clock: Arc<dyn Clock>,
        metrics: AuthenticationMetrics,
        egress: Option<&EgressSelector>,
        shutdown: &Shutdown,
    ) -> Result<Arc<Self>, String> {
        let dialer = match (jwt.egress(), egress) {
            (Some("cluster"), Some(egress)) => egress.dialer(Network::Cluster),
            (Some(_), Some(egress)) => egress.dialer(Network::ControlPlane),
            (Some(network), None) => {
                return Err(format!(
                    "oidc: egress lookup required with egress selector type {network:?}"
                ));
            }
            (None, _) => None,
        };
        let fetcher = Fetcher::new(jwt.certificate_authority(), dialer, Arc::clone(&clock))?;
        let failure = format!("oidc: authenticator for issuer {:?} is not initialized", jwt.issuer());
        let issuer = Arc::new(Self {
            jwt,
            clock,
            fetcher,
            metrics,
            keys_url: OnceLock::new(),
            keys: ArcSwap::default(),
            fetches: AsyncMutex::default(),
            failure: Mutex::new(failure),
        });
        let (weak, shutdown) = (Arc::downgrade(&issuer), shutdown.clone());
        tokio::spawn(async move {
            while let Some(issuer) = weak.upgrade() {
                if issuer.discover().await {
                    break;
                }
                drop(issuer);
                tokio::select! {
                    () = tokio::time::sleep(DISCOVERY_PERIOD) => {}
                    () = shutdown.closing() => break,
                }
            }
        });
        Ok(issuer)
    }

    /// Returns the URL of the issuer.
    pub(super) fn url(&self) -> &str {
        self.jwt.issuer()
    }

    /// Returns true if a token states this issuer.
    pub(super) fn issued(&self, token: &str) -> bool {
        self.jwt.issued(token)
    }

    /// Returns the reason why the issuer cannot be used yet.
    ///
    /// # Errors
    /// If the discovery has not succeeded.
    pub(super) fn check_health(&self) -> Result<(), String> {
        match self.keys_url.get() {
            Some(_) => Ok(()),
            None => Err(format!(
                "oidc: authenticator for issuer {:?} is not healthy: {}",
                self.url(),
                self.failure.lock()
            )),
        }
    }

    /// Finds the URL of the keys and fetches them. Returns true if the URL is known.
    async fn discover(&self) -> bool {
        match self.find_keys_url().await {
            Ok(url) => {
                let _ = self.keys_url.set(url);
                // The first token would fetch the keys, too.
                if let Err(error) = self.refresh(0).await {
                    tracing::warn!(issuer = self.url(), error, "cannot fetch the keys of an issuer");
                }
                true
            }
            Err(error) => {
                tracing::error!(issuer = self.url(), error, "oidc authenticator: initializing plugin");
                *self.failure.lock() = error;
                false
            }
        }
    }

    /// upstream: github.com/coreos/go-oidc#NewProvider
    async fn find_keys_url(&self) -> Result<String, String> {
        let document = self.fetcher.get(&self.jwt.discovery_url()).await?;
        let value = json::parse(&document.body, &Limits::REQUEST)
            .map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
        let text = |name| value.str_at(&[name]).unwrap_or_default();
        if text("issuer") != self.url() {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.url(),
                text("issuer")
            ));
        }
        match text("jwks_uri") {
            "" => Err("provider did not return JWKS URL".to_owned()),
            url => Ok(url.to_owned()),
        }
    }

    /// Returns the user of a token of this issuer.
    ///
    /// # Errors
    /// The reason why there is none.
    ///
    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.AuthenticateToken
    pub(super) async fn authenticate(&self, token: &str) -> Result<Arc<User>, String> {
        let begun = Instant::now();
        let outcome = self.user(token).await;
        self.metrics.authenticated(self.url(), outcome.is_ok(), begun.elapsed());
        outcome
    }

    async fn user(&self, token: &str) -> Result<Arc<User>, String> {
        if self.keys_url.get().is_none() {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        let message = |why: String| format!("oidc: verify token: {why}");
        let received = self.jwt.receive(token, self.clock.now()).map_err(message)?;
        let verified = self.verify(&received).await;
        verified.map_err(|why| message(format!("failed to verify signature: {why}")))?;
        if let Some(source) = self.jwt.distributed_groups(received.claims()) {
            return Err(format!(
                "oidc: could not expand distributed claims: the source {source:?} of groups is not supported"
            ));
        }
        let user = self.jwt.user(received.claims())?;
        Ok(Arc::new(authenticated(user)))
    }

    /// Verifies the signature with the known keys, or with those that the issuer publishes now.
    ///
    /// upstream: github.com/coreos/go-oidc#remoteKeySet.verify
    async fn verify(&self, token: &ReceivedToken) -> Result<(), String> {
        let unsigned = || "failed to verify id token signature".to_owned();
        let known = self.keys.load_full();
        if token.is_signed_by(&known.keys) {
            return Ok(());
        }
        if known.are_current(Instant::now()) {
            return Err(unsigned());
        }
        let outcome = self.refresh(known.generation).await;
        let fetched = outcome.map_err(|why| format!("fetching keys {why}"))?;
        match token.is_signed_by(&fetched.keys) {
            true => Ok(()),
            false => Err(unsigned()),
        }
    }

    /// Returns keys that are newer than those of the fetch `seen`, or the same if they were fetched just now.
    async fn refresh(&self, seen: u64) -> Result<Arc<FetchedKeys>, String> {
        let asked = Instant::now();
        let mut last = self.fetches.lock().await;
        let current = self.keys.load_full();
        if current.generation != seen {
            return Ok(current);
        }
        // Those that waited for a fetch share its outcome, however long it took.
        let is_fresh = last.ended.is_some_and(|ended| ended >= asked);
        if is_fresh || last.begun.is_some_and(|begun| begun.elapsed() < MIN_FETCH_INTERVAL) {
            return last.error.clone().map_or(Ok(current), Err);
        }
        last.begun = Some(Instant::now());
        let fetched = self.fetch(seen + 1).await;
        last.ended = Some(Instant::now());
        last.error = fetched.as_ref().err().cloned();
        let fetched = Arc::new(fetched?);
        self.keys.store(Arc::clone(&fetched));
        Ok(fetched)
    }

    async fn fetch(&self, generation: u64) -> Result<FetchedKeys, String> {
        let url = self.keys_url.get().map_or("", String::as_str);
        let document = self.fetcher.get(url).await;
        let parsed = document
            .map_err(|why| format!("oidc: get keys failed {why}"))
            .and_then(|document| {
                let keys = KeySet::parse(&document.body).map_err(|why| format!("oidc: failed to decode keys: {why}"));
                Ok((keys?, document))
            });
        match &parsed {
            Ok((_, document)) => self.metrics.keys_fetched(self.url(), &document.body),
            Err(_) => self.metrics.keys_failed(self.url()),
        }
        let (keys, document) = parsed?;
        Ok(FetchedKeys {
            keys,
            expiry: Instant::now().checked_add(document.lifetime),
            generation,
        })
    }
}
