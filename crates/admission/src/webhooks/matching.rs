//! Which webhooks hear of a write.

use std::sync::Arc;

use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{Field, GroupVersionKind, Registry, Resource, ResourceVersion};
use holdfast_value::{SmolStr, Value};

use super::Webhook;

/// What a webhook wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    operations: Vec<SmolStr>,
    groups: Vec<SmolStr>,
    versions: Vec<SmolStr>,
    /// Names and subresources.
    resources: Vec<(SmolStr, SmolStr)>,
    scope: SmolStr,
}

/// What is written, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// The version of the resource.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; for namespaces their own name. Empty for other resources of the cluster.
    pub namespace: &'a str,
    /// Whether namespaces themselves are written.
    pub is_namespace: bool,
}

/// As what a webhook hears of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The plural name of the resource, in the group and version of `kind` for the object itself.
    pub resource: SmolStr,
    /// The group of the resource.
    pub group: SmolStr,
    /// The version of the resource.
    pub version: SmolStr,
    /// The kind that the object is sent as.
    pub kind: GroupVersionKind,
}

const ANY: &str = "*";

fn names(field: &Field<'_, '_>) -> Vec<SmolStr> {
    field.items().map(|name| SmolStr::new(name.text())).collect()
}

fn lists(names: &[SmolStr], name: &str) -> bool {
    names.iter().any(|listed| listed == ANY || listed == name)
}

impl Rule {
    pub(crate) fn of(rule: &Field<'_, '_>) -> Self {
        let resources = rule.child("resources");
        let resources = resources.items().map(|resource| {
            let (name, subresource) = resource.text().split_once('/').unwrap_or((resource.text(), ""));
            (SmolStr::new(name), SmolStr::new(subresource))
        });
        Self {
            operations: names(&rule.child("operations")),
            groups: names(&rule.child("apiGroups")),
            versions: names(&rule.child("apiVersions")),
            resources: resources.collect(),
            scope: rule.child("scope").text().into(),
        }
    }

    /// The plural names of the resources that the rule names; `*` for all.
    pub fn resources(&self) -> impl Iterator<Item = &SmolStr> {
        self.resources.iter().map(|(name, _)| name)
    }

    /// Whether the rule names what is written.
    pub fn matches(&self, attributes: &Attributes<'_>) -> bool {
        self.matches_but_for_version(attributes)
            && lists(&self.groups, attributes.group)
            && lists(&self.versions, attributes.version)
    }

    fn matches_but_for_version(&self, attributes: &Attributes<'_>) -> bool {
        let of_cluster = attributes.namespace.is_empty() || attributes.is_namespace;
        let scope = match self.scope.as_str() {
            "Cluster" => of_cluster,
            "Namespaced" => !of_cluster,
            _ => true,
        };
        let matches = |wanted: &SmolStr, found: &str| wanted == ANY || wanted == found;
        scope
            && lists(&self.operations, attributes.operation)
            && self.resources.iter().any(|(name, subresource)| {
                matches(name, attributes.resource) && matches(subresource, attributes.subresource)
            })
    }
}

/// As what a write to `resource` is heard of by who wants to hear of `rules`, by these alone; `kind` is the kind of what is
/// sent to the address. `None` where the write is not heard of. `equivalent` says that other versions of what is written
/// count as well.
pub fn invocation<'r>(
    rules: impl Iterator<Item = &'r Rule> + Clone,
    equivalent: bool,
    attributes: &Attributes<'_>,
    kind: &GroupVersionKind,
    resource: &Resource,
    registry: &Registry,
) -> Option<Invocation> {
    if rules.clone().any(|rule| rule.matches(attributes)) {
        return Some(Invocation {
            resource: attributes.resource.into(),
            group: attributes.group.into(),
            version: attributes.version.into(),
            kind: kind.clone(),
        });
    }
    let mut rules = rules.filter(|_| equivalent);
    rules.find_map(|rule| in_other_version(rule, attributes, resource, registry))
}

/// Whether a selector takes an object by its labels, as it is or as it was. What has no metadata, such as the options of a
/// command, is taken by the selector alone that takes everything.
pub fn selects(selector: &LabelSelector, object: Option<&Value>, old: Option<&Value>) -> bool {
    let matches = |object: &Value| {
        object.get("metadata").is_some() && selector.matches(|key| object.str_at(&["metadata", "labels", key]))
    };
    selector.is_empty() || object.is_some_and(matches) || old.is_some_and(matches)
}

impl Webhook {
    /// As what the webhook hears of a write, by its rules alone: see [`invocation`].
    pub fn invocation(
        &self,
        attributes: &Attributes<'_>,
        kind: &GroupVersionKind,
        resource: &Resource,
        registry: &Registry,
    ) -> Option<Invocation> {
        invocation(self.rules.iter(), self.equivalent, attributes, kind, resource, registry)
    }

    /// Whether the labels of the object, as it is or as it was, are those that the webhook wants to hear of.
    pub fn selects(&self, object: Option<&Value>, old: Option<&Value>) -> bool {
        selects(&self.objects, object, old)
    }
}

/// The version of the same objects that a rule names.
fn in_other_version(
    rule: &Rule,
    attributes: &Attributes<'_>,
    resource: &Resource,
    registry: &Registry,
) -> Option<Invocation> {
    if !rule.matches_but_for_version(attributes) {
        return None;
    }
    let prefix = resource.storage.as_ref().map(|storage| &storage.prefix);
    let others = prefix.map_or(&[][..], |prefix| registry.stored_at(prefix));
    let others = others.iter().map(Arc::as_ref);
    let own = std::iter::once(resource).filter(|_| prefix.is_none());
    let others = others.chain(own);
    let mut versions = others.flat_map(|other| other.versions.iter().map(move |version| (other, version)));
    versions.find_map(|(other, version)| {
        let found = Attributes {
            group: &version.group_version.group,
            version: &version.group_version.version,
            resource: &other.plural,
            ..*attributes
        };
        let kind = kind_of(other, version, attributes.subresource)?;
        rule.matches(&found).then(|| Invocation {
            resource: other.plural.clone(),
            group: version.group_version.group.clone(),
            version: version.group_version.version.clone(),
            kind,
        })
    })
}

fn kind_of(resource: &Resource, version: &ResourceVersion, subresource: &str) -> Option<GroupVersionKind> {
    match subresource {
        "" => Some(GroupVersionKind {
            group_version: version.group_version.clone(),
            kind: resource.kind.clone(),
        }),
        name => version.subresource(name).map(|subresource| subresource.kind.clone()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_resource::GroupResource;
    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::Origin;

    fn webhook(text: &str) -> Webhook {
        let value = yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        Webhook::of(&Field::root(&value), "", Origin::Api, &Default::default())
    }

    fn attributes(operation: &'static str, path: &'static str) -> Attributes<'static> {
        let parts: Vec<&str> = path.split('/').collect();
        let [group, version, namespace, resource, subresource] = parts[..] else {
            panic!("{path}");
        };
        Attributes {
            operation,
            group,
            version,
            resource,
            subresource,
            namespace,
            is_namespace: group.is_empty() && resource == "namespaces",
        }
    }

    fn rule(text: &str) -> Rule {
        let value = yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        Rule::of(&Field::root(&value))
    }

    #[test]
    fn a_rule_names_operations_groups_versions_and_resources() {
        let pods = rule("{operations: [CREATE, DELETE], apiGroups: [''], apiVersions: [v1], resources: [pods]}");
        assert!(pods.matches(&attributes("CREATE", "/v1/ns/pods/")));
        assert!(!pods.matches(&attributes("UPDATE", "/v1/ns/pods/")));
        assert!(!pods.matches(&attributes("CREATE", "/v1/ns/pods/status")));
        assert!(!pods.matches(&attributes("CREATE", "apps/v1/ns/pods/")));
        assert!(!pods.matches(&attributes("CREATE", "/v2/ns/pods/")));
    }

    #[test]
    fn wildcards_name_objects_and_subresources_apart() {
        let any = |resource: &str| {
            rule(&format!(
                "{{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['{resource}']}}"
            ))
        };
        let (object, scale) = (
            attributes("UPDATE", "apps/v1/ns/deployments/"),
            attributes("UPDATE", "apps/v1/ns/deployments/scale"),
        );
        let seen = |resource: &str| (any(resource).matches(&object), any(resource).matches(&scale));
        assert_eq!(seen("*"), (true, false));
        assert_eq!(seen("*/*"), (true, true));
        assert_eq!(seen("*/scale"), (false, true));
        assert_eq!(seen("deployments/*"), (true, true));
        assert_eq!(seen("pods/*"), (false, false));
    }

    #[test]
    fn scopes_take_namespaces_for_resources_of_the_cluster() {
        let scoped = |scope: &str| {
            rule(&format!(
                "{{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], scope: {scope}}}"
            ))
        };
        for (path, of_cluster) in [
            ("/v1/a/namespaces/", true),
            ("/v1//nodes/", true),
            ("/v1/a/pods/", false),
        ] {
            assert_eq!(
                scoped("Cluster").matches(&attributes("CREATE", path)),
                of_cluster,
                "{path}"
            );
            assert_eq!(
                scoped("Namespaced").matches(&attributes("CREATE", path)),
                !of_cluster,
                "{path}"
            );
        }
    }

    #[test]
    fn an_equivalent_version_is_found_and_an_exact_policy_passes_it_by() {
        let text = "{rules: [{operations: ['*'], apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers]}]}";
        let registry = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let name = GroupResource {
            group: "autoscaling".into(),
            resource: "horizontalpodautoscalers".into(),
        };
        let resource = registry.resource(&name).unwrap();
        let version = &resource
            .versions
            .iter()
            .find(|version| version.api_version == "autoscaling/v2");
        let kind = kind_of(resource, version.unwrap(), "").unwrap();
        let attributes = attributes("CREATE", "autoscaling/v2/ns/horizontalpodautoscalers/");
        let invocation = webhook(text)
            .invocation(&attributes, &kind, resource, &registry)
            .unwrap();
        assert_eq!(invocation.version, "v1");
        assert_eq!(invocation.kind.group_version.version, "v1");
        let exact = webhook(&text.replace("{rules", "{matchPolicy: Exact, rules"));
        assert_eq!(exact.invocation(&attributes, &kind, resource, &registry), None);
    }

    #[test]
    fn a_selector_takes_the_object_as_it_is_or_as_it_was() {
        let webhook = webhook("{objectSelector: {matchLabels: {a: b}}}");
        let object = |text: &str| yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let (with, without) = (object("{metadata: {labels: {a: b}}}"), object("{metadata: {}}"));
        assert!(webhook.selects(Some(&with), None));
        assert!(webhook.selects(Some(&without), Some(&with)));
        assert!(!webhook.selects(Some(&without), None));
        assert!(!webhook.selects(None, Some(&without)));
        let unlabelled = self::webhook("{objectSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}");
        assert!(unlabelled.selects(Some(&without), None));
        assert!(!unlabelled.selects(Some(&object("{kind: PodExecOptions}")), None));
    }
}
