//! Classification of requests: the first flow schema, by precedence and name, that has a rule for the user and the
//! target.
//!
//! Rules are found by their subjects. Only the rules that name the user, one of the groups or the namespace of the
//! service account are compared.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User, service_account_of};
use holdfast_value::SmolStr;

use crate::configuration::{Names, PathRule, ResourceRule, Rule, Subject, Targets};

/// Rules of schemas by their subjects.
#[derive(Debug, Default)]
pub(crate) struct RuleIndex {
    everybody: Vec<Entry>,
    users: HashMap<SmolStr, Vec<Entry>>,
    groups: HashMap<SmolStr, Vec<Entry>>,
    accounts: HashMap<SmolStr, Vec<Entry>>,
}

/// Targets of a rule, and the index of its schema.
#[derive(Clone, Debug)]
struct Entry {
    schema: usize,
    targets: Arc<Targets>,
}

impl RuleIndex {
    /// Creates the index of the rules of schemas, which are in matching order.
    pub(crate) fn new<'r>(schemas: impl Iterator<Item = &'r [Rule]>) -> Self {
        let mut index = Self::default();
        for (schema, rules) in schemas.enumerate() {
            for rule in rules {
                let targets = Arc::new(rule.targets.clone());
                for subject in &rule.subjects {
                    let entry = Entry {
                        schema,
                        targets: Arc::clone(&targets),
                    };
                    index.entries(subject).push(entry);
                }
            }
        }
        index
    }

    fn entries(&mut self, subject: &Subject) -> &mut Vec<Entry> {
        match subject {
            Subject::Everybody => &mut self.everybody,
            Subject::User(name) => self.users.entry(name.clone()).or_default(),
            Subject::Group(name) => self.groups.entry(name.clone()).or_default(),
            Subject::AccountsOf(namespace) => self.accounts.entry(namespace.clone()).or_default(),
        }
    }

    /// Returns the index of the schema of a request.
    pub(crate) fn find(&self, user: &User, attributes: &Attributes<'_>) -> Option<usize> {
        let of_namespace = service_account_of(&user.name).and_then(|(namespace, _)| self.accounts.get(namespace));
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        let lists = [Some(&self.everybody), self.users.get(&user.name), of_namespace];
        let mut first = None;
        for entries in lists.into_iter().flatten().chain(of_groups) {
            let sooner = entries
                .iter()
                .take_while(|entry| first.is_none_or(|first| entry.schema < first));
            if let Some(entry) = sooner.into_iter().find(|entry| entry.targets.have(attributes)) {
                first = Some(entry.schema);
            }
        }
        first
    }
}

impl Targets {
    fn have(&self, attributes: &Attributes<'_>) -> bool {
        match &attributes.target {
            AccessTarget::Resource(target) => self.resources.iter().any(|rule| rule.has(attributes.verb, target)),
            AccessTarget::Path(path) => self.paths.iter().any(|rule| rule.has(attributes.verb, path)),
        }
    }
}

impl ResourceRule {
    fn has(&self, verb: &str, target: &ResourceTarget<'_>) -> bool {
        self.verbs.has(verb)
            && self.has_resource(target)
            && self.groups.has(target.group)
            && match target.namespace {
                "" => self.cluster_scope,
                namespace => self.namespaces.has(namespace),
            }
    }

    /// True if the rule contains a resource, or a subresource such as `pods/status`.
    fn has_resource(&self, target: &ResourceTarget<'_>) -> bool {
        if target.subresource.is_empty() {
            return self.resources.has(target.resource);
        }
        match &self.resources {
            Names::All => true,
            Names::Some(names) => names.iter().any(|name| {
                let rest = name
                    .strip_prefix(target.resource)
                    .and_then(|rest| rest.strip_prefix('/'));
                rest == Some(target.subresource)
            }),
        }
    }
}

impl PathRule {
    /// True if the rule contains a path. A rule for a path includes all paths below it.
    fn has(&self, verb: &str, path: &str) -> bool {
        let covers = |known: &SmolStr| {
            let pattern = known.strip_suffix('*').unwrap_or(known);
            let prefix = pattern.strip_suffix('/').unwrap_or(pattern);
            known == "*" || known == path || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
        };
        self.verbs.has(verb) && self.paths.iter().any(covers)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here fails the test")]
mod tests {
    use super::*;
    use crate::configuration::SchemaSpec;
    use crate::configuration::tests::object;

    fn index(rules: &[&str]) -> RuleIndex {
        let schemas: Vec<SchemaSpec> = rules
            .iter()
            .map(|rules| {
                SchemaSpec::read(&object(&format!(
                    "{{metadata: {{name: s}}, spec: {{rules: [{rules}]}}}}"
                )))
                .unwrap()
            })
            .collect();
        RuleIndex::new(schemas.iter().map(|schema| schema.rules.as_slice()))
    }

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(SmolStr::new).collect(),
            ..User::default()
        }
    }

    fn pods<'a>(verb: &'a str, namespace: &'a str, subresource: &'a str) -> Attributes<'a> {
        Attributes {
            verb,
            target: AccessTarget::Resource(ResourceTarget {
                version: "v1",
                resource: "pods",
                namespace,
                subresource,
                ..ResourceTarget::default()
            }),
        }
    }

    const ALL: &str =
        "resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: ['*']}]";

    fn subjects(subjects: &str) -> String {
        format!("{{subjects: [{subjects}], {ALL}}}")
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let rules = [
            subjects("{kind: User, user: {name: u}}"),
            subjects("{kind: Group, group: {name: g}}"),
            subjects("{kind: ServiceAccount, serviceAccount: {namespace: ns, name: a}}"),
            subjects("{kind: ServiceAccount, serviceAccount: {namespace: ns, name: '*'}}"),
            subjects("{kind: Group, group: {name: '*'}}"),
        ];
        let index = index(&rules.each_ref().map(String::as_str));
        let find = |name: &str, groups: &[&str]| index.find(&user(name, groups), &pods("get", "x", ""));
        assert_eq!(find("u", &["g"]), Some(0));
        assert_eq!(find("x", &["f", "g"]), Some(1));
        assert_eq!(find("system:serviceaccount:ns:a", &["g"]), Some(1));
        assert_eq!(find("system:serviceaccount:ns:a", &[]), Some(2));
        assert_eq!(find("system:serviceaccount:ns:b", &[]), Some(3));
        assert_eq!(find("system:serviceaccount:nsx:b", &[]), Some(4));
        assert_eq!(find("x", &[]), Some(4));
    }

    #[test]
    fn everybody_is_not_before_a_schema_of_lower_precedence() {
        let rules = [
            subjects("{kind: User, user: {name: '*'}}"),
            subjects("{kind: User, user: {name: u}}"),
        ];
        let index = index(&rules.each_ref().map(String::as_str));
        assert_eq!(index.find(&user("u", &[]), &pods("get", "x", "")), Some(0));
    }

    fn first(rule: &str, attributes: &Attributes<'_>) -> bool {
        let rule = format!("{{subjects: [{{kind: User, user: {{name: u}}}}], {rule}}}");
        index(&[&rule]).find(&user("u", &[]), attributes).is_some()
    }

    #[test]
    fn resources_are_matched_by_verb_group_name_and_namespace() {
        let rule = |resources: &str, more: &str| {
            format!("resourceRules: [{{verbs: [get, list], apiGroups: [''], resources: [{resources}], {more}}}]")
        };
        let everywhere = rule("pods, pods/status", "namespaces: ['*']");
        assert!(first(&everywhere, &pods("get", "n", "")));
        assert!(first(&everywhere, &pods("list", "n", "status")));
        assert!(!first(&everywhere, &pods("get", "n", "log")));
        assert!(!first(&everywhere, &pods("create", "n", "")));
        // Only rules of cluster scope match requests without a namespace.
        assert!(!first(&everywhere, &pods("list", "", "")));
        let cluster = rule("'*'", "clusterScope: true, namespaces: [m]");
        assert!(first(&cluster, &pods("list", "", "")));
        assert!(first(&cluster, &pods("get", "m", "log")));
        assert!(!first(&cluster, &pods("get", "n", "")));
        let other = "resourceRules: [{verbs: ['*'], apiGroups: [apps], resources: ['*'], namespaces: ['*']}]";
        assert!(!first(other, &pods("get", "n", "")));
        assert!(!first(
            "nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]",
            &pods("get", "n", "")
        ));
    }

    #[test]
    fn path_rule_includes_paths_below() {
        let matches = |url: &str, path: &str| {
            let rule = format!("nonResourceRules: [{{verbs: [get], nonResourceURLs: ['{url}']}}]");
            first(
                &rule,
                &Attributes {
                    verb: "get",
                    target: AccessTarget::Path(path),
                },
            )
        };
        for (url, path, expected) in [
            ("*", "/", true),
            ("/livez", "/livez", true),
            ("/livez", "/livez/ping", true),
            ("/livez", "/livezz", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/", "/version", true),
            ("/version", "/", false),
        ] {
            assert_eq!(matches(url, path), expected, "{url} {path}");
        }
    }
}
