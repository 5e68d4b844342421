//! The input of discovery at one moment: the resources served here, the APIServices, and the resources of other
//! servers.

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_aggregation::{
    ApiService, ApiServices, GROUP, Priority, RemoteVersions, VersionDiscovery, by_group_and_version,
    by_highest_priority,
};
use holdfast_resource::Registry;
use holdfast_schema::GroupVersion;
use smol_str::SmolStr;

use super::groups;
use crate::operations::aggregation::{Aggregator, RemoteServers};
use crate::webhooks::Backend;

/// The input of discovery.
pub struct Catalog {
    /// The resources that are served here.
    pub(crate) registry: Arc<Registry>,
    /// The state of other servers; `None` if no controller handles APIServices.
    others: Option<Others>,
}

struct Others {
    servers: Arc<RemoteServers>,
    services: Arc<ApiServices<Backend>>,
    versions: Arc<RemoteVersions>,
}

/// The priority of group versions that CRDs serve.
const DEFINED: Priority = Priority {
    group: 1000,
    version: 100,
};

/// The priority of the group of APIServices, which comes before all others.
const FIRST: Priority = Priority {
    group: 20_000,
    version: 0,
};

impl Catalog {
    /// Collects the currently served resources, here and elsewhere.
    pub fn new(registry: Arc<Registry>, aggregator: Option<&Arc<Aggregator>>) -> Self {
        let others = aggregator.map(|aggregator| Others {
            servers: Arc::clone(aggregator.servers()),
            services: aggregator.servers().services(),
            versions: aggregator.servers().remote_versions(),
        });
        Self { registry, others }
    }

    /// Returns true if nothing has changed since `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_others = match (&self.others, &other.others) {
            (Some(one), Some(other)) => {
                Arc::ptr_eq(&one.services, &other.services) && Arc::ptr_eq(&one.versions, &other.versions)
            }
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.registry, &other.registry) && same_others
    }

    /// Returns the groups except the core group with their versions, as `/apis` lists them: those of APIServices in
    /// their order, and those of CRDs whose APIService does not exist yet.
    pub(crate) fn groups(&self) -> Vec<(SmolStr, Vec<SmolStr>)> {
        let Some(others) = &self.others else {
            return groups(&self.registry);
        };
        let named = others.services.all().filter(|service| !service.group.is_empty());
        let mut versions: Vec<_> = named
            .map(|service| (service.group_version(), service.priority))
            .collect();
        let known: HashSet<GroupVersion> = versions
            .iter()
            .map(|(group_version, _)| group_version.clone())
            .collect();
        for served in self.registry.group_versions().filter(|served| !known.contains(*served)) {
            if served.group == GROUP {
                versions.push((served.clone(), FIRST));
            } else if !self.registry.is_built_in_group(&served.group) {
                versions.push((served.clone(), DEFINED));
            }
        }
        by_group_and_version(versions)
    }

    /// Returns the groups except the core group with their versions in the order of aggregated discovery: the resources
    /// served here, and those that other servers have reported.
    pub(crate) fn groups_by_priority(&self) -> Vec<(SmolStr, Vec<SmolStr>)> {
        let Some(others) = &self.others else {
            return groups(&self.registry);
        };
        let priority = |served: &GroupVersion| match served.group == GROUP {
            true => FIRST,
            false => others.servers.built_in_priority(served).unwrap_or(DEFINED),
        };
        let here = self.registry.group_versions().filter(|served| !served.group.is_empty());
        let mut versions: Vec<_> = here.map(|served| (served.clone(), priority(served))).collect();
        for service in self.known_services() {
            let group_version = service.group_version();
            versions.retain(|(known, _)| *known != group_version);
            versions.push((group_version, service.priority));
        }
        by_highest_priority(versions)
    }

    /// Returns the APIServices whose servers have published their resources.
    fn known_services(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.others.iter().flat_map(|others| {
            let proxied = others.services.proxied_all().map(|proxied| &proxied.service);
            proxied.filter(|service| others.versions.contains_key(&service.name))
        })
    }

    /// Returns the discovery of a group by other servers.
    pub(crate) fn elsewhere(&self, group: &str) -> Vec<Arc<VersionDiscovery>> {
        let Some(others) = &self.others else {
            return Vec::new();
        };
        let of_group = self.known_services().filter(|service| service.group == group);
        of_group
            .filter_map(|service| others.versions.get(&service.name).cloned())
            .collect()
    }

    /// Returns another server's discovery of a group version, if it serves it.
    pub(crate) fn version_elsewhere(&self, group_version: &GroupVersion) -> Option<Arc<VersionDiscovery>> {
        let others = self.others.as_ref()?;
        let name = format!("{}.{}", group_version.version, group_version.group);
        others.services.proxied(&name)?;
        others.versions.get(name.as_str()).cloned()
    }

    /// Returns the paths of all group versions except those of the core group.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (group, versions) in self.groups() {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        }
        paths
    }
}
