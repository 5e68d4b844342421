use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::{GroupKind, GroupResource, GroupVersion, Resource, ResourceVersion};

/// All resources that the server serves: an immutable snapshot, swapped whole when one is added or taken away.
#[derive(Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    /// The served group versions in the order of discovery.
    group_versions: Vec<GroupVersion>,
    by_path: HashMap<(SmolStr, SmolStr), HashMap<SmolStr, Served>>,
    by_group_resource: HashMap<GroupResource, Arc<Resource>>,
    by_group_kind: HashMap<GroupKind, Arc<Resource>>,
    by_prefix: HashMap<SmolStr, Arc<Resource>>,
}

/// A resource in one of its versions.
#[derive(Clone)]
pub struct Served {
    /// The resource.
    pub resource: Arc<Resource>,
    index: usize,
}

impl Served {
    /// What is known of the resource in this version.
    pub fn version(&self) -> &ResourceVersion {
        &self.resource.versions[self.index]
    }
}

impl Registry {
    /// A builder of a registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// The resource served at `/apis/GROUP/VERSION/…/PLURAL` (`/api/VERSION/…` for the core group).
    pub fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.by_path
            .get(&(SmolStr::new(group), SmolStr::new(version)))?
            .get(plural)
    }

    /// Whether any resource is served in this group and version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.by_path.contains_key(&(SmolStr::new(group), SmolStr::new(version)))
    }

    /// The resource of that group and plural name.
    pub fn resource(&self, resource: &GroupResource) -> Option<&Arc<Resource>> {
        self.by_group_resource.get(resource)
    }

    /// The resource whose objects are of that kind.
    pub fn kind(&self, kind: &GroupKind) -> Option<&Arc<Resource>> {
        self.by_group_kind.get(kind)
    }

    /// The resource whose objects are kept below `prefix` (see [`Storage::prefix`](crate::Storage::prefix)); the first that
    /// was added where resources share one.
    pub fn stored_below(&self, prefix: &str) -> Option<&Arc<Resource>> {
        self.by_prefix.get(prefix)
    }

    /// All resources in the order they were added, which is that of discovery.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The served group versions in the order of discovery: groups as they were added, each with its preferred version
    /// first.
    pub fn group_versions(&self) -> &[GroupVersion] {
        &self.group_versions
    }

    /// The resources served in a group and version, in the order of discovery.
    pub fn served_in<'a>(&'a self, group_version: &'a GroupVersion) -> impl Iterator<Item = Served> + 'a {
        self.resources.iter().filter_map(move |resource| {
            let index = resource
                .versions
                .iter()
                .position(|served| served.group_version == *group_version)?;
            Some(Served {
                resource: Arc::clone(resource),
                index,
            })
        })
    }
}

/// Collects resources and makes a [`Registry`] of them.
#[derive(Default)]
pub struct RegistryBuilder {
    resources: Vec<Arc<Resource>>,
    group_versions: Vec<GroupVersion>,
}

impl RegistryBuilder {
    /// Lists a group version at this place of discovery, before resources that are served in it are added.
    pub fn group_version(mut self, group_version: GroupVersion) -> Self {
        self.list(&group_version);
        self
    }

    /// Adds a resource; its group versions are listed where they are not yet.
    pub fn resource(mut self, resource: Arc<Resource>) -> Self {
        for served in &resource.versions {
            self.list(&served.group_version);
        }
        self.resources.push(resource);
        self
    }

    /// The registry of what was added.
    pub fn build(self) -> Registry {
        let mut registry = Registry {
            group_versions: self.group_versions,
            ..Registry::default()
        };
        for resource in self.resources {
            for (index, served) in resource.versions.iter().enumerate() {
                let GroupVersion { group, version } = served.group_version.clone();
                let entry = Served {
                    resource: Arc::clone(&resource),
                    index,
                };
                registry
                    .by_path
                    .entry((group, version))
                    .or_default()
                    .insert(resource.plural.clone(), entry);
            }
            registry
                .by_group_resource
                .insert(resource.group_resource(), Arc::clone(&resource));
            registry
                .by_group_kind
                .entry(resource.group_kind())
                .or_insert_with(|| Arc::clone(&resource));
            if let Some(storage) = &resource.storage {
                registry
                    .by_prefix
                    .entry(storage.prefix.clone())
                    .or_insert_with(|| Arc::clone(&resource));
            }
            registry.resources.push(resource);
        }
        registry
    }

    fn list(&mut self, group_version: &GroupVersion) {
        if !self.group_versions.contains(group_version) {
            self.group_versions.push(group_version.clone());
        }
    }
}
