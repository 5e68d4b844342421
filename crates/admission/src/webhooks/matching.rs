//! Matching of writes and webhooks.

use std::sync::Arc;

use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{Registry, Resource, ResourceVersion};
use holdfast_schema::{Field, GroupVersionKind};
use holdfast_value::{SmolStr, Value};

use super::Webhook;

/// A rule of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    operations: Vec<SmolStr>,
    groups: Vec<SmolStr>,
    versions: Vec<SmolStr>,
    /// Plural names and subresources.
    resources: Vec<(SmolStr, SmolStr)>,
    scope: SmolStr,
}

/// Attributes of a write that rules match.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// Group of the resource.
    pub group: &'a str,
    /// Version of the resource.
    pub version: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; for namespaces their own name. Empty for other cluster-scoped resources.
    pub namespace: &'a str,
    /// True if the object of the write is a namespace.
    pub is_namespace: bool,
}

/// Resource and kind under which a write is sent to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Plural name of the resource, in the group and version of `kind` for the object itself.
    pub resource: SmolStr,
    /// Group of the resource.
    pub group: SmolStr,
    /// Version of the resource.
    pub version: SmolStr,
    /// Kind of the object that is sent.
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
    pub(crate) fn from_field(rule: &Field<'_, '_>) -> Self {
        let list = rule.child("resources");
        let resources = list.items().map(|resource| {
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

    /// Returns the plural names of the resources in the rule; `*` for all.
    pub fn resources(&self) -> impl Iterator<Item = &SmolStr> {
        self.resources.iter().map(|(name, _)| name)
    }

    /// Returns true if the rule matches the write.
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

/// Returns the invocation for a write to `resource`, considering only `rules`; `kind` is the kind of the request body.
/// `None` if no rule matches. If `equivalent` is true, rules for other versions of the resource match as well.
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

/// Returns true if a selector matches the labels of the new or the old object. An object without metadata, such as the
/// options of a command, matches only the empty selector.
pub fn selects(selector: &LabelSelector, object: Option<&Value>, old: Option<&Value>) -> bool {
    let matches = |object: &Value| {
        object.get("metadata").is_some() && selector.matches(|key| object.str_at(&["metadata", "labels", key]))
    };
    selector.is_empty() || object.is_some_and(matches) || old.is_some_and(matches)
}

impl Webhook {
    /// Returns the webhook's invocation for a write, considering only its rules: see [`invocation`].
    pub fn invocation(
        &self,
        attributes: &Attributes<'_>,
        kind: &GroupVersionKind,
        resource: &Resource,
        registry: &Registry,
    ) -> Option<Invocation> {
        invocation(self.rules.iter(), self.equivalent, attributes, kind, resource, registry)
    }

    /// Returns true if the webhook's object selector matches the labels of the new or the old object.
    pub fn selects(&self, object: Option<&Value>, old: Option<&Value>) -> bool {
        selects(&self.objects, object, old)
    }
}

/// Returns the invocation in another version of the same objects that the rule names.
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
    let others = prefix
        .map_or(&[][..], |prefix| registry.stored_at(prefix))
        .iter()
        .map(Arc::as_ref);
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
    use holdfast_schema::GroupResource;
    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::Origin;

    fn webhook(text: &str) -> Webhook {
        let value = yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        Webhook::from_field(&Field::root(&value), "", Origin::Api, &Default::default())
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
        Rule::from_field(&Field::root(&value))
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
    fn equivalent_version_matches_and_exact_policy_does_not() {
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
