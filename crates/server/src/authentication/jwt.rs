//! All issuers of tokens, which a new configuration replaces.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_authentication::JwtAuthenticator;
use holdfast_egress::EgressSelector;
use holdfast_gotext::errors::aggregate;
use holdfast_resource::access::{RemoteTokenAuthenticator, TokenError, TokenFuture, TokenUser};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::issuer::RemoteIssuer;
use crate::metrics::AuthenticationMetrics;
use crate::runtime::Clock;
use crate::runtime::shutdown::Shutdown;

/// Time that new issuers have for their discovery before a reload counts as failed.
const HEALTH_LIMIT: Duration = Duration::from_secs(60);

/// Interval between the checks of new issuers.
const HEALTH_PERIOD: Duration = Duration::from_millis(250);

/// Issuers of one configuration. Their discovery runs in the background.
pub struct JwtIssuers(Vec<Arc<RemoteIssuer>>);

impl JwtIssuers {
    /// Starts the issuers, which are reached through the proxies of `egress`. Their tokens and keys expire by `clock`.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn start(
        issuers: impl IntoIterator<Item = JwtAuthenticator>,
        clock: &Arc<dyn Clock>,
        metrics: &AuthenticationMetrics,
        egress: Option<&EgressSelector>,
        shutdown: &Shutdown,
    ) -> Result<Self, String> {
        let issuers = issuers
            .into_iter()
            .map(|jwt| RemoteIssuer::start(jwt, Arc::clone(clock), metrics.clone(), egress, shutdown));
        Ok(Self(issuers.collect::<Result<_, _>>()?))
    }

    /// Waits until the discovery of all issuers has succeeded.
    async fn wait_until_healthy(&self) -> Result<(), String> {
        let end = Instant::now() + HEALTH_LIMIT;
        loop {
            let failures: Vec<String> = self.0.iter().filter_map(|issuer| issuer.check_health().err()).collect();
            if failures.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(aggregate(&failures));
            }
            tokio::time::sleep(HEALTH_PERIOD).await;
        }
    }

    fn urls(&self) -> BTreeSet<String> {
        self.0.iter().map(|issuer| issuer.url().to_owned()).collect()
    }
}

/// Authenticator of the tokens of all issuers.
pub struct JwtAuthenticators {
    current: ArcSwap<JwtIssuers>,
    /// Audiences of this server, for which the tokens count.
    audiences: Vec<SmolStr>,
    metrics: AuthenticationMetrics,
}

impl JwtAuthenticators {
    /// Creates the authenticator of `issuers` for a server with these audiences.
    pub fn new(issuers: JwtIssuers, audiences: Vec<SmolStr>, metrics: AuthenticationMetrics) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(issuers),
            audiences,
            metrics,
        })
    }

    /// Replaces the issuers once the discovery of all new ones has succeeded.
    ///
    /// # Errors
    /// If it does not succeed within a minute. The old issuers stay.
    ///
    /// upstream: pkg/kubeapiserver/authenticator#authenticationConfigUpdater.updateAuthenticationConfig
    pub async fn replace(&self, issuers: JwtIssuers) -> Result<(), String> {
        issuers.wait_until_healthy().await?;
        let kept = issuers.urls();
        let old = self.current.swap(Arc::new(issuers));
        for removed in old.urls().difference(&kept) {
            self.metrics.forget_keys(removed);
        }
        Ok(())
    }

    /// Returns the requested audiences that are this server's; all of them if none is requested.
    fn matching(&self, requested: &[&str]) -> Vec<SmolStr> {
        let is_requested = |own: &&SmolStr| requested.is_empty() || requested.contains(&own.as_str());
        self.audiences.iter().filter(is_requested).cloned().collect()
    }
}

impl RemoteTokenAuthenticator for JwtAuthenticators {
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> TokenFuture<'a> {
        Box::pin(async move {
            let audiences = self.matching(audiences);
            if audiences.is_empty() {
                return Err(TokenError::Unknown);
            }
            let issuers = self.current.load_full();
            let stated = issuers.0.iter().find(|issuer| issuer.issued(token));
            let issuer = stated.ok_or(TokenError::Unknown)?;
            let user = issuer.authenticate(token).await.map_err(TokenError::Refused)?;
            Ok(TokenUser {
                user,
                audiences,
                annotations: Vec::new(),
                warning: None,
            })
        })
    }
}
