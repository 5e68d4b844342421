use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smol_str::SmolStr;

use crate::version_order;
use crate::{GroupKind, GroupResource, GroupVersion, Resource, ResourceVersion};

/// All resources that the server serves: an immutable snapshot, swapped whole when one is added or taken away.
#[derive(Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    /// The served group versions in the order of discovery.
    group_versions: Vec<GroupVersion>,
    groups: HashSet<SmolStr>,
    built_in_groups: HashSet<SmolStr>,
    by_path: HashMap<(SmolStr, SmolStr), HashMap<SmolStr, Served>>,
    by_group_version: HashMap<GroupVersion, Vec<Served>>,
    by_group_resource: HashMap<GroupResource, Arc<Resource>>,
    by_group_kind: HashMap<GroupKind, Arc<Resource>>,
    by_prefix: HashMap<SmolStr, Vec<Arc<Resource>>>,
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
        self.by_prefix.get(prefix)?.first()
    }

    /// All resources in the order they were added, which is that of discovery.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The resources whose objects are kept below the prefix, which ends with a slash.
    pub fn stored_at(&self, prefix: &str) -> &[Arc<Resource>] {
        self.by_prefix.get(prefix).map_or(&[], |resources| resources)
    }

    /// The resources whose objects are kept where `key` is.
    pub fn stored_around(&self, key: &[u8]) -> &[Arc<Resource>] {
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        // `/registry/PLURAL/…` or `/registry/GROUP/PLURAL/…`.
        let mut ends = slashes.map(|(at, _)| at + 1).skip(2).take(2);
        ends.find_map(|end| {
            let prefix = std::str::from_utf8(&key[..end]).ok()?;
            self.by_prefix.get(prefix)
        })
        .map_or(&[], |resources| resources)
    }

    /// Whether anything is served in the group.
    pub fn serves_group(&self, group: &str) -> bool {
        self.groups.contains(group)
    }

    /// Whether a built-in resource is served in the group, rather than defined ones alone.
    pub fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in_groups.contains(group)
    }

    /// A builder of a registry that begins with what this one has, but for resources that come from definitions.
    pub fn rebuild(&self) -> RegistryBuilder {
        let mut builder = RegistryBuilder::default();
        for group_version in &self.group_versions {
            if self.built_in_groups.contains(&group_version.group) {
                builder = builder.group_version(group_version.clone());
            }
        }
        for resource in self.resources.iter().filter(|resource| resource.definition.is_none()) {
            builder = builder.resource(Arc::clone(resource));
        }
        builder
    }

    /// The served group versions in the order of discovery: groups as they were added, each with its preferred version
    /// first.
    pub fn group_versions(&self) -> &[GroupVersion] {
        &self.group_versions
    }

    /// The resources served in a group and version, in the order of discovery.
    pub fn served_in<'a>(&'a self, group_version: &'a GroupVersion) -> impl Iterator<Item = Served> + 'a {
        self.by_group_version.get(group_version).into_iter().flatten().cloned()
    }
}

/// Collects resources and makes a [`Registry`] of them.
#[derive(Default)]
pub struct RegistryBuilder {
    resources: Vec<Arc<Resource>>,
    group_versions: Vec<GroupVersion>,
    listed: HashSet<GroupVersion>,
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

    /// Adds resources that come from definitions: groups by the alphabet, and in each the more stable versions first.
    pub fn defined(mut self, resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut resources: Vec<Arc<Resource>> = resources.into_iter().collect();
        resources.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
        let versions = resources.iter().flat_map(|resource| &resource.versions);
        let mut group_versions: Vec<GroupVersion> = versions.map(|version| version.group_version.clone()).collect();
        group_versions.sort_by(|a, b| {
            let in_group = || version_order::compare(&a.version, &b.version);
            a.group.cmp(&b.group).then_with(in_group)
        });
        for group_version in &group_versions {
            self.list(group_version);
        }
        resources.into_iter().fold(self, Self::resource)
    }

    /// The registry of what was added.
    pub fn build(self) -> Registry {
        let groups = self.group_versions.iter().map(|listed| listed.group.clone());
        let mut registry = Registry {
            groups: groups.collect(),
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
                let listed = registry.by_group_version.entry(served.group_version.clone());
                listed.or_default().push(entry.clone());
                let served = registry.by_path.entry((group, version)).or_default();
                // What is built in stays what it is.
                served.entry(resource.plural.clone()).or_insert(entry);
            }
            registry
                .by_group_resource
                .entry(resource.group_resource())
                .or_insert_with(|| Arc::clone(&resource));
            if let Some(storage) = &resource.storage {
                let stored = registry.by_prefix.entry(storage.prefix.clone()).or_default();
                stored.push(Arc::clone(&resource));
            }
            if resource.definition.is_none() {
                registry.built_in_groups.insert(resource.group.clone());
            }
            registry
                .by_group_kind
                .entry(resource.group_kind())
                .or_insert_with(|| Arc::clone(&resource));
            registry.resources.push(resource);
        }
        registry
    }

    fn list(&mut self, group_version: &GroupVersion) {
        if self.listed.insert(group_version.clone()) {
            self.group_versions.push(group_version.clone());
        }
    }
}
