//! Rules of roles: reading them, and matching requests
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources>).

use crate::{AccessTarget, Attributes, ResourceTarget, Rule};
use holdfast_value::{SmolStr, Value};

const ALL: &str = "*";

/// Returns the rules of a Role or ClusterRole.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_list).into_iter();
    rules.flat_map(|rules| rules.iter()).map(read).collect()
}

fn read(rule: &Value) -> Rule {
    let texts = |field| {
        let lists = rule.get(field).and_then(Value::as_list).into_iter();
        let texts = lists.flat_map(|list| list.iter()).filter_map(Value::as_str);
        texts.map(SmolStr::new).collect()
    };
    Rule {
        verbs: texts("verbs"),
        api_groups: texts("apiGroups"),
        resources: texts("resources"),
        resource_names: texts("resourceNames"),
        non_resource_urls: texts("nonResourceURLs"),
    }
}

/// True if the rule allows the action of `attributes`.
pub fn allows(rule: &Rule, attributes: &Attributes<'_>) -> bool {
    has(&rule.verbs, attributes.verb)
        && match &attributes.target {
            AccessTarget::Resource(target) => {
                has(&rule.api_groups, target.group)
                    && rule.resources.iter().any(|resource| resource_matches(resource, target))
                    && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| name == target.name))
            }
            AccessTarget::Path(path) => rule.non_resource_urls.iter().any(|url| url_covers(url, path)),
        }
}

/// True if `texts` contains `text` or the wildcard.
pub fn has(texts: &[SmolStr], text: &str) -> bool {
    texts.iter().any(|known| known == ALL || known == text)
}

fn resource_matches(resource: &str, target: &ResourceTarget<'_>) -> bool {
    if resource == ALL {
        return true;
    }
    if target.subresource.is_empty() {
        return resource == target.resource;
    }
    let parts = resource.split_once('/');
    parts.is_some_and(|(of, part)| part == target.subresource && (of == ALL || of == target.resource))
}

/// True if a rule for `url` covers `path`. A `path` that ends with a star denotes all paths with that prefix.
pub fn url_covers(url: &str, path: &str) -> bool {
    if url == path {
        return true;
    }
    url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn allowed(rule: &str, verb: &str, path: &str) -> bool {
        let rule = yaml::parse(rule.as_bytes(), &Limits::default()).unwrap();
        let target = match path.strip_prefix(' ') {
            Some(url) => AccessTarget::Path(url),
            None => {
                let mut parts = path.split(' ');
                let mut part = || parts.next().unwrap_or_default();
                AccessTarget::Resource(ResourceTarget {
                    group: part(),
                    resource: part(),
                    subresource: part(),
                    name: part(),
                    ..ResourceTarget::default()
                })
            }
        };
        allows(&read(&rule), &Attributes { verb, target })
    }

    #[test]
    fn resources_and_subresources_are_granted_apart() {
        let rule = "{verbs: [get], apiGroups: [apps], resources: [deployments, '*/scale', pods/log]}";
        let cases = [
            ("apps deployments", true),
            ("apps deployments status", false),
            ("apps deployments scale", true),
            ("apps replicasets scale", true),
            ("apps replicasets", false),
            ("apps pods log", true),
            ("apps pods", false),
            ("other deployments", false),
        ];
        for (target, expected) in cases {
            assert_eq!(allowed(rule, "get", target), expected, "{target}");
        }
        assert!(!allowed(rule, "list", "apps deployments"));
        let all = "{verbs: ['*'], apiGroups: ['*'], resources: ['*']}";
        assert!(allowed(all, "dance", "x y z"));
        assert!(!allowed(all, "get", " /healthz"));
    }

    #[test]
    fn names_limit_a_rule_to_their_objects() {
        let rule = "{verbs: [get, list], apiGroups: [''], resources: [configmaps], resourceNames: [mine]}";
        let ask = |name| {
            let rule = read(&yaml::parse(rule.as_bytes(), &Limits::default()).unwrap());
            let target = AccessTarget::Resource(ResourceTarget {
                resource: "configmaps",
                name,
                ..ResourceTarget::default()
            });
            allows(&rule, &Attributes { verb: "list", target })
        };
        assert!(ask("mine"));
        assert!(!ask("other"));
        assert!(!ask(""));
    }

    #[test]
    fn paths_may_end_with_a_star() {
        let rule = "{verbs: [get], nonResourceURLs: [/healthz, '/logs/*']}";
        for (path, expected) in [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/logs/", true),
            ("/logs/a/b", true),
            ("/log", false),
        ] {
            assert_eq!(allowed(rule, "get", &format!(" {path}")), expected, "{path}");
        }
        assert!(!allowed(rule, "post", " /healthz"));
        assert!(allowed("{verbs: [get], nonResourceURLs: ['*']}", "get", " /anything"));
    }
}
