//! Verified signatures of tokens, cached for a short time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_resource::access::TokenError;
use jsonwebtoken::Validation;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::keys::SharedKeys;

/// Time for which a verified signature is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum number of cached verified tokens.
const MAX_CACHED_TOKENS: usize = 4096;
/// Maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// Claims of a token that state its issuer.
pub(super) trait IssuedClaims: DeserializeOwned {
    /// Returns the issuer.
    fn issuer(&self) -> &str;
}

/// Keys that verify tokens, and the tokens that were verified recently. `C` are the claims of a token.
pub(super) struct Signatures<C> {
    keys: SharedKeys,
    verified: Mutex<HashMap<[u8; 32], VerifiedToken<C>>>,
}

/// A token with a valid signature.
struct VerifiedToken<C> {
    until: SystemTime,
    claims: Arc<C>,
}

impl<C: IssuedClaims> Signatures<C> {
    /// Verifies tokens with `keys`.
    pub(super) fn new(keys: SharedKeys) -> Self {
        Self {
            keys,
            verified: Mutex::default(),
        }
    }

    /// Returns the claims of a token of an issuer that `accepts` knows, if its signature is valid.
    pub(super) fn claims(
        &self,
        token: &str,
        now: SystemTime,
        accepts: impl Fn(&str) -> bool,
    ) -> Result<Arc<C>, TokenError> {
        let digest = <[u8; 32]>::from(Sha256::digest(token));
        if let Some(known) = self.verified.lock().get(&digest)
            && now < known.until
        {
            return Ok(Arc::clone(&known.claims));
        }
        let claims = Arc::new(self.verify(token, accepts)?);
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_CACHED_TOKENS {
            verified.retain(|_, known| now < known.until);
        }
        if verified.len() < MAX_CACHED_TOKENS {
            let (until, claims) = (now + CACHE_LIFETIME, Arc::clone(&claims));
            verified.insert(digest, VerifiedToken { until, claims });
        }
        Ok(claims)
    }

    fn verify(&self, token: &str, accepts: impl Fn(&str) -> bool) -> Result<C, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Unknown);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Unknown)?;
        // Other authenticators handle the tokens of other issuers.
        let unverified = jsonwebtoken::dangerous::insecure_decode::<C>(token).map_err(|_| TokenError::Unknown)?;
        if !accepts(unverified.claims.issuer()) {
            return Err(TokenError::Unknown);
        }
        let keys = self.keys.load();
        for key in keys.candidates(header.kid.as_deref(), header.alg) {
            // Times and audiences are checked elsewhere, by the clock of the server.
            let mut validation = Validation::new(header.alg);
            validation.validate_exp = false;
            validation.validate_aud = false;
            validation.required_spec_claims.clear();
            if let Ok(verified) = jsonwebtoken::decode::<C>(token, key.decoding(), &validation) {
                return Ok(verified.claims);
            }
        }
        Err(TokenError::Refused("failed to verify signature".to_owned()))
    }
}
