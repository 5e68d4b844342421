//! Discovery in the older form: `/api`, `/apis`, `/apis/GROUP`, `/api/v1` and `/apis/GROUP/VERSION`.

use holdfast_resource::{Registry, Verb};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};

use super::{Catalog, groups, sorted, subresources, verb_names};
use crate::operations::changes::{API_VERSION, history};

/// `/api`: the versions of the core group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiVersions {
    kind: &'static str,
    versions: Vec<SmolStr>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    addresses: [ServerAddress; 1],
}

#[derive(Serialize)]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    server_address: String,
}

impl ApiVersions {
    /// Returns the versions of the core group, served at `address` (host and port).
    pub fn new(registry: &Registry, address: &str) -> Self {
        let core = registry.group_versions().filter(|served| served.group.is_empty());
        Self {
            kind: "APIVersions",
            versions: core.map(|served| served.version.clone()).collect(),
            addresses: [ServerAddress {
                client_cidr: "0.0.0.0/0",
                server_address: address.to_owned(),
            }],
        }
    }
}

/// `/apis`: all groups except the core group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroupList {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup>,
}

/// `/apis/GROUP`: the versions of a group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: SmolStr,
    versions: Vec<GroupVersionName>,
    preferred_version: Option<GroupVersionName>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionName {
    group_version: SmolStr,
    version: SmolStr,
}

impl ApiGroupList {
    /// Returns all groups except the core group.
    pub fn new(catalog: &Catalog) -> Self {
        let groups = catalog.groups().into_iter();
        Self {
            kind: "APIGroupList",
            api_version: "v1",
            groups: groups
                .map(|(name, versions)| ApiGroup::from_versions(name, versions))
                .collect(),
        }
    }
}

impl ApiGroup {
    /// Returns the group `name`, if it is served.
    pub fn new(catalog: &Catalog, name: &str) -> Option<Self> {
        // Groups without an APIService are listed as they are served.
        let mut groups = catalog.groups().into_iter().chain(groups(&catalog.registry));
        let (name, versions) = groups.find(|(group, _)| group == name)?;
        Some(Self {
            kind: Some("APIGroup"),
            api_version: Some("v1"),
            ..Self::from_versions(name, versions)
        })
    }

    fn from_versions(name: SmolStr, versions: Vec<SmolStr>) -> Self {
        let named = versions.into_iter().map(|version| GroupVersionName {
            group_version: format_smolstr!("{name}/{version}"),
            version,
        });
        let versions: Vec<GroupVersionName> = named.collect();
        Self {
            kind: None,
            api_version: None,
            name,
            preferred_version: versions.first().cloned(),
            versions,
        }
    }
}

/// `/api/VERSION` and `/apis/GROUP/VERSION`: the resources of a group version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResourceList {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: SmolStr,
    resources: Vec<ApiResource>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: SmolStr,
    singular_name: SmolStr,
    namespaced: bool,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    group: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    version: SmolStr,
    kind: SmolStr,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<SmolStr>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    storage_version_hash: SmolStr,
}

impl ApiResourceList {
    /// Returns the resources of a group version, if it is served.
    pub fn new(registry: &Registry, group: &str, version: &str) -> Option<Self> {
        let group_version = GroupVersion::new(group, version);
        if !registry.serves_resource_list(&group_version) {
            return None;
        }
        let mut resources = Vec::new();
        for served in sorted(registry, &group_version) {
            let resource = &served.resource;
            resources.push(ApiResource {
                name: resource.plural.clone(),
                singular_name: resource.singular.clone(),
                namespaced: resource.namespaced(),
                group: SmolStr::default(),
                version: SmolStr::default(),
                kind: resource.kind.clone(),
                verbs: verb_names(resource, &served.version().verbs),
                short_names: resource.short_names.clone(),
                categories: resource.categories.clone(),
                storage_version_hash: served.version().storage_version_hash.clone(),
            });
            for subresource in subresources(&served) {
                let (group, version) = foreign(&subresource.kind, &group_version);
                resources.push(ApiResource {
                    name: format_smolstr!("{}/{}", resource.plural, subresource.name),
                    singular_name: SmolStr::default(),
                    namespaced: resource.namespaced(),
                    group,
                    version,
                    kind: subresource.kind.kind.clone(),
                    verbs: verb_names(resource, &subresource.verbs),
                    short_names: Vec::new(),
                    categories: Vec::new(),
                    storage_version_hash: SmolStr::default(),
                });
            }
        }
        Some(Self {
            kind: "APIResourceList",
            // The reference omits it for the core group.
            api_version: (!group.is_empty()).then_some("v1"),
            group_version: group_version.api_version(),
            resources,
        })
    }

    /// Adds the history of the objects of each resource.
    pub fn add_histories(&mut self, registry: &Registry, group: &str, version: &str) {
        let group_version = GroupVersion::new(group, version);
        let served = sorted(registry, &group_version).into_iter().filter(history::is_served);
        let (own_group, own_version) = API_VERSION.split_once('/').unwrap_or_default();
        self.resources.extend(served.map(|served| ApiResource {
            name: format_smolstr!("{}/{}", served.resource.plural, history::SUBRESOURCE),
            singular_name: SmolStr::default(),
            namespaced: served.resource.namespaced(),
            group: own_group.into(),
            version: own_version.into(),
            kind: history::KIND.into(),
            verbs: vec![Verb::Get.name()],
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: SmolStr::default(),
        }));
        self.resources.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

/// Returns the group and version of a kind if they differ from those of the list that contains it.
pub(super) fn foreign(kind: &GroupVersionKind, here: &GroupVersion) -> (SmolStr, SmolStr) {
    if kind.group_version == *here {
        (SmolStr::default(), SmolStr::default())
    } else {
        (kind.group_version.group.clone(), kind.group_version.version.clone())
    }
}
