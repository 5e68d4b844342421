//! Bootstrap tokens: Secrets in `kube-system` of the type `bootstrap.kubernetes.io/token`, with which new nodes request
//! their certificate (<https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/>).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_authorization::User;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_resource::access::{TokenAuthenticator, TokenError, TokenUser};
use holdfast_value::Value;
use smol_str::SmolStr;

use super::authenticated;
use super::service_accounts::{AccountsContext, core_resource};
use super::tokens::valid_audiences;
use crate::objects::{self, Store};
use crate::runtime::Clock;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Group of all users of bootstrap tokens.
const GROUP: &str = "system:bootstrappers";
/// Prefix of their other groups.
const GROUP_PREFIX: &str = "system:bootstrappers:";
/// Maximum length of a group's name after the prefix, in bytes.
const MAX_GROUP_BYTES: usize = 256;

/// Authenticator of bootstrap tokens.
pub struct BootstrapTokens {
    audiences: Vec<SmolStr>,
    secrets: Option<Arc<Resource>>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
}

impl BootstrapTokens {
    /// Accepts bootstrap tokens for `audiences`, those of this server.
    pub fn new(audiences: Vec<SmolStr>, context: &AccountsContext) -> Self {
        Self {
            audiences,
            secrets: core_resource(&context.registry.load(), "secrets"),
            store: Arc::clone(&context.store),
            clock: Arc::clone(&context.clock),
        }
    }

    fn secret(&self, id: &str) -> Option<Value> {
        let storage = self.secrets.as_ref()?.storage.as_ref()?;
        let key = storage.key(NAMESPACE, &format!("bootstrap-token-{id}"));
        let snapshot = self.store.snapshot();
        objects::readable(snapshot.get(key.as_bytes())?)
    }
}

impl TokenAuthenticator for BootstrapTokens {
    /// upstream: plugin/pkg/auth/authenticator/token/bootstrap#TokenAuthenticator.AuthenticateToken
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError> {
        let parts = split(token).ok_or(TokenError::Unknown)?;
        let secret = self.secret(parts.id).ok_or(TokenError::Unknown)?;
        let groups = check(&secret, &parts, self.clock.now()).map_err(|why| {
            tracing::debug!(id = parts.id, why, "bootstrap token is not accepted");
            TokenError::Unknown
        })?;
        let valid = valid_audiences(&self.audiences, audiences)?;
        let user = User {
            name: format!("system:bootstrap:{}", parts.id).into(),
            groups,
            ..User::default()
        };
        Ok(TokenUser {
            user: Arc::new(authenticated(user)),
            audiences: valid,
            annotations: Vec::new(),
            warning: None,
        })
    }
}

/// Parts of a bootstrap token.
struct TokenParts<'t> {
    id: &'t str,
    secret: &'t str,
}

/// Splits a token such as `abcdef.0123456789abcdef`. Returns `None` for other texts.
fn split(token: &str) -> Option<TokenParts<'_>> {
    let (id, secret) = token.split_once('.')?;
    let is_word = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
    };
    (is_word(id, 6) && is_word(secret, 16)).then_some(TokenParts { id, secret })
}

/// Returns the groups of the token's user, or the reason why the Secret does not accept the token.
fn check(secret: &Value, token: &TokenParts<'_>, now: SystemTime) -> Result<Vec<SmolStr>, &'static str> {
    if secret.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Err("its secret is deleted and awaiting removal");
    }
    if secret.str_at(&["type"]) != Some(SECRET_TYPE) {
        return Err("its secret has another type");
    }
    if verify_slices_are_equal(&data(secret, "token-secret"), token.secret.as_bytes()).is_err() {
        return Err("it has another token-secret");
    }
    if data(secret, "token-id") != token.id.as_bytes() {
        return Err("it has another token-id");
    }
    if has_expired(&data(secret, "expiration"), now) {
        return Err("it has expired");
    }
    if data(secret, "usage-bootstrap-authentication") != b"true" {
        return Err("it is not for authentication");
    }
    groups(&data(secret, "auth-extra-groups")).ok_or("its groups are invalid")
}

/// Returns the decoded value of a key of the Secret; empty if there is none.
fn data(secret: &Value, key: &str) -> Vec<u8> {
    let encoded = secret.str_at(&["data", key]).unwrap_or_default();
    STANDARD.decode(encoded).unwrap_or_default()
}

/// True if the token has expired, or if its expiration cannot be parsed.
///
/// upstream: k8s.io/cluster-bootstrap/util/secrets#GetExpiration
fn has_expired(expiration: &[u8], now: SystemTime) -> bool {
    if expiration.is_empty() {
        return false;
    }
    let text = std::str::from_utf8(expiration).ok();
    let time = text.and_then(|text| Timestamp::parse(text, Precision::Seconds).ok());
    time.is_none_or(|time| SystemTime::from(time) <= now)
}

/// Returns the groups of a token with these extra groups, without duplicates, in their order. Returns `None` if one is
/// invalid.
///
/// upstream: k8s.io/cluster-bootstrap/util/secrets#GetGroups
fn groups(extra: &[u8]) -> Option<Vec<SmolStr>> {
    let mut groups = BTreeSet::from([SmolStr::new_static(GROUP)]);
    if !extra.is_empty() {
        for group in std::str::from_utf8(extra).ok()?.split(',') {
            if !is_group(group) {
                return None;
            }
            groups.insert(SmolStr::new(group));
        }
    }
    Some(groups.into_iter().collect())
}

/// upstream: k8s.io/cluster-bootstrap/token/util#ValidateBootstrapGroupName
fn is_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(GROUP_PREFIX) else {
        return false;
    };
    let is_alphanumeric = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let bytes = rest.as_bytes();
    bytes.len() <= MAX_GROUP_BYTES
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes
            .iter()
            .all(|byte| is_alphanumeric(byte) || matches!(byte, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    /// Returns a Secret for [`TOKEN`] with these changes of its data; an empty value removes a key.
    fn secret(changes: &[(&str, &str)]) -> Value {
        let mut secret = Value::empty_map();
        secret.set_at(&["type"], SECRET_TYPE.into());
        let usual = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ];
        for (key, value) in usual.iter().chain(changes) {
            match *value {
                "" => drop(secret.remove_at(&["data", key])),
                value => secret.set_at(&["data", key], STANDARD.encode(value).into()),
            }
        }
        secret
    }

    fn ask(secret: &Value) -> Result<Vec<SmolStr>, &'static str> {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        check(secret, &split(TOKEN).unwrap(), now)
    }

    #[test]
    fn only_texts_of_the_form_are_tokens() {
        for text in [
            "",
            "abcdef",
            "abcdef.",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde",
            "Abcdef.0123456789abcdef",
            "abcdef.0123456789abcdef.x",
            "abcdef.0123456789abcdeé",
        ] {
            assert!(split(text).is_none(), "{text}");
        }
        assert!(split(TOKEN).is_some());
    }

    #[test]
    fn secret_names_the_groups_of_its_token() {
        assert_eq!(ask(&secret(&[])).unwrap(), ["system:bootstrappers"]);
        let extra = "system:bootstrappers:z,system:bootstrappers:a:b-1,system:bootstrappers:z";
        assert_eq!(
            ask(&secret(&[("auth-extra-groups", extra)])).unwrap(),
            [
                "system:bootstrappers",
                "system:bootstrappers:a:b-1",
                "system:bootstrappers:z"
            ]
        );
        for group in [
            "system:masters",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:A",
        ] {
            let refused = ask(&secret(&[("auth-extra-groups", group)]));
            assert_eq!(refused.unwrap_err(), "its groups are invalid", "{group}");
        }
        let longest = format!("{GROUP_PREFIX}{}", "a".repeat(MAX_GROUP_BYTES));
        assert!(is_group(&longest) && !is_group(&format!("{longest}a")));
    }

    #[test]
    fn other_secrets_do_not_accept_the_token() {
        for (key, value, why) in [
            ("token-secret", "0123456789abcdee", "it has another token-secret"),
            ("token-secret", "", "it has another token-secret"),
            ("token-id", "abcdee", "it has another token-id"),
            ("usage-bootstrap-authentication", "True", "it is not for authentication"),
            ("usage-bootstrap-authentication", "", "it is not for authentication"),
            ("expiration", "2023-11-14T22:13:20Z", "it has expired"),
            ("expiration", "tomorrow", "it has expired"),
        ] {
            assert_eq!(ask(&secret(&[(key, value)])).unwrap_err(), why, "{key}={value}");
        }
        assert!(ask(&secret(&[("expiration", "2023-11-15T00:13:21+02:00")])).is_ok());
        let mut other = secret(&[]);
        other.set_at(&["type"], "Opaque".into());
        assert_eq!(ask(&other).unwrap_err(), "its secret has another type");
        let mut deleted = secret(&[]);
        deleted.set_at(&["metadata", "deletionTimestamp"], "2023-01-01T00:00:00Z".into());
        assert_eq!(ask(&deleted).unwrap_err(), "its secret is deleted and awaiting removal");
    }
}
