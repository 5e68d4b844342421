//! FlowSchemas and PriorityLevelConfigurations, read from their objects.

use bytes::Bytes;
use holdfast_authorization::service_account_user;
use holdfast_value::{SmolStr, Value};

use crate::shuffle::Dealer;

/// Schema and level of requests that are never limited.
pub(crate) const EXEMPT: &str = "exempt";
/// Schema and level of requests that no other schema matches.
pub(crate) const CATCH_ALL: &str = "catch-all";

/// Configuration of a priority level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSpec {
    /// Name of the level.
    pub name: SmolStr,
    /// Uid of the object; empty if there is none.
    pub uid: Bytes,
    /// Limits on the level's requests.
    pub limiting: Limiting,
    /// Its share of all seats.
    pub shares: i64,
    /// Percentage of its seats that it lends.
    pub lendable_percent: i64,
    /// Maximum number of borrowed seats, as a percentage of its own.
    pub borrowing_limit_percent: Option<i64>,
}

/// Treatment of requests if a level has no free seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiting {
    /// The level is never full.
    Exempt,
    /// Requests are rejected.
    Reject,
    /// Requests wait in queues.
    Queue(Queuing),
}

/// Queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queuing {
    pub(crate) queues: u64,
    pub(crate) hand_size: u64,
    pub(crate) length_limit: u64,
    pub(crate) dealer: Dealer,
}

impl Queuing {
    /// Creates `queues` queues of at most `length_limit` requests, of which a flow gets a hand of `hand_size`; `None`
    /// if such a hand cannot be dealt.
    pub fn new(queues: u64, hand_size: u64, length_limit: u64) -> Option<Self> {
        Some(Self {
            queues,
            hand_size,
            length_limit,
            dealer: Dealer::new(queues, hand_size)?,
        })
    }
}

impl LevelSpec {
    /// Reads an object; `None` if it is invalid in a way that the validation of writes rejects.
    pub fn read(object: &Value) -> Option<Self> {
        let name = object.str_at(&["metadata", "name"])?;
        let level_type = object.str_at(&["spec", "type"])?;
        let (limited, exempt) = (object.at(&["spec", "limited"]), object.at(&["spec", "exempt"]));
        let is_exempt = level_type == "Exempt";
        if (name == EXEMPT) != is_exempt || limited.is_some() == is_exempt || exempt.is_some() != is_exempt {
            return None;
        }
        let number = |field: &str| {
            let value = limited.or(exempt).and_then(|spec| spec.get(field));
            value.and_then(Value::as_i64)
        };
        let limiting = match limited {
            None => Limiting::Exempt,
            Some(limited) => read_response(limited)?,
        };
        Some(Self {
            name: name.into(),
            uid: uid(object),
            limiting,
            shares: number("nominalConcurrencyShares").unwrap_or_default().max(0),
            lendable_percent: number("lendablePercent").unwrap_or_default().clamp(0, 100),
            borrowing_limit_percent: number("borrowingLimitPercent").filter(|_| !is_exempt),
        })
    }

    /// Returns the exempt level, for use without an object of it.
    pub(crate) fn exempt() -> Self {
        Self {
            name: SmolStr::new_static(EXEMPT),
            uid: Bytes::new(),
            limiting: Limiting::Exempt,
            shares: 0,
            lendable_percent: 0,
            borrowing_limit_percent: None,
        }
    }

    /// Returns the catch-all level, for use without an object of it.
    pub(crate) fn catch_all() -> Self {
        Self {
            name: SmolStr::new_static(CATCH_ALL),
            limiting: Limiting::Reject,
            shares: 5,
            ..Self::exempt()
        }
    }
}

fn read_response(limited: &Value) -> Option<Limiting> {
    let queuing = limited.at(&["limitResponse", "queuing"]);
    match (limited.str_at(&["limitResponse", "type"])?, queuing) {
        ("Reject", None) => Some(Limiting::Reject),
        ("Queue", Some(queuing)) => {
            let integer = |field: &str| queuing.get(field).and_then(Value::as_i64);
            let number = |field: &str| u64::try_from(integer(field)?).ok();
            let queuing = Queuing::new(number("queues")?, number("handSize")?, number("queueLengthLimit")?);
            queuing.map(Limiting::Queue)
        }
        _ => None,
    }
}

fn uid(object: &Value) -> Bytes {
    let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default();
    Bytes::copy_from_slice(uid.as_bytes())
}

/// Configuration of a flow schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaSpec {
    /// Name of the schema.
    pub name: SmolStr,
    /// Uid of the object; empty if there is none.
    pub uid: Bytes,
    /// Name of its level.
    pub level: SmolStr,
    /// Precedence: lower values are matched first.
    pub precedence: i64,
    /// Flow distinguisher method.
    pub distinguisher: Distinguisher,
    pub(crate) rules: Vec<Rule>,
}

/// Distinguisher of a schema's flows (`distinguisherMethod`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distinguisher {
    /// The schema has one flow.
    #[default]
    None,
    /// By user.
    ByUser,
    /// By the namespace of the request.
    ByNamespace,
}

/// Rule of a schema: subjects and targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) targets: Targets,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    Everybody,
    User(SmolStr),
    Group(SmolStr),
    /// All service accounts of a namespace.
    AccountsOf(SmolStr),
}

/// Targets of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Targets {
    pub(crate) resources: Vec<ResourceRule>,
    pub(crate) paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceRule {
    pub(crate) verbs: Names,
    pub(crate) groups: Names,
    pub(crate) resources: Names,
    pub(crate) cluster_scope: bool,
    pub(crate) namespaces: Names,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathRule {
    pub(crate) verbs: Names,
    pub(crate) paths: Vec<SmolStr>,
}

/// Some names, or all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Names {
    All,
    Some(Vec<SmolStr>),
}

impl Names {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.iter().any(|known| known == name),
        }
    }
}

const ALL: &str = "*";

impl SchemaSpec {
    /// Reads an object; `None` if it has no name.
    pub fn read(object: &Value) -> Option<Self> {
        Some(Self {
            name: object.str_at(&["metadata", "name"])?.into(),
            uid: uid(object),
            level: object
                .str_at(&["spec", "priorityLevelConfiguration", "name"])
                .unwrap_or_default()
                .into(),
            precedence: object
                .at(&["spec", "matchingPrecedence"])
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            distinguisher: match object.str_at(&["spec", "distinguisherMethod", "type"]) {
                Some("ByUser") => Distinguisher::ByUser,
                Some("ByNamespace") => Distinguisher::ByNamespace,
                _ => Distinguisher::None,
            },
            rules: items(object.get("spec"), "rules").map(read_rule).collect(),
        })
    }

    /// Returns the exempt schema, for use without an object of it.
    pub(crate) fn exempt() -> Self {
        Self {
            name: SmolStr::new_static(EXEMPT),
            uid: Bytes::new(),
            level: SmolStr::new_static(EXEMPT),
            precedence: 1,
            distinguisher: Distinguisher::None,
            rules: vec![Rule {
                subjects: vec![Subject::Group(SmolStr::new_static(holdfast_authorization::MASTERS))],
                targets: Targets::everything(),
            }],
        }
    }

    /// Returns the catch-all schema, for use without an object of it.
    pub(crate) fn catch_all() -> Self {
        use holdfast_authorization::{AUTHENTICATED, UNAUTHENTICATED};
        let groups = [UNAUTHENTICATED, AUTHENTICATED].map(|group| Subject::Group(SmolStr::new_static(group)));
        Self {
            name: SmolStr::new_static(CATCH_ALL),
            level: SmolStr::new_static(CATCH_ALL),
            precedence: 10_000,
            distinguisher: Distinguisher::ByUser,
            rules: vec![Rule {
                subjects: groups.to_vec(),
                targets: Targets::everything(),
            }],
            ..Self::exempt()
        }
    }
}

impl Targets {
    fn everything() -> Self {
        Self {
            resources: vec![ResourceRule {
                verbs: Names::All,
                groups: Names::All,
                resources: Names::All,
                cluster_scope: true,
                namespaces: Names::All,
            }],
            paths: vec![PathRule {
                verbs: Names::All,
                paths: vec![SmolStr::new_static(ALL)],
            }],
        }
    }
}

fn items<'v>(value: Option<&'v Value>, field: &str) -> impl Iterator<Item = &'v Value> {
    let list = value.and_then(|value| value.get(field)).and_then(Value::as_list);
    list.into_iter().flat_map(|list| list.iter())
}

fn texts(value: &Value, field: &str) -> Vec<SmolStr> {
    items(Some(value), field)
        .filter_map(Value::as_str)
        .map(SmolStr::new)
        .collect()
}

/// `*` is a wildcard only as the single name.
fn names(value: &Value, field: &str) -> Names {
    let names = texts(value, field);
    match names.as_slice() {
        [all] if all == ALL => Names::All,
        _ => Names::Some(names),
    }
}

fn read_rule(rule: &Value) -> Rule {
    let resources = items(Some(rule), "resourceRules").map(|rule| ResourceRule {
        verbs: names(rule, "verbs"),
        groups: names(rule, "apiGroups"),
        resources: names(rule, "resources"),
        cluster_scope: rule.get("clusterScope").and_then(Value::as_bool).unwrap_or_default(),
        namespaces: names(rule, "namespaces"),
    });
    let paths = items(Some(rule), "nonResourceRules").map(|rule| PathRule {
        verbs: names(rule, "verbs"),
        paths: texts(rule, "nonResourceURLs"),
    });
    Rule {
        subjects: items(Some(rule), "subjects").filter_map(read_subject).collect(),
        targets: Targets {
            resources: resources.collect(),
            paths: paths.collect(),
        },
    }
}

fn read_subject(subject: &Value) -> Option<Subject> {
    Some(match subject.str_at(&["kind"])? {
        "User" => match subject.str_at(&["user", "name"])? {
            ALL => Subject::Everybody,
            name => Subject::User(name.into()),
        },
        "Group" => match subject.str_at(&["group", "name"])? {
            ALL => Subject::Everybody,
            name => Subject::Group(name.into()),
        },
        "ServiceAccount" => {
            let namespace = subject.str_at(&["serviceAccount", "namespace"])?;
            match subject.str_at(&["serviceAccount", "name"])? {
                ALL => Subject::AccountsOf(namespace.into()),
                name => Subject::User(service_account_user(namespace, name)),
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here fails the test")]
pub(crate) mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    pub(crate) fn object(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn level(name: &str, spec: &str) -> Option<LevelSpec> {
        LevelSpec::read(&object(&format!(
            "{{metadata: {{name: {name}, uid: u}}, spec: {{{spec}}}}}"
        )))
    }

    #[test]
    fn levels_are_read_with_their_queues() {
        let queue = "limitResponse: {type: Queue, queuing: {queues: 64, handSize: 6, queueLengthLimit: 50}}";
        let spec =
            format!("type: Limited, limited: {{nominalConcurrencyShares: 7, borrowingLimitPercent: 9, {queue}}}");
        let read = level("a", &spec).unwrap();
        assert_eq!(read.limiting, Limiting::Queue(Queuing::new(64, 6, 50).unwrap()));
        assert_eq!(
            (read.shares, read.lendable_percent, read.borrowing_limit_percent),
            (7, 0, Some(9))
        );
        let exempt = level(
            "exempt",
            "type: Exempt, exempt: {nominalConcurrencyShares: 0, lendablePercent: 0}",
        );
        assert_eq!(exempt.map(|exempt| exempt.limiting), Some(Limiting::Exempt));
    }

    #[test]
    fn broken_levels_are_none() {
        for (name, spec) in [
            ("a", "type: Exempt, exempt: {}"),
            ("exempt", "type: Limited, limited: {limitResponse: {type: Reject}}"),
            ("a", "type: Limited"),
            ("a", "type: Limited, limited: {limitResponse: {type: Queue}}"),
            (
                "a",
                "type: Limited, limited: {limitResponse: {type: Reject, queuing: {queues: 1}}}",
            ),
            (
                "a",
                "type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 4, handSize: 6, queueLengthLimit: 50}}}",
            ),
        ] {
            assert_eq!(level(name, spec), None, "{spec}");
        }
    }
}
