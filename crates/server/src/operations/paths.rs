//! The paths that are not resources: discovery, health, the version, OpenAPI and the list of paths itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use holdfast_proto::Messages;
use holdfast_resource::Registry;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Serialize;

use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::negotiation::{self, Format, NAMED_TYPES, Negotiated, Representation};
use crate::http::response::{self, Response, page_not_found};
use crate::identity::{IssuerDocument, IssuerDocuments};
use crate::metrics::{self, Metrics};
use crate::operations::aggregation::{Aggregator, Proxied};
use crate::operations::changes::history;
use crate::operations::debugging::{self, Debugging};
use crate::operations::discovery::aggregated::{self, Documents, Root};
use crate::operations::discovery::legacy::{ApiGroup, ApiGroupList, ApiResourceList, ApiVersions};
use crate::operations::discovery::{Catalog, DocumentCache};
use crate::operations::fairness::PriorityAndFairness;
use crate::operations::flagz::Flagz;
use crate::operations::health::Health;
use crate::operations::openapi::{self, OpenApi};
use crate::operations::statusz::Statusz;
use crate::operations::testing::Testing;
use crate::operations::zpage::{self, PageRequest};
use crate::runtime::Clock;
use crate::runtime::version::{Build, VersionInfo};
use crate::wire::fairness::Fairness;
use crate::wire::in_flight::InFlight;

/// The prefix of the paths of OpenAPI v3 documents.
const OPENAPI_3: &str = "/openapi/v3/";

/// The handlers of the paths that are not resources.
pub struct Paths {
    registry: Arc<ArcSwap<Registry>>,
    health: Health,
    address: String,
    discovery: Documents,
    cache: DocumentCache,
    version: VersionInfo,
    openapi: Option<Arc<OpenApi>>,
    metrics: Option<(Arc<Metrics>, Arc<InFlight>)>,
    fairness: Option<Arc<PriorityAndFairness>>,
    issuer: Option<IssuerDocuments>,
    debugging: Option<Debugging>,
    started: SystemTime,
    aggregator: Option<Arc<Aggregator>>,
    flags: BTreeMap<String, String>,
    pages: Pages,
    has_testing: bool,
    has_history: bool,
}

/// The pages about the server that are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The flags of the server: `/flagz`.
    pub flagz: bool,
    /// The version and the start time of the server: `/statusz`.
    pub statusz: bool,
    /// True if pages are served as CBOR.
    pub cbor: bool,
}

impl Pages {
    const ALL: Self = Self {
        flagz: true,
        statusz: true,
        cbor: false,
    };
}

impl Paths {
    /// Creates the paths of a server that clients reach at `address` (host and port).
    pub fn new(
        registry: Arc<ArcSwap<Registry>>,
        health: Health,
        address: impl Into<String>,
        clock: &dyn Clock,
    ) -> Self {
        Self {
            registry,
            health,
            address: address.into(),
            discovery: Documents::default(),
            cache: DocumentCache::default(),
            version: VersionInfo::new(&Build::default()),
            openapi: None,
            metrics: None,
            fairness: None,
            issuer: None,
            debugging: None,
            started: clock.now(),
            aggregator: None,
            flags: BTreeMap::new(),
            pages: Pages::ALL,
            has_testing: false,
            has_history: false,
        }
    }

    /// Serves only those pages.
    #[must_use]
    pub fn with_pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Reports the flags that the server was started with, and their values.
    #[must_use]
    pub fn with_flags(mut self, flags: BTreeMap<String, String>) -> Self {
        self.flags = flags;
        self
    }

    /// Reports the given build.
    #[must_use]
    pub fn with_build(mut self, build: &Build) -> Self {
        self.version = VersionInfo::new(build);
        self
    }

    /// Serves the OpenAPI documents of `source`.
    #[must_use]
    pub fn with_openapi(mut self, source: Arc<dyn openapi::DocumentSource>) -> Self {
        self.openapi = Some(Arc::new(OpenApi::new(source)));
        self
    }

    /// Adds aggregated servers.
    #[must_use]
    pub fn with_aggregator(mut self, aggregator: Arc<Aggregator>) -> Self {
        self.aggregator = Some(aggregator);
        self
    }

    /// Returns the aggregator.
    pub(crate) fn aggregator(&self) -> Option<&Arc<Aggregator>> {
        self.aggregator.as_ref()
    }

    /// Returns the aggregated server that serves the path, if any.
    pub(crate) fn remote(&self, path: &str) -> Option<Arc<Proxied>> {
        let aggregator = self.aggregator.as_ref()?;
        match path.strip_prefix(OPENAPI_3) {
            Some(document) => {
                let is_local = |name: &str| self.openapi.as_ref().is_some_and(|openapi| openapi.has(name));
                aggregator
                    .servers()
                    .remote_document(document.trim_end_matches('/'), is_local)
            }
            None => aggregator.servers().remote(path),
        }
    }

    /// Serves the metrics, and the number of requests in flight.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>, in_flight: Arc<InFlight>) -> Self {
        self.metrics = Some((metrics, in_flight));
        self
    }

    /// Serves dumps and metrics of the priority levels.
    #[must_use]
    pub fn with_fairness(mut self, fairness: Option<Arc<PriorityAndFairness>>) -> Self {
        self.fairness = fairness;
        self
    }

    /// Serves the documents of the issuer of service account tokens.
    #[must_use]
    pub fn with_issuer(mut self, documents: Option<IssuerDocuments>) -> Self {
        self.issuer = documents;
        self
    }

    /// Serves profiles and the verbosity of the process.
    #[must_use]
    pub fn with_debugging(mut self, debugging: Option<Debugging>) -> Self {
        self.debugging = debugging;
        self
    }

    /// Lists the endpoints for tests.
    #[must_use]
    pub fn with_testing(mut self, enabled: bool) -> Self {
        self.has_testing = enabled;
        self
    }

    /// Names the history of objects in discovery for clients that ask for it.
    #[must_use]
    pub fn with_history(mut self, enabled: bool) -> Self {
        self.has_history = enabled;
        self
    }

    /// Returns true if `path` lies below a served group, so that a missing path there is answered with a `Status`.
    pub fn is_api(&self, path: &str) -> bool {
        if path.starts_with("/api/") {
            return true;
        }
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        group.is_some_and(|group| !group.is_empty() && self.serves_group(group))
    }

    fn serves_group(&self, group: &str) -> bool {
        self.registry.load().serves_group(group)
    }

    /// Returns the answer at a path that is not a resource; encodes protobuf with `messages`.
    ///
    /// # Errors
    /// 404, 405 or 406.
    pub async fn respond(&self, messages: &Messages, incoming: Incoming) -> Result<Response, ApiError> {
        if let Some(debugging) = &self.debugging
            && debugging::is_served(&incoming.info.path)
        {
            return Box::pin(debugging.respond(incoming)).await;
        }
        let Incoming {
            method,
            info,
            headers,
            negotiated,
            now,
            ..
        } = incoming;
        let path = info.path.as_str();
        if let Some(response) = self.health.respond(path, &info.query) {
            return Ok(response);
        }
        if let Some(response) = self
            .fairness
            .as_ref()
            .and_then(|fairness| fairness.respond(path, &info.query))
        {
            return Ok(response);
        }
        if let Some(openapi) = self.openapi.as_ref().filter(|_| path.starts_with("/openapi/")) {
            let answer = openapi.respond(path, &info.query, &headers, now).await?;
            return Ok(answer.unwrap_or_else(page_not_found));
        }
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        if let Some(document) = self.issuer.as_ref().and_then(|issuer| issuer.get(trimmed)) {
            read_only(&method)?;
            negotiation::check_acceptable(&headers, &[document.media_type])?;
            return Ok(issuer_document(document));
        }
        let registry = self.registry.load_full();
        let catalog = Arc::new(Catalog::new(registry, self.aggregator.as_ref()));
        let registry = &catalog.registry;
        let document = Document {
            messages,
            headers: &headers,
            negotiated: &negotiated,
            now,
            cache: &self.cache,
            catalog: &catalog,
            path,
            names_history: self.has_history && info.query.get("subresources") == Some(history::SUBRESOURCE),
        };
        if let Some(answer) = self.plain(&document) {
            return answer;
        }
        let parts: Vec<&str> = trimmed.split('/').skip(1).collect();
        match parts.as_slice() {
            ["version"] => {
                read_only(&method)?;
                document.json_only(&self.version)
            }
            ["version", ..] => Err(ApiError::unknown_resource()),
            ["api"] => {
                read_only(&method)?;
                negotiation::check_acceptable(&headers, &NAMED_TYPES)?;
                match aggregated::wanted(&headers) {
                    Some(format) => self.aggregated(&document, Root::Core, format),
                    None => document.any_format(&ApiVersions::new(registry, &self.address)),
                }
            }
            ["apis"] => match aggregated::wanted(&headers) {
                Some(format) => self.aggregated(&document, Root::Groups, format),
                None => document.any_format(&ApiGroupList::new(&catalog)),
            },
            ["apis", group] => match ApiGroup::new(&catalog, group) {
                Some(group) => document.any_format(&group),
                None => Ok(page_not_found()),
            },
            ["api", version] => document.resources("", version, &method),
            ["apis", group, version] if self.is_api(path) => document.resources(group, version, &method),
            _ => Ok(page_not_found()),
        }
    }

    /// Returns the answer at a path that allows any method and only this spelling.
    fn plain(&self, document: &Document<'_>) -> Option<Result<Response, ApiError>> {
        let metrics = self.metrics.as_ref();
        match (document.path, metrics) {
            ("/" | "/index.html", _) => Some(document.json(&PathList {
                paths: self.list(document.catalog),
            })),
            ("/statusz", _) if self.pages.statusz => Some(self.statusz(document)),
            ("/flagz", _) if self.pages.flagz => Some(self.flagz(document)),
            ("/metrics", Some((metrics, in_flight))) => Some(metrics.respond(in_flight, self.levels())),
            ("/metrics/slis", Some(_)) => Some(Ok(metrics::service_levels(self.health.outcomes()))),
            _ => None,
        }
    }

    fn levels(&self) -> Option<&Fairness> {
        self.fairness.as_ref().map(|fairness| &*fairness.levels)
    }

    fn page_request<'a>(&self, document: &Document<'a>) -> PageRequest<'a> {
        PageRequest {
            messages: document.messages,
            headers: document.headers,
            negotiated: document.negotiated,
            cbor: self.pages.cbor,
        }
    }

    fn statusz(&self, document: &Document<'_>) -> Result<Response, ApiError> {
        let page = Statusz {
            started: self.started,
            now: document.now,
            version: &self.version,
            paths: self.list(document.catalog),
        };
        zpage::respond(&page, &self.page_request(document))
    }

    fn flagz(&self, document: &Document<'_>) -> Result<Response, ApiError> {
        let page = Flagz { flags: &self.flags };
        zpage::respond(&page, &self.page_request(document))
    }

    fn aggregated(&self, document: &Document<'_>, root: Root, format: Format) -> Result<Response, ApiError> {
        let catalog = Arc::clone(document.catalog);
        let representation = Representation {
            format,
            pretty: document.negotiated.is_pretty(),
            ..Representation::default()
        };
        self.discovery
            .respond(document.messages, catalog, root, &representation, document.headers)
    }

    /// Returns all paths that can be requested, in alphabetical order.
    fn list(&self, catalog: &Catalog) -> Vec<String> {
        let mut paths = self.health.paths();
        if self.metrics.is_some() {
            paths.extend(["/metrics", "/metrics/slis"].map(str::to_owned));
        }
        paths.extend(["/api", "/apis", "/apis/", "/version"].map(str::to_owned));
        let all_pages = [("/flagz", self.pages.flagz), ("/statusz", self.pages.statusz)];
        let pages = all_pages.into_iter().filter(|(_, shown)| *shown);
        paths.extend(pages.map(|(path, _)| path.to_owned()));
        if self.openapi.is_some() {
            paths.extend(["/openapi/v2", "/openapi/v3", OPENAPI_3].map(str::to_owned));
        }
        if self.issuer.is_some() {
            let of_issuer = [IssuerDocuments::CONFIGURATION_PATH, IssuerDocuments::KEYS_PATH];
            paths.extend(of_issuer.map(str::to_owned));
        }
        if self.has_testing {
            paths.extend(Testing::paths().map(str::to_owned));
        }
        let core = catalog
            .registry
            .group_versions()
            .filter(|served| served.group.is_empty());
        paths.extend(core.map(|served| format!("/api/{}", served.version)));
        paths.extend(catalog.paths());
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

#[derive(Serialize)]
struct PathList {
    paths: Vec<String>,
}

/// Rejects every method but GET.
fn read_only(method: &Method) -> Result<(), ApiError> {
    if method == Method::GET {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}

/// Returns a document of the issuer of tokens, which clients may cache.
fn issuer_document(document: IssuerDocument) -> Response {
    let media_type = HeaderValue::from_static(document.media_type);
    let mut answer = response::bytes(StatusCode::OK, media_type, bytes::Bytes::from(document.text));
    if let Ok(kept) = HeaderValue::try_from(format!("public, max-age={}", document.max_age)) {
        answer.headers_mut().insert(http::header::CACHE_CONTROL, kept);
    }
    answer
}

/// A writer of documents in the form that a request accepts.
struct Document<'a> {
    messages: &'a Messages,
    headers: &'a HeaderMap,
    negotiated: &'a Negotiated,
    /// The time of the request.
    now: SystemTime,
    cache: &'a DocumentCache,
    catalog: &'a Arc<Catalog>,
    path: &'a str,
    /// True if the client asks for the subresource that kube-apiserver does not have.
    names_history: bool,
}

impl Document<'_> {
    /// Returns the resources of a group version. For groups that CRDs serve, the method is ignored and only content
    /// negotiation applies.
    fn resources(&self, group: &str, version: &str, method: &Method) -> Result<Response, ApiError> {
        let registry = &self.catalog.registry;
        let built_in = registry.is_built_in_group(group);
        let Some(mut list) = ApiResourceList::new(registry, group, version) else {
            return if built_in {
                Err(ApiError::unknown_resource())
            } else {
                Ok(page_not_found())
            };
        };
        if built_in {
            read_only(method)?;
            negotiation::check_acceptable(self.headers, &NAMED_TYPES)?;
        }
        if self.names_history {
            list.add_histories(registry, group, version);
            return response::document(self.messages, StatusCode::OK, &self.negotiated.document()?, &list);
        }
        self.any_format(&list)
    }

    /// Returns the document in any form in which objects are served.
    fn any_format(&self, document: &impl Serialize) -> Result<Response, ApiError> {
        let representation = self.negotiated.document()?;
        let make = || response::document_bytes(self.messages, &representation, document);
        let body = self.cache.get(self.catalog, self.path, &representation, make)?;
        Ok(response::bytes(
            StatusCode::OK,
            representation.format.content_type(),
            body,
        ))
    }

    /// Returns the document, which has only a JSON form, for clients that accept JSON.
    fn json_only(&self, document: &impl Serialize) -> Result<Response, ApiError> {
        negotiation::check_acceptable(self.headers, &["application/json"])?;
        self.json(document)
    }

    /// Returns the document as JSON, whatever the client accepts.
    fn json(&self, document: &impl Serialize) -> Result<Response, ApiError> {
        response::document(
            self.messages,
            StatusCode::OK,
            &Representation {
                pretty: true,
                ..Representation::default()
            },
            document,
        )
    }
}
