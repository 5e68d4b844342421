//! Filters of the headers for browsers and caches.

use http::Method;
use http::header::{self, HeaderValue};

use super::{Completion, Exchange, Filter, Step};
use crate::http::response::{self, Response};
use crate::operations::browsers::{Browsers, allow_origin};

/// Filter that tells browsers to use TLS only, if this is configured.
pub(super) struct WithTransportSecurity<'a> {
    pub(super) browsers: Option<&'a Browsers>,
}

impl Filter for WithTransportSecurity<'_> {
    fn response<'f>(&'f self, _exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(browsers) = self.browsers {
            browsers.add_transport_security(response.headers_mut());
        }
        Completion::Done
    }
}

/// Filter that forbids caching, unless the handler allows it.
pub(super) struct WithCacheControl;

impl Filter for WithCacheControl {
    fn response<'f>(&'f self, _exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        let headers = response.headers_mut();
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
        Completion::Done
    }
}

/// Filter that lets the pages of configured origins read answers, and answers their preflight requests.
pub(super) struct WithCors<'a> {
    pub(super) browsers: Option<&'a Browsers>,
}

impl Filter for WithCors<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let Some(browsers) = self.browsers else {
            return Step::Pass;
        };
        exchange.origin = browsers.allowed_origin(&exchange.head.headers);
        match exchange.origin.is_some() && exchange.head.method == Method::OPTIONS {
            true => Step::answer(response::no_content()),
            false => Step::Pass,
        }
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(origin) = exchange.origin.take() {
            allow_origin(response.headers_mut(), origin);
        }
        Completion::Done
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, STRICT_TRANSPORT_SECURITY};
    use regex::RegexSet;

    use super::super::testing::{Reply, exchange, with_header};
    use super::*;

    const ORIGIN: &str = "https://example.com";

    fn browsers() -> Browsers {
        Browsers {
            origins: RegexSet::new(["//example\\.com$"]).unwrap(),
            transport_security: Some(HeaderValue::from_static("max-age=1")),
        }
    }

    #[tokio::test]
    async fn preflight_of_allowed_origin_reaches_no_handler() {
        let browsers = browsers();
        let handler = Reply::UNREACHABLE.behind(WithCors {
            browsers: Some(&browsers),
        });
        let answer = handler
            .handle(&mut with_header("OPTIONS", "/api", "origin", ORIGIN))
            .await;
        assert_eq!(answer.status(), 204);
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], ORIGIN);
    }

    #[tokio::test]
    async fn page_of_other_origin_is_not_allowed_to_read() {
        let browsers = browsers();
        let handler = Reply::OK.behind(WithCors {
            browsers: Some(&browsers),
        });
        let allows = async |origin| {
            let answer = handler.handle(&mut with_header("GET", "/api", "origin", origin)).await;
            answer.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
        };
        assert!(allows(ORIGIN).await);
        assert!(!allows("https://other.com").await);
        let unconfigured = Reply::OK.behind(WithCors { browsers: None });
        let answer = unconfigured
            .handle(&mut with_header("OPTIONS", "/api", "origin", ORIGIN))
            .await;
        assert_eq!(answer.status(), 200, "the handler answers");
    }

    #[tokio::test]
    async fn answers_have_the_configured_transport_security() {
        let browsers = browsers();
        for (browsers, is_set) in [(Some(&browsers), true), (None, false)] {
            let handler = Reply::OK.behind(WithTransportSecurity { browsers });
            let answer = handler.handle(&mut exchange("GET", "/livez")).await;
            assert_eq!(answer.headers().contains_key(STRICT_TRANSPORT_SECURITY), is_set);
        }
    }

    #[tokio::test]
    async fn answer_is_not_cached_unless_its_handler_allows_it() {
        let handler = Reply::OK.behind(WithCacheControl);
        let answer = handler.handle(&mut exchange("GET", "/livez")).await;
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache, private");
        let handler = Reply::CACHED.behind(WithCacheControl);
        let answer = handler.handle(&mut exchange("GET", "/keys")).await;
        assert_eq!(answer.headers()[CACHE_CONTROL], "public");
    }
}
