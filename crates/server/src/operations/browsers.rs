//! Headers for browsers: the pages that may read answers (`--cors-allowed-origins`), and the requirement to use TLS
//! only (`--strict-transport-security-directives`).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use regex::RegexSet;

/// The browser settings of the flags.
#[derive(Clone, Debug, Default)]
pub struct Browsers {
    /// The origins of pages that may read answers.
    pub origins: RegexSet,
    /// The value of the header `Strict-Transport-Security`.
    pub transport_security: Option<HeaderValue>,
}

/// The CORS headers, other than the allowed origin, for a page that may read answers.
const ALLOWED: [(HeaderName, &str); 4] = [
    (
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "POST, GET, OPTIONS, PUT, DELETE, PATCH",
    ),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
    (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
];

impl Browsers {
    /// Returns the origin of the requesting page, if it may read the answer.
    pub(super) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.origins.is_match(text).then(|| origin.clone())
    }

    /// Adds the requirement to use TLS only, if it is configured.
    pub(super) fn add_transport_security(&self, headers: &mut HeaderMap) {
        if let Some(directives) = &self.transport_security
            && !headers.contains_key(header::STRICT_TRANSPORT_SECURITY)
        {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, directives.clone());
        }
    }
}

/// Adds the permission for the page of `origin` to read the answer.
pub(super) fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in ALLOWED {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn answered(browsers: &Browsers, origin: &'static str) -> HeaderMap {
        let request = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
        let mut answer = HeaderMap::new();
        browsers.add_transport_security(&mut answer);
        if let Some(origin) = browsers.allowed_origin(&request) {
            allow_origin(&mut answer, origin);
        }
        answer
    }

    #[test]
    fn only_pages_of_the_origins_may_read_answers() {
        let browsers = Browsers {
            origins: RegexSet::new(["//example\\.com(:|$)"]).unwrap(),
            transport_security: None,
        };
        let answer = answered(&browsers, "https://example.com:8443");
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://example.com:8443");
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        assert!(answered(&browsers, "https://example.com.evil").is_empty());
        assert!(answered(&browsers, "").is_empty());
    }

    #[test]
    fn transport_security_is_said_once() {
        let browsers = Browsers {
            transport_security: Some(HeaderValue::from_static("max-age=1; preload")),
            ..Browsers::default()
        };
        assert_eq!(
            answered(&browsers, "https://a")[header::STRICT_TRANSPORT_SECURITY],
            "max-age=1; preload"
        );
        let mut own =
            HeaderMap::from_iter([(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=2"))]);
        browsers.add_transport_security(&mut own);
        assert_eq!(own[header::STRICT_TRANSPORT_SECURITY], "max-age=2");
    }
}
