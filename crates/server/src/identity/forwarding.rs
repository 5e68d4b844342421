//! Headers of requests that this server forwards to another server.
//!
//! [`ForwardedHeaders::rewrite`] is the only place that turns the headers of a client into those of a forwarded
//! request. It removes the hop-by-hop headers first, because a client chooses their names in `Connection`, and sets the
//! headers that the other server trusts last.

use std::net::IpAddr;

use holdfast_authorization::User;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::front_proxy::{FrontProxy, RequestHeaders, UID, name_user};

/// The header that identifies a request in the audit logs of all servers that handle it.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The header that lists the addresses through which a request came.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header that passes the requested URI to the other server.
pub(crate) const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// The headers of answers that only this server sets.
const OF_ORIGIN: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// The prefix of the headers that request impersonation.
const IMPERSONATION_PREFIX: &str = "impersonate-";

/// The prefix of the headers that name a user.
const REMOTE_PREFIX: &str = "x-remote-";

/// Hop-by-hop headers (RFC 9110, section 7.6.1), in addition to those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Facts that this server states in the headers of a forwarded request.
pub(crate) struct ForwardedHeaders<'a> {
    /// User to name in the `X-Remote-*` headers. `None` for a server that does not know users, such as a kubelet.
    pub(crate) user: Option<&'a User>,
    /// True if the other server does not get the uid of the user.
    pub(crate) hides_uid: bool,
    /// Front proxies of this server, whose identity headers the client may not use either.
    pub(crate) front_proxy: Option<&'a FrontProxy>,
    /// Identifier of the request in audit logs.
    pub(crate) audit_id: &'a HeaderValue,
    /// Address of the client.
    pub(crate) peer: Option<IpAddr>,
    /// True if the connection switches to another protocol.
    pub(crate) is_upgrade: bool,
}

impl ForwardedHeaders<'_> {
    /// Turns the headers of a client into those of the forwarded request.
    ///
    /// # Errors
    /// If the name, a group or an extra of the user is not a valid header value.
    pub(crate) fn rewrite(&self, headers: &mut HeaderMap) -> Result<(), http::Error> {
        let protocols: Vec<HeaderValue> = headers.get_all(header::UPGRADE).iter().cloned().collect();
        let accepts_trailers = names_of(headers, &header::TE).any(|name| name == "trailers");
        remove_hop_by_hop_headers(headers);
        headers.remove(header::TRAILER);
        self.remove_credentials(headers);
        if accepts_trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        if self.is_upgrade {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            for protocol in protocols {
                headers.append(header::UPGRADE, protocol);
            }
        }
        if let Some(peer) = self.peer {
            append_forwarded_for(headers, peer);
        }
        headers.insert(AUDIT_ID, self.audit_id.clone());
        if let Some(user) = self.user {
            name_user(headers, user)?;
        }
        if self.hides_uid {
            headers.remove(UID);
        }
        Ok(())
    }

    /// Removes the headers by which the client authenticated, impersonated or named a user.
    fn remove_credentials(&self, headers: &mut HeaderMap) {
        headers.remove(header::AUTHORIZATION);
        headers.remove(header::HOST);
        RequestHeaders::standard().clear(headers);
        if let Some(front_proxy) = self.front_proxy {
            front_proxy.headers().clear(headers);
        }
        let impersonation = RequestHeaders {
            extra_prefixes: vec![IMPERSONATION_PREFIX.into()],
            ..RequestHeaders::default()
        };
        impersonation.clear(headers);
        let disguised: Vec<HeaderName> = headers.keys().filter(|name| is_disguised(name)).cloned().collect();
        for name in disguised {
            headers.remove(name);
        }
    }
}

/// Returns true if the header names a user once a server replaces underscores by hyphens, as gateways of CGI do.
fn is_disguised(name: &HeaderName) -> bool {
    name.as_str().contains('_') && {
        let plain = name.as_str().replace('_', "-");
        plain.starts_with(REMOTE_PREFIX) || plain.starts_with(IMPERSONATION_PREFIX)
    }
}

/// Removes the headers that concern a single connection.
pub(crate) fn remove_hop_by_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = names_of(headers, &header::CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Removes the headers of an answer by which only this server grants access to other origins.
pub(crate) fn remove_origin_headers(headers: &mut HeaderMap) {
    for name in OF_ORIGIN {
        headers.remove(name);
    }
}

/// Returns the comma-separated parts of a header, in lower case.
fn names_of(headers: &HeaderMap, list: &HeaderName) -> impl Iterator<Item = String> {
    let values = headers.get_all(list).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
}

/// Appends the address of the client to those that earlier proxies listed.
fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let mut addresses: Vec<u8> = Vec::new();
    for before in headers.get_all(FORWARDED_FOR) {
        addresses.extend_from_slice(before.as_bytes());
        addresses.extend_from_slice(b", ");
    }
    addresses.extend_from_slice(peer.to_canonical().to_string().as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&addresses) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ID: HeaderValue = HeaderValue::from_static("request-1");

    fn alice() -> User {
        User {
            name: "alice".into(),
            uid: "1".into(),
            groups: vec!["devs".into()],
            extra: vec![("scopes".into(), vec!["a".into()])],
        }
    }

    fn forwarded(user: Option<&User>) -> ForwardedHeaders<'_> {
        ForwardedHeaders {
            user,
            hides_uid: false,
            front_proxy: None,
            audit_id: &ID,
            peer: None,
            is_upgrade: false,
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn connection_header_cannot_remove_identity() {
        let mut sent = headers(&[
            ("connection", "X-Remote-User, x-remote-group, x-remote-uid"),
            ("connection", "x-remote-extra-scopes, audit-id, x-forwarded-for, accept"),
            ("accept", "*/*"),
        ]);
        let user = alice();
        let mut rule = forwarded(Some(&user));
        rule.peer = Some("10.0.0.1".parse().unwrap());
        rule.rewrite(&mut sent).unwrap();
        let expected = headers(&[
            ("x-forwarded-for", "10.0.0.1"),
            ("audit-id", "request-1"),
            ("x-remote-user", "alice"),
            ("x-remote-uid", "1"),
            ("x-remote-group", "devs"),
            ("x-remote-extra-scopes", "a"),
        ]);
        assert_eq!(sent, expected);
    }

    #[test]
    fn credentials_of_client_are_not_forwarded() {
        let mut sent = headers(&[
            ("authorization", "Bearer secret"),
            ("host", "localhost"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "b"),
            ("impersonate-user", "bob"),
            ("impersonate-extra-scopes", "c"),
            ("x_remote_user", "admin"),
            ("x-remote_extra-scopes", "b"),
            ("impersonate_user", "bob"),
            ("accept", "*/*"),
        ]);
        forwarded(None).rewrite(&mut sent).unwrap();
        assert_eq!(sent, headers(&[("accept", "*/*"), ("audit-id", "request-1")]));
    }

    #[test]
    fn upgrade_keeps_only_its_own_connection_option() {
        let mut sent = headers(&[
            ("connection", "keep-alive, Upgrade, x-remote-user"),
            ("upgrade", "SPDY/3.1"),
        ]);
        let user = User {
            name: "alice".into(),
            ..User::default()
        };
        let mut rule = forwarded(Some(&user));
        rule.is_upgrade = true;
        rule.rewrite(&mut sent).unwrap();
        let expected = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("audit-id", "request-1"),
            ("x-remote-user", "alice"),
        ]);
        assert_eq!(sent, expected);
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut sent = headers(&[
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("te", "trailers, deflate"),
            ("transfer-encoding", "chunked"),
            ("accept", "*/*"),
        ]);
        let mut answered = sent.clone();
        forwarded(None).rewrite(&mut sent).unwrap();
        let expected = headers(&[("accept", "*/*"), ("te", "trailers"), ("audit-id", "request-1")]);
        assert_eq!(sent, expected);
        remove_hop_by_hop_headers(&mut answered);
        assert_eq!(answered, headers(&[("accept", "*/*")]));
    }

    #[test]
    fn client_address_follows_earlier_proxies() {
        let mut sent = HeaderMap::new();
        append_forwarded_for(&mut sent, "::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(sent[FORWARDED_FOR], "10.0.0.1");
        sent.append(FORWARDED_FOR, HeaderValue::from_static("10.0.0.2, 10.0.0.3"));
        append_forwarded_for(&mut sent, "fd00::1".parse().unwrap());
        let hops: Vec<_> = sent.get_all(FORWARDED_FOR).iter().collect();
        assert_eq!(hops, ["10.0.0.1, 10.0.0.2, 10.0.0.3, fd00::1"]);
    }
}
