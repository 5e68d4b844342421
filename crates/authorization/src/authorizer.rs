//! Decisions of authorizers, and authorizers with a constant decision.

use std::pin::Pin;
use std::sync::Arc;

use holdfast_value::SmolStr;

use crate::{Attributes, User};

/// Decision of an authorizer.
///
/// ```
/// use holdfast_authorization::{Authorization, Decision};
///
/// assert!(Authorization::new(Decision::Allow).allows());
/// assert!(!Authorization::new(Decision::NoOpinion).allows());
/// ```
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
///
/// ```
/// use holdfast_authorization::{Authorization, Decision};
///
/// let denied = Authorization { reason: Some("no rule".into()), ..Authorization::new(Decision::Deny) };
/// assert_eq!((denied.allows(), denied.reason(), denied.error()), (false, "no rule", None));
/// ```
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
///
/// ```
/// use holdfast_authorization::{AccessTarget, AlwaysAllow, Attributes, Authorizer, User, Verdict};
///
/// let get = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// // An authorizer that needs no other server decides at once.
/// let Verdict::Decided(authorization) = AlwaysAllow.start(&User::default(), &get) else { panic!("it waits") };
/// assert!(authorization.allows());
/// ```
pub enum Verdict {
    /// The decision.
    Decided(Authorization),
    /// The decision needs the answer of another server.
    Ask(Pending),
}

/// Future of an authorization that waits for another server.
///
/// ```
/// use holdfast_authorization::{Authorization, Decision, Pending, Verdict};
///
/// /// Begins a decision that another server makes.
/// fn ask(answer: Pending) -> Verdict {
///     Verdict::Ask(answer)
/// }
///
/// let verdict = ask(Box::pin(async { Authorization::new(Decision::Allow) }));
/// assert!(matches!(verdict, Verdict::Ask(_)));
/// ```
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
///
/// ```
/// use holdfast_authorization::rbac::rule::allows;
/// use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, Rule};
///
/// let rule = Rule {
///     verbs: vec!["get".into()],
///     api_groups: vec!["".into()],
///     resources: vec!["pods".into()],
///     ..Rule::default()
/// };
/// let target = |resource| AccessTarget::Resource(ResourceTarget { resource, ..ResourceTarget::default() });
/// assert!(allows(&rule, &Attributes { verb: "get", target: target("pods") }));
/// assert!(!allows(&rule, &Attributes { verb: "get", target: target("secrets") }));
/// ```
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
///
/// ```
/// use holdfast_authorization::{AlwaysAllow, Authorizer, User};
///
/// let rules = AlwaysAllow.rules(&User::default(), "default");
/// assert!(rules.rules.iter().all(|rule| rule.verbs == ["*"]));
/// assert!(!rules.incomplete);
/// ```
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
///
/// ```
/// use holdfast_authorization::{AccessTarget, Attributes, Authorization, Authorizer, Decision, User, UserRules};
///
/// /// Allows everybody to read.
/// struct Readers;
///
/// impl Authorizer for Readers {
///     fn authorize(&self, _user: &User, attributes: &Attributes<'_>) -> Authorization {
///         Authorization::new(if attributes.is_read_only() { Decision::Allow } else { Decision::NoOpinion })
///     }
///     fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
///         UserRules { incomplete: true, ..UserRules::default() }
///     }
/// }
///
/// let action = |verb| Attributes { verb, target: AccessTarget::Path("/healthz") };
/// assert!(Readers.authorize(&User::default(), &action("get")).allows());
/// assert!(!Readers.authorize(&User::default(), &action("delete")).allows());
/// ```
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
///
/// ```
/// use holdfast_authorization::{AccessTarget, AlwaysAllow, Attributes, Authorizer, User};
///
/// let delete = Attributes { verb: "delete", target: AccessTarget::Path("/logs") };
/// assert!(AlwaysAllow.authorize(&User::default(), &delete).allows());
/// ```
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
///
/// ```
/// use holdfast_authorization::{AccessTarget, AlwaysDeny, Attributes, Authorizer, User};
///
/// let get = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// assert!(!AlwaysDeny.authorize(&User::default(), &get).allows());
/// ```
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
