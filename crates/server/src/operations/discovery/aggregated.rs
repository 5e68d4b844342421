//! Discovery in the newer form: one document for all of `/api` and one for all of `/apis`
//! (<https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery>).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use holdfast_proto::Messages;
use holdfast_resource::{DefinedGroup, GroupVersion, Registry};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response as HttpResponse, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha512};
use smol_str::SmolStr;

use super::legacy::foreign;
use super::{groups, sorted, subresources, verb_names};
use crate::http::ApiError;
use crate::http::negotiation::{self, Clause, Format, Representation};
use crate::http::protobuf;
use crate::http::response::{self, Response};
use crate::wire::body::ResponseBody;

/// The media type of the documents in each format, as clients ask for it and as it stands in the answer.
fn content_type(format: Format) -> HeaderValue {
    HeaderValue::from_static(match format {
        Format::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Protobuf => "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    })
}

/// Which of the two documents is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
}

/// The documents of the registry that was last asked for. They are made when they are first asked for.
#[derive(Default)]
pub struct Documents(ArcSwapOption<Made>);

struct Made {
    registry: Arc<Registry>,
    parts: HashMap<SmolStr, Part>,
    core: Document,
    groups: Document,
}

/// What is said of one group. What is built in stays as it is, so that a part holds until definitions change in its group.
#[derive(Clone)]
struct Part {
    defined: Option<Arc<DefinedGroup>>,
    json: Bytes,
}

struct Document {
    json: Bytes,
    /// Made when it is first asked for.
    protobuf: OnceLock<Bytes>,
    etag: HeaderValue,
}

/// The format in which a request asks for the newer form, if it does. It does if any clause of Accept does, wherever it
/// stands.
pub fn wanted(headers: &HeaderMap) -> Option<Format> {
    let asks = |clause: &Clause| {
        clause.parameter("g") == Some("apidiscovery.k8s.io")
            && clause.parameter("v") == Some("v2")
            && clause.parameter("as") == Some("APIGroupDiscoveryList")
    };
    let clauses = negotiation::clauses(headers);
    clauses.iter().filter(|clause| asks(clause)).find_map(Clause::format)
}

impl Documents {
    /// The document, or 304 where the client has it already; in protobuf by `messages`.
    ///
    /// # Errors
    /// 500 where it has no such form, which is a fault of the server.
    pub fn respond(
        &self,
        messages: &Messages,
        registry: Arc<Registry>,
        root: Root,
        format: Format,
        headers: &HeaderMap,
    ) -> Result<Response, ApiError> {
        let made = self.of(registry);
        let document = match root {
            Root::Core => &made.core,
            Root::Groups => &made.groups,
        };
        let known = headers.get(header::IF_NONE_MATCH) == Some(&document.etag);
        let mut response = if known {
            let mut response = HttpResponse::new(ResponseBody::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            document.respond(messages, format)?
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, document.etag.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        Ok(response)
    }

    fn of(&self, registry: Arc<Registry>) -> Arc<Made> {
        if let Some(made) = self.0.load_full().filter(|made| Arc::ptr_eq(&made.registry, &registry)) {
            return made;
        }
        let before = self.0.load_full();
        let mut parts = HashMap::new();
        let mut part = |group: &SmolStr, versions: &[SmolStr]| -> Bytes {
            let known = before.as_ref().and_then(|before| before.parts.get(group));
            let part = match known.filter(|part| part.holds(&registry, group)) {
                Some(part) => part.clone(),
                None => Part::new(&registry, group, versions),
            };
            let json = part.json.clone();
            parts.insert(group.clone(), part);
            json
        };
        let core = vec![part(&SmolStr::default(), &core_versions(&registry))];
        let groups = groups(&registry);
        let groups = groups.iter().map(|(group, versions)| part(group, versions));
        let groups: Vec<Bytes> = groups.collect();
        let made = Arc::new(Made {
            core: Document::new(&core),
            groups: Document::new(&groups),
            parts,
            registry,
        });
        self.0.store(Some(Arc::clone(&made)));
        made
    }
}

fn core_versions(registry: &Registry) -> Vec<SmolStr> {
    let core = registry.group_versions().filter(|served| served.group.is_empty());
    core.map(|served| served.version.clone()).collect()
}

impl Document {
    fn new(parts: &[Bytes]) -> Self {
        let head = br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#;
        let mut json = head.to_vec();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(part);
        }
        json.extend_from_slice(b"]}\n");
        let mut etag = String::from("\"");
        for byte in Sha512::digest(&json) {
            etag.push_str(&format!("{byte:02X}"));
        }
        etag.push('"');
        Self {
            json: json.into(),
            protobuf: OnceLock::new(),
            etag: HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\"")),
        }
    }

    fn respond(&self, messages: &Messages, format: Format) -> Result<Response, ApiError> {
        let body = match (format, self.protobuf.get()) {
            (Format::Protobuf, Some(made)) => made.clone(),
            (Format::Protobuf, None) => {
                let made = Bytes::from(protobuf::from_json(messages, &self.json)?);
                self.protobuf.get_or_init(|| made).clone()
            }
            (Format::Json, _) => self.json.clone(),
            (Format::Yaml, _) => {
                let yaml = Representation {
                    format,
                    ..Representation::default()
                };
                let mut response = response::encoded(messages, StatusCode::OK, &yaml, self.json.clone())?;
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, content_type(format));
                return Ok(response);
            }
        };
        Ok(response::bytes(StatusCode::OK, content_type(format), body))
    }
}

impl Part {
    fn new(registry: &Registry, group: &SmolStr, versions: &[SmolStr]) -> Self {
        let said = group_discovery(registry, group, versions);
        Self {
            defined: registry.defined_group(group).cloned(),
            json: serde_json::to_vec(&said).unwrap_or_default().into(),
        }
    }

    fn holds(&self, registry: &Registry, group: &str) -> bool {
        let defined = registry.defined_group(group).map(Arc::as_ptr);
        self.defined.as_ref().map(Arc::as_ptr) == defined
    }
}

#[derive(Serialize)]
struct Metadata {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    name: SmolStr,
}

#[derive(Serialize)]
struct GroupDiscovery {
    metadata: Metadata,
    versions: Vec<VersionDiscovery>,
}

#[derive(Serialize)]
struct VersionDiscovery {
    version: SmolStr,
    resources: Vec<ResourceDiscovery>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: SmolStr,
    response_kind: Kind,
    scope: &'static str,
    singular_resource: SmolStr,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: SmolStr,
    response_kind: Kind,
    verbs: Vec<&'static str>,
}

#[derive(Serialize)]
struct Kind {
    group: SmolStr,
    version: SmolStr,
    kind: SmolStr,
}

fn group_discovery(registry: &Registry, group: &SmolStr, versions: &[SmolStr]) -> GroupDiscovery {
    let versions = versions.iter().map(|version| VersionDiscovery {
        version: version.clone(),
        resources: version_resources(registry, &GroupVersion::new(group.clone(), version.clone())),
        freshness: "Current",
    });
    GroupDiscovery {
        metadata: Metadata { name: group.clone() },
        versions: versions.collect(),
    }
}

fn version_resources(registry: &Registry, group_version: &GroupVersion) -> Vec<ResourceDiscovery> {
    let mut resources = Vec::new();
    for served in sorted(registry, group_version) {
        let resource = &served.resource;
        let subresources = subresources(&served).into_iter().map(|subresource| {
            let (group, version) = foreign(&subresource.kind, group_version);
            SubresourceDiscovery {
                subresource: subresource.name.clone(),
                response_kind: Kind {
                    group,
                    version,
                    kind: subresource.kind.kind.clone(),
                },
                verbs: verb_names(resource, &subresource.verbs),
            }
        });
        resources.push(ResourceDiscovery {
            resource: resource.plural.clone(),
            response_kind: Kind {
                group: SmolStr::default(),
                version: SmolStr::default(),
                kind: resource.kind.clone(),
            },
            scope: if resource.namespaced() { "Namespaced" } else { "Cluster" },
            singular_resource: resource.singular.clone(),
            verbs: verb_names(resource, &served.version().verbs),
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            subresources: subresources.collect(),
        });
    }
    resources
}
