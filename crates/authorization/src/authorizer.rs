//! Decisions of authorizers, and authorizers with a constant decision.

use std::sync::Arc;

use holdfast_value::SmolStr;

use crate::{Attributes, User};

/// Decision of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The action is allowed.
    Allow,
    /// The action is denied, whatever other authorizers decide.
    Deny,
    /// Other authorizers decide. If none allows the action, it is denied.
    NoOpinion,
}

/// Answer of an authorizer: a decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Decision.
    pub decision: Decision,
    /// Human-readable reason; often empty.
    pub reason: Option<Arc<str>>,
}

impl Authorization {
    /// No opinion, without a reason.
    pub const NO_OPINION: Self = Self {
        decision: Decision::NoOpinion,
        reason: None,
    };

    /// Creates a decision without a reason.
    pub const fn new(decision: Decision) -> Self {
        Self { decision, reason: None }
    }

    /// True if the action is allowed.
    pub fn allows(&self) -> bool {
        self.decision == Decision::Allow
    }

    /// Returns the human-readable reason; often empty.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
}

/// Rule of a Role: permitted verbs on some resources or paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Verbs, or `*`.
    pub verbs: Vec<SmolStr>,
    /// API groups, or `*`.
    pub api_groups: Vec<SmolStr>,
    /// Resources (`pods`, `pods/log`, `*/scale`), or `*`.
    pub resources: Vec<SmolStr>,
    /// Names of objects; empty for all.
    pub resource_names: Vec<SmolStr>,
    /// Paths outside of resources (`/healthz`, `/logs/*`), or `*`.
    pub non_resource_urls: Vec<SmolStr>,
}

/// Permissions of a user in a namespace, as far as they can be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRules {
    /// Rules of the user.
    pub rules: Vec<Rule>,
    /// True if there may be permissions that cannot be listed.
    pub incomplete: bool,
    /// Errors of the lookup, such as missing roles.
    pub errors: Vec<String>,
}

/// Authorizer: decides on the actions of users.
pub trait Authorizer: Send + Sync {
    /// Decides if `user` may perform the action of `attributes`.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization;

    /// Lists the permissions of `user` in `namespace`; cluster-wide if it is empty.
    fn rules(&self, user: &User, namespace: &str) -> UserRules;
}

/// Authorizer that allows everything: the mode `AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Authorization {
        Authorization::new(Decision::Allow)
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        let all = || vec![SmolStr::new_static("*")];
        let resources = Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Rule::default()
        };
        let paths = Rule {
            verbs: all(),
            non_resource_urls: all(),
            ..Rule::default()
        };
        UserRules {
            rules: vec![resources, paths],
            ..UserRules::default()
        }
    }
}

/// Authorizer that denies everything: the mode `AlwaysDeny`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Authorization {
        Authorization {
            decision: Decision::NoOpinion,
            reason: Some(Arc::from("Everything is forbidden.")),
        }
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}
