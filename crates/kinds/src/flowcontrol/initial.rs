//! Default FlowSchemas and priority levels of every server: two of each are fixed, administrators may change the
//! others.

use holdfast_schema::Field;
use holdfast_schema::metadata::new_object;
use holdfast_value::{Limits, Value, yaml};

use super::EXEMPT;
use crate::defaults::put_at;
use crate::validation::same;

const GROUP_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
/// Annotation that is true as long as the server updates the object, because no client has changed it.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Priority levels by name, with the spec as YAML.
const LEVELS: [(&str, &str); 8] = [
    (
        EXEMPT,
        "{type: Exempt, exempt: {nominalConcurrencyShares: 0, lendablePercent: 0}}",
    ),
    (
        "catch-all",
        "{type: Limited, limited: {nominalConcurrencyShares: 5, lendablePercent: 0, limitResponse: {type: Reject}}}",
    ),
    (
        "global-default",
        "{type: Limited, limited: {nominalConcurrencyShares: 20, lendablePercent: 50, limitResponse: {type: Queue, queuing: \
         {queues: 128, handSize: 6, queueLengthLimit: 50}}}}",
    ),
    (
        "leader-election",
        "{type: Limited, limited: {nominalConcurrencyShares: 10, lendablePercent: 0, limitResponse: {type: Queue, queuing: \
         {queues: 16, handSize: 4, queueLengthLimit: 50}}}}",
    ),
    (
        "node-high",
        "{type: Limited, limited: {nominalConcurrencyShares: 40, lendablePercent: 25, limitResponse: {type: Queue, queuing: \
         {queues: 64, handSize: 6, queueLengthLimit: 50}}}}",
    ),
    (
        "system",
        "{type: Limited, limited: {nominalConcurrencyShares: 30, lendablePercent: 33, limitResponse: {type: Queue, queuing: \
         {queues: 64, handSize: 6, queueLengthLimit: 50}}}}",
    ),
    (
        "workload-high",
        "{type: Limited, limited: {nominalConcurrencyShares: 40, lendablePercent: 50, limitResponse: {type: Queue, queuing: \
         {queues: 128, handSize: 6, queueLengthLimit: 50}}}}",
    ),
    (
        "workload-low",
        "{type: Limited, limited: {nominalConcurrencyShares: 100, lendablePercent: 90, limitResponse: {type: Queue, queuing: \
         {queues: 128, handSize: 6, queueLengthLimit: 50}}}}",
    ),
];

/// A FlowSchema: name, priority level, precedence, flow distinguisher, subjects and rules.
struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    method: &'static str,
    subjects: &'static [Subject],
    rules: &'static str,
}

enum Subject {
    Group(&'static str),
    User(&'static str),
    /// A service account of `kube-system`.
    Account(&'static str),
}

use Subject::{Account, Group, User};

const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";
const EVERYTHING: &str = "{resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: \
                          ['*']}], nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]}";
const LEASES: &str = "{resourceRules: [{verbs: [get, create, update], apiGroups: [coordination.k8s.io], resources: [leases], \
                      namespaces: ['*']}]}";
const OF_NODES: &str = "{resourceRules: [{verbs: ['*'], apiGroups: [''], resources: [nodes, nodes/status], clusterScope: true, \
                        namespaces: ['*']}, {verbs: ['*'], apiGroups: [coordination.k8s.io], resources: [leases], \
                        namespaces: ['*']}]}";
const HEALTH: &str = "{nonResourceRules: [{verbs: [get], nonResourceURLs: [/healthz, /readyz, /livez]}]}";
const EVERYBODY: &[Subject] = &[Group("system:unauthenticated"), Group("system:authenticated")];

#[rustfmt::skip]
const SCHEMAS: [Schema; 11] = [
    Schema { name: EXEMPT, level: EXEMPT, precedence: 1, method: "", subjects: &[Group("system:masters")], rules: EVERYTHING },
    Schema { name: "catch-all", level: "catch-all", precedence: 10_000, method: BY_USER, subjects: EVERYBODY, rules: EVERYTHING },
    Schema { name: "global-default", level: "global-default", precedence: 9900, method: BY_USER, subjects: EVERYBODY, rules: EVERYTHING },
    Schema { name: "kube-controller-manager", level: "workload-high", precedence: 800, method: BY_NAMESPACE, subjects: &[User("system:kube-controller-manager")], rules: EVERYTHING },
    Schema { name: "kube-scheduler", level: "workload-high", precedence: 800, method: BY_NAMESPACE, subjects: &[User("system:kube-scheduler")], rules: EVERYTHING },
    Schema { name: "kube-system-service-accounts", level: "workload-high", precedence: 900, method: BY_NAMESPACE, subjects: &[Account("*")], rules: EVERYTHING },
    Schema { name: "probes", level: EXEMPT, precedence: 2, method: "", subjects: EVERYBODY, rules: HEALTH },
    Schema { name: "service-accounts", level: "workload-low", precedence: 9000, method: BY_USER, subjects: &[Group("system:serviceaccounts")], rules: EVERYTHING },
    Schema { name: "system-leader-election", level: "leader-election", precedence: 100, method: BY_USER, subjects: &[User("system:kube-controller-manager"), User("system:kube-scheduler"), Account("*")], rules: LEASES },
    Schema { name: "system-node-high", level: "node-high", precedence: 400, method: BY_USER, subjects: &[Group("system:nodes")], rules: OF_NODES },
    Schema { name: "system-nodes", level: "system", precedence: 500, method: BY_USER, subjects: &[Group("system:nodes")], rules: EVERYTHING },
];

/// Names of the objects that no client may change.
const FIXED: [&str; 2] = [EXEMPT, "catch-all"];

/// Returns the default priority levels.
pub(super) fn levels() -> Vec<Value> {
    let levels = LEVELS.iter();
    levels
        .map(|(name, spec)| object("PriorityLevelConfiguration", name, read(spec)))
        .collect()
}

/// Returns the default FlowSchemas.
pub(super) fn schemas() -> Vec<Value> {
    let schemas = SCHEMAS.iter();
    schemas
        .map(|schema| object("FlowSchema", schema.name, schema.spec()))
        .collect()
}

/// Returns true if `object` must have a fixed spec and differs from it. The shares of the exempt level may change.
pub(super) fn differs_from_fixed(object: &Value) -> bool {
    let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
    if !FIXED.contains(&name) {
        return false;
    }
    let mut fixed = match object.str_at(&["kind"]) {
        Some("FlowSchema") => SCHEMAS.iter().find(|schema| schema.name == name).map(Schema::spec),
        _ => LEVELS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, spec)| read(spec)),
    };
    if let Some(fixed) = &mut fixed
        && name == EXEMPT
        && fixed.get("exempt").is_some()
    {
        let root = Field::root(object);
        put_at(fixed, &["exempt"], root.child("spec").child("exempt").value().cloned());
    }
    !same(fixed.as_ref(), object.get("spec"))
}

/// Returns the update of an existing object, if it needs one. Fixed objects and those with auto-update get the spec of
/// this release. All get the annotation that states whether they auto-update.
pub(super) fn reconcile(stored: &Value, initial: &Value) -> Option<Value> {
    let name = stored.str_at(&["metadata", "name"]).unwrap_or_default();
    let said = updates_itself(stored);
    let untouched = stored.at(&["metadata", "generation"]).and_then(Value::as_i64) == Some(1);
    let updates = FIXED.contains(&name) || said.unwrap_or(untouched);
    let spec = wanted_spec(name, stored, initial).filter(|spec| updates && !same(Some(spec), stored.get("spec")));
    if said == Some(updates) && spec.is_none() {
        return None;
    }
    let mut next = stored.clone();
    if spec.is_some() {
        next.set_at(&["spec"], initial.get("spec").cloned().unwrap_or_default());
    }
    if said != Some(updates) {
        next.set_at(&["metadata", "annotations", AUTO_UPDATE], updates.to_string().into());
    }
    Some(next)
}

/// Returns the spec of this release, with the stored shares of the exempt level, which administrators may change.
fn wanted_spec(name: &str, stored: &Value, initial: &Value) -> Option<Value> {
    let mut spec = initial.get("spec")?.clone();
    if name == EXEMPT
        && spec.get("exempt").is_some()
        && let Some(exempt) = stored.at(&["spec", "exempt"])
    {
        spec.set_at(&["exempt"], exempt.clone());
    }
    Some(spec)
}

/// Returns the auto-update annotation of an object; `None` if it is not a boolean for Go's `strconv.ParseBool`.
pub(super) fn updates_itself(object: &Value) -> Option<bool> {
    match object.str_at(&["metadata", "annotations", AUTO_UPDATE])? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Returns true if one of `objects` has the name of `other`.
pub(super) fn has(objects: Vec<Value>, other: &Value) -> bool {
    let name = |object: &Value| object.str_at(&["metadata", "name"]).map(str::to_owned);
    objects.iter().any(|object| name(object) == name(other))
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = new_object(GROUP_VERSION, kind, "", name);
    object.set_at(&["metadata", "annotations", AUTO_UPDATE], "true".into());
    object.set_at(&["spec"], spec);
    object
}

fn read(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default()
}

impl Schema {
    fn spec(&self) -> Value {
        let mut rule = read(self.rules);
        let subjects: Vec<Value> = self.subjects.iter().map(Subject::object).collect();
        rule.set_at(&["subjects"], subjects.into());
        let mut spec = Value::empty_map();
        if !self.method.is_empty() {
            spec.set_at(&["distinguisherMethod", "type"], self.method.into());
        }
        spec.set_at(&["matchingPrecedence"], Value::Int(self.precedence));
        spec.set_at(&["priorityLevelConfiguration", "name"], self.level.into());
        spec.set_at(&["rules"], vec![rule].into());
        spec
    }
}

impl Subject {
    fn object(&self) -> Value {
        let (kind, field, name) = match self {
            Group(name) => ("Group", "group", name),
            User(name) => ("User", "user", name),
            Account(name) => ("ServiceAccount", "serviceAccount", name),
        };
        let mut subject = Value::empty_map();
        subject.set_at(&["kind"], kind.into());
        subject.set_at(&[field, "name"], (*name).into());
        if let Account(_) = self {
            subject.set_at(&[field, "namespace"], "kube-system".into());
        }
        subject
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn initial(name: &str) -> Value {
        let mut all = levels().into_iter().chain(schemas());
        all.find(|object| object.str_at(&["metadata", "name"]) == Some(name))
            .unwrap()
    }

    fn stored(name: &str, says: Option<&str>, generation: i64, shares: i64) -> Value {
        let mut object = initial(name);
        object.remove_at(&["metadata", "annotations", AUTO_UPDATE]);
        if let Some(says) = says {
            object.set_at(&["metadata", "annotations", AUTO_UPDATE], says.into());
        }
        object.set_at(&["metadata", "generation"], Value::Int(generation));
        let level_type = if name == EXEMPT { "exempt" } else { "limited" };
        object.set_at(&["spec", level_type, "nominalConcurrencyShares"], Value::Int(shares));
        object
    }

    /// Returns the shares and the annotation after the update.
    fn reconciled(stored: &Value) -> Option<(i64, String)> {
        let name = stored.str_at(&["metadata", "name"]).unwrap();
        let next = reconcile(stored, &initial(name))?;
        let level_type = if name == EXEMPT { "exempt" } else { "limited" };
        let shares = next
            .at(&["spec", level_type, "nominalConcurrencyShares"])
            .and_then(Value::as_i64);
        let says = next.str_at(&["metadata", "annotations", AUTO_UPDATE]);
        Some((shares.unwrap(), says.unwrap().to_owned()))
    }

    #[test]
    fn reconcile_updates_only_fixed_or_auto_update_objects() {
        let cases = [
            (stored("system", Some("true"), 2, 30), None),
            (stored("system", Some("true"), 2, 99), Some((30, "true"))),
            (stored("system", Some("false"), 2, 99), None),
            (stored("system", Some("0"), 1, 99), None),
            // Without the annotation, an object that was never changed auto-updates.
            (stored("system", None, 1, 99), Some((30, "true"))),
            (stored("system", None, 2, 99), Some((99, "false"))),
            (stored("system", Some("odd"), 2, 99), Some((99, "false"))),
            // A fixed object is updated whatever its annotation is.
            (stored("catch-all", Some("false"), 2, 99), Some((5, "true"))),
            (stored("exempt", Some("true"), 2, 7), None),
        ];
        for (stored, expected) in cases {
            let expected = expected.map(|(shares, says)| (shares, says.to_owned()));
            assert_eq!(reconciled(&stored), expected, "{stored:?}");
        }
    }

    #[test]
    fn the_schemas_are_those_of_the_reference() {
        let names: Vec<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
        assert_eq!(
            names,
            [
                "exempt",
                "catch-all",
                "global-default",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-system-service-accounts",
                "probes",
                "service-accounts",
                "system-leader-election",
                "system-node-high",
                "system-nodes",
            ]
        );
    }
}
