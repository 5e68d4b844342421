//! Tokens with a key that the server does not know yet.

use std::sync::Arc;

use holdfast_resource::access::{RemoteTokenAuthenticator, TokenAuthenticator, TokenError, TokenFuture};
use serde::Deserialize;

use super::ExternalSigner;

/// Authenticator of tokens whose key is fetched first. Other tokens are left to the next authenticator.
pub struct TokensOfNewKeys {
    signer: Arc<ExternalSigner>,
    /// Issuers whose tokens the signer's keys verify.
    issuers: Vec<String>,
    /// Authenticator with the keys of the signer.
    local: Arc<dyn TokenAuthenticator>,
    next: Option<Arc<dyn RemoteTokenAuthenticator>>,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    iss: String,
}

impl TokensOfNewKeys {
    /// Authenticates tokens of `issuers` with `local`, once their key is fetched.
    pub fn new(signer: Arc<ExternalSigner>, issuers: Vec<String>, local: Arc<dyn TokenAuthenticator>) -> Self {
        Self {
            signer,
            issuers,
            local,
            next: None,
        }
    }

    /// Asks `next` about all other tokens.
    #[must_use]
    pub fn before(self, next: Option<Arc<dyn RemoteTokenAuthenticator>>) -> Self {
        Self { next, ..self }
    }

    /// Returns the id of the key of a token of one of the issuers, if the key is unknown.
    fn unknown_key(&self, token: &str) -> Option<String> {
        let id = jsonwebtoken::decode_header(token).ok()?.kid?;
        let claims = jsonwebtoken::dangerous::insecure_decode::<Claims>(token).ok()?.claims;
        let is_known = id.is_empty() || self.signer.keys.load().has(&id);
        (!is_known && self.issuers.contains(&claims.iss)).then_some(id)
    }
}

impl RemoteTokenAuthenticator for TokensOfNewKeys {
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> TokenFuture<'a> {
        Box::pin(async move {
            let mut error = TokenError::Unknown;
            if let Some(id) = self.unknown_key(token)
                && self.signer.learn(&id).await
            {
                match self.local.authenticate(token, audiences) {
                    Err(other) => error = other,
                    known => return known,
                }
            }
            match &self.next {
                Some(next) => next
                    .authenticate(token, audiences)
                    .await
                    .map_err(|other| error.and(other)),
                None => Err(error),
            }
        })
    }
}
