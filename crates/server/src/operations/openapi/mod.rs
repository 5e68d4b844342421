//! `/openapi/v2` and `/openapi/v3`: the schemas of everything that is served, for clients that validate or explain
//! objects (<https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition>).
//!
//! Documents are large and seldom requested: each is built at its first request and kept compressed. Concurrent answers
//! with the same document share its bytes, in each form. The hashes by which clients cache the documents are computed
//! from their sources, so that the index needs no document.

mod cache;
mod parts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use holdfast_value::{Limits, json};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response as HttpResponse, StatusCode};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha512};

use self::cache::{DocumentCache, DocumentKey, Encoding, Form};
use self::parts::{Joined, Messages, Parts};
use crate::http::ApiError;
use crate::http::headers;
use crate::http::negotiation;
use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::wire::body::ResponseBody;

pub use holdfast_aggregation::DocumentSource;

/// The documents of a [`DocumentSource`].
pub struct OpenApi {
    source: Arc<dyn DocumentSource>,
    cache: Mutex<DocumentCache>,
    /// A lock for building documents: one at a time, so that concurrent requests for the same document wait for it.
    making: tokio::sync::Mutex<()>,
    /// The last sent index.
    index: Mutex<Bytes>,
}

/// The time for which clients may cache a document that they request by its hash, which never changes.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

const JSON: &str = "application/json";

/// The media types in which the document of version 2 can be requested, each with the encoding and the content type of
/// the answer.
const VERSION_2_TYPES: [(&str, Encoding, &str); 3] = [
    (JSON, Encoding::Json, JSON),
    (
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        Encoding::Protobuf,
        PROTOBUF,
    ),
    (PROTOBUF, Encoding::Protobuf, PROTOBUF),
];

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The media types in which a document of version 3 can be requested, in the same form.
const VERSION_3_TYPES: [(&str, Encoding, &str); 3] = [
    (JSON, Encoding::Json, JSON),
    (PROTOBUF_3, Encoding::Protobuf, PROTOBUF_3),
    (
        "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
        Encoding::Protobuf,
        PROTOBUF_3,
    ),
];

const PROTOBUF_3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

impl OpenApi {
    /// Creates the documents of `source`.
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        Self {
            source,
            cache: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            index: Mutex::default(),
        }
    }

    /// Returns true if the source has a document of version 3 of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.source.fingerprint_3(name).is_some()
    }

    /// Returns the answer at `path`, if it is a path of OpenAPI. `now` is the time of day.
    ///
    /// # Errors
    /// 500 if a document cannot be built.
    pub async fn respond(
        self: &Arc<Self>,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Response>, ApiError> {
        match path {
            "/openapi/v2" => {
                let Some((_, encoding, content_type)) = accepted(headers, &VERSION_2_TYPES) else {
                    return Ok(Some(rejected(StatusCode::NOT_ACCEPTABLE)));
                };
                let fingerprint = self.source.fingerprint_2();
                // In version 2, each encoding has its own ETag.
                let etag = match encoding {
                    Encoding::Json => hash(&fingerprint, "v2"),
                    Encoding::Protobuf => hash(&fingerprint, "v2.pb"),
                };
                let key = DocumentKey::version_2(*encoding);
                let document = self.document(key, &etag, fingerprint, content_type, headers);
                document.await.map(Some)
            }
            "/openapi/v3" => Ok(Some(self.index())),
            _ => {
                let Some(name) = path.strip_prefix("/openapi/v3/").map(|name| name.trim_end_matches('/')) else {
                    return Ok(None);
                };
                let Some(fingerprint) = self.source.fingerprint_3(name) else {
                    return Ok(Some(rejected(StatusCode::NOT_FOUND)));
                };
                // A client that accepts no media type gets an empty answer, not an error.
                if negotiation::clauses(headers).is_empty() {
                    return Ok(Some(rejected(StatusCode::OK)));
                }
                let Some((_, encoding, content_type)) = accepted(headers, &VERSION_3_TYPES) else {
                    return Ok(Some(rejected(StatusCode::NOT_ACCEPTABLE)));
                };
                let hash = hash(&fingerprint, name);
                let wanted = query.get("hash").filter(|wanted| !wanted.is_empty());
                if wanted.is_some_and(|wanted| wanted != hash) {
                    return Ok(Some(moved(&format!("/openapi/v3/{name}?hash={hash}"))));
                }
                let key = DocumentKey::version_3(name, *encoding);
                let pending = self.document(key, &hash, fingerprint, content_type, headers);
                let mut response = pending.await?;
                if wanted.is_some() {
                    let headers = response.headers_mut();
                    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
                    if let Ok(expires) = HeaderValue::from_str(&httpdate::fmt_http_date(now + YEAR)) {
                        headers.insert(header::EXPIRES, expires);
                    }
                }
                Ok(Some(response))
            }
        }
    }

    /// Returns the index of the documents of version 3. The reference labels it plain text, whatever the client
    /// accepts.
    fn index(&self) -> Response {
        let here = self.source.paths().into_iter().filter_map(|name| {
            let fingerprint = self.source.fingerprint_3(&name)?;
            let url = format!("/openapi/v3/{name}?hash={}", hash(&fingerprint, &name));
            Some((name, url))
        });
        let mut urls: BTreeMap<String, String> = here.collect();
        urls.extend(self.source.elsewhere());
        let place = |url| serde_json::json!({ "serverRelativeURL": url });
        let places = urls.into_iter().map(|(name, url)| (name, place(url)));
        let paths: serde_json::Map<String, serde_json::Value> = places.collect();
        let text = serde_json::json!({ "paths": paths }).to_string();
        let mut index = self.index.lock();
        if *index != text.as_bytes() {
            *index = text.into();
        }
        response::text(StatusCode::OK, index.clone())
    }

    /// Returns the document of version 2, compressed while it is written.
    fn version_2(&self, mut form: impl Parts) -> Result<Bytes, ApiError> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut outcome = Ok(());
        self.source.version_2(&mut |member, part| {
            if outcome.is_ok() {
                outcome = encoder.write_all(&form.part(member, &part));
            }
        });
        let written = outcome.and_then(|()| encoder.write_all(&form.end()));
        let compressed = written.and_then(|()| encoder.finish());
        compressed
            .map(Bytes::from)
            .map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Returns a document of version 3, compressed.
    fn version_3(&self, path: &str, encoding: Encoding) -> Result<Bytes, ApiError> {
        let text = self.source.version_3(path).ok_or_else(ApiError::unknown_resource)?;
        if encoding == Encoding::Json {
            return compress(&text);
        }
        let parsed = json::parse(&text, &Limits::TRUSTED);
        let document = parsed.map_err(|error| ApiError::internal(error.to_string()))?;
        compress(&holdfast_proto::openapi_v3(&document))
    }

    fn fingerprint(&self, key: &DocumentKey) -> Option<Vec<u8>> {
        match &key.path {
            None => Some(self.source.fingerprint_2()),
            Some(path) => self.source.fingerprint_3(path),
        }
    }

    async fn document(
        self: &Arc<Self>,
        key: DocumentKey,
        etag: &str,
        fingerprint: Vec<u8>,
        content_type: &'static str,
        headers: &HeaderMap,
    ) -> Result<Response, ApiError> {
        let content_type = HeaderValue::from_static(content_type);
        let value = HeaderValue::from_str(&format!("\"{etag}\""));
        let etag = value.map_err(|error| ApiError::internal(error.to_string()))?;
        let mut response = if headers.get(header::IF_NONE_MATCH) == Some(&etag) {
            let mut response = HttpResponse::new(ResponseBody::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let form = if takes_gzip(headers) {
                Form::Compressed
            } else {
                Form::Text
            };
            let bytes = self.bytes(fingerprint, &key, form).await?;
            let mut response = response::bytes(StatusCode::OK, content_type, bytes);
            if form == Form::Compressed {
                let encoding = HeaderValue::from_static("gzip");
                response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
            }
            response
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, etag);
        if key.path.is_none() {
            headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
        Ok(response)
    }

    /// Returns the document in one of its forms, and builds it if it is not kept yet.
    async fn bytes(self: &Arc<Self>, fingerprint: Vec<u8>, key: &DocumentKey, form: Form) -> Result<Bytes, ApiError> {
        let known = || self.cache.lock().get(key, &fingerprint, form);
        if let Some(bytes) = known() {
            return Ok(bytes);
        }
        let _making = self.making.lock().await;
        if let Some(bytes) = known() {
            return Ok(bytes);
        }
        let (this, key) = (Arc::clone(self), key.clone());
        blocking(move || {
            let cached = this.cache.lock().get(&key, &fingerprint, Form::Compressed);
            let compressed = match cached {
                Some(compressed) => compressed,
                None => this.make(&key, &fingerprint)?,
            };
            if form == Form::Compressed {
                return Ok(compressed);
            }
            let text: Arc<[u8]> = decompress(&compressed)?.into();
            this.cache.lock().share(&key, &fingerprint, &text);
            Ok(Bytes::from_owner(text))
        })
        .await
    }

    /// Builds a document, compressed, and keeps it.
    fn make(&self, key: &DocumentKey, fingerprint: &[u8]) -> Result<Bytes, ApiError> {
        let document = match (&key.path, key.encoding) {
            (None, Encoding::Json) => self.version_2(Joined::default()),
            (None, Encoding::Protobuf) => self.version_2(Messages),
            (Some(path), encoding) => self.version_3(path, encoding),
        }?;
        // If the source changed meanwhile, the document may be newer than its fingerprint and is not kept.
        if self.fingerprint(key).as_deref() == Some(fingerprint) {
            let mut kept = self.cache.lock();
            kept.insert(key.clone(), fingerprint.to_vec(), document.clone());
        }
        Ok(document)
    }
}

/// Runs slow work on a thread where it does not delay other requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))
}

fn compress(text: &[u8]) -> Result<Bytes, ApiError> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    let compressed = encoder.write_all(text).and_then(|()| encoder.finish());
    compressed
        .map(Bytes::from)
        .map_err(|error| ApiError::internal(error.to_string()))
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    let mut text = Vec::with_capacity(bytes.len() * 8);
    let read = GzDecoder::new(bytes).read_to_end(&mut text);
    read.map(|_| text)
        .map_err(|error| ApiError::internal(error.to_string()))
}

/// Returns the hash of the document `name` of a source with that fingerprint, in this version of the server.
fn hash(fingerprint: &[u8], name: &str) -> String {
    let mut hasher = Sha512::new();
    for part in [
        crate::runtime::version::git_version().as_bytes(),
        fingerprint,
        name.as_bytes(),
    ] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut text = String::with_capacity(128);
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

fn moved(to: &str) -> Response {
    let mut response = HttpResponse::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let accepted: Vec<_> = values.map(headers::lossy).collect();
    accepted.iter().flat_map(|text| text.split(',')).any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let gzip = matches!(parts.next(), Some("gzip" | "*"));
        gzip && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0"))
    })
}

/// Returns the requested media type, the encoding of the answer, and its content type: the first that the best clause
/// of Accept names.
fn accepted(
    headers: &HeaderMap,
    served: &'static [(&str, Encoding, &str)],
) -> Option<&'static (&'static str, Encoding, &'static str)> {
    let clauses = negotiation::clauses(headers);
    clauses
        .iter()
        .find_map(|clause| served.iter().find(|(media_type, ..)| clause.accepts(media_type)))
}

/// Returns an answer with only a status code, as the reference does at these paths.
fn rejected(code: StatusCode) -> Response {
    let mut response = HttpResponse::new(ResponseBody::empty());
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use holdfast_value::Value;
    use http_body_util::BodyExt;

    use super::*;

    struct Fixed(&'static str);

    impl DocumentSource for Fixed {
        fn paths(&self) -> Vec<String> {
            vec!["apis/apps/v1".to_owned(), "api/v1".to_owned()]
        }

        fn fingerprint_3(&self, path: &str) -> Option<Vec<u8>> {
            let known = self.paths().iter().any(|known| known == path);
            known.then(|| self.fingerprint_2())
        }

        fn fingerprint_2(&self) -> Vec<u8> {
            self.0.as_bytes().to_vec()
        }

        fn version_3(&self, path: &str) -> Option<Vec<u8>> {
            Some(format!("{{\"of\":\"{path}\"}}").into_bytes())
        }

        fn version_2(&self, take: &mut dyn FnMut(&'static str, Value)) {
            take("swagger", "2.0".into());
        }
    }

    async fn ask(path: &str, query: &str, headers: &[(header::HeaderName, &'static str)]) -> Option<Response> {
        let headers = headers
            .iter()
            .map(|(name, text)| (name.clone(), HeaderValue::from_static(text)));
        let openapi = Arc::new(OpenApi::new(Arc::new(Fixed("1"))));
        let (query, headers) = (Query::parse(query), HeaderMap::from_iter(headers));
        openapi
            .respond(path, &query, &headers, SystemTime::UNIX_EPOCH)
            .await
            .unwrap()
    }

    async fn text(response: Response) -> Vec<u8> {
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn the_index_leads_to_documents_that_may_be_kept_for_good() {
        let index = ask("/openapi/v3", "", &[]).await.unwrap();
        assert_eq!(index.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        let index: serde_json::Value = serde_json::from_slice(&text(index).await).unwrap();
        let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
        let (path, query) = url.split_once('?').unwrap();
        let document = ask(path, query, &[]).await.unwrap();
        assert_eq!(document.headers()[header::CACHE_CONTROL], "public, immutable");
        assert_eq!(document.headers()[header::EXPIRES], "Fri, 01 Jan 1971 00:00:00 GMT");
        assert_eq!(text(document).await, b"{\"of\":\"api/v1\"}");
        let moved = ask(path, "hash=old", &[]).await.unwrap();
        assert_eq!(moved.headers()[header::LOCATION], url);
    }

    #[tokio::test]
    async fn documents_are_compressed_for_clients_that_take_it() {
        let document = ask("/openapi/v2", "", &[(header::ACCEPT_ENCODING, "br, gzip;q=0.5")])
            .await
            .unwrap();
        assert_eq!(document.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(decompress(&text(document).await).unwrap(), b"{\"swagger\":\"2.0\"}");
        let document = ask("/openapi/v2", "", &[(header::ACCEPT_ENCODING, "gzip;q=0")])
            .await
            .unwrap();
        assert!(!document.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[tokio::test]
    async fn all_who_are_sent_the_index_share_its_bytes() {
        let openapi = Arc::new(OpenApi::new(Arc::new(Fixed("1"))));
        let index = async || openapi.index().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(index().await.as_ptr(), index().await.as_ptr());
    }

    #[tokio::test]
    async fn all_who_are_sent_a_document_at_a_time_share_its_bytes() {
        let openapi = Arc::new(OpenApi::new(Arc::new(Fixed("1"))));
        for form in [Form::Text, Form::Compressed] {
            for key in [
                DocumentKey::version_2(Encoding::Json),
                DocumentKey::version_2(Encoding::Protobuf),
                DocumentKey::version_3("api/v1", Encoding::Json),
            ] {
                let fingerprint = openapi.source.fingerprint_2();
                let bytes = || openapi.bytes(fingerprint.clone(), &key, form);
                let (first, second) = tokio::try_join!(bytes(), bytes()).unwrap();
                let third = bytes().await.unwrap();
                assert!(first.as_ptr() == second.as_ptr() && second.as_ptr() == third.as_ptr());
            }
        }
        // Once no answer is sending the text, only the compressed document remains.
        let mut kept = openapi.cache.lock();
        let key = DocumentKey::version_2(Encoding::Json);
        assert!(kept.get(&key, b"1", Form::Text).is_none());
        assert!(kept.get(&key, b"1", Form::Compressed).is_some());
    }

    #[tokio::test]
    async fn a_document_that_the_client_has_is_not_sent_again() {
        let openapi = Arc::new(OpenApi::new(Arc::new(Fixed("1"))));
        let ask = async |openapi: &Arc<OpenApi>, headers: &HeaderMap| {
            let query = Query::default();
            let response = openapi.respond("/openapi/v2", &query, headers, SystemTime::UNIX_EPOCH);
            response.await.unwrap().unwrap()
        };
        let etag = ask(&openapi, &HeaderMap::new()).await.headers()[header::ETAG].clone();
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, etag)]);
        assert_eq!(ask(&openapi, &headers).await.status(), StatusCode::NOT_MODIFIED);
        let changed = Arc::new(OpenApi::new(Arc::new(Fixed("2"))));
        assert_eq!(ask(&changed, &headers).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn other_paths_are_not_of_openapi() {
        for path in ["/openapi", "/openapi/v4"] {
            assert!(ask(path, "", &[]).await.is_none(), "{path}");
        }
        let unknown = ask("/openapi/v3/apis/none/v1", "", &[]).await.unwrap();
        assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn version_3_comes_in_protobuf_under_the_same_tag() {
        let path = "/openapi/v3/api/v1";
        let json = ask(path, "", &[]).await.unwrap();
        for (accept, ..) in &VERSION_3_TYPES[1..] {
            let document = ask(path, "", &[(header::ACCEPT, accept)]).await.unwrap();
            assert_eq!(document.headers()[header::CONTENT_TYPE], PROTOBUF_3);
            assert_eq!(document.headers()[header::ETAG], json.headers()[header::ETAG]);
        }
        // An answer that the client does not accept is not redirected either.
        let rejected = ask(path, "hash=old", &[(header::ACCEPT, "text/html")]).await.unwrap();
        assert_eq!(rejected.status(), StatusCode::NOT_ACCEPTABLE);
    }

    #[tokio::test]
    async fn version_2_comes_in_protobuf_for_those_who_ask_for_it() {
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let document = ask("/openapi/v2", "", &[(header::ACCEPT, protobuf)]).await.unwrap();
        assert_eq!(document.headers()[header::CONTENT_TYPE], PROTOBUF);
        assert_eq!(text(document).await, b"\x0a\x032.0");
        for (path, accept) in [("/openapi/v2", "text/html"), ("/openapi/v3/api/v1", protobuf)] {
            let rejected = ask(path, "", &[(header::ACCEPT, accept)]).await.unwrap();
            assert_eq!(rejected.status(), StatusCode::NOT_ACCEPTABLE);
            assert!(text(rejected).await.is_empty());
        }
    }
}
