#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Users from the tokens (JWTs) of other issuers
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration>).
//!
//! An [`AuthenticationConfiguration`] is read from a file and validated; each of its issuers becomes a
//! [`JwtAuthenticator`], which checks a token against the [`KeySet`] of the issuer and maps the claims of the token to
//! a user.
//!
//! Invariant: this crate does no I/O. The server fetches the keys.

mod claims;
mod configuration;
mod expressions;
mod jws;
mod jwt;
mod keys;
mod reading;
pub mod strict;
mod validation;

pub use configuration::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimOrExpression, ClaimValidationRule, ExtraMapping,
    Issuer, JwtConfig, PrefixedClaimOrExpression, UserValidationRule,
};
pub use jws::Algorithm;
pub use jwt::{JwtAuthenticator, ReceivedToken};
pub use keys::KeySet;
pub use strict::ReadError;
pub use validation::{Compiled, Validated, validate};
