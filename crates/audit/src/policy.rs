//! Audit policy (`Policy` of audit.k8s.io/v1).

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User};
use holdfast_value::SmolStr;

use crate::{Level, Stages};

/// Audit policy. The first rule that matches a request decides; a request without a matching rule is not audited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) omit_stages: Stages,
    pub(crate) omit_managed_fields: bool,
}

/// Rule of a policy. Each of its lists must match the request; an empty list matches any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Level of the matching requests.
    pub level: Level,
    /// Names of users.
    pub users: Vec<SmolStr>,
    /// Groups, one of which the user must be in.
    pub user_groups: Vec<SmolStr>,
    /// Verbs.
    pub verbs: Vec<SmolStr>,
    /// Resources. They never match paths outside of resources.
    pub resources: Vec<GroupResources>,
    /// Namespaces; `""` matches requests without a namespace. They never match paths outside of resources.
    pub namespaces: Vec<SmolStr>,
    /// Non-resource URLs; a `*` at the end matches any suffix.
    pub non_resource_urls: Vec<SmolStr>,
    /// Stages without an event, in addition to those of the policy.
    pub omit_stages: Stages,
    /// True if `metadata.managedFields` are omitted; `None` to use the policy's setting.
    pub omit_managed_fields: Option<bool>,
}

/// Resources of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResources {
    /// API group; empty for the core group, `*` for all.
    pub group: SmolStr,
    /// `pods`, `pods/log`, `pods/*`, `*/scale` or `*`; empty for all.
    pub resources: Vec<SmolStr>,
    /// Names of objects; empty for all.
    pub resource_names: Vec<SmolStr>,
}

/// Decision of a policy on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Level of the request's events.
    pub level: Level,
    /// Stages without an event.
    pub omit_stages: Stages,
    /// True if `metadata.managedFields` are omitted from objects.
    pub omit_managed_fields: bool,
}

impl Policy {
    /// Decides on a request of `user` with `attributes`. `user` is `None` if the request was not authenticated.
    pub fn judge(&self, user: Option<&User>, attributes: &Attributes<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(user, attributes));
        match rule {
            Some(rule) => Decision {
                level: rule.level,
                omit_stages: self.omit_stages.union(rule.omit_stages),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
            None => Decision {
                level: Level::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

fn has(list: &[SmolStr], text: &str) -> bool {
    list.iter().any(|member| member == text)
}

impl Rule {
    fn matches(&self, user: Option<&User>, attributes: &Attributes<'_>) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, attributes.verb) {
            return false;
        }
        let of_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        match attributes.target {
            AccessTarget::Resource(target) if of_resources => self.matches_resource(&target),
            AccessTarget::Path(_) if of_resources => false,
            AccessTarget::Path(path) if !self.non_resource_urls.is_empty() => {
                self.non_resource_urls.iter().any(|url| matches_path(url, path))
            }
            _ => self.non_resource_urls.is_empty(),
        }
    }

    fn matches_resource(&self, target: &ResourceTarget<'_>) -> bool {
        if !self.namespaces.is_empty() && !has(&self.namespaces, target.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(target))
    }
}

impl GroupResources {
    fn matches(&self, target: &ResourceTarget<'_>) -> bool {
        if self.group != target.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named = self.resource_names.is_empty() || has(&self.resource_names, target.name);
        named && self.resources.iter().any(|resource| matches_part(resource, target))
    }
}

/// True if `pattern` matches the resource or subresource of `target`.
fn matches_part(pattern: &str, target: &ResourceTarget<'_>) -> bool {
    let (resource, subresource) = (target.resource, target.subresource);
    if pattern == "*" {
        return true;
    }
    if pattern.strip_suffix("/*") == Some(resource) {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((of, part)) => !subresource.is_empty() && part == subresource && (of == resource || of == "*"),
    }
}

fn matches_path(pattern: &str, path: &str) -> bool {
    let prefix = pattern.strip_suffix('*').map(|prefix| prefix.trim_end_matches('*'));
    pattern == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    fn policy(rules: &str) -> Policy {
        let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [Panic], rules: {rules}}}");
        Policy::read(text.as_bytes()).unwrap()
    }

    fn resource<'a>(resource: &'a str, subresource: &'a str, namespace: &'a str, name: &'a str) -> AccessTarget<'a> {
        AccessTarget::Resource(ResourceTarget {
            version: "v1",
            resource,
            subresource,
            namespace,
            name,
            ..ResourceTarget::default()
        })
    }

    fn level(rules: &str, verb: &str, target: AccessTarget<'_>) -> Level {
        let user = User {
            name: "alice".into(),
            groups: vec!["devs".into(), "all".into()],
            ..User::default()
        };
        policy(rules).judge(Some(&user), &Attributes { verb, target }).level
    }

    fn matches(rule: &str, verb: &str, target: AccessTarget<'_>) -> bool {
        level(&format!("[{{level: Metadata, {rule}}}]"), verb, target) == Level::Metadata
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = "[{level: Request, users: [bob]}, {level: Metadata, userGroups: [x, devs]}, {level: None}]";
        assert_eq!(level(rules, "get", AccessTarget::Path("/")), Level::Metadata);
        let only_bob = "[{level: Request, users: [bob]}]";
        assert_eq!(level(only_bob, "get", AccessTarget::Path("/")), Level::None);
    }

    #[test]
    fn a_request_without_a_user_matches_no_rule_about_users() {
        let attributes = Attributes {
            verb: "get",
            target: AccessTarget::Path("/"),
        };
        let judged = |rules: &str| policy(rules).judge(None, &attributes).level;
        assert_eq!(judged("[{level: Metadata, users: ['']}]"), Level::None);
        assert_eq!(judged("[{level: Metadata, userGroups: ['']}]"), Level::None);
        assert_eq!(judged("[{level: Metadata}]"), Level::Metadata);
    }

    #[test]
    fn verbs_and_namespaces_are_matched_as_they_are() {
        let pod = resource("pods", "", "n", "p");
        assert!(matches("verbs: [get, list]", "list", pod));
        assert!(!matches("verbs: ['*']", "list", pod));
        assert!(matches("namespaces: [m, 'n']", "get", pod));
        assert!(!matches("namespaces: ['']", "get", pod));
        assert!(matches("namespaces: ['']", "get", resource("nodes", "", "", "x")));
        assert!(!matches("namespaces: ['']", "get", AccessTarget::Path("/livez")));
    }

    #[test]
    fn resources_are_matched_with_their_subresources() {
        let rule = |resources: &str| format!("resources: [{{group: '', resources: {resources}}}]");
        let (pod, log) = (resource("pods", "", "n", "p"), resource("pods", "log", "n", "p"));
        for (resources, matches_pod, matches_log) in [
            ("[]", true, true),
            ("[pods]", true, false),
            ("[pods/log]", false, true),
            ("['pods/*']", true, true),
            ("['*/log']", false, true),
            ("['*/status']", false, false),
            ("['*']", true, true),
            ("[nodes, 'nodes/*', '*/']", false, false),
        ] {
            assert_eq!(matches(&rule(resources), "get", pod), matches_pod, "{resources}");
            assert_eq!(matches(&rule(resources), "get", log), matches_log, "{resources}");
        }
    }

    #[test]
    fn groups_and_names_of_objects_are_matched() {
        let pod = resource("pods", "", "n", "p");
        assert!(matches("resources: [{group: '*'}]", "get", pod));
        assert!(!matches("resources: [{group: apps}]", "get", pod));
        assert!(matches("resources: [{group: apps}, {}]", "get", pod));
        let named = |names: &str| format!("resources: [{{resources: [pods], resourceNames: {names}}}]");
        assert!(matches(&named("[o, p]"), "get", pod));
        assert!(!matches(&named("[o]"), "get", pod));
    }

    #[test]
    fn paths_end_in_a_star() {
        let is_matched =
            |url: &str, path: &str| matches(&format!("nonResourceURLs: ['{url}']"), "get", AccessTarget::Path(path));
        assert!(is_matched("*", "/any") && is_matched("/livez*", "/livez/ping") && is_matched("/livez", "/livez"));
        assert!(!is_matched("/livez", "/livez/ping") && !is_matched("/healthz*", "/livez"));
        assert!(!matches(
            "nonResourceURLs: ['*']",
            "get",
            resource("pods", "", "n", "p")
        ));
    }

    #[test]
    fn rule_setting_overrides_policy_setting() {
        let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitManagedFields: true, omitStages: [Panic], rules: [\
                    {level: Metadata, users: [a], omitManagedFields: false, omitStages: [RequestReceived]}, {level: Request}]}";
        let policy = Policy::read(text.as_bytes()).unwrap();
        let judged = |name: &str| {
            let user = User {
                name: name.into(),
                ..User::default()
            };
            let target = AccessTarget::Path("/");
            policy.judge(Some(&user), &Attributes { verb: "get", target })
        };
        let (a, b) = (judged("a"), judged("b"));
        assert_eq!((a.omit_managed_fields, b.omit_managed_fields), (false, true));
        assert!(a.omit_stages.contains(Stage::Panic) && a.omit_stages.contains(Stage::RequestReceived));
        assert!(b.omit_stages.contains(Stage::Panic) && !b.omit_stages.contains(Stage::RequestReceived));
    }
}
