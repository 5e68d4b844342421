//! Resources that CRDs add to one group.

use std::sync::Arc;

use holdfast_schema::GroupVersion;

use super::Served;
use crate::descriptor::Resource;
use crate::version_order;

/// The resources that CRDs add to one group. Lists are sorted by their search keys.
#[derive(Clone, Default)]
pub struct DefinedGroup {
    /// By plural name.
    resources: Vec<Arc<Resource>>,
    /// By kind.
    kinds: Vec<Arc<Resource>>,
    /// Served versions, the most stable first.
    versions: Vec<Version>,
}

#[derive(Clone)]
struct Version {
    group_version: GroupVersion,
    /// By plural name.
    served: Vec<Served>,
}

impl DefinedGroup {
    /// Returns all resources by name, served or not.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// Returns the versions in which anything is served, the preferred one first.
    pub fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.iter().map(|version| &version.group_version)
    }

    #[expect(clippy::indexing_slicing, reason = "the index holds places of the lists next to it")]
    pub(super) fn resource(&self, plural: &str) -> Option<&Arc<Resource>> {
        let at = place(&self.resources, plural, plural_of).ok()?;
        Some(&self.resources[at])
    }

    #[expect(clippy::indexing_slicing, reason = "the index holds places of the lists next to it")]
    pub(super) fn kind(&self, kind: &str) -> Option<&Arc<Resource>> {
        let at = place(&self.kinds, kind, kind_of).ok()?;
        Some(&self.kinds[at])
    }

    pub(super) fn version(&self, version: &str) -> Option<&[Served]> {
        let mut versions = self.versions.iter();
        let found = versions.find(|known| known.group_version.version == version)?;
        Some(&found.served)
    }

    #[expect(clippy::indexing_slicing, reason = "the index holds places of the lists next to it")]
    pub(super) fn served(&self, version: &str, plural: &str) -> Option<&Served> {
        let served = self.version(version)?;
        let at = place(served, plural, |served| plural_of(&served.resource)).ok()?;
        Some(&served[at])
    }

    pub(super) fn is_served(&self) -> bool {
        !self.versions.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Adds a resource, replacing the one of its name.
    #[expect(clippy::indexing_slicing, reason = "the index holds places of the lists next to it")]
    pub(super) fn insert(&mut self, resource: Arc<Resource>) {
        self.remove(&resource.plural);
        for served in Served::all(&resource) {
            let group_version = &served.version().group_version;
            let versions = &mut self.versions;
            let at = versions
                .binary_search_by(|known| version_order::compare(&known.group_version.version, &group_version.version))
                .unwrap_or_else(|at| {
                    let version = Version {
                        group_version: group_version.clone(),
                        served: Vec::new(),
                    };
                    versions.insert(at, version);
                    at
                });
            insert(&mut versions[at].served, served, |served| plural_of(&served.resource));
        }
        insert(&mut self.kinds, Arc::clone(&resource), kind_of);
        insert(&mut self.resources, resource, plural_of);
    }

    /// Removes a resource and returns it.
    pub(super) fn remove(&mut self, plural: &str) -> Option<Arc<Resource>> {
        let at = place(&self.resources, plural, plural_of).ok()?;
        let removed = self.resources.remove(at);
        self.kinds.retain(|resource| !Arc::ptr_eq(resource, &removed));
        for version in &mut self.versions {
            if let Ok(at) = place(&version.served, plural, |served| plural_of(&served.resource)) {
                version.served.remove(at);
            }
        }
        self.versions.retain(|version| !version.served.is_empty());
        Some(removed)
    }
}

fn plural_of(resource: &Arc<Resource>) -> &str {
    &resource.plural
}

fn kind_of(resource: &Arc<Resource>) -> &str {
    &resource.kind
}

fn place<T>(sorted: &[T], name: &str, name_of: impl Fn(&T) -> &str) -> Result<usize, usize> {
    sorted.binary_search_by(|known| name_of(known).cmp(name))
}

/// Inserts an item after those of the same name.
fn insert<T>(sorted: &mut Vec<T>, item: T, name_of: impl Fn(&T) -> &str) {
    let at = sorted.partition_point(|known| name_of(known) <= name_of(&item));
    sorted.insert(at, item);
}
