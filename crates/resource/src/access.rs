//! Whose tokens are, and who makes them: what kinds and admission may ask of access control
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/>).
//!
//! A [`holdfast_authorization::Authorizer`] decides what users may do.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::{AlwaysAllow, Authorizer, User};
use smol_str::SmolStr;

/// Finds out whose a bearer token is.
pub trait TokenAuthenticator: Send + Sync {
    /// The user whose token this is, and for which of `audiences` it is good; none ask for those of this server.
    ///
    /// # Errors
    /// Where no user has it, or it is no longer valid.
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError>;
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The user.
    pub user: Arc<User>,
    /// Those of the requested audiences that the token is valid for.
    pub audiences: Vec<SmolStr>,
    /// What the audit log is to say of the token.
    pub annotations: Vec<(&'static str, String)>,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is none of those that the authenticator knows; another may know it.
    Unknown,
    /// It is one of them, but is not to be taken, for this reason.
    Refused(String),
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

/// No token is anybody's.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl TokenAuthenticator for NoTokens {
    fn authenticate(&self, _token: &str, _audiences: &[&str]) -> Result<TokenUser, TokenError> {
        Err(TokenError::Unknown)
    }
}

/// Makes tokens for service accounts.
pub trait TokenIssuer: Send + Sync {
    /// The audiences of tokens that are requested without one: those of this server.
    fn audiences(&self) -> &[SmolStr];

    /// The longest life of a token in seconds, where it is bounded.
    fn longest(&self) -> Option<i64>;

    /// Whether tokens for the pods of this server live for a year, so that clients that never read them again continue
    /// working.
    fn extends(&self) -> bool;

    /// The signed token.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String>;
}

/// A token that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// What distinguishes it from others, as the users who present it show it.
    pub credential: String,
}

/// What a token says of a service account.
#[derive(Clone, Debug)]
pub struct ServiceAccountToken<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The service account.
    pub account: BoundObject,
    /// The audiences of the token.
    pub audiences: &'a [SmolStr],
    /// From when on it is good.
    pub now: SystemTime,
    /// For how many seconds.
    pub seconds: i64,
    /// After how many seconds its use is reported, since the client should have requested another.
    pub warn_after: Option<i64>,
    /// The pod with whose end it ends.
    pub pod: Option<BoundObject>,
    /// The node with whose end it ends, or that the pod is on.
    pub node: Option<BoundObject>,
    /// The secret with whose end it ends.
    pub secret: Option<BoundObject>,
}

/// An object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The name.
    pub name: String,
    /// The uid; empty where it is not known.
    pub uid: String,
}

impl TokenIssuer for NoTokens {
    fn audiences(&self) -> &[SmolStr] {
        &[]
    }

    fn longest(&self) -> Option<i64> {
        None
    }

    fn extends(&self) -> bool {
        false
    }

    fn issue(&self, _token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String> {
        Err("this server makes no tokens".to_owned())
    }
}

/// What a step of a request may ask of access control.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// What users may do.
    pub authorizer: &'a dyn Authorizer,
    /// Whose tokens are.
    pub tokens: &'a dyn TokenAuthenticator,
    /// Who makes tokens for service accounts.
    pub issuer: &'a dyn TokenIssuer,
}

impl Access<'static> {
    /// Everybody may do everything and no token is known, for where access is not the question.
    pub const UNCHECKED: Self = Self {
        authorizer: &AlwaysAllow,
        tokens: &NoTokens,
        issuer: &NoTokens,
    };
}
