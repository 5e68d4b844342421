//! The schemas and levels that every server has: two of them fixed, the others for those who run the server to change.

use holdfast_resource::Field;
use holdfast_value::{Limits, Value, yaml};

use super::EXEMPT;
use crate::validation::same;

const GROUP_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
/// Says that the server keeps the object as it is here for as long as nobody changes it.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The levels, by name: the spec as YAML.
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

/// A schema: its name, its level, its place, what tells flows apart, whom it is for and for what.
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

/// Those that nobody may change.
const FIXED: [&str; 2] = [EXEMPT, "catch-all"];

/// The levels.
pub(super) fn levels() -> Vec<Value> {
    let levels = LEVELS.iter();
    levels
        .map(|(name, spec)| object("PriorityLevelConfiguration", name, read(spec)))
        .collect()
}

/// The schemas.
pub(super) fn schemas() -> Vec<Value> {
    let schemas = SCHEMAS.iter();
    schemas
        .map(|schema| object("FlowSchema", schema.name, schema.spec()))
        .collect()
}

/// Whether a schema or a level has a fixed spec, and that of `object` is another. The shares of what is exempt may change.
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
        match root.child("spec").child("exempt").value() {
            Some(shares) => fixed.set_at(&["exempt"], shares.clone()),
            None => {
                fixed.remove_at(&["exempt"]);
            }
        }
    }
    !same(fixed.as_ref(), object.get("spec"))
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = Value::empty_map();
    object.set_at(&["apiVersion"], GROUP_VERSION.into());
    object.set_at(&["kind"], kind.into());
    object.set_at(&["metadata", "annotations", AUTO_UPDATE], "true".into());
    object.set_at(&["metadata", "name"], name.into());
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
