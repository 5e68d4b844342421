//! The signer of service account tokens outside of this process (`--service-account-signing-endpoint`).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use holdfast_gotext::duration;
use holdfast_server::authentication::ExternalSigner;
use holdfast_server::metrics::SignerMetrics;
use holdfast_server::operations::service::Service;
use regex::Regex;

use crate::flags::Serve;
use crate::reload;

/// Lifetime to which the tokens of pods are extended, in seconds.
pub(crate) const EXTENDED_LIFE_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Lifetime that kubelets request, in seconds. Tokens with it are extended.
const REQUESTED_LIFE_SECONDS: i64 = 60 * 60 + 7;

/// The signer, with the counters of its calls.
#[derive(Clone)]
pub(crate) struct Signing {
    /// The signer.
    pub(crate) signer: Arc<ExternalSigner>,
    /// Counters of its calls.
    pub(crate) metrics: SignerMetrics,
}

impl Signing {
    /// Connects to the signer of the flags, if they name one.
    ///
    /// upstream: pkg/controlplane/apiserver/options#Options.completeServiceAccountOptions
    ///
    /// # Errors
    /// If the signer does not answer, or does not fit the flags.
    pub(crate) async fn connect(flags: &Serve) -> Result<Option<Self>> {
        let Some(socket) = endpoint(flags) else { return Ok(None) };
        let metrics = SignerMetrics::new().context("cannot set up metrics")?;
        let connected = ExternalSigner::connect(socket, metrics.clone(), flags.request_timeout).await;
        let named = || format!("--service-account-signing-endpoint {socket}");
        let failed = |error: String| anyhow!("while setting up external-jwt-signer: {error}");
        let signer = connected.map_err(failed).with_context(named)?;
        let limit = lifetime(signer.longest());
        if let Some(longest) = flags.service_account_max_token_expiration
            && longest > limit
        {
            bail!(
                "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
                 service-account-signing-endpoint: {} > {}",
                duration::text(longest),
                duration::text(limit)
            );
        }
        warn_about_extension(flags, signer.longest());
        Ok(Some(Self { signer, metrics }))
    }

    /// Fetches the keys again whenever the signer asks for it.
    pub(crate) fn follow(&self, service: &Service) {
        let (context, signer) = (&service.context, Arc::clone(&self.signer));
        context
            .background
            .spawn_until_shutdown(reload::CHECK, "external-signer", &context.shutdown, signer.follow());
    }
}

/// Logs that tokens of pods live shorter than clients may expect.
fn warn_about_extension(flags: &Serve, longest: i64) {
    let longest = match flags.service_account_max_token_expiration {
        Some(configured) if !configured.is_zero() => i64::try_from(configured.as_secs()).unwrap_or(i64::MAX),
        _ => longest,
    };
    if !flags.service_account_extend_token_expiration {
        return;
    }
    let (minimum, maximum) = (REQUESTED_LIFE_SECONDS, EXTENDED_LIFE_SECONDS);
    if longest < minimum {
        tracing::warn!(
            longest,
            minimum,
            "tokens of pods cannot be extended, because the external signer supports only short lifetimes"
        );
    } else if longest < maximum {
        tracing::warn!(
            longest,
            maximum,
            "tokens of pods are extended only to the lifetime that the external signer supports"
        );
    }
}

fn lifetime(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

/// Returns the socket of the signer; an empty name means none.
fn endpoint(flags: &Serve) -> Option<&str> {
    let endpoint = flags.service_account_signing_endpoint.as_deref();
    endpoint.filter(|endpoint| !endpoint.is_empty())
}

/// Name of an abstract socket.
static ABSTRACT_SOCKET: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^@([a-zA-Z0-9_-]+\\.)*[a-zA-Z0-9_-]+$").ok());

/// Returns the errors of the flags.
///
/// upstream: pkg/controlplane/apiserver/options#validateServiceAccountTokenSigningConfig
pub(crate) fn errors(flags: &Serve) -> Vec<String> {
    let Some(endpoint) = endpoint(flags) else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    if flags.service_account_signing_key_file.is_some() || !flags.service_account_key_file.is_empty() {
        messages.push(
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive)"
                .to_owned(),
        );
    }
    let is_valid = |name: &str| ABSTRACT_SOCKET.as_ref().is_some_and(|pattern| pattern.is_match(name));
    if endpoint.starts_with('@') && !is_valid(endpoint) {
        messages.push(format!(
            "invalid value {endpoint:?} passed for `--service-account-signing-endpoint`, when prefixed with @ must be a \
             valid abstract socket name"
        ));
    }
    messages
}
