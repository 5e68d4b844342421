#![forbid(unsafe_code)]
//! The files of the page at `/ui`, and the answers to requests for them.
//!
//! The folder `ui` of the repository has the sources, `dist` the built files. The page talks to the API with the credentials of
//! its user; the files themselves contain nothing secret, so that no credentials are needed to read them.
//!
//! ```
//! use http::{HeaderMap, Method};
//!
//! let answer = holdfast_ui::respond(&Method::GET, "/ui/", &HeaderMap::new()).unwrap();
//! assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
//! assert!(holdfast_ui::respond(&Method::GET, "/api", &HeaderMap::new()).is_none());
//! ```

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

/// Path of the page. All files are below it.
pub const PATH: &str = "/ui";

/// Content-Security-Policy of the page: only its own files, no inline scripts and styles, no frames, and no HTML from strings.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of all answers.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    // Other pages of this origin, such as those of proxied Pods, get no reference to the window.
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "Accept-Encoding"),
];

/// File of the page.
struct File {
    name: &'static str,
    media_type: &'static str,
    etag: &'static str,
    gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the answer to a request for a file of the page; `None` for other paths and for methods that do not read.
pub fn respond(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
    let rest = path.strip_prefix(PATH)?;
    if method != Method::GET && method != Method::HEAD {
        return None;
    }
    if rest.is_empty() {
        return Some(redirect());
    }
    let name = match rest.strip_prefix('/')? {
        "" => "index.html",
        name => name,
    };
    let file = FILES.iter().find(|file| file.name == name)?;
    Some(file.answer(headers))
}

impl File {
    fn answer(&self, headers: &HeaderMap) -> Response<Bytes> {
        let is_unchanged = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|tag| matches!(tag.trim().trim_start_matches("W/"), tag if tag == self.etag || tag == "*"));
        let mut answer = answer_with(Bytes::new());
        answer
            .headers_mut()
            .insert(header::ETAG, HeaderValue::from_static(self.etag));
        if is_unchanged {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return answer;
        }
        let media_type = HeaderValue::from_static(self.media_type);
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        if accepts_gzip(headers) {
            let encoding = HeaderValue::from_static("gzip");
            answer.headers_mut().insert(header::CONTENT_ENCODING, encoding);
            *answer.body_mut() = Bytes::from_static(self.gzip);
            return answer;
        }
        let mut content = Vec::new();
        match GzDecoder::new(self.gzip).read_to_end(&mut content) {
            Ok(_) => *answer.body_mut() = content.into(),
            // The build has compressed the file, so this does not happen.
            Err(_) => *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
        answer
    }
}

/// Returns the answer for the path without its slash. The location is relative, for proxies that add a prefix.
fn redirect() -> Response<Bytes> {
    let mut answer = answer_with(Bytes::new());
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    answer
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_static("ui/"));
    answer
}

fn answer_with(body: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body);
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Returns true if the client accepts gzip.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameters.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|weight: f32| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    fn get(path: &str, headers: &HeaderMap) -> Response<Bytes> {
        respond(&Method::GET, path, headers).unwrap()
    }

    #[test]
    fn only_files_of_the_page_are_answered() {
        for path in ["/ui/", "/ui/index.html", "/ui/app.js", "/ui/app.css", "/ui/icon.svg"] {
            let answer = get(path, &HeaderMap::new());
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert!(!answer.body().is_empty(), "{path}");
        }
        for path in ["/uix", "/ui/other", "/ui/../api", "/ui//index.html", "/u", "/api"] {
            assert!(respond(&Method::GET, path, &HeaderMap::new()).is_none(), "{path}");
        }
        assert!(respond(&Method::POST, "/ui/", &HeaderMap::new()).is_none());
    }

    #[test]
    fn path_without_slash_redirects_below_any_prefix() {
        let answer = get("/ui", &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(answer.headers()[header::LOCATION], "ui/");
    }

    #[test]
    fn answer_has_strict_headers() {
        for path in ["/ui", "/ui/", "/ui/app.js"] {
            let answer = get(path, &HeaderMap::new());
            let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"));
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(answer.headers()[header::X_FRAME_OPTIONS], "DENY");
        }
    }

    #[test]
    fn known_version_is_not_sent_again() {
        let etag = get("/ui/app.js", &HeaderMap::new()).headers()[header::ETAG].clone();
        for value in [
            etag.to_str().unwrap().to_owned(),
            format!("\"x\", W/{}", etag.to_str().unwrap()),
        ] {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::try_from(value).unwrap())]);
            let answer = get("/ui/app.js", &headers);
            assert_eq!((answer.status(), answer.body().len()), (StatusCode::NOT_MODIFIED, 0));
            assert_eq!(get("/ui/app.css", &headers).status(), StatusCode::OK);
        }
    }

    #[test]
    fn file_is_compressed_if_the_client_accepts_it() {
        let plain = get("/ui/app.js", &HeaderMap::new());
        let packed = get("/ui/app.js", &headers(header::ACCEPT_ENCODING, "br, gzip;q=0.5"));
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        assert!(packed.body().len() * 2 < plain.body().len());
        let mut content = Vec::new();
        GzDecoder::new(&packed.body()[..]).read_to_end(&mut content).unwrap();
        assert_eq!(content, plain.body()[..]);
        let rejected = get("/ui/app.js", &headers(header::ACCEPT_ENCODING, "gzip;q=0, br"));
        assert!(!rejected.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[test]
    fn page_has_no_inline_code() {
        let answer = get("/ui/", &HeaderMap::new());
        let page = String::from_utf8(answer.body().to_vec()).unwrap();
        assert!(page.contains(r#"<script type="module" src="app.js"></script>"#));
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"));
    }
}
