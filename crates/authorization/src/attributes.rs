//! The attributes of a request that authorizers decide by.

use holdfast_value::SmolStr;

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
