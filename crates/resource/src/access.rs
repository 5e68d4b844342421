//! Who asks, and what they may do: the words in which kinds, admission and the server speak of access
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/>).
//!
//! Nothing here decides anything but [`AlwaysAllow`] and [`AlwaysDeny`]; what does so implements [`Authorizer`].

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use smol_str::SmolStr;

/// The user that a request was authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `alice` or `system:serviceaccount:default:robot`.
    pub name: SmolStr,
    /// An identifier that outlives the name; may be empty.
    pub uid: SmolStr,
    /// The groups, `system:authenticated` among them.
    pub groups: Vec<SmolStr>,
    /// What else the authenticator knows: keys and their values.
    pub extra: Vec<(SmolStr, Vec<SmolStr>)>,
}

/// The group of everybody who was authenticated.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody who was not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

impl User {
    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// The server itself, which may do everything.
    pub fn server() -> Self {
        Self {
            name: SmolStr::new_static("system:apiserver"),
            groups: vec![SmolStr::new_static(MASTERS)],
            ..Self::default()
        }
    }
}

/// What a user wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// A verb of the API for resources (`get`, `list`, `impersonate`, …), an HTTP method in small letters for paths.
    pub verb: &'a str,
    /// What it is to be done to.
    pub target: AccessTarget<'a>,
}

/// What something is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    /// A resource, or objects of it.
    Resource(ResourceTarget<'a>),
    /// A path that is none of a resource.
    Path(&'a str),
}

/// A resource, or objects of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version, or `*`.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// The name of the object; empty for all objects.
    pub name: &'a str,
}

/// What an authorizer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be done.
    Allow,
    /// It may not be done, whatever other authorizers say.
    Deny,
    /// Others may say. Where nobody allows it, it may not be done.
    NoOpinion,
}

/// A verdict with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, for people; often empty.
    pub reason: Option<Arc<str>>,
}

impl Decision {
    /// No opinion and nothing to say about it.
    pub const NO_OPINION: Self = Self {
        verdict: Verdict::NoOpinion,
        reason: None,
    };

    /// A verdict without a reason.
    pub const fn of(verdict: Verdict) -> Self {
        Self { verdict, reason: None }
    }

    /// Whether it may be done.
    pub fn allows(&self) -> bool {
        self.verdict == Verdict::Allow
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
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;

    /// What `user` may do in `namespace`; cluster-wide where it is empty.
    fn rules(&self, user: &User, namespace: &str) -> UserRules;
}

/// Allows everything: the authorization mode `AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Decision {
        Decision::of(Verdict::Allow)
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
    fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Decision {
        Decision {
            verdict: Verdict::NoOpinion,
            reason: Some(Arc::from("Everything is forbidden.")),
        }
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}

/// Finds out whose a bearer token is.
pub trait TokenAuthenticator: Send + Sync {
    /// The user whose token this is, and for which of `audiences` it is good; none ask for those of this server.
    ///
    /// # Errors
    /// Where it is nobody's, or not good any more.
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError>;
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The user.
    pub user: Arc<User>,
    /// Those of the audiences asked for that the token is good for.
    pub audiences: Vec<SmolStr>,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is none of those that the authenticator knows; another may know it.
    Unknown,
    /// It is one of them, but is not to be taken, for this reason.
    Refused(String),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("invalid bearer token"),
            Self::Refused(why) => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

impl std::error::Error for TokenError {}

/// No token is anybody's.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl TokenAuthenticator for NoTokens {
    fn authenticate(&self, _token: &str, _audiences: &[&str]) -> Result<TokenUser, TokenError> {
        Err(TokenError::Unknown)
    }
}

/// Makes tokens for service accounts.
pub trait TokenIssuer: Send + Sync {
    /// The audiences of tokens that are asked for without one: those of this server.
    fn audiences(&self) -> &[SmolStr];

    /// The longest life of a token in seconds, where it is bounded.
    fn longest(&self) -> Option<i64>;

    /// Whether tokens for the pods of this server live on for a year, so that clients that never read them anew go on
    /// working.
    fn extends(&self) -> bool;

    /// The signed token.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<String, String>;
}

/// What a token says of a service account.
#[derive(Clone, Debug)]
pub struct ServiceAccountToken<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The service account.
    pub account: BoundObject,
    /// For whom the token is good.
    pub audiences: &'a [SmolStr],
    /// From when on it is good.
    pub now: SystemTime,
    /// For how many seconds.
    pub seconds: i64,
    /// After how many seconds its use is to be told of, since the client should have asked for another.
    pub warn_after: Option<i64>,
    /// The pod with whose end it ends.
    pub pod: Option<BoundObject>,
    /// The node with whose end it ends, or that the pod is on.
    pub node: Option<BoundObject>,
    /// The secret with whose end it ends.
    pub secret: Option<BoundObject>,
}

/// An object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The name.
    pub name: String,
    /// The uid; empty where it is not known.
    pub uid: String,
}

impl TokenIssuer for NoTokens {
    fn audiences(&self) -> &[SmolStr] {
        &[]
    }

    fn longest(&self) -> Option<i64> {
        None
    }

    fn extends(&self) -> bool {
        false
    }

    fn issue(&self, _token: &ServiceAccountToken<'_>) -> Result<String, String> {
        Err("this server makes no tokens".to_owned())
    }
}

/// What a step of a request may ask of access control.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// What users may do.
    pub authorizer: &'a dyn Authorizer,
    /// Whose tokens are.
    pub tokens: &'a dyn TokenAuthenticator,
    /// Who makes tokens for service accounts.
    pub issuer: &'a dyn TokenIssuer,
}

impl Access<'static> {
    /// Everybody may do everything and no token is known, for where access is not the question.
    pub const UNCHECKED: Self = Self {
        authorizer: &AlwaysAllow,
        tokens: &NoTokens,
        issuer: &NoTokens,
    };
}
