//! What authorizers say, and those that always say the same.

use std::sync::Arc;

use holdfast_value::SmolStr;

use crate::{Attributes, User};

/// What an authorizer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allow,
    /// It may not be done, whatever other authorizers say.
    Deny,
    /// Other authorizers decide. Where none allows it, it may not be done.
    NoOpinion,
}

/// The answer of an authorizer: a decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The decision.
    pub decision: Decision,
    /// Why, for people; often empty.
    pub reason: Option<Arc<str>>,
}

impl Authorization {
    /// No opinion and nothing to say about it.
    pub const NO_OPINION: Self = Self {
        decision: Decision::NoOpinion,
        reason: None,
    };

    /// A decision without a reason.
    pub const fn of(decision: Decision) -> Self {
        Self { decision, reason: None }
    }

    /// Whether it may be done.
    pub fn allows(&self) -> bool {
        self.decision == Decision::Allow
    }

    /// Why, for people; often empty.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
}

/// What a user may do with some resources, or at some paths: a rule of a Role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The verbs, or `*`.
    pub verbs: Vec<SmolStr>,
    /// The groups, or `*`.
    pub api_groups: Vec<SmolStr>,
    /// The resources (`pods`, `pods/log`, `*/scale`), or `*`.
    pub resources: Vec<SmolStr>,
    /// The names of objects; all where there are none.
    pub resource_names: Vec<SmolStr>,
    /// Paths that are no resources (`/healthz`, `/logs/*`), or `*`.
    pub non_resource_urls: Vec<SmolStr>,
}

/// What a user may do in a namespace, as far as it can be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether there may be more that cannot be listed.
    pub incomplete: bool,
    /// What went wrong while they were looked for, such as roles that are not there.
    pub errors: Vec<String>,
}

/// Decides what users may do.
pub trait Authorizer: Send + Sync {
    /// Whether `user` may do what `attributes` say.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization;

    /// What `user` may do in `namespace`; cluster-wide where it is empty.
    fn rules(&self, user: &User, namespace: &str) -> UserRules;
}

/// Allows everything: the authorization mode `AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Authorization {
        Authorization::of(Decision::Allow)
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

/// Allows nothing: the authorization mode `AlwaysDeny`.
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
