use std::sync::Arc;

use holdfast_resource::schema::TypeTable;
use holdfast_resource::{
    AtRest, Capabilities, Conventions, Encoding, GarbageCollection, Generation, Generic, GroupVersion,
    GroupVersionKind, NameRule, Resource, ResourceRules, ResourceVersion, ScaleFields, Scope, Storage, Subresource,
    TableType, TableTypes, Verb,
};
use holdfast_value::Value;
use smol_str::{SmolStr, format_smolstr};

use super::columns::Columns;
use crate::kind::Kind;
use crate::metadata_checks;

const TABLE: &str = include_str!("resources.txt");

/// Why a text is no table of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource table, line {line}: {what}")]
pub struct ResourceTableError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// The served groups and versions in the order of discovery, the preferred version of each group first.
pub fn group_versions() -> Vec<GroupVersion> {
    let groups = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix("group ")?.split_once(' '));
    groups
        .flat_map(|(group, versions)| {
            let group = if group == "core" { "" } else { group };
            versions
                .split(',')
                .map(move |version| GroupVersion::new(group, version))
        })
        .collect()
}

/// Gives the kind behind a resource by its group and plural name, where it does more than its descriptor says.
pub(crate) type KindOf<'a> = dyn Fn(&str, &str) -> Option<Kind> + 'a;

/// All built-in resources in the order of discovery, with objects of these types.
pub(crate) fn resources(kind_of: &KindOf<'_>, types: &Arc<TableTypes>) -> Result<Vec<Resource>, ResourceTableError> {
    parse(TABLE, kind_of, types)
}

fn parse(text: &str, kind_of: &KindOf<'_>, types: &Arc<TableTypes>) -> Result<Vec<Resource>, ResourceTableError> {
    let mut group = SmolStr::default();
    let mut found: Vec<Resource> = Vec::new();
    let columns = Columns::read();
    let mut kind = Kind::default();
    let mut cleared = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what| ResourceTableError { line: at + 1, what };
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.first().copied(), found.last_mut()) {
            (None | Some("#"), _) => {}
            (Some("group"), _) => {
                let name = *words.get(1).ok_or(wrong("a group without name"))?;
                group = SmolStr::new(if name == "core" { "" } else { name });
            }
            (Some("resource"), _) => {
                let resource = resource(&group, &words).ok_or(wrong("not the words of a resource"))?;
                kind = kind_of(&group, &resource.plural).unwrap_or_default();
                cleared.push(kind.has_empty_status());
                found.push(kind.behind(resource));
            }
            (Some(_), Some(resource)) => {
                complete(resource, &words, (&columns, types), &kind).ok_or(wrong("not the words of a property"))?;
            }
            (Some(_), None) => return Err(wrong("a property before any resource")),
        }
    }
    for (resource, _) in found.iter_mut().zip(cleared).filter(|(_, cleared)| *cleared) {
        resource.rules.initial_status = zero_status(resource, types.table());
    }
    Ok(found)
}

/// The zero value of the status that objects of a resource have.
fn zero_status(resource: &Resource, types: &TypeTable) -> Option<Value> {
    let group_version = resource.versions.first()?.group_version.clone();
    let kind = resource.kind.clone();
    let of = types.get(types.id_of_kind(&GroupVersionKind { group_version, kind })?);
    Some(types.zero(&of.field("status")?.shape))
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
        storage: None,
        rules: ResourceRules {
            create_on_update: false,
            unconditional_update: false,
            graceful_deletion: false,
            delete_returns_object: false,
            garbage_collection: GarbageCollection::Background,
            generation: Generation::Unmanaged,
            name: NameRule::Subdomain,
            field_selectors: Vec::new(),
            namespace_selector: false,
            initial_status: None,
            metadata_checks: metadata_checks::MOST,
            protobuf: true,
        },
        strategy: Arc::new(Generic),
        capabilities: Capabilities::default(),
        conventions: Conventions::BUILT_IN,
        definition: None,
    })
}

/// Adds the property that a line tells; `None` if there is no such property.
fn complete(
    resource: &mut Resource,
    words: &[&str],
    (columns, types): (&Columns, &Arc<TableTypes>),
    kind: &Kind,
) -> Option<()> {
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
        ["version", version, verbs, ref marks @ ..] => {
            let group_version = GroupVersion::new(resource.group.clone(), version);
            let stored = resource.storage.as_ref().map(|storage| storage.api_version.as_str());
            let listed = stored.and_then(|version| columns.of(version, &resource.plural, kind.cells()));
            let listed = listed.or_else(|| columns.of(&group_version.api_version(), &resource.plural, kind.cells()));
            let of = GroupVersionKind {
                group_version: group_version.clone(),
                kind: resource.kind.clone(),
            };
            let kind_type = TableType::new(types, of, Some(Arc::clone(&resource.strategy)))?;
            resource.versions.push(ResourceVersion {
                kind_type: Arc::new(kind_type),
                api_version: group_version.api_version(),
                group_version,
                list_kind: format_smolstr!("{}List", resource.kind),
                storage_version_hash: mark(marks, "hash").map(SmolStr::new).unwrap_or_default(),
                verbs: verbs_of(verbs)?,
                subresources: Vec::new(),
                reset_fields: reset_fields(marks),
                columns: listed.unwrap_or_else(|| columns.defaults()),
                field_selectors: Vec::new(),
                deprecation: kind.deprecation(),
            });
        }
        ["subresource", name, kind, verbs, ref marks @ ..] => {
            let (group_version, kind) = kind.rsplit_once('/')?;
            resource.versions.last_mut()?.subresources.push(Subresource {
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
                reset_fields: reset_fields(marks),
            });
        }
        _ => return None,
    }
    Some(())
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

/// What stands within `name(…)` among the marks.
fn mark<'t>(marks: &[&'t str], name: &str) -> Option<&'t str> {
    marks
        .iter()
        .find_map(|mark| mark.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')'))
}

fn reset_fields(marks: &[&str]) -> Arc<[Vec<SmolStr>]> {
    let paths = mark(marks, "reset").into_iter().flat_map(|paths| paths.split(','));
    paths.map(|path| path.split('.').map(SmolStr::new).collect()).collect()
}

/// Where the built-in kinds that scale keep the fields of their Scale.
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

    fn types() -> Arc<TableTypes> {
        TableTypes::new(Arc::new(super::super::types().unwrap()))
    }

    fn one(plural: &str) -> Resource {
        let all = resources(&|_, _| None, &types()).unwrap();
        all.into_iter().find(|resource| resource.plural == plural).unwrap()
    }

    #[test]
    fn an_initial_status_is_the_zero_value_of_its_type() {
        let registry = crate::registry(&crate::Config::default()).unwrap();
        let status = |plural: &str| {
            let resource = registry.resources().find(|resource| resource.plural == plural).unwrap();
            let status = resource.rules.initial_status.as_ref();
            status.map(holdfast_value::json::to_string)
        };
        let replicas = r#"{"availableReplicas":0,"replicas":0}"#;
        assert_eq!(status("statefulsets").as_deref(), Some(replicas));
        let metrics = r#"{"currentMetrics":null,"desiredReplicas":0}"#;
        assert_eq!(status("horizontalpodautoscalers").as_deref(), Some(metrics));
        assert_eq!(status("services").as_deref(), Some(r#"{"loadBalancer":{}}"#));
        assert_eq!(status("volumeattachments").as_deref(), Some(r#"{"attached":false}"#));
        assert_eq!(status("jobs").as_deref(), Some("{}"));
        assert_eq!(status("pods"), None);
    }

    #[test]
    fn every_group_version_has_resources_and_types() {
        let types = types();
        let all = resources(&|_, _| None, &types).unwrap();
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
        let error = parse(
            "group core v1\nresource a a A cluster\n  odd words",
            &|_, _| None,
            &types(),
        )
        .err()
        .unwrap();
        assert_eq!((error.line, error.what), (3, "not the words of a property"));
    }
}
