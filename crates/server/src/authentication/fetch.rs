//! Documents of issuers, over HTTPS.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holdfast_egress::Dialer;
use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderMap, LOCATION, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::runtime::Clock;
use crate::webhooks::{Connector, pool_error_text};

/// Time limit of a document.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a document in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of redirects, as in Go's client.
const MAX_REDIRECTS: usize = 10;

/// Maximum number of characters of a response that an error shows.
const SHOWN: usize = 200;

/// Lifetime of an idle connection.
const IDLE: Duration = Duration::from_secs(90);

/// Client of one issuer.
pub(super) struct Fetcher {
    pool: Pool<Connector, Empty<Bytes>>,
    clock: Arc<dyn Clock>,
}

/// A fetched document.
pub(super) struct Document {
    pub(super) body: Bytes,
    /// Time for which it may be cached.
    pub(super) lifetime: Duration,
}

impl Fetcher {
    /// Creates a client that trusts `authorities` in PEM, or those of the system, and connects through `dialer`.
    ///
    /// # Errors
    /// If there are no authorities.
    pub(super) fn new(
        authorities: Option<&str>,
        dialer: Option<&Dialer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let connector = Connector::new(authorities.map(str::as_bytes), None, None)?.through(dialer);
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { pool, clock })
    }

    /// Returns the document at `url`.
    ///
    /// # Errors
    /// If there is none within the limits of time and size.
    pub(super) async fn get(&self, url: &str) -> Result<Document, String> {
        let outcome = tokio::time::timeout(TIMEOUT, self.follow(url)).await;
        let document = outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        document.map_err(|why| format!("Get {url:?}: {why}"))
    }

    async fn follow(&self, url: &str) -> Result<Document, String> {
        let mut uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        for _ in 0..=MAX_REDIRECTS {
            if uri.scheme_str() != Some("https") {
                return Err(format!("{uri} is not an https URL"));
            }
            let request = Request::get(uri.clone())
                .header(ACCEPT, "application/json, */*")
                .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")))
                .body(Empty::new())
                .map_err(|error| error.to_string())?;
            let answer = self.pool.request(request).await;
            let (head, body) = answer.map_err(|error| pool_error_text(&error))?.into_parts();
            if head.status.is_redirection() {
                uri = target(&uri, &head.headers).ok_or("a redirect without a usable location")?;
                continue;
            }
            let collected = Limited::new(body, MAX_BYTES).collect().await;
            let body = collected.map_err(|error| error.to_string())?.to_bytes();
            return match head.status {
                StatusCode::OK => Ok(Document {
                    body,
                    lifetime: lifetime(&head.headers, self.clock.now()),
                }),
                status => Err(format!("{status}: {}", beginning(&body))),
            };
        }
        Err(format!("stopped after {MAX_REDIRECTS} redirects"))
    }
}

fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.char_indices()
        .nth(SHOWN)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(&text)
        .to_owned()
}

/// Returns the target of a redirect: an absolute URL, or an absolute path on the same server.
fn target(from: &Uri, headers: &HeaderMap) -> Option<Uri> {
    let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    if location.authority().is_some() {
        return Some(location);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(location.path_and_query()?.clone());
    Uri::from_parts(parts).ok()
}

/// Returns the time for which a shared cache may keep a response.
fn lifetime(headers: &HeaderMap, now: SystemTime) -> Duration {
    let directives: Vec<String> = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|directive| directive.trim().to_ascii_lowercase())
        .collect();
    let seconds = |name: &str| {
        let mut values = directives.iter().filter_map(|directive| directive.strip_prefix(name));
        values.find_map(|value| value.trim_matches('"').parse().ok())
    };
    if directives
        .iter()
        .any(|directive| directive == "no-store" || directive == "no-cache")
    {
        return Duration::ZERO;
    }
    if let Some(seconds) = seconds("s-maxage=").or_else(|| seconds("max-age=")) {
        return Duration::from_secs(seconds);
    }
    let expires = headers
        .get(EXPIRES)
        .and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
    let lifetime = expires.and_then(|expires| expires.duration_since(now).ok());
    lifetime.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;

    use super::*;
    use crate::runtime::SystemClock;

    #[test]
    fn lifetime_is_that_of_the_headers() {
        let seconds_of = |name: http::HeaderName, value: &'static str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            lifetime(&headers, UNIX_EPOCH).as_secs()
        };
        assert_eq!(seconds_of(CACHE_CONTROL, "public, Max-Age=60"), 60);
        assert_eq!(seconds_of(CACHE_CONTROL, "max-age=60, s-maxage=30"), 30);
        assert_eq!(seconds_of(CACHE_CONTROL, "max-age=60, no-store"), 0);
        assert_eq!(seconds_of(CACHE_CONTROL, "max-age=x"), 0);
        assert_eq!(seconds_of(EXPIRES, "Thu, 01 Jan 1970 00:01:00 GMT"), 60);
        assert_eq!(seconds_of(ACCEPT, "x"), 0);
    }

    #[test]
    fn redirects_lead_to_urls_and_paths() {
        let from: Uri = "https://a/b?c".parse().unwrap();
        let to = |location: &'static str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
            target(&from, &headers).map(|uri| uri.to_string())
        };
        assert_eq!(to("https://d/e").as_deref(), Some("https://d/e"));
        assert_eq!(to("/f?g").as_deref(), Some("https://a/f?g"));
        assert_eq!(target(&from, &HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn plain_http_is_rejected() {
        let fetcher = Fetcher::new(None, None, Arc::new(SystemClock));
        let Ok(fetcher) = fetcher else {
            assert!(fetcher.err().unwrap().contains("root certificates"));
            return;
        };
        let error = fetcher.get("http://localhost/keys").await.err().unwrap();
        assert_eq!(
            error,
            "Get \"http://localhost/keys\": http://localhost/keys is not an https URL"
        );
    }
}
