//! The opening handshake of a WebSocket (RFC 6455, section 4.2), with the checks and words of the reference.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderName, StatusCode, Uri};

use crate::wire::body::{Response, ResponseBody};

/// The only supported version of the protocol.
pub(crate) const VERSION: &str = "13";

/// Suffix of the client's key, defined by RFC 6455.
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns true if a request asks for a WebSocket.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let names_upgrade = |connection: &str| {
        let mut options = connection.split(',').map(str::trim);
        options.any(|option| option.eq_ignore_ascii_case("upgrade"))
    };
    text(UPGRADE).is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
        && text(CONNECTION).is_some_and(names_upgrade)
}

/// Parts of the client's handshake that the response needs.
#[derive(Debug)]
pub(crate) struct Handshake {
    key: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// Reason why a handshake is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Status code of the response.
    pub(crate) code: StatusCode,
    /// Message to the client.
    pub(crate) why: &'static str,
}

impl Handshake {
    /// Reads the headers of a request for a WebSocket.
    ///
    /// # Errors
    /// If the key or the version is missing, if it offers more than one subprotocol, because the server chooses none,
    /// or if its origin is invalid.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Rejection> {
        let key = read_key(headers)?;
        let protocol = headers
            .get(SEC_WEBSOCKET_PROTOCOL)
            .filter(|protocol| !protocol.is_empty());
        if protocol.is_some_and(|protocol| protocol.as_bytes().contains(&b',')) {
            return Err(bad_request("missing or bad WebSocket-Protocol"));
        }
        Ok(Self {
            key,
            protocol: protocol.cloned(),
        })
    }

    /// Reads the headers of a request for a WebSocket, and chooses the first subprotocol that `supports` accepts; it is
    /// empty if the client offers none. Also returns the subprotocol.
    ///
    /// upstream: k8s.io/streaming/pkg/httpstream/wsstream#handshake
    ///
    /// # Errors
    /// If the handshake is invalid, or no subprotocol is supported.
    pub(crate) fn negotiate(headers: &HeaderMap, supports: impl Fn(&str) -> bool) -> Result<(Self, String), Rejection> {
        let key = read_key(headers)?;
        let mut offered = protocols(headers);
        if offered.is_empty() {
            offered.push(String::new());
        }
        let chosen = offered
            .into_iter()
            .find(|protocol| supports(protocol))
            .ok_or(Rejection {
                code: StatusCode::FORBIDDEN,
                why: "requested protocol(s) are not supported",
            })?;
        let protocol = Some(&chosen).filter(|chosen| !chosen.is_empty());
        let handshake = Self {
            key,
            protocol: protocol.and_then(|chosen| HeaderValue::from_str(chosen).ok()),
        };
        Ok((handshake, chosen))
    }

    /// Sets the subprotocol of the response.
    pub(crate) fn with_protocol(self, protocol: Option<HeaderValue>) -> Self {
        Self { protocol, ..self }
    }

    /// Returns the response, followed by `body`.
    pub(super) fn response(self, body: ResponseBody) -> Response {
        let mut answer = Response::new(body);
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = self.headers();
        answer
    }

    /// Returns the headers of the response.
    pub(crate) fn headers(self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value| headers.insert(name, value);
        add(UPGRADE, HeaderValue::from_static("websocket"));
        add(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_maybe_shared(Bytes::from(accept(self.key.as_bytes()))) {
            add(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = self.protocol {
            add(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        headers
    }
}

/// Returns the subprotocols that a client offers.
pub(crate) fn protocols(headers: &HeaderMap) -> Vec<String> {
    let header = headers
        .get(SEC_WEBSOCKET_PROTOCOL)
        .and_then(|value| value.to_str().ok());
    let offered = header.unwrap_or_default().split(',').map(str::trim);
    offered
        .filter(|protocol| !protocol.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// Returns the key of the client, after the checks that apply to every handshake.
fn read_key(headers: &HeaderMap) -> Result<HeaderValue, Rejection> {
    let stated = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
    let key = stated.ok_or(bad_request("mismatch challenge/response"))?;
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != VERSION)
    {
        return Err(bad_request("missing or bad WebSocket Version"));
    }
    check_origin(headers)?;
    Ok(key.clone())
}

fn bad_request(why: &'static str) -> Rejection {
    Rejection {
        code: StatusCode::BAD_REQUEST,
        why,
    }
}

/// Rejects an origin that is not a URL. Any URL is accepted, as in the reference; a client that is not a browser sends
/// none.
fn check_origin(headers: &HeaderMap) -> Result<(), Rejection> {
    let Some(origin) = headers.get(ORIGIN).filter(|origin| !origin.is_empty()) else {
        return Ok(());
    };
    let address = Uri::try_from(origin.as_bytes());
    if address.is_ok_and(|address| address.scheme().is_some() || address.path().starts_with('/')) {
        return Ok(());
    }
    Err(Rejection {
        code: StatusCode::FORBIDDEN,
        why: "invalid origin",
    })
}

/// Computes the proof that the key was read.
fn accept(key: &[u8]) -> String {
    let joined = [key, SUFFIX.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_key_is_answered_as_the_rfc_says() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_handshake_needs_key_version_and_one_protocol_at_most() {
        let key = (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==");
        let version = (SEC_WEBSOCKET_VERSION, VERSION);
        let read = |pairs: &[(HeaderName, &'static str)]| {
            Handshake::read(&headers(pairs)).map_err(|rejection| rejection.code.as_u16())
        };
        assert!(read(&[key.clone(), version.clone(), (ORIGIN, "https://example.org")]).is_ok());
        assert!(read(&[key.clone(), version.clone()]).is_ok());
        assert_eq!(read(std::slice::from_ref(&key)).unwrap_err(), 400);
        assert_eq!(read(std::slice::from_ref(&version)).unwrap_err(), 400);
        assert_eq!(
            read(&[key.clone(), version.clone(), (SEC_WEBSOCKET_PROTOCOL, "a, b")]).unwrap_err(),
            400
        );
        assert_eq!(read(&[key, version, (ORIGIN, "null")]).unwrap_err(), 403);
    }

    #[test]
    fn first_supported_protocol_is_chosen() {
        let choose = |offered: &'static str| {
            let headers = headers(&[
                (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
                (SEC_WEBSOCKET_VERSION, VERSION),
                (SEC_WEBSOCKET_PROTOCOL, offered),
            ]);
            let negotiated = Handshake::negotiate(&headers, |protocol| matches!(protocol, "" | "a" | "b"));
            negotiated.map(|(handshake, chosen)| (handshake.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned(), chosen))
        };
        let (header, chosen) = choose("x, b, a").unwrap();
        assert_eq!((header.unwrap().to_str().unwrap(), chosen.as_str()), ("b", "b"));
        assert_eq!(choose("").unwrap(), (None, String::new()));
        assert_eq!(choose("x").unwrap_err().code, StatusCode::FORBIDDEN);
    }

    #[test]
    fn websocket_request_needs_both_headers() {
        let wanted = |connection, upgrade| is_requested(&headers(&[(CONNECTION, connection), (UPGRADE, upgrade)]));
        assert!(wanted("keep-alive, Upgrade", "WebSocket"));
        assert!(!wanted("keep-alive", "websocket"));
        assert!(!wanted("upgraded", "websocket"));
        assert!(!wanted("upgrade", "SPDY/3.1"));
    }
}
