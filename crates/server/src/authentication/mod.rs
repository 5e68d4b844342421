//! Who asks: from a bearer token, from a client certificate, or nobody.
//!
//! A token comes before a certificate. A token that is not known is refused even where a certificate would do.

mod certificate;
mod impersonation;
mod keys;
mod service_accounts;
mod tokens;

pub use certificate::{CertificateError, user_of_certificate};
pub use impersonation::Impersonation;
pub use keys::{IssuerDocuments, KeyError, Keys, SigningKey, VerifyingKey};
pub use service_accounts::{ServiceAccounts, Surroundings, TokenConfig};
pub use tokens::{AUDIENCE, TokenFile, TokenFileError, Tokens};

use std::sync::Arc;

use holdfast_resource::access::TokenAuthenticator;
use http::header::{self, HeaderMap};
use smol_str::SmolStr;

use crate::ApiError;
use crate::user::{AUTHENTICATED, UNAUTHENTICATED, User};

/// Finds out who makes a request.
#[derive(Clone, Copy, Debug)]
pub struct Authenticator {
    /// Whether the user `system:anonymous` stands in where there are no credentials.
    pub anonymous: bool,
}

impl Authenticator {
    /// The user who makes a request: that of its token, which `tokens` knows, or that of the connection's client
    /// certificate.
    ///
    /// # Errors
    /// 401 where there is no such user.
    pub fn authenticate(
        &self,
        tokens: &dyn TokenAuthenticator,
        headers: &HeaderMap,
        certificate: Option<&Arc<User>>,
    ) -> Result<Arc<User>, ApiError> {
        if let Some(token) = bearer_token(headers) {
            let known = tokens.authenticate(token, &[]);
            return known.map(|known| known.user).map_err(|_| ApiError::unauthorized());
        }
        if let Some(user) = certificate {
            return Ok(Arc::clone(user));
        }
        if self.anonymous {
            Ok(Arc::new(anonymous()))
        } else {
            Err(ApiError::unauthorized())
        }
    }
}

/// The user who stands in where there are no credentials.
fn anonymous() -> User {
    User {
        name: SmolStr::new_static("system:anonymous"),
        groups: vec![SmolStr::new_static(UNAUTHENTICATED)],
        ..User::default()
    }
}

/// Puts a user who was authenticated into the group of all such users.
fn authenticated(mut user: User) -> User {
    if !user.is_in(AUTHENTICATED) {
        user.groups.push(SmolStr::new_static(AUTHENTICATED));
    }
    user
}

/// The token of a request; an empty one counts as none, as do other schemes.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn ask(
        anonymous: bool,
        authorization: &'static str,
        certificate: Option<&Arc<User>>,
    ) -> Result<Arc<User>, ApiError> {
        let tokens = TokenFile::parse("secret,alice,alice-uid,\"devs\"\n").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(authorization));
        Authenticator { anonymous }.authenticate(&tokens, &headers, certificate)
    }

    #[test]
    fn a_known_token_names_its_user() {
        let user = ask(false, "bearer secret", None).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "alice-uid"));
        assert_eq!(user.groups, ["devs", "system:authenticated"]);
    }

    #[test]
    fn an_unknown_token_is_refused_whatever_else_there_is() {
        let certificate = Arc::new(User::default());
        let error = ask(true, "Bearer wrong", Some(&certificate)).unwrap_err();
        assert_eq!(
            (error.code().as_u16(), error.to_string().as_str()),
            (401, "Unauthorized")
        );
    }

    #[test]
    fn what_is_no_token_counts_as_no_credentials() {
        for text in ["Bearer ", "Basic YTpi"] {
            assert_eq!(ask(true, text, None).unwrap().name, "system:anonymous");
            assert!(ask(false, text, None).is_err());
        }
    }

    #[test]
    fn a_certificate_stands_in_for_a_token() {
        let certificate = Arc::new(User {
            name: "node".into(),
            ..User::default()
        });
        assert_eq!(ask(false, "Basic YTpi", Some(&certificate)).unwrap().name, "node");
    }
}
