//! Discovery of the resources of group versions, in the form of aggregated discovery, and what other servers report.

use std::collections::HashMap;

use holdfast_schema::GroupVersion;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The discovery of one group version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionDiscovery {
    /// Name of the version.
    #[serde(default)]
    pub version: SmolStr,
    /// Resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceDiscovery>,
    /// Freshness of the resources.
    #[serde(skip_deserializing)]
    pub freshness: Freshness,
}

/// The freshness of discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Freshness {
    /// The server answered the last request.
    #[default]
    Current,
    /// It did not.
    Stale,
}

/// Discovery of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceDiscovery {
    /// Plural name.
    pub resource: SmolStr,
    /// Kind of the objects.
    pub response_kind: KindDiscovery,
    /// `Namespaced` or `Cluster`.
    pub scope: SmolStr,
    /// Singular name.
    pub singular_resource: SmolStr,
    /// Supported verbs.
    pub verbs: Vec<SmolStr>,
    /// Short names for clients.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<SmolStr>,
    /// Groups of resources such as `all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<SmolStr>,
    /// Subresources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<SubresourceDiscovery>,
}

/// Discovery of a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubresourceDiscovery {
    /// Name without that of the resource.
    pub subresource: SmolStr,
    /// Kind of the objects.
    pub response_kind: KindDiscovery,
    /// Supported verbs.
    pub verbs: Vec<SmolStr>,
}

/// Kind of the objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindDiscovery {
    /// Group; empty if it is that of the list.
    pub group: SmolStr,
    /// Version; empty if it is that of the list.
    pub version: SmolStr,
    /// Kind.
    pub kind: SmolStr,
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
    pub fn resource(&self, plural: &str) -> Option<(&SmolStr, bool, &[SmolStr])> {
        let found = self.resources.iter().find(|resource| resource.resource == plural)?;
        let namespaced = found.scope == "Namespaced";
        Some((&found.response_kind.kind, namespaced, &found.verbs))
    }

    /// Builds the entry of a version from the answer of another server, if there is one; `fresh` is true if the server
    /// answered the current request.
    pub fn from_server(version: SmolStr, answer: Option<Self>, fresh: bool) -> Self {
        Self {
            version,
            resources: answer.map(|answer| answer.resources).unwrap_or_default(),
            freshness: if fresh { Freshness::Current } else { Freshness::Stale },
        }
    }

    /// Builds the entry from another server's answer in the older form, which lists subresources among the resources.
    pub fn from_legacy(version: SmolStr, list: ApiResources) -> Self {
        let mut resources: Vec<ResourceDiscovery> = Vec::new();
        let (subresources, others): (Vec<_>, Vec<_>) = list
            .resources
            .into_iter()
            .partition(|resource| resource.name.contains('/'));
        let scope = |namespaced| SmolStr::new_static(if namespaced { "Namespaced" } else { "Cluster" });
        for resource in others {
            resources.push(ResourceDiscovery {
                resource: resource.name,
                response_kind: KindDiscovery {
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
                response_kind: KindDiscovery {
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

/// The resources of a group version as another server reports them.
#[derive(Default, Deserialize)]
pub struct ApiResources {
    /// Resources and subresources.
    #[serde(default)]
    pub resources: Vec<ApiResource>,
}

/// A resource of another server, or a subresource: `RESOURCE/SUBRESOURCE`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResource {
    /// Plural name, or `RESOURCE/SUBRESOURCE`.
    pub name: SmolStr,
    /// Singular name.
    pub singular_name: SmolStr,
    /// True if the objects are in namespaces.
    pub namespaced: bool,
    /// Group of the kind; empty if it is that of the list.
    pub group: SmolStr,
    /// Version of the kind; empty if it is that of the list.
    pub version: SmolStr,
    /// Kind of the objects.
    pub kind: SmolStr,
    /// Supported verbs.
    pub verbs: Vec<SmolStr>,
    /// Short names for clients.
    pub short_names: Vec<SmolStr>,
    /// Groups of resources such as `all`.
    pub categories: Vec<SmolStr>,
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
        let said = VersionDiscovery::from_legacy("v1".into(), serde_json::from_str(json).unwrap());
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
        let fresh = VersionDiscovery::from_server("v1".into(), version, true);
        assert!(text(&fresh).contains(r#""resource":"things""#) && text(&fresh).contains(r#""freshness":"Current""#));
        let stale = VersionDiscovery::from_server("v1".into(), None, false);
        assert_eq!(text(&stale), r#"{"version":"v1","freshness":"Stale"}"#);
    }
}
