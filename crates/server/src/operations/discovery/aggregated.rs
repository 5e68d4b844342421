//! Discovery in the newer form: one document for all of `/api` and one for all of `/apis`
//! (<https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery>).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use holdfast_aggregation::{Freshness, KindDiscovery, ResourceDiscovery, SubresourceDiscovery, VersionDiscovery};
use holdfast_proto::Messages;
use holdfast_resource::{DefinedGroup, Registry, Resource};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response as HttpResponse, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha512};
use smol_str::SmolStr;

use super::legacy::foreign;
use super::{Catalog, sorted, subresources, verb_names};
use crate::http::ApiError;
use crate::http::negotiation::{self, Clause, Format, Representation};
use crate::http::protobuf;
use crate::http::response::{self, Response};
use crate::wire::body::ResponseBody;

/// Returns the media type of the documents in each format, as clients request it and as the answer names it.
fn content_type(format: Format) -> HeaderValue {
    HeaderValue::from_static(match format {
        Format::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Cbor => "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Protobuf => "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    })
}

/// The two documents of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
}

/// The documents of the last requested catalog. They are built at the first request.
#[derive(Default)]
pub struct Documents(ArcSwapOption<Made>);

struct Made {
    catalog: Arc<Catalog>,
    parts: HashMap<SmolStr, Part>,
    core: Document,
    groups: Document,
}

/// The discovery of one group. Built-in resources never change, so a part stays valid until CRDs of its group change or
/// the discovery of other servers does.
#[derive(Clone)]
struct Part {
    defined: Option<Arc<DefinedGroup>>,
    versions: Vec<SmolStr>,
    /// The versions of it that other servers serve.
    elsewhere: Vec<Arc<VersionDiscovery>>,
    json: Bytes,
}

struct Document {
    json: Bytes,
    /// The protobuf form, built at the first request.
    protobuf: OnceLock<Bytes>,
    etag: HeaderValue,
}

/// Returns the format in which a request accepts the newer form, if it does. It does if any clause of Accept does, at
/// any position.
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
    /// Returns the document, or 304 if the client has it already; encodes protobuf with `messages`.
    ///
    /// # Errors
    /// 500 if it has no such form, which is an internal error.
    pub fn respond(
        &self,
        messages: &Messages,
        catalog: Arc<Catalog>,
        root: Root,
        representation: &Representation,
        headers: &HeaderMap,
    ) -> Result<Response, ApiError> {
        let made = self.made(catalog);
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
            document.respond(messages, representation)?
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, document.etag.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        Ok(response)
    }

    fn made(&self, catalog: Arc<Catalog>) -> Arc<Made> {
        if let Some(made) = self.0.load_full().filter(|made| made.catalog.is_same(&catalog)) {
            return made;
        }
        let before = self.0.load_full();
        let mut parts = HashMap::new();
        let mut part = |group: &SmolStr, versions: &[SmolStr]| -> Bytes {
            let known = before.as_ref().and_then(|before| before.parts.get(group));
            let part = match known.filter(|part| part.holds(&catalog, group, versions)) {
                Some(part) => part.clone(),
                None => Part::new(&catalog, group, versions),
            };
            let json = part.json.clone();
            parts.insert(group.clone(), part);
            json
        };
        let core = vec![part(&SmolStr::default(), &core_versions(&catalog.registry))];
        let by_priority = catalog.groups_by_priority();
        let parts_of_groups = by_priority.iter().map(|(group, versions)| part(group, versions));
        let groups: Vec<Bytes> = parts_of_groups.collect();
        let made = Arc::new(Made {
            core: Document::new(&core),
            groups: Document::new(&groups),
            parts,
            catalog,
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

    fn respond(&self, messages: &Messages, representation: &Representation) -> Result<Response, ApiError> {
        let format = representation.format;
        let body = match (format, self.protobuf.get()) {
            (Format::Protobuf, Some(made)) => made.clone(),
            (Format::Protobuf, None) => {
                let made = Bytes::from(protobuf::from_json(messages, &self.json)?);
                self.protobuf.get_or_init(|| made).clone()
            }
            (Format::Json, _) if !representation.pretty => self.json.clone(),
            (Format::Json | Format::Yaml | Format::Cbor, _) => {
                // The final line end is removed, which indented JSON does not have.
                let json = self.json.slice(..self.json.len().saturating_sub(1));
                let mut response = response::encoded(messages, StatusCode::OK, representation, json)?;
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
    fn new(catalog: &Catalog, group: &SmolStr, versions: &[SmolStr]) -> Self {
        let said = group_discovery(catalog, group, versions);
        Self {
            defined: catalog.registry.defined_group(group).cloned(),
            versions: versions.to_vec(),
            elsewhere: catalog.elsewhere(group),
            json: serde_json::to_vec(&said).unwrap_or_default().into(),
        }
    }

    fn holds(&self, catalog: &Catalog, group: &str, versions: &[SmolStr]) -> bool {
        let defined = catalog.registry.defined_group(group).map(Arc::as_ptr);
        let same = |(one, other): (&Arc<VersionDiscovery>, &Arc<VersionDiscovery>)| Arc::ptr_eq(one, other);
        let elsewhere = catalog.elsewhere(group);
        self.defined.as_ref().map(Arc::as_ptr) == defined
            && self.versions == versions
            && self.elsewhere.len() == elsewhere.len()
            && self.elsewhere.iter().zip(&elsewhere).all(same)
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
    #[serde(serialize_with = "shared")]
    versions: Vec<Arc<VersionDiscovery>>,
}

fn shared<S: serde::Serializer>(versions: &[Arc<VersionDiscovery>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(versions.iter().map(|version| &**version))
}

fn group_discovery(catalog: &Catalog, group: &SmolStr, versions: &[SmolStr]) -> GroupDiscovery {
    let versions = versions.iter().map(|version| {
        let group_version = GroupVersion::new(group.clone(), version.clone());
        catalog.version_elsewhere(&group_version).unwrap_or_else(|| {
            Arc::new(VersionDiscovery {
                version: version.clone(),
                resources: version_resources(&catalog.registry, &group_version),
                freshness: Freshness::Current,
            })
        })
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
            let (group, version) = subresource_group_version(resource, &subresource.kind, group_version);
            SubresourceDiscovery {
                subresource: subresource.name.clone(),
                response_kind: KindDiscovery {
                    group,
                    version,
                    kind: subresource.kind.kind.clone(),
                },
                verbs: names(verb_names(resource, &subresource.verbs)),
            }
        });
        resources.push(ResourceDiscovery {
            resource: resource.plural.clone(),
            response_kind: KindDiscovery {
                kind: resource.kind.clone(),
                ..own_group_version(resource, group_version)
            },
            scope: SmolStr::new_static(if resource.namespaced() { "Namespaced" } else { "Cluster" }),
            singular_resource: resource.singular.clone(),
            verbs: names(verb_names(resource, &served.version().verbs)),
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            subresources: subresources.collect(),
        });
    }
    resources
}

/// Returns the group and version of the kind of a resource, which only custom resources report.
fn own_group_version(resource: &Resource, here: &GroupVersion) -> KindDiscovery {
    match resource.crd {
        None => KindDiscovery::default(),
        Some(_) => KindDiscovery {
            group: here.group.clone(),
            version: here.version.clone(),
            kind: SmolStr::default(),
        },
    }
}

/// Returns the same for a subresource, which may have a kind of another group version.
fn subresource_group_version(resource: &Resource, kind: &GroupVersionKind, here: &GroupVersion) -> (SmolStr, SmolStr) {
    if resource.crd.is_some() {
        return (kind.group_version.group.clone(), kind.group_version.version.clone());
    }
    foreign(kind, here)
}

fn names(verbs: Vec<&'static str>) -> Vec<SmolStr> {
    verbs.into_iter().map(SmolStr::new_static).collect()
}
