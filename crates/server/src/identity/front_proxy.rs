//! Users that a front proxy names in headers; the certificate of the proxy authorizes it
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy>).

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use holdfast_authorization::User;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use smol_str::SmolStr;

use super::authenticated;
use super::certificate::{ClientCertificate, common_name};
use crate::http::ApiError;
use crate::http::headers::exact;
use crate::http::query;
use crate::wire::client_authorities::ClientAuthorities;

/// Headers in which a front proxy names users. Of several headers for a user name or a uid, the first that is present
/// counts; all groups and extras count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Headers of user names.
    pub usernames: Vec<HeaderName>,
    /// Headers of uids.
    pub uids: Vec<HeaderName>,
    /// Headers of groups.
    pub groups: Vec<HeaderName>,
    /// Prefixes of the headers of extras, in lower case.
    pub extra_prefixes: Vec<SmolStr>,
}

/// Names of the user headers among API servers.
const USER: HeaderName = HeaderName::from_static("x-remote-user");
/// Header in which API servers pass on the uid of a user.
pub(super) const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

impl RequestHeaders {
    /// Returns the headers that API servers use among themselves.
    pub fn standard() -> Self {
        Self {
            usernames: vec![USER],
            uids: vec![UID],
            groups: vec![GROUP],
            extra_prefixes: vec![SmolStr::new_static(EXTRA)],
        }
    }

    /// Removes all of them from `headers`.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        for name in self.usernames.iter().chain(&self.uids).chain(&self.groups) {
            headers.remove(name);
        }
        for prefix in &self.extra_prefixes {
            let extras: Vec<HeaderName> = headers.keys().filter(|name| begins(name, prefix)).cloned().collect();
            for name in extras {
                headers.remove(name);
            }
        }
    }

    /// Returns the user that `headers` name, if they name one.
    fn user(&self, headers: &HeaderMap) -> Result<Option<User>, ApiError> {
        let first = |names: &[HeaderName]| -> Result<SmolStr, ApiError> {
            for name in names {
                let value = headers.get(name).filter(|value| !value.is_empty());
                if let Some(value) = value {
                    return Ok(exact(name.as_str(), value)?.into());
                }
            }
            Ok(SmolStr::default())
        };
        let name = first(&self.usernames)?;
        if name.is_empty() {
            return Ok(None);
        }
        let mut user = User {
            name,
            uid: first(&self.uids)?,
            ..User::default()
        };
        for of_groups in &self.groups {
            for group in headers.get_all(of_groups).iter().filter(|group| !group.is_empty()) {
                user.groups.push(exact(of_groups.as_str(), group)?.into());
            }
        }
        for prefix in &self.extra_prefixes {
            for (name, value) in headers.iter().filter(|(name, _)| begins(name, prefix)) {
                let encoded = name.as_str().get(prefix.len()..).unwrap_or_default();
                // A key with broken escapes is used unchanged.
                let key = query::decode_lossy(encoded).map_or_else(|| encoded.into(), SmolStr::from);
                let value = SmolStr::new(exact(name.as_str(), value)?);
                match user.extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, values)) => values.push(value),
                    None => user.extra.push((key, vec![value])),
                }
            }
        }
        Ok(Some(user))
    }
}

/// Returns true if a header name starts with `prefix`; header names are in lower case.
fn begins(name: &HeaderName, prefix: &str) -> bool {
    name.as_str().starts_with(prefix)
}

/// Names a user in the headers that API servers use among themselves, and replaces the user that they name.
///
/// # Errors
/// If headers cannot express the user.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), http::Error> {
    RequestHeaders::standard().clear(headers);
    headers.insert(USER, HeaderValue::from_bytes(user.name.as_bytes())?);
    if !user.uid.is_empty() {
        headers.insert(UID, HeaderValue::from_bytes(user.uid.as_bytes())?);
    }
    for group in &user.groups {
        headers.append(GROUP, HeaderValue::from_bytes(group.as_bytes())?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{EXTRA}{}", escaped(key)).as_bytes())?;
        for value in values {
            headers.append(name.clone(), HeaderValue::from_bytes(value.as_bytes())?);
        }
    }
    Ok(())
}

/// Escapes the key of an extra for the name of a header.
fn escaped(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if plain {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Proxies that may name users.
pub struct FrontProxy {
    authorities: ArcSwap<ClientAuthorities>,
    /// Allowed common names of their certificates; empty for any.
    allowed: Vec<SmolStr>,
    headers: RequestHeaders,
}

impl fmt::Debug for FrontProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxy")
            .field("allowed", &self.allowed)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl FrontProxy {
    /// Trusts proxies with certificates of `authorities` and one of the common names `allowed`; an empty list allows
    /// any name.
    pub fn new(authorities: ClientAuthorities, allowed: Vec<SmolStr>, headers: RequestHeaders) -> Arc<Self> {
        Arc::new(Self {
            authorities: ArcSwap::from_pointee(authorities),
            allowed,
            headers,
        })
    }

    /// Trusts the certificates of `authorities` from now on.
    pub fn trust(&self, authorities: ClientAuthorities) {
        self.authorities.store(Arc::new(authorities));
    }

    /// Returns the headers that name users.
    pub(crate) fn headers(&self) -> &RequestHeaders {
        &self.headers
    }

    /// Returns the meaning of the certificates that a client presents; `otherwise` if it is no proxy.
    pub(crate) fn judge(
        &self,
        otherwise: ClientCertificate,
        certificates: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> ClientCertificate {
        let Some((own, between)) = certificates.split_first() else {
            return otherwise;
        };
        let Ok(until) = self.authorities.load().verify(own, between, now) else {
            return otherwise;
        };
        let allowed = self.allowed.is_empty() || common_name(own).is_some_and(|name| self.allowed.contains(&name));
        match allowed {
            true => ClientCertificate::FrontProxy(until, Box::new(otherwise)),
            false => otherwise,
        }
    }

    /// Returns the user that a proxy names, if it names one. Removes the headers that name the user.
    ///
    /// # Errors
    /// If the headers cannot be read (400).
    pub(crate) fn user(&self, headers: &mut HeaderMap) -> Result<Option<Arc<User>>, ApiError> {
        let Some(user) = self.headers.user(headers)? else {
            return Ok(None);
        };
        self.headers.clear(headers);
        Ok(Some(Arc::new(authenticated(user))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_name_a_user_with_groups_and_extras() {
        let named = headers(&[
            ("x-remote-user", "alice"),
            ("x-remote-uid", "1"),
            ("x-remote-group", "devs"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-a.example%2fkey", "1"),
            ("x-remote-extra-a.example%2fkey", "2"),
        ]);
        let user = RequestHeaders::standard().user(&named).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "1"));
        assert_eq!(user.groups, ["devs", "ops"]);
        assert_eq!(user.extra, [("a.example/key".into(), vec!["1".into(), "2".into()])]);
        let anonymous = headers(&[("x-remote-user", ""), ("x-remote-group", "devs")]);
        assert!(RequestHeaders::standard().user(&anonymous).unwrap().is_none());
    }

    #[test]
    fn user_named_to_another_server_is_read_unchanged() {
        let user = User {
            name: "alice".into(),
            uid: "1".into(),
            groups: vec!["devs".into()],
            extra: vec![("a.example/key".into(), vec!["ü".into()])],
        };
        let mut sent = headers(&[
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-b", "1"),
            ("accept", "*/*"),
        ]);
        name_user(&mut sent, &user).unwrap();
        assert_eq!(RequestHeaders::standard().user(&sent).unwrap(), Some(user));
        RequestHeaders::standard().clear(&mut sent);
        assert_eq!(sent, headers(&[("accept", "*/*")]));
        let broken = User {
            name: "a\nb".into(),
            ..User::default()
        };
        assert!(name_user(&mut sent, &broken).is_err());
    }
}
