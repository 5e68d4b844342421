//! Tokens: the interfaces of access control that kinds and admission use to authenticate and issue tokens
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/>).
//!
//! A [`holdfast_authorization::Authorizer`] decides what users may do.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::{AlwaysAllow, Authorizer, User};
use smol_str::SmolStr;

/// Authenticates bearer tokens.
pub trait TokenAuthenticator: Send + Sync {
    /// Returns the user of this token and those of `audiences` that the token is valid for. Empty `audiences` request
    /// those of this server.
    ///
    /// # Errors
    /// If no user has the token, or it is no longer valid.
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError>;

    /// Returns the authenticator of tokens that this one does not accept, if there is one.
    fn remote(&self) -> Option<&dyn RemoteTokenAuthenticator> {
        None
    }
}

/// Outcome of an authentication that may wait for another server.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<TokenUser, TokenError>> + Send + 'a>>;

/// Authenticates bearer tokens with the help of other servers, and therefore may have to wait for them.
pub trait RemoteTokenAuthenticator: Send + Sync {
    /// Returns the user of this token, as [`TokenAuthenticator::authenticate`] does.
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> TokenFuture<'a>;
}

/// Authenticates a token, and asks other servers only if no local authenticator accepts it.
///
/// # Errors
/// If no user has the token, or it is no longer valid.
pub async fn authenticate(
    tokens: &dyn TokenAuthenticator,
    token: &str,
    audiences: &[&str],
) -> Result<TokenUser, TokenError> {
    let local = tokens.authenticate(token, audiences);
    match (local, tokens.remote()) {
        (Err(error), Some(remote)) => {
            let outcome = remote.authenticate(token, audiences).await;
            outcome.map_err(|other| error.and(other))
        }
        (local, _) => local,
    }
}

/// User that a token authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The user.
    pub user: Arc<User>,
    /// Requested audiences that the token is valid for.
    pub audiences: Vec<SmolStr>,
    /// Annotations for the audit log.
    pub annotations: Vec<(&'static str, String)>,
    /// Warning for the client that presents the token.
    pub warning: Option<String>,
}

/// Reason why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The authenticator does not know the token; another may know it.
    Unknown,
    /// The authenticator knows the token, but rejects it for this reason.
    Refused(String),
}

impl TokenError {
    /// Combines the reasons of two authenticators.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, other) => other,
            (known, Self::Unknown) => known,
            (Self::Refused(one), Self::Refused(other)) => Self::Refused(format!("{one}, {other}")),
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("invalid bearer token"),
            Self::Refused(why) => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

impl std::error::Error for TokenError {}

/// Authenticator that knows no tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl TokenAuthenticator for NoTokens {
    fn authenticate(&self, _token: &str, _audiences: &[&str]) -> Result<TokenUser, TokenError> {
        Err(TokenError::Unknown)
    }
}

/// Issues tokens for service accounts.
pub trait TokenIssuer: Send + Sync {
    /// Returns the audiences of tokens that are requested without one: those of this server.
    fn audiences(&self) -> &[SmolStr];

    /// Returns the maximum lifetime of a token in seconds, if it is bounded.
    fn longest(&self) -> Option<i64>;

    /// Returns the lifetime in seconds of tokens for the pods of this server, if it is extended, usually to a year, so
    /// that clients that never read them again continue to work.
    fn extended_life(&self) -> Option<i64>;

    /// Returns the signed token. If there is a [`signer`](Self::signer), returns the claims that it has to sign.
    ///
    /// # Errors
    /// If the token cannot be created.
    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String>;

    /// Returns the signer of tokens outside of this process, if there is one.
    fn signer(&self) -> Option<&dyn TokenSigner> {
        None
    }
}

/// Outcome of a call of a signer of tokens.
pub type SignatureFuture<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// Signs tokens outside of this process
/// (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#external-serviceaccount-token-signing-and-key-management>).
pub trait TokenSigner: Send + Sync {
    /// Returns the token with these claims, which are the second part of a JWT in Base64.
    fn sign<'a>(&'a self, claims: &'a str) -> SignatureFuture<'a>;
}

/// An issued token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token, or its claims until they are signed.
    pub token: String,
    /// Credential id of the token, which the extra data of users who present it contains.
    pub credential: String,
}

/// Contents of a token for a service account.
#[derive(Clone, Debug)]
pub struct ServiceAccountToken<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The service account.
    pub account: BoundObject,
    /// Audiences of the token.
    pub audiences: &'a [SmolStr],
    /// Start of its validity.
    pub now: SystemTime,
    /// Lifetime in seconds.
    pub seconds: i64,
    /// Seconds after which its use is reported, since the client should have requested another.
    pub warn_after: Option<i64>,
    /// Pod to which it is bound: the token becomes invalid with it.
    pub pod: Option<BoundObject>,
    /// Node to which it is bound, or on which the pod runs.
    pub node: Option<BoundObject>,
    /// Secret to which it is bound.
    pub secret: Option<BoundObject>,
}

/// An object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The name.
    pub name: String,
    /// The uid; empty if it is unknown.
    pub uid: String,
}

impl TokenIssuer for NoTokens {
    fn audiences(&self) -> &[SmolStr] {
        &[]
    }

    fn longest(&self) -> Option<i64> {
        None
    }

    fn extended_life(&self) -> Option<i64> {
        None
    }

    fn issue(&self, _token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String> {
        Err("this server makes no tokens".to_owned())
    }
}

/// Interfaces of access control that a step of a request may use.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// Decides what users may do.
    pub authorizer: &'a dyn Authorizer,
    /// Authenticates tokens.
    pub tokens: &'a dyn TokenAuthenticator,
    /// Issues tokens for service accounts.
    pub issuer: &'a dyn TokenIssuer,
}

impl Access<'static> {
    /// Access that allows everything to everybody and knows no token, for callers where access does not matter.
    pub const UNCHECKED: Self = Self {
        authorizer: &AlwaysAllow,
        tokens: &NoTokens,
        issuer: &NoTokens,
    };
}
