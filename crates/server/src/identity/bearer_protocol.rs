//! Bearer tokens of browsers, which cannot set headers for WebSockets: a subprotocol holds the token
//! (`base64url.bearer.authorization.k8s.io.<token>`), next to another one that the response can name.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};

use crate::http::ApiError;
use crate::wire::websocket;

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Token among the subprotocols of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BearerProtocol {
    /// The token.
    pub(crate) token: String,
    others: HeaderValue,
}

impl BearerProtocol {
    /// Reads the token; `None` if the request is not for a WebSocket or holds no token.
    ///
    /// # Errors
    /// If the token cannot be decoded, is not the only one, or is the only subprotocol (401).
    pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        if !websocket::is_requested(headers) {
            return Ok(None);
        }
        let (mut tokens, mut others) = (Vec::new(), Vec::new());
        for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
            let text = value.to_str().map_err(|_| ApiError::unauthorized())?;
            for protocol in text.split(',').map(str::trim) {
                match protocol.strip_prefix(PREFIX) {
                    Some(encoded) => tokens.push(encoded),
                    None => others.push(protocol),
                }
            }
        }
        let [encoded] = tokens.as_slice() else {
            return if tokens.is_empty() {
                Ok(None)
            } else {
                Err(ApiError::unauthorized())
            };
        };
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let token = text.filter(|_| !others.is_empty()).ok_or_else(ApiError::unauthorized)?;
        let others = HeaderValue::from_str(&others.join(",")).map_err(|_| ApiError::unauthorized())?;
        Ok(Some(Self { token, others }).filter(|found| !found.token.is_empty()))
    }

    /// Keeps only the other subprotocols in the headers, so that no later handler sees the token.
    pub(crate) fn remove_from(self, headers: &mut HeaderMap) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, self.others);
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, UPGRADE};

    use super::*;

    fn headers(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocol).unwrap());
        }
        headers
    }

    #[test]
    fn the_token_is_taken_out_of_the_subprotocols() {
        let encoded = URL_SAFE_NO_PAD.encode("secret");
        let mut headers = headers(&["a", &format!("{PREFIX}{encoded}, b")]);
        let found = BearerProtocol::read(&headers).unwrap().unwrap();
        assert_eq!(found.token, "secret");
        found.remove_from(&mut headers);
        let left: Vec<_> = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().collect();
        assert_eq!(left, ["a,b"]);
        headers.remove(UPGRADE);
        assert_eq!(BearerProtocol::read(&headers).unwrap(), None);
    }

    #[test]
    fn tokens_that_cannot_be_read_are_refused() {
        let token = |token: &str| format!("{PREFIX}{token}");
        for protocols in [
            vec![token("c2VjcmV0")],
            vec![token("c2VjcmV0"), token("c2VjcmV0"), "a".to_owned()],
            vec![token("c2VjcmV0="), "a".to_owned()],
            vec![token("_w"), "a".to_owned()],
        ] {
            let texts: Vec<&str> = protocols.iter().map(String::as_str).collect();
            assert_eq!(
                BearerProtocol::read(&headers(&texts)).unwrap_err().code(),
                401,
                "{protocols:?}"
            );
        }
        assert_eq!(BearerProtocol::read(&headers(&[&token(""), "a"])).unwrap(), None);
        assert_eq!(BearerProtocol::read(&headers(&["a"])).unwrap(), None);
    }
}
