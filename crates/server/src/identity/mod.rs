//! Authentication, by a client certificate or a bearer token.
//!
//! A certificate precedes a token. One valid credential is enough. If there are credentials and none is valid, the
//! request is rejected rather than anonymous.

pub mod authorization;
mod bearer_protocol;
mod bootstrap_tokens;
mod certificate;
pub(crate) mod forwarding;
mod front_proxy;
mod impersonation;
mod keys;
mod legacy_tokens;
mod pending;
mod service_accounts;
mod signatures;
mod tokens;

pub use bootstrap_tokens::BootstrapTokens;
pub use certificate::{CertificateError, ClientCertificate, user_of_certificate};
pub(crate) use front_proxy::name_user;
pub use front_proxy::{FrontProxy, RequestHeaders};
pub use impersonation::{Impersonation, Judged};
pub use keys::{IssuerDocument, IssuerDocuments, KeyError, Keys, SharedKeys, SigningKey, VerifyingKey};
pub use legacy_tokens::{LAST_USED, LEGACY_ISSUER, LegacyTokens, SecretUse, new_token_counters};
pub(crate) use pending::Authentication;
use pending::PendingToken;
pub use service_accounts::{AccountsContext, ServiceAccounts, Signer, TokenConfig};
pub use tokens::{AUDIENCE, TokenFile, TokenFileError, Tokens};

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::{AUTHENTICATED, UNAUTHENTICATED, User};
use holdfast_resource::access::{TokenAuthenticator, TokenUser};
use http::header::{self, HeaderMap};
use rustls::pki_types::CertificateDer;
use smol_str::SmolStr;

use crate::http::ApiError;
use crate::http::headers;
use crate::wire::client_authorities::ClientAuthorities;
use bearer_protocol::BearerProtocol;

/// Extra of a user that identifies the credential.
pub(crate) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Credentials of a connection when it gets a request.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionCredentials<'a> {
    /// The client certificate.
    pub(crate) certificate: Option<&'a ClientCertificate>,
    /// Time of the request.
    pub(crate) now: SystemTime,
}

/// Authenticator of requests.
#[derive(Clone, Debug, Default)]
pub struct Authenticator {
    /// True if requests without credentials are those of `system:anonymous`.
    pub anonymous: bool,
    /// Paths for which they are; all paths if there are none.
    pub anonymous_paths: Vec<String>,
    /// Proxies that may name users.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// True if the uids in client certificates are ignored.
    pub ignores_certificate_uids: bool,
}

impl Authenticator {
    /// Returns the meaning of the certificates that a client presents at the time `now`, its own first.
    pub(crate) fn certificate(
        &self,
        authorities: &ClientAuthorities,
        certificates: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> ClientCertificate {
        let own = ClientCertificate::from_chain(authorities, certificates, now, !self.ignores_certificate_uids);
        match &self.front_proxy {
            Some(front_proxy) => front_proxy.judge(own, certificates, now),
            None => own,
        }
    }

    /// Returns the user who makes a request on a `connection` for `path`: the user that a front proxy names, the user of the
    /// connection's client certificate, or the user of the token according to `tokens`. Removes a token among the
    /// subprotocols of a WebSocket from the headers. If no local authenticator accepts the token, and other servers may,
    /// the authentication is pending.
    pub(crate) fn begin(
        &self,
        tokens: &dyn TokenAuthenticator,
        headers: &mut HeaderMap,
        path: &str,
        connection: ConnectionCredentials<'_>,
    ) -> Authentication {
        let outcome = self.identify(tokens, headers, path, connection);
        outcome.unwrap_or_else(|error| Authentication::Done(Err(error)))
    }

    fn identify(
        &self,
        tokens: &dyn TokenAuthenticator,
        headers: &mut HeaderMap,
        path: &str,
        connection: ConnectionCredentials<'_>,
    ) -> Result<Authentication, ApiError> {
        let done = |user: Arc<User>| Ok(Authentication::Done(Ok(user.into())));
        let ConnectionCredentials { certificate, now } = connection;
        let certificate = match (certificate, &self.front_proxy) {
            (Some(ClientCertificate::FrontProxy(until, otherwise)), Some(front_proxy)) => {
                if now <= *until
                    && let Some(user) = front_proxy.user(headers)?
                {
                    return done(user);
                }
                Some(&**otherwise)
            }
            (certificate, _) => certificate,
        };
        let faulty = match certificate {
            Some(ClientCertificate::User(user, until)) if until.is_none_or(|until| now <= until) => {
                return done(Arc::clone(user));
            }
            Some(ClientCertificate::Nameless) | None => false,
            Some(_) => true,
        };
        if let Some(token) = bearer_token(headers) {
            let token = token.ok_or_else(ApiError::unauthorized)?;
            return Ok(match tokens.authenticate(token, &[]) {
                Ok(known) => Authentication::Done(Ok(known.into())),
                Err(_) => Authentication::for_others(tokens, || PendingToken::Header(token.to_owned())),
            });
        }
        if let Some(protocol) = BearerProtocol::read(headers)? {
            return Ok(match tokens.authenticate(&protocol.token, &[]) {
                Ok(known) => {
                    protocol.remove_from(headers);
                    Authentication::Done(Ok(known.into()))
                }
                Err(_) => Authentication::for_others(tokens, || PendingToken::Protocol(protocol)),
            });
        }
        if self.accepts_anonymous(path) && !faulty {
            done(Arc::new(anonymous()))
        } else {
            Err(ApiError::unauthorized())
        }
    }

    /// Returns true if requests without credentials for this path are those of `system:anonymous`.
    ///
    /// upstream: k8s.io/apiserver/pkg/authentication/request/anonymous#Authenticator.AuthenticateRequest
    fn accepts_anonymous(&self, path: &str) -> bool {
        self.anonymous && (self.anonymous_paths.is_empty() || self.anonymous_paths.iter().any(|one| one == path))
    }
}

/// The user who makes a request.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<User>,
    /// Annotations about the credentials for the audit log.
    pub annotations: Vec<(&'static str, String)>,
    /// Warning about the credentials.
    pub warning: Option<String>,
}

impl From<Arc<User>> for Authenticated {
    fn from(user: Arc<User>) -> Self {
        Self {
            user,
            annotations: Vec::new(),
            warning: None,
        }
    }
}

impl From<TokenUser> for Authenticated {
    fn from(known: TokenUser) -> Self {
        Self {
            user: known.user,
            annotations: known.annotations,
            warning: known.warning,
        }
    }
}

/// Warning for a client whose token follows more than one space and is therefore ignored.
const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Returns the warning about the credentials of a request, if any.
pub(crate) fn warning(headers: &HeaderMap) -> Option<String> {
    let stated = headers.get(header::AUTHORIZATION)?;
    // Without two consecutive spaces there is nothing to warn about.
    if !stated.as_bytes().windows(2).any(|pair| pair == b"  ") {
        return None;
    }
    let text = headers::lossy(stated);
    let mut parts = text.trim().splitn(3, ' ');
    let bears = parts.next()?.eq_ignore_ascii_case("bearer") && parts.next()?.is_empty();
    (bears && parts.next().is_some()).then(|| SPACE_BEFORE_TOKEN.to_owned())
}

/// Returns the user of requests without credentials.
fn anonymous() -> User {
    User {
        name: SmolStr::new_static(impersonation::ANONYMOUS),
        groups: vec![SmolStr::new_static(UNAUTHENTICATED)],
        ..User::default()
    }
}

/// Returns true if the request has no identity.
pub(crate) fn is_anonymous(user: &User) -> bool {
    user.name == impersonation::ANONYMOUS || user.is_in(UNAUTHENTICATED)
}

/// Adds an authenticated user to the group `system:authenticated`, except the anonymous user and members of
/// `system:unauthenticated`, whichever credential names them.
///
/// upstream: k8s.io/apiserver/pkg/authentication/group#AuthenticatedGroupAdder
pub(crate) fn authenticated(mut user: User) -> User {
    if !is_anonymous(&user) && !user.is_in(AUTHENTICATED) {
        user.groups.push(SmolStr::new_static(AUTHENTICATED));
    }
    user
}

/// Returns the token of a request, `Some(None)` if it is not valid text; an empty token counts as none, as do other
/// schemes. Text after the token is ignored.
fn bearer_token(headers: &HeaderMap) -> Option<Option<&str>> {
    let text = headers::text(headers, header::AUTHORIZATION)?;
    let mut parts = text.trim().splitn(3, ' ');
    let bears = parts.next()?.eq_ignore_ascii_case("bearer") && parts.next().is_some_and(|token| !token.is_empty());
    match text {
        _ if !bears => None,
        Cow::Borrowed(text) => Some(text.trim().split(' ').nth(1)),
        Cow::Owned(_) => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::HeaderValue;

    use super::*;

    fn ask_with(
        anonymous: bool,
        authorization: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Result<Arc<User>, ApiError> {
        let tokens = TokenFile::parse("secret,alice,alice-uid,\"devs\"\ns\u{fffd},eve,1\n").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(authorization).unwrap());
        let authenticator = Authenticator {
            anonymous,
            ..Authenticator::default()
        };
        let connection = ConnectionCredentials {
            certificate,
            now: UNIX_EPOCH,
        };
        match authenticator.begin(&tokens, &mut headers, "/", connection) {
            Authentication::Done(known) => known.map(|known| known.user),
            Authentication::Pending(_) => Err(ApiError::internal("nobody else can be asked")),
        }
    }

    fn ask(anonymous: bool, authorization: &str) -> Result<Arc<User>, ApiError> {
        ask_with(anonymous, authorization.as_bytes(), None)
    }

    fn node(until: SystemTime) -> ClientCertificate {
        let user = User {
            name: "node".into(),
            ..User::default()
        };
        ClientCertificate::User(Arc::new(user), Some(until))
    }

    #[test]
    fn a_known_token_names_its_user() {
        for text in ["bearer secret", " Bearer secret ", "BEARER secret more"] {
            let user = ask(false, text).unwrap();
            assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "alice-uid"));
            assert_eq!(user.groups, ["devs", "system:authenticated"]);
        }
    }

    #[test]
    fn anonymous_requests_are_accepted_for_their_paths() {
        let authenticator = Authenticator {
            anonymous: true,
            anonymous_paths: vec!["/livez".to_owned()],
            ..Authenticator::default()
        };
        for (path, accepted) in [("/livez", true), ("/livez/ping", false), ("/api", false)] {
            assert_eq!(authenticator.accepts_anonymous(path), accepted, "{path}");
        }
        assert!(!Authenticator::default().accepts_anonymous("/livez"));
    }

    #[test]
    fn an_unknown_token_is_refused_rather_than_ignored() {
        for text in [&b"Bearer wrong"[..], b"Bearer s\xff", b"Bearer \xff"] {
            let error = ask_with(true, text, Some(&ClientCertificate::Nameless)).unwrap_err();
            assert_eq!(
                (error.code().as_u16(), error.to_string().as_str()),
                (401, "Unauthorized")
            );
        }
    }

    #[test]
    fn header_without_token_counts_as_no_credentials() {
        for text in [&b"Bearer "[..], b"Basic YTpi", b"Bearer  secret", b"Basic \xff"] {
            assert_eq!(ask_with(true, text, None).unwrap().name, "system:anonymous");
            assert!(ask_with(false, text, None).is_err());
        }
    }

    #[test]
    fn a_token_behind_too_many_spaces_is_warned_of() {
        for (text, warned) in [
            ("Bearer  secret", true),
            ("Bearer ", false),
            ("Bearer a  b", false),
            ("Basic  a", false),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(text))]);
            assert_eq!(warning(&headers).is_some(), warned, "{text}");
        }
    }

    #[test]
    fn credential_of_anonymous_user_is_not_authenticated() {
        let groups = |name: &str, group: &str| {
            let user = User {
                name: name.into(),
                groups: vec![group.into()],
                ..User::default()
            };
            authenticated(user).groups
        };
        assert_eq!(groups("system:anonymous", "devs"), ["devs"]);
        assert_eq!(groups("alice", UNAUTHENTICATED), [UNAUTHENTICATED]);
        assert_eq!(groups("alice", AUTHENTICATED), [AUTHENTICATED]);
        assert_eq!(groups("alice", "devs"), ["devs", AUTHENTICATED]);
    }

    #[test]
    fn a_certificate_comes_before_a_token() {
        let good = node(UNIX_EPOCH);
        for text in ["Basic YTpi", "Bearer secret", "Bearer wrong"] {
            assert_eq!(ask_with(false, text.as_bytes(), Some(&good)).unwrap().name, "node");
        }
    }

    #[test]
    fn a_certificate_that_is_not_good_leaves_it_to_the_token() {
        let expired = node(UNIX_EPOCH - Duration::from_secs(1));
        for certificate in [expired, ClientCertificate::Untrusted] {
            let ask = |text: &str| ask_with(true, text.as_bytes(), Some(&certificate));
            assert_eq!(ask("Bearer secret").unwrap().name, "alice");
            for text in ["Bearer wrong", "Basic YTpi"] {
                assert_eq!(ask(text).unwrap_err().code().as_u16(), 401);
            }
        }
        let nameless = ask_with(true, b"", Some(&ClientCertificate::Nameless));
        assert_eq!(nameless.unwrap().name, "system:anonymous");
    }
}
