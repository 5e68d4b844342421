//! URLs of requests that are passed on, and redirects that lead back through this server.

use std::fmt::Write as _;

use holdfast_resource::Destination;
use http::Uri;

use crate::http::ApiError;

/// Returns the authority of a destination.
pub(super) fn authority(destination: &Destination) -> String {
    let host = match destination.host.contains(':') {
        true => format!("[{}]", destination.host),
        false => destination.host.clone(),
    };
    match destination.port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// Returns the URL of a destination with `path`, which is not encoded, and `query`, which is.
///
/// # Errors
/// If the host is invalid.
pub(super) fn build(destination: &Destination, path: &str, query: &str) -> Result<Uri, ApiError> {
    let mut target = encode_path(path);
    if !query.is_empty() {
        target.push('?');
        target.push_str(query);
    }
    let scheme = if destination.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(authority(destination))
        .path_and_query(target);
    uri.build()
        .map_err(|error| ApiError::unavailable(format!("error trying to reach service: {error}")))
}

/// Returns the URL of a log or a command.
///
/// # Errors
/// If the host is invalid.
pub(super) fn of_kubelet(destination: &Destination) -> Result<Uri, ApiError> {
    build(destination, &destination.path, &encode_query(&destination.query))
}

/// Encodes a path as Go's `URL.EscapedPath` does.
pub(super) fn encode_path(path: &str) -> String {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    encode(path, stays)
}

/// Encodes parameters as Go's `Values.Encode` does, in the order of their names.
fn encode_query(parameters: &[(&'static str, String)]) -> String {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let mut sorted: Vec<_> = parameters.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let pairs: Vec<String> = sorted
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value, stays)))
        .collect();
    pairs.join("&")
}

fn encode(text: &str, stays: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match stays(byte) {
            true => encoded.push(char::from(byte)),
            false => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Origin of redirects that lead back through this server.
pub(super) struct Redirects<'a> {
    /// Authority of the other server.
    pub(super) backend: &'a str,
    /// Host that the client named.
    pub(super) client: &'a str,
    /// Path of this server before the path of the other server.
    pub(super) prefix: &'a str,
}

impl Redirects<'_> {
    /// Returns the location for the client: a path of the other server becomes a path of this server. Locations on other
    /// hosts, and relative ones, stay unchanged.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/proxy#Transport.rewriteURL
    pub(super) fn rewrite(&self, location: &str) -> String {
        let Some(parts) = Location::parse(location) else {
            return location.to_owned();
        };
        let is_elsewhere = !parts.host.is_empty() && parts.host != self.backend && parts.host != self.client;
        if is_elsewhere || !parts.path.starts_with('/') {
            return location.to_owned();
        }
        let path = match parts.path.starts_with(self.prefix) {
            true => parts.path.to_owned(),
            false => format!(
                "{}/{}",
                self.prefix.trim_end_matches('/'),
                parts.path.trim_start_matches('/')
            ),
        };
        let origin = if !parts.host.is_empty() && parts.host == self.client {
            parts.origin
        } else {
            ""
        };
        format!("{origin}{path}{}", parts.rest)
    }
}

/// Parts of a location.
struct Location<'a> {
    /// Scheme and authority, up to the path.
    origin: &'a str,
    host: &'a str,
    path: &'a str,
    /// Query and fragment.
    rest: &'a str,
}

impl<'a> Location<'a> {
    /// Splits a location; `None` for one without a hierarchy, such as `mailto:`.
    fn parse(location: &'a str) -> Option<Self> {
        let after_scheme = match location.find([':', '/', '?', '#']) {
            Some(at) if location.get(at..=at) == Some(":") => location.get(at + 1..)?,
            _ => location,
        };
        let has_scheme = after_scheme.len() < location.len();
        let (host, tail) = match after_scheme.strip_prefix("//") {
            Some(tail) => tail.split_at(tail.find(['/', '?', '#']).unwrap_or(tail.len())),
            None if has_scheme => return None,
            None => ("", after_scheme),
        };
        let (path, rest) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
        let origin = location.get(..location.len() - tail.len())?;
        Some(Self {
            origin,
            host,
            path,
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_resource::{BackendTls, ExchangeKind};

    use super::*;

    fn destination(host: &str, tls: Option<BackendTls>) -> Destination {
        Destination {
            tls,
            host: host.to_owned(),
            port: Some(10250),
            path: "/exec/n/p/c".to_owned(),
            query: vec![("output", "1".to_owned()), ("command", "a b&c".to_owned())],
            exchange: ExchangeKind::Log,
        }
    }

    #[test]
    fn url_of_kubelet_has_sorted_and_encoded_parameters() {
        let uri = of_kubelet(&destination("10.0.0.1", Some(BackendTls::Kubelet))).unwrap();
        assert_eq!(uri, "https://10.0.0.1:10250/exec/n/p/c?command=a%20b%26c&output=1");
        let uri = build(&destination("fd00::1", None), "/a b/%2f?", "x=%zz").unwrap();
        assert_eq!(uri, "http://[fd00::1]:10250/a%20b/%252f%3F?x=%zz");
        assert!(build(&destination("a b", None), "/", "").is_err());
    }

    #[test]
    fn redirect_to_other_server_leads_back_through_this_one() {
        let redirects = Redirects {
            backend: "10.0.0.1:80",
            client: "api:6443",
            prefix: "/api/v1/namespaces/n/pods/p/proxy",
        };
        for (location, expected) in [
            ("/a/?b#c", "/api/v1/namespaces/n/pods/p/proxy/a/?b#c"),
            ("http://10.0.0.1:80/a", "/api/v1/namespaces/n/pods/p/proxy/a"),
            ("//10.0.0.1:80/a", "/api/v1/namespaces/n/pods/p/proxy/a"),
            (
                "https://api:6443/a",
                "https://api:6443/api/v1/namespaces/n/pods/p/proxy/a",
            ),
            (
                "/api/v1/namespaces/n/pods/p/proxy/a",
                "/api/v1/namespaces/n/pods/p/proxy/a",
            ),
            ("https://elsewhere.example/a", "https://elsewhere.example/a"),
            ("a/b", "a/b"),
            ("mailto:a@b", "mailto:a@b"),
            ("http://10.0.0.1:80", "http://10.0.0.1:80"),
        ] {
            assert_eq!(redirects.rewrite(location), expected, "{location}");
        }
    }
}
