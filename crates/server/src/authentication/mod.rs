//! Who asks: from a bearer token, from a client certificate, or nobody.
//!
//! A token comes before a certificate. A token that is not known is refused even where a certificate would do.

mod certificate;
mod impersonation;
mod tokens;

pub use certificate::{CertificateError, user_of_certificate};
pub use impersonation::impersonate;
pub use tokens::{TokenFile, TokenFileError};

use std::sync::Arc;

use http::header::{self, HeaderMap};
use smol_str::SmolStr;

use crate::ApiError;
use crate::user::{AUTHENTICATED, UNAUTHENTICATED, User};

/// Finds out who makes a request.
#[derive(Default)]
pub struct Authenticator {
    /// The bearer tokens that are known.
    pub tokens: TokenFile,
    /// For which requests without credentials the user `system:anonymous` may stand in.
    pub anonymous: Anonymous,
}

/// For which requests without credentials the user `system:anonymous` may stand in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// For those about health alone, so that probes need no credentials.
    #[default]
    Health,
    /// For all.
    Everywhere,
}

/// The paths that [`Anonymous::Health`] opens.
const HEALTH_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

impl Authenticator {
    /// The user who makes a request: that of its token, or that of the connection's client certificate.
    ///
    /// # Errors
    /// 401 where there is no such user.
    pub fn authenticate(
        &self,
        path: &str,
        headers: &HeaderMap,
        certificate: Option<&Arc<User>>,
    ) -> Result<Arc<User>, ApiError> {
        if let Some(token) = bearer_token(headers) {
            let user = self.tokens.user(token).ok_or_else(ApiError::unauthorized)?;
            return Ok(Arc::clone(user));
        }
        if let Some(user) = certificate {
            return Ok(Arc::clone(user));
        }
        let open = match self.anonymous {
            Anonymous::Everywhere => true,
            Anonymous::Health => HEALTH_PATHS.contains(&path),
        };
        if open {
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

    fn authenticator(anonymous: Anonymous) -> Authenticator {
        Authenticator {
            tokens: TokenFile::parse("secret,alice,alice-uid,\"devs\"\n").unwrap(),
            anonymous,
        }
    }

    fn headers(authorization: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(authorization));
        headers
    }

    #[test]
    fn a_known_token_names_its_user() {
        let user = authenticator(Anonymous::Health)
            .authenticate("/api", &headers("bearer secret"), None)
            .unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "alice-uid"));
        assert_eq!(user.groups, ["devs", "system:authenticated"]);
    }

    #[test]
    fn an_unknown_token_is_refused_whatever_else_there_is() {
        let certificate = Arc::new(User::default());
        let error = authenticator(Anonymous::Everywhere)
            .authenticate("/healthz", &headers("Bearer wrong"), Some(&certificate))
            .unwrap_err();
        assert_eq!(
            (error.code().as_u16(), error.to_string().as_str()),
            (401, "Unauthorized")
        );
    }

    #[test]
    fn nobody_may_ask_for_health_alone() {
        for text in ["Bearer ", "Basic YTpi"] {
            let ask = |anonymous, path| authenticator(anonymous).authenticate(path, &headers(text), None);
            assert_eq!(ask(Anonymous::Health, "/livez").unwrap().name, "system:anonymous");
            assert!(ask(Anonymous::Health, "/livez/ping").is_err());
            assert!(ask(Anonymous::Health, "/api").is_err());
            assert!(ask(Anonymous::Everywhere, "/api").is_ok());
        }
    }
}
