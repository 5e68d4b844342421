//! Discovery in the newer form: one document for all of `/api` and one for all of `/apis`
//! (<https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery>).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use holdfast_proto::Messages;
use holdfast_resource::{DefinedGroup, Registry, Resource};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response as HttpResponse, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha512};
use smol_str::SmolStr;

use super::legacy::{ApiResources, foreign};
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

/// The discovery of one group version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionDiscovery {
    #[serde(default)]
    version: SmolStr,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<ResourceDiscovery>,
    #[serde(skip_deserializing)]
    freshness: Freshness,
}

/// The freshness of discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
enum Freshness {
    #[default]
    Current,
    Stale,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceDiscovery {
    resource: SmolStr,
    response_kind: Kind,
    scope: SmolStr,
    singular_resource: SmolStr,
    verbs: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubresourceDiscovery {
    subresource: SmolStr,
    response_kind: Kind,
    verbs: Vec<SmolStr>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Kind {
    group: SmolStr,
    version: SmolStr,
    kind: SmolStr,
}

/// The groups that another server reports.
#[derive(Deserialize)]
pub(crate) struct ApiGroups {
    #[serde(default)]
    items: Vec<RemoteGroup>,
}

#[derive(Deserialize)]
struct RemoteGroup {
    #[serde(default)]
    metadata: RemoteMetadata,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
struct RemoteMetadata {
    #[serde(default)]
    name: SmolStr,
}

impl ApiGroups {
    /// Returns the discovery of each group version.
    pub(crate) fn by_version(self) -> HashMap<GroupVersion, VersionDiscovery> {
        let mut by_version = HashMap::new();
        for group in self.items {
            for said in group.versions {
                let group_version = GroupVersion::new(group.metadata.name.clone(), said.version.clone());
                by_version.insert(group_version, said);
            }
        }
        by_version
    }
}

impl VersionDiscovery {
    /// Returns another server's entry of the resource of that plural name: its kind, whether its objects are in
    /// namespaces, and its verbs.
    pub(crate) fn resource(&self, plural: &str) -> Option<(&SmolStr, bool, &[SmolStr])> {
        let found = self.resources.iter().find(|resource| resource.resource == plural)?;
        let namespaced = found.scope == "Namespaced";
        Some((&found.response_kind.kind, namespaced, &found.verbs))
    }

    /// Builds the entry of a version from the answer of another server, if there is one; `fresh` is true if the server
    /// answered the current request.
    pub(crate) fn of_server(version: SmolStr, said: Option<Self>, fresh: bool) -> Self {
        Self {
            version,
            resources: said.map(|said| said.resources).unwrap_or_default(),
            freshness: if fresh { Freshness::Current } else { Freshness::Stale },
        }
    }

    /// Builds the entry from another server's answer in the older form, which lists subresources among the resources.
    pub(crate) fn of_older_form(version: SmolStr, said: ApiResources) -> Self {
        let mut resources: Vec<ResourceDiscovery> = Vec::new();
        let (subresources, others): (Vec<_>, Vec<_>) = said
            .resources
            .into_iter()
            .partition(|resource| resource.name.contains('/'));
        let scope = |namespaced| SmolStr::new_static(if namespaced { "Namespaced" } else { "Cluster" });
        for resource in others {
            resources.push(ResourceDiscovery {
                resource: resource.name,
                response_kind: Kind {
                    group: resource.group,
                    version: resource.version,
                    kind: resource.kind,
                },
                scope: scope(resource.namespaced),
                singular_resource: resource.singular_name,
                verbs: resource.verbs,
                short_names: resource.short_names,
                categories: resource.categories,
                subresources: Vec::new(),
            });
        }
        for subresource in subresources {
            let (parent, name) = subresource.name.split_once('/').unwrap_or_default();
            if !resources.iter().any(|resource| resource.resource == parent) {
                resources.push(ResourceDiscovery {
                    resource: parent.into(),
                    scope: scope(subresource.namespaced),
                    ..ResourceDiscovery::default()
                });
            }
            let made = SubresourceDiscovery {
                subresource: name.into(),
                response_kind: Kind {
                    group: subresource.group,
                    version: subresource.version,
                    kind: subresource.kind,
                },
                verbs: subresource.verbs,
            };
            let parent = resources.iter_mut().find(|resource| resource.resource == parent);
            if let Some(parent) = parent {
                parent.subresources.push(made);
            }
        }
        Self {
            version,
            resources,
            freshness: Freshness::Current,
        }
    }
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
                response_kind: Kind {
                    group,
                    version,
                    kind: subresource.kind.kind.clone(),
                },
                verbs: names(verb_names(resource, &subresource.verbs)),
            }
        });
        resources.push(ResourceDiscovery {
            resource: resource.plural.clone(),
            response_kind: Kind {
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
fn own_group_version(resource: &Resource, here: &GroupVersion) -> Kind {
    match resource.crd {
        None => Kind::default(),
        Some(_) => Kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_remote_discovery_converts_to_aggregated_form() {
        let json = r#"{"resources":[
            {"name":"pods/log","singularName":"","namespaced":true,"kind":"Log","verbs":["get"]},
            {"name":"nodes","singularName":"node","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},
            {"name":"nodes/status","singularName":"","namespaced":false,"group":"a","version":"v1","kind":"S","verbs":[]}]}"#;
        let said = VersionDiscovery::of_older_form("v1".into(), serde_json::from_str(json).unwrap());
        let listed: Vec<String> = said
            .resources
            .iter()
            .map(|resource| {
                let all = resource.subresources.iter();
                let subresources: Vec<_> = all
                    .map(|sub| format!("{}:{}", sub.subresource, sub.response_kind.kind))
                    .collect();
                format!(
                    "{} {} {} {}",
                    resource.resource,
                    resource.scope,
                    resource.response_kind.kind,
                    subresources.join(",")
                )
            })
            .collect();
        assert_eq!(
            listed,
            ["nodes Cluster NodeMetrics status:S", "pods Namespaced  log:Log"]
        );
    }

    #[test]
    fn a_server_that_does_not_answer_is_said_to_be_stale() {
        let document: ApiGroups = serde_json::from_str(
            r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"g"},"versions":[
                {"version":"v1","freshness":"Current","resources":[{"resource":"things","scope":"Cluster"}]}]}]}"#,
        )
        .unwrap();
        let said = document.by_version();
        let version = said.get(&GroupVersion::new("g", "v1")).cloned();
        let text = |version: &VersionDiscovery| serde_json::to_string(version).unwrap();
        let fresh = VersionDiscovery::of_server("v1".into(), version, true);
        assert!(text(&fresh).contains(r#""resource":"things""#) && text(&fresh).contains(r#""freshness":"Current""#));
        let stale = VersionDiscovery::of_server("v1".into(), None, false);
        assert_eq!(text(&stale), r#"{"version":"v1","freshness":"Stale"}"#);
    }
}
