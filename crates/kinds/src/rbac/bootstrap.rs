//! Default roles and bindings of a cluster
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings>), and their
//! restoration at startup if something was removed from them.
//!
//! They are defined in `bootstrap.toml`, whose header describes the keys. The build makes lines of it.

use holdfast_authorization::Rule;
use holdfast_authorization::rbac::rule::rules_of;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::metadata::new_object;
use holdfast_value::{List, Map, SmolStr, Value};

use super::{GROUP, escalation};

const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/bootstrap.txt"));

/// Annotation that, if `false`, prevents the server from updating an object.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const READ: &str = "get,list,watch";
const WRITE: &str = "create,update,patch,delete,deletecollection";
const CONTROLLER: &str = "system:controller:";

/// Parsed contents of the table.
#[derive(Default)]
struct Table<'t> {
    roles: Vec<Role<'t>>,
    bindings: Vec<Binding<'t>>,
}

struct Role<'t> {
    name: String,
    /// Namespace; empty for a ClusterRole.
    namespace: &'t str,
    labels: Vec<&'t str>,
    aggregates: Option<&'t str>,
    rules: Vec<Rule>,
}

struct Binding<'t> {
    name: String,
    namespace: &'t str,
    role: String,
    subjects: Vec<(&'t str, String)>,
}

/// Returns the default ClusterRoles, or the default Roles.
pub(super) fn roles(of_cluster: bool, features: Features) -> Vec<Value> {
    let table = read(TABLE, features);
    let roles = table
        .roles
        .iter()
        .filter(|role| role.namespace.is_empty() == of_cluster);
    roles.map(|role| role_object(&table, role)).collect()
}

/// Returns the rules of nodes, which are also those of the ClusterRole `system:node`. The authorization mode `Node` grants
/// them on resources that it does not check by itself.
///
/// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy#NodeRules
pub fn node_rules(features: Features) -> Vec<Rule> {
    let roles = read(TABLE, features).roles.into_iter();
    roles
        .filter(|role| role.name == "system:node")
        .flat_map(|role| role.rules)
        .collect()
}

/// Returns the default ClusterRoleBindings, or the default RoleBindings.
pub(super) fn bindings(of_cluster: bool) -> Vec<Value> {
    let table = read(TABLE, Features::default());
    let bindings = table
        .bindings
        .iter()
        .filter(|binding| binding.namespace.is_empty() == of_cluster);
    bindings.map(binding_object).collect()
}

/// Returns the update of a stored role that lacks parts of the default one. Rules are only added, never removed. The
/// rules of an aggregated role belong to the controller that aggregates them.
pub(super) fn reconcile_role(stored: &Value, initial: &Value) -> Option<Value> {
    let mut next = with_metadata(stored, initial)?;
    if initial.get("aggregationRule").is_some() {
        if stored.get("aggregationRule").is_none() {
            next.set_at(&["aggregationRule"], initial.get("aggregationRule").cloned()?);
        }
    } else {
        let missing = escalation::missing(&rules_of(stored), &rules_of(initial)).unwrap_or_default();
        if !missing.is_empty() {
            let mut rules = stored
                .get("rules")
                .and_then(Value::as_list)
                .cloned()
                .unwrap_or_default();
            rules.make_mut().extend(missing.iter().map(rule_object));
            next.set_at(&["rules"], Value::List(rules));
        }
    }
    (next != *stored).then_some(next)
}

/// Returns the update of a stored binding that lacks parts of the default one. Subjects are only added, never removed.
/// A binding to another role belongs to the user and is not changed.
pub(super) fn reconcile_binding(stored: &Value, initial: &Value) -> Option<Value> {
    if stored.get("roleRef") != initial.get("roleRef") {
        return None;
    }
    let mut next = with_metadata(stored, initial)?;
    let mut subjects = stored
        .get("subjects")
        .and_then(Value::as_list)
        .cloned()
        .unwrap_or_default();
    let wanted = initial.get("subjects").and_then(Value::as_list).into_iter();
    let missing: Vec<Value> = wanted
        .flat_map(|wanted| wanted.iter())
        .filter(|subject| !subjects.contains(subject))
        .cloned()
        .collect();
    if !missing.is_empty() {
        subjects.make_mut().extend(missing);
        next.set_at(&["subjects"], Value::List(subjects));
    }
    (next != *stored).then_some(next)
}

/// Adds the missing labels and annotations of `initial` to `stored`. Returns `None` if auto-update is off.
fn with_metadata(stored: &Value, initial: &Value) -> Option<Value> {
    if stored.str_at(&["metadata", "annotations", AUTO_UPDATE]) == Some("false") {
        return None;
    }
    let mut next = stored.clone();
    for field in ["labels", "annotations"] {
        let wanted = initial.at(&["metadata", field]).and_then(Value::as_map).into_iter();
        for (key, value) in wanted.flat_map(|wanted| wanted.iter()) {
            if next.at(&["metadata", field, key]).is_none() {
                next.set_at(&["metadata", field, key], value.clone());
            }
        }
    }
    Some(next)
}

fn read(text: &str, features: Features) -> Table<'_> {
    let mut table = Table::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), table.roles.last_mut()) {
            ([], _) => {}
            (["role", name, rest @ ..], _) => {
                let (namespace, labels) = match rest {
                    ["in", namespace] => (*namespace, Vec::new()),
                    labels => ("", labels.to_vec()),
                };
                table.roles.push(Role {
                    name: (*name).to_owned(),
                    namespace,
                    labels,
                    aggregates: None,
                    rules: Vec::new(),
                });
            }
            (["controller", name], _) => {
                let role = format!("{CONTROLLER}{name}");
                table.bindings.push(Binding {
                    name: role.clone(),
                    namespace: "",
                    role: role.clone(),
                    subjects: vec![("ServiceAccount", format!("kube-system/{name}"))],
                });
                table.roles.push(Role {
                    name: role,
                    namespace: "",
                    labels: Vec::new(),
                    aggregates: None,
                    rules: Vec::new(),
                });
            }
            (["aggregate", label], Some(role)) => role.aggregates = Some(label),
            (["bind", subjects @ ..], Some(role)) => {
                let name = role.name.clone();
                table.bindings.push(binding(name, role, subjects));
            }
            (["bind-as", name, subjects @ ..], Some(role)) => {
                table.bindings.push(binding((*name).to_owned(), role, subjects));
            }
            (["if", gate, rule @ ..], Some(role)) => {
                if Feature::named(gate).is_some_and(|gate| features.has(gate)) {
                    role.rules.push(read_rule(rule));
                }
            }
            (rule, Some(role)) => role.rules.push(read_rule(rule)),
            (_, None) => {}
        }
    }
    table
}

fn binding<'t>(name: String, role: &Role<'t>, subjects: &[&'t str]) -> Binding<'t> {
    let subjects = subjects.iter().filter_map(|subject| subject.split_once('='));
    Binding {
        name,
        namespace: role.namespace,
        role: role.name.clone(),
        subjects: subjects.map(|(kind, name)| (kind, name.to_owned())).collect(),
    }
}

fn read_rule(words: &[&str]) -> Rule {
    // The reference sorts the names in a rule.
    let sorted = |text: &str| {
        let mut texts: Vec<SmolStr> = text
            .split(',')
            .map(|text| SmolStr::new(if text == "core" { "" } else { text }))
            .collect();
        texts.sort_unstable();
        texts
    };
    let verbs = |verbs: &str| match verbs {
        "read" => sorted(READ),
        "write" => sorted(WRITE),
        "readwrite" => sorted(&format!("{READ},{WRITE}")),
        verbs => sorted(verbs),
    };
    match words {
        ["events"] => read_rule(&["create,update,patch", "core,events.k8s.io", "events"]),
        [of, "urls", paths] => Rule {
            verbs: verbs(of),
            non_resource_urls: sorted(paths),
            ..Rule::default()
        },
        [of, groups, resources, names @ ..] => Rule {
            verbs: verbs(of),
            api_groups: sorted(groups),
            resources: sorted(resources),
            resource_names: names.first().map(|names| sorted(names)).unwrap_or_default(),
            non_resource_urls: Vec::new(),
        },
        _ => Rule::default(),
    }
}

fn role_object(table: &Table<'_>, role: &Role<'_>) -> Value {
    let kind = if role.namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let mut object = object(kind, &role.name, role.namespace);
    for label in &role.labels {
        object.set_at(&["metadata", "labels", &format!("{GROUP}/{label}")], "true".into());
    }
    let mut rules = role.rules.clone();
    if let Some(label) = role.aggregates {
        let mut labels = Map::new();
        labels.insert(format!("{GROUP}/{label}"), "true");
        let mut selector = Value::empty_map();
        selector.set_at(&["matchLabels"], Value::Map(labels));
        let selectors = Value::List(List::from_iter([selector]));
        object.set_at(&["aggregationRule", "clusterRoleSelectors"], selectors);
        rules = gathered(table, label);
    }
    let rules: List = rules.iter().map(rule_object).collect();
    object.set_at(&["rules"], Value::List(rules));
    object
}

/// Returns the distinct rules of the roles with this label, in the order of the roles' names, as the aggregation
/// controller does.
fn gathered(table: &Table<'_>, label: &str) -> Vec<Rule> {
    let mut roles: Vec<&Role<'_>> = table.roles.iter().filter(|role| role.labels.contains(&label)).collect();
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rules: Vec<Rule> = Vec::new();
    for role in roles {
        let own = match role.aggregates {
            Some(label) => gathered(table, label),
            None => role.rules.clone(),
        };
        for rule in own {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

fn binding_object(binding: &Binding<'_>) -> Value {
    let (kind, role_kind) = if binding.namespace.is_empty() {
        ("ClusterRoleBinding", "ClusterRole")
    } else {
        ("RoleBinding", "Role")
    };
    let mut object = object(kind, &binding.name, binding.namespace);
    for (field, text) in [("apiGroup", GROUP), ("kind", role_kind), ("name", &binding.role)] {
        object.set_at(&["roleRef", field], text.into());
    }
    let subjects: List = binding
        .subjects
        .iter()
        .map(|(kind, name)| {
            let mut subject = Value::empty_map();
            subject.set_at(&["kind"], (*kind).into());
            match name.split_once('/') {
                Some((namespace, name)) => {
                    subject.set_at(&["name"], name.into());
                    subject.set_at(&["namespace"], namespace.into());
                }
                None => {
                    subject.set_at(&["apiGroup"], GROUP.into());
                    subject.set_at(&["name"], name.as_str().into());
                }
            }
            subject
        })
        .collect();
    if !binding.subjects.is_empty() {
        object.set_at(&["subjects"], Value::List(subjects));
    }
    object
}

fn object(kind: &str, name: &str, namespace: &str) -> Value {
    let mut object = new_object(&format!("{GROUP}/v1"), kind, namespace, name);
    object.set_at(&["metadata", "annotations", AUTO_UPDATE], "true".into());
    object.set_at(
        &["metadata", "labels", "kubernetes.io/bootstrapping"],
        "rbac-defaults".into(),
    );
    object
}

fn rule_object(rule: &Rule) -> Value {
    let fields = [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
        ("nonResourceURLs", &rule.non_resource_urls),
    ];
    let mut map = Map::new();
    for (name, texts) in fields.into_iter().filter(|(_, texts)| !texts.is_empty()) {
        let texts: List = texts.iter().map(|text| Value::from(text.clone())).collect();
        map.insert(name, Value::List(texts));
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use holdfast_kind_tables::features::FeatureGates;

    use super::*;
    use crate::harness::{Harness, at};

    fn named<'a>(objects: &'a [Value], name: &str) -> &'a Value {
        let mut objects = objects.iter();
        objects
            .find(|object| object.str_at(&["metadata", "name"]) == Some(name))
            .unwrap()
    }

    #[test]
    fn all_of_them_are_objects_that_a_client_could_create() {
        let harness = Harness::new();
        let all = [
            roles(true, Features::default()),
            roles(false, Features::default()),
            bindings(true),
            bindings(false),
        ]
        .concat();
        let counts = [
            roles(true, Features::default()),
            roles(false, Features::default()),
            bindings(true),
            bindings(false),
        ]
        .map(|objects| objects.len());
        assert_eq!(counts, [69, 7, 50, 7]);
        for object in &all {
            let text = holdfast_value::json::to_string(object);
            assert!(harness.errors(&text).is_empty(), "{text}");
        }
        let names: BTreeSet<String> = all
            .iter()
            .map(|object| {
                format!(
                    "{} {} {}",
                    at(object, "kind"),
                    at(object, "metadata.namespace"),
                    at(object, "metadata.name")
                )
            })
            .collect();
        assert_eq!(names.len(), all.len());
    }

    #[test_support::needs(shared)]
    #[test]
    fn rules_are_those_that_the_reference_starts_with() {
        // Other programs of the recorded server's vendor change these.
        const OTHERS: [&str; 2] = ["endpointslice-controller", "endpointslicemirroring-controller"];
        let known = [roles(true, Features::default()), roles(false, Features::default())].concat();
        let initial = std::fs::read_to_string(test_support::shared("corpus/storage/initial.jsonl")).unwrap();
        let mut compared = 0;
        for line in initial.lines() {
            let entry = holdfast_value::json::parse(line.as_bytes(), &holdfast_value::Limits::default()).unwrap();
            let key = entry.str_at(&["key"]).unwrap();
            if !key.starts_with("/registry/clusterroles/") && !key.starts_with("/registry/roles/") {
                continue;
            }
            let metadata = |object: &Value, field: &str| object.str_at(&["metadata", field]).map(str::to_owned);
            let recorded = entry.at(&["object"]).unwrap();
            let name = metadata(recorded, "name").unwrap();
            let same = |role: &&Value| {
                ["name", "namespace"]
                    .iter()
                    .all(|field| metadata(role, field) == metadata(recorded, field))
            };
            let role = known.iter().find(same);
            let Some(role) = role.filter(|_| !OTHERS.iter().any(|other| name.ends_with(other))) else {
                continue;
            };
            // A controller fills in the rules of an aggregated role.
            if role.at(&["aggregationRule"]).is_none() {
                assert_eq!(
                    Some(role.at(&["rules"])),
                    Some(entry.at(&["object", "rules"])),
                    "{name}"
                );
            }
            compared += 1;
        }
        assert!(compared > 60, "{compared}");
    }

    #[test]
    fn gates_add_rules_of_nodes() {
        let with = |gates: &str| node_rules(FeatureGates::set(&[gates.to_owned()]).unwrap().features());
        let resources =
            |rules: Vec<Rule>| -> Vec<SmolStr> { rules.into_iter().flat_map(|rule| rule.resources).collect() };
        let usual = resources(node_rules(Features::default()));
        assert!(usual.iter().any(|name| name == "serviceaccounts"));
        assert!(!usual.iter().any(|name| name == "podcertificaterequests"));
        let more = resources(with(
            "PodCertificateRequest=true,KubeletServiceAccountTokenForCredentialProviders=false",
        ));
        assert!(more.iter().any(|name| name == "podcertificaterequests"));
        assert!(!more.iter().any(|name| name == "serviceaccounts"));
    }

    #[test]
    fn every_binding_is_of_a_role_that_is_there() {
        for of_cluster in [true, false] {
            let roles = roles(of_cluster, Features::default());
            for binding in bindings(of_cluster) {
                let of_binding = |role: &&Value| {
                    role.str_at(&["metadata", "name"]) == binding.str_at(&["roleRef", "name"])
                        && role.str_at(&["metadata", "namespace"]) == binding.str_at(&["metadata", "namespace"])
                };
                assert!(
                    roles.iter().any(|role| of_binding(&role)),
                    "{}",
                    at(&binding, "metadata.name")
                );
            }
        }
    }

    #[test]
    fn roles_that_gather_hold_what_they_gather() {
        let roles = roles(true, Features::default());
        let rules = |name| rules_of(named(&roles, name));
        assert!(escalation::covers(&rules("edit"), &rules("view")));
        assert!(escalation::covers(&rules("admin"), &rules("edit")));
        assert!(escalation::covers(&rules("admin"), &rules("system:aggregate-to-admin")));
        assert!(!escalation::covers(&rules("view"), &rules("edit")));
        assert_eq!(
            at(named(&roles, "edit"), "metadata.labels"),
            r#"{"kubernetes.io/bootstrapping":"rbac-defaults","rbac.authorization.k8s.io/aggregate-to-admin":"true"}"#
        );
        assert_eq!(
            at(named(&roles, "view"), "aggregationRule"),
            r#"{"clusterRoleSelectors":[{"matchLabels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}]}"#
        );
    }

    #[test]
    fn reconciled_role_regains_rules_and_keeps_added_ones() {
        let roles = roles(true, Features::default());
        let initial = named(&roles, "system:node-problem-detector");
        assert_eq!(reconcile_role(initial, initial), None);
        let mut stored = initial.clone();
        let own = rule_object(&read_rule(&["get", "core", "secrets"]));
        stored.set_at(&["rules"], Value::List(List::from_iter([own])));
        stored.remove_at(&["metadata", "labels"]);
        let next = reconcile_role(&stored, initial).unwrap();
        assert!(escalation::covers(&rules_of(&next), &rules_of(initial)));
        assert!(escalation::covers(&rules_of(&next), &rules_of(&stored)));
        assert_eq!(at(&next, "metadata.labels"), at(initial, "metadata.labels"));
        stored.set_at(&["metadata", "annotations", AUTO_UPDATE], "false".into());
        assert_eq!(reconcile_role(&stored, initial), None);
    }

    #[test]
    fn subjects_that_were_taken_from_a_binding_come_back() {
        let bindings = bindings(true);
        let initial = named(&bindings, "system:discovery");
        let mut stored = initial.clone();
        stored.remove_at(&["subjects"]);
        assert_eq!(reconcile_binding(&stored, initial).as_ref(), Some(initial));
        stored.set_at(&["roleRef", "name"], "other".into());
        assert_eq!(reconcile_binding(&stored, initial), None);
    }
}
