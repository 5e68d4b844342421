//! The served resources.
//!
//! Built-in resources are indexed once and shared by all states of a [`Registry`]. Resources of CRDs are kept by group
//! in maps that share unchanged parts: adding one to a thousand resources costs as much as adding one to ten, and a
//! holder of an older state keeps it.

mod group;

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use holdfast_schema::{GroupKind, GroupResource, GroupVersion, KindTypes};
use imbl::OrdMap;
use smol_str::SmolStr;

pub use self::group::DefinedGroup;
use crate::descriptor::{Resource, ResourceVersion};

/// All resources that the server serves: an immutable snapshot, replaced when a resource is added or removed. Cloning
/// is cheap.
#[derive(Clone, Default)]
pub struct Registry {
    built_in: Arc<BuiltIn>,
    /// Resources of CRDs, by group.
    groups: OrdMap<SmolStr, Arc<DefinedGroup>>,
    /// Resources of CRDs, by [`Storage::prefix`](crate::Storage::prefix).
    by_prefix: OrdMap<SmolStr, Arc<Resource>>,
}

/// The built-in resources.
#[derive(Default)]
struct BuiltIn {
    types: Arc<KindTypes>,
    resources: Vec<Arc<Resource>>,
    /// The served group versions in the order of discovery.
    group_versions: Vec<GroupVersion>,
    listed: HashSet<GroupVersion>,
    groups: HashSet<SmolStr>,
    by_path: HashMap<(SmolStr, SmolStr), HashMap<SmolStr, Served>>,
    by_group_version: HashMap<GroupVersion, Vec<Served>>,
    by_group_resource: HashMap<GroupResource, Arc<Resource>>,
    by_group_kind: HashMap<GroupKind, Arc<Resource>>,
    by_prefix: HashMap<SmolStr, Vec<Arc<Resource>>>,
    namespaces: Option<Arc<Resource>>,
    definitions: Option<Arc<Resource>>,
}

/// A resource in one of its versions.
#[derive(Clone)]
pub struct Served {
    /// The resource.
    pub resource: Arc<Resource>,
    index: usize,
}

impl Served {
    /// Returns the data of this version of the resource.
    #[expect(
        clippy::indexing_slicing,
        reason = "made with the place of a version of the resource"
    )]
    pub fn version(&self) -> &ResourceVersion {
        &self.resource.versions[self.index]
    }

    /// Returns the resource in each of its versions.
    fn all(resource: &Arc<Resource>) -> impl Iterator<Item = Self> + '_ {
        (0..resource.versions.len()).map(|index| Self {
            resource: Arc::clone(resource),
            index,
        })
    }
}

impl Registry {
    /// Returns a builder of a registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Returns the types of the built-in kinds.
    pub fn types(&self) -> &Arc<KindTypes> {
        &self.built_in.types
    }

    /// Returns the resource served at `/apis/GROUP/VERSION/…/PLURAL` (`/api/VERSION/…` for the core group).
    ///
    /// A built-in group serves its built-in resources only, in every version: kube-apiserver's handler owns all paths
    /// below `/apis/GROUP` of a built-in group, so that no request reaches the handler of custom resources.
    pub fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        if self.is_built_in_group(group) {
            let key = (SmolStr::new(group), SmolStr::new(version));
            return self.built_in.by_path.get(&key)?.get(plural);
        }
        self.groups.get(group)?.served(version, plural)
    }

    /// Returns true if any resource is served in this group and version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        if self.is_built_in_group(group) {
            let key = (SmolStr::new(group), SmolStr::new(version));
            return self.built_in.by_path.contains_key(&key);
        }
        let group = self.groups.get(group);
        group.is_some_and(|group| group.version(version).is_some())
    }

    /// Returns the resource of that group and plural name.
    pub fn resource(&self, resource: &GroupResource) -> Option<&Arc<Resource>> {
        let built_in = self.built_in.by_group_resource.get(resource);
        built_in.or_else(|| self.groups.get(&resource.group)?.resource(&resource.resource))
    }

    /// Returns the resource whose objects are the namespaces.
    pub fn namespaces(&self) -> Option<&Arc<Resource>> {
        self.built_in.namespaces.as_ref()
    }

    /// Returns the resource whose objects define other resources.
    pub fn definitions(&self) -> Option<&Arc<Resource>> {
        self.built_in.definitions.as_ref()
    }

    /// Returns the resource whose objects are of that kind.
    pub fn kind(&self, kind: &GroupKind) -> Option<&Arc<Resource>> {
        let built_in = self.built_in.by_group_kind.get(kind);
        built_in.or_else(|| self.groups.get(&kind.group)?.kind(&kind.kind))
    }

    /// Returns the resource whose objects are stored below `prefix` (see [`Storage::prefix`](crate::Storage::prefix));
    /// the first added one if several resources share it.
    pub fn stored_below(&self, prefix: &str) -> Option<&Arc<Resource>> {
        self.stored_at(prefix).first()
    }

    /// Returns all resources in the order of discovery: built-in ones in the order in which they were added, then the
    /// others by group and name.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let defined = self.groups.values().flat_map(|group| group.resources());
        self.built_in.resources.iter().chain(defined)
    }

    /// Returns the resources whose objects are stored below the prefix, which ends with a slash.
    pub fn stored_at(&self, prefix: &str) -> &[Arc<Resource>] {
        match self.built_in.by_prefix.get(prefix) {
            Some(resources) => resources,
            None => self.by_prefix.get(prefix).map_or(&[], std::slice::from_ref),
        }
    }

    /// Returns the resources among whose objects `key` is stored.
    #[expect(
        clippy::indexing_slicing,
        reason = "the part lies within the text that was looked through"
    )]
    pub fn stored_around(&self, key: &[u8]) -> &[Arc<Resource>] {
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        // `/registry/PLURAL/…` or `/registry/GROUP/PLURAL/…`.
        let ends = slashes.map(|(at, _)| at + 1).skip(2).take(2);
        let prefixes = ends.filter_map(|end| std::str::from_utf8(&key[..end]).ok());
        prefixes
            .map(|prefix| self.stored_at(prefix))
            .find(|resources| !resources.is_empty())
            .unwrap_or_default()
    }

    /// Returns true if anything is served in the group.
    pub fn serves_group(&self, group: &str) -> bool {
        self.is_built_in_group(group) || self.groups.get(group).is_some_and(|group| group.is_served())
    }

    /// Returns true if the group serves built-in resources, and not only those of CRDs.
    pub fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in.groups.contains(group)
    }

    /// Returns the served group versions in the order of discovery: built-in groups in the order in which they were
    /// added, then the others alphabetically, each with its preferred version first.
    pub fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        let defined = self
            .groups
            .values()
            .flat_map(|group| group.group_versions())
            .filter(|listed| !self.built_in.listed.contains(*listed));
        self.built_in.group_versions.iter().chain(defined)
    }

    /// Returns true if the group version is among [`group_versions`](Self::group_versions).
    pub fn lists(&self, group_version: &GroupVersion) -> bool {
        let group = self.groups.get(&group_version.group);
        let defined = || group.and_then(|group| group.version(&group_version.version));
        self.built_in.listed.contains(group_version) || defined().is_some()
    }

    /// Returns true if `/apis/GROUP/VERSION` lists resources. A version that only CRDs add to a built-in group is
    /// [listed](Self::lists) among the versions of the group, but the path itself is not served.
    pub fn serves_resource_list(&self, group_version: &GroupVersion) -> bool {
        match self.is_built_in_group(&group_version.group) {
            true => self.built_in.listed.contains(group_version),
            false => self.lists(group_version),
        }
    }

    /// Returns the resources described for a group and version, in the order of discovery. In a built-in group version
    /// these are only the built-in resources; CRDs can add further versions to a built-in group.
    pub fn served_in<'a>(&'a self, group_version: &'a GroupVersion) -> impl Iterator<Item = Served> + 'a {
        let is_built_in = self.built_in.listed.contains(group_version);
        let built_in = self.built_in.by_group_version.get(group_version).into_iter().flatten();
        let group = self.groups.get(&group_version.group).filter(|_| !is_built_in);
        let defined = group.and_then(|group| group.version(&group_version.version));
        built_in.chain(defined.into_iter().flatten()).cloned()
    }

    /// Returns the resources of CRDs in the group. While the `Arc` stays the same, none of them has changed.
    pub fn defined_group(&self, group: &str) -> Option<&Arc<DefinedGroup>> {
        self.groups.get(group)
    }

    /// Serves the resource of a CRD, replacing the one of its group and name.
    pub fn define(&mut self, resource: Arc<Resource>) {
        if let Some(storage) = &resource.storage {
            self.by_prefix.insert(storage.prefix.clone(), Arc::clone(&resource));
        }
        let group = self.groups.entry(resource.group.clone()).or_default();
        Arc::make_mut(group).insert(resource);
    }

    /// Stops serving the resource of a CRD.
    pub fn undefine(&mut self, name: &GroupResource) {
        let Some(group) = self.groups.get_mut(&name.group) else {
            return;
        };
        let removed = Arc::make_mut(group).remove(&name.resource);
        if group.is_empty() {
            self.groups.remove(&name.group);
        }
        if let Some(storage) = removed.as_ref().and_then(|resource| resource.storage.as_ref()) {
            self.by_prefix.remove(&storage.prefix);
        }
    }
}

/// Builder of a [`Registry`] from built-in resources.
#[derive(Default)]
pub struct RegistryBuilder {
    types: KindTypes,
    resources: Vec<Arc<Resource>>,
    group_versions: Vec<GroupVersion>,
    listed: HashSet<GroupVersion>,
}

impl RegistryBuilder {
    /// Sets the types of the built-in kinds.
    pub fn types(mut self, types: KindTypes) -> Self {
        self.types = types;
        self
    }

    /// Lists a group version at this position of discovery, before the resources that are served in it are added.
    pub fn group_version(mut self, group_version: GroupVersion) -> Self {
        self.list(&group_version);
        self
    }

    /// Adds a resource; its group versions are listed unless they already are.
    pub fn resource(mut self, resource: Arc<Resource>) -> Self {
        for served in &resource.versions {
            self.list(&served.group_version);
        }
        self.resources.push(resource);
        self
    }

    /// Builds the registry of the added resources.
    pub fn build(self) -> Registry {
        let groups = self.group_versions.iter().map(|listed| listed.group.clone());
        let mut built_in = BuiltIn {
            types: Arc::new(self.types),
            groups: groups.collect(),
            group_versions: self.group_versions,
            listed: self.listed,
            ..BuiltIn::default()
        };
        for resource in self.resources {
            for served in Served::all(&resource) {
                let listed = served.version().group_version.clone();
                let GroupVersion { group, version } = listed.clone();
                let all = built_in.by_group_version.entry(listed).or_default();
                all.push(served.clone());
                let at = built_in.by_path.entry((group, version)).or_default();
                at.entry(resource.plural.clone()).or_insert(served);
            }
            let names = built_in.by_group_resource.entry(resource.group_resource());
            names.or_insert_with(|| Arc::clone(&resource));
            let kinds = built_in.by_group_kind.entry(resource.group_kind());
            kinds.or_insert_with(|| Arc::clone(&resource));
            if let Some(storage) = &resource.storage {
                let stored = built_in.by_prefix.entry(storage.prefix.clone()).or_default();
                stored.push(Arc::clone(&resource));
            }
            if resource.capabilities.is_namespace {
                built_in.namespaces = Some(Arc::clone(&resource));
            }
            if resource.capabilities.defines.is_some() {
                built_in.definitions = Some(Arc::clone(&resource));
            }
            built_in.resources.push(resource);
        }
        Registry {
            built_in: Arc::new(built_in),
            ..Registry::default()
        }
    }

    fn list(&mut self, group_version: &GroupVersion) {
        if self.listed.insert(group_version.clone()) {
            self.group_versions.push(group_version.clone());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_schema::{Conventions, KindName};
    use holdfast_structural::{CustomSchema, VersionSchema};
    use smol_str::format_smolstr;

    use super::*;
    use crate::descriptor::{Capabilities, CrdState, Generic, ResourceRules, Scope, Storage};

    /// Returns a resource `plural` in `group` with these versions; it comes from a CRD if it has a serial.
    fn resource(group: &str, plural: &str, kind: &str, versions: &[&str], serial: u64) -> Arc<Resource> {
        let version = |version: &&str| {
            let group_version = GroupVersion::new(group, *version);
            ResourceVersion {
                api_version: group_version.api_version(),
                kind_type: Arc::new(CustomSchema::new(
                    KindName::new(group_version.clone(), kind.into()),
                    Arc::new(VersionSchema::default),
                    Arc::default(),
                    Default::default(),
                )),
                group_version,
                list_kind: format_smolstr!("{kind}List"),
                storage_version_hash: SmolStr::default(),
                verbs: Vec::new(),
                subresources: Vec::new(),
                reset_fields: Default::default(),
                columns: Vec::new(),
                field_selectors: Vec::new(),
                deprecation: None,
                removed_release: SmolStr::default(),
            }
        };
        let crd = CrdState {
            name: format_smolstr!("{plural}.{group}"),
            serial,
            create_revision: serial,
            terminating: false,
            fingerprint: [0; 32],
            schemas: Vec::new(),
            conversion_webhook: None,
        };
        Arc::new(Resource {
            group: group.into(),
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            kind: kind.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Namespaced,
            versions: versions.iter().map(version).collect(),
            unserved: Vec::new(),
            storage: Some(Storage {
                prefix: format_smolstr!("/registry/{group}/{plural}/"),
                api_version: format_smolstr!("{group}/v1"),
                at_rest: crate::descriptor::AtRest {
                    api_version: format_smolstr!("{group}/v1"),
                    encoding: crate::descriptor::Encoding::Json,
                },
            }),
            rules: ResourceRules::default(),
            strategy: Arc::new(Generic),
            capabilities: Capabilities::default(),
            conventions: if serial > 0 {
                Conventions::DEFINED
            } else {
                Conventions::BUILT_IN
            },
            crd: (serial > 0).then_some(crd),
        })
    }

    fn registry() -> Registry {
        let apps = resource("apps", "deployments", "Deployment", &["v1"], 0);
        Registry::builder().resource(apps).build()
    }

    fn listed(registry: &Registry) -> Vec<String> {
        registry
            .group_versions()
            .map(|of| of.api_version().to_string())
            .collect()
    }

    #[test]
    fn a_defined_resource_is_found_by_all_its_names_until_it_goes() {
        let mut registry = registry();
        registry.define(resource("a.example.com", "widgets", "Widget", &["v1", "v1beta1"], 7));
        let name = GroupResource {
            group: "a.example.com".into(),
            resource: "widgets".into(),
        };
        let kind = GroupKind {
            group: "a.example.com".into(),
            kind: "Widget".into(),
        };
        let served = registry.served("a.example.com", "v1beta1", "widgets").unwrap();
        assert_eq!(served.version().api_version, "a.example.com/v1beta1");
        assert!(registry.serves("a.example.com", "v1") && registry.serves_group("a.example.com"));
        assert!(!registry.is_built_in_group("a.example.com"));
        assert_eq!(registry.resource(&name).unwrap().kind, "Widget");
        assert_eq!(registry.kind(&kind).unwrap().plural, "widgets");
        let around = registry.stored_around(b"/registry/a.example.com/widgets/default/a");
        assert_eq!(around.len(), 1);
        assert_eq!(registry.resources().count(), 2);

        let before = registry.clone();
        registry.undefine(&name);
        assert!(registry.served("a.example.com", "v1", "widgets").is_none() && registry.resource(&name).is_none());
        assert!(registry.kind(&kind).is_none() && !registry.serves_group("a.example.com"));
        assert!(registry.stored_at("/registry/a.example.com/widgets/").is_empty());
        assert_eq!(listed(&registry), ["apps/v1"]);
        assert!(before.resource(&name).is_some(), "an older state stays what it was");
    }

    #[test]
    fn groups_sort_by_name_and_versions_by_stability() {
        let mut registry = registry();
        registry.define(resource("b.example.com", "bs", "B", &["v1alpha1", "v2"], 1));
        registry.define(resource("a.example.com", "zs", "Z", &["v1beta1"], 2));
        registry.define(resource("a.example.com", "ys", "Y", &["v1"], 3));
        let all = [
            "apps/v1",
            "a.example.com/v1",
            "a.example.com/v1beta1",
            "b.example.com/v2",
            "b.example.com/v1alpha1",
        ];
        assert_eq!(listed(&registry), all);
        let group_version = GroupVersion::new("a.example.com", "v1");
        let served: Vec<_> = registry.served_in(&group_version).collect();
        assert_eq!((served.len(), served[0].resource.plural.as_str()), (1, "ys"));
        // A version that is no longer served is removed with the last resource that had it.
        registry.define(resource("a.example.com", "zs", "Z", &["v1"], 4));
        assert_eq!(registry.served_in(&group_version).count(), 2);
        assert!(!registry.lists(&GroupVersion::new("a.example.com", "v1beta1")));
    }

    #[test]
    fn definition_in_built_in_group_version_is_hidden() {
        let mut registry = registry();
        registry.define(resource("apps", "deployments", "Deployment", &["v1"], 1));
        registry.define(resource("apps", "widgets", "Widget", &["v1"], 2));
        let group_version = GroupVersion::new("apps", "v1");
        let served = registry.served("apps", "v1", "deployments").unwrap();
        assert!(served.resource.crd.is_none());
        assert!(registry.served("apps", "v1", "widgets").is_none());
        let described: Vec<Served> = registry.served_in(&group_version).collect();
        assert_eq!(described.len(), 1);
        assert!(described[0].resource.crd.is_none());
        assert_eq!(listed(&registry), ["apps/v1"]);
    }

    #[test]
    fn definition_adds_listed_version_to_built_in_group() {
        let mut registry = registry();
        registry.define(resource("apps", "widgets", "Widget", &["v2"], 1));
        let group_version = GroupVersion::new("apps", "v2");
        assert_eq!(listed(&registry), ["apps/v1", "apps/v2"]);
        assert_eq!(registry.served_in(&group_version).count(), 1);
        assert!(registry.lists(&group_version) && !registry.serves_resource_list(&group_version));
        assert!(registry.served("apps", "v2", "widgets").is_none() && !registry.serves("apps", "v2"));
    }

    #[test]
    fn a_group_in_which_nothing_changed_is_the_same() {
        let mut registry = registry();
        registry.define(resource("a.example.com", "as", "A", &["v1"], 1));
        registry.define(resource("b.example.com", "bs", "B", &["v1"], 2));
        let mut next = registry.clone();
        next.define(resource("b.example.com", "bs", "B", &["v1"], 3));
        let same = |group: &str| {
            let (a, b) = (registry.defined_group(group), next.defined_group(group));
            Arc::ptr_eq(a.unwrap(), b.unwrap())
        };
        assert!(same("a.example.com") && !same("b.example.com"));
    }

    #[test]
    fn resource_without_served_versions_is_still_registered() {
        let mut registry = registry();
        registry.define(resource("a.example.com", "as", "A", &[], 1));
        assert!(!registry.serves_group("a.example.com"));
        assert_eq!(registry.stored_at("/registry/a.example.com/as/").len(), 1);
    }
}
