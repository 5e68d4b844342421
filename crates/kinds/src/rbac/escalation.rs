//! Privilege escalation prevention: users grant only permissions that they hold
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping>).

use std::collections::BTreeSet;

use holdfast_authorization::rbac::rule::{has, url_covers};
use holdfast_authorization::{AccessTarget, Attributes, MASTERS, ResourceTarget, Rule};
use holdfast_resource::{Rejection, WriteContext};
use holdfast_schema::same;
use holdfast_value::{SmolStr, Value};

/// Maximum number of single permissions of a role that are compared. Only users who may escalate can write a role with
/// more.
const MOST_PERMISSIONS: usize = 100_000;

/// Returns true if the user may grant everything: a member of `system:masters`.
pub(super) fn may_do_everything(context: &WriteContext<'_>) -> bool {
    context.user.is_in(MASTERS)
}

/// Returns true if the user may grant all rules of the role because of the permission `verb` on it.
pub(super) fn is_exempt(context: &WriteContext<'_>, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let attributes = Attributes {
        verb,
        target: AccessTarget::Resource(ResourceTarget {
            group,
            version: "*",
            resource,
            namespace: context.namespace,
            name,
            ..ResourceTarget::default()
        }),
    };
    context.access.authorizer.authorize(context.user, &attributes).allows()
}

/// Returns true if an update changes only the fields that the garbage collector writes, which needs no rights on the
/// granted permissions. An update that omits other metadata, such as the uid or the resource version, changes it.
///
/// upstream: pkg/registry/rbac#IsOnlyMutatingGCFields
pub fn changes_ownership_alone(object: &Value, old: &Value) -> bool {
    const FIELDS: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "selfLink"];
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in FIELDS {
            object.remove_at(&["metadata", field]);
        }
        object
    };
    same(Some(&without(object)), Some(&without(old)))
}

/// Denies the write unless the user holds all of `rules` in its namespace.
///
/// upstream: pkg/registry/rbac/validation#ConfirmNoEscalation
pub(super) fn check(context: &WriteContext<'_>, rules: &[Rule]) -> Result<(), Rejection> {
    let held = context.access.authorizer.role_rules(context.user, context.namespace);
    let Some(missing) = missing(&held.rules, rules) else {
        let why =
            format!("the rules name more than {MOST_PERMISSIONS} permissions, which takes the verb escalate or bind");
        return Err(Rejection::forbidden(why));
    };
    if missing.is_empty() {
        return Ok(());
    }
    let sorted: BTreeSet<String> = compact(missing).iter().map(described).collect();
    let lines: Vec<String> = sorted.into_iter().collect();
    let mut message = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        context.user.name,
        quoted(&context.user.groups, " "),
        lines.join("\n")
    );
    if !held.errors.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", held.errors.join(" ")));
    }
    Err(Rejection::forbidden(message))
}

/// Returns the rules that permit everything.
pub(super) fn full_authority() -> Vec<Rule> {
    let all = || vec![SmolStr::new_static("*")];
    vec![
        Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            non_resource_urls: all(),
            ..Rule::default()
        },
    ]
}

/// Returns true if the rules `held` permit everything that `wanted` permits.
pub(super) fn covers(held: &[Rule], wanted: &[Rule]) -> bool {
    missing(held, wanted).is_some_and(|missing| missing.is_empty())
}

/// Returns the single permissions of `wanted` that `held` does not include; `None` if there are too many to compare.
pub(super) fn missing(held: &[Rule], wanted: &[Rule]) -> Option<Vec<Rule>> {
    let mut missing = Vec::new();
    let mut left = MOST_PERMISSIONS;
    for rule in wanted {
        if held.iter().any(|held| covers_rule(held, rule)) {
            continue;
        }
        let names = rule.resource_names.len().max(1);
        let of_resources = [&rule.api_groups, &rule.resources, &rule.verbs]
            .iter()
            .try_fold(names, |count, texts| count.checked_mul(texts.len()))?;
        let of_urls = rule.non_resource_urls.len().checked_mul(rule.verbs.len())?;
        left = left.checked_sub(of_resources.checked_add(of_urls)?)?;
        let single = singles(rule);
        missing.extend(single.filter(|single| !held.iter().any(|held| covers_rule(held, single))));
    }
    Some(missing)
}

/// Splits a rule into single permissions.
fn singles(rule: &Rule) -> impl Iterator<Item = Rule> + '_ {
    let one = |text: &SmolStr| vec![text.clone()];
    let names: Vec<Vec<SmolStr>> = if rule.resource_names.is_empty() {
        vec![Vec::new()]
    } else {
        rule.resource_names.iter().map(one).collect()
    };
    let mut singles = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                singles.extend(names.iter().map(|names| Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    non_resource_urls: Vec::new(),
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        singles.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            non_resource_urls: one(url),
            ..Rule::default()
        }));
    }
    singles.into_iter()
}

/// Returns true if `held` by itself permits everything that `rule` permits.
fn covers_rule(held: &Rule, rule: &Rule) -> bool {
    let all_of = |held: &[SmolStr], wanted: &[SmolStr]| wanted.iter().all(|text| has(held, text));
    let resource = |wanted: &SmolStr| {
        has(&held.resources, wanted)
            || wanted
                .split_once('/')
                .is_some_and(|(_, part)| held.resources.iter().any(|held| held.strip_prefix("*/") == Some(part)))
    };
    let url = |wanted: &SmolStr| held.non_resource_urls.iter().any(|url| url_covers(url, wanted));
    let names = held.resource_names.is_empty()
        || (!rule.resource_names.is_empty()
            && rule
                .resource_names
                .iter()
                .all(|name| held.resource_names.contains(name)));
    all_of(&held.verbs, &rule.verbs)
        && all_of(&held.api_groups, &rule.api_groups)
        && rule.resources.iter().all(resource)
        && rule.non_resource_urls.iter().all(url)
        && names
}

/// Merges single permissions for the same objects.
#[expect(clippy::indexing_slicing, reason = "a number below the number of rules")]
fn compact(singles: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for single in singles {
        // Permissions are ordered by resource, except for several names of one resource.
        let same = |known: &&mut Rule| {
            single.non_resource_urls.is_empty()
                && known.non_resource_urls.is_empty()
                && (&known.api_groups, &known.resources, &known.resource_names)
                    == (&single.api_groups, &single.resources, &single.resource_names)
        };
        let recent = rules.len().saturating_sub(RECENT);
        match rules[recent..].iter_mut().find(same) {
            Some(known) => known.verbs.extend(single.verbs),
            None => rules.push(single),
        }
    }
    rules
}

/// Number of preceding rules that are searched for a mergeable one. It bounds the work for a very large role.
const RECENT: usize = 1_000;

/// Formats a rule as the reference does in messages.
fn described(rule: &Rule) -> String {
    let rows = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = rows
        .iter()
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(name, texts)| format!("{name}:{}", quoted(texts, " ")))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

fn quoted(texts: &[SmolStr], separator: &str) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(separator))
}

#[cfg(test)]
mod tests {
    use holdfast_authorization::rbac::rule::rules_of;
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn rules(text: &str) -> Vec<Rule> {
        rules_of(&yaml::parse(format!("{{rules: [{text}]}}").as_bytes(), &Limits::default()).unwrap())
    }

    fn lacks(held: &str, wanted: &str) -> Vec<String> {
        let missing = missing(&rules(held), &rules(wanted)).unwrap();
        compact(missing).iter().map(described).collect()
    }

    #[test]
    fn missing_permissions_are_reported_by_resource() {
        let held = "{verbs: [get], apiGroups: [''], resources: [configmaps]}";
        let wanted = "{verbs: [get, list, watch], apiGroups: [''], resources: [configmaps]}, \
                      {verbs: [get], apiGroups: [''], resources: [secrets], resourceNames: [a, b]}, \
                      {verbs: [get], nonResourceURLs: [/x]}";
        assert_eq!(
            lacks(held, wanted),
            [
                r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
            ]
        );
    }

    #[test]
    fn wildcards_cover_what_they_stand_for_and_no_more() {
        let all = "{verbs: ['*'], apiGroups: ['*'], resources: ['*']}";
        assert!(covers(
            &rules(all),
            &rules("{verbs: [get], apiGroups: [a, b], resources: [c/d]}")
        ));
        assert!(!covers(
            &rules("{verbs: [get], apiGroups: [a], resources: [b]}"),
            &rules(all)
        ));
        let scale = "{verbs: [get], apiGroups: [''], resources: ['*/scale']}";
        assert!(covers(
            &rules(scale),
            &rules("{verbs: [get], apiGroups: [''], resources: [x/scale]}")
        ));
        assert!(!covers(
            &rules(scale),
            &rules("{verbs: [get], apiGroups: [''], resources: [scale]}")
        ));
        let named = "{verbs: [get], apiGroups: [''], resources: [x], resourceNames: [a]}";
        assert!(!covers(
            &rules(named),
            &rules("{verbs: [get], apiGroups: [''], resources: [x]}")
        ));
        let urls = "{verbs: [get], nonResourceURLs: ['/a/*']}";
        assert!(covers(
            &rules(urls),
            &rules("{verbs: [get], nonResourceURLs: [/a/b, '/a/b/*']}")
        ));
        assert!(!covers(&rules(urls), &rules("{verbs: [get], nonResourceURLs: [/a]}")));
    }

    #[test]
    fn a_role_of_very_many_permissions_is_not_looked_at() {
        let many = |count: usize| (0..count).map(|at| SmolStr::from(at.to_string())).collect::<Vec<_>>();
        let rule = Rule {
            verbs: many(100),
            api_groups: many(100),
            resources: many(100),
            ..Rule::default()
        };
        assert_eq!(missing(&[], std::slice::from_ref(&rule)), None);
        assert!(covers(&full_authority(), &[rule]));
    }
}
