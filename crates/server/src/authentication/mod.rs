//! Tokens that other servers vouch for: those of OpenID Connect issuers, and those that a webhook reviews
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/>).
//!
//! A request waits here only if no local authenticator accepts its token. Answers are cached, calls and their results are
//! limited in size, time and number.

mod cache;
mod external_signer;
mod fetch;
mod issuer;
mod jwt;
pub(crate) mod post;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::access::{RemoteTokenAuthenticator, TokenError, TokenFuture};

use self::cache::{TokenCache, TokenKey};
pub use self::external_signer::{ExternalSigner, TokensOfNewKeys};
pub use self::jwt::{JwtAuthenticators, JwtIssuers};
pub use self::post::{PostError, ReviewPost};
pub use self::webhook::{ReviewVersion, TokenWebhook};

/// Time for which an accepted token is cached.
const SUCCESS_TTL: Duration = Duration::from_secs(10);

/// Authenticators that may have to wait for other servers, in the order of the reference: issuers, then the webhook.
pub struct RemoteTokens {
    jwt: Option<Arc<JwtAuthenticators>>,
    webhook: Option<TokenWebhook>,
    cache: TokenCache,
}

impl RemoteTokens {
    /// Combines the authenticators; `None` if there are none.
    pub fn new(jwt: Option<Arc<JwtAuthenticators>>, webhook: Option<TokenWebhook>) -> Option<Arc<Self>> {
        let is_empty = jwt.is_none() && webhook.is_none();
        let remote = Self {
            jwt,
            webhook,
            cache: TokenCache::new(SUCCESS_TTL),
        };
        (!is_empty).then(|| Arc::new(remote))
    }
}

impl RemoteTokenAuthenticator for RemoteTokens {
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> TokenFuture<'a> {
        Box::pin(async move {
            let key = TokenKey::new(token, audiences);
            if let Some(known) = self.cache.get(&key) {
                return known;
            }
            let jwt = self.jwt.as_deref().map(|jwt| jwt as &dyn RemoteTokenAuthenticator);
            let webhook = self
                .webhook
                .as_ref()
                .map(|webhook| webhook as &dyn RemoteTokenAuthenticator);
            let mut error = TokenError::Unknown;
            for authenticator in jwt.into_iter().chain(webhook) {
                match authenticator.authenticate(token, audiences).await {
                    Err(other) => error = error.and(other),
                    known => {
                        self.cache.insert(key, &known);
                        return known;
                    }
                }
            }
            Err(error)
        })
    }
}
