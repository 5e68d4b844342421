//! Reader of the tables of resources.

use std::sync::Arc;

use holdfast_resource::{
    AtRest, Capabilities, Encoding, GarbageCollection, Generation, Generic, Resource, ResourceRules, ResourceVersion,
    Scope, Storage, Subresource, Verb,
};
use holdfast_schema::types::TypeTable;
use holdfast_schema::{
    Conventions, FieldDefaults, GroupVersion, GroupVersionKind, KindType, NameRule, ScaleFields, TableType, TableTypes,
};
use holdfast_value::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::apis::Apis;
use crate::columns::Columns;
use crate::features::{Feature, Features};
use crate::group_versions::{MORE_RESOURCES, RESOURCES, listed};
use crate::kind::Kind;
use crate::metadata_checks;

/// Error in the text of a table of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource table, line {line}: {what}")]
pub struct ResourceTableError {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the error.
    pub what: &'static str,
}

/// Function that returns the kind of a resource, by group and plural name, if its descriptor does not define all
/// behavior.
pub type KindOf<'a> = dyn Fn(&str, &str) -> Option<Kind> + 'a;

/// Returns all built-in resources that are served or stored, in discovery order, with objects of these types. `kind_of`
/// adds the code of each kind.
///
/// # Errors
/// If a table cannot be read, which the tests of this crate rule out.
pub fn resources(
    kind_of: &KindOf<'_>,
    types: &Arc<TableTypes>,
    apis: &Apis,
    features: Features,
) -> Result<Vec<Resource>, ResourceTableError> {
    let mut reader = Reader {
        kind_of,
        types,
        apis,
        features,
        columns: Columns::read(),
        found: Vec::new(),
        current: None,
    };
    reader.read(RESOURCES)?;
    reader.found.iter_mut().for_each(keep_in_known_version);
    let has_more = listed(MORE_RESOURCES).any(|more| apis.has_more(&more.group));
    if has_more {
        reader.read(MORE_RESOURCES)?;
    }
    Ok(reader.finish(has_more))
}

/// Stores a resource in its first version. The reference stores a few resources in a beta version that it does not
/// serve by default. The fields are those of the first version, so only the `apiVersion` of the stored bytes differs.
fn keep_in_known_version(entry: &mut Entry) {
    let group = format!("{}/", entry.resource.group);
    if let (Some(storage), Some(first)) = (&mut entry.resource.storage, entry.versions.first())
        && storage.api_version.starts_with(&group)
        && !entry.versions.contains(&storage.api_version)
    {
        storage.api_version = first.clone();
    }
}

/// A resource during the read.
struct Entry {
    resource: Resource,
    kind: Kind,
    /// The `apiVersion` of each version in the tables, served or not.
    versions: Vec<SmolStr>,
    /// True if the gate of the resource is on, or if it needs none.
    is_on: bool,
}

/// Reader of the tables in sequence. A resource that a later table repeats gets more versions.
struct Reader<'a> {
    kind_of: &'a KindOf<'a>,
    types: &'a Arc<TableTypes>,
    apis: &'a Apis,
    features: Features,
    columns: Columns,
    found: Vec<Entry>,
    /// Index of the current resource, and true if the current version is served.
    current: Option<(usize, bool)>,
}

impl Reader<'_> {
    fn read(&mut self, text: &str) -> Result<(), ResourceTableError> {
        let mut group = SmolStr::default();
        self.current = None;
        for (at, line) in text.lines().enumerate() {
            let wrong = |what| ResourceTableError { line: at + 1, what };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first().copied() {
                None | Some("#") => {}
                Some("group") => {
                    let name = *words.get(1).ok_or(wrong("a group without name"))?;
                    group = SmolStr::new(if name == "core" { "" } else { name });
                }
                Some("resource") => {
                    let at = self
                        .resource(&group, &words)
                        .ok_or(wrong("not the words of a resource"))?;
                    self.current = Some((at, true));
                }
                Some(_) if self.current.is_none() => return Err(wrong("a property before any resource")),
                Some(_) => self.property(&words).ok_or(wrong("not the words of a property"))?,
            }
        }
        Ok(())
    }

    /// Returns the index of the resource that a line names, and adds the resource if it is new.
    fn resource(&mut self, group: &SmolStr, words: &[&str]) -> Option<usize> {
        let read = resource(group, words)?;
        let known = |entry: &Entry| entry.resource.group == *group && entry.resource.plural == read.plural;
        if let Some(at) = self.found.iter().position(known) {
            return Some(at);
        }
        let kind = (self.kind_of)(group, &read.plural).unwrap_or_default();
        self.found.push(Entry {
            resource: kind.with_row(read),
            kind,
            versions: Vec::new(),
            is_on: true,
        });
        Some(self.found.len() - 1)
    }

    /// Adds the property of a line. Returns `None` for an unknown property.
    fn property(&mut self, words: &[&str]) -> Option<()> {
        let (at, is_served) = self.current?;
        match *words {
            ["feature", name] => {
                let feature = Feature::named(name)?;
                self.found.get_mut(at)?.is_on = self.features.has(feature);
                Some(())
            }
            ["version", version, verbs, ref tags @ ..] => {
                let is_served = self.version(at, version, verbs, tags)?;
                self.current = Some((at, is_served));
                Some(())
            }
            ["subresource", ..] if !is_served => Some(()),
            ["subresource", name, kind, verbs, ref tags @ ..] => {
                let subresource = subresource(&self.columns, name, kind, verbs, tags)?;
                let resource = &mut self.found.get_mut(at)?.resource;
                resource.versions.last_mut()?.subresources.push(subresource);
                Some(())
            }
            _ => complete(&mut self.found.get_mut(at)?.resource, words),
        }
    }

    /// Adds a version of a resource and returns true if it is served. A version that is not served needs a type only if
    /// objects are stored in it.
    fn version(&mut self, at: usize, version: &str, verbs: &str, tags: &[&str]) -> Option<bool> {
        let entry = self.found.get_mut(at)?;
        let (resource, kind) = (&mut entry.resource, &entry.kind);
        let group_version = GroupVersion::new(resource.group.clone(), version);
        let api_version = group_version.api_version();
        entry.versions.push(api_version.clone());
        let kind_name = GroupVersionKind {
            group_version: group_version.clone(),
            kind: resource.kind.clone(),
        };
        let strategy = Arc::clone(&resource.strategy);
        let defaults: FieldDefaults =
            Arc::new(move |version: &str, object: &mut Value| strategy.default_fields(version, object));
        let kind_type = TableType::new(self.types, kind_name, Some(defaults));
        if !entry.is_on || !self.apis.serves(&group_version, &resource.plural) {
            resource
                .unserved
                .extend(kind_type.map(|kind_name| Arc::new(kind_name) as Arc<dyn KindType>));
            return Some(false);
        }
        let shown = |version: &SmolStr| self.columns.for_resource(version, &resource.plural, kind.cells);
        let stored = resource.storage.as_ref().map(|storage| &storage.api_version);
        let columns = stored
            .and_then(shown)
            .or_else(|| shown(&api_version))
            .or_else(|| entry.versions.iter().find_map(shown));
        let deprecation = Deprecation::parse(tags, &api_version, &resource.kind);
        resource.versions.push(ResourceVersion {
            kind_type: Arc::new(kind_type?),
            list_kind: format_smolstr!("{}List", resource.kind),
            storage_version_hash: match self.features.has(Feature::StorageVersionHash) {
                true => tag(tags, "hash").map(SmolStr::new).unwrap_or_default(),
                false => SmolStr::default(),
            },
            verbs: verbs_of(verbs)?,
            subresources: Vec::new(),
            reset_fields: match kind.writes_status {
                true => Arc::default(),
                false => reset_fields(tags),
            },
            columns: columns.unwrap_or_else(|| self.columns.defaults()),
            field_selectors: Vec::new(),
            removed_release: deprecation
                .as_ref()
                .map(|kind_name| kind_name.removed.clone())
                .unwrap_or_default(),
            deprecation: deprecation
                .map(|kind_name| kind_name.warning)
                .or_else(|| kind.deprecation.map(SmolStr::new_static)),
            group_version,
            api_version,
        });
        Some(true)
    }

    /// Returns the resources without those that have nothing to serve or read. If versions beyond the defaults are
    /// served, the resources that only they have are sorted by name, as discovery lists them.
    fn finish(mut self, has_more: bool) -> Vec<Resource> {
        self.found.retain(|entry| entry.is_known());
        if has_more {
            let mut groups: Vec<SmolStr> = Vec::new();
            for entry in &self.found {
                if !groups.contains(&entry.resource.group) {
                    groups.push(entry.resource.group.clone());
                }
            }
            let place = |entry: &Entry| groups.iter().position(|group| *group == entry.resource.group);
            self.found
                .sort_by_cached_key(|entry| (place(entry), entry.resource.plural.clone()));
        }
        let types = self.types.table();
        let finished = self.found.into_iter().map(|entry| {
            let mut resource = entry.resource;
            if let Some(rule) = entry.kind.names {
                resource.rules.name = rule;
            }
            if entry.kind.empty_status {
                resource.rules.initial_status = zero_status(&resource, types);
            }
            resource
        });
        finished.collect()
    }
}

impl Entry {
    /// Returns true if any part is served, or if a type exists for objects that may be stored.
    fn is_known(&self) -> bool {
        let resource = &self.resource;
        !resource.versions.is_empty() || resource.unserved.len() == self.versions.len()
    }
}

/// Deprecation of a version of a resource.
struct Deprecation {
    /// Warning in responses.
    warning: SmolStr,
    /// Release that no longer serves the version.
    removed: SmolStr,
}

impl Deprecation {
    /// Parses `deprecated(SINCE,REMOVED)` or `deprecated(SINCE,REMOVED,GROUP/VERSION/KIND)`.
    fn parse(tags: &[&str], api_version: &str, kind: &str) -> Option<Self> {
        let mut words = tag(tags, "deprecated")?.split(',');
        let (since, removed) = (words.next()?, words.next()?);
        let instead = words
            .next()
            .and_then(|of| of.rsplit_once('/'))
            .map(|(version, kind)| format!("; use {version} {kind}"));
        Some(Self {
            warning: format_smolstr!(
                "{api_version} {kind} is deprecated in v{since}+, unavailable in v{removed}+{}",
                instead.unwrap_or_default()
            ),
            removed: SmolStr::new(removed),
        })
    }
}

/// Returns the zero value of the status of a resource.
fn zero_status(resource: &Resource, types: &TypeTable) -> Option<Value> {
    let stored = resource
        .storage
        .as_ref()
        .and_then(|storage| GroupVersion::parse(&storage.api_version));
    let group_version = stored.or_else(|| Some(resource.versions.first()?.group_version.clone()))?;
    let kind = resource.kind.clone();
    let object_type = types.get(types.id_of_kind(&GroupVersionKind { group_version, kind })?);
    Some(types.zero(&object_type.field("status")?.shape))
}

fn resource(group: &SmolStr, words: &[&str]) -> Option<Resource> {
    let [_, plural, singular, kind, scope] = words else {
        return None;
    };
    Some(Resource {
        group: group.clone(),
        plural: SmolStr::new(plural),
        singular: SmolStr::new(singular),
        kind: SmolStr::new(kind),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: match *scope {
            "namespaced" => Scope::Namespaced,
            "cluster" => Scope::Cluster,
            _ => return None,
        },
        versions: Vec::new(),
        unserved: Vec::new(),
        storage: None,
        rules: ResourceRules {
            metadata_checks: metadata_checks::COMMON_CHECKS,
            protobuf: true,
            ..ResourceRules::default()
        },
        strategy: Arc::new(Generic),
        capabilities: Capabilities::default(),
        conventions: Conventions::BUILT_IN,
        crd: None,
    })
}

/// Adds a property that a line defines for all versions. Returns `None` for an unknown property.
fn complete(resource: &mut Resource, words: &[&str]) -> Option<()> {
    let rules = &mut resource.rules;
    match *words {
        ["short-names", list] => resource.short_names = names(list),
        ["categories", list] => resource.categories = names(list),
        ["storage", prefix, version, encoding] => {
            resource.storage = Some(Storage {
                prefix: SmolStr::new(prefix),
                api_version: SmolStr::new(version),
                at_rest: AtRest {
                    api_version: SmolStr::new(version),
                    encoding: match encoding {
                        "protobuf" => Encoding::Protobuf,
                        "json" => Encoding::Json,
                        _ => return None,
                    },
                },
            });
        }
        ["names", rule] => {
            rules.name = match rule {
                "subdomain" => NameRule::Subdomain,
                "label" => NameRule::Label,
                "long-name" => NameRule::LongName,
                "path-segment" => NameRule::PathSegment,
                "own" => NameRule::Own,
                _ => return None,
            };
        }
        ["rules", list] => {
            for rule in list.split(',') {
                *match rule {
                    "create-on-update" => &mut rules.create_on_update,
                    "status-apply-creates" => &mut rules.status_apply_creates,
                    "unconditional-update" => &mut rules.unconditional_update,
                    "graceful-deletion" => &mut rules.graceful_deletion,
                    "delete-returns-object" => &mut rules.delete_returns_object,
                    "namespace-selector" => &mut rules.namespace_selector,
                    _ => return None,
                } = true;
            }
        }
        ["garbage-collection", way] => {
            rules.garbage_collection = match way {
                "background" => GarbageCollection::Background,
                "orphan" => GarbageCollection::Orphan,
                "unsupported" => GarbageCollection::Unsupported,
                _ => return None,
            };
        }
        ["generation", ref rule @ ..] => rules.generation = generation(rule)?,
        ["field-selectors", list] => rules.field_selectors = names(list),
        _ => return None,
    }
    Some(())
}

/// Returns the subresource that the words of a line describe.
fn subresource(columns: &Columns, name: &str, kind: &str, verbs: &str, tags: &[&str]) -> Option<Subresource> {
    let (group_version, kind) = kind.rsplit_once('/')?;
    Some(Subresource {
        name: SmolStr::new(name),
        kind: GroupVersionKind {
            group_version: GroupVersion::parse(group_version)?,
            kind: SmolStr::new(kind),
        },
        verbs: verbs_of(verbs)?,
        scale: (name == "scale").then(scale_fields),
        columns: match name {
            "scale" => columns.of_scale(),
            _ => columns.defaults(),
        },
        reset_fields: reset_fields(tags),
    })
}

fn generation(rule: &[&str]) -> Option<Generation> {
    let (way, fields, subresources) = match *rule {
        ["unmanaged"] => return Some(Generation::Unmanaged),
        [way] => (way, Vec::new(), Vec::new()),
        [way, fields] => (way, names(fields), Vec::new()),
        [way, fields, "via", subresources] => (way, names(fields), names(subresources)),
        _ => return None,
    };
    let from_one = match way {
        "from-one" => true,
        "from-none" => false,
        _ => return None,
    };
    Some(Generation::Counted {
        from_one,
        fields,
        subresources,
    })
}

fn names(list: &str) -> Vec<SmolStr> {
    list.split(',').map(SmolStr::new).collect()
}

fn verbs_of(list: &str) -> Option<Vec<Verb>> {
    list.split(',').map(Verb::from_name).collect()
}

/// Returns the argument of the tag `name(…)`.
fn tag<'t>(tags: &[&'t str], name: &str) -> Option<&'t str> {
    tags.iter()
        .find_map(|tag| tag.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')'))
}

fn reset_fields(tags: &[&str]) -> Arc<[Vec<SmolStr>]> {
    let paths = tag(tags, "reset").into_iter().flat_map(|paths| paths.split(','));
    paths.map(|path| path.split('.').map(SmolStr::new).collect()).collect()
}

/// Returns the Scale field paths of the built-in kinds with a scale subresource.
fn scale_fields() -> ScaleFields {
    let path = |names: [&'static str; 2]| names.map(SmolStr::new_static).to_vec();
    ScaleFields {
        spec_replicas: path(["spec", "replicas"]),
        status_replicas: path(["status", "replicas"]),
        selector: Some(path(["spec", "selector"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_versions::group_versions;

    fn types() -> Arc<TableTypes> {
        TableTypes::new(Arc::new(crate::types::types().unwrap()))
    }

    fn one(plural: &str) -> Resource {
        let all = resources(&|_, _| None, &types(), &Apis::default(), Features::default()).unwrap();
        all.into_iter().find(|resource| resource.plural == plural).unwrap()
    }

    #[test]
    fn every_group_version_has_resources_and_types() {
        let types = types();
        let all = resources(&|_, _| None, &types, &Apis::default(), Features::default()).unwrap();
        for group_version in group_versions() {
            let mut versions = all.iter().flat_map(|resource| &resource.versions);
            assert!(
                versions.any(|version| version.group_version == group_version),
                "{group_version}"
            );
        }
        for resource in &all {
            for version in &resource.versions {
                let kind = GroupVersionKind {
                    group_version: version.group_version.clone(),
                    kind: resource.kind.clone(),
                };
                assert!(types.table().id_of_kind(&kind).is_some(), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_deployment_reads_back() {
        let deployments = one("deployments");
        assert_eq!(deployments.short_names, ["deploy"]);
        assert_eq!(
            deployments.storage.as_ref().unwrap().key("a", "b"),
            "/registry/deployments/a/b"
        );
        let version = deployments.version("v1").unwrap();
        assert_eq!(version.list_kind, "DeploymentList");
        assert_eq!(*version.reset_fields, [["status"]]);
        assert_eq!(version.subresource("scale").unwrap().kind.kind, "Scale");
        assert_eq!(
            *version.subresource("status").unwrap().reset_fields,
            [vec!["metadata", "labels"], vec!["spec"]]
        );
        let Generation::Counted {
            from_one: true, fields, ..
        } = &deployments.rules.generation
        else {
            panic!("{:?}", deployments.rules.generation)
        };
        assert_eq!(fields[..], ["spec", "metadata.annotations"]);
    }

    #[test]
    fn the_preferred_version_stands_first() {
        let scalers = one("horizontalpodautoscalers");
        let versions: Vec<_> = scalers
            .versions
            .iter()
            .map(|version| &version.group_version.version)
            .collect();
        assert_eq!(versions, ["v2", "v1"]);
    }

    #[test]
    fn a_line_that_says_nothing_known_is_named() {
        let (types, apis) = (types(), Apis::default());
        let mut reader = Reader {
            kind_of: &|_, _| None,
            types: &types,
            apis: &apis,
            features: Features::default(),
            columns: Columns::read(),
            found: Vec::new(),
            current: None,
        };
        let error = reader
            .read("group core v1\nresource a a A cluster\n  odd words")
            .err()
            .unwrap();
        assert_eq!((error.line, error.what), (3, "not the words of a property"));
    }
}
