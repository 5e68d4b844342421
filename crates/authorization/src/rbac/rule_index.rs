//! RBAC authorizer, an index of permissions by roles and bindings.
//!
//! The index follows the stored objects of the four kinds: their strategies report each change to it. It holds prepared
//! rules, and grants by user and group, so that a decision reads only the roles of its user. A request holds a snapshot
//! and never waits; a change creates the next snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{
    AccessTarget, Attributes, Authorization, Authorizer, Decision, Rule, User, UserRules, service_account_user,
};
use arc_swap::ArcSwap;
use holdfast_value::{SmolStr, Value};
use imbl::{HashMap, OrdMap};

use super::rule::allows;

/// Roles and bindings, indexed for requests.
///
/// ```
/// use holdfast_authorization::rbac::{RuleIndex, rule::rules_of};
/// use holdfast_authorization::{AccessTarget, Attributes, Authorizer, User};
/// use holdfast_value::{Limits, yaml};
///
/// let object = |text: &str| yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
/// let index = RuleIndex::default();
/// let role = object("rules: [{verbs: [get], nonResourceURLs: [/healthz]}]");
/// index.set_role("", "health", Some(rules_of(&role)));
/// let binding = object("{roleRef: {kind: ClusterRole, name: health}, subjects: [{kind: User, name: alice}]}");
/// index.set_binding("", "health", Some(&binding));
///
/// let get = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// let user = |name: &str| User { name: name.into(), ..User::default() };
/// assert!(index.authorize(&user("alice"), &get).allows());
/// assert!(!index.authorize(&user("bob"), &get).allows());
/// ```
#[derive(Default)]
pub struct RuleIndex(ArcSwap<State>);

/// Index by namespace, which is empty for cluster-wide objects, and by name.
type ByNamespace<T> = HashMap<SmolStr, HashMap<SmolStr, T>>;

#[derive(Clone, Default)]
struct State {
    /// Number of changes so far.
    generation: u64,
    roles: ByNamespace<Arc<[Rule]>>,
    /// Subjects of each binding, which locate its grants when it changes.
    bindings: ByNamespace<Arc<[Subject]>>,
    users: ByNamespace<Grants>,
    groups: ByNamespace<Grants>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    User(SmolStr),
    Group(SmolStr),
}

/// Grants of one user or group in one namespace, by binding name.
type Grants = OrdMap<SmolStr, Grant>;

/// Grant of a binding to one of its subjects.
#[derive(Clone)]
struct Grant {
    role: RoleRef,
    reason: Arc<str>,
}

#[derive(Clone)]
struct RoleRef {
    of_cluster: bool,
    name: SmolStr,
}

impl RuleIndex {
    /// True if no role or binding is known.
    pub fn is_empty(&self) -> bool {
        let state = self.0.load();
        state.roles.is_empty() && state.bindings.is_empty()
    }

    /// Stores the current rules of a role; `None` if it was deleted. `namespace` is empty for ClusterRoles.
    pub fn set_role(&self, namespace: &str, name: &str, rules: Option<Vec<Rule>>) {
        let rules: Option<Arc<[Rule]>> = rules.map(Into::into);
        self.0.rcu(|state| {
            let mut next = State::clone(state);
            next.generation = next.generation.wrapping_add(1);
            set(&mut next.roles, namespace, name, rules.clone());
            next
        });
    }

    /// Stores the current state of a binding; `None` if it was deleted. `namespace` is empty for ClusterRoleBindings.
    pub fn set_binding(&self, namespace: &str, name: &str, binding: Option<&Value>) {
        let grants = binding.map(|binding| grants_of(namespace, name, binding));
        self.0.rcu(|state| {
            let mut next = State::clone(state);
            next.generation = next.generation.wrapping_add(1);
            next.take_binding(namespace, name);
            if let Some(grants) = &grants {
                next.add_binding(namespace, name, grants);
            }
            next
        });
    }
}

impl fmt::Debug for RuleIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.load();
        f.debug_struct("RuleIndex")
            .field("roles", &state.roles.values().map(HashMap::len).sum::<usize>())
            .field("bindings", &state.bindings.values().map(HashMap::len).sum::<usize>())
            .finish()
    }
}

impl Authorizer for RuleIndex {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        let namespace = match &attributes.target {
            AccessTarget::Resource(target) => target.namespace,
            AccessTarget::Path(_) => "",
        };
        let state = self.0.load();
        let mut missing = Vec::new();
        for (namespace, grant) in state.grants(user, namespace) {
            match state.rules(namespace, &grant.role) {
                Some(rules) if rules.iter().any(|rule| allows(rule, attributes)) => {
                    return Authorization {
                        decision: Decision::Allow,
                        reason: Some(Arc::clone(&grant.reason)),
                        error: None,
                    };
                }
                Some(_) => {}
                None => note_missing(&grant.role, &mut missing),
            }
        }
        let reason = match missing.as_slice() {
            [] => None,
            [one] => Some(format!("RBAC: {one}").into()),
            several => Some(format!("RBAC: [{}]", several.join(", ")).into()),
        };
        Authorization {
            decision: Decision::NoOpinion,
            reason,
            error: None,
        }
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        let state = self.0.load();
        let mut found = UserRules::default();
        for (namespace, grant) in state.grants_by_binding(user, namespace) {
            match state.rules(namespace, &grant.role) {
                Some(rules) => found.rules.extend(rules.iter().cloned()),
                None => note_missing(&grant.role, &mut found.errors),
            }
        }
        found
    }

    fn role_rules(&self, user: &User, namespace: &str) -> UserRules {
        self.rules(user, namespace)
    }

    fn generation(&self) -> u64 {
        self.0.load().generation
    }
}

fn note_missing(role: &RoleRef, missing: &mut Vec<String>) {
    let kind = if role.of_cluster { "clusterrole" } else { "role" };
    let text = format!("{kind}.rbac.authorization.k8s.io \"{}\" not found", role.name);
    if !missing.contains(&text) {
        missing.push(text);
    }
}

/// The places whose bindings hold in a namespace: the whole cluster and the namespace itself.
fn places(namespace: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain(Some(namespace).filter(|namespace| !namespace.is_empty()))
}

impl State {
    /// Iterates over the grants of `user`, first cluster-wide and then in `namespace`, each with the namespace of its
    /// binding.
    fn grants<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = (&'a str, &'a Grant)> {
        places(namespace).flat_map(move |namespace| {
            let grants = self.grants_in(user, namespace);
            grants.flat_map(move |grants| grants.values().map(move |grant| (namespace, grant)))
        })
    }

    /// Returns the same grants ordered by the names of their bindings. A binding that names the user several times, such as
    /// by name and by group, grants once.
    fn grants_by_binding<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Grant)> {
        places(namespace).flat_map(move |namespace| {
            let grants = self.grants_in(user, namespace).flat_map(OrdMap::iter);
            let by_binding: BTreeMap<&SmolStr, &Grant> = grants.collect();
            by_binding.into_values().map(move |grant| (namespace, grant))
        })
    }

    /// Returns what the user and each of the user's groups are granted in one place.
    fn grants_in<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = &'a Grants> {
        let users = self.users.get(namespace);
        let groups = self.groups.get(namespace);
        let of_user = users.and_then(|users| users.get(user.name.as_str()));
        let of_groups = groups.into_iter().flat_map(move |groups| {
            let names = user.groups.iter();
            names.filter_map(|name| groups.get(name.as_str()))
        });
        of_user.into_iter().chain(of_groups)
    }

    /// Returns the rules of the role that a binding in `namespace` refers to.
    fn rules(&self, namespace: &str, role: &RoleRef) -> Option<&Arc<[Rule]>> {
        let namespace = if role.of_cluster { "" } else { namespace };
        self.roles.get(namespace)?.get(role.name.as_str())
    }

    fn take_binding(&mut self, namespace: &str, name: &str) {
        let subjects = self.bindings.get(namespace).and_then(|names| names.get(name)).cloned();
        for subject in subjects.iter().flat_map(|subjects| subjects.iter()) {
            self.change_grants(namespace, subject, |grants| drop(grants.remove(name)));
        }
        set(&mut self.bindings, namespace, name, None);
    }

    fn add_binding(&mut self, namespace: &str, name: &str, grants: &[(Subject, Grant)]) {
        for (subject, grant) in grants {
            self.change_grants(namespace, subject, |grants| {
                // A subject that is named twice is reported at its first position.
                grants.entry(SmolStr::new(name)).or_insert_with(|| grant.clone());
            });
        }
        let subjects = grants.iter().map(|(subject, _)| subject.clone()).collect();
        set(&mut self.bindings, namespace, name, Some(subjects));
    }

    fn change_grants(&mut self, namespace: &str, subject: &Subject, change: impl FnOnce(&mut Grants)) {
        let (places, name) = match subject {
            Subject::User(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        };
        let known = places.get(namespace).and_then(|names| names.get(name.as_str()));
        let mut grants = known.cloned().unwrap_or_default();
        change(&mut grants);
        set(places, namespace, name, (!grants.is_empty()).then_some(grants));
    }
}

/// Sets the value of a name, or removes it.
fn set<T: Clone>(places: &mut ByNamespace<T>, namespace: &str, name: &str, value: Option<T>) {
    let mut names = places.get(namespace).cloned().unwrap_or_default();
    match value {
        Some(value) => {
            names.insert(SmolStr::new(name), value);
        }
        None => {
            names.remove(name);
        }
    }
    if names.is_empty() {
        places.remove(namespace);
    } else {
        places.insert(SmolStr::new(namespace), names);
    }
}

/// Returns the grants of a binding to each of its subjects.
fn grants_of(namespace: &str, name: &str, binding: &Value) -> Vec<(Subject, Grant)> {
    let text = |value: &Value, path: &[&str]| SmolStr::new(value.str_at(path).unwrap_or_default());
    let of_cluster = binding.str_at(&["roleRef", "kind"]) == Some("ClusterRole");
    let role = RoleRef {
        of_cluster,
        name: text(binding, &["roleRef", "name"]),
    };
    let allowed = {
        let kind = if of_cluster { "ClusterRole" } else { "Role" };
        let bound = if namespace.is_empty() {
            format!("ClusterRoleBinding {name:?}")
        } else {
            format!("RoleBinding {:?}", format!("{name}/{namespace}"))
        };
        format!("RBAC: allowed by {bound} of {kind} {:?}", role.name)
    };
    let mut grants = Vec::new();
    let subjects = binding.get("subjects").and_then(Value::as_list).into_iter();
    for subject in subjects.flat_map(|subjects| subjects.iter()) {
        let (kind, who) = (text(subject, &["kind"]), text(subject, &["name"]));
        let (subject, described) = match kind.as_str() {
            "User" => (Subject::User(who.clone()), format!("{who:?}")),
            "Group" => (Subject::Group(who.clone()), format!("{who:?}")),
            "ServiceAccount" => {
                let own_namespace = subject.str_at(&["namespace"]).filter(|namespace| !namespace.is_empty());
                let home = own_namespace.unwrap_or(namespace);
                (
                    Subject::User(service_account_user(home, &who)),
                    format!("{:?}", format!("{who}/{home}")),
                )
            }
            _ => continue,
        };
        let grant = Grant {
            role: role.clone(),
            reason: format!("{allowed} to {kind} {described}").into(),
        };
        grants.push((subject, grant));
    }
    grants
}

#[cfg(test)]
mod tests {

    use crate::ResourceTarget;
    use holdfast_value::{Limits, yaml};

    use super::super::rule::rules_of;
    use super::*;

    fn read(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn role(policy: &RuleIndex, namespace: &str, name: &str, rules: &str) {
        let role = read(&format!("{{rules: [{rules}]}}"));
        policy.set_role(namespace, name, Some(rules_of(&role)));
    }

    fn bind(policy: &RuleIndex, namespace: &str, name: &str, role: &str, subjects: &str) {
        let binding = read(&format!("{{roleRef: {role}, subjects: [{subjects}]}}"));
        policy.set_binding(namespace, name, Some(&binding));
    }

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..User::default()
        }
    }

    fn pods<'a>(verb: &'a str, namespace: &'a str) -> Attributes<'a> {
        let target = AccessTarget::Resource(ResourceTarget {
            resource: "pods",
            namespace,
            ..ResourceTarget::default()
        });
        Attributes { verb, target }
    }

    const READ_PODS: &str = "{verbs: [get], apiGroups: [''], resources: [pods]}";

    #[test]
    fn role_applies_in_namespace_of_binding() {
        let policy = RuleIndex::default();
        role(&policy, "a", "reader", READ_PODS);
        bind(
            &policy,
            "a",
            "readers",
            "{kind: Role, name: reader}",
            "{kind: User, name: ann}",
        );
        let ann = user("ann", &[]);
        let decision = policy.authorize(&ann, &pods("get", "a"));
        assert_eq!(
            decision.reason(),
            r#"RBAC: allowed by RoleBinding "readers/a" of Role "reader" to User "ann""#
        );
        assert!(decision.allows());
        for (verb, namespace) in [("get", "b"), ("get", ""), ("list", "a")] {
            assert_eq!(
                policy.authorize(&ann, &pods(verb, namespace)),
                Authorization::NO_OPINION
            );
        }
        assert!(!policy.authorize(&user("bob", &[]), &pods("get", "a")).allows());
    }

    #[test]
    fn cluster_role_applies_in_scope_of_binding() {
        let policy = RuleIndex::default();
        role(&policy, "", "reader", READ_PODS);
        let reader = "{kind: ClusterRole, name: reader}";
        bind(&policy, "", "all", reader, "{kind: Group, name: ops}");
        bind(&policy, "a", "some", reader, "{kind: ServiceAccount, name: robot}");
        let ops = user("x", &["ops"]);
        assert!(policy.authorize(&ops, &pods("get", "")).allows());
        assert!(policy.authorize(&ops, &pods("get", "b")).allows());
        let robot = user("system:serviceaccount:a:robot", &[]);
        assert_eq!(
            policy.authorize(&robot, &pods("get", "a")).reason(),
            r#"RBAC: allowed by RoleBinding "some/a" of ClusterRole "reader" to ServiceAccount "robot/a""#
        );
        assert!(!policy.authorize(&robot, &pods("get", "b")).allows());
    }

    #[test]
    fn removed_role_no_longer_applies() {
        let policy = RuleIndex::default();
        let (ann, devs) = (user("ann", &[]), user("dev", &["devs"]));
        let allowed = |who| policy.authorize(who, &pods("get", "a")).allows();
        role(&policy, "a", "reader", READ_PODS);
        let reader = "{kind: Role, name: reader}";
        bind(
            &policy,
            "a",
            "b",
            reader,
            "{kind: User, name: ann}, {kind: Group, name: devs}",
        );
        bind(&policy, "a", "c", reader, "{kind: User, name: ann}");
        assert!(allowed(&ann) && allowed(&devs));
        bind(&policy, "a", "b", reader, "{kind: User, name: bob}");
        assert!(allowed(&ann) && !allowed(&devs));
        policy.set_binding("a", "c", None);
        assert!(!allowed(&ann));
        assert!(allowed(&user("bob", &[])));
        policy.set_role("a", "reader", None);
        assert_eq!(
            policy.authorize(&user("bob", &[]), &pods("get", "a")).reason(),
            "RBAC: role.rbac.authorization.k8s.io \"reader\" not found"
        );
        policy.set_binding("a", "b", None);
        assert!(policy.is_empty());
    }

    #[test]
    fn rules_are_those_of_all_roles_that_hold() {
        let policy = RuleIndex::default();
        role(&policy, "", "one", READ_PODS);
        role(
            &policy,
            "a",
            "two",
            "{verbs: [list], apiGroups: [''], resources: [pods]}",
        );
        bind(
            &policy,
            "",
            "one",
            "{kind: ClusterRole, name: one}",
            "{kind: User, name: ann}",
        );
        bind(
            &policy,
            "a",
            "two",
            "{kind: Role, name: two}",
            "{kind: User, name: ann}",
        );
        bind(
            &policy,
            "a",
            "gone",
            "{kind: Role, name: gone}",
            "{kind: User, name: ann}",
        );
        let found = policy.rules(&user("ann", &[]), "a");
        let verbs: Vec<&str> = found.rules.iter().map(|rule| rule.verbs[0].as_str()).collect();
        assert_eq!(verbs, ["get", "list"]);
        assert_eq!(found.errors, ["role.rbac.authorization.k8s.io \"gone\" not found"]);
        assert_eq!(policy.rules(&user("ann", &[]), "b").rules.len(), 1);
    }

    #[test]
    fn binding_of_user_and_group_gives_its_rules_once() {
        let policy = RuleIndex::default();
        role(&policy, "", "pods", READ_PODS);
        role(
            &policy,
            "",
            "other",
            "{verbs: [list], apiGroups: [''], resources: [pods]}",
        );
        bind(
            &policy,
            "",
            "b",
            "{kind: ClusterRole, name: pods}",
            "{kind: User, name: ann}, {kind: Group, name: team}",
        );
        bind(
            &policy,
            "",
            "a",
            "{kind: ClusterRole, name: other}",
            "{kind: Group, name: team}",
        );
        let found = policy.rules(&user("ann", &["team"]), "");
        let verbs: Vec<&str> = found.rules.iter().map(|rule| rule.verbs[0].as_str()).collect();
        assert_eq!(verbs, ["list", "get"]);
    }

    /// Prints the time of a decision with 10,000 bindings: `cargo test --release -- --nocapture decision_reads`.
    #[test]
    fn decision_reads_only_roles_of_user() {
        let policy = RuleIndex::default();
        role(&policy, "", "reader", READ_PODS);
        for at in 0..10_000 {
            let (namespace, subject) = (format!("n{}", at % 100), format!("{{kind: User, name: u{at}}}"));
            bind(
                &policy,
                &namespace,
                &format!("b{at}"),
                "{kind: ClusterRole, name: reader}",
                &subject,
            );
        }
        let asker = user("u4242", &["a", "b", "system:authenticated"]);
        assert!(policy.authorize(&asker, &pods("get", "n42")).allows());
        let state = policy.0.load();
        assert_eq!(state.grants(&asker, "n42").count(), 1);
        assert_eq!(state.grants(&asker, "n43").count(), 0);
    }
}
