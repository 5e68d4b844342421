//! Decisions of authorizers, and authorizers with a constant decision.

use std::pin::Pin;
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
    /// Error of the evaluation, such as that of a webhook that does not answer. The decision counts regardless of it.
    pub error: Option<Arc<str>>,
}

/// State of an authorization that may need another server.
pub enum Verdict {
    /// The decision.
    Decided(Authorization),
    /// The decision needs the answer of another server.
    Ask(Pending),
}

/// Future of an authorization that waits for another server.
pub type Pending = Pin<Box<dyn Future<Output = Authorization> + Send>>;

impl Authorization {
    /// No opinion, without a reason.
    pub const NO_OPINION: Self = Self {
        decision: Decision::NoOpinion,
        reason: None,
        error: None,
    };

    /// Creates a decision without a reason.
    pub const fn new(decision: Decision) -> Self {
        Self {
            decision,
            reason: None,
            error: None,
        }
    }

    /// True if the action is allowed.
    pub fn allows(&self) -> bool {
        self.decision == Decision::Allow
    }

    /// Returns the human-readable reason; often empty.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// Returns the error of the evaluation, if there is one.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
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
    /// Decides if `user` may perform the action of `attributes`. If that needs another server, the thread waits for it.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization;

    /// Begins to decide if `user` may perform the action of `attributes`, without waiting for another server.
    fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        Verdict::Decided(self.authorize(user, attributes))
    }

    /// Lists the permissions of `user` in `namespace`; cluster-wide if it is empty.
    fn rules(&self, user: &User, namespace: &str) -> UserRules;

    /// Lists the permissions of `user` that roles grant. Only these may be granted to others: permissions from elsewhere,
    /// such as policies in a file, must not become roles that outlive them.
    ///
    /// upstream: pkg/registry/rbac/validation#AuthorizationRuleResolver
    fn role_rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }

    /// Returns a number that changes whenever the permissions that this authorizer holds itself change. It stays the same
    /// if permissions change elsewhere, such as behind a webhook.
    fn generation(&self) -> u64 {
        0
    }
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
            error: None,
        }
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}
